"""Benchmarks a bot: from a signal on the topic to its request at a receiver, from a retraction or a halt to the exit.

The bot is a process of its own, started as users start it. Receiver and writer are this process. A time begins before the
commit of the signal's transaction, and ends when the request has arrived, so it has the commit and the connection in it. The
baseline is a bare consumer that reads the same records in the same run.
"""

from __future__ import annotations

import asyncio
import base64
import os
import statistics
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from aiohttp import web
from aiokafka import AIOKafkaProducer

from infra.embedded.child import ChildProcess, free_ports
from lab.bench.measures import Figure
from lab.bench.world import PARTITIONS, ROOT, World, world
from newsproof.app.processes.bots import halt, resume
from schemas.envelope import Envelope, read_signal
from schemas.ids import uuid5
from schemas.signals import Signal
from streams.journal.log import KafkaLog
from streams.publish.publisher import _record
from tests.builders import signal

SIGNALS, PER_S = 300, 10
HALTS, POSITIONS = 5, 10
"""Number of halts, and of positions that each of them closes."""
BOT = "bench"
_WITHIN_S = 60.0
_SECRET = "whsec_" + base64.b64encode(b"of this measurement alone" * 2).decode()[:44]


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
            async with _bot(w, url):
                await _send(w, producer, _order(-1))
                await _until(lambda: ("enter", "A-1") in receiver.seen)
                orders = [_order(n) for n in range(SIGNALS)]
                entered = await _sent(w, producer, orders)
                await _until(lambda: all(("enter", one.asset) in receiver.seen for one in orders))
                retracted = await _sent(w, producer, [_retracted(n) for n in range(SIGNALS)])
                await _until(lambda: all(("exit", one.asset) in receiver.seen for one in orders))
                await _until(lambda: len(read) >= 2 * SIGNALS + 1)
                halts = [await _halted(w, producer, receiver, n) for n in range(HALTS)]
        finally:
            await producer.stop()
    bare = [1000 * (read[id, 1] - at) for id, at in entered.items()]
    ids = {one.signal_id: one.asset for one in orders}
    entries = [1000 * (receiver.seen["enter", ids[id]] - at) for id, at in entered.items()]
    exits = [1000 * (receiver.seen["exit", ids[id]] - at) for id, at in retracted.items()]
    return _figures(bare, entries, exits, [1000 * one for one in halts])


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
    now, ids = datetime.now(UTC), {"signal_id": uuid5("bench", str(n)), "case_id": uuid5("bench case", str(n))}
    times = {"decided_at": now, "published_at": now, "valid_until": now + timedelta(days=1)}
    return signal(asset=f"A{n}", provider_mode="live", risk_flags=(), **ids, **times)


def _retracted(n: int) -> Signal:
    fields = {name: getattr(_order(n), name) for name in Signal.__struct_fields__}
    gone = {"revision": 2, "supersedes": 1, "stage": "retracted", "verdict": "refuted", "action": "observe"}
    return Signal(**fields | gone)


async def _sent(w: World, producer: AIOKafkaProducer, signals: list[Signal]) -> dict[str, float]:
    """Send one signal per transaction at an even rate; return signal → when its commit began."""
    began, sent = time.monotonic(), {}
    for number, one in enumerate(signals):
        await asyncio.sleep(max(0.0, began + number / PER_S - time.monotonic()))
        sent[one.signal_id] = await _send(w, producer, one)
    return sent


async def _send(w: World, producer: AIOKafkaProducer, *signals: Signal) -> float:
    await producer.begin_transaction()
    for one in signals:
        env = Envelope(id="cause", type="", case_id=one.case_id, causation_id=None, run_id="live", time=one.decided_at)
        await producer.send_and_wait(w.topics.signals, partition=0, **_record(one, env, w.topics.cases, 0, 0))
    at = time.monotonic()
    await producer.commit_transaction()
    return at


async def _halted(w: World, producer: AIOKafkaProducer, receiver: Receiver, number: int) -> float:
    """Open positions, halt, and return the seconds to the last exit request. Then end the halt."""
    first = SIGNALS + number * (POSITIONS + 1)
    orders = [_order(n) for n in range(first, first + POSITIONS)]
    await _send(w, producer, *orders)
    await _until(lambda: all(("enter", one.asset) in receiver.seen for one in orders))
    began = time.monotonic()
    await halt(w.address, w.topics, BOT, exit=True, by="bench")
    await _until(lambda: all(("exit", one.asset) in receiver.seen for one in orders))
    await resume(w.address, w.topics, BOT, by="bench")
    return max(receiver.seen["exit", one.asset] for one in orders) - began


async def _until(has: Callable[[], bool]) -> None:
    async with asyncio.timeout(_WITHIN_S):
        while not has():  # noqa: ASYNC110 - times are noted where things arrive
            await asyncio.sleep(0.005)


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
    one = read_signal(record)[0]
    return one.signal_id, one.revision


def _definition(file: Path, url: str) -> Path:
    many = 1_000_000
    assets = [f"A{n}" for n in range(-1, SIGNALS + HALTS * (POSITIONS + 1))]
    pairs = ", ".join(f'"{one}" = "{one}/USDT"' for one in assets)
    file.write_text(
        f'[{BOT}]\nkind = "webhook"\nmode = "live"\nurl = "{url}"\nmap = {{ {pairs} }}\n[{BOT}.limits]\n'
        f"open_positions = {many}\nentries_a_day = {many}\nentries_an_hour_per_asset = {many}\n",
        "utf-8",
    )
    return file


@asynccontextmanager
async def _bot(w: World, url: str) -> AsyncIterator[None]:
    file = _definition(w.directory / "bots.toml", url)
    env = {
        **os.environ, "PYTHONPATH": str(ROOT), **w.address.as_environment(), "NEWSPROOF_MODE": "offline",
        "BOTS_FILE": str(file), "BOT_SECRET_BENCH": _SECRET, "BOTS_PRIVATE_ADDRESSES": "true",
        "TOPIC_PARTITIONS": str(PARTITIONS), "NEWSPROOF_DATA_DIR": str(w.directory / "data"),
    }  # fmt: skip
    command = [sys.executable, "-P", "-m", "newsproof", "bots", "run", BOT]
    child = ChildProcess("the bot", command, log_file=w.directory / "bot.log", cwd=w.directory, env=env)
    child.start()
    try:
        yield
    except TimeoutError as exc:
        raise TimeoutError(
            f"a request did not come within {_WITHIN_S:.0f} s. The bot said:\n{child.log_tail(20)}"
        ) from exc
    finally:
        await child.stop()
