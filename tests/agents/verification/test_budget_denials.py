"""What a denial by the budget does to a case: it goes on with less, and its signal says so."""

from __future__ import annotations

from agents.core.case import fold
from agents.specification import START, call_of, given, opened, run_case
from schemas.calls import Call
from schemas.effects import CallModel, EarlierReply, Failure, FindEarlier, Recall, RecallReply, Search
from schemas.events import CaseDegraded, CaseFailed, EffectCompleted, SearchCompleted, SignalSynthesized, StepFailed
from tests.agents.conftest import NEWS

DENIED = Failure(kind="budget", message="50 tool calls are used up", retryable=False)


def test_a_search_that_is_denied_goes_to_the_critique_and_asks_no_further_round(deep, triaged, no_memory, planned):
    event = given(opened(NEWS), triaged(), no_memory, planned(), config=deep).told(DENIED).event
    assert isinstance(event, SearchCompleted)
    assert event.route == "critique"
    assert [o.failure for o in event.outcomes] == [DENIED]


def denied_call(effect) -> Call:
    return call_of(effect, DENIED)


def test_a_case_remembers_which_kinds_of_calls_were_denied_each_once(deep, triaged):
    case = given(opened(NEWS), triaged(), config=deep).case
    search = Search(provider="offline", query="q", max_results=5, as_of=START)
    for number in range(2):
        event = EffectCompleted(step="search", request_hash=str(number), calls=(denied_call(search),))
        case = fold(case, event, event_id="e", at=START)
    assert case.denied == ("search",)
    event = StepFailed(step="plan", failure=DENIED, attempt=1, outcome="degrade", calls=(denied_call(_model()),))
    assert fold(case, event, event_id="f", at=START).denied == ("search", "model")


def _model() -> CallModel:
    return CallModel(
        task="plan", tier="light", prompt_name="plan", prompt_version="1", prompt_hash="0", system="", parts=()
    )


def test_a_degraded_case_whose_last_call_is_denied_ends_with_the_evidence_that_was_paid_for(
    deep, triaged, no_memory, planned, searched
):
    lost = StepFailed(step="critique", failure=DENIED, attempt=1, outcome="degrade")
    degraded = CaseDegraded(reason="budget", failed_step="critique")
    found = searched("critique", 3)
    before = given(opened(NEWS), triaged(), no_memory, planned(), found, lost, degraded, config=deep)
    event = before.told(DENIED).event
    assert isinstance(event, SignalSynthesized)
    assert (event.path, event.signal.status) == ("degraded", "degraded")
    assert {"degraded:budget", "model_skipped:budget"} <= set(event.signal.risk_flags)
    assert len(event.signal.evidence) == 3


def test_a_single_pass_that_is_denied_says_that_nothing_was_analysed_deeply(deep, triaged):
    event = given(opened(NEWS), triaged("single_pass"), config=deep).told(DENIED).event
    assert (event.path, event.signal.status) == ("single_pass", "preliminary_only")
    assert {"not_deep_analysed", "model_skipped:budget", "data_incomplete"} <= set(event.signal.risk_flags)


def test_another_failure_of_the_single_pass_is_still_a_failure(deep, triaged):
    wrong_key = Failure(kind="auth", message="wrong key", retryable=False)
    assert given(opened(NEWS), triaged("single_pass"), config=deep).told(wrong_key).outcome == wrong_key


def answering(*, search=None, model=None):
    """The world of the offline providers, with denials in it: ``model`` maps a task to a failure."""
    from infra.offline.model import OfflineModel

    offline = OfflineModel()

    def perform(effect):
        import asyncio

        match effect:
            case FindEarlier():
                return EarlierReply(first_case=None)
            case Recall():
                return RecallReply(entries=())
            case CallModel(task=task):
                denied = (model or {}).get(task)
                return denied or asyncio.run(offline.perform(effect)).reply
            case _:
                return search

    return perform


def test_a_whole_case_without_tool_units_ends_deep_and_flagged(deep):
    run = run_case(opened(NEWS), answering(search=DENIED), config=deep)
    end = run.events[-1]
    assert isinstance(end, SignalSynthesized)
    assert "search_skipped:budget" in end.signal.risk_flags
    assert not [e for e in run.events if isinstance(e, CaseDegraded)]


def test_a_plan_that_is_denied_its_model_still_searches_what_is_forced_and_says_so(deep):
    from schemas.effects import SearchReply

    found = SearchReply(provider="offline", query="q", results=())
    run = run_case(opened(NEWS), answering(search=found, model={"plan": DENIED}), config=deep)
    end = run.events[-1]
    assert isinstance(end, SignalSynthesized)
    assert "model_skipped:budget" in end.signal.risk_flags


def test_an_untriaged_case_without_money_fails_and_says_why(deep):
    every = dict.fromkeys(("triage", "single_pass"), DENIED)
    run = run_case(opened(NEWS), answering(model=every), config=deep)
    end = run.events[-1]
    assert isinstance(end, CaseFailed)
    assert end.reason.startswith("budget: ")


def test_without_a_denial_no_flag_speaks_of_the_budget(deep, triaged):
    event = given(opened(NEWS), triaged("preliminary"), config=deep).told().event
    assert not [f for f in event.signal.risk_flags if "budget" in f]
