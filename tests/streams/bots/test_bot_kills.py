"""Bots under kills: of the bot, of the receiver of its orders and of the broker, with answers lost after the deed."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest

from infra.embedded.child import free_ports
from infra.embedded.kafka.server import EmbeddedKafka
from infra.kafka.topics import ensure_topics
from newsproof.app.processes.bots_view import read_book
from schemas.signals import Signal
from schemas.topics import Topics
from streams.bots.book import Book
from streams.journal.retry import is_away, retry_while_unavailable
from tests.newsproof.signal_samples import signal, write_signals
from tests.streams.bots.bot_process import ASSETS, deeds, positions, receive, run_bot
from tests.streams.forked import forked

SETTLED_WITHIN_S = 120.0


class Processes:
    """The bot and its receiver. ``kill`` ends one with SIGKILL and starts it again."""

    def __init__(self, kafka: EmbeddedKafka, topics: Topics, directory: Path, readable: bool) -> None:
        self.file, (port,) = directory / "deeds.jsonl", free_ports(1)
        url = f"http://127.0.0.1:{port}/hook"
        self._work: dict[str, tuple[Any, ...]] = {
            "receiver": (receive, self.file, port),
            "bot": (run_bot, kafka.address, topics, url, readable),
        }
        self._running: dict[str, BaseProcess] = {}
        self.kills: Counter[str] = Counter()

    def start(self, name: str) -> None:
        self._running[name] = forked(*self._work[name])

    def kill(self, name: str) -> None:
        self._running[name].kill()
        self._running[name].join()
        self.kills[name] += 1
        self.start(name)

    def check(self) -> None:
        """Both run: nothing but a kill may end them."""
        assert [name for name, one in self._running.items() if not one.is_alive()] == []

    def end(self) -> None:
        for one in self._running.values():
            one.kill()
            one.join()


def story(n: int, rng: random.Random) -> list[Signal]:
    """The revisions of one signal: an order, which is retracted, weakened, left to expire within seconds, or stays."""
    now = datetime.now(UTC)
    ends = "stays" if n % 40 == 0 else rng.choice(["retracted", "retracted", "weak", "expires"])
    valid = timedelta(seconds=rng.uniform(1, 2)) if ends == "expires" else timedelta(days=1)
    first = signal(
        f"story {n}", provider_mode="live", risk_flags=(), asset=ASSETS[n % len(ASSETS)], action=rng.choice(["buy", "sell"]),
        published_at=now, decided_at=now, valid_until=now + valid,
    )  # fmt: skip
    changes = {
        "retracted": {"stage": "retracted", "action": "observe", "verdict": "refuted", "confidence": 0.0},
        "weak": {"confidence": 0.5},
    }
    if ends not in changes:
        return [first]
    fields = {name: getattr(first, name) for name in first.__struct_fields__} | changes[ends]
    return [first, Signal(**fields | {"revision": 2, "supersedes": 1})]


def should_be(signals: list[Signal]) -> dict[str, str]:
    """Instrument → side that live signals ask for, worked out anew from their last revisions."""
    last = {one.signal_id: one for one in signals}
    sides: dict[str, set[str]] = {}
    for one in last.values():
        if one.stage == "final" and one.confidence >= 0.7 and one.valid_until > datetime.now(UTC):
            sides.setdefault(f"{one.asset}/USDT", set()).add("long" if one.action == "buy" else "short")
    return {instrument: side for instrument, (side, *more) in sides.items() if not more}


async def write(kafka: EmbeddedKafka, topics: Topics, signals: list[Signal]) -> None:
    await retry_while_unavailable(
        lambda: write_signals(kafka.address, topics, *signals), "the test's log", unavailable=is_away
    )


async def settled(
    kafka: EmbeddedKafka, topics: Topics, processes: Processes, written: list[Signal], *, readable: bool
) -> Book:
    """Return the book once every delivery is settled, and nothing is open that should not be.

    Where the destination is readable, that includes what it says of entries whose answer was lost.
    """
    give_up = time.monotonic() + SETTLED_WITHIN_S
    while True:
        processes.check()
        book = await retry_while_unavailable(
            lambda: read_book(kafka.address, topics, "tried"), "the test's log", unavailable=is_away
        )
        wanted = should_be(written)
        unsettled = [one for one in book.deliveries.values() if one.outcome is None]
        held = {reference: one for reference, one in positions(processes.file).items() if one["open"]}
        wrong = [one for one in held.values() if wanted.get(one["instrument"]) != one["side"]]
        open_now = book.positions() if readable else []
        unclear = [one for one in open_now if one.outcome != "delivered" or one.planned.id not in held]
        if not (unsettled or wrong or unclear or book.pending_exits()):
            return book
        assert time.monotonic() < give_up, (len(unsettled), wrong[:3], unclear[:3], len(book.pending_exits()))
        await asyncio.sleep(0.3)


@asynccontextmanager
async def broker(own: bool, shared: EmbeddedKafka, directory: Path) -> AsyncIterator[EmbeddedKafka]:
    if not own:
        yield shared
        return
    made = EmbeddedKafka(directory / "kafka")
    await made.start()
    try:
        yield made
    finally:
        await made.stop()


@pytest.mark.parametrize(
    ("count", "kills", "own_broker", "readable"),
    [
        pytest.param(40, ["bot"], False, False, marks=pytest.mark.slow),
        pytest.param(150, ["bot", "receiver"], False, True, marks=pytest.mark.slow),
        pytest.param(
            10_000,
            ["bot", "receiver", "bot", "broker", "bot"] * 10,
            True,
            True,
            marks=[pytest.mark.slow, pytest.mark.long],
        ),
        pytest.param(
            10_000,
            ["bot", "receiver", "bot", "broker", "bot"] * 10,
            True,
            False,
            marks=[pytest.mark.slow, pytest.mark.long],
        ),
    ],
    ids=["quick", "readable", "long-readable", "long"],
)
@pytest.mark.timeout(3600)
async def test_no_kill_makes_a_second_entry_or_leaves_a_position_open(
    kafka: EmbeddedKafka, topics: Topics, tmp_path: Path, count: int, kills: list[str], own_broker: bool, readable: bool
) -> None:
    async with broker(own_broker, kafka, tmp_path) as log:
        await ensure_topics(log.address, topics, partitions=2, replication=1)
        processes, rng, written = Processes(log, topics, tmp_path, readable), random.Random(count), list[Signal]()
        processes.start("receiver")
        processes.start("bot")
        try:
            stories = [story(n, rng) for n in range(count)]
            batches, each = len(kills) + 1, count // (len(kills) + 1) + 1
            pending: list[Signal] = []
            for n in range(batches):
                new = stories[n * each : (n + 1) * each]
                half, pending = (
                    [*pending, *(one[0] for one in new)],
                    [one for revisions in new for one in revisions[1:]],
                )
                await write(log, topics, half)
                written += half
                done = len(deeds(processes.file))
                await moved(processes, done)
                if n < len(kills) and kills[n] == "broker":
                    log.kill()
                    await log.start()
                elif n < len(kills):
                    processes.kill(kills[n])
            await write(log, topics, pending)
            written += pending
            book = await settled(log, topics, processes, written, readable=readable)
        finally:
            processes.end()
    entries = Counter(one["reference"] for one in deeds(processes.file) if one["intent"] == "enter")
    assert max(entries.values()) == 1
    intents = Counter(one["intent"] for one in deeds(processes.file))
    print(dict(intents), Counter((one.planned.intent, one.state) for one in book.deliveries.values()), processes.kills)
    # Enough of them to prove something. How many reach the receiver before a kill depends on the machine.
    assert min(intents["enter"], intents["exit"]) > min(count // 20, 200)
    assert count > len(ASSETS) or not closed_too_soon(processes.file, written)
    assert {one.outcome for one in book.deliveries.values() if one.planned.intent == "exit"} == {"delivered"}
    if readable:  # the destination's own table and the fold of deliveries agree
        there = positions(processes.file)
        made = {
            one.planned.id: one.outcome
            for one in book.deliveries.values()
            if one.planned.intent == "enter" and one.may_be_open
        }
        # An entry whose answer was lost, and that was closed before the destination was read, stays unknown.
        assert {ref for ref, outcome in made.items() if outcome == "delivered"} <= set(there) <= set(made)
        assert {made[ref] for ref, one in there.items() if one["open"]} <= {"delivered"}
        assert {one.planned.id for one in book.positions()} == {ref for ref, one in there.items() if one["open"]}


async def moved(processes: Processes, before: int) -> None:
    """Return once the receiver has done more than before."""
    give_up = time.monotonic() + SETTLED_WITHIN_S
    while len(deeds(processes.file)) <= before:
        processes.check()
        assert time.monotonic() < give_up, "the bot does nothing"
        await asyncio.sleep(0.02)


def closed_too_soon(file: Path, written: list[Signal]) -> list[str]:
    """Positions that were closed although the only signal about their asset still asks for them."""
    wanted = should_be(written)
    return [one["instrument"] for one in positions(file).values() if not one["open"] and one["instrument"] in wanted]
