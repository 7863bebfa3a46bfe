"""Webhooks of bots: what the receiver gets, what its answers mean, and which definitions are refused at start."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from standardwebhooks.webhooks import Webhook

from infra.bots.adapter import Order
from infra.bots.definition import BotDefinition, read_bots
from infra.bots.webhook import WebhookAdapter
from infra.redaction import redacted
from schemas.errors import ConfigError
from tests.infra.fakes.server import Behaviour, FakeServer, HangUp, Reset, Say
from tests.infra.fakes.webhooks import SECRET
from tests.newsproof.signal_samples import signal

pytestmark = pytest.mark.security
OTHER = "whsec_" + "b" * 43 + "="
TRADERSPOST = {
    "template": {
        "ticker": "{{instrument}}",
        "action": "{{action}}",
        "at": ["{{confidence}}", "id {{id}} {{ reason }}"],
    },
    "words": {"enter_long": "buy", "exit_long": "exit", "enter_short": "sell", "exit_short": "exit"},
    "refused_if": {"success": False},
}


def bot(**fields: Any) -> BotDefinition:
    return BotDefinition(**{"name": "my-bot", "kind": "webhook", "url": "https://example.com/hook", **fields})


def order(intent: Any = "enter", reason: str = "buy {{secret}}") -> Order:
    return Order(
        bot="my-bot", intent=intent, instrument="BTC/USDT", side="long", reference="ref", signal=signal("a claim"),
        reason=reason, at=datetime.now(UTC),
    )  # fmt: skip


async def test_it_is_signed_by_both_secrets_with_an_id_that_a_receiver_recognises() -> None:
    async with FakeServer(Say()) as server:
        adapter = WebhookAdapter(bot(url=f"{server.url}/hook"), (SECRET, OTHER), private=True)
        for intent in ("enter", "exit"):
            assert (await adapter.perform(order(intent))).outcome == "delivered"
        await adapter.close()
    entered, exited = server.requests
    for secret in (SECRET, OTHER):
        said = Webhook(secret).verify(entered.body, entered.headers)
    assert said["type"] == "newsproof.position.enter"
    assert said["data"]["id"] == entered.headers["webhook-id"] == f"np_{signal('a claim').signal_id}_1"
    assert {n: said["data"][n] for n in ("intent", "side", "instrument", "reference", "verdict")} == {
        "intent": "enter", "side": "long", "instrument": "BTC/USDT", "reference": "ref", "verdict": "confirmed",
    }  # fmt: skip
    assert exited.headers["webhook-id"].endswith("_1_exit")
    assert len(entered.body) < 20_000


async def test_a_template_is_filled_once_and_may_carry_the_secret_in_its_address() -> None:
    async with FakeServer(Say({"success": True})) as server:
        made = bot(url=f"{server.url}/hook/{{{{secret}}}}", **TRADERSPOST)
        adapter = WebhookAdapter(made, ("token-of-the-receiver",), private=True)
        assert (await adapter.perform(order())).outcome == "delivered"
        await adapter.close()
    (request,) = server.requests
    assert request.path == "/hook/token-of-the-receiver"
    id = f"np_{signal('a claim').signal_id}_1"
    assert request.json == {"ticker": "BTC/USDT", "action": "buy", "at": [0.8, f"id {id} buy {{{{secret}}}}"]}
    assert "webhook-signature" not in request.headers
    assert "token-of-the-receiver" not in redacted("sent to token-of-the-receiver")


@pytest.mark.parametrize(
    ("answer", "outcome", "wait_s"),
    [
        (Say(status=204), "delivered", 0),
        (Say({"success": False, "message": "market closed"}), "refused", 0),
        (Say({"success": True}), "delivered", 0),
        (Say(b"<html>Bad gateway</html>"), "unknown", 0),
        (Say(status=302, headers={"location": "https://elsewhere.example"}), "refused", 0),
        (Say(status=400), "refused", 0),
        (Say(status=410), "disabled", 0),
        (Say(status=429, headers={"retry-after": "7"}), "throttled", 7),
        (Say(status=429), "throttled", 5),
        (Say(status=503), "unknown", 0),
        (HangUp(), "unknown", 0),
        (Reset(b"HTTP/1.1 200 OK\r\n"), "unknown", 0),
        (None, "throttled", 0),
    ],
)
async def test_what_an_answer_means(answer: Behaviour | None, outcome: str, wait_s: float) -> None:
    """None: nobody listens, so nothing was sent. A bare 204 has no field that says refused."""
    fields = TRADERSPOST if not isinstance(answer, Say) or answer.status == 200 else {}
    async with FakeServer(answer or Say()) as server:
        url = server.url if answer is not None else "http://127.0.0.1:9"
        adapter = WebhookAdapter(bot(url=f"{url}/hook", **fields), (SECRET,), private=True)
        result = await adapter.perform(order())
        await adapter.close()
    assert (result.outcome, result.wait_s) == (outcome, wait_s), result.reason
    assert result.reason or outcome == "delivered"


@pytest.mark.parametrize("host", ["127.0.0.1", "169.254.169.254", "10.0.0.1", "localhost"])
async def test_private_addresses_are_refused_before_anything_is_sent(host: str) -> None:
    adapter = WebhookAdapter(bot(url=f"https://{host}/hook"), (SECRET,), private=False)
    result = await adapter.perform(order())
    await adapter.close()
    assert (result.outcome, "BOTS_PRIVATE_ADDRESSES" in result.reason) == ("refused", True), result.reason


@pytest.mark.parametrize(
    ("fields", "secrets", "says"),
    [
        ({}, (), "BOT_SECRET_MY_BOT is not set"),
        ({}, ("hunter2hunter2",), "BOT_SECRET_MY_BOT does not hold one secret, or two separated by a comma"),
        ({}, (SECRET, SECRET, SECRET), "or two separated by a comma"),
        ({}, ("whsec_!",), "BOT_SECRET_MY_BOT does not hold one secret"),
        ({"url": "http://example.com"}, (SECRET,), "url is not https"),
        ({"url": "example.com"}, (SECRET,), r"\[my-bot\] url is 'example.com', not an http"),
        ({"url": "https://h/{{bot}}"}, (SECRET,), "only {{secret}} may be used in it"),
        ({"template": {"a": "{{price}}"}}, (SECRET,), "template: {{price}} is not a field; write one of action, asset"),
        ({"template": {"a": "{{secret}}"}}, (), "BOT_SECRET_MY_BOT is not set"),
        ({"template": {"a": datetime.now(UTC)}}, (SECRET,), "template: Object of type datetime"),
        ({"refused_if": {"ok": False}}, (SECRET,), "refused_if or words, which need a template"),
        ({"template": {}, "words": {"buy": "b"}}, (SECRET,), "'buy' is not an action; write one of enter_long"),
    ],
)
def test_a_wrong_definition_is_refused_at_start(fields: dict[str, Any], secrets: tuple[str, ...], says: str) -> None:
    with pytest.raises(ConfigError, match=says.replace("{", r"\{")) as told:
        WebhookAdapter(bot(**fields), secrets, private=False)
    assert "hunter2" not in str(told.value)


@pytest.mark.parametrize(
    ("written", "says"),
    [
        ("[b", "cannot be read"),
        ("[Bad_Name]\nkind = 'webhook'", r"\[Bad_Name\]: name each bot's table"),
        ("[b]\nkind = 'telepathy'", r"\[b\]: kind is 'telepathy'; write one of webhook"),
        ("[b]\nkind = 'webhook'\nsecret = 's'", r"\[b\]: .*`secret`"),
        ("[b]\nkind = 'webhook'\nlimits.min_confidence = 70", r"\[b\]: .* - at `\$.limits.min_confidence`"),
        ("[b]\nkind = 'webhook'\nmode = 'real'", r"\[b\]: .* - at `\$.mode`"),
        ("[b]\nkind = 'webhook'\nmap = { BTC = 'X', btc = 'Y' }", "map names an asset twice"),
        ("[b]\nkind = 'webhook'\nmap = { BTC = '' }", "an asset without an instrument"),
    ],
)
def test_a_wrong_file_is_refused_with_the_bot_and_the_field(tmp_path: Path, written: str, says: str) -> None:
    file = tmp_path / "bots.toml"
    with pytest.raises(ConfigError, match="define bots there"):
        read_bots(file, ("webhook",))
    file.write_text(written)
    with pytest.raises(ConfigError, match=says):
        read_bots(file, ("webhook",))
    file.write_text("[b]\nkind = 'webhook'\nmap = { btc = 'BTC/USDT' }")
    assert read_bots(file, ("webhook",))["b"].map == {"BTC": "BTC/USDT"}
    file.chmod(0o666)
    with pytest.raises(ConfigError, match="is writable by everybody, and it says where orders are sent"):
        read_bots(file, ("webhook",))


def test_the_body_of_the_longest_signal_fits() -> None:
    adapter = WebhookAdapter(bot(), (SECRET,), private=False)
    long = signal("a", summary="长" * 100_000, notes="长" * 100_000)
    body = adapter._body(
        Order(**{n: getattr(order(reason="长" * 9_000), n) for n in Order.__struct_fields__} | {"signal": long})
    )
    assert len(json.dumps(body, ensure_ascii=False).encode()) < 20_000
