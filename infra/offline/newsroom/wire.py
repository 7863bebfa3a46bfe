"""What sources of news send, in their true wire shapes (docs/sources.md says where each is known from)."""

from __future__ import annotations

from datetime import datetime
from email.utils import format_datetime
from html import escape
from typing import Any

import msgspec


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """One item as a source tells it; empty and None: it does not say."""

    id: str = ""
    title: str = ""
    text: str = ""
    link: str = ""
    at: datetime | None = None


def rss(*items: Report, built: str = "") -> bytes:
    """Return a feed as WordPress writes it. ``built`` is its lastBuildDate."""
    written = "".join(
        f"<item><title><![CDATA[{report.title}]]></title>"
        + (f"<link>{report.link}</link>" if report.link else "")
        + (f'<guid isPermaLink="false">{report.id}</guid>' if report.id else "")
        + (f"<pubDate>{format_datetime(report.at)}</pubDate>" if report.at else "")
        + f"<description><![CDATA[<p>{report.text}</p>]]></description></item>"
        for report in items
    )
    head = f"<title>Local</title><lastBuildDate>{built}</lastBuildDate>"
    return f'<?xml version="1.0" encoding="UTF-8"?><rss version="2.0"><channel>{head}{written}</channel></rss>'.encode()


def atom(*items: Report) -> bytes:
    """Return a feed as GitHub writes it of releases: entries have no publication date, only an update."""
    written = "".join(
        f"<entry><id>tag:github.com,2008:{report.id}</id><title>{escape(report.title)}</title>"
        f'<link rel="alternate" href="{report.link}"/><updated>{report.at.isoformat() if report.at else ""}</updated>'
        f'<content type="html">&lt;p&gt;{escape(report.text)}&lt;/p&gt;</content></entry>'
        for report in items
    )
    return f'<feed xmlns="http://www.w3.org/2005/Atom"><id>x</id><title>Release notes</title>{written}</feed>'.encode()


def telegram(*items: Report) -> bytes:
    """Return the public preview of a channel."""
    written = "".join(
        f'<div class="tgme_widget_message_wrap"><div class="tgme_widget_message" data-post="{report.id}">'
        f'<div class="tgme_widget_message_text" dir="auto">{escape(report.title)}<br/><br/>{escape(report.text)}</div>'
        f'<a class="tgme_widget_message_date"><time datetime="{report.at.isoformat() if report.at else ""}">12:00</time></a></div></div>'
        for report in items
    )
    return f'<!DOCTYPE html><html><body><main class="tgme_main">{written}</main></body></html>'.encode()


def bybit(*items: Report) -> Any:
    listed = [
        {
            "title": report.title,
            "description": report.text,
            "type": {"key": "new_crypto"},
            "url": report.link,
            "publishTime": milliseconds(report),
        }
        for report in items
    ]
    return {"retCode": 0, "retMsg": "OK", "result": {"total": len(listed), "list": listed}}


def statuspage(*items: Report) -> Any:
    return {
        "page": {"id": "x"},
        "incidents": [
            {
                "id": report.id,
                "name": report.title,
                "shortlink": report.link,
                "incident_updates": [
                    {
                        "id": "u1",
                        "status": "investigating",
                        "body": report.text,
                        "display_at": report.at and report.at.isoformat(),
                    }
                ],
            }
            for report in items
        ],
    }


def bwenews(report: Report) -> Any:
    """Return a message of its socket."""
    return {
        "source_name": "Local", "news_title": report.title, "coins_included": [], "url": report.link,
        "timestamp": (milliseconds(report) or 0) // 1000,
    }  # fmt: skip


def milliseconds(report: Report) -> int | None:
    return None if report.at is None else int(report.at.timestamp() * 1000)
