"""The parts of the chaos harness: its plan, its count of calls in flight, and that its verdict finds what is wrong."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

from aiokafka import TopicPartition
from msgspec.structs import replace

from lab.chaos.asker import must_end
from lab.chaos.inflight import Counters, InFlight, read_counters
from lab.chaos.outcome import Research
from lab.chaos.plan import RESEARCH_POINTS, SHORT, SINK_POINTS, WORKER_POINTS, Shape, plan, shaped
from lab.chaos.provider import FAULTS
from lab.chaos.tally import Tally, place
from lab.chaos.watch import Sample
from schemas import envelope as wire
from schemas import events as ev
from schemas.calls import Call, CallKind
from schemas.effects import Failure, SearchReply
from schemas.errors import FailureKind
from schemas.events import OPENING_NAME
from schemas.ids import RESEARCH_RUN, uuid5
from schemas.research_events import AnswerStopped
from schemas.watches import MAX_EVERY_S, WatchSet
from streams.failpoints import FAILPOINTS
from streams.journal.fold import JournalFold
from streams.watches.rule import WatchState


def test_the_full_run_deals_what_was_promised_at_every_boundary() -> None:
    faults = plan(Shape(seed=1))
    injected = Counter(fault.kind for fault in faults)
    assert (Shape().cases, Shape().workers) == (100_000, 3)
    assert injected["kill"] >= 50
    assert injected["broker"] >= 10
    assert min(injected["zombie"], injected["clickhouse"]) >= 5
    assert {b.point for b in faults if b.kind == "kill"} == set(WORKER_POINTS)
    assert {b.point for b in faults if b.kind == "sink_kill"} == set(SINK_POINTS)
    assert {b.point for b in faults if b.kind == "research_kill"} == set(RESEARCH_POINTS)
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
    right, wrong, other = (
        Sample("worker", topic, 0, committed, 2) for topic, committed in (("cases", 1), ("cases", 2), ("research", 2))
    )
    for samples, found in ([right, other], 0), ([right, wrong, other], 1):
        tally, part = Tally(samples), JournalFold()
        part.accepted.offer(0, "newsproof.step_failed", "closed long ago", "e0", "cause")
        part.accepted.offer(1, OPENING_NAME, "open", "e1", None)
        tally._check_samples(TopicPartition("cases", 0), part, upto=2)
        assert (len(tally.past_open), tally.samples_checked) == (found, len(samples) - 1)


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


NOW = datetime(2026, 1, 1, tzinfo=UTC)
TURN = uuid5("turn")


def told(tally: Tally, event: ev.Event, *, offset: int = 0, accepted: bool = True) -> None:
    """Show one record of a question to the tally."""
    _, value, headers = wire.encode(event, id="e", case_id=TURN, causation_id=None, run_id=RESEARCH_RUN, time=NOW)
    tally._see(wire.read_envelope(headers), accepted, SimpleNamespace(partition=1, offset=offset, value=value))


def searched(kind: CallKind = "search", failed: FailureKind | None = None) -> ev.EffectCompleted:
    """A reply of one and the same call."""
    found = SearchReply(provider="offline", query="", results=())
    call = Call(
        kind=kind, provider="offline", mode="offline", request_hash="h", latency_ms=1, cost_usd=None, replied_at=NOW,
        reply=Failure(kind=failed, message="", retryable=True) if failed else found, error=failed,
    )  # fmt: skip
    return ev.EffectCompleted(step="search", request_hash="h", calls=(call,))


def test_of_a_question_the_ends_are_counted_and_the_calls_that_had_an_answer_already() -> None:
    tally = Tally([])
    told(tally, ev.QuestionAsked(message="", config_hash="", language="en", chat_id="q"))
    told(tally, searched(failed="timeout"))
    told(tally, searched())  # asked again, since it had failed
    told(tally, searched(), accepted=False)  # by two workers at once
    told(tally, searched("scrape"), offset=9)
    assert (tally.asked_again, tally.research_calls, tally.case_calls) == (0, {"search": 2}, 0)
    told(tally, searched())
    assert tally.asked_again == 1
    for _ in range(2):
        told(tally, AnswerStopped(requested_by="page", reason=""))
    assert (tally.opened, tally.ends, tally.ended) == ({TURN}, {TURN: 2}, 0)
    assert tally.ends_as == {"newsproof.answer_stopped": 2}
    assert place(1, 9) not in tally.rows["events"] and place(1, 9, research=True) in tally.rows["events"]


def test_a_question_without_an_end_or_with_two_and_a_call_too_many_fail_the_run() -> None:
    good = Research(
        workers=1, kills=1, zombies=0, watches=1, asked=3, ended_once=3, ends={}, provider_calls=9, calls={"model": 8},
        repeated_calls=1, calls_in_flight_at_kills=1,
    )  # fmt: skip
    wrong = ({"ended_once": 2}, {"repeated_calls": 2}, {"repeated_calls": -1})
    assert [[held for *_, held in one.invariants()].count(False) for one in (good, *(replace(good, **w) for w in wrong))] == [
        0, 1, 1, 1,
    ]  # fmt: skip


def test_a_watch_that_opened_no_investigation_counts_as_one_that_never_ends() -> None:
    state = WatchState()
    for id in ("w1", "w2"):
        state.fold(1, WatchSet(id=id, subject="x", every_s=MAX_EVERY_S, language="en", by="chaos"))
    state.watches["w1"].investigation = "opened"
    assert must_end({"question"}, {"w1", "w2"}, state) == {"question", "opened", "w2"}
