"""A step's turn: what is asked, what a reply leads to, what an exception is to the case, and the ids that follow a head."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from agents.core.case import fold
from agents.core.step import StepFailure, invalid_output
from agents.core.step_turn import Missing, ask, attempt_of, failure_of, successor_id, tell
from agents.specification import START, call_of, case_after, opened
from schemas.effects import EarlierReply, FindEarlier, request_hash
from schemas.events import CaseDropped, ContextGathered, EffectCompleted, StepFailed
from schemas.ids import effect_id, event_id

CASE = case_after(opened("Bybit was hacked"))
ONE, OTHER = (FindEarlier(text_hash=text, case_id="") for text in ("one", "other"))
CALL = call_of(ONE, EarlierReply(first_case=None))
GATHERED = ContextGathered(entries=(), memory="no_match")


def step(asks, tells=lambda _case, _replies: GATHERED):
    return SimpleNamespace(name="recall", emits=(ContextGathered,), ask=lambda _case: asks, tell=tells)


def test_the_one_effect_of_a_step_is_missing_whatever_was_answered_before() -> None:
    after = fold(
        CASE, EffectCompleted(step="recall", request_hash=CALL.request_hash, calls=(CALL,)), event_id="", at=START
    )
    assert ask(step(ONE), after) == Missing({request_hash(ONE): ONE}, several=False)


def test_of_several_effects_those_without_a_reply_are_missing_each_once_and_in_order() -> None:
    asking = step((OTHER, ONE, OTHER))
    missing = ask(asking, CASE)
    assert isinstance(missing, Missing) and missing.several
    assert list(missing.effects.values()) == [OTHER, ONE]
    event = tell(asking, CASE, missing, CALL.request_hash, (CALL,))
    assert event == EffectCompleted(step="recall", request_hash=CALL.request_hash, calls=(CALL,))
    left = ask(asking, fold(CASE, event, event_id="", at=START))
    assert isinstance(left, Missing) and list(left.effects.values()) == [OTHER]


def test_a_step_whose_effects_are_all_answered_is_told_the_logged_replies() -> None:
    event = EffectCompleted(step="recall", request_hash=CALL.request_hash, calls=(CALL,))
    told = []
    asking = step((ONE,), lambda _case, replies: told.append(replies.calls) or GATHERED)
    assert ask(asking, fold(CASE, event, event_id="", at=START)) == GATHERED
    assert told == [(CALL,)]


def test_the_event_after_the_one_effect_holds_its_calls() -> None:
    missing = Missing({request_hash(ONE): ONE}, several=False)
    assert tell(step(ONE), CASE, missing, request_hash(ONE), (CALL,)).calls == (CALL,)


@pytest.mark.parametrize(
    "asking",
    [step(CaseDropped(reason="empty", detail="")), step((), lambda *_: CaseDropped(reason="empty", detail=""))],
)
def test_an_event_that_the_step_does_not_declare_is_a_failure(asking) -> None:
    with pytest.raises(StepFailure, match="step recall gave CaseDropped, which it does not declare: add it to emits"):
        ask(asking, CASE)


def test_a_failure_of_a_step_is_its_own_word_and_a_bug_is_internal() -> None:
    assert failure_of(StepFailure(invalid_output("no JSON"))) == invalid_output("no JSON")
    bug = failure_of(KeyError("draft"))
    assert (bug.kind, bug.message, bug.retryable) == ("internal", "KeyError: 'draft'", False)


def test_attempts_are_counted_by_step() -> None:
    failure = invalid_output("no JSON")
    events = [
        StepFailed(step=name, failure=failure, attempt=1, outcome="retry") for name in ("recall", "triage", "recall")
    ]
    case = case_after(opened("Bybit was hacked"), *events)
    assert [attempt_of(case, name) for name in ("recall", "triage", "plan")] == [3, 2, 1]


def test_a_head_has_one_successor_and_one_reply_per_request() -> None:
    replied = EffectCompleted(step="recall", request_hash=CALL.request_hash, calls=(CALL,))
    head = (CASE.run_id, CASE.case_id, CASE.head_id)
    assert successor_id(CASE) == successor_id(CASE, GATHERED) == event_id(*head)
    assert successor_id(CASE, replied) == effect_id(*head, CALL.request_hash)
