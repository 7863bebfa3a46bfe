"""Who stands behind an address: the domain, the account on a platform, the registrant of a filing."""

from __future__ import annotations

from agents.evidence.owners import owner_of
from agents.tables import load_tables
from agents.tables.directory import Directory

TABLES = Directory(load_tables(demo=False))


def test_the_owner_is_the_domain_or_the_account_on_a_platform() -> None:
    expected = {
        "https://www.coindesk.com/markets/a": "coindesk.com",
        "https://blog.kraken.com/news/a": "kraken.com",
        "https://www.gov.uk/a": "www.gov.uk",
        "https://news.bbc.co.uk/a": "bbc.co.uk",
        "https://x.com/krakenfx/status/1": "x.com/krakenfx",
        "https://twitter.com/KrakenFX/status/1": "x.com/krakenfx",
        "https://mobile.twitter.com/krakenfx": "x.com/krakenfx",
        "https://mirror.xyz/kraken.eth/post": "mirror.xyz/kraken",
        "https://ethereum.github.io/specs": "github.com/ethereum",
        "https://t.me/binance_announcements/12": "t.me/binance_announcements",
        "https://www.youtube.com/channel/UC1/videos": "youtube.com/uc1",
        "https://www.youtube.com/c/kraken": "youtube.com/kraken",
        "https://www.reddit.com/r/ethereum/comments/1": "reddit.com/ethereum",
        "https://www.linkedin.com/company/kraken/posts": "linkedin.com/kraken",
        "https://m.weibo.cn/u/123": "weibo.com/123",
        "https://weibo.com/123/Abc": "weibo.com/123",
        "https://x.com/CoinDesk/status/1": "coindesk.com",
        "https://t.me/s/wublockchainenglish/9": "wublock123.com",
        "https://x.com/coindesk_markets_/status/1": "x.com/coindesk_markets_",
        "https://x.com/": "x.com",
        "": "",
        "http://[::1": "",
    }
    assert {url: owner_of(url, TABLES) for url in expected} == expected


def test_a_wechat_account_is_known_by_its_number_in_the_address() -> None:
    first = "https://mp.weixin.qq.com/s?__biz=MzA3&mid=1&idx=1"
    assert owner_of(first, TABLES) == owner_of("http://mp.weixin.qq.com/s?mid=2&__biz=MzA3", TABLES)
    assert owner_of(first, TABLES) == "mp.weixin.qq.com/mza3"
    assert owner_of("https://mp.weixin.qq.com/s?__biz=MzB9&mid=1", TABLES) != owner_of(first, TABLES)
    assert owner_of("https://news.qq.com/s?__biz=MzA3", TABLES) == "qq.com"
    assert owner_of("https://mp.weixin.notqq.com/s?__biz=MzA3", TABLES) == "notqq.com"


def test_filings_of_two_registrants_have_two_owners_and_neither_is_the_commission() -> None:
    data = "https://www.sec.gov/Archives/edgar/data"
    owners = [owner_of(u, TABLES) for u in (f"{data}/1/a.htm", f"{data}/0001/b.htm", f"{data}/2/a.htm")]
    assert owners == ["sec.gov/1", "sec.gov/1", "sec.gov/2"]
    assert owner_of("https://www.sec.gov/newsroom/1", TABLES) == "sec.gov"


def test_an_outlet_is_one_in_every_script_that_it_is_cited_in() -> None:
    for names in (("Nikkei", "日経新聞", "日本経済新聞"), ("CoinDesk Korea", "코인데스크코리아")):
        outlets = [TABLES.outlet_of(n) for n in names]
        assert len({o.domain for o in outlets if o is not None}) == 1 and None not in outlets
