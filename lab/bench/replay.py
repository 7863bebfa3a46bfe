"""Benchmarks the replay of recorded cases with full reuse: one core, no server, three logs. Baseline: decoding alone.

The sample log is repeated under other case ids, so that no case is seen twice and a cache of seen cases would grow.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import psutil

from agents.core.registry import Registry
from agents.graphs import verification
from lab.bench.auditing import _events_of as events_of
from lab.bench.graph import plain_registry
from lab.bench.measures import Figure
from lab.bench.world import news
from newsproof.evaluation.backtest.deciding import Deciding
from newsproof.evaluation.backtest.sample import LogFile, Record, by_partition, read_log_file
from newsproof.evaluation.backtest.verify import same
from schemas.config import Snapshot
from schemas.ids import uuid5
from streams.journal.gc_thresholds import rarely_collected
from streams.replay import Change, Recordings, reused_alone

CASES = 100_000
LOOK_AFTER = 10_000
"""Number of cases between two memory samples."""
LEAST_ASKED = 300


async def replayed(cases: int = CASES) -> list[Figure]:
    """Run :func:`_replayed` with the garbage collection settings of the commands."""
    with rarely_collected():
        return _replayed(cases)


def _replayed(cases: int) -> list[Figure]:
    """Replay this many cases of the plain graph and of the sample, then a smaller number of the sample asking every
    step.
    """
    registry, snapshot = plain_registry(asks=False), Snapshot()
    plain = {snapshot.config_hash: snapshot}
    log = read_log_file()
    code = next(iter(log.snapshots.values())).code_version
    every = Deciding(registry, plain, Change(), ask_every_step=True)
    known = Deciding(verification(), log.snapshots, Change(), code=code)
    asked = Deciding(verification(), log.snapshots, Change(), ask_every_step=True)
    figures = _figures(
        "plain graph, every step asked", lambda: _plain(registry, snapshot, cases), every, ">= 2,000 (aim 5,000)"
    )
    figures += _figures(
        "sample, unchanged steps as recorded", lambda: _copies(log, cases), known, ">= 2,000 (aim 5,000)"
    )
    few = max(LEAST_ASKED, cases // 200)
    return figures + _figures("sample, every step asked", lambda: _rounds(log, few), asked, "-")


def _figures(name: str, log: Callable[[], Iterator[list[Any]]], deciding: Deciding, target: str) -> list[Figure]:
    cpu, taken, cases, memory = 0.0, 0.0, 0, list[float]()
    process = psutil.Process()
    gathered = Recordings()
    for records in log():
        if not gathered.open_cases and records[0].offset == 0:
            gathered = Recordings()
        begin = time.thread_time()
        recordings = list(gathered.take(records))
        decoded = time.thread_time()
        for recording in recordings:
            if not same(recording, reused_alone(deciding.replay(recording).run())):
                raise AssertionError(f"case {recording.case_id} did not come out as recorded")
        end = time.thread_time()
        cpu, taken = cpu + decoded - begin, taken + end - decoded
        cases += len(recordings)
        if cases % LOOK_AFTER < len(recordings):
            gc.collect()
            memory.append(process.memory_info().rss / 2**20)
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
    # Keep the recorded ids, since steps depend on them too; so each round is a separate log.
    records = [r for batch in _copies(log, 0, own=True) for r in batch]
    rounds = -(-cases // len({dict(r.headers)["ce_subject"] for r in records}))
    yield from (records for _ in range(rounds))


def _record(offset: int, value: bytes, headers: Sequence[tuple[str, bytes]]) -> Record:
    return Record("cases", 0, offset, 0, None, value, tuple(headers))
