"""Registrable domains, and the vectors of imitated hosts."""

from __future__ import annotations

import pytest

from agents.evidence.compiled import compiled
from agents.tables import load_tables
from agents.text.hosts import canonical_url, host_of, registrable_domain

TABLES = load_tables(demo=True)
KNOWN = compiled(TABLES).imitations


def test_the_registrable_domain_is_the_suffix_lists_or_the_last_two_labels() -> None:
    expected = {
        "www.sec.gov": "sec.gov",
        "asamblea.gob.sv": "asamblea.gob.sv",
        "www.pbc.gov.cn": "pbc.gov.cn",
        "blog.google": "blog.google",
        "a.b.coinone.co.kr": "coinone.co.kr",
        "blog.orbit.example": "orbit.example",
        "www.sec.gov.filings-approval.example": "filings-approval.example",
        "x.y.test": "y.test",
        "localhost": "localhost",
        "127.0.0.1": "127.0.0.1",
    }
    assert {host: registrable_domain(host) for host in expected} == expected


def test_hosts_that_imitate_an_official_one_are_found() -> None:
    hosts = [
        "xn--binnce-5nf.com", "binаnce.com", "xn--krken-5ve.example", "tеther.to", "xn--sc-nlc.gov.example",
        "b1nance.com", "c0inbase.com", "binance.corn", "vvormhole.com", "binance.com.evil.example",
        "binance.com-support.example", "tether.to.example", "sec.gov-approval.example", "sec.g0v.example",
        "sec-gov.org", "secgov.com", "www.sec.gov@evil.example", "binnance.com", "bianance.com", "coinbaes.com",
        "binance-announcement.com", "kraken-official.io", "wwwbinance.com", "coinbase.co.listing.example",
        "coinbase.listings.app", "sec.gov-filings.example", "binance.com.evil.io", "www.bіnance.com",
        "kraken.com@evil.example",
    ]  # fmt: skip
    assert [
        host for host in hosts if not KNOWN.imitates(f"https://{host}/x", {"binance", "coinbase", "kraken", "sec"})
    ] == []


def test_honest_hosts_are_left_alone() -> None:
    hosts = [
        "www.binance.com", "announcements.bybit.com", "binance.example", "corporate.walmart.example", "coindesk.com",
        "cryptonewsz.example", "blog.zed.example", "circles.com", "münchen.de", "币安资讯.example", "curvefever.io",
        "sectornews.example", "marketdesk.example", "10.0.0.1", "",
    ]  # fmt: skip
    assert [
        host for host in hosts if KNOWN.imitates(f"https://{host}/x", {"binance", "coinbase", "kraken", "sec"})
    ] == []


def test_a_partys_name_beside_the_claimed_ticker_or_a_product_is_no_honest_host() -> None:
    assert KNOWN.imitates("https://www.kraken-lum.example/x", {"kraken"}, "LUM")
    assert not KNOWN.imitates("https://www.kraken-lum.example/x", {"kraken"}, "PEPE")
    assert not KNOWN.imitates("https://www.lum-fans.example/x", {"kraken"}, "LUM")
    assert KNOWN.imitates("https://kraken-perps.example/x", {"kraken"})


def test_no_official_domain_imitates_another() -> None:
    brands = {d.split(".")[0] for e in TABLES.entities for d in e.domains}
    found = [d for e in TABLES.entities for d in e.domains if KNOWN.imitates(f"https://www.{d}/", brands)]
    assert found == []


def test_two_addresses_of_one_page_are_one() -> None:
    rows = [
        ("https://www.x.example/a/?utm_source=t&b=1", "http://x.example/a?b=1#top"),
        ("https://m.x.example/a/amp", "https://x.example/a"),
        ("https://x.example/?b=2&a=1", "https://x.example?a=1&b=2"),
    ]
    assert [(a, b) for a, b in rows if canonical_url(a) != canonical_url(b)] == []


@pytest.mark.parametrize("url", ["", "http://[::1", "not a url", "https://", "javascript:alert(1)"])
def test_broken_addresses_have_a_host_or_none_but_never_raise(url: str) -> None:
    assert host_of(url) == host_of(url).lower()
    assert canonical_url(url) == canonical_url(url)
    assert not KNOWN.imitates(url, {"binance"})
