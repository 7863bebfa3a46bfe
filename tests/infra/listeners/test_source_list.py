"""The list of sources, and the operator's own file over it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from infra.listeners.failures import NotReadError
from infra.listeners.markets import Markets, changes
from infra.listeners.source import Source, chosen, missing, sources_of
from schemas.errors import ConfigError
from tests.infra.fakes.server import FakeServer, Say


def own(path: Path, text: str) -> Path:
    path.write_text(text, "utf-8")
    return path


def test_what_ships_is_on_only_where_it_needs_no_key_and_says_where_its_shape_is_from() -> None:
    listed = sources_of(None)
    assert all(one.evidence in ("doc", "code") for one in listed.values())
    assert not any(one.headers.get("authorization") or one.private for one in listed.values())
    assert {one.kind for one in chosen(listed)} == {"feed", "json", "socket", "markets"}
    assert missing(listed["sec-press"], "", ()) and not missing(listed["sec-press"], "ops@example.com", ())
    assert not any(one.key or one.kind == "telegram" for one in chosen(listed))


def test_four_lines_add_a_feed_and_rows_of_a_known_id_change_it(tmp_path: Path) -> None:
    row = '[[source]]\nid = "my-feed"\nkind = "feed"\nurl = "https://example.com/feed"\n'
    mute = '[[source]]\nid = "decrypt"\nmuted = true\n[[source]]\nid = "binance-news"\ndefault = true\n'
    listed = sources_of(own(tmp_path / "s.toml", row + mute))
    on = {one.id for one in chosen(listed)}
    assert "my-feed" in on and "decrypt" not in on and "binance-news" in on
    assert listed["decrypt"].url == sources_of(None)["decrypt"].url
    assert [one.id for one in chosen(listed, ["decrypt"])] == ["decrypt"]
    assert sources_of(tmp_path / "none.toml").keys() == sources_of(None).keys()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[[source]]\nid = 'a b'\nkind = 'feed'\nurl = 'https://x'", "source 1 of"),
        ("[[source]]\nid = 'a'\nkind = 'rss'\nurl = 'https://x'", "rss"),
        ("[[source]]\nid = 'a'\nkind = 'feed'\nurl = 'ftp://x'", "must begin with https"),
        ("[[source]]\nid = 'a'\nkind = 'json'\nurl = 'https://x'", "title or text"),
        ("[[source]]\nid = 'a'\nkind = 'feed'\nurl = 'https://x'\ntimezone = 'Mars'", "timezone"),
        ("[[source]]\nid = 'a'\nkind = 'feed'\nurl = 'https://x'\nstrip = ['(']", "is wrong"),
        ("[[source]]\nid = 'a'\nkind = 'feed'\nurl = 'https://x'\nevery = 3", "every"),
        ("source = 3", "is not a list of sources"),
        ("[[", "is not a list of sources"),
    ],
)
def test_a_row_that_is_wrong_is_named_with_what_is_wrong(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(ConfigError, match="LISTENER_SOURCES") as refused:
        sources_of(own(tmp_path / "s.toml", text))
    assert says in str(refused.value)
    with pytest.raises(ConfigError, match="no source nowhere"):
        chosen(sources_of(None), ["nowhere"])


async def test_the_markets_of_an_exchange_are_read_through_ccxt_and_its_failures_are_said() -> None:
    def listed(symbol: str, status: str) -> dict[str, Any]:
        return {
            "symbol": f"{symbol}USDT",
            "status": status,
            "baseAsset": symbol,
            "quoteAsset": "USDT",
            "filters": [],
            "isSpotTradingAllowed": True,
        }

    info = Say({"symbols": [listed("ZK", "TRADING"), listed("OLD", "BREAK")]})
    async with FakeServer(info, Say(b"<html>", status=503)) as server:
        markets = Markets(Source(id="v", kind="markets", url="binance"), base_url=server.url)
        assert await markets.look() == {"ZK/USDT": True, "OLD/USDT": False}
        with pytest.raises(NotReadError):
            await markets.look()
    with pytest.raises(NotReadError, match="ccxt knows no exchange"):
        await Markets(Source(id="v", kind="markets", url="nowhere")).look()


def test_a_list_of_markets_gives_news_of_what_changed_and_a_broken_answer_none() -> None:
    venue = Source(id="v", kind="markets", url="kraken", group="kraken")
    symbols = {f"C{n}/USD": True for n in range(10)}
    states, items = changes(venue, {}, symbols)
    assert items == ()
    states, items = changes(venue, states, symbols | {"ZK/USD": True, "C1/USD": False})
    assert [one.title for one in items] == ["Kraken halts trading of C1/USD", "Kraken lists ZK/USD"]
    assert changes(venue, states, symbols | {"ZK/USD": True, "C1/USD": False}) == (states, ())
    resumed, items = changes(venue, states, symbols)
    assert [one.title for one in items] == ["Kraken resumes trading of C1/USD", "Kraken delists ZK/USD"]
    halted, again = changes(venue, resumed, symbols | {"C1/USD": False})
    ids = {one.external_id for one in (*items, *again)}
    assert ids == {"kraken:C1/USD:trades:3", "kraken:ZK/USD:gone:2", "kraken:C1/USD:halted:4"}
    with pytest.raises(NotReadError, match="far fewer markets"):
        changes(venue, halted, {"C1/USD": True})
