"""Benchmarks a bot: from a signal on the topic to its request at a receiver, from a retraction or a halt to the exit.

The bot is a process of its own, started as users start it. Receiver and writer are this process. A time begins before the
commit of the signal's transaction, and ends when the request has arrived, so it has the commit and the connection in it. The
baseline is a bare consumer that reads the same records in the same run.

Signals and halts are two topics, which the bot reads in no common order, and an order that meets a halt is skipped for ever.
So the bench sends its next orders only after the bot itself reports that the halt has ended. It once did not wait, and on a
busy machine it then waited in vain for the requests of orders that the bot had rightly skipped.
"""

from __future__ import annotations

import asyncio
import base64
import os
import statistics
import sys
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

from aiohttp import web
from aiokafka import AIOKafkaProducer

from infra.embedded.child import ChildProcess, free_ports
from lab.bench.feeds.streams import made_signal, published
from lab.bench.measures import Figure
from lab.bench.world import PARTITIONS, ROOT, World, world
from newsproof.app.processes.bots import halt, resume
from newsproof.app.processes.targets import targets_in
from schemas.envelope import read_signal
from schemas.signals import Signal
from streams.journal.log import KafkaLog

SIGNALS, PER_S = 300, 10
HALTS, POSITIONS = 5, 10
"""Number of halts, and of positions that each of them closes."""
BOT = "bench"
_WITHIN_S = 60.0
_READY_WITHIN_S = 240.0
"""Time for the bot's start, which took 23 s at a load of 25 on two cores."""
_HALTED = f'newsproof_bot_halted{{bot="{BOT}"}}'
_SECRET = "whsec_" + base64.b64encode(b"of this measurement alone" * 2).decode()[:44]


class BotProcess:
    """The bot that is measured: its process, and what it reports in its pages.

    Each ``until`` raises TimeoutError if the bot ends, or if it takes too long. The text has the bot's last lines.
    """

    def __init__(self, child: ChildProcess, data_dir: Path) -> None:
        self._child, self._data_dir = child, data_dir

    async def until(self, what: str, has: Callable[[], bool], within_s: float = _WITHIN_S) -> None:
        """Wait until ``has`` is true. ``what``: what is awaited, for the error."""
        give_up = time.monotonic() + within_s
        while not has():
            await self._pause(what, give_up, within_s)

    async def until_requested(self, receiver: Receiver, intent: str, orders: Sequence[Signal]) -> None:
        """Wait until the receiver has a request of this intent for every order."""
        what = f"{intent} requests of {orders[0].asset} to {orders[-1].asset}"
        await self.until(what, lambda: all((intent, order.asset) in receiver.seen for order in orders))

    async def until_reported(self, what: str, page: str, has: Callable[[str], bool], within_s: float) -> None:
        """Wait until a page of the bot (readyz, metrics) is there and ``has`` is true of its text."""
        give_up = time.monotonic() + within_s
        while (text := await asyncio.to_thread(self._page, page)) is None or not has(text):
            await self._pause(what, give_up, within_s)

    def _page(self, page: str) -> str | None:
        try:
            with urlopen(f"{targets_in(self._data_dir)[0].url}/{page}") as answer:
                return str(answer.read().decode())
        except (IndexError, URLError, ConnectionError):
            return None

    async def _pause(self, what: str, give_up: float, within_s: float) -> None:
        why = f"did not come within {within_s:.0f} s" if self._child.running else "did not come, because the bot ended"
        if not self._child.running or time.monotonic() > give_up:
            raise TimeoutError(f"{what} {why}. The bot said:\n{self._child.log_tail(20)}")
        await asyncio.sleep(0.005)


class Receiver:
    """Takes every request at once. ``seen``: (intent, asset) → when it arrived (monotonic)."""

    def __init__(self) -> None:
        self.seen: dict[tuple[str, str], float] = {}

    async def answer(self, request: web.Request) -> web.Response:
        at, data = time.monotonic(), (await request.json())["data"]
        self.seen.setdefault((data["intent"], data["asset"]), at)
        return web.Response(status=204)


async def bots() -> list[Figure]:
    """Send orders at an even rate, retract them, then halt with open positions."""
    receiver = Receiver()
    async with world() as w, _served(receiver) as url, _following(w) as read:
        producer = w.address.producer(transactional_id=w.topics.transactional_id("bench"))
        await producer.start()
        try:
            async with _bot(w, url) as bot:
                first = _order(-1)
                await _send(w, producer, first)
                await bot.until_requested(receiver, "enter", [first])
                orders = [_order(n) for n in range(SIGNALS)]
                entered = await _sent(w, producer, orders)
                await bot.until_requested(receiver, "enter", orders)
                retracted = await _sent(w, producer, [_retracted(n) for n in range(SIGNALS)])
                await bot.until_requested(receiver, "exit", orders)
                await bot.until("the bare consumer's records", lambda: len(read) >= 2 * SIGNALS + 1)
                halts = [await _halted(w, producer, receiver, bot, n) for n in range(HALTS)]
        finally:
            await producer.stop()
    bare = [1000 * (read[id, 1] - at) for id, at in entered.items()]
    ids = {order.signal_id: order.asset for order in orders}
    entries = [1000 * (receiver.seen["enter", ids[id]] - at) for id, at in entered.items()]
    exits = [1000 * (receiver.seen["exit", ids[id]] - at) for id, at in retracted.items()]
    return _figures(bare, entries, exits, [1000 * seconds for seconds in halts])


def _figures(bare: list[float], entries: list[float], exits: list[float], halts: list[float]) -> list[Figure]:
    base = "{:.1f} ms, a bare consumer of the same records"
    figures = []
    for name, of, target in (("p50", statistics.median, "<= 25"), ("p99", _p99, "<= 100")):
        figures.append(
            Figure(name=f"bots: signal to request, {name}", value=of(entries), unit="ms", target=target,
                   baseline=base.format(of(bare)), ratio=of(entries) / of(bare))
        )  # fmt: skip
    for name, taken, target in (
        (f"retraction to exit request, the longest of {len(exits)}", exits, "<= 1,000"),
        (f"halt to the last of {POSITIONS} exit requests, the longest of {len(halts)}", halts, "<= 2,000"),
    ):
        figures.append(
            Figure(name=f"bots: {name}", value=max(taken), unit="ms", target=target,
                   baseline=f"{max(entries):.1f} ms, the longest entry", ratio=max(taken) / max(entries))
        )  # fmt: skip
    return figures


def _p99(taken: list[float]) -> float:
    return statistics.quantiles(taken, n=100)[98]


def _order(n: int) -> Signal:
    until = datetime.now(UTC) + timedelta(days=1)
    return made_signal(n, asset=f"A{n}", valid_until=until, provider_mode="live", risk_flags=())


def _retracted(n: int) -> Signal:
    fields = {name: getattr(_order(n), name) for name in Signal.__struct_fields__}
    gone = {"revision": 2, "supersedes": 1, "stage": "retracted", "verdict": "refuted", "action": "observe"}
    return Signal(**fields | gone)


async def _sent(w: World, producer: AIOKafkaProducer, signals: list[Signal]) -> dict[str, float]:
    """Send one signal per transaction at an even rate; return signal → when its commit began."""
    began, sent = time.monotonic(), {}
    for number, signal in enumerate(signals):
        await asyncio.sleep(max(0.0, began + number / PER_S - time.monotonic()))
        sent[signal.signal_id] = await _send(w, producer, signal)
    return sent


async def _send(w: World, producer: AIOKafkaProducer, *signals: Signal) -> float:
    await producer.begin_transaction()
    for signal in signals:
        await producer.send_and_wait(w.topics.signals, partition=0, **published(w, signal))
    at = time.monotonic()
    await producer.commit_transaction()
    return at


async def _halted(w: World, producer: AIOKafkaProducer, receiver: Receiver, bot: BotProcess, number: int) -> float:
    """Open positions, halt, and return the seconds to the last exit request. Then end the halt, and wait for its end."""
    first = SIGNALS + number * (POSITIONS + 1)
    orders = [_order(n) for n in range(first, first + POSITIONS)]
    await _send(w, producer, *orders)
    await bot.until_requested(receiver, "enter", orders)
    began = time.monotonic()
    await halt(w.address, w.topics, BOT, exit=True, by="bench")
    await bot.until_requested(receiver, "exit", orders)
    await resume(w.address, w.topics, BOT, by="bench")
    await bot.until_reported("the end of a halt", "metrics", lambda text: f"{_HALTED} 0.0\n" in text, _WITHIN_S)
    return max(receiver.seen["exit", order.asset] for order in orders) - began


@asynccontextmanager
async def _served(receiver: Receiver) -> AsyncIterator[str]:
    app = web.Application()
    app.router.add_post("/hook", receiver.answer)
    runner, (port,) = web.AppRunner(app, access_log=None), free_ports(1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    try:
        yield f"http://127.0.0.1:{port}/hook"
    finally:
        await runner.cleanup()


@asynccontextmanager
async def _following(w: World) -> AsyncIterator[dict[tuple[str, int], float]]:
    """Yield (signal, revision) → when a bare consumer read it."""
    read: dict[tuple[str, int], float] = {}
    log = KafkaLog(w.address)
    ends = {tp: end for tp, (_, end) in (await log.bounds(w.topics.signals)).items()}
    async with log.follow(ends, isolation="read_committed", wait_ms=25) as cursor:

        async def note() -> None:
            while True:
                for records in (await cursor.next(60.0)).values():
                    at = time.monotonic()
                    read.update({_id_of(record): at for record in records})

        noting = asyncio.create_task(note())
        try:
            yield read
        finally:
            noting.cancel()


def _id_of(record: Any) -> tuple[str, int]:
    signal = read_signal(record)[0]
    return signal.signal_id, signal.revision


def _definition(file: Path, url: str) -> Path:
    many = 1_000_000
    assets = [f"A{n}" for n in range(-1, SIGNALS + HALTS * (POSITIONS + 1))]
    pairs = ", ".join(f'"{asset}" = "{asset}/USDT"' for asset in assets)
    file.write_text(
        f'[{BOT}]\nkind = "webhook"\nmode = "live"\nurl = "{url}"\nmap = {{ {pairs} }}\n[{BOT}.limits]\n'
        f"open_positions = {many}\nentries_a_day = {many}\nentries_an_hour_per_asset = {many}\n",
        "utf-8",
    )
    return file


@asynccontextmanager
async def _bot(w: World, url: str) -> AsyncIterator[BotProcess]:
    file, data_dir = _definition(w.directory / "bots.toml", url), w.directory / "data"
    env = {
        **os.environ, "PYTHONPATH": str(ROOT), **w.address.as_environment(), "NEWSPROOF_MODE": "offline",
        "BOTS_FILE": str(file), "BOT_SECRET_BENCH": _SECRET, "BOTS_PRIVATE_ADDRESSES": "true",
        "TOPIC_PARTITIONS": str(PARTITIONS), "NEWSPROOF_DATA_DIR": str(data_dir),
    }  # fmt: skip
    command = [sys.executable, "-P", "-m", "newsproof", "bots", "run", BOT]
    child = ChildProcess("the bot", command, log_file=w.directory / "bot.log", cwd=w.directory, env=env)
    child.start()
    try:
        bot = BotProcess(child, data_dir)
        await bot.until_reported("the bot's start", "readyz", bool, _READY_WITHIN_S)
        yield bot
    finally:
        await child.stop()
