"""``newsproof backtest verify``: the log's self-test. Asks every step of every case again and makes no calls.

With ``--processes`` several processes verify one log, this one among them. Each reads the whole log, which takes about one
percent of the time, and decodes and replays the cases whose end it is the first to reach. Only claims and results pass between
processes, none waits for another before the log's end, and the result depends neither on their number nor on who took which case.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.context import BaseContext
from pathlib import Path
from typing import Any

import msgspec

from agents.core.registry import Registry
from agents.graphs import research, verification
from evaluation.replay.candidates import ReplayBuilder
from evaluation.replay.journal import FileSource, LogSource, Source, draw_sample, recordings, survey
from evaluation.replay.log_file import read_log_file
from infra.kafka.topics import KafkaAddress
from newsproof.app.data_access import open_log
from newsproof.app.invocation import Invocation
from schemas.config import RULES
from schemas.errors import TransientError
from schemas.events import RetractionFound, StoryCorroborated
from schemas.topics import Topics
from streams.journal.gc_thresholds import rarely_collected
from streams.journal.log import Bounds, KafkaLog
from streams.replay import Change, Recording, ReplayResult, reused_alone
from streams.replay.outcome import signal_bytes

SHOWN = 20
"""Maximum number of differing cases that are listed."""


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """A case that differs from its recording, and the step at which it first differed."""

    case_id: str
    status: str
    reason: str
    diverged_at: str


class VerifyResult(msgspec.Struct, kw_only=True):
    """Result of a verification.

    ``identical``: cases whose signal (or end) equals the recorded one byte for byte. ``calls`` is always 0, because a
    verification cannot make calls; replies that it lacked are in ``misses``. ``diverged``: cases in which some event differs
    from the recording, whether or not their signal does. ``other_rules``: cases that other rules of judgement decided, which
    are not replayed: no difference would say anything of the log.
    """

    cases: int = 0
    identical: int = 0
    calls: int = 0
    misses: int = 0
    seconds: float = 0.0
    look_ahead: int = 0
    diverged: int = 0
    other_rules: int = 0
    differences: list[Difference] = []

    def add(self, other: VerifyResult) -> None:
        """Add the result of other cases; the differences of the lowest ids are kept, whoever found them."""
        for name in ("cases", "identical", "calls", "misses", "look_ahead", "diverged", "other_rules"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.differences = _first(self.differences + other.differences)

    @property
    def clean(self) -> bool:
        """Whether every case equals its recording and no reply was missing."""
        return self.cases == self.identical and self.misses == 0


async def verify(
    source: Source,
    *,
    registry: Registry | None = None,
    sample: int = 0,
    mine: Callable[[Any], bool] = lambda _end: True,
) -> VerifyResult:
    """Replay every ended case with nothing changed. ``sample`` > 0 replays that many cases, drawn by their ids.

    ``mine`` chooses of these by the record that ended each, where several processes share them. At most :data:`SHOWN`
    differences are kept, those of the lowest ids, so that they are the same however the cases were shared.
    """
    began = time.perf_counter()
    builder = ReplayBuilder(registry or verification(), source.snapshots, Change(), ask_every_step=True)
    chosen = await _chosen(source, sample) if sample else None
    result = VerifyResult()
    with rarely_collected():
        async for recording in recordings(source, lambda case: chosen is None or case in chosen, mine=mine):
            _look(result, recording, builder)
    result.seconds = round(time.perf_counter() - began, 3)
    return result


async def _chosen(source: Source, sample: int) -> frozenset[str]:
    return frozenset(draw_sample((await survey(source)).ended, sample))


def _look(result: VerifyResult, recording: Recording, builder: ReplayBuilder) -> None:
    result.cases += 1
    if recording.unreadable:
        _differs(
            result, Difference(case_id=recording.case_id, status="failed", reason=recording.unreadable, diverged_at="")
        )
        return
    if (rules := builder.rules_of(recording)) not in (None, RULES):
        result.other_rules += 1
        reason = f"recorded by rules {rules}, and this code decides by rules {RULES}"
        _differs(result, Difference(case_id=recording.case_id, status="refused", reason=reason, diverged_at=""))
        return
    replayed = reused_alone(builder.build(recording).run())
    result.misses += replayed.count("miss")
    result.diverged += bool(replayed.diverged_at)
    seen = replayed.look_ahead
    result.look_ahead += seen.evidence + seen.memory + seen.prices
    if same(recording, replayed):
        result.identical += 1
        return
    _differs(
        result,
        Difference(
            case_id=recording.case_id,
            status=replayed.status,
            reason=replayed.reason,
            diverged_at=replayed.diverged_at,
        ),
    )


def same(recording: Recording, replayed: ReplayResult) -> bool:
    """Return whether the signal (or end) and the retractions equal the recorded ones byte for byte."""
    as_recorded = replayed.signal is not None and replayed.signal is getattr(recording.end, "signal", None)
    if not as_recorded and signal_bytes(replayed.end) != signal_bytes(recording.end):
        return False
    events = [r.event for r in recording.records if isinstance(r.event, RetractionFound | StoryCorroborated)]
    return [signal_bytes(e) for e in events] == [signal_bytes(e) for e in replayed.of_others]


def _differs(result: VerifyResult, difference: Difference) -> None:
    result.differences = _first([*result.differences, difference])


def _first(differences: list[Difference]) -> list[Difference]:
    return sorted(differences, key=lambda d: d.case_id)[:SHOWN]


class LogAt(msgspec.Struct, frozen=True):
    """Location of a log: a file (None: the shipped sample), or the journal of an installation up to ``bounds``.

    ``research``: the journal of chats and investigations, not that of the news.
    """

    file: Path | None = None
    address: KafkaAddress | None = None
    topics: Topics | None = None
    bounds: Bounds | None = None
    research: bool = False

    @classmethod
    async def journal(cls, address: KafkaAddress, topics: Topics, *, research: bool = False) -> LogAt:
        """Return the journal up to its present end, which is then the same for every reader."""
        bounds = await KafkaLog(address).bounds(topics.research if research else topics.cases)
        return cls(address=address, topics=topics, bounds=bounds, research=research)

    @property
    def registry(self) -> Registry:
        """The graphs of the journal's cases."""
        return research() if self.research else verification()

    async def source(self) -> Source:
        """Open the log for reading."""
        if self.address is None or self.topics is None or self.bounds is None:
            return FileSource(read_log_file(self.file))
        return await LogSource.made(KafkaLog(self.address), self.topics, bounds=self.bounds)


class CaseShares:
    """Assigns each ended case to the first process that asks for it. Pass it to a process as it starts, not in a message."""

    def __init__(self, context: BaseContext) -> None:
        self._taken = context.Array("B", 1 << 20)

    def of(self, number: int) -> Callable[[Any], bool]:
        """Return whether the case that a record ended is for this process, the ``number``-th from 1 (at most 255)."""

        def mine(end: Any) -> bool:
            # Cases that fall on one place are taken by one process: a log of millions is shared no worse for it.
            place = hash((end.partition, end.offset)) % len(self._taken)
            with self._taken.get_lock():
                self._taken[place] = self._taken[place] or number
                return bool(self._taken[place] == number)

        return mine


async def verify_at(where: LogAt, *, sample: int = 0, processes: int = 1) -> VerifyResult:
    """Verify a log with this number of processes. The result is that of one process, apart from ``seconds``.

    Raises:
        TransientError: a process was ended from outside, as for want of memory.
    """
    if processes == 1:
        return await verify(await where.source(), registry=where.registry, sample=sample)
    began, loop = time.perf_counter(), asyncio.get_running_loop()
    context = multiprocessing.get_context("spawn")  # not forked: a copy of this process would share its connections
    shares = CaseShares(context)
    with ProcessPoolExecutor(processes - 1, context, initializer=_use_shares, initargs=(shares,)) as pool:
        others = [loop.run_in_executor(pool, verify_share, where, sample, n + 1) for n in range(1, processes)]
        result = await verify(await where.source(), registry=where.registry, sample=sample, mine=shares.of(1))
        try:
            for share in await asyncio.gather(*others):
                result.add(share)
        except BrokenProcessPool as exc:
            raise TransientError(
                f"one of the {processes} processes was killed, perhaps for lack of memory: use fewer --processes"
            ) from exc
    result.seconds = round(time.perf_counter() - began, 3)
    return result


_shares: CaseShares


def _use_shares(shares: CaseShares) -> None:
    global _shares  # noqa: PLW0603 - the initializer of a pool can pass it no other way
    _shares = shares


def verify_share(where: LogAt, sample: int, number: int) -> VerifyResult:
    """Verify the cases that this process of a pool is the first to reach, as the ``number``-th of all."""

    async def share() -> VerifyResult:
        return await verify(await where.source(), registry=where.registry, sample=sample, mine=_shares.of(number))

    return asyncio.run(share())


async def verify_log(
    invocation: Invocation,
    *,
    sample: bool,
    file: Path | None,
    cases: int,
    processes: int = 1,
    research: bool = False,
) -> VerifyResult:
    """Verify the shipped log, a file, or the current log: of news, or of chats and investigations (``research``)."""
    if sample or file is not None:
        return await verify_at(LogAt(file=file), sample=cases, processes=processes)
    async with open_log(invocation) as log:
        where = await LogAt.journal(log.address, log.topics, research=research)
        return await verify_at(where, sample=cases, processes=processes)
