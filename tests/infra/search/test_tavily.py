from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import msgspec
import pytest

from infra.search.tavily import TavilySearch
from infra.texts import parse_published
from schemas.effects import SearchReply
from schemas.errors import PermanentError
from schemas.topics import MAX_BODY_BYTES
from tests.infra.fakes import tavily as fake
from tests.infra.fakes.server import Say
from tests.infra.fakes.tavily import SEARCH, tavily


async def test_a_search_is_one_post_with_the_key_as_bearer() -> None:
    async with tavily(fake.results(fake.item()), include_domains=["coindesk.com"]) as (search, server):
        await search.perform(SEARCH)
    (request,) = server.requests
    assert (request.method, request.path) == ("POST", "/search")
    assert request.headers["authorization"] == "Bearer tvly-secret"
    assert request.json == {
        "query": SEARCH.query,
        "search_depth": "basic",
        "max_results": 5,
        "include_answer": False,
        "include_raw_content": False,
        "include_usage": True,
        "include_domains": ["coindesk.com"],
        "end_date": "2024-11-13",
    }


@pytest.mark.parametrize(
    ("today", "topic", "sent"),
    [
        (fake.AS_OF, "general", {}),
        (fake.AS_OF - timedelta(days=1), "general", {}),
        (fake.AS_OF + timedelta(days=1), "general", {"end_date": "2024-11-13"}),
        (fake.AS_OF, "news", {"topic": "news"}),
        (fake.AS_OF + timedelta(days=9), "news", {"topic": "news", "end_date": "2024-11-13"}),
    ],
)
async def test_news_is_a_topic_and_an_earlier_case_ends_with_its_day(
    today: datetime, topic: Any, sent: dict[str, str]
) -> None:
    async with tavily(fake.results(fake.item()), now=lambda: today) as (search, server):
        await search.perform(msgspec.structs.replace(SEARCH, topic=topic))
    assert {k: v for k, v in server.requests[0].json.items() if k in ("topic", "end_date")} == sent


async def test_results_come_back_in_order_with_host_date_and_cost() -> None:
    second = fake.item(url="http://user@Blog.Example:8080/x", score=0.5, published_date=None)
    async with tavily(fake.results(fake.item(), second, usage={"credits": 2})) as (search, _):
        answer = await search.perform(SEARCH)
    assert isinstance(answer.reply, SearchReply)
    first, other = answer.reply.results
    assert (first.domain, first.score, first.provider) == ("www.coindesk.com", 0.91, "tavily")
    assert first.published_at == datetime(2024, 11, 12, 8, tzinfo=UTC)
    assert (other.domain, other.published_at, other.content_complete) == ("blog.example", None, True)
    assert (answer.cost_usd, answer.reply.truncated) == (Decimal("0.016"), False)
    assert "SEARCH_COST_USD" in answer.cost_source


@pytest.mark.parametrize(
    ("depth", "price", "cost"),
    [("basic", "0.008", "0.008"), ("advanced", "0.008", "0.016"), ("basic", 0, "0"), ("basic", None, None)],
)
async def test_credits_are_assumed_by_depth_where_none_are_reported(depth: str, price: Any, cost: str | None) -> None:
    async with tavily(fake.results(usage=None), unit_cost_usd=price) as (search, _):
        answer = await search.perform(msgspec.structs.replace(SEARCH, depth=depth))
    assert answer.cost_usd == (None if cost is None else Decimal(cost))
    assert (answer.cost_source == "unknown") == (price is None)


@pytest.mark.parametrize(
    ("query", "sent"),
    [
        ("字" * 500, "字" * 400),
        ("word " * 100, ("word " * 80).strip()),
        ("a\n b\ud800", "a b?"),
        ("x" * 400, "x" * 400),
    ],
)
async def test_a_query_is_cut_to_400_characters_and_the_reply_says_what_was_asked(query: str, sent: str) -> None:
    async with tavily(fake.results(), max_response_bytes=10_000) as (search, server):
        answer = await search.perform(msgspec.structs.replace(SEARCH, query=query))
    assert server.requests[0].json["query"] == sent
    assert isinstance(answer.reply, SearchReply)
    assert answer.reply.query == sent


async def test_an_empty_query_is_refused_without_a_request() -> None:
    async with tavily(fake.results()) as (search, server):
        with pytest.raises(PermanentError) as caught:
            await search.perform(msgspec.structs.replace(SEARCH, query=" \n"))
    assert (caught.value.kind, server.requests) == ("invalid_request", [])


async def test_domains_of_the_search_win_over_those_of_the_settings() -> None:
    async with tavily(fake.results(), include_domains=["coindesk.com"]) as (search, server):
        since = SEARCH.as_of - timedelta(days=30)
        await search.perform(msgspec.structs.replace(SEARCH, include_domains=("sec.gov",), max_results=99, since=since))
    assert server.requests[0].json["include_domains"] == ["sec.gov"]
    assert server.requests[0].json["max_results"] == 20
    assert server.requests[0].json["start_date"] == f"{since:%Y-%m-%d}"


async def test_each_search_of_a_topic_is_a_unit_of_the_day_at_the_price_of_its_depth() -> None:
    searches = [SEARCH, msgspec.structs.replace(SEARCH, topic="news")]
    searches += [msgspec.structs.replace(SEARCH, include_domains=("circle.com",))]
    async with tavily(fake.results()) as (search, _):
        assert [(search.quota_units(s), search.worst_case_usd(s)) for s in searches] == [(1, Decimal("0.008"))] * 3
        deep = msgspec.structs.replace(searches[1], depth="advanced")
        assert (search.quota_units(deep), search.worst_case_usd(deep)) == (2, Decimal("0.016"))


MALFORMED_ITEMS = [
    None,
    "text",
    fake.item(url=None),
    fake.item(url="javascript:alert(1)"),
    fake.item(url="http://[::1"),
    fake.item(url="https://"),
    fake.item(url="https://a.example/" + "x" * 3000),
    fake.item(title=7),
    fake.item(content=None),
    fake.item(score="high"),
    fake.item(score=True),
    fake.item(score=None),
]


@pytest.mark.parametrize("malformed", MALFORMED_ITEMS)
async def test_a_malformed_item_does_not_lose_the_others(malformed: Any) -> None:
    async with tavily(fake.results(malformed, fake.item())) as (search, _):
        answer = await search.perform(SEARCH)
    assert isinstance(answer.reply, SearchReply)
    assert [r.domain for r in answer.reply.results] == ["www.coindesk.com"]


async def test_odd_but_readable_items_are_kept_and_can_be_journalled() -> None:
    body = (
        b'{"results": [{"title": "a\\ud800b", "url": "https://a.example/", "content": "c\\udfff", "score": 1'
        + b"0" * 400
        + b'}, {"title": "t", "url": "https://b.example./", "content": "", "score": -3}], "usage": {"credits": "many"}}'
    )
    async with tavily(Say(body)) as (search, _):
        answer = await search.perform(SEARCH)
    assert isinstance(answer.reply, SearchReply)
    assert [(r.title, r.domain, r.score) for r in answer.reply.results] == [
        ("a?b", "a.example", 1.0),
        ("t", "b.example", 0.0),
    ]
    assert msgspec.json.decode(msgspec.json.encode(answer.reply), type=SearchReply) == answer.reply


async def test_a_long_text_is_cut_at_64_kib_between_characters_and_said_so() -> None:
    async with tavily(fake.results(fake.item(content="脱" * 30_000), fake.item())) as (search, _):
        answer = await search.perform(SEARCH)
    assert isinstance(answer.reply, SearchReply)
    cut, whole = answer.reply.results
    assert MAX_BODY_BYTES - 3 < len(cut.snippet.encode()) <= MAX_BODY_BYTES
    assert set(cut.snippet) == {"脱"}
    assert (cut.content_complete, whole.content_complete, answer.reply.truncated) == (False, True, True)


async def test_more_results_than_asked_for_are_cut_to_the_best() -> None:
    async with tavily(fake.results(*[fake.item(score=1 - i / 10) for i in range(9)])) as (search, _):
        answer = await search.perform(msgspec.structs.replace(SEARCH, max_results=3))
    assert isinstance(answer.reply, SearchReply)
    assert [r.score for r in answer.reply.results] == [1.0, 0.9, 0.8]


@pytest.mark.parametrize(
    "written",
    [
        "Tue, 12 Nov 2024 08:00:00 GMT", "2024-11-12T08:00:00Z", "2024-11-12T16:00:00+08:00", "2024-11-12 08:00:00",
        "2024/11/12 08:00:00", 1731398400, 1731398400000, "1731398400",
    ],
)  # fmt: skip
def test_dates_are_read_in_the_forms_that_pages_use(written: Any) -> None:
    assert parse_published(written) == datetime(2024, 11, 12, 8, tzinfo=UTC)


@pytest.mark.parametrize("written", ["2024-11-12", "20241112", "Nov 12, 2024", "November 12, 2024", "12 Nov 2024"])
def test_a_date_without_a_time_is_midnight_utc(written: str) -> None:
    assert parse_published(written) == datetime(2024, 11, 12, tzinfo=UTC)


@pytest.mark.parametrize("written", [None, "", "yesterday", True, 1e300, 10**400, float("nan"), [], "2024-13-45", "²"])
def test_an_unreadable_date_is_unknown_rather_than_guessed(written: Any) -> None:
    assert parse_published(written) is None


@pytest.mark.integration
@pytest.mark.skipif("TAVILY_API_KEY" not in os.environ, reason="needs TAVILY_API_KEY")
async def test_the_real_service_answers_in_this_shape() -> None:
    search = TavilySearch(api_key=os.environ["TAVILY_API_KEY"], timeout_s=30.0, unit_cost_usd=Decimal("0.008"))
    try:
        answer = await search.perform(
            msgspec.structs.replace(SEARCH, query="Bitcoin spot ETF SEC approval", max_results=3)
        )
    finally:
        await search.close()
    assert isinstance(answer.reply, SearchReply)
    assert answer.reply.results
    assert answer.cost_usd is not None
