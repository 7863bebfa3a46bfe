"""How many billed requests a message sends: one that reaches the most, a second one on doubt, and none beyond."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from agents.tables import load_tables
from schemas.effects import Failure, SearchReply
from schemas.events import SubTask
from tests.agents.conftest import NEWS
from tests.specification import given, opened

CLAIM = "Binance lists PEPE, trading opens today"
HOUSES = ("onchainpost.example", "defidigest.example", "tokentribune.example")
WRONG_KEY = Failure(kind="auth", message="wrong key", retryable=False)
NOTHING = SearchReply(provider="tavily", query="q", results=())


@pytest.fixture
def paying(deep):
    return replace(
        deep,
        search_providers=("tavily",),
        search_by_topic=("tavily",),
        search_billed=("tavily", "bocha"),
        search_requests_per_message=1,
        tool_scrape_enabled=True,
        tables=load_tables(demo=False),
    )


@pytest.fixture
def at_search(paying, triaged, no_memory, planned):
    def make(
        *more, tasks=("search:tavily",), config=paying, kind="listing", entity="Binance", language="en", text=CLAIM
    ):
        about = triaged(event_type=kind, asset="PEPE", asset_name="Pepe", entity=entity)
        text = text if entity else "Zorblatt lists its own token"
        path = (opened(text, language=language), about, no_memory, planned(*tasks, keywords="Binance PEPE"))
        return given(*path, *more, config=config)

    return make


@pytest.fixture
def hits(found):
    return lambda *hosts: found(*hosts, provider="tavily")


def sent(event):
    return [(o.provider, o.topic) for o in event.outcomes]


def test_the_one_request_reaches_the_partys_own_pages_and_the_outlets_or_the_operators_own_domains(at_search, paying):
    (best,) = at_search().asked
    assert (best.topic, best.max_results, best.query) == ("general", 10, "Binance PEPE")
    assert {"binance.com", "coindesk.com", "theblock.co"} <= set(best.include_domains)
    assert "zhihu.com" not in best.include_domains and not [d for d in best.include_domains if "*" in d]
    assert len(best.include_domains) <= 300
    (best,) = at_search(config=replace(paying, search_include_domains=("mine.example",))).asked
    assert "mine.example" in best.include_domains and "coindesk.com" not in best.include_domains


def test_dated_news_is_asked_for_where_no_page_is_opened_for_its_date_or_nobody_may_speak(at_search, paying):
    for spec in (at_search(config=replace(paying, tool_scrape_enabled=False)), at_search(entity=None)):
        (news,) = spec.asked
        assert (news.topic, news.include_domains) == ("news", ())


def test_an_official_page_or_enough_others_end_the_search_after_one_request(at_search, hits):
    assert sent(at_search().told(hits("binance.com")).event) == [("tavily", "general")]
    hack = at_search(kind="hack", entity="Poly Network", text=NEWS)
    assert len(sent(hack.told(hits(*HOUSES)).event)) == 1


def test_doubt_about_a_claim_of_weight_sends_a_second_request_and_never_a_third(at_search, hits):
    assert sent(at_search().told(NOTHING, NOTHING).event) == [("tavily", "general"), ("tavily", "news")]
    event = at_search(kind="hack").told(hits(HOUSES[0]), hits(HOUSES[1])).event
    assert sent(event) == [("tavily", "general"), ("tavily", "news")]
    assert {r.registrable_domain for r in event.findings.references} == set(HOUSES[:2])


@pytest.mark.parametrize("kind", ["product", "funding", "partnership", "whale"])
def test_other_claims_stay_with_one_request(at_search, kind):
    assert sent(at_search(kind=kind).told(NOTHING).event) == [("tavily", "general")]


def test_a_further_round_searches_only_where_a_request_is_left_or_a_provider_bills_none(
    at_search, hits, paying, planned
):
    from agents.planning.rounds import rounds_left

    first = at_search().told(hits(*HOUSES[:2]), NOTHING).event
    assert not rounds_left(at_search(first).case) and first.route == "scrape"
    assert rounds_left(at_search(first, config=replace(paying, search_requests_per_message=3)).case)
    both = replace(paying, search_providers=("tavily", "feeds"))
    assert rounds_left(at_search(first, config=both).case)
    spec = at_search(first, planned("search:tavily", "search:feeds", round=2), config=both)
    assert [s.provider for s in spec.asked] == ["feeds"]


def test_what_failed_or_came_from_the_cache_was_no_billed_request(at_search, hits, paying, planned):
    cached = replace(NOTHING, cached=True)
    assert sent(at_search(kind="product").told(cached, NOTHING).event) == [("tavily", "general"), ("tavily", "news")]
    both = replace(paying, search_providers=("tavily", "bocha"))
    event = (
        at_search(tasks=("search:tavily", "search:bocha"), config=both, kind="product").told(WRONG_KEY, NOTHING).event
    )
    assert sent(event) == [("tavily", "general"), ("bocha", "")], "who has failed is not asked in another way"


def test_the_provider_of_the_language_has_the_one_request_and_the_other_that_of_doubt(at_search, paying):
    both = {"config": replace(paying, search_providers=("bocha", "tavily")), "tasks": ("search:bocha", "search:tavily")}
    zh = at_search(**both, language="zh")
    assert [s.provider for s in zh.asked] == ["bocha"]
    assert sent(zh.told(NOTHING, NOTHING).event) == [("bocha", ""), ("tavily", "general")]
    assert sent(at_search(**both, language="zh", kind="product").told(NOTHING).event) == [("bocha", "")]
    assert sent(at_search(**both).told(NOTHING, NOTHING).event) == [("tavily", "general"), ("tavily", "news")]


def test_free_providers_are_asked_as_ever_and_side_claims_only_with_what_is_left(at_search, paying):
    side = SubTask(tool="search:tavily", query="PEPE on Kraken", claim="Kraken lists it")
    config = replace(paying, search_providers=("tavily", "feeds", "gdelt"))
    tasks = ("search:tavily", "search:feeds", "search:gdelt", side)
    told = at_search(tasks=tasks, config=config, kind="product").told(NOTHING, NOTHING, NOTHING).event
    assert sent(told) == [("tavily", "general"), ("feeds", ""), ("gdelt", "")]
    more = replace(paying, search_requests_per_message=4)
    event = at_search(tasks=("search:tavily", side), config=more, kind="product").told(*[NOTHING] * 4).event
    assert [(o.query, o.topic) for o in event.outcomes] == [
        ("Binance PEPE", "general"),
        ("Binance PEPE", "news"),
        ("Binance PEPE", "general"),
        ("PEPE on Kraken", "news"),
    ]


def test_the_single_pass_sends_no_more_than_is_left(paying, triaged, searched):
    from agents.verification.single_pass_tools import chosen_effects
    from schemas.effects import FunctionCall, ModelReply

    calls = ModelReply(function_calls=(FunctionCall(name="search_news", args={"query": "PEPE Binance"}),))
    both = replace(paying, search_providers=("bocha", "tavily", "feeds"))
    case = given(opened(NEWS), config=both).case
    assert [e.provider for e in chosen_effects(case, calls)] == ["tavily", "feeds"]


def test_snapshots_of_before_send_as_many_as_their_rounds_make(at_search, paying):
    for old in ({"search_requests_per_message": 0}, {"search_billed": ()}):
        assert [s.topic for s in at_search(config=replace(paying, **old)).asked] == ["news", "general"]
