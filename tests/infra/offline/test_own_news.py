"""A user's own news offline: pages about other stories neither confirm nor deny it, and the sample is judged as ever."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from agents.prompts import load_prompts
from agents.tables import load_tables
from infra.offline.model import OfflineModel
from infra.offline.newsroom.search import StorySearch
from infra.offline.rules import is_zh
from infra.offline.sample_news import sample_news
from infra.offline.search import OfflinePages, OfflineSearch
from infra.offline.simulated import Simulated
from infra.ports import Ports
from schemas.config import Snapshot
from schemas.effects import Effect, Reply
from schemas.signals import Signal
from tests.empty_journal import EmptyJournal
from tests.specification import opened, run_case

CONFIG = Snapshot(
    provider_mode="offline",
    deep_analysis_tools_enabled=True,
    phase1_rollout_percentage=1.0,
    tool_scrape_enabled=True,
    search_providers=("offline",),
    prompts=load_prompts(),
    tables=load_tables(demo=True),
)
OWN = """
2026-11-26 Binance lists ZK
2026-11-26 Coinbase to list PEPE tomorrow, insiders say
2026-11-26 SEC approves spot Solana ETF
2026-11-26 SEC approves 11 spot Bitcoin exchange-traded products for Coinbase
2026-11-26 SEC approves 12 spot Bitcoin exchange-traded products
2026-11-26 SEC rejects 11 spot Bitcoin exchange-traded products
2026-11-26 Tether halts redemptions
2026-11-26 OKX 上线 PEPE
2026-11-26 Ethereum completes the Fusaka upgrade
2026-11-26 特斯拉再次接受比特币付款
2020-07-16 Coinbase to list PEPE, insiders say
2021-04-18 US Treasury charges Binance with money laundering
2021-09-14 Amazon announces partnership with Litecoin
2021-11-05 kroger to accept dogecoin at all stores
2022-11-09 Binance walks away from FTX acquisition
2022-12-16 Mazars stops work for OKX
2023-06-06 SEC sues Coinbase for operating as unregistered exchange
2023-06-07 SEC sues Kraken and its founder
2024-12-10 IBM quantum chip breaks Bitcoin
2025-02-22 币安冷钱包遭攻击,约 40 万枚 ETH 被转出
"""
"""Days and lines, many beside a story of the sample in time or in words."""


def judged(text: str, at: datetime, search: OfflineSearch) -> Signal:
    model, journal = OfflineModel(), EmptyJournal()
    ports = Ports(
        models={"light": model, "heavy": model},
        search={"offline": search},
        scrape=OfflinePages(search.documents),
        recall=journal,
        earlier=journal,
        concerned=Simulated(),
        story=journal,
    )

    def perform(effect: Effect) -> Reply:
        return asyncio.run(ports.of(effect).perform(effect)).reply

    opening = opened(text, language="zh" if is_zh(text) else "en", at=at)
    signal: Signal = run_case(opening, perform, config=CONFIG, start=at).case.head.signal
    return signal


@pytest.fixture(scope="module")
def search() -> StorySearch:
    return StorySearch()


@pytest.mark.parametrize("line", OWN.strip().splitlines())
def test_pages_about_another_story_say_nothing_of_a_users_own_news(line: str, search: StorySearch) -> None:
    day, _, text = line.partition(" ")
    signal = judged(text, datetime.fromisoformat(day).replace(hour=14, tzinfo=UTC), search)
    assert signal.verdict in {"unconfirmed", "unchecked"}
    assert not signal.evidence


def test_the_sample_is_judged_by_the_same_pages_as_without_that_rule(search: StorySearch) -> None:
    every = OfflineSearch()
    for news in sample_news():
        assert judged(news.text, news.published_at, search) == judged(news.text, news.published_at, every), news.text


def test_a_line_of_the_sample_told_today_is_judged_as_it_was_then(search: StorySearch) -> None:
    # The example that `up` prints: an order on it is valid from now, and its pages are of these days.
    now = datetime(2026, 11, 26, 14, tzinfo=UTC)
    signal = judged("SEC approves 11 spot Bitcoin exchange-traded products", now, search)
    assert (signal.verdict, signal.action, signal.valid_until > now) == ("confirmed", "buy", True)
    dates = [e.published_at for e in signal.evidence if e.published_at is not None]
    assert dates and all(now - timedelta(days=30) < at <= now for at in dates)
    assert not {"expired", "old_news"} & set(signal.risk_flags)


def test_a_story_of_the_sample_is_found_in_other_words_on_its_day_alone(search: StorySearch) -> None:
    text = "Walmart announces partnership with Litecoin"
    assert judged(text, datetime(2021, 9, 13, 20, tzinfo=UTC), search).evidence
    assert not judged(text, datetime(2021, 10, 13, tzinfo=UTC), search).evidence
