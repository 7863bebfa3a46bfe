"""Where nobody answers a search, a setting lets the single pass judge."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from agents.core.step import StepFailure
from agents.specification import given, opened
from schemas.effects import FunctionCall, ModelReply
from schemas.events import CaseDegraded, EvidenceCritiqued, ProviderOutcome, StepFailed
from tests.agents.conftest import NEWS
from tests.agents.verification.test_endings import DOWN, WRONG_KEY

UNJUDGED = EvidenceCritiqued(claims=(), verdict="not_enough_evidence")


@pytest.mark.parametrize("kind", ["unavailable", "auth", "budget"])
def test_where_no_provider_answers_the_single_pass_may_judge(
    deep, triaged, no_memory, planned, searched, judged, found, kind
):
    lost = replace(
        searched("critique", 0),
        outcomes=(ProviderOutcome(provider="a", query="q", hits=0, failure=replace(WRONG_KEY, kind=kind)),),
    )
    path = (opened(NEWS), triaged(), no_memory, planned(), lost)
    given(*path, config=deep).ask_gives(UNJUDGED)
    asked = given(*path, config=replace(deep, search_away_single_pass=True))
    if kind == "budget":  # the single pass would get no search either
        asked.ask_gives(UNJUDGED)
        return
    with pytest.raises(StepFailure, match="no search provider answered"):
        _ = asked.asked
    failed = StepFailed(
        step="critique", failure=replace(DOWN, kind=kind, retryable=False), attempt=1, outcome="degrade"
    )
    spec = given(*path, failed, CaseDegraded(reason=kind, failed_step="critique"), config=deep)
    search = ModelReply(function_calls=(FunctionCall(name="search_news", args={"query": "Poly"}),))
    event = spec.told(search, found("onchainpost.example", "defidigest.example"), judged()).event
    assert (event.path, event.signal.verdict) == ("degraded", "likely"), "nobody reads the pages: likely at most"
    assert f"degraded:{kind}" in event.signal.risk_flags


def test_without_any_provider_the_single_pass_may_judge_and_one_that_is_off_is_not_away(
    deep, triaged, no_memory, planned
):
    nothing = replace(planned(), route="critique", tasks=(), tools=(), decided_by="disabled")
    path = (opened(NEWS), triaged(), no_memory, nothing)
    bare = replace(deep, search_providers=(), search_away_single_pass=True)
    with pytest.raises(StepFailure, match="no search provider is configured"):
        _ = given(*path, config=bare).asked
    given(*path, config=replace(bare, search_away_single_pass=False)).ask_gives(UNJUDGED)
    given(*path, config=replace(bare, search_providers=("offline",), tool_search_enabled=False)).ask_gives(UNJUDGED)
    given(*path, config=replace(bare, tool_search_enabled=False)).ask_gives(UNJUDGED)


def test_a_search_that_answered_nothing_is_no_reason(deep, triaged, no_memory, planned, searched):
    config = replace(deep, search_away_single_pass=True)
    given(opened(NEWS), triaged(), no_memory, planned(), searched("critique", 0), config=config).ask_gives(UNJUDGED)
