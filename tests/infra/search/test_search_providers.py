"""Bocha, RAGFlow, Arxiv, GDELT and SearXNG in their real wire shapes: what is asked, what is read, and every way to fail."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any
from urllib.parse import parse_qs, urlsplit

import msgspec
import pytest

from agents.tables import load_tables
from infra.search import PROVIDERS
from infra.search.bocha import BochaSearch
from infra.search.ragflow import RagflowSearch
from infra.search.results import lexical_score
from schemas.effects import Failure, Search, SearchReply
from schemas.errors import ConfigError, PermanentError, TransientError
from schemas.topics import MAX_BODY_BYTES
from tests.infra.fakes import searching as fake
from tests.infra.fakes.searching import EVENT, PAPERS, ZH, FakeTime, pace, searching
from tests.infra.fakes.server import Say

NAMES = ("bocha", "ragflow", "arxiv", "gdelt", "searxng")
FULL = {
    "bocha": fake.bocha_results(fake.bocha_page()),
    "ragflow": fake.ragflow_chunks(fake.ragflow_chunk()),
    "arxiv": fake.feed(fake.paper()),
    "gdelt": fake.articles(fake.article()),
    "searxng": fake.searxng_results(fake.searxng_page()),
}
ASKED = {"arxiv": PAPERS, "gdelt": EVENT, "searxng": EVENT}


def asking(name: str) -> Search:
    return ASKED.get(name, ZH)


async def reply_of(name: str, behaviour: Any, **settings: Any) -> SearchReply:
    async with searching(name, behaviour, **settings) as (port, _):
        answer = await port.perform(asking(name))
    assert isinstance(answer.reply, SearchReply), answer.reply
    assert msgspec.json.decode(msgspec.json.encode(answer.reply), type=SearchReply) == answer.reply
    return answer.reply


async def test_bocha_is_asked_for_summaries_in_chinese() -> None:
    domains = msgspec.structs.replace(
        ZH, include_domains=("binance.com", "sec.gov"), since=ZH.as_of - timedelta(days=7)
    )
    async with searching("bocha", FULL["bocha"]) as (port, server):
        answer = await port.perform(ZH)
        await port.perform(domains)
    first, second = server.requests
    assert (first.method, first.path, first.headers["authorization"]) == ("POST", "/v1/web-search", "Bearer sk-secret")
    assert first.json == {"query": ZH.query, "freshness": "noLimit", "summary": True, "count": 5}
    assert second.json["include"] == "binance.com|sec.gov"
    assert second.json["freshness"] == f"{ZH.as_of - timedelta(days=7):%Y-%m-%d}..{ZH.as_of:%Y-%m-%d}"
    assert (answer.cost_usd, answer.cost_source) == (Decimal("0.005"), "BOCHA_COST_USD")
    assert port.worst_case_usd(ZH) == Decimal("0.005")


async def test_bochas_page_is_read_with_its_summary_and_its_time_of_beijing() -> None:
    found = (await reply_of("bocha", FULL["bocha"])).results[0]
    assert (found.title, found.domain, found.provider) == ("币安上线某代币", "www.binance.com", "bocha")
    assert found.snippet.startswith("官方公告:") and found.score >= 0.6
    assert found.published_at == datetime(2024, 11, 12, 8, tzinfo=UTC)


async def test_bochas_crawl_date_is_beijing_time_whatever_it_says() -> None:
    page = fake.bocha_page(datePublished=None)
    found = (await reply_of("bocha", fake.bocha_results(page))).results[0]
    assert found.published_at == datetime(2024, 11, 12, 8, tzinfo=UTC)


async def test_ragflow_is_asked_with_the_dataset_and_the_threshold() -> None:
    async with searching("ragflow", FULL["ragflow"]) as (port, server):
        answer = await port.perform(ZH)
    asked = server.requests[0]
    assert (asked.method, asked.path) == ("POST", "/api/v1/retrieval")
    assert asked.headers["authorization"] == "Bearer ragflow-secret"
    assert asked.json == {
        "question": ZH.query,
        "dataset_ids": ["C7EE74067A2C11EF"],
        "page": 1,
        "page_size": 5,
        "similarity_threshold": 0.6,
    }
    assert answer.cost_usd == 0


async def test_all_chunks_of_a_knowledge_base_have_one_domain() -> None:
    both = fake.ragflow_chunks(fake.ragflow_chunk(), fake.ragflow_chunk(id="b/2", similarity=0.7))
    first, second = (await reply_of("ragflow", both)).results
    assert (first.title, first.score, first.published_at) == ("desk notes.pdf", 0.9669, None)
    assert first.domain == second.domain == urlsplit(first.url).hostname == "c7ee74067a2c11ef"
    assert first.url.split("?")[0] == second.url.split("?")[0] != first.url != second.url


async def test_arxiv_is_asked_for_papers_submitted_before_the_case() -> None:
    odd = msgspec.structs.replace(PAPERS, query='USDC (run) AND model: 脱锚 "stability"')
    async with searching("arxiv", FULL["arxiv"]) as (port, server):
        await port.perform(PAPERS)
        await port.perform(odd)
    asked = [parse_qs(urlsplit(r.path).query) for r in server.requests]
    assert asked[0]["search_query"] == [
        "(all:usdc OR all:stablecoin OR all:stability OR all:run OR all:model)"
        " AND submittedDate:[199107010000 TO 202411120900]"
    ]
    assert (asked[0]["sortBy"], asked[0]["max_results"]) == (["relevance"], ["5"])
    assert asked[1]["search_query"][0].startswith("(all:usdc OR all:run OR all:model OR all:stability) AND")


async def test_arxiv_keeps_to_the_age_asked_for_and_where_wished_to_the_last_year() -> None:
    week = msgspec.structs.replace(PAPERS, since=PAPERS.as_of - timedelta(days=7))
    async with searching("arxiv", FULL["arxiv"]) as (port, server):
        await port.perform(week)
    async with searching("arxiv", FULL["arxiv"], focus_recent=True) as (port, recent):
        await port.perform(PAPERS)
        await port.perform(week)
    asked = [parse_qs(urlsplit(r.path).query) for r in (*server.requests, *recent.requests)]
    assert [one["search_query"][0].partition("submittedDate:")[2] for one in asked] == [
        "[202411050900 TO 202411120900]",
        "[202311130900 TO 202411120900]",
        "[202411050900 TO 202411120900]",
    ]
    assert {one["sortBy"][0] for one in asked} == {"relevance"}


async def test_a_paper_is_read_on_one_line_with_its_first_date() -> None:
    found = (await reply_of("arxiv", FULL["arxiv"])).results[0]
    assert (found.title, found.url) == ("A run model of USDC", "https://arxiv.org/abs/2305.01234v2")
    assert found.snippet == "We model a stablecoin run and its stability."
    assert found.published_at == datetime(2024, 5, 2, 17, 59, 59, tzinfo=UTC)
    assert found.score == 1.0


async def test_arxiv_knows_no_chinese_and_says_so_without_asking() -> None:
    async with searching("arxiv", FULL["arxiv"]) as (port, server):
        with pytest.raises(PermanentError, match="English terms"):
            await port.perform(msgspec.structs.replace(PAPERS, query="脱锚 官方声明"))
    assert server.requests == []


@pytest.mark.parametrize("name", NAMES)
async def test_a_malformed_result_does_not_lose_the_others_and_only_such_are_no_answer(name: str) -> None:
    bad: dict[str, Any] = {
        "bocha": [None, {}, fake.bocha_page(url="javascript:x"), fake.bocha_page(name=7), fake.bocha_page(url=None)],
        "ragflow": [None, {}, fake.ragflow_chunk(similarity="high"), fake.ragflow_chunk(content=None)],
        "arxiv": ["<entry/>", fake.paper(id="not an address"), fake.paper(summary="")],
        "gdelt": [None, {}, fake.article(url="ftp://x"), fake.article(title=" "), fake.article(title=None)],
        "searxng": [None, {}, fake.searxng_page(url=None), fake.searxng_page(title=""), fake.searxng_page(content=3)],
    }
    made = {
        "bocha": fake.bocha_results,
        "ragflow": fake.ragflow_chunks,
        "arxiv": fake.feed,
        "gdelt": fake.articles,
        "searxng": fake.searxng_results,
    }[name]
    good = {
        "bocha": fake.bocha_page(),
        "ragflow": fake.ragflow_chunk(),
        "arxiv": fake.paper(),
        "gdelt": fake.article(),
        "searxng": fake.searxng_page(),
    }[name]
    assert len((await reply_of(name, made(*bad[name], good))).results) == 1
    async with searching(name, made(*bad[name])) as (port, _):
        answer = await port.perform(asking(name))
    assert isinstance(answer.reply, Failure)
    assert (answer.reply.kind, answer.reply.retryable) == ("invalid_output", True)
    assert answer.cost_usd == (Decimal("0.005") if name == "bocha" else 0)


async def test_a_long_chunk_is_cut_at_64_kib_and_said_so() -> None:
    reply = await reply_of("ragflow", fake.ragflow_chunks(fake.ragflow_chunk(content="脱" * 30_000)))
    assert reply.truncated and len(reply.results[0].snippet.encode()) <= MAX_BODY_BYTES


ERRORS = [
    ("bocha", fake.bocha_error(400, "Missing parameter query"), "invalid_request", False, 400),
    ("bocha", fake.bocha_error(400, "The API KEY is missing"), "auth", False, 401),
    ("bocha", fake.bocha_error(403, "You do not have enough money", status=200), "plan_limit", False, 403),
    ("bocha", fake.bocha_error(500, "boom", status=200), "unavailable", True, 500),
    ("ragflow", fake.ragflow_error(102, "`dataset_ids` is required."), "not_configured", False, 102),
    (
        "ragflow",
        fake.ragflow_error(102, "No chunk found! Check the chunk status please!"),
        "not_configured",
        False,
        102,
    ),
    ("ragflow", fake.ragflow_error(102, "`question` is required."), "invalid_request", False, 102),
    ("ragflow", fake.ragflow_error(101), "invalid_request", False, 101),
    ("ragflow", fake.ragflow_error(500), "unavailable", True, 500),
    ("ragflow", Say({"code": 401, "message": "no"}, status=401), "auth", False, 401),
    ("arxiv", fake.arxiv_error("max_results must be an integer"), "invalid_request", False, 400),
    ("arxiv", Say(b"no", status=403), "refused", False, 403),
    ("gdelt", fake.gdelt_says("Parentheses may only be used around OR'd statements."), "invalid_request", False, 400),
    ("gdelt", Say(b"<html>Forbidden</html>", status=403), "refused", False, 403),
    ("searxng", Say({"error": "Invalid value for language"}, status=400), "invalid_request", False, 400),
]


@pytest.mark.parametrize(("name", "behaviour", "kind", "transient", "status"), ERRORS)
async def test_an_error_becomes_a_kind_with_a_way_out(
    name: str, behaviour: Any, kind: str, transient: bool, status: int | None
) -> None:
    async with searching(name, behaviour) as (port, server):
        with pytest.raises(TransientError if transient else PermanentError) as caught:
            await port.perform(asking(name))
    assert (caught.value.kind, caught.value.status) == (kind, status)
    assert "secret" not in str(caught.value)
    assert transient or ";" in str(caught.value), "it says what to do"
    assert len(server.requests) == 1


MALFORMED_BODIES = (
    b"{", b"{}", b'{"code": 0}', b'{"code": true}', b'{"code": 0, "data": {"chunks": {}}}', b'{"code": "ok"}',
    b"\xff\xfe\x00", b"<feed/>", b'{"code": ' + b"9" * 5000 + b"}",
)  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
async def test_a_malformed_body_is_invalid_output_and_worth_another_try(name: str) -> None:
    # An empty object is GDELT's way of saying that nothing was found.
    bodies = [body for body in MALFORMED_BODIES if (name, body) != ("gdelt", b"{}")]
    async with searching(name, *map(Say, bodies)) as (port, _):
        for body in bodies:
            reply = (await port.perform(asking(name))).reply
            assert isinstance(reply, Failure), body
            assert (reply.kind, reply.retryable) == ("invalid_output", True), body


@pytest.mark.parametrize("data", [None, {}, {"webPages": {}}, {"webPages": {"value": None}}])
async def test_a_success_of_bocha_without_a_list_of_pages_is_not_nothing_found(data: Any) -> None:
    async with searching("bocha", Say({"code": 200, "data": data})) as (port, _):
        answer = await port.perform(ZH)
    assert isinstance(answer.reply, Failure) and answer.reply.kind == "invalid_output"
    assert (await reply_of("bocha", Say({"code": 200, "data": {"webPages": None}}))).results == ()


async def test_arxiv_is_asked_once_in_three_seconds_over_one_connection_by_all_callers() -> None:
    time, starts = FakeTime(), list[float]()

    class Noted(Say):
        async def respond(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            starts.append(time.now)
            await super().respond(reader, writer)

    full = FULL["arxiv"]
    async with searching("arxiv", Noted(full.body, headers=full.headers), pace=pace(time)) as (port, server):
        await asyncio.gather(*(port.perform(PAPERS) for _ in range(5)))
        assert server.connections == 1
    assert starts == [1000.0 + 3 * n for n in range(5)]


async def test_the_pace_outlives_callers_that_fail_or_are_cancelled() -> None:
    time = FakeTime()
    async with searching("arxiv", Say(b"", status=500), FULL["arxiv"], pace=pace(time)) as (port, _):
        with pytest.raises(TransientError):
            await port.perform(PAPERS)
        waiting = asyncio.create_task(port.perform(PAPERS))
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        assert isinstance((await port.perform(PAPERS)).reply, SearchReply)
    assert time.now == 1003.0


async def test_who_would_wait_too_long_for_arxiv_is_told_when_to_come_back() -> None:
    time = FakeTime()
    async with searching("arxiv", FULL["arxiv"], pace=pace(time, max_wait_s=7.0)) as (port, server):
        told = await asyncio.gather(*(port.perform(PAPERS) for _ in range(9)), return_exceptions=True)
    sent_away = [one for one in told if isinstance(one, TransientError)]
    assert len(server.requests) == len(told) - len(sent_away) == 3
    assert {one.kind for one in sent_away} == {"rate_limit"}
    assert all(one.retry_after_s is not None and one.retry_after_s > 7 for one in sent_away)


async def test_arxivs_own_wish_for_a_pause_is_kept() -> None:
    time = FakeTime()
    slow = Say(b"busy", status=503, headers={"retry-after": "20"})
    async with searching("arxiv", slow, FULL["arxiv"], pace=pace(time)) as (port, _):
        with pytest.raises(TransientError) as caught:
            await port.perform(PAPERS)
        await port.perform(PAPERS)
    assert caught.value.retry_after_s == 20 and time.now == 1020.0


def test_relevance_is_the_share_of_the_query_that_a_page_names() -> None:
    assert lexical_score("", "t", "c") == 0.0
    assert lexical_score("币安 上线", "无关", "天气很好") == 0.0
    assert lexical_score("hack exploit", "Hack", "an exploit was found") == 1.0
    low, high = lexical_score("a1 b2 c3 d4 e5 f6", "a1", ""), lexical_score("a1 b2 c3 d4 e5", "a1", "")
    assert low < 0.6 <= high


@pytest.mark.parametrize(
    ("make", "setting"),
    [
        (lambda: BochaSearch(api_key=" "), "BOCHA_API_KEY"),
        (lambda: BochaSearch(api_key="k", base_url="bocha"), "BOCHA_BASE_URL"),
        (lambda: RagflowSearch(endpoint="http://r", api_key="", dataset_ids=["d"]), "RAGFLOW_API_KEY"),
        (lambda: RagflowSearch(endpoint="r:9380", api_key="k", dataset_ids=["d"]), "RAGFLOW_ENDPOINT"),
        (lambda: RagflowSearch(endpoint="http://r", api_key="k", dataset_ids=[" "]), "RAGFLOW_DATASET_ID"),
    ],
)
def test_what_cannot_be_a_key_or_an_address_is_refused_at_the_start(make: Any, setting: str) -> None:
    with pytest.raises(ConfigError, match=setting):
        make()


def test_the_table_is_in_the_order_of_priority() -> None:
    assert list(PROVIDERS) == ["ragflow", "bocha", "tavily", "searxng", "feeds", "gdelt", "arxiv"]


def test_every_provider_has_a_role_or_it_would_never_be_asked() -> None:
    roles = load_tables(demo=False).search_roles
    assert {name for role, names in roles.items() if ":" not in role for name in names} == set(PROVIDERS)
