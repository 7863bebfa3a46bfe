"""The measure of a worker's start: the log that it fills is one that every reader takes, and a restart finds its folds."""

from __future__ import annotations

from pathlib import Path

import pytest

from infra.kafka.topics import KafkaAddress, committed_by, offsets_of
from lab.bench.starts import filling, start
from schemas.topics import Topics
from streams.audit.audit import audit
from streams.budget.reading import read_budget
from streams.journal.log import KafkaLog
from tests.conftest import PARTITIONS

CASES = 40


@pytest.mark.slow
async def test_the_filled_log_is_sound_and_read_to_its_end(
    address: KafkaAddress, made_topics: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(filling, "_AT_ONCE", 25)
    written = await filling.fill(address, made_topics, CASES, partitions=PARTITIONS)
    report = await audit(KafkaLog(address), made_topics)
    assert (report.cases, report.open, report.signals) == (CASES, 0, CASES)
    assert report.duplicate_signals == 0
    budget = await read_budget(address, made_topics)
    assert sum(day.granted for day in budget.days.values()) == CASES * filling.CALLS_A_CASE
    assert (budget.garbage, budget.repeated, budget.late, len(budget.held)) == (0, 0, 0, 0)
    assert written == 1 + CASES * (1 + 6 + 1 + 2 * filling.CALLS_A_CASE)
    for reader, topics in (("worker", ("cases", "news")), ("publisher", ("cases",))):
        done = await committed_by(address, made_topics.group(reader))
        for topic in topics:
            ends = await offsets_of(address, getattr(made_topics, topic))
            assert {tp: done[tp].offset for tp in ends} == {tp: end for tp, (_, end) in ends.items()}


@pytest.mark.slow
async def test_both_starts_of_a_worker_are_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(start, "FEW", 50)
    figures = {f.name: f.value for f in await start.start(50)}
    assert {"ready seconds", "ready cpu seconds", "worker MiB"} <= figures.keys()
    assert figures["start: after 50 cases, ready"] == figures["ready seconds"] > 0
    assert figures["start: first start after 50 cases, memory then"] > 50
    assert not [name for name in figures if "for each" in name], "one size has no slope"


async def test_the_slopes_between_two_sizes_are_per_100_000_cases(monkeypatch: pytest.MonkeyPatch) -> None:
    async def starts(cases: int) -> tuple[start.Start, start.Start]:
        first, again = (
            start.Start(
                ready_s=1.0 + cases * share, ready_cpu_s=2.0 + cases * share, settled_cpu_s=3.0 + cases * share,
                mib=90.0 + cases * share, stall_ms=7.0,
            )
            for share in (0.02, 0.01)
        )  # fmt: skip
        return first, again

    monkeypatch.setattr(start, "_starts", starts)
    monkeypatch.setattr(start, "FEW", 50)
    figures = {f.name: f.value for f in await start.start(100)}
    assert figures["start: after 50 cases, ready"] == 1.5 and figures["start: after 100 cases, memory then"] == 91.0
    assert figures["ready seconds"] == figures["start: after 100 cases, ready"] == 2.0
    for kind, slope in (("restart", 1000.0), ("first start", 2000.0)):
        for what in ("ready", "processor time until then", "processor time until all is read", "memory"):
            assert figures[f"start: {kind}, for each 100,000 cases, {what}"] == pytest.approx(slope)
