"""Items made from a source's entries: canonical text, id, date, and a sketch to tell edits from re-renderings.

Pure. This runs in the process that parses untrusted input (:mod:`infra.listeners.reader_process`).
"""

from __future__ import annotations

import hashlib
import re
from datetime import datetime
from functools import lru_cache
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit
from zoneinfo import ZoneInfo

import lxml.html  # type: ignore[import-untyped]
import msgspec
from lxml.etree import ParserError  # type: ignore[import-untyped]

from infra.listeners.sketches import sketch
from infra.listeners.source import Source
from infra.pages.markup import hides, visible
from infra.texts import cut_utf8, parse_published, storable_text
from schemas.ids import normalise_text, text_hash
from schemas.news import EARLIEST

MAX_TEXT_BYTES = 32 * 1024
"""Longer texts of items are cut. A flash has some hundred bytes, an article in a feed some thousand."""
MAX_MARKUP_CHARS = 256 * 1024
MAX_ID_CHARS = 512
"""Longest ``external_id`` of news."""
_LINK = re.compile(r"https?://[^\s<>\"'，。、）】]+")
_TRACKING = re.compile(r"utm_\w+|fbclid|gclid|mc_[ce]id|igshid|spm|_hs(?:enc|mi)|ref_src", re.IGNORECASE)
_SHARING = re.compile(
    r"https?://(?:t\.me/share/|(?:twitter|x)\.com/(?:intent|share)|(?:www\.)?facebook\.com/sharer|service\.weibo\.com/share)\S*"
)
_NO_TEXT = re.compile(
    r"(?:^|\n)(?:The post [^\n]{1,400}(?:appeared first on|first appeared on)[^\n]*"
    r"|(?:Read more|Continue reading|Source link|阅读全文|查看原文|原文链接)[^\n]{0,80})(?=\n|$)",
    re.IGNORECASE,
)
_UNSEEN = frozenset({"script", "style", "noscript", "template", "svg", "iframe", "object", "head"})
_BREAKS = frozenset(["p", "div", "li", "br", "tr", "h1", "h2", "h3", "h4", "h5", "h6", "ul", "ol", "table", "blockquote", "pre"])  # fmt: skip


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """An item as its source publishes it. ``title`` and ``text`` may contain HTML."""

    guid: str = ""
    link: str = ""
    title: str = ""
    text: str = ""
    published: Any = None
    author: str = ""
    media: tuple[dict[str, str], ...] = ()


class Item(msgspec.Struct, frozen=True, kw_only=True):
    """An item. ``text`` is the title, a blank line, and the summary, without markup.

    ``published`` is in UTC; None if the source states no valid time. ``dated`` is that time as the source writes it.
    ``sketch`` is the sketch of ``text``.
    """

    external_id: str
    title: str
    text: str
    text_hash: str
    title_hash: str
    sketch: bytes
    published: datetime | None = None
    dated: str = ""
    link: str = ""
    author: str = ""
    media: tuple[dict[str, str], ...] = ()


def item_of(entry: Entry, source: Source) -> Item | None:
    """Return the item, None if it has no text."""
    words = _words(entry.title, entry.text, source.strip)
    if words is None:
        return None
    link, dated = canonical_link(entry.link.strip()), "" if entry.published is None else str(entry.published)[:100]
    published = parse_published(entry.published, ZoneInfo(source.timezone))
    return Item(
        external_id=_external_id(entry.guid, link, f"{words.title or words.text[:200]}\n{dated}"),
        title=words.title,
        text=words.text,
        text_hash=words.text_hash,
        title_hash=words.title_hash,
        sketch=words.sketch,
        published=published if published is not None and published >= EARLIEST else None,
        dated=dated,
        link=link,
        author=visible(entry.author)[:200],
        media=entry.media[:20],
    )


class _Words(NamedTuple):
    title: str
    text: str
    text_hash: str
    title_hash: str
    sketch: bytes


@lru_cache(maxsize=8192)  # when a feed of 50 items changes, 49 of them are those of the last poll
def _words(title: str, text: str, strip: tuple[str, ...]) -> _Words | None:
    title, body = (_canonical(words, strip) for words in (title, text))
    title = " ".join(title.split())
    repeats = title and normalise_text(body).startswith(normalise_text(title))
    text = cut_utf8(body if repeats or not title else f"{title}\n\n{body}".strip(), MAX_TEXT_BYTES)
    if not normalise_text(text):
        return None
    return _Words(title, text, text_hash(text), text_hash(title) if title else "", sketch(text))


def canonical_link(link: str) -> str:
    """Return a link without its fragment and tracking parameters. Text that is not a link is returned unchanged."""
    try:
        parts = urlsplit(link)
        query = [(n, v) for n, v in parse_qsl(parts.query, keep_blank_values=True) if not _TRACKING.fullmatch(n)]
    except ValueError:
        return link
    kept = parts.query if len(query) == parts.query.count("&") + 1 else urlencode(query)
    return urlunsplit((parts.scheme, parts.netloc, parts.path, kept, ""))[:2048] if parts.netloc else link


def plain(markup: str) -> str:
    """Return the text that a browser would show; blocks become lines. Also removes invisible characters."""
    markup = storable_text(markup[:MAX_MARKUP_CHARS]).replace("\x00", "")
    if "<" not in markup and "&" not in markup:
        return visible(markup)
    try:
        root = lxml.html.fragment_fromstring(markup, create_parent="div")
    except (ParserError, ValueError):
        return ""
    parts: list[str] = []
    waiting: list[tuple[Any, bool]] = [(root, False)]
    while waiting:  # not recursive: markup may be nested deeper than Python's stack allows
        element, ends = waiting.pop()
        is_block = element.tag in _BREAKS
        if ends:
            parts.append("\n" if is_block else "")
            parts.append(element.tail or "")
            continue
        waiting.append((element, True))
        if not isinstance(element.tag, str) or element.tag in _UNSEEN or hides(element.get("style") or ""):
            continue
        parts.append("\n" * is_block + (element.text or ""))
        waiting += [(child, False) for child in reversed(element)]
    return visible("".join(parts))


def _canonical(words: str, strip: tuple[str, ...]) -> str:
    text = _SHARING.sub("", plain(words))
    text = _LINK.sub(lambda link: canonical_link(link[0]), text)
    for pattern in strip:
        text = re.sub(pattern, "", text)
    return visible(_NO_TEXT.sub("", text))


def _external_id(guid: str, link: str, otherwise: str) -> str:
    id = visible(guid) or link
    if not id:
        return "text:" + hashlib.sha256(otherwise.encode("utf-8", "replace")).hexdigest()[:40]
    if len(id) > MAX_ID_CHARS or not id.isprintable():
        return "id:" + hashlib.sha256(id.encode("utf-8", "replace")).hexdigest()[:40]
    return id
