"""What sources of news send, in their true wire shapes (docs/sources.md says where each is known from)."""

from __future__ import annotations

from datetime import datetime
from email.utils import format_datetime
from html import escape
from typing import Any

import msgspec


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """One item as a source tells it; empty and None: it does not say."""

    id: str = ""
    title: str = ""
    text: str = ""
    link: str = ""
    at: datetime | None = None


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
    head = f"<title>Local</title><lastBuildDate>{built}</lastBuildDate>"
    return f'<?xml version="1.0" encoding="UTF-8"?><rss version="2.0"><channel>{head}{written}</channel></rss>'.encode()


def atom(*items: Told) -> bytes:
    """Return a feed as GitHub writes it of releases: entries have no publication date, only an update."""
    written = "".join(
        f"<entry><id>tag:github.com,2008:{one.id}</id><title>{escape(one.title)}</title>"
        f'<link rel="alternate" href="{one.link}"/><updated>{one.at.isoformat() if one.at else ""}</updated>'
        f'<content type="html">&lt;p&gt;{escape(one.text)}&lt;/p&gt;</content></entry>'
        for one in items
    )
    return f'<feed xmlns="http://www.w3.org/2005/Atom"><id>x</id><title>Release notes</title>{written}</feed>'.encode()


def telegram(*items: Told) -> bytes:
    """Return the public preview of a channel."""
    written = "".join(
        f'<div class="tgme_widget_message_wrap"><div class="tgme_widget_message" data-post="{one.id}">'
        f'<div class="tgme_widget_message_text" dir="auto">{escape(one.title)}<br/><br/>{escape(one.text)}</div>'
        f'<a class="tgme_widget_message_date"><time datetime="{one.at.isoformat() if one.at else ""}">12:00</time></a></div></div>'
        for one in items
    )
    return f'<!DOCTYPE html><html><body><main class="tgme_main">{written}</main></body></html>'.encode()


def bybit(*items: Told) -> Any:
    listed = [
        {
            "title": one.title,
            "description": one.text,
            "type": {"key": "new_crypto"},
            "url": one.link,
            "publishTime": milliseconds(one),
        }
        for one in items
    ]
    return {"retCode": 0, "retMsg": "OK", "result": {"total": len(listed), "list": listed}}


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


def bwenews(one: Told) -> Any:
    """Return a message of its socket."""
    return {
        "source_name": "Local", "news_title": one.title, "coins_included": [], "url": one.link,
        "timestamp": (milliseconds(one) or 0) // 1000,
    }  # fmt: skip


def milliseconds(one: Told) -> int | None:
    return None if one.at is None else int(one.at.timestamp() * 1000)
