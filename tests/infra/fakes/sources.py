"""Responses of news sources in their real wire formats with invented content, and sites that send them on loopback.

Formats of the product's own newsroom are in :mod:`infra.offline.newsroom.wire`.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from infra.kafka.topics import KafkaAddress, offsets_of, read_range
from infra.listeners.source import Source
from infra.offline.newsroom import wire
from infra.offline.newsroom.newsroom import Answer, SourceServer
from infra.offline.newsroom.wire import milliseconds, rss
from schemas.news import News, decode_news
from schemas.topics import Topics

NOON = datetime(2026, 3, 10, 12, tzinfo=UTC)
STORY = (
    "The exchange said on Tuesday that deposits and withdrawals of the token go on as usual after an audit of its reserves, "
    "which two firms have signed, and that its insurance fund grew by a tenth in the last quarter. "
)


class Report(wire.Report, frozen=True, kw_only=True):
    """An item with a text and a date unless a test says otherwise."""

    text: str = STORY
    at: datetime | None = NOON


def okx(*items: Report) -> Any:
    details = [{"annType": "x", "title": one.title, "url": one.link, "pTime": str(milliseconds(one))} for one in items]
    return {"code": "0", "msg": "", "data": [{"details": details, "totalPage": "1"}]}


def deribit(*items: Report) -> Any:
    result = [
        {
            "id": int(one.id),
            "title": one.title,
            "body": f"<p>{one.text}</p>",
            "publication_timestamp": milliseconds(one),
        }
        for one in items
    ]
    return {"jsonrpc": "2.0", "result": result, "usIn": 1, "usOut": 2}


def binance(*items: Report) -> Any:
    articles = [
        {"id": int(one.id), "code": "c" * 8, "title": one.title, "releaseDate": milliseconds(one)} for one in items
    ]
    return {"code": "000000", "data": {"catalogs": [{"catalogId": 48, "articles": articles}]}, "success": True}


def upbit(*items: Report) -> Any:
    notices = [
        {"id": int(one.id), "title": one.title, "first_listed_at": one.at and one.at.isoformat()} for one in items
    ]
    return {"success": True, "data": {"total_pages": 1, "notices": notices}}


def blockbeats(*items: Report) -> Any:
    data = [
        {
            "id": int(one.id),
            "title": one.title,
            "content": one.text,
            "create_time": str((milliseconds(one) or 0) // 1000),
        }
        for one in items
    ]
    return {"status": 0, "message": "", "data": {"page": 1, "data": data}}


def cryptopanic(*items: Report) -> Any:
    results = [
        {"id": int(one.id), "slug": "x", "title": one.title, "description": one.text, "kind": "news",
         "published_at": one.at and one.at.isoformat(), "original_url": one.link, "url": "https://cryptopanic.example/x"}
        for one in items
    ]  # fmt: skip
    return {"next": None, "previous": None, "results": results}


def treeofalpha(*items: Report) -> Any:
    return [
        {"_id": one.id, "source": "Blogs", "title": f"{one.title}\n{one.text}", "url": one.link, "time": milliseconds(one), "symbols": []}
        for one in items
    ]  # fmt: skip


def phoenix(one: Report) -> Any:
    return {
        "_id": one.id, "source": "Blogs", "sourceName": "Wire", "title": one.title, "body": one.text, "url": one.link, "time": milliseconds(one),
    }  # fmt: skip


def edgar(*items: Report) -> bytes:
    """Return the SEC's feed of current filings; each title is "form - company (CIK) (role)"."""
    written = "".join(
        f'<entry><title>{one.title}</title><link rel="alternate" type="text/html" href="{one.link}"/>'
        f'<summary type="html">&lt;b&gt;Filed:&lt;/b&gt; 2026-03-10 &lt;b&gt;AccNo:&lt;/b&gt; {one.id} &lt;b&gt;Size:&lt;/b&gt; 1 MB</summary>'
        f"<updated>{one.at.isoformat() if one.at else ''}</updated>"
        f'<category scheme="https://www.sec.gov/" label="form type" term="8-K"/><id>urn:tag:sec.gov,2008:accession-number={one.id}</id></entry>'
        for one in items
    )
    return (
        '<?xml version="1.0" encoding="ISO-8859-1" ?><feed xmlns="http://www.w3.org/2005/Atom"><title>Latest Filings</title>'
        f"{written}</feed>"
    ).encode()


class Newsroom(SourceServer):
    """Feeds by path, whose items a test changes, and ``answers`` for other paths."""

    def __init__(self, **feeds: list[Report]) -> None:
        super().__init__(self._told)
        self.feeds: Mapping[str, list[Report]] = feeds
        self.answers: Mapping[str, Answer] = {}

    def _told(self, path: str) -> Answer | None:
        if path not in self.feeds:
            return self.answers.get(path)
        return Answer(body=rss(*self.feeds[path]), content_type="application/rss+xml")

    def source(self, name: str, **more: Any) -> Source:
        """Return the row of a feed of this site."""
        row = {
            "id": name,
            "kind": "feed",
            "url": f"{self.url}/{name}",
            "private": True,
            "robots": False,
            "default": True,
        }
        return Source(**(row | more))


def recent(number: int, *, id: str = "", age_s: float = 60.0) -> Report:
    """Return an item from a minute ago."""
    return Report(
        id=id or f"n{number}", title=f"Event {number} of many", at=datetime.now(UTC) - timedelta(seconds=age_s)
    )


async def news_in(address: KafkaAddress, topics: Topics) -> list[News]:
    """Return all records of ``news``."""
    found: list[News] = []
    async for _, records in read_range(address, await offsets_of(address, topics.news)):
        found += [decode_news(one.value, now=datetime.now(UTC)) for one in records]
    return found
