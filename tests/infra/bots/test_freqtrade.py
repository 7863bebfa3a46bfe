"""Our adapter against freqtrade's wire shape. tests/foreign puts the real one through the same walk."""

from __future__ import annotations

from typing import Any

import pytest

from schemas.errors import ConfigError, TransientError
from tests.infra.fakes.freqtrade import WALKED, FakeFreqtrade, adapter, order, walk
from tests.infra.fakes.server import HangUp, Say


async def test_entries_and_exits_are_made_once_and_refusals_are_in_freqtrades_words() -> None:
    async with FakeFreqtrade() as server:
        far = adapter(server.url)
        assert await walk(far) == WALKED
        await far.close()
    assert [one["enter_tag"] for one in server.trades] == ["np_e1"]


@pytest.mark.parametrize(
    ("config", "changes", "said"),
    [
        ({"dry_run": False}, {}, r'it trades real money; set "dry_run": true there, or mode = "live" here$'),
        ({}, {"mode": "live"}, 'it is in dry run; set "dry_run": false there, or mode = "paper" here'),
        ({"force_entry_enable": False}, {}, 'forced entries are off; set "force_entry_enable": true'),
        ({"position_adjustment_enable": True}, {}, "position_adjustment_enable is on"),
        ({"state": "stopped"}, {}, "its state is 'stopped'; start it with POST /api/v1/start"),
        ({"max_open_trades": 2.0}, {}, "max_open_trades is 2, below open_positions 3"),
        ({}, {"sides": ("long", "short")}, r'it cannot go short \(spot\); write sides = \["long"\]'),
        (
            {"max_open_trades": 1, "state": "stopped"},
            {},
            "'stopped'; start it with POST /api/v1/start; max_open_trades",
        ),
    ],
)
async def test_a_freqtrade_that_is_not_ready_is_refused_with_what_to_change(
    config: dict[str, Any], changes: dict[str, Any], said: str
) -> None:
    async with FakeFreqtrade(**config) as server:
        far = adapter(server.url, **changes)
        with pytest.raises(ConfigError, match=said):
            await far.check()
        server.config |= {"max_open_trades": -1}  # no limit
        server.instead["show_config"] = Say({"detail": "Unauthorized"}, status=401)
        with pytest.raises(ConfigError, match=r"refuses \(Unauthorized\): correct username or BOT_SECRET_B"):
            await far.check()
        await far.close()


async def test_a_lost_answer_is_unknown_and_what_was_done_is_seen_by_its_tag() -> None:
    async with FakeFreqtrade() as server:
        far = adapter(server.url)
        for lost in (HangUp(), Say(b"<html>502 Bad Gateway</html>", status=502)):
            reference = f"e{len(server.trades)}"
            server.instead["forceenter"] = lost
            result = await far.perform(order("enter", reference, ("BTC/USDT", "ETH/USDT")[len(server.trades)]))
            assert result.outcome == "unknown", result
            assert (await far.positions() or {})[reference].is_open
        server.trades.append({"trade_id": 9, "pair": "SOL/USDT", "is_open": True, "enter_tag": "force_entry"})
        assert set(await far.positions() or {}) == {"e0", "e1"}, "a person's own trade is not ours"
        server.instead["forceexit"] = HangUp()
        assert (await far.perform(order("exit", "e0"))).outcome == "unknown"
        assert (await far.perform(order("exit", "e0"))).outcome == "delivered"
        server.instead["forceexit"] = Say(
            {"error": "Error querying /api/v1/forceexit: Failed to exit trade."}, status=502
        )
        result = await far.perform(order("exit", "e1"))
        assert (result.outcome, result.reason) == ("refused", "Error querying /api/v1/forceexit: Failed to exit trade.")
        server.instead["status"] = Say(
            {"error": "Error querying /api/v1/status: Bot is not in the correct state"}, status=502
        )
        result = await far.perform(order("exit", "e1"))
        assert (result.outcome, result.wait_s) == ("throttled", 1.0), "not done, so it is asked again"
    for call in (far.check(), far.positions(), far.stop_entries()):
        with pytest.raises(TransientError, match="does not respond: start it, or correct url"):
            await call
    await far.close()


@pytest.mark.parametrize(
    ("url", "changes", "said"),
    [
        ("127.0.0.1:8080", {}, r"^\[b\] url is"),
        ("http://10.0.0.9", {"private": False}, r"^\[b\] url: .* set BOTS_PRIVATE_ADDRESSES=true"),
        ("http://10.0.0.9", {"secrets": ()}, r"^\[b\]: username is empty, or BOT_SECRET_B is not set"),
        ("http://10.0.0.9", {"username": ""}, r"^\[b\]: username is empty"),
    ],
)
def test_a_wrong_definition_is_refused_with_the_fields_name(url: str, changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        adapter(url, **changes)
