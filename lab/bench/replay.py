"""Benchmarks the replay of recorded cases with full reuse: one core, no server, four logs. Baseline: decoding alone.

The sample log is repeated under other case ids, so that no case appears twice and a cache of seen cases would grow.
Then the same cases are verified by one process and by two.
"""

from __future__ import annotations

import gc
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
import psutil

from agents.core.registry import Registry
from agents.graphs import verification
from evaluation.replay.candidates import ReplayBuilder
from evaluation.replay.journal import Source
from evaluation.replay.log_file import LogFile, Record, by_partition, read_log_file
from evaluation.replay.verify import LogAt, same, verify_at
from lab.bench.auditing import _events_of as events_of
from lab.bench.measures import Figure
from lab.bench.simulated.nulls import comparing
from lab.bench.world import news
from schemas.config import Snapshot
from schemas.ids import uuid5
from streams.journal.gc_thresholds import rarely_collected
from streams.replay import Change, Recordings, reused_alone
from tests.plain_graph import plain_registry

CASES = 100_000
LOOK_AFTER = 10_000
"""Number of cases between two memory samples."""
LEAST_ASKED = 300
DEEP = frozenset({"plan", "search", "critique", "synthesize"})
"""Steps that a deep case went through, all of them."""
VERIFIED = 10_000


async def replayed(cases: int = CASES) -> list[Figure]:
    """Run :func:`_replayed` with the garbage collection settings of the commands."""
    with rarely_collected():
        figures = _replayed(cases)
    return [*figures, *await _verified(min(cases, VERIFIED)), comparing()]


def _replayed(cases: int) -> list[Figure]:
    """Replay this many cases of the plain graph and of the sample, then a smaller number of the sample asking every
    step.
    """
    registry, snapshot = plain_registry(asks=False), Snapshot()
    plain = {snapshot.config_hash: snapshot}
    log = read_log_file()
    code = next(iter(log.snapshots.values())).code_version
    every = ReplayBuilder(registry, plain, Change(), ask_every_step=True)
    known = ReplayBuilder(verification(), log.snapshots, Change(), code=code)
    asked = ReplayBuilder(verification(), log.snapshots, Change(), ask_every_step=True)
    figures = _figures(
        "plain graph, every step asked", lambda: _plain(registry, snapshot, cases), every, ">= 2,000 (aim 5,000)"
    )
    figures += _figures("sample, unchanged steps as recorded", lambda: _copies(log, cases), known, ">= 5,000")
    few = max(LEAST_ASKED, cases // 200)
    figures += _figures("sample, every step asked", lambda: _rounds(log, few), asked, "-")
    deep = _deep(log)
    return figures + _figures("deep cases, every step asked", lambda: _rounds(deep, few), asked, ">= 250")


def _deep(log: LogFile) -> LogFile:
    """Return the log of the cases that went through every step of the deep path."""
    steps: dict[str, set[str]] = {}
    for recording in Recordings().take([r for batch in _copies(log, 0, own=True) for r in batch]):
        events = {type(r.event).__name__ for r in recording.records}
        steps[recording.case_id] = {s for s, made in _MADE_BY.items() if made in events}
    cases = tuple(r for r in log.cases if steps[dict(r.headers)["ce_subject"].decode()] >= DEEP)
    return msgspec.structs.replace(log, cases=cases)


_MADE_BY = {
    "plan": "ToolPlanned",
    "search": "SearchCompleted",
    "critique": "EvidenceCritiqued",
    "synthesize": "SignalSynthesized",
}


class RepeatedLog(LogAt, frozen=True):
    """The sample as the journal of an installation that repeated it, each round on its own partition."""

    rounds: int = 1

    async def source(self) -> Source:
        """Open it for reading."""
        return _Rounds(read_log_file(), self.rounds)


class _Rounds:
    def __init__(self, log: LogFile, rounds: int) -> None:
        self.partitions: Any = None  # no record is looked for on the partition of its case
        self.snapshots: Mapping[str, Snapshot] = log.snapshots
        self._log, self._rounds = log, rounds

    async def batches(self) -> AsyncIterator[tuple[int, Sequence[Any]]]:
        for number, records in enumerate(_rounds(self._log, self._rounds * 42)):
            yield number, [msgspec.structs.replace(r, partition=number) for r in records]


async def _verified(cases: int) -> list[Figure]:
    """Verify the same cases with one process and with two, alternately. The time includes their start."""
    where = RepeatedLog(rounds=-(-cases // 42))
    took: dict[int, float] = {}
    for processes in (1, 2, 1, 2):
        result = await verify_at(where, processes=processes)
        if not result.clean:
            raise AssertionError(f"{result.cases - result.identical} cases did not come out as recorded")
        took[processes] = min(took.get(processes, result.seconds), result.seconds)
    return [
        Figure(name=f"replay: verify of {where.rounds * 42:,} cases, two processes", value=took[2], unit="s", target="half of one",
               baseline=f"{took[1]:.1f} s, one process", ratio=took[2] / took[1])
    ]  # fmt: skip


def _figures(name: str, log: Callable[[], Iterator[list[Any]]], builder: ReplayBuilder, target: str) -> list[Figure]:
    cpu, taken, cases, memory = 0.0, 0.0, 0, list[float]()
    process = psutil.Process()
    gathered = Recordings()
    for records in log():
        if not gathered.open_cases and records[0].offset == 0:
            gathered = Recordings()
        of_batch = gathered.take(records)
        begin = time.thread_time()
        # One by one, as every command does: a case that is replayed at once is still in the processor's cache.
        while (recording := next(of_batch, None)) is not None:
            decoded = time.thread_time()
            if not same(recording, reused_alone(builder.build(recording).run())):
                raise AssertionError(f"case {recording.case_id} did not come out as recorded")
            end = time.thread_time()
            cpu, taken, cases = cpu + decoded - begin, taken + end - decoded, cases + 1
            if cases % LOOK_AFTER == 0:
                gc.collect()
                memory.append(process.memory_info().rss / 2**20)
            begin = time.thread_time()
        cpu += time.thread_time() - begin
    decode = cases / cpu
    figures = [
        Figure(name=f"replay: {name}", value=cases / (cpu + taken), unit="cases/s", target=target,
               baseline=f"{decode:,.0f} cases/s, decoding the same records alone", ratio=(cases / (cpu + taken)) / decode)
    ]  # fmt: skip
    if len(memory) > 2:
        grown = memory[-1] - memory[1]
        figures.append(
            Figure(name=f"replay: memory over {cases:,} cases, {name}", value=grown, unit="MiB", target="flat",
                   baseline=f"{memory[1]:.0f} MiB after the first {2 * LOOK_AFTER:,}")
        )  # fmt: skip
    return figures


def _plain(registry: Registry, snapshot: Snapshot, cases: int) -> Iterator[list[Any]]:
    offset = 0
    for first in range(0, cases, 1000):
        batch: list[Any] = []
        for number in range(first, min(first + 1000, cases)):
            _, value = news(number)
            for record in events_of(registry, snapshot, value):
                batch.append(_record(offset, record["value"], record["headers"]))
                offset += 1
        yield batch


def _copies(log: LogFile, cases: int, *, own: bool = False) -> Iterator[list[Any]]:
    offset, made = 0, 0
    ordered = [record for _, records in by_partition(log.cases) for record in records]
    of_case: dict[str, list[Record]] = {}
    for record in ordered:
        of_case.setdefault(dict(record.headers)["ce_subject"].decode(), []).append(record)
    while made < cases or own:
        batch: list[Any] = []
        for case_id, records in of_case.items():
            other = case_id if own else uuid5("copy", str(made), case_id)
            for record in records:
                value = (record.value or b"").replace(case_id.encode(), other.encode())
                headers = [(n, v if n != "ce_subject" else other.encode()) for n, v in record.headers]
                batch.append(_record(offset, value, headers))
                offset += 1
            made += 1
            if made >= cases and not own:
                break
        yield batch
        if own:
            return


def _rounds(log: LogFile, cases: int) -> Iterator[list[Any]]:
    # Keep the recorded ids, because steps depend on them. So each round is a separate log.
    records = [r for batch in _copies(log, 0, own=True) for r in batch]
    rounds = -(-cases // len({dict(r.headers)["ce_subject"] for r in records}))
    yield from (records for _ in range(rounds))


def _record(offset: int, value: bytes, headers: Sequence[tuple[str, bytes]]) -> Record:
    return Record("cases", 0, offset, 0, None, value, tuple(headers))
