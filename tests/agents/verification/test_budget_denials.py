"""What a denial by the budget does to a case: it goes on with less, and its signal says so."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from agents.core.case import fold
from schemas.budget import UNLISTED
from schemas.calls import Call
from schemas.effects import CallModel, EarlierReply, Failure, FindEarlier, Recall, RecallReply, Search
from schemas.events import CaseDegraded, EffectCompleted, SearchCompleted, SignalSynthesized, StepFailed
from schemas.signals import StatedClaim
from tests.agents.conftest import NEWS
from tests.specification import START, call_of, given, opened, run_case

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


@pytest.mark.parametrize(
    ("event_type", "modality", "kinds"),
    [
        ("listing", "asserted", ()),
        ("listing", "rumoured", ("doubtful",)),
        ("listing", "planned", ("doubtful",)),
        ("listing", "denied", ()),
        ("depeg", "asserted", ("forced",)),
        ("liquidation", None, ("forced",)),
        ("regulation", "asserted", ()),
        ("hack", "rumoured", ("doubtful", "forced")),
    ],
)
def test_the_kinds_of_a_claim_say_which_share_of_the_days_searches_it_has(deep, triaged, event_type, modality, kinds):
    claim = None if modality is None else StatedClaim(subject="Circle", modality=modality)
    event = replace(triaged(event_type=event_type), claim=claim)
    assert given(opened(NEWS), event, config=deep).case.claim_kinds == kinds


@pytest.mark.security
@pytest.mark.parametrize(
    ("trusted", "marked", "group", "kinds", "of"),
    [
        ((), False, "coindesk", (), UNLISTED),
        (("test",), False, "coindesk", ("forced",), "test"),
        ((), True, "coindesk", ("forced",), "coindesk"),
        ((), True, None, ("forced",), "test"),
        (None, False, "coindesk", ("forced",), UNLISTED),
    ],
)
def test_only_a_listed_source_has_the_forced_share_and_a_group_of_its_own(
    deep, triaged, trusted, marked, group, kinds, of
):
    opening = opened(NEWS)
    extra = {"group": group} if group else {}
    opening = replace(opening, authenticated=marked, news=replace(opening.news, extra=extra))
    case = given(opening, triaged(event_type="hack"), config=replace(deep, trusted_sources=trusted)).case
    assert (case.claim_kinds, case.source_group) == (kinds, of), "what unsigned news says of its group is nobody's word"


def test_a_case_has_no_kind_of_claim_before_triage_has_read_it(deep):
    assert given(opened(NEWS), config=deep).case.claim_kinds == ()


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
    assert (event.path, event.signal.verdict) == ("degraded", "unconfirmed"), "nobody has read the pages"
    assert {"degraded:budget", "model_skipped:budget"} <= set(event.signal.risk_flags)
    assert len(event.signal.evidence) == 3


def test_a_single_pass_that_is_denied_says_so_and_another_failure_of_it_is_a_failure(deep, triaged):
    event = given(opened(NEWS), triaged("single_pass"), config=deep).told(DENIED).event
    assert (event.path, event.signal.verdict, event.signal.unchecked_reason) == (
        "single_pass", "unchecked", "budget"
    )  # fmt: skip
    assert event.signal.notes.endswith(DENIED.message), "the notes say which limit was reached"
    assert {"not_deep_analysed", "model_skipped:budget", "data_incomplete"} <= set(event.signal.risk_flags)
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


def test_a_plan_that_is_denied_its_model_still_searches_what_is_forced_and_says_so(deep):
    from schemas.effects import SearchReply

    found = SearchReply(provider="offline", query="q", results=())
    run = run_case(opened(NEWS), answering(search=found, model={"plan": DENIED}), config=deep)
    end = run.events[-1]
    assert isinstance(end, SignalSynthesized)
    assert "model_skipped:budget" in end.signal.risk_flags


def test_without_a_denial_no_flag_speaks_of_the_budget(deep, triaged):
    event = given(opened(NEWS), triaged("preliminary"), config=deep).told().event
    assert not [f for f in event.signal.risk_flags if "budget" in f]
