"""The parts of the chaos harness: its plan, its count of calls in flight, and that its verdict finds what is wrong."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

from msgspec.structs import replace

from lab.chaos.inflight import Counters, InFlight, read_counters
from lab.chaos.plan import SHORT, SINK_POINTS, WORKER_POINTS, Shape, plan, shaped
from lab.chaos.provider import FAULTS
from lab.chaos.tally import Tally
from lab.chaos.watch import Sample
from schemas import envelope as wire
from schemas.events import OPENING_NAME
from streams.failpoints import FAILPOINTS
from streams.journal.fold import JournalFold


def test_one_seed_gives_one_plan_and_another_seed_another() -> None:
    shape = Shape(seed=7)
    assert plan(shape) == plan(shape) != plan(replace(shape, seed=8))


def test_the_full_run_deals_what_was_promised_at_every_boundary() -> None:
    faults = plan(Shape(seed=1))
    injected = Counter(fault.kind for fault in faults)
    assert (Shape().cases, Shape().workers) == (100_000, 3)
    assert injected["kill"] >= 50
    assert injected["broker"] >= 10
    assert min(injected["zombie"], injected["clickhouse"]) >= 5
    assert {b.point for b in faults if b.kind == "kill"} == set(WORKER_POINTS)
    assert {b.point for b in faults if b.kind == "sink_kill"} == set(SINK_POINTS)
    assert {b.point for b in faults if b.kind == "fault"} == set(FAULTS)
    assert {b.point for b in faults if b.kind.endswith("kill")} - {"anywhere"} <= set(FAILPOINTS)


def test_a_worker_leaves_only_after_it_has_joined_and_faults_come_in_the_order_of_progress() -> None:
    for seed in range(20):
        faults = plan(Shape(seed=seed))
        comings = [fault.kind for fault in faults if fault.kind in ("join", "leave")]
        assert comings == ["join", "leave"] * (len(comings) // 2)
        assert [fault.at for fault in faults] == sorted(fault.at for fault in faults)


def test_the_short_run_has_at_least_one_blow_of_every_kind() -> None:
    injected = Counter(fault.kind for fault in plan(SHORT))
    assert set(injected) == {fault.kind for fault in plan(Shape())}
    assert injected["kill"] >= 5


def test_other_numbers_of_cases_keep_the_proportion_of_faults_and_numbers_given_win() -> None:
    shape = shaped(short=False, seed=3, cases=50_000, zombies=9)
    assert (shape.kills, shape.zombies, shape.seed) == (Shape().kills // 2, 9, 3)
    assert shaped(short=True, seed=None, cases=None).seed > 0


async def work(inflight: InFlight, go_on: asyncio.Event) -> None:
    inflight.work_begins()
    inflight.call_begins()
    await go_on.wait()


async def test_a_call_is_in_flight_until_the_task_that_appends_its_result_ends(tmp_path: Path) -> None:
    inflight, go_on = InFlight(tmp_path / "counts"), asyncio.Event()
    task = asyncio.create_task(work(inflight, go_on))
    await asyncio.sleep(0)
    assert read_counters(tmp_path / "counts") == Counters(started=1, open=1)
    go_on.set()
    await task
    await asyncio.sleep(0)
    assert read_counters(tmp_path / "counts") == Counters(started=1)


async def test_what_is_cut_off_or_outlasts_a_rebalance_may_be_paid_again(tmp_path: Path) -> None:
    inflight, go_on = InFlight(tmp_path / "counts"), asyncio.Event()
    cut, kept = (asyncio.create_task(work(inflight, go_on)) for _ in range(2))
    await asyncio.sleep(0)
    cut.cancel()
    await asyncio.wait([cut])
    await asyncio.sleep(0)
    assert read_counters(tmp_path / "counts") == Counters(started=2, open=1, exposed=1)
    inflight.drained()
    assert read_counters(tmp_path / "counts") == Counters(started=2, exposed=2)
    go_on.set()
    await kept
    await asyncio.sleep(0)
    assert read_counters(tmp_path / "counts").at_death == 2


async def test_all_that_a_thawed_process_calls_may_be_paid_again_until_it_has_been_told(tmp_path: Path) -> None:
    inflight, go_on = InFlight(tmp_path / "counts"), asyncio.Event()
    go_on.set()
    inflight.thawed()
    await asyncio.create_task(work(inflight, go_on))
    assert read_counters(tmp_path / "counts").exposed == 1
    inflight.drained()
    await asyncio.create_task(work(inflight, go_on))
    await asyncio.sleep(0)
    assert read_counters(tmp_path / "counts").at_death == 1


def test_an_offset_that_was_committed_past_an_open_case_is_found() -> None:
    right, wrong = Sample("worker", 0, 1, 2), Sample("worker", 0, 2, 2)
    for samples, found in ([right], 0), ([right, wrong], 1):
        tally, part = Tally(samples), JournalFold()
        part.accepted.offer(0, "newsproof.step_failed", "closed long ago", "e0", "cause")
        part.accepted.offer(1, OPENING_NAME, "open", "e1", None)
        tally._check_samples(0, part, upto=2)
        assert len(tally.past_open) == found


def test_calls_are_counted_where_they_reached_a_provider_and_rows_where_a_record_lies() -> None:
    value = (
        b'{"calls":[{"kind":"model"},{"kind":"search","error":"timeout"},'
        b'{"kind":"search","error":"breaker_open"},{"kind":"search","cached":true}]}'
    )
    tally = Tally([])
    record = SimpleNamespace(partition=1, offset=5, value=value)
    env = wire.Envelope(
        id="e",
        type="newsproof.effect_completed",
        case_id="c",
        causation_id="h",
        run_id="live",
        time=datetime(2026, 1, 1, tzinfo=UTC),
    )
    tally._see(env, True, record)
    tally._see(env, False, SimpleNamespace(partition=1, offset=6, value=value))
    assert (tally.case_calls, tally.passed_by_calls) == (2, 2)
    assert {table: len(keys) for table, keys in tally.rows.items() if keys} == {
        "events": 1,
        "llm_calls": 2,
        "tool_calls": 6,
    }
