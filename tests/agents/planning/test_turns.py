"""Providers of a role are asked one after the other until enough came, at the depth that the role says."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from agents.tables import load_tables
from schemas.effects import Failure, Search
from schemas.events import SearchCompleted, SubTask
from tests.agents.conftest import NEWS
from tests.specification import given, opened

WRONG_KEY = Failure(kind="auth", message="wrong key", retryable=False)
HOUSES = ("post.example", "house.example", "digest.example")
"""Of lengths that give each page another text."""
ZH = "Poly Network 遭黑客攻击, 损失超过 6 亿美元"


@pytest.fixture
def at_search(deep, triaged, no_memory, planned):
    def make(*tools, text=NEWS, language="en", kind="hack", roles=None):
        table = load_tables(demo=True).search_roles if roles is None else roles
        config = replace(deep, tables=replace(deep.tables, search_roles=table))
        tasks = tuple(f"search:{t}" if isinstance(t, str) else t for t in tools)
        path = (opened(text, language=language), triaged(event_type=kind), no_memory, planned(*tasks))
        return given(*path, config=config)

    return make


def first(spec):
    return [s.provider for s in spec.asked]


def test_the_one_who_knows_the_language_is_asked_first_then_by_priority(at_search):
    assert first(at_search("bocha", "tavily", "gdelt")) == ["tavily"]
    assert first(at_search("bocha", "tavily", "gdelt", text=ZH, language="zh")) == ["bocha"]
    assert first(at_search("tavily", "gdelt", text=ZH, language="zh")) == ["tavily"]


def test_the_desks_own_documents_come_first_whatever_the_language(at_search, found):
    for language, text, home in (("en", NEWS, "tavily"), ("zh", ZH, "bocha")):
        spec = at_search("bocha", "tavily", "ragflow", text=text, language=language)
        assert first(spec) == ["ragflow"]
        asked = spec.told(found(), found(*HOUSES, provider=home)).event
        assert {o.provider for o in asked.outcomes} == {"ragflow", home}


def test_a_known_page_and_other_tasks_do_not_wait_for_the_turn_of_a_provider(at_search):
    page = SubTask(tool="web_scrape", query="https://post.example/a", claim="")
    assert [type(effect).__name__ for effect in at_search("tavily", "gdelt", page).asked] == ["Search", "Scrape"]
    side = SubTask(tool="search:tavily", query="Poly Network freeze", claim="USDT frozen")
    asked = at_search("bocha", "tavily", side, SubTask(tool="price_check", query="ETH", claim="")).asked
    assert [(getattr(e, "provider", "price"), getattr(e, "query", "")) for e in asked] == [
        ("tavily", "Poly Network exploit"),
        ("tavily", "Poly Network freeze"),
        ("price", ""),
    ]


def test_enough_pages_about_the_claim_end_the_search_and_fewer_go_on(at_search, found):
    spec = at_search("bocha", "tavily", "gdelt")
    enough = spec.told(found(*HOUSES, provider="tavily")).emits_like(SearchCompleted).event
    assert [(o.provider, o.hits) for o in enough.outcomes] == [("tavily", 3)]
    some = spec.told(found(HOUSES[0], provider="tavily"), found(*HOUSES[1:], provider="bocha")).event
    assert [(o.provider, o.hits) for o in some.outcomes] == [("bocha", 2), ("tavily", 1)]
    none = spec.told(found(), found(), found()).event
    assert [o.provider for o in none.outcomes] == ["bocha", "tavily", "gdelt"]


def test_who_fails_gives_the_turn_to_the_next(at_search, found):
    event = at_search("bocha", "tavily").told(WRONG_KEY, found(*HOUSES, provider="bocha")).event
    assert [(o.provider, o.failure) for o in event.outcomes] == [("bocha", None), ("tavily", WRONG_KEY)]


def test_a_role_may_ask_all_at_once_and_deeper_and_tables_of_before_ask_all(at_search):
    assert first(at_search("ragflow", "tavily", "arxiv", kind="product")) == ["ragflow", "tavily", "arxiv"]
    assert first(at_search("bocha", "tavily", roles={"verification": ("bocha", "tavily")})) == ["bocha", "tavily"]
    assert {s.depth for s in at_search("ragflow", "tavily", kind="product").asked} == {"advanced"}
    alone = at_search("tavily").asked
    assert isinstance(alone, Search) and alone.depth == "basic"
