"""A step's turn: what is asked, what a reply leads to, what an exception is to the case, and the ids that follow a head."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from msgspec.structs import replace

from agents.core.case import fold
from agents.core.failures import failed
from agents.core.step import StepFailure, invalid_output, needed, only_reply
from agents.core.step_turn import Missing, ask, attempt_of, failure_of, successor_id, tell
from schemas.effects import (
    MOST_OUTPUT_TOKENS,
    CallModel,
    EarlierReply,
    Failure,
    FindEarlier,
    ModelReply,
    request_hash,
    widened,
)
from schemas.events import CaseDropped, ContextGathered, EffectCompleted, StepFailed
from schemas.ids import effect_id, event_id
from tests.specification import START, call_of, case_after, opened

CASE = case_after(opened("Bybit was hacked"))
ONE, OTHER = (FindEarlier(text_hash=text, case_id="") for text in ("one", "other"))
CALL = call_of(ONE, EarlierReply(first_case=None))
GATHERED = ContextGathered(entries=(), memory="no_match")


def step(asks, tells=lambda _case, _replies: GATHERED):
    return SimpleNamespace(name="recall", emits=(ContextGathered,), ask=lambda _case: asks, tell=tells)


def test_the_one_effect_of_a_step_is_missing_whatever_was_answered_before_and_its_event_holds_its_calls() -> None:
    after = fold(
        CASE, EffectCompleted(step="recall", request_hash=CALL.request_hash, calls=(CALL,)), event_id="", at=START
    )
    assert ask(step(ONE), after) == Missing({request_hash(ONE): ONE}, several=False)
    missing = Missing({request_hash(ONE): ONE}, several=False)
    assert tell(step(ONE), CASE, missing, request_hash(ONE), (CALL,)).calls == (CALL,)


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


# A reply that was cut at its limit of tokens

PROMPT = CallModel(
    task="plan", tier="light", prompt_name="plan", prompt_version="1", prompt_hash="0", system="", parts=(),
    max_output_tokens=800,
)  # fmt: skip
WIDER = widened(PROMPT)
assert WIDER is not None
CUT = Failure(kind="cut", message="cut at 800 tokens", retryable=False)
ANSWER = ModelReply(text="whole")


def answered(case, asking, reply):
    """Answer the step's first missing effect; return the effect and the event."""
    missing = ask(asking, case)
    assert isinstance(missing, Missing)
    wanted, effect = next(iter(missing.effects.items()))
    return effect, tell(asking, case, missing, wanted, (call_of(effect, reply),))


@pytest.mark.parametrize("asked", [PROMPT, (PROMPT,)], ids=["one", "several"])
def test_a_cut_reply_is_logged_and_asked_for_once_more_with_twice_the_limit(asked) -> None:
    def tells(_case, replies):
        assert replies.of(PROMPT) == ANSWER if isinstance(asked, tuple) else only_reply(replies) == ANSWER
        return GATHERED

    asking = step(asked, tells)
    effect, event = answered(CASE, asking, CUT)
    assert effect == PROMPT and isinstance(event, EffectCompleted) and event.calls[0].error == "cut"
    case = fold(CASE, event, event_id="", at=START)
    assert case.head_id == CASE.head_id and case.failures == () and case.replies.of(PROMPT) is None
    effect, event = answered(case, asking, ANSWER)
    assert (effect, WIDER.max_output_tokens) == (WIDER, 1_600)
    end = ask(asking, fold(case, event, event_id="", at=START)) if isinstance(event, EffectCompleted) else event
    assert type(end) is ContextGathered


@pytest.mark.parametrize("asked", [PROMPT, (PROMPT,)], ids=["one", "several"])
def test_a_reply_that_is_cut_again_is_told_to_the_step_and_degrades_the_case(asked) -> None:
    asking = step(asked, lambda _case, replies: needed(replies.of(PROMPT) or only_reply(replies), ModelReply))
    case = fold(CASE, answered(CASE, asking, CUT)[1], event_id="", at=START)
    with pytest.raises(StepFailure) as stop:
        _, event = answered(case, asking, CUT)
        ask(asking, fold(case, event, event_id="", at=START))
    assert stop.value.failure == CUT
    assert failed(case, "recall", CUT, now=START).outcome == "degrade"


def test_a_retry_asks_for_what_was_cut_with_the_larger_limit_alone() -> None:
    asking = step(PROMPT)
    case = fold(CASE, answered(CASE, asking, CUT)[1], event_id="", at=START)
    down = Failure(kind="timeout", message="late", retryable=True)
    retried = StepFailed(step="recall", failure=down, attempt=1, outcome="retry")
    assert answered(fold(case, retried, event_id="next", at=START), asking, ANSWER)[0] == WIDER


def test_a_reply_that_was_cut_at_the_largest_limit_is_told_at_once() -> None:
    nearly, most = (replace(PROMPT, max_output_tokens=n) for n in (MOST_OUTPUT_TOKENS - 1, MOST_OUTPUT_TOKENS))
    assert widened(nearly) == most and widened(most) is None
    asking = step(most, lambda _case, replies: needed(only_reply(replies), ModelReply))
    with pytest.raises(StepFailure, match="cut at 800 tokens"):
        answered(CASE, asking, CUT)


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
