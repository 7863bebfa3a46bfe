"""A search that took too long is asked once more, where there is time for it; then the case goes on."""

from __future__ import annotations

from datetime import timedelta

import pytest
from msgspec.structs import replace

from agents.planning.due_searches import failure_to_retry
from agents.tables import load_tables
from schemas.effects import Failure
from schemas.events import ProviderOutcome, SearchCompleted, StepFailed
from tests.agents.conftest import NEWS
from tests.specification import START, given, opened

LATE = Failure(kind="timeout", message="no answer within 10 s", retryable=True)
DOWN = Failure(kind="unavailable", message="down", retryable=True)
WRONG_KEY = Failure(kind="auth", message="wrong key", retryable=False)
HOUSES = ("onchainpost.example", "defidigest.example", "tokentribune.example")


def attempt(failure: Failure, number: int = 1) -> StepFailed:
    return StepFailed(step="search", failure=failure, attempt=number, outcome="retry", retry_at=START)


@pytest.fixture
def at_search(deep, triaged, no_memory, planned):
    def make(*failures, tools=("search:a",), **config):
        path = (opened(NEWS), triaged(), no_memory, planned(*tools), *failures)
        return given(*path, config=replace(deep, **{"search_retries": 1, **config}))

    return make


def test_a_search_that_took_too_long_is_asked_once_more_and_other_failures_keep_their_three_attempts(at_search):
    at_search().told(LATE).fails_with("timeout", retryable=True)
    at_search(attempt(LATE)).told(LATE).emits_like(SearchCompleted, route="critique")
    at_search(attempt(LATE), attempt(DOWN, 2)).told(DOWN).emits_like(SearchCompleted)
    at_search(attempt(LATE)).told(DOWN).fails_with("unavailable")
    at_search(attempt(DOWN)).told(DOWN).fails_with("unavailable")


@pytest.mark.parametrize(("retries", "failed"), [(0, 0), (1, 1), (2, 2), (None, 2)])
def test_how_often_is_a_setting_and_old_snapshots_keep_the_attempts_of_a_step(at_search, retries, failed):
    before = [attempt(LATE, n + 1) for n in range(failed)]
    at_search(*before, search_retries=retries).told(LATE).emits_like(SearchCompleted)
    if failed:
        at_search(*before[:-1], search_retries=retries).told(LATE).fails_with("timeout")


def test_beside_a_provider_that_gave_enough_nothing_is_asked_again(at_search, found):
    two = ("search:a", "search:b")
    at_search(tools=two).told(LATE, found(*HOUSES, provider="b")).emits_like(SearchCompleted)
    at_search(tools=two).told(LATE, found(HOUSES[0], provider="b")).fails_with("timeout")
    at_search(tools=two, search_retries=None).told(LATE, found(HOUSES[0], provider="b")).emits_like(SearchCompleted)
    at_search(tools=two).told(DOWN, found(HOUSES[0], provider="b")).emits_like(SearchCompleted)


def test_an_attempt_that_would_end_after_the_path_is_not_made(at_search):
    late = (ProviderOutcome(provider="a", query="q", hits=0, failure=LATE),)
    case = at_search(case_deadline_seconds=100.0).case  # the path ends after 80 s
    for seconds, again in ((20, True), (36, True), (44, False), (79, False)):
        found = failure_to_retry(case, late, now=case.head_at + timedelta(seconds=seconds))
        assert (found is not None) is again, seconds


def test_official_pages_are_asked_for_again_and_the_general_search_waits_for_what_was_late(
    deep, triaged, no_memory, planned, found
):
    tavily = {"search_providers": ("tavily",), "search_by_topic": ("tavily",)}
    config = replace(deep, search_retries=1, tables=load_tables(demo=False), **tavily)
    about = triaged(event_type="listing", asset="PEPE", asset_name="Pepe", entity="Binance")
    path = (opened("Binance lists PEPE"), about, no_memory, planned("search:tavily"))
    spec = given(*path, config=config)
    spec.told(found(*HOUSES, provider="tavily"), LATE).fails_with("timeout")
    spec.told(LATE, found(provider="tavily")).fails_with("timeout")
    last = given(*path, attempt(LATE), config=config).told(LATE, found(provider="tavily"), WRONG_KEY)
    assert [(o.topic, o.failure) for o in last.event.outcomes] == [
        ("news", LATE),
        ("official", None),
        ("general", WRONG_KEY),
    ]
