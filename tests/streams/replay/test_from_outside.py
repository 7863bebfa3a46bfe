"""What happened to a case from outside (a deadline, a crash, a restart, a person) happens again when it is replayed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

from agents.core.case import Case, Replies, fold, open_case
from agents.core.failures import failed
from agents.core.step_turn import with_calls
from agents.graphs import verification
from evaluation.replay.verify import same
from infra.offline.model import OfflineModel
from infra.offline.search import OfflineSearch
from infra.offline.simulated import Simulated
from infra.settings import load_settings
from newsproof.app.composition import snapshot_of
from schemas import events as ev
from schemas.config import Snapshot
from schemas.effects import CallModel, Effect, Failure, Search, request_hash
from schemas.ids import LIVE_RUN, content_hash, event_id
from streams.replay import Change, Miss, RecordedEvent, Recording, Replay, reused_alone
from tests.specification import call_of, opened

AT = datetime(2024, 6, 1, tzinfo=UTC)
NEWS = opened("Coinbase was hacked, 40,000 ether stolen from its hot wallet", at=AT)
DEADLINE = Failure(kind="deadline", message="the deadline of the deep path passed at plan", retryable=False)
CRASH = Failure(kind="crash", message="the step killed its worker", retryable=False)


@pytest.fixture(scope="module")
def snapshot() -> Snapshot:
    return snapshot_of(
        load_settings(newsproof_mode="offline", phase1_rollout_percentage=1.0, deep_analysis_tools_enabled=True)
    )


async def recorded(snapshot: Snapshot, outside: dict[int, ev.Event]) -> Recording:
    """Run the case in memory; at the heads that ``outside`` numbers, that event comes before the step's."""
    registry, model, search, ours = verification(), OfflineModel(), OfflineSearch(), Simulated()
    case_id = NEWS.news.case_id
    case = open_case(NEWS, case_id=case_id, event_id="opening", run_id=LIVE_RUN, at=AT, config=snapshot)
    records = [RecordedEvent("opening", AT, NEWS)]

    async def reply(effect: Effect) -> ev.Event:
        port = model if isinstance(effect, CallModel) else search if isinstance(effect, Search) else ours
        call = call_of(effect, (await port.perform(effect)).reply, at=case.head_at + timedelta(milliseconds=5))
        return ev.EffectCompleted(step="", request_hash=call.request_hash, calls=(call,))

    def append(case: Case, event: ev.Event) -> Case:
        at = case.head_at + timedelta(milliseconds=10)
        new_id = event_id(LIVE_RUN, case_id, case.head_id)
        if isinstance(event, ev.CancelRequested):
            new_id = "a command's own id"
        records.append(RecordedEvent(new_id, at, event))
        return fold(case, event, event_id=new_id, at=at)

    while not case.closed:
        step = registry.next_step(case)
        assert step is not None
        if (event := outside.get(case.seq)) is not None and case.seq == len([r for r in records if moves(r)]) - 1:
            outside = {n: e for n, e in outside.items() if n != case.seq}
            case = append(case, event)
            continue
        asked = step.ask(case)
        if isinstance(asked, tuple):
            missing = [e for e in asked if case.replies.of(e) is None]
            if missing:
                case = append(case, await reply(missing[0]))
                continue
            case = append(case, step.tell(case, case.replies))
        elif isinstance(asked, ev.Event):
            case = append(case, asked)
        else:
            calls = (await reply(asked)).calls
            case = append(case, with_calls(step.tell(case, Replies(calls)), calls))
    return Recording(case_id=case_id, run_id=LIVE_RUN, records=records)


def moves(record: RecordedEvent) -> bool:
    return not isinstance(record.event, ev.EffectCompleted)


OUTSIDE: dict[str, dict[int, ev.Event]] = {
    "nothing": {},
    "a restart": {0: ev.StepStarted(step="triage", crashes=3)},
    "a restart that was handed back": {
        0: ev.StepStarted(step="triage", crashes=3),
        1: ev.StepStarted(step="triage", crashes=3, handed_back=True),
    },
    "a deadline": {2: ev.StepFailed(step="plan", failure=DEADLINE, attempt=1, outcome="degrade")},
    "a crash": {2: ev.StepFailed(step="plan", failure=CRASH, attempt=1, outcome="degrade")},
    "a person": {2: ev.CancelRequested(requested_by="somebody", reason="enough")},
    "a poisoned record": {2: ev.CaseFailed(reason="unreadable", failed_step="journal", attempts=0)},
}


@pytest.mark.parametrize("name", OUTSIDE)
async def test_it_happens_again_and_the_end_is_the_same(snapshot: Snapshot, name: str) -> None:
    recording = await recorded(snapshot, OUTSIDE[name])
    for changed in (None, frozenset[str]()):
        replayed = reused_alone(Replay(recording, snapshot, verification(), changed=changed).run())
        assert (replayed.status, replayed.diverged_at, replayed.unused) == ("replayed", "", 0)
        assert same(recording, replayed)
        assert replayed.case.head_id == recording.records[-1].id
        assert replayed.case.head_at == recording.records[-1].at


async def test_a_deadline_stays_where_it_was_when_the_prompt_of_its_step_changes(snapshot: Snapshot) -> None:
    recording = await recorded(snapshot, OUTSIDE["a deadline"])
    plan = snapshot.prompts["plan"]
    changed = Change(prompts={"plan": replace(plan, text="Otherwise. " + plan.text, hash=content_hash("other"))})
    replayed = reused_alone(Replay(recording, changed.applied_to(snapshot), verification()).run())
    assert same(recording, replayed)
    assert replayed.count("miss") == 0


async def test_an_answer_that_is_not_there_is_asked_for_with_what_it_stands_in_for(snapshot: Snapshot) -> None:
    recording = await recorded(snapshot, {})
    triage = snapshot.prompts["triage"]
    changed = Change(prompts={"triage": replace(triage, text="Otherwise. " + triage.text, hash=content_hash("other"))})
    asking = Replay(recording, changed.applied_to(snapshot), verification(), changed=frozenset({"triage"})).run()
    need = next(asking)
    assert (need.step, need.attempt) == ("triage", 1)
    assert need.request_hash == request_hash(need.effect)
    (stand_in,) = need.stand_in
    assert (stand_in.prompt_name, stand_in.request_hash == need.request_hash) == ("triage", False)
    with pytest.raises(StopIteration) as stop:
        asking.send(Miss("nobody to ask"))
    assert (stop.value.value.status, stop.value.value.reason) == ("miss", "nobody to ask")


async def test_the_time_of_an_executed_call_is_that_of_the_call_it_stands_in_for(snapshot: Snapshot) -> None:
    recording = await recorded(snapshot, {})
    triage = snapshot.prompts["triage"]
    changed = Change(prompts={"triage": replace(triage, text="Otherwise. " + triage.text, hash=content_hash("other"))})
    asking = Replay(recording, changed.applied_to(snapshot), verification()).run()
    need = next(asking)
    answer = call_of(need.effect, need.stand_in[-1].reply, at=datetime(2030, 1, 1, tzinfo=UTC))
    with pytest.raises(StopIteration) as stop:
        while True:
            need = asking.send((answer,))
    replayed = stop.value.value
    assert replayed.signal.decided_at == recording.end.signal.decided_at  # type: ignore[attr-defined]
    assert replayed.signal.summary == recording.end.signal.summary  # type: ignore[attr-defined]
    assert [u.execution for u in replayed.used].count("executed") == 1


async def test_a_failed_attempt_is_retried_as_it_was(snapshot: Snapshot) -> None:
    recording = await recorded(snapshot, {})
    at = next(n for n, r in enumerate(recording.records) if isinstance(r.event, ev.ToolPlanned))
    before, told = recording.records[at - 1], recording.records[at]
    call = told.event.calls[0]
    lost = Failure(kind="timeout", message="no answer", retryable=True)
    case = open_case(NEWS, case_id=recording.case_id, event_id="opening", run_id=LIVE_RUN, at=AT, config=snapshot)
    event = with_calls(failed(case, "plan", lost, now=before.at), (replace(call, reply=lost, error="timeout"),))
    new_id = event_id(LIVE_RUN, recording.case_id, before.id)
    records = [*recording.records[:at], RecordedEvent(new_id, before.at, event)]
    for record in recording.records[at:]:
        moved = record.id if not moves(record) else event_id(LIVE_RUN, recording.case_id, next(
            r.id for r in reversed(records) if moves(r)))  # fmt: skip
        records.append(RecordedEvent(moved, record.at, record.event))
    replayed = reused_alone(
        Replay(Recording(case_id=recording.case_id, run_id=LIVE_RUN, records=records), snapshot, verification()).run()
    )
    assert (replayed.status, replayed.diverged_at, replayed.unused) == ("replayed", "", 0)
    assert replayed.signal is not None
    assert replayed.case.head_id == records[-1].id
