"""Bots as the fake API plays them: real records, folded and shown by the real code."""

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
from aiohttp import web

from infra.bots.definition import BotDefinition
from infra.bots.paper import Mark
from newsproof.app.processes.bots_view import Marks, halts_of, items_of
from newsproof.web.api.bots import BY
from schemas.deliveries import Attempted, HaltLifted, HaltRequested, Planned, Settled, Side
from streams.bots.book import Book
from streams.bots.positions import Signals
from tests.builders import signal


class PlayedBots:
    """What is played: ``desk`` on paper, ``live`` on freqtrade, ``group`` that sends messages, and one that nobody defines."""

    def __init__(self) -> None:
        self.now = datetime.now(UTC)
        self.book, self.commands = Book(), list[dict[str, Any]]()
        self.defined = {
            "live": BotDefinition(name="live", kind="freqtrade", mode="live", map={"BTC": "BTC/USDT"}),
            "desk": BotDefinition(
                name="desk",
                kind="paper",
                allow=("offline",),
                map={a: f"{a}/USDT" for a in ("SOL", "ETH", "LTC", "BNB", "ADA", "XRP")},
            ),
            "group": BotDefinition(name="group", kind="notify"),
        }
        self.processes = {"bot-desk": "ready", "bot-live": "away"}
        self.say("desk", "SOL/USDT", 300, "delivered", "filled on paper", price=142.31, fee=0.001)
        self.say("desk", "SOL/USDT", 200, "delivered", "filled on paper", ends="retracted", price=151.02, fee=0.001)
        self.say("desk", "ETH/USDT", 100, "delivered", "filled on paper", price=2310.5, fee=0.001)
        self.say("desk", "LTC/USDT", 95, "delivered", "filled on paper", price=71.2, fee=0.001)
        self.say("desk", "BNB/USDT", 45, "skipped", "3 positions are open; the limit is 3")
        self.say("desk", "DOGE/USDT", 40, "skipped", "confidence 0.61 is below 0.70")
        self.say("live", "BTC/USDT", 90, "delivered", kind="freqtrade", mode="live")
        self.say("live", "BTC/USDT", 12, "refused", "freqtrade: market is closed", ends="expired at 2026-02-10 09:12:00 UTC", kind="freqtrade", mode="live", attempts=3)  # fmt: skip
        self.say("group", "telegram", 8, "delivered", "@everyone <b>sell</b> \u202enow", kind="notify")
        self.say("hook", "BTC/USDT", 500, "unknown", "no answer within 10 s", kind="webhook")
        self.wanted = [("ETH", "buy"), ("BNB", "buy"), ("ADA", "buy"), ("ADA", "sell"), ("XRP", "buy")]

    def say(
        self, bot: str, instrument: str, minutes: int, outcome: Any, reason: str = "", *, ends: str = "",
        kind: str = "paper", mode: Any = "paper", attempts: int = 1, **more: Any,
    ) -> None:  # fmt: skip
        """Fold a whole delivery that began so many minutes ago. ``ends``: why it closes the position."""
        at, opened = self.now - timedelta(minutes=minutes), f"{bot} {instrument}"
        planned = Planned(
            id=f"{opened} exit" if ends else opened, bot=bot, adapter=kind, instrument=instrument,
            intent="notify" if kind == "notify" else "exit" if ends else "enter", entry=opened if ends else None,
            signal_id=opened, revision=1, asset=instrument[:3], reason=ends or "buy", planned_at=at,
            valid_until=at + timedelta(days=1), mode=mode, side="long",
        )  # fmt: skip
        records = [Attempted(delivery=planned.id, bot=bot, n=n + 1) for n in range(attempts) if outcome != "skipped"]
        for record in (
            planned,
            *records,
            Settled(delivery=planned.id, bot=bot, outcome=outcome, reason=reason, **more),
        ):
            self.book.fold(round(at.timestamp() * 1000), record)

    async def document(self, _request: web.Request) -> Any:
        """Return the answer of `/api/v1/bots`."""
        desired = {name: Signals(bot) for name, bot in self.defined.items() if bot.kind != "notify"}
        for name, fold in desired.items():
            for asset, action in self.wanted:
                id, until = f"{name} {asset}/USDT", self.now + timedelta(hours=20)
                one = signal(
                    signal_id=id if action == "buy" else f"{id} sell",
                    asset=asset,
                    action=action,
                    valid_until=until,
                    case_id="a" * 32,
                )
                fold.take(one, 0)
        items = await items_of(self.book, self.defined, self.processes, desired, self._marks)
        found = {"at": datetime.now(UTC), "wrong": None, "halts": halts_of(self.book, None), "items": items}
        return msgspec.to_builtins(found)

    async def _marks(self, _bot: BotDefinition, positions: Collection[tuple[str, Side]]) -> Marks:
        known: Marks = {("ETH/USDT", "long"): Mark(2402.25, self.now)}
        return {one: known.get(one, f"coinbase has no market of {one[0]}") for one in positions}

    async def command(self, request: web.Request) -> web.Response:
        """Halt or resume."""
        command, body = request.match_info["command"], await request.json()
        self.commands.append({command: body})
        said = HaltRequested(id="h", by=BY, **body) if command == "halt" else HaltLifted(id="h", by=BY, **body)
        self.book.fold(round(self.now.timestamp() * 1000), said)
        return web.json_response(msgspec.to_builtins(said))
