"""Who and what a name, a host, an account or a ticker stands for."""

from __future__ import annotations

import pytest

from agents.tables import load_tables, ranked_assets
from agents.tables.directory import Directory
from schemas.config import Tables

TABLES = load_tables(demo=False)
LOOK = Directory(TABLES)


def test_an_address_is_the_word_of_its_account_its_registrant_or_its_host() -> None:
    expected: dict[str, tuple[str | None, list[str]]] = {
        "https://twitter.com/Binance/status/1": ("x.com/binance", ["Binance"]),
        "https://x.com/somebody/status/1": ("x.com/somebody", []),
        "https://x.com/i/status/3": ("x.com", []),
        "https://harmony-one.medium.com/post": ("medium.com/harmony-one", ["Harmony"]),
        "https://medium.com/@harmony-one/post": ("medium.com/harmony-one", ["Harmony"]),
        "https://zksync.mirror.xyz/abc": ("mirror.xyz/zksync", ["zkSync"]),
        "https://github.com/bitcoin/bitcoin/releases/tag/v29": ("github.com/bitcoin", ["Bitcoin Core"]),
        "https://github.com/bitcoin/bitcoin/issues/1": ("github.com/bitcoin", []),
        "https://t.me/s/toncoin": ("t.me/toncoin", ["TON"]),
        "https://www.youtube.com/@somebody/videos": ("youtube.com/somebody", []),
        "https://www.youtube.com/watch?v=1": ("youtube.com", []),
        "https://mp.weixin.qq.com/s?__biz=MzA&mid=1": ("mp.weixin.qq.com/mza", []),
        "https://www.zhihu.com/people/abc": ("zhihu.com/abc", []),
        "https://weibo.com/u/123": ("weibo.com/123", []),
        "https://somebody.substack.com/p/post": ("substack.com/somebody", []),
        "https://www.binance.com/en/support": (None, ["Binance"]),
        "https://status.coinbase.com/incident": (None, ["Coinbase"]),
        "https://www.sec.gov/Archives/edgar/data/1679788/0001/8k.htm": (None, ["Coinbase"]),
        "https://www.sec.gov/Archives/edgar/data/1/0001/8k.htm": (None, []),
        "https://www.sec.gov/newsroom/press": (None, ["US Securities and Exchange Commission"]),
        "https://binance.com.evil.example/": (None, []),
        "http://[broken": (None, []),
    }
    assert {url: (LOOK.account_of(url), [e.name for e in LOOK.speakers_of(url)]) for url in expected} == expected


def test_a_ticker_counts_in_capitals_and_one_that_is_a_word_only_where_it_is_marked() -> None:
    expected = {
        "Binance lists PEPE and HYPE": ["PEPE", "HYPE"],
        "Bridge to link one near the flow of GAS": [],
        "LINK UP 5% AS ONE NEAR SUN": [],
        "$link gains, ONE 代币 and (NEAR) too, FLOW/USDT opens": ["LINK", "ONE", "NEAR", "FLOW", "USDT"],
        "比特币现金与以太坊经典": ["BCH", "ETC"],
        "以太坊网络拥堵,索拉纳宕机": ["ETH", "SOL"],
        "the solana network and an avalanche of orders": ["SOL"],
        "DOT fined an airline, people are NOT safe": [],
        "Flow outage": ["FLOW"],
        "btc eth": [],
        "價格:比特幣": ["BTC"],
        "pepekind PEPEX": [],
    }
    assert {text: [a.ticker for a in LOOK.assets_in(text)] for text in expected} == expected


def test_a_field_of_one_asset_is_read_in_any_spelling() -> None:
    for word in ("BTC", "btc", "$BTC", "Bitcoin", "bitcoin", "比特币", "比特幣", "XBT"):
        found = LOOK.asset_of(word)
        assert found is not None and found.ticker == "BTC", word
    assert LOOK.asset_of("UNKNOWN") is None


def test_an_asset_leads_to_who_is_behind_it() -> None:
    assert [e.name for e in LOOK.issuers_of("PYUSD")] == ["Paxos", "PayPal"]
    assert [e.name for e in LOOK.issuers_of("eth")] == ["Ethereum Foundation"]
    assert LOOK.issuers_of("NOSUCH") == ()


def test_a_citation_leads_to_the_domain_of_the_medium() -> None:
    expected = {
        "CoinDesk": "coindesk.com",
        "coindesk": "coindesk.com",
        "according to CoinDesk": "coindesk.com",
        "据吴说报道": "wublock123.com",
        "Wu Blockchain (吴说)": "wublock123.com",
        "路透社": "reuters.com",
        "彭博援引知情人士": "bloomberg.com",
        "The Block": "theblock.co",
        "PANews": "panewslab.com",
        "first reported by the Wall Street Journal": "wsj.com",
        "in the block of transactions": None,
        "to decrypt a wallet": None,
        "a spokesperson": None,
        "今日经济数据": None,
        "募集资金十亿": None,
        "声明报道不实": None,
        "据金十报道": "jin10.com",
    }
    assert {cited: found.domain if (found := LOOK.outlet_of(cited)) else None for cited in expected} == expected


def test_a_press_wire_is_known_by_its_host_and_has_no_credibility() -> None:
    wire = LOOK.outlet_of_host("www.prnewswire.com")
    assert wire is not None and wire.wire
    assert {o.domain for o in TABLES.outlets if o.wire}.isdisjoint(h for v in TABLES.credibility.values() for h in v)
    medium = LOOK.outlet_of_host("www.coindesk.com")
    assert medium is not None and not medium.wire


def test_the_assets_are_the_first_200_of_a_dated_extract_and_what_is_kept_by_hand() -> None:
    ranked = ranked_assets()
    assert len(ranked.rows) == 200 and ranked.licence == "MIT" and ranked.taken
    assert {a.ticker for a in ranked.rows} < {a.ticker for a in TABLES.assets}
    assert {"HYPE", "POL", "USDE", "WLD"} <= {a.ticker for a in TABLES.assets}
    assert LOOK.asset_of("POL") != LOOK.asset_of("MATIC")


@pytest.mark.slow
def test_every_venue_of_ccxt_belongs_to_one_entity_with_the_domain_of_its_site() -> None:
    import ccxt  # half a second in every test process

    claimed = {i: e for e in TABLES.entities for i in e.ccxt}
    assert set(claimed) == set(ccxt.exchanges)
    for venue, entity in claimed.items():
        site = getattr(ccxt, venue)().urls["www"]
        assert entity in LOOK.entities_of_host(site.split("/")[2]), venue


def test_empty_tables_find_nothing() -> None:
    look = Directory(Tables())
    assert look.assets_in("BTC $BTC Bitcoin") == ()
    assert look.outlet_of("CoinDesk") is None
    assert look.speakers_of("https://x.com/binance") == ()
