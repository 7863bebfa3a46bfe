"""The offline search: clear matches score 0.6 and more, strangers less; deterministic; of any date."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from infra.offline.search import OfflinePages, OfflineSearch, load_corpus
from schemas.effects import Scrape, Search
from schemas.errors import ConfigError, PermanentError

EARLY = datetime(2010, 1, 1, tzinfo=UTC)


@pytest.fixture(scope="module")
def port():
    return OfflineSearch()


def query(text, *, limit=5, domains=()):
    return Search(provider="offline", query=text, max_results=limit, as_of=EARLY, include_domains=domains)


@pytest.mark.parametrize(
    ("text", "host"),
    [
        ("Poly Network exploit official statement", "polynetwork.example"),
        ("Walmart Litecoin partnership official statement announcement", "corporate.walmart.example"),
        ("Bybit 冷钱包 攻击 ETH 被盗 官方声明", "announcements.bybit.example"),
        ("虚拟货币 相关业务 非法金融活动 十部门 通知", "pbc.example"),
    ],
)
async def test_what_is_asked_for_is_found_clearly(port, text, host):
    results = (await port.perform(query(text, limit=10))).reply.results
    assert host in [r.domain for r in results if r.score >= 0.6]
    assert [r.score for r in results] == sorted((r.score for r in results), reverse=True)
    assert all(0 < r.score <= 1 and r.provider == "offline" for r in results)


@pytest.mark.parametrize(
    "text", ["tomato soup recipe", "番茄 炒蛋 做法", "Manchester football transfer", "", "official statement"]
)
async def test_strangers_stay_below_a_clear_match(port, text):
    assert all(r.score < 0.6 for r in (await port.perform(query(text))).reply.results)


async def test_pages_later_than_the_case_are_returned_for_the_verification_to_drop(port):
    results = (await port.perform(query("Poly Network exploit"))).reply.results
    assert results and all(r.published_at > EARLY for r in results)


async def test_equal_queries_have_equal_answers(port):
    asked = query("SEC spot Bitcoin ETF approval 比特币 现货 批准")
    assert await port.perform(asked) == await OfflineSearch().perform(asked)


async def test_size_and_domains_are_respected(port):
    assert len((await port.perform(query("bitcoin", limit=3))).reply.results) <= 3
    only = (await port.perform(query("Tesla Bitcoin 10-K", domains=("tesla.example",)))).reply.results
    assert {r.domain for r in only} == {"ir.tesla.example", "tesla.example"}


def test_a_broken_or_empty_corpus_is_refused(tmp_path: Path):
    with pytest.raises(ConfigError, match="holds no documents"):
        OfflineSearch(tmp_path)
    (tmp_path / "a.jsonl").write_text(json.dumps({"id": 1}), "utf-8")
    with pytest.raises(ConfigError, match=r"a\.jsonl line 1"):
        OfflineSearch(tmp_path)


async def test_a_page_of_the_corpus_opens_with_its_text_and_no_other_opens():
    document = load_corpus()[0]
    pages = OfflinePages(load_corpus())
    answer = await pages.perform(Scrape(url=document.url))
    assert (answer.reply.page.text, answer.cost_usd) == (document.content, 0)
    with pytest.raises(PermanentError, match="offline opens only those") as caught:
        await pages.perform(Scrape(url="https://elsewhere.example/"))
    assert caught.value.kind == "blocked"
