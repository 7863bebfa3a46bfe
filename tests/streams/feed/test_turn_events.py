"""What a chat's stream says of each record of a turn: a pure function, so it is shown event by event."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from agents.prompts import load_prompts
from schemas import envelope as wire
from schemas import events as ev
from schemas.calls import Call
from schemas.config import Snapshot
from schemas.effects import Failure, ModelReply
from schemas.evidence import MarketValue
from schemas.ids import RESEARCH_RUN, uuid5
from schemas.research_events import CaseQuery, CasesFound, DataCollected
from streams.feed.turn_events import SHORT, TurnEventConverter, state_of
from tests.schemas.research_samples import NOW, SAMPLES

ASKED, ROUTED, PLANNED, COLLECTED, REPORTED, ANSWERED, STOPPED, FINISH, FOUND = SAMPLES
DIRECT = replace(ROUTED, decision="DIRECT_ANSWER", direct_answer="Hello.", route="answer")  # type: ignore[call-arg, type-var]
CONFIG = Snapshot(prompts=load_prompts("research"))
SLOW = Failure(kind="timeout", message="nobody answered", retryable=True)


def told(*events: ev.Event, language: str = "en", candles: bool = False) -> list[tuple[str, dict[str, Any]]]:
    """What a turn of these events says, with the record's number in place of its time."""
    teller = TurnEventConverter(CONFIG, candles=candles)
    said = []
    for number, event in enumerate(events):
        opened = replace(event, language=language) if event is ASKED else event  # type: ignore[call-arg]
        env = wire.Envelope(
            id=f"e{number}", type=ev.WIRE_NAMES[type(event)], case_id=uuid5("turn"), causation_id=None,
            run_id=RESEARCH_RUN, time=NOW + timedelta(seconds=number),
        )  # fmt: skip
        for name, data in teller.take(env, opened):
            assert data.pop("timestamp") == env.time
            said.append((name, data))
    return said


def in_short(*events: ev.Event) -> list[str]:
    return [f"{name}:{data['stage']}" if name == "status" else name for name, data in told(*events)]


def failed(outcome: Any) -> ev.StepFailed:
    at = NOW if outcome == "retry" else None
    return ev.StepFailed(step="plan", failure=SLOW, attempt=2, outcome=outcome, retry_at=at)


def test_an_analysis_goes_through_every_stage() -> None:
    assert in_short(ASKED, ROUTED, PLANNED, COLLECTED, REPORTED, ANSWERED) == [
        "status:routing", "super_agent_decision", "status:planning", "planning_result", "status:data_collection",
        "data_collected", "status:analysis", "status:synthesis", "final_answer", "done",
    ]  # fmt: skip


def test_a_direct_answer_has_no_stage_in_between() -> None:
    assert in_short(ASKED, DIRECT, ANSWERED) == ["status:routing", "super_agent_decision", "final_answer", "done"]


def test_cases_are_looked_up_and_written_of_without_agents() -> None:
    to_cases = replace(ROUTED, route="cases", cases=CaseQuery(hours=24))  # type: ignore[call-arg, type-var]
    assert in_short(ASKED, to_cases, FOUND, ANSWERED) == [
        "status:routing", "super_agent_decision", "status:data_collection", "data_collected", "status:synthesis",
        "final_answer", "done",
    ]  # fmt: skip
    [collected] = [data for name, data in told(ASKED, to_cases, FOUND) if name == "data_collected"]
    assert isinstance(FOUND, CasesFound)
    assert (collected["signals"], collected["unavailable"]) == (FOUND.signals, FOUND.unavailable)


def test_a_front_end_that_knows_phases_alone_can_follow_a_turn_through_a_retry_to_its_end() -> None:
    said = told(ASKED, ROUTED, failed("retry"), PLANNED, COLLECTED, REPORTED, ANSWERED)
    phases = [data["decision_phase"] for name, data in said if name in {"status", "done"}]
    assert phases == [
        "planning", "planning", "recovering", "executing", "executing", "synthesizing", "completed",
    ]  # fmt: skip
    planned = next(data for name, data in said if name == "planning_result")
    assert planned["agent_ids"] == ["ta_agent"]


def test_price_bars_go_out_only_when_asked_for_and_a_price_of_bitcoin_only_where_it_is_one() -> None:
    assert isinstance(COLLECTED, DataCollected)
    price = tuple(
        MarketValue(name=name, value=value, unit="", source="coinbase", observed_at=NOW)
        for name, value in (("price", 64_000.5), ("price_change_24h", 1.8))
    )
    for asset, of_bitcoin in (("BTC", 64_000.5), ("ETH", None)):
        about = replace(COLLECTED, asset=asset, price=price)
        short, whole = (
            next(data for name, data in told(ASKED, ROUTED, PLANNED, about, candles=c) if name == "data_collected")
            for c in (False, True)
        )
        assert "candles" not in short
        assert len(whole["candles"]) == short["candle_count"] == len(COLLECTED.candles) > 0
        assert (short["btc_price"], short["price_change_24h"]) == (of_bitcoin, 1.8)


def test_the_first_status_names_the_turn_and_its_conversation() -> None:
    [(_, first)] = told(ASKED)
    assert (first["chat_id"], first["conversation"]) == (uuid5("turn"), uuid5("chat", "1"))


@pytest.mark.parametrize(("language", "words"), [("en", "Looking at the question"), ("zh", "正在理解问题")])
def test_statuses_speak_the_language_of_the_question(language: str, words: str) -> None:
    assert told(ASKED, language=language)[0][1]["message"] == words


def test_a_retry_is_said_at_the_stage_where_it_happens_with_its_time() -> None:
    name, data = told(ASKED, ROUTED, failed("retry"))[-1]
    assert (name, data["stage"], data["attempt"], data["retry_at"]) == ("status", "planning", 2, NOW)
    assert data["message"] == "plan: nobody answered (timeout); the worker retries it at 03:04:05 UTC"


def test_a_turn_that_degrades_goes_to_the_answer_and_says_why() -> None:
    name, data = told(ASKED, ROUTED, failed("degrade"))[-1]
    assert (name, data["stage"]) == ("status", "synthesis")
    assert "written from what is there" in data["message"]


def test_a_turn_that_gives_up_says_so_by_what_follows_alone() -> None:
    ended = ev.CaseFailed(reason="no model answered", failed_step="plan", attempts=2)
    assert in_short(ASKED, ROUTED, failed("give_up"), ended)[-3:] == ["status:planning", "error", "done"]


def test_a_finish_goes_to_the_answer_and_a_stop_ends_without_one() -> None:
    assert in_short(ASKED, ROUTED, FINISH, ANSWERED)[-3:] == ["status:synthesis", "final_answer", "done"]
    cancelled = ev.CancelRequested(requested_by="web", reason="stopped by its user")
    said = told(ASKED, cancelled, STOPPED)
    assert [name for name, _ in said] == ["status", "done"]
    assert said[-1][1]["stopped"] is True


def test_a_failed_turn_is_an_error_and_then_done() -> None:
    said = told(ASKED, ev.CaseFailed(reason="no model answered", failed_step="route", attempts=3))
    phase = {"decision_phase": "failed"}
    assert said[1:] == [("error", {"error": "route", "message": "no model answered", **phase}), ("done", phase)]


def test_each_agent_is_told_as_it_answers_with_the_whole_beside_the_head_of_its_reasoning() -> None:
    said = told(ASKED, ROUTED, PLANNED, COLLECTED, replied(well()), replied(SLOW))
    (good, data), (bad, error) = said[-2:]
    assert (good, bad) == ("agent_result", "agent_result")
    assert error == {
        "agent_name": "TAAgent", "agent_id": "ta_agent", "error": "nobody answered", "kind": "timeout",
    }  # fmt: skip
    assert (data["agent_name"], data["agent_id"], data["signal"]) == ("TAAgent", "ta_agent", "BULLISH")
    assert data["level"] == data["confidence_level"].upper()
    assert len(data["reasoning"]) <= SHORT < len(data["full"]["reasoning"])
    assert data["full"]["prompt_sent"]


def well() -> ModelReply:
    """What an agent's model answers, with a long reasoning."""
    data = {"signal": "BULLISH", "confidence": 0.9, "reasoning": "word " * 100, "indicators": [], "key_factors": ["k"],
            "risk_assessment": "r"}  # fmt: skip
    return ModelReply(text="", data=data)


def replied(reply: Any) -> ev.EffectCompleted:
    """The record of one agent's reply."""
    call = Call(kind="model", provider="offline", mode="offline", request_hash="r", reply=reply, latency_ms=1.0,
                replied_at=NOW, cost_usd=None, prompt_name="research_ta")  # fmt: skip
    return ev.EffectCompleted(calls=(call,), step="analyze", request_hash="r")


def test_replies_of_other_steps_say_nothing() -> None:
    assert told(ASKED, ROUTED, PLANNED, ev.EffectCompleted(step="collect", request_hash="r"))[-1][0] == "status"


def test_records_before_an_opening_say_nothing() -> None:
    assert told(ANSWERED, ROUTED) == []


def test_the_state_of_a_turn_is_that_of_its_newest_event() -> None:
    states = [state_of(one) for one in (ASKED, REPORTED, ANSWERED, STOPPED)]
    assert states == ["running", "running", "answered", "stopped"]
    assert state_of(ev.CaseFailed(reason="", failed_step="", attempts=1)) == "failed"
