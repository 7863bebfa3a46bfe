"""freqtrade's REST API as version 2026.9 answers it: the bodies of its forced entries and exits, and its refusals.

``walk`` is what both this server and the real freqtrade (tests/foreign) are put through, with the same results.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any, Literal
from urllib.parse import urlsplit

from infra.bots.adapter import Order
from infra.bots.definition import BotDefinition
from infra.bots.freqtrade import Freqtrade
from schemas.errors import ConfigError
from tests.builders import signal
from tests.infra.fakes.server import Behaviour, FakeServer, Received, Say

USERNAME, PASSWORD = "newsproof", "a password"
CONFIG: dict[str, Any] = {
    "version": "2026.9", "api_version": 2.5, "dry_run": True, "trading_mode": "spot", "margin_mode": "",
    "short_allowed": False, "stake_currency": "USDT", "stake_amount": "100", "max_open_trades": 3.0,
    "strategy": "NewsproofPassThrough", "force_entry_enable": True, "state": "running", "runmode": "dry_run",
    "position_adjustment_enable": False, "max_entry_position_adjustment": -1,
}  # fmt: skip
PAIRS = ("BTC/USDT", "ETH/USDT", "SOL/USDT")


class FakeFreqtrade(FakeServer):
    """A running bot with the pass-through strategy. ``config`` changes what ``/show_config`` says; ``instead`` answers an
    endpoint differently once, after it was done."""

    def __init__(self, **config: Any) -> None:
        super().__init__(Say())
        self.config = {**CONFIG, **config}
        self.instead: dict[str, Behaviour] = {}
        self.trades: list[dict[str, Any]] = []

    def _chosen(self, request: Received) -> Behaviour:
        what = urlsplit(request.path).path.removeprefix("/api/v1/")
        told = Say({"detail": "Unauthorized"}, status=401)
        if "authorization" in request.headers:
            told = (
                getattr(self, what)(**(request.json if request.body else {}))
                if request.method == "POST"
                else getattr(self, f"get_{what}")()
            )
        return self.instead.pop(what, told)

    def get_show_config(self) -> Say:
        return Say(self.config)

    def get_status(self) -> Say:
        return Say([one for one in self.trades if one["is_open"]])

    def get_trades(self) -> Say:
        closed = [one for one in self.trades if not one["is_open"]]
        return Say({"trades": closed, "trades_count": len(closed), "offset": 0, "total_trades": len(closed)})

    def forceenter(self, *, pair: str, side: str, entry_tag: str) -> Say:
        open_ones = [one for one in self.trades if one["is_open"]]
        held = next((one["trade_id"] for one in open_ones if one["pair"] == pair), None)
        for is_wrong, why in (
            (self.config["state"] != "running", "trader is not running"),
            (side == "short", "Can't go short on Spot markets."),
            (pair not in PAIRS, "Symbol does not exist or market is not active."),
            (held is not None, f"position for {pair} already open - id: {held}"),
            (len(open_ones) >= self.config["max_open_trades"], "Maximum number of trades is reached."),
            (any(one["enter_tag"] == entry_tag for one in self.trades), f"Failed to enter position for {pair}."),
        ):
            if is_wrong:
                return _refused("forceenter", why)
        trade = {
            "trade_id": len(self.trades) + 1,
            "pair": pair,
            "is_open": True,
            "is_short": False,
            "enter_tag": entry_tag,
        }
        self.trades.append(trade)
        return Say(trade)

    def forceexit(self, *, tradeid: str) -> Say:
        trade = next((one for one in self.trades if one["is_open"] and str(one["trade_id"]) == tradeid), None)
        if trade is None:
            return _refused("forceexit", "invalid argument")
        trade["is_open"] = False
        return Say({"result": f"Created exit order for trade {tradeid}."})

    def stopentry(self) -> Say:
        self.config["state"] = "paused"
        return Say({"status": "paused, no more entries will occur from now. Run /start to enable entries."})


def _refused(what: str, why: str) -> Say:
    return Say({"error": f"Error querying /api/v1/{what}: {why}"}, status=502)


def adapter(url: str, *, secrets: tuple[str, ...] = (PASSWORD,), private: bool = True, **fields: Any) -> Freqtrade:
    given: dict[str, Any] = {"name": "b", "kind": "freqtrade", "url": url, "username": USERNAME, "sides": ("long",)}
    return Freqtrade(BotDefinition(**{**given, **fields}), secrets, private=private)


def order(intent: Literal["enter", "exit"], reference: str, pair: str = "BTC/USDT", **changes: Any) -> Order:
    given: dict[str, Any] = {"side": "long", "signal": signal(), "reason": "", "at": datetime.now(UTC), **changes}
    return Order(bot="b", intent=intent, instrument=pair, reference=reference, **given)


WALKED = [
    ("check", "ready", ""),
    ("enter e1", "delivered", ""),
    ("enter e2 in the same pair", "refused", "position for BTC/USDT already open - id: 1"),
    ("enter an unknown pair", "refused", "Symbol does not exist or market is not active."),
    ("go short on spot", "refused", "Can't go short on Spot markets."),
    ("positions", "e1 open", ""),
    ("exit e1", "delivered", "Created exit order for trade 1."),
    ("positions", "e1 closed", ""),
    ("exit e1 again", "delivered", "freqtrade has no open trade of this entry"),
    ("enter e1 again", "refused", "Failed to enter position for BTC/USDT."),
    ("enter e3 after stop_entries", "refused", "trader is not running"),
    ("check", "ready", ""),
]


async def walk(far: Freqtrade) -> list[tuple[str, str, str]]:
    """Put a freqtrade through entries and exits; return what came of each as ``WALKED`` has it."""
    seen = [await _checked(far)]
    for what, one in (
        ("enter e1", order("enter", "e1")),
        ("enter e2 in the same pair", order("enter", "e2")),
        ("enter an unknown pair", order("enter", "e4", "NONE/USDT")),
        ("go short on spot", order("enter", "e5", "ETH/USDT", side="short")),
        ("positions", None),
        ("exit e1", order("exit", "e1")),
        ("positions", None),
        ("exit e1 again", order("exit", "e1")),
        ("enter e1 again", order("enter", "e1")),
        ("enter e3 after stop_entries", order("enter", "e3", "ETH/USDT")),
    ):
        if what.endswith("stop_entries"):
            await far.stop_entries()
        if one is None:
            seen.append((what, await _positions(far), ""))
        else:
            result = await far.perform(one)
            seen.append((what, result.outcome, result.reason.partition("/api/v1/forceenter: ")[2] or result.reason))
            if what == "exit e1":
                await _closed(far)
    return [*seen, await _checked(far)]


async def _checked(far: Freqtrade) -> tuple[str, str, str]:
    try:
        await far.check()
    except ConfigError as exc:
        return "check", "not ready", str(exc).partition("not ready: ")[2]
    return "check", "ready", ""


async def _positions(far: Freqtrade) -> str:
    return ", ".join(f"{ref} {'open' if at.is_open else 'closed'}" for ref, at in (await far.positions() or {}).items())


async def _closed(far: Freqtrade) -> None:
    async with asyncio.timeout(30):
        while "open" in await _positions(far):  # noqa: ASYNC110 - a dry run fills its order in freqtrade's own time
            await asyncio.sleep(0.1)
