"""Benchmarks the replay of recorded cases with full reuse: one core, no server. Baseline: decoding alone.

The sample log is repeated under other case ids, so that no case appears twice and a cache of seen cases would grow.
Then the same cases are verified by one process and by two, and two runs are compared.
"""

from __future__ import annotations

import gc
import time
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
import psutil

from agents.graphs import verification
from evaluation.replay.candidates import ReplayBuilder
from evaluation.replay.journal import Source
from evaluation.replay.log_file import LogFile, Record, by_partition, read_log_file
from evaluation.replay.verify import LogAt, same, verify_at
from lab.bench.measures import Figure
from lab.bench.simulated.nulls import comparing
from schemas.config import Snapshot
from schemas.ids import uuid5
from streams.journal.gc_thresholds import rarely_collected
from streams.replay import Change, Recordings, reused_alone

CASES = 100_000
LOOK_AFTER = 10_000
"""Number of cases between two memory samples."""
LEAST_ASKED = 300
MADE_BY_DEEP = frozenset({"ToolPlanned", "SearchCompleted", "EvidenceCritiqued", "SignalSynthesized"})
"""Events of a deep case, all of them."""
VERIFIED = 10_000


async def replayed(cases: int = CASES) -> list[Figure]:
    """Replay this many cases as recorded, and fewer deep ones asking every step, with the garbage collection of the commands."""
    log = read_log_file()
    code = next(iter(log.snapshots.values())).code_version
    known = ReplayBuilder(verification(), log.snapshots, Change(), code=code)
    asked = ReplayBuilder(verification(), log.snapshots, Change(), ask_every_step=True)
    with rarely_collected():
        figures = _figures("sample, unchanged steps as recorded", _copies(log, cases), known, ">= 5,000")
        few = _rounds(_deep(log), max(LEAST_ASKED, cases // 200))
        figures += _figures("deep cases, every step asked", few, asked, ">= 250")
    return [*figures, *await _verified(min(cases, VERIFIED)), comparing()]


def _deep(log: LogFile) -> LogFile:
    """Return the log of the cases that went through every step of the deep path."""
    recordings = Recordings().take([r for batch in _copies(log, 0, own=True) for r in batch])
    deep = {one.case_id for one in recordings if {type(r.event).__name__ for r in one.records} >= MADE_BY_DEEP}
    cases = tuple(r for r in log.cases if dict(r.headers)["ce_subject"].decode() in deep)
    return msgspec.structs.replace(log, cases=cases)


class Repeated(LogAt, frozen=True):
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
    where = Repeated(rounds=-(-cases // 42))
    took: dict[int, float] = {}
    for processes in (1, 2, 1, 2):
        found = await verify_at(where, processes=processes)
        if not found.clean:
            raise AssertionError(f"{found.cases - found.identical} cases did not come out as recorded")
        took[processes] = min(took.get(processes, found.seconds), found.seconds)
    return [
        Figure(name=f"replay: verify of {where.rounds * 42:,} cases, two processes", value=took[2], unit="s", target="half of one",
               baseline=f"{took[1]:.1f} s, one process", ratio=took[2] / took[1])
    ]  # fmt: skip


def _figures(name: str, log: Iterable[list[Any]], builder: ReplayBuilder, target: str) -> list[Figure]:
    cpu, taken, cases, memory = 0.0, 0.0, 0, list[float]()
    process = psutil.Process()
    gathered = Recordings()
    for records in log:
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
