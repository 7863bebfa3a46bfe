"""Where the sources of an answer lead: pages of ours for figures, and for signals what can be linked to without harm."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from agents.analysis.pages import MAX_CHARACTERS, PAGES, linkable, page_of
from agents.research.citations import sources_of
from infra.market.economy import ECONOMY
from infra.offline.market import SOURCE
from schemas.research_events import DataCollected
from tests.agents.research.conftest import found_signal, value


def test_a_source_of_figures_leads_to_the_page_where_a_person_finds_them(
    collected: Callable[..., DataCollected],
) -> None:
    data = collected(
        asset="SOL",
        price=(value("price", 170.5, "USD", "coinbase"),),
        macro=tuple(value(name, 4.0, "%", f"fred {series.id}") for name, series in ECONOMY.items()),
        fear_greed=(value("fear_greed_index", 22.0, "0-100", "alternative.me"),),
        onchain=(value("mvrv", 1.9, "ratio", "somebody new"),),
        indicators=(value("rsi_14", 55.0, "0-100", "computed from binance"),),
        signals=(),
    )
    led = {source.title: source.url for source in sources_of(data)}
    assert led == {
        "coinbase": "https://www.coinbase.com/advanced-trade/spot/SOL-USD",
        "fred DFF": "https://fred.stlouisfed.org/series/DFF",
        "fred DGS10": "https://fred.stlouisfed.org/series/DGS10",
        "fred DTWEXBGS": "https://fred.stlouisfed.org/series/DTWEXBGS",
        "fred M2SL": "https://fred.stlouisfed.org/series/M2SL",
        "alternative.me": "https://alternative.me/crypto/fear-and-greed-index/",
        "somebody new": None,
        "computed from binance": "https://www.binance.com/en/trade/SOL_USDT",
    }


@pytest.mark.parametrize("asset", ["", "btc", "BTC/USD", "../x", "B" * 16, "BTC\n"])
def test_an_asset_that_is_no_ticker_enters_no_address(asset: str) -> None:
    assert page_of("coinbase", asset) is None and page_of("binance", asset) is None
    assert page_of("defillama", asset) == PAGES["defillama"]


def test_every_page_of_the_table_can_be_linked_to_and_invented_figures_have_none() -> None:
    assert all(linkable(str(page_of(source, "BTC"))) for source in PAGES)
    assert all(page.startswith("https://") for page in PAGES.values())
    assert page_of(SOURCE, "BTC") is None


@pytest.mark.parametrize(
    "url",
    [
        "javascript:alert(1)",
        "JaVaScRiPt://sec.gov/%0aalert(1)",
        "data:text/html,<script>",
        "file:///etc/passwd",
        "ftp://files.example/a",
        "//evil.example/a",
        "evil.example/a",
        "https://",
        "https:///a",
        "https://sec.gov@evil.example/a",
        "https://user:pass@sec.gov/a",
        "https://sec.gov\\@evil.example",
        "https://sec.gov:port/",
        "https://[::1",
        "https://s\u0435c.gov/a",
        "https://sec.gov/\u202egpj.exe",
        "https://sec.gov/a b",
        "https://sec.gov/\n",
        'https://sec.gov/"onload="x',
        "https://sec.gov/<svg>",
        "https://sec.gov/" + "a" * MAX_CHARACTERS,
        "",
    ],
)
def test_an_address_that_misleads_or_does_something_is_no_link(
    url: str, collected: Callable[..., DataCollected]
) -> None:
    good = "https://www.sec.gov/news/press-release/2024-90?utm=%E4%B8%AD#top"
    data = collected(
        signals=(found_signal(1, sources=(url, good, "https://later.example/")), found_signal(2, sources=(url,)))
    )
    first, second, *_ = sources_of(data)
    assert (first.url, second.url) == (good, None)
    assert (first.kind, first.case_id) == ("signal", "case-1"), "the case stays beside it"
