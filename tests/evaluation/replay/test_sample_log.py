"""The shipped log is the history that every change of the steps is judged by; and what a case could not know is refused."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from evaluation.replay.journal import FileSource
from evaluation.replay.log_file import read_log_file
from evaluation.replay.verify import verify
from evaluation.runs.plan import RunPlan
from schemas.calls import Call
from schemas.effects import RecallReply, SearchReply
from schemas.errors import ConfigError
from schemas.events import CaseTriaged, ContextGathered, Event, EventReceived, SearchCompleted, SignalSynthesized
from schemas.evidence import MemoryEntry
from tests.evaluation.runs.run_samples import Backtest, changed_log

A_A = RunPlan(run_id="aa")


async def test_all_sample_cases_come_out_byte_for_byte_without_a_call() -> None:
    found = await verify(FileSource(read_log_file()))
    # A step says something else than when the log was recorded. Was that meant? Then record it anew:
    # newsproof backtest record-sample evaluation/replay/sample-log.jsonl.gz
    assert found.differences == []
    assert (found.cases, found.identical, found.diverged, found.calls, found.misses) == (42, 42, 0, 0, 0)


async def test_a_changed_record_is_found_and_the_step_is_named() -> None:
    def other(_case: str, event: Event) -> Event:
        if isinstance(event, SignalSynthesized):
            return replace(event, signal=replace(event.signal, confidence=0.123))
        return replace(event, gate_reason="another reason") if isinstance(event, CaseTriaged) else event

    found = await verify(changed_log(read_log_file(), other))
    assert (found.identical, found.diverged) == (0, 42)
    assert {d.diverged_at for d in found.differences} == {"triage"}


async def test_an_event_that_does_not_decode_is_reported_with_its_case() -> None:
    log = read_log_file()
    at = next(n for n, r in enumerate(log.cases) if dict(r.headers)["ce_type"] == b"newsproof.case_triaged")
    broken = replace(log.cases[at], value=b'{"type": "newsproof.case_triaged"}')
    found = await verify(FileSource(replace(log, cases=(*log.cases[:at], broken, *log.cases[at + 1 :]))))
    (difference,) = found.differences
    assert (difference.status, found.identical) == ("failed", 41)
    assert "newsproof.case_triaged" in difference.reason


async def test_a_case_whose_configuration_is_lost_is_reported() -> None:
    log = read_log_file()
    found = await verify(FileSource(replace(log, snapshots={})))
    assert found.identical == 0
    assert "not on the configs topic" in found.differences[0].reason


async def test_evidence_from_after_the_case_is_refused_and_counted() -> None:
    log = read_log_file()
    received = opened(log)
    planted: list[str] = []

    def future(case_id: str, event: Event) -> Event:
        if case_id in planted or not searches(event):
            return event
        planted.append(case_id)
        return with_replies(event, lambda reply: late(reply, received[case_id].news.as_of))

    plain, seen = Backtest(), Backtest(changed_log(log, future))
    await plain.run(A_A)
    await seen.run(A_A, every=True)
    assert len(planted) > 10
    for case_id in planted:
        before, row = plain.rows[case_id, 0], seen.rows[case_id, 0]
        assert row.look_ahead_evidence > before.look_ahead_evidence
        assert "planted.example" not in row.signal


async def test_results_without_a_date_are_counted_and_kept() -> None:
    def undated(reply: SearchReply) -> SearchReply:
        return replace(reply, results=tuple(replace(one, published_at=None) for one in reply.results))

    bare = changed_log(read_log_file(), lambda _id, event: with_replies(event, undated) if searches(event) else event)
    ran = await Backtest(bare).run(A_A, every=True)
    assert (ran.totals.undated > 100, ran.totals.look_ahead) == (True, 0)


async def test_a_memory_from_the_future_is_refused_and_counted() -> None:
    log = read_log_file()
    received = opened(log)
    planted: list[str] = []

    def future(case_id: str, event: Event) -> Event:
        if not isinstance(event, ContextGathered):
            return event
        planted.append(case_id)
        at = received[case_id].news.as_of + timedelta(hours=1)
        entry = MemoryEntry(
            case_id="11111111-1111-5111-8111-111111111111",
            summary="the future",
            event_type="hack",
            asset="BTC",
            confidence=0.9,
            similarity=0.9,
            decided_at=at,
        )
        recalled = RecallReply(entries=(entry,))
        calls = tuple(replace(c, reply=recalled, error=None) if c.kind == "recall" else c for c in event.calls)
        return replace(event, calls=calls)

    for every in (False, True):
        planted.clear()
        seen = Backtest(changed_log(log, future))
        await seen.run(A_A, every=every)
        assert len(planted) > 10
        assert all(seen.rows[case_id, 0].look_ahead_memory == 1 for case_id in planted)
        assert not any("the future" in row.signal for row in seen.rows.values())


async def test_a_price_from_before_the_news_was_knowable_is_refused_and_counted() -> None:
    log = read_log_file()
    case_id, event = next(iter(opened(log).items()))
    entries = {case_id: [event.news.as_of - timedelta(seconds=1), event.news.as_of + timedelta(seconds=1)]}
    seen = Backtest()
    await seen.run(A_A, entries=entries)
    assert seen.rows[case_id, 0].look_ahead_prices == 1
    assert sum(row.look_ahead_prices for row in seen.rows.values()) == 1


def test_a_file_that_is_no_log_is_refused_in_words(tmp_path: Any) -> None:
    path = tmp_path / "log.jsonl.gz"
    path.write_bytes(b"no log")
    with pytest.raises(ConfigError, match="record-sample"):
        read_log_file(path)


def opened(log: Any) -> dict[str, EventReceived]:
    found: dict[str, EventReceived] = {}

    def note(case_id: str, event: Event) -> Event:
        if isinstance(event, EventReceived):
            found[case_id] = event
        return event

    changed_log(log, note)
    return found


def searches(event: Event) -> bool:
    return isinstance(event, SearchCompleted) and any(isinstance(c.reply, SearchReply) for c in event.calls)


def with_replies(event: Event, change: Any) -> Event:
    def one(call: Call) -> Call:
        return replace(call, reply=change(call.reply)) if isinstance(call.reply, SearchReply) else call

    return replace(event, calls=tuple(one(c) for c in event.calls))


def late(reply: SearchReply, as_of: Any) -> SearchReply:
    if not reply.results:
        return reply
    first = replace(
        reply.results[0],
        url="https://planted.example/later",
        domain="planted.example",
        published_at=as_of + timedelta(days=1),
    )
    return replace(reply, results=(first, *reply.results))
