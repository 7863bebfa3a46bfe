"""What sources of news send, in their true wire shapes with invented content, and sites that send it on loopback."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import msgspec

from infra.kafka.topics import KafkaAddress, offsets_of, read_range
from infra.listeners.source import Source
from schemas.news import News, decode_news
from schemas.topics import Topics
from tests.infra.fakes.server import Behaviour, Received, Say
from tests.infra.fakes.site import Site

NOON = datetime(2026, 3, 10, 12, tzinfo=UTC)
STORY = (
    "The exchange said on Tuesday that deposits and withdrawals of the token go on as usual after an audit of its reserves, "
    "which two firms have signed, and that its insurance fund grew by a tenth in the last quarter. "
)


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """One item as a fake source tells it; empty and None: it does not say."""

    id: str = ""
    title: str = ""
    text: str = STORY
    link: str = ""
    at: datetime | None = NOON


def rss(*items: Told, built: str = "") -> bytes:
    """Return a feed as WordPress writes it. ``built`` is its lastBuildDate."""
    written = "".join(
        f"<item><title><![CDATA[{one.title}]]></title>"
        + (f"<link>{one.link}</link>" if one.link else "")
        + (f'<guid isPermaLink="false">{one.id}</guid>' if one.id else "")
        + (f"<pubDate>{format_datetime(one.at)}</pubDate>" if one.at else "")
        + f"<description><![CDATA[<p>{one.text}</p>]]></description></item>"
        for one in items
    )
    head = f"<title>Fake</title><lastBuildDate>{built}</lastBuildDate>"
    return f'<?xml version="1.0" encoding="UTF-8"?><rss version="2.0"><channel>{head}{written}</channel></rss>'.encode()


def atom(*items: Told) -> bytes:
    """Return a feed as GitHub writes it of releases: entries have no publication date, only an update."""
    written = "".join(
        f"<entry><id>tag:github.com,2008:{one.id}</id><title>{one.title}</title>"
        f'<link rel="alternate" href="{one.link}"/><updated>{one.at.isoformat() if one.at else ""}</updated>'
        f'<content type="html">&lt;p&gt;{one.text}&lt;/p&gt;</content></entry>'
        for one in items
    )
    return f'<feed xmlns="http://www.w3.org/2005/Atom"><id>x</id><title>Release notes</title>{written}</feed>'.encode()


def telegram(*items: Told) -> bytes:
    """Return the public preview of a channel."""
    written = "".join(
        f'<div class="tgme_widget_message_wrap"><div class="tgme_widget_message" data-post="{one.id}">'
        f'<div class="tgme_widget_message_text" dir="auto">{one.title}<br/><br/>{one.text}</div>'
        f'<a class="tgme_widget_message_date"><time datetime="{one.at.isoformat() if one.at else ""}">12:00</time></a></div></div>'
        for one in items
    )
    return f'<!DOCTYPE html><html><body><main class="tgme_main">{written}</main></body></html>'.encode()


def _ms(one: Told) -> int | None:
    return None if one.at is None else int(one.at.timestamp() * 1000)


def okx(*items: Told) -> Any:
    details = [{"annType": "x", "title": one.title, "url": one.link, "pTime": str(_ms(one))} for one in items]
    return {"code": "0", "msg": "", "data": [{"details": details, "totalPage": "1"}]}


def bybit(*items: Told) -> Any:
    listed = [
        {
            "title": one.title,
            "description": one.text,
            "type": {"key": "new_crypto"},
            "url": one.link,
            "publishTime": _ms(one),
        }
        for one in items
    ]
    return {"retCode": 0, "retMsg": "OK", "result": {"total": 1, "list": listed}}


def deribit(*items: Told) -> Any:
    result = [
        {"id": int(one.id), "title": one.title, "body": f"<p>{one.text}</p>", "publication_timestamp": _ms(one)}
        for one in items
    ]
    return {"jsonrpc": "2.0", "result": result, "usIn": 1, "usOut": 2}


def statuspage(*items: Told) -> Any:
    return {
        "page": {"id": "x"},
        "incidents": [
            {
                "id": one.id,
                "name": one.title,
                "shortlink": one.link,
                "incident_updates": [
                    {
                        "id": "u1",
                        "status": "investigating",
                        "body": one.text,
                        "display_at": one.at and one.at.isoformat(),
                    }
                ],
            }
            for one in items
        ],
    }


def binance(*items: Told) -> Any:
    articles = [{"id": int(one.id), "code": "c" * 8, "title": one.title, "releaseDate": _ms(one)} for one in items]
    return {"code": "000000", "data": {"catalogs": [{"catalogId": 48, "articles": articles}]}, "success": True}


def upbit(*items: Told) -> Any:
    notices = [
        {"id": int(one.id), "title": one.title, "first_listed_at": one.at and one.at.isoformat()} for one in items
    ]
    return {"success": True, "data": {"total_pages": 1, "notices": notices}}


def blockbeats(*items: Told) -> Any:
    data = [
        {"id": int(one.id), "title": one.title, "content": one.text, "create_time": str((_ms(one) or 0) // 1000)}
        for one in items
    ]
    return {"status": 0, "message": "", "data": {"page": 1, "data": data}}


def cryptopanic(*items: Told) -> Any:
    results = [
        {"id": int(one.id), "slug": "x", "title": one.title, "description": one.text, "kind": "news",
         "published_at": one.at and one.at.isoformat(), "original_url": one.link, "url": "https://cryptopanic.example/x"}
        for one in items
    ]  # fmt: skip
    return {"next": None, "previous": None, "results": results}


def treeofalpha(*items: Told) -> Any:
    return [
        {"_id": one.id, "source": "Blogs", "title": f"{one.title}\n{one.text}", "url": one.link, "time": _ms(one), "symbols": []}
        for one in items
    ]  # fmt: skip


def phoenix(one: Told) -> Any:
    return {
        "_id": one.id, "source": "Blogs", "sourceName": "Wire", "title": one.title, "body": one.text, "url": one.link, "time": _ms(one),
    }  # fmt: skip


def edgar(*items: Told) -> bytes:
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


def bwenews(one: Told) -> Any:
    return {
        "source_name": "Binance EN", "news_title": one.title, "coins_included": ["ZK"], "url": one.link,
        "timestamp": (_ms(one) or 0) // 1000,
    }  # fmt: skip


class Newsroom(Site):
    """Feeds by path, whose items a test changes. Each answers with an ETag, and 304 where that comes back."""

    def __init__(self, **feeds: list[Told]) -> None:
        super().__init__({})
        self.feeds: Mapping[str, list[Told]] = feeds

    def _chosen(self, request: Received) -> Behaviour:
        name = request.path.strip("/")
        if name not in self.feeds:
            return super()._chosen(request)
        body = rss(*self.feeds[name])
        tag = f'"{hash(body):x}"'
        if request.headers.get("if-none-match") == tag:
            return Say(b"", status=304)
        return Say(body, headers={"content-type": "application/rss+xml", "etag": tag})

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


def recent(number: int, *, id: str = "", age_s: float = 60.0) -> Told:
    """Return an item of a minute ago."""
    return Told(id=id or f"n{number}", title=f"Event {number} of many", at=datetime.now(UTC) - timedelta(seconds=age_s))


async def news_in(address: KafkaAddress, topics: Topics) -> list[News]:
    """Return all records of ``news``."""
    found: list[News] = []
    async for _, records in read_range(address, await offsets_of(address, topics.news)):
        found += [decode_news(one.value, now=datetime.now(UTC)) for one in records]
    return found
