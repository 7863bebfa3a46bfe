"""The searches that need no key: GDELT's titles and one's own SearXNG, as they are asked and read."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from msgspec.structs import replace

from schemas.effects import Search, SearchReply
from schemas.errors import PermanentError
from tests.infra.fakes import searching as fake
from tests.infra.fakes.searching import EVENT, FakeTime, pace, searching
from tests.infra.fakes.server import Say
from tests.infra.fakes.tavily import AS_OF


def sent(request: Any) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(urlsplit(request.path).query).items()}


async def results_of(name: str, behaviour: Any, effect: Search = EVENT) -> SearchReply:
    async with searching(name, behaviour) as (port, _):
        answer = await port.perform(effect)
    assert isinstance(answer.reply, SearchReply), answer.reply
    assert (answer.cost_usd, port.worst_case_usd(effect), port.quota_units(effect)) == (0, 0, 0)
    return answer.reply


async def test_gdelt_is_asked_in_english_for_the_three_months_before_the_case() -> None:
    async with searching("gdelt", fake.articles()) as (port, server):
        await port.perform(EVENT)
        await port.perform(
            replace(EVENT, language="en", include_domains=("circle.com", "sec.gov"), since=AS_OF - timedelta(days=7))
        )
    first, second = (sent(request) for request in server.requests)
    assert first == {
        "query": "Circle (USDC OR depeg) (sourcelang:english OR sourcelang:chinese)",
        "mode": "artlist",
        "format": "json",
        "maxrecords": "75",
        "startdatetime": "20240815090000",
        "enddatetime": "20241112090000",
        "sort": "datedesc",
    }
    assert second["query"] == "Circle (USDC OR depeg) sourcelang:english (domainis:circle.com OR domainis:sec.gov)"
    assert second["startdatetime"] == "20241105090000"
    assert "Newsproof" in server.requests[0].headers["user-agent"]


@pytest.mark.parametrize(
    ("query", "expression"),
    [
        ("SEC", "SEC"),
        ('"flash loan" XXX of $100M 攻击', '"flash loan" (XXX OR 100M)'),
        ("Circle OR (depeg) not:x site:evil.example", "Circle (depeg OR site OR evil.example)"),
        ("Circle circle CIRCLE", "Circle"),
        ("spot-bitcoin ETF sec-approved", '"spot-bitcoin" (ETF OR "sec-approved")'),
    ],
)
async def test_words_become_an_expression_that_gdelt_takes(query: str, expression: str) -> None:
    async with searching("gdelt", fake.articles()) as (port, server):
        await port.perform(replace(EVENT, query=query, language="ko"))
    assert sent(server.requests[0])["query"] == expression


async def test_a_long_query_stays_below_what_gdelt_calls_too_long() -> None:
    async with searching("gdelt", fake.articles()) as (port, server):
        await port.perform(replace(EVENT, query=" ".join(f"keyword{n}" for n in range(60))))
    asked = sent(server.requests[0])["query"]
    assert 150 < len(asked) <= 220 and asked.startswith("keyword0 (keyword1 OR ")


@pytest.mark.parametrize(
    ("domains", "within"),
    [
        (("https://sec.gov/news", "SEC.gov"), "domainis:sec.gov"),
        (
            tuple(f"{'long' * 12}{n}.example" for n in range(5)),
            f"(domainis:{'long' * 12}0.example OR domainis:{'long' * 12}1.example)",
        ),
    ],
)
async def test_domains_are_kept_as_far_as_they_fit_and_never_dropped_for_the_whole_web(
    domains: tuple[str, ...], within: str
) -> None:
    async with searching("gdelt", fake.articles()) as (port, server):
        await port.perform(replace(EVENT, query="Circle USDC", include_domains=domains))
    asked = sent(server.requests[0])["query"]
    assert asked.endswith(within) and len(asked) <= 220


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"query": "脱锚 官方声明 of"}, "English"),
        ({"as_of": AS_OF - timedelta(days=90)}, "last three months"),
        ({"include_domains": ("no domain", "x")}, "none of the requested domains"),
    ],
)
async def test_what_gdelt_cannot_know_is_refused_without_a_request(changes: dict[str, Any], says: str) -> None:
    async with searching("gdelt", fake.articles(fake.article())) as (port, server):
        with pytest.raises(PermanentError, match=says) as caught:
            await port.perform(replace(EVENT, **changes))
    assert (caught.value.kind, server.requests) == ("invalid_request", [])


async def test_a_case_dated_ahead_of_the_clock_is_searched_until_now() -> None:
    async with searching("gdelt", fake.articles()) as (port, server):
        await port.perform(replace(EVENT, as_of=AS_OF + timedelta(hours=2)))
    assert sent(server.requests[0])["enddatetime"] == "20241112090000"


async def test_a_title_is_all_the_content_and_says_so() -> None:
    (found,) = (await results_of("gdelt", fake.articles(fake.article()))).results
    assert found.title == found.snippet == "Circle Says USDC Reserves Are Whole, Depeg Eases"
    assert (found.domain, found.provider, found.content_complete) == ("www.coindesk.com", "gdelt", False)
    assert found.published_at == datetime(2024, 11, 12, 8, 30, tzinfo=UTC)


async def test_the_best_titles_are_kept_and_one_of_each_text() -> None:
    listed = fake.articles(
        fake.article(title="Markets today", url="https://a.example/1"),
        fake.article(title="Circle : USDC depeg", url="https://b.example/later"),
        fake.article(title="Circle : USDC depeg", url="https://c.example/first"),
        fake.article(title="USDC 脱 锚 了", url="https://d.example/1"),
    )
    reply = await results_of("gdelt", listed, replace(EVENT, max_results=3))
    assert [r.url for r in reply.results] == ["https://c.example/first", "https://d.example/1", "https://a.example/1"]
    assert [r.title for r in reply.results][1:] == ["USDC 脱锚了", "Markets today"]
    assert not reply.truncated


async def test_stray_backslashes_in_a_title_lose_nothing() -> None:
    title = r"Circle\'s \d \"USDC\" \\d" + "\x07"  # as it stands between the quotes of the JSON
    body = f'{{"articles": [{{"url": "https://a.example/", "title": "{title}"}}]}}'.encode()
    (found,) = (await results_of("gdelt", Say(body))).results
    assert (found.title.rstrip("\x07"), found.published_at) == (r"""Circle\'s \d "USDC" \d""", None)


async def test_gdelt_is_asked_once_per_interval_by_all_callers() -> None:
    time = FakeTime()
    async with searching("gdelt", fake.articles(), pace=pace(time)) as (port, server):
        await asyncio.gather(*(port.perform(EVENT) for _ in range(4)))
    assert len(server.requests) == 4 and time.now == 1009.0


async def test_searxng_is_asked_for_news_or_for_everything_as_json() -> None:
    news = replace(EVENT, topic="news", since=AS_OF - timedelta(days=5))
    official = replace(EVENT, include_domains=("circle.com", "sec.gov"), language="other")
    async with searching("searxng", fake.searxng_results()) as (port, server):
        await port.perform(news)
        await port.perform(official)
        await port.perform(replace(EVENT, include_domains=("circle.com",), query="!!g :fr <3 USDC"))
    first, second, third = (sent(request) for request in server.requests)
    assert urlsplit(server.requests[0].path).path == "/search"
    assert first == {
        "q": EVENT.query, "format": "json", "categories": "news", "language": "zh", "time_range": "week",
    }  # fmt: skip
    assert second == {
        "q": f"{EVENT.query} (site:circle.com OR site:sec.gov)", "format": "json", "categories": "general",
    }  # fmt: skip
    assert third["q"] == "g fr 3 USDC site:circle.com"


@pytest.mark.parametrize(("days", "range_"), [(1, "day"), (30, "month"), (200, "year"), (500, None)])
async def test_a_range_is_never_shorter_than_the_age_asked_for(days: int, range_: str | None) -> None:
    async with searching("searxng", fake.searxng_results()) as (port, server):
        await port.perform(replace(EVENT, since=AS_OF - timedelta(days=days)))
    assert sent(server.requests[0]).get("time_range") == range_


async def test_searxngs_page_is_read_with_a_score_of_ours_and_maybe_a_date() -> None:
    undated = fake.searxng_page(url="https://b.example/", publishedDate=None, content="")
    dated, other = (await results_of("searxng", fake.searxng_results(fake.searxng_page(), undated))).results
    assert (dated.domain, dated.published_at) == ("www.coindesk.com", datetime(2024, 11, 12, 8, tzinfo=UTC))
    assert 0 < dated.score <= 1 and dated.content_complete
    assert (other.snippet, other.published_at, other.content_complete) == (undated["title"], None, False)


async def test_pages_beside_engines_that_failed_are_an_answer() -> None:
    some = fake.searxng_results(fake.searxng_page(), silent=(("google", "timeout"),))
    assert len((await results_of("searxng", some)).results) == 1
