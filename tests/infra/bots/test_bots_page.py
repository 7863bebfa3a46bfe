"""docs/bots.md: its definitions are accepted, and its templates send what each service documents."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from pydantic import SecretStr

from infra.bots.definition import BotDefinition, read_bots
from infra.bots.table import KINDS, order_adapter
from infra.bots.webhook import WebhookAdapter
from infra.settings import load_settings
from tests.infra.bots.test_webhook import order
from tests.infra.fakes.server import FakeServer, Say

PAGE = Path(__file__).parents[3] / "docs" / "bots.md"
MARKETS = {"three-commas": "BTCUSDT", "okx": "BTC-USDT-SWAP", "tradingview-style": "BTCUSDT", "traderspost": "BTCUSD"}
THREE_COMMAS = {"secret": "s3cret", "bot_uuid": "the bot's UUID", "tv_exchange": "BINANCE", "max_lag": "300"}
OKX = {
    "signalToken": "s3cret", "maxLag": "60", "orderType": "market", "orderPriceOffset": "", "amount": "10",
    "investmentType": "percentage_balance",
}  # fmt: skip
SENT: dict[str, tuple[str, str, dict[str, Any]]] = {
    "tradingview-style": ("buy", "close", {"passphrase": "s3cret", "ticker": "BTCUSDT"}),
    "three-commas": ("enter_long", "exit_long", {**THREE_COMMAS, "tv_instrument": "BTCUSDT"}),
    "okx": ("ENTER_LONG", "EXIT_LONG", {**OKX, "instrument": "BTC-USDT-SWAP"}),
    "traderspost": ("buy", "exit", {"ticker": "BTCUSD"}),
}


@pytest.fixture(scope="module")
def bots(tmp_path_factory: pytest.TempPathFactory) -> dict[str, BotDefinition]:
    blocks = re.findall(r"^ *```toml\n(.*?)^ *```", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    file = tmp_path_factory.mktemp("page") / "bots.toml"
    file.write_text("\n".join(map(textwrap.dedent, blocks)), "utf-8")
    return read_bots(file, tuple(KINDS))


async def test_every_definition_of_the_page_is_accepted(bots: dict[str, BotDefinition]) -> None:
    names = [name.replace("-", "_") for name in bots]
    settings = load_settings(
        bots_private_addresses=True, bot_secret={name: SecretStr("s3cret") for name in names}, newsproof_mode="offline"
    )
    assert set(SENT) < set(bots) and {"my-paper", "ft"} < set(bots)
    for bot in bots.values():
        await order_adapter(bot, settings).close()


@pytest.mark.parametrize("name", SENT)
async def test_a_template_sends_what_the_service_documents(bots: dict[str, BotDefinition], name: str) -> None:
    entered, left, fixed = SENT[name]
    async with FakeServer(Say({"success": True})) as server:
        address = re.sub(r"^https://[^/]+", server.url, bots[name].url)
        adapter = WebhookAdapter(replace(bots[name], url=address), ("s3cret",), private=True)
        for intent in ("enter", "exit"):
            made = replace(order(intent), instrument=MARKETS[name])
            assert (await adapter.perform(made)).outcome == "delivered"
        await adapter.close()
    for request, action in zip(server.requests, (entered, left), strict=True):
        varies = {one: said for one in ("id", "timestamp") if (said := request.json.get(one))}
        assert request.json == {**fixed, **varies, "action": action}
        assert "webhook-signature" not in request.headers
    assert name != "traderspost" or server.requests[0].path.endswith("/webhook/s3cret")
