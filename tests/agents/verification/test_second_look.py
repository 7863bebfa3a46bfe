"""A second look searches once more with the first case's judgement; it pays a model only for pages that are new."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from agents.graphs import NEWS as FLOW
from schemas.budget import UNLISTED
from schemas.effects import CallModel, Failure, ModelReply, Recall, Search
from schemas.events import (
    CancelRequested,
    CaseDropped,
    CaseFailed,
    CaseTriaged,
    EvidenceCritiqued,
    ProviderOutcome,
    SearchCompleted,
    SecondLookOpened,
    SignalSynthesized,
    StepFailed,
    ToolPlanned,
)
from schemas.ids import LIVE_RUN, signal_id
from tests.agents.conftest import NEWS, stances
from tests.agents.verification.test_endings import synthesis
from tests.specification import START, case_after, given, opened

DUE = START + timedelta(minutes=12)
KNOWN = "https://house1.example/a"
BUDGET = Failure(kind="budget", message="m", retryable=False)


@pytest.fixture
def look(draft: Any) -> SecondLookOpened:
    first = opened(NEWS)
    return SecondLookOpened(
        of_case=first.news.case_id, number=1, due_at=DUE, after_s=720.0, verdict="unconfirmed", draft=draft,
        news=first.news, config_hash="", text_hash=first.text_hash, language="en", keywords="Poly hack", known=(KNOWN,),
    )  # fmt: skip


@pytest.fixture
def again(look: SecondLookOpened, triaged: Any, no_memory: Any) -> tuple[Any, ...]:
    return (look, triaged(), no_memory)


@pytest.mark.security
def test_it_is_paid_from_the_share_of_its_first_cases_source(look: SecondLookOpened, triaged: Any, deep: Any) -> None:
    """A listed source's look was paid from the share of the strangers, who can use that up."""
    config, forced = replace(deep, trusted_sources=("me",)), triaged(event_type="hack")
    listed, stranger = (
        case_after(replace(look, authenticated=known), forced, config=config) for known in (True, False)
    )
    assert (listed.source_group, "forced" in listed.claim_kinds) == (look.news.source, True)
    assert (stranger.source_group, "forced" in stranger.claim_kinds) == (UNLISTED, False)


def test_it_takes_over_draft_and_claim_as_of_when_it_was_due_and_memory_leaves_its_first_case_out(
    look: SecondLookOpened, deep: Any, draft: Any, triaged: Any
) -> None:
    event = given(look, config=deep).asked
    assert isinstance(event, CaseTriaged)
    assert (event.draft, event.route, event.story, event.preliminary_signal) == (draft, "deep", None, None)
    assert event.gate_reason.endswith("was unconfirmed")
    recall = given(look, triaged(), config=deep).asked
    assert isinstance(recall, Recall)
    assert (recall.as_of, recall.exclude_case) == (DUE, look.of_case)


def test_the_plan_is_the_first_ones_search_once_more_in_one_round_and_no_model_is_asked(
    again: tuple[Any, ...], look: SecondLookOpened, deep: Any, planned: Any, found: Any
) -> None:
    plan = given(*again, config=deep).asked
    assert isinstance(plan, ToolPlanned)
    assert (plan.decided_by, plan.search_keywords, plan.route) == ("second_look", "Poly hack", "search")
    [search] = [s for s in (given(*again, plan, config=deep).asked,) if isinstance(s, Search)]
    assert (search.query, search.as_of, search.look) == ("Poly hack", DUE, 1)
    built = given(replace(look, keywords=""), *again[1:], config=deep).asked
    assert isinstance(built, ToolPlanned) and all("Poly" in task.query for task in built.tasks) and built.tasks
    off = given(*again, config=replace(deep, tool_search_enabled=False)).asked
    assert isinstance(off, ToolPlanned) and off.route == "critique"
    spec = given(*again, planned(), config=deep)
    spec.told(found("onchainpost.example")).emits_like(SearchCompleted, route="critique")


def test_a_search_that_an_earlier_case_paid_for_does_not_answer_it() -> None:
    from streams.effects.search_cache import search_key

    search = Search(provider="p", query="q", max_results=5, as_of=START)
    assert search_key(search, "live") != search_key(replace(search, look=1), "live")


def test_without_a_new_page_it_ends_unpaid(again: tuple[Any, ...], planned: Any, searched: Any, deep: Any) -> None:
    end = given(*again, planned(), searched(references=1), config=deep).asked
    assert end == CaseDropped(reason="unchanged", detail="no page that the first case did not have")
    asked: Any = given(*again, planned(), searched(references=2), config=deep).asked
    assert isinstance(asked[0], CallModel), "the second page is new"


def test_where_the_budget_denies_it_says_so(again: tuple[Any, ...], planned: Any, searched: Any, deep: Any) -> None:
    denied = (ProviderOutcome(provider="offline", query="q", hits=0, failure=BUDGET),)
    end = given(*again, planned(), replace(searched(references=0), outcomes=denied), config=deep).asked
    assert end == CaseDropped(reason="unchanged", detail="search failed (budget)")
    failed = StepFailed(step="critique", failure=BUDGET, attempt=1, outcome="degrade")
    given(*again, planned(), searched(), failed, config=deep).ask_gives(
        CaseDropped(reason="unchanged", detail="critique failed (budget)")
    )
    given(*again, planned(), searched(), replace(failed, outcome="give_up"), config=deep).ask_gives(
        CaseDropped(reason="unchanged", detail="critique failed (budget)")
    )


def test_pages_that_leave_the_verdict_as_it_is_make_no_signal(
    again: tuple[Any, ...], planned: Any, searched: Any, deep: Any
) -> None:
    silent = {"claims": [], "verdict": "not_enough_evidence", "references": []}

    spec = given(*again, planned(), searched(references=3), config=deep)
    spec.told(ModelReply(data=silent)).emits(
        CaseDropped(reason="unchanged", detail="the new pages leave it unconfirmed")
    )


def test_a_new_verdict_is_the_next_revision_of_the_first_ones_signal(
    again: tuple[Any, ...], planned: Any, searched: Any, look: SecondLookOpened, deep: Any
) -> None:

    critique = EvidenceCritiqued(claims=(), verdict="supported", stances=stances(1, 2, 3))
    spec = given(*again, planned(), searched(references=3), critique, config=deep)
    assert isinstance(spec.asked, CallModel)
    told = {"adjustment": 0.0, "timeframe": "short", "reason": "two houses", "summary_zh": "保利", "summary_en": NEWS}
    end = spec.told(synthesis(**told)).event
    assert isinstance(end, SignalSynthesized)
    signal = end.signal
    assert signal.verdict in ("confirmed", "likely") and signal.action == "sell"
    assert (signal.signal_id, signal.case_id) == (signal_id(LIVE_RUN, look.of_case), look.of_case)
    last = signal.adjustments[-1]
    assert (last.rule, last.amount) == ("second_look", 0.0)
    assert last.reason == "looked again 12 min after the first decision, which was unconfirmed"


def test_one_that_a_person_ends_leaves_no_letter_to_send_again(look: SecondLookOpened, deep: Any) -> None:
    spec = given(look, CancelRequested(requested_by="me", reason="r"), config=deep)
    assert isinstance(spec.asked, CaseFailed)
    assert FLOW.letter(spec.case) is None and FLOW.letter(given(opened(NEWS)).case) is not None
