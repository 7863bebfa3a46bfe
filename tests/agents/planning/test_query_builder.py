"""Queries: concrete, per provider, never filler, never too long."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.evidence import Claim
from agents.planning.query_builder import build_query, fallback_query, fit_query
from agents.tables import load_tables
from tests import builders

TABLES = load_tables(demo=False)
FILLER = ("新闻", "消息", "报道", "news", "report", "breaking")


def query(text: str, event_type: str, asset: str, provider: str = "tavily", language: str = "") -> str:
    language = language or ("zh" if any("\u4e00" <= c <= "\u9fff" for c in text) else "en")
    claim = Claim(
        text=text, language=language, event_type=event_type, asset=asset, as_of=datetime(2024, 6, 3, tzinfo=UTC)
    )  # fmt: skip
    return build_query(claim, provider=provider, tables=TABLES)


@pytest.mark.parametrize(
    ("text", "event_type", "asset", "words"),
    [
        ("XXX protocol suffers flash loan attack, $50M lost", "hack", "XXX", ("XXX", "$50M", "flash loan", "exploit", "official")),
        ("SEC approves spot Bitcoin ETF", "regulation", "BTC", ("SEC", "Bitcoin", "ETF", "approval", "official statement")),
        ("Circle 确认约 33 亿美元 USDC 储备存放于硅谷银行", "depeg", "USDC", ("Circle", "USDC", "33 亿美元", "脱锚", "depeg")),
        ("美国 SEC 起诉交易所 Falcon", "regulation", "FAL", ("SEC", "Falcon", "起诉", "官方声明", "official statement")),
        ("Walmart partners with Litecoin", "partnership", "LTC", ("Walmart", "Litecoin", "partnership", "official")),
    ],
)  # fmt: skip
def test_a_query_names_who_what_and_how_much(text: str, event_type: str, asset: str, words: tuple[str, ...]) -> None:
    made = query(text, event_type, asset)
    assert [w for w in words if w.lower() not in made.lower()] == []


def test_providers_get_words_of_their_own_language_and_kind_besides_names() -> None:
    made = query("某交易所遭黑客攻击,损失超过 1 亿美元", "hack", "ETH", "bocha")
    assert "黑客攻击" in made and "官方公告" in made
    assert "exploit" not in made and "official" not in made
    assert query("Kraken adds token LUM", "listing", "LUM").isascii()
    made = query("某协议遭闪电贷攻击", "hack", "ETH", "arxiv")
    assert "smart contract vulnerability" in made
    assert made.isascii()


@pytest.mark.parametrize(
    ("text", "event_type", "asset", "begins"),
    [
        ("币安将上线 PEPE", "listing", "PEPE", "Binance "),
        ("美国证监会批准比特币现货 ETF", "regulation", "BTC", "SEC "),
        ("Silicon Valley Bank fails, Circle holds reserves there", "depeg", "USDC", '"Silicon Valley Bank" Circle '),
    ],
)
def test_gdelt_gets_the_english_name_first_and_nothing_that_any_statement_says(
    text: str, event_type: str, asset: str, begins: str
) -> None:
    made = query(text, event_type, asset, "gdelt")
    assert made.startswith(begins), made
    assert not {"official", "statement", "announcement", "官方声明"} & set(made.split())
    claim = Claim(text=text, language="zh", event_type=event_type, asset=asset, as_of=datetime(2024, 6, 3, tzinfo=UTC))
    fitted = fit_query("reserves official statement 官方声明", claim, provider="gdelt", tables=TABLES)
    assert fitted.startswith(begins) and fitted.endswith("reserves 官方声明")


@pytest.mark.parametrize("provider", ["tavily", "bocha", "ragflow", "arxiv", "gdelt", "offline"])
@settings(max_examples=40, deadline=None)
@given(text=st.text(min_size=1, max_size=3000), event=st.sampled_from(["hack", "listing", "other", "strange"]))
def test_any_text_gives_a_short_query_without_filler(provider: str, text: str, event: str) -> None:
    made = query(text, event, "BTC", provider, "zh")
    assert len(made) <= 400
    assert "BTC" in made
    words = {w.lower() for w in made.split()}
    assert words.isdisjoint(FILLER)


def test_filler_words_of_the_news_never_reach_the_query() -> None:
    made = query("BREAKING news report: 最新消息, 据报道 Kraken 上线 LUM 的新闻", "listing", "LUM")
    assert not any(f in made.lower() for f in FILLER)
    assert "Kraken" in made


def test_the_fallback_is_asset_and_event() -> None:
    rows = [("hack", " news official"), ("regulation", " news official"), ("whale", "")]
    assert [
        (event, tail)
        for event, tail in rows
        if fallback_query(builders.draft(event_type=event, asset="BTC")) != f"BTC {event}{tail}"
    ] == []
