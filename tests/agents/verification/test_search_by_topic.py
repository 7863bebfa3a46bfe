"""Searches by topic: news first, the parties' own domains beside it, the whole web when both gave little."""

from __future__ import annotations

from datetime import timedelta

import pytest
from msgspec.structs import replace

from agents.tables import load_tables
from schemas.effects import Failure, Scrape, Search, SearchReply, request_hash
from schemas.events import PagesScraped, SearchCompleted, SubTask
from tests import builders
from tests.agents.conftest import NEWS
from tests.specification import START, given, opened

CLAIM = "Binance lists PEPE, trading opens today"
DOWN = Failure(kind="unavailable", message="down", retryable=True)
WRONG_KEY = Failure(kind="auth", message="wrong key", retryable=False)
HOUSES = ("onchainpost.example", "defidigest.example", "tokentribune.example")


@pytest.fixture
def topical(deep):
    return replace(deep, search_providers=("tavily",), search_by_topic=("tavily",), tables=load_tables(demo=False))


@pytest.fixture
def at_search(topical, triaged, no_memory, planned):
    def make(*more, tasks=("search:tavily",), config=topical, text=CLAIM, entity="Binance"):
        about = triaged(event_type="listing", asset="PEPE", asset_name="Pepe", entity=entity)
        return given(opened(text), about, no_memory, planned(*tasks, keywords="Binance PEPE"), *more, config=config)

    return make


@pytest.fixture
def hits(found):
    return lambda *hosts: found(*hosts, provider="tavily")


def asked(spec):
    return [(s.topic, s.include_domains) for s in spec.asked]


def test_one_search_is_for_news_and_one_for_the_domains_of_who_may_speak_until_one_is_found(
    at_search, searched, planned, findings
):
    (news, official) = at_search().asked
    assert (news.topic, news.include_domains) == ("news", ())
    assert official.topic == "general" and "binance.com" in official.include_domains
    assert {news.as_of, official.as_of} == {START} and news.query == official.query == "Binance PEPE"
    official = replace(findings(1).references[0], official=True, speaker="Binance")
    first = replace(searched("expand", 1), findings=replace(findings(1), references=(official,)))
    assert asked(at_search(first, planned("search:tavily", keywords="PEPE", round=2))) == [("news", ())]


def test_three_results_are_enough_and_fewer_ask_for_a_general_search(at_search, hits):
    event = at_search().told(hits(*HOUSES), hits()).emits_like(SearchCompleted).event
    assert [(o.topic, o.hits) for o in event.outcomes] == [("news", 3), ("official", 0)]
    more = at_search().told(hits(HOUSES[0]), hits("binance.com"), hits(*HOUSES[1:])).event
    assert [(o.topic, o.hits) for o in more.outcomes] == [("news", 1), ("official", 1), ("general", 2)]
    assert {r.registrable_domain for r in more.findings.references} >= {HOUSES[0], "binance.com"}


def test_a_claim_of_nobody_listed_has_no_official_search_and_a_side_claim_is_one_for_news(at_search, hits):
    nobody = at_search(text="Zorblatt lists its own token", entity="Zorblatt")
    assert asked(nobody) == [("news", ())]
    event = nobody.told(hits(HOUSES[0]), hits()).event
    assert [o.topic for o in event.outcomes] == ["news", "general"]
    side = SubTask(tool="search:tavily", query="PEPE on Kraken", claim="Kraken lists it")
    assert [(s.query, s.topic, bool(s.include_domains)) for s in at_search(tasks=("search:tavily", side)).asked] == [
        ("Binance PEPE", "news", False),
        ("Binance PEPE", "general", True),
        ("PEPE on Kraken", "news", False),
    ]


def test_failures_are_not_filled_up_by_a_general_search_unless_the_official_pages_say_nothing(at_search, hits):
    at_search().told(DOWN, DOWN).fails_with("unavailable", retryable=True)
    event = at_search().told(WRONG_KEY, WRONG_KEY).event
    assert [o.topic for o in event.outcomes] == ["news", "official"]
    one = at_search().told(WRONG_KEY, hits(), WRONG_KEY).event
    assert [o.topic for o in one.outcomes] == ["news", "official", "general"]
    from agents.judging import judge_case
    from agents.planning.rounds import skipped_flags

    case = at_search(one).case
    assert judge_case(case).why == "search_failed:auth"
    assert skipped_flags([one.outcomes]) == ("search_skipped:auth",)


def test_other_providers_and_old_snapshots_are_asked_in_one(at_search, topical, hits):
    both = replace(topical, search_providers=("bocha", "tavily"))
    spec = at_search(tasks=("search:bocha", "search:tavily"), config=both)
    event = spec.told(*[hits()] * 4).event
    assert [(o.provider, o.topic) for o in event.outcomes] == [
        ("bocha", ""),
        ("tavily", "news"),
        ("tavily", "official"),
        ("tavily", "general"),
    ]
    old = at_search(config=replace(topical, search_by_topic=())).asked
    assert isinstance(old, Search) and (old.topic, old.include_domains) == ("general", ())


def test_a_search_without_a_topic_has_the_hash_that_it_always_had():
    plain = Search(provider="tavily", query="q", max_results=5, as_of=START)
    assert (
        request_hash(plain)
        == request_hash(replace(plain, topic="general"))
        != request_hash(replace(plain, topic="news"))
    )
    assert request_hash(plain) == "6b56863ca6225260f97e583a3ed74271"


def test_an_official_page_without_a_date_is_opened_before_those_with_one(at_search, searched, findings, topical):
    dated, undated, other = (
        replace(r, official=n < 2, published_at=None if n == 1 else START, speaker="Binance" if n < 2 else None)
        for n, r in enumerate(findings(3).references)
    )
    found = replace(searched("scrape", 3), findings=replace(findings(3), references=(dated, undated, other)))
    spec = at_search(found, config=replace(topical, tool_scrape_enabled=True))
    assert [s.url for s in spec.asked] == [undated.url, dated.url, other.url]
    assert spec.told(WRONG_KEY, WRONG_KEY, WRONG_KEY).emits_like(PagesScraped)


def test_the_single_pass_searches_for_news(topical):
    from agents.verification.single_pass_tools import chosen_effects
    from schemas.effects import FunctionCall, ModelReply

    calls = ModelReply(function_calls=(FunctionCall(name="search_news", args={"query": "PEPE Binance"}),))
    case = given(opened(NEWS), config=topical).case
    assert [e.topic for e in chosen_effects(case, calls)] == ["news"]
    assert [
        e.topic for e in chosen_effects(given(opened(NEWS), config=replace(topical, search_by_topic=())).case, calls)
    ] == ["general"]


def test_titles_alone_become_references_whose_pages_are_opened(topical, triaged, no_memory, planned):
    config = replace(
        topical,
        search_providers=("gdelt",),
        search_by_topic=(),
        quality_floors={"gdelt": 0.7},
        quality_widths={"gdelt": 20},
        tool_scrape_enabled=True,
    )
    about = triaged(event_type="listing", asset="PEPE", asset_name="Pepe", entity="Binance")
    path = (opened(CLAIM), about, no_memory, planned("search:gdelt", keywords="Binance PEPE listing"))
    titles = ("Binance Lists PEPE", "Binance Will List PEPE, Trading Opens Monday", "Weather in Oslo: Rain, Says Met")
    hits = tuple(
        builders.search_result(
            f"https://house{n}.example/a", title, title=title, domain=f"house{n}.example", score=score, provider="gdelt",
            published_at=START - timedelta(hours=1), content_complete=False,
        )
        for n, (title, score) in enumerate(zip(titles, (0.5, 0.73, 0.4), strict=True))
    )  # fmt: skip
    spec = given(*path, config=config)
    assert (spec.asked.provider, spec.asked.topic) == ("gdelt", "general")
    event = spec.told(SearchReply(provider="gdelt", query="q", results=hits)).event
    assert [(d.url, d.reason) for d in event.findings.dropped] == [
        ("https://house0.example/a", "low_relevance"),
        ("https://house2.example/a", "low_relevance"),
    ]
    assert event.route == "scrape"
    given(*path, event, config=config).ask_gives(Scrape(url="https://house1.example/a"))
