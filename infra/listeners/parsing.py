"""Parsing of a response's body into items, by the kind of the source. Pure; the caller bounds time and memory."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Iterator
from typing import Any, Literal

import lxml.html  # type: ignore[import-untyped]
import msgspec
from lxml.etree import ParserError, tostring  # type: ignore[import-untyped]

from infra.listeners.items import Entry, Item, item_of
from infra.listeners.source import Kind, Source
from infra.pages.markup import decoded

MAX_ITEMS = 500
"""Maximum number of items read from a response: feeds have 20 to 100."""
_DECLARATION = re.compile(r"\s*<\?xml[^>]{0,300}\?>")
_IS_PAGE = re.compile(rb"\s*(?:<!--.{0,200}?-->\s*)?<(?:!doctype\s+html|html)\b", re.IGNORECASE | re.DOTALL)
_FIELD = re.compile(r"\{([^{}]+)\}")
Raw = dict[str, Any]

Problem = Literal["", "a web page", "another shape", "no items"]
"""The content of a response that has no items; empty if it has items."""


class ItemsRequest(msgspec.Struct, frozen=True, kw_only=True, tag="items"):
    """A response as received. ``refill``: it is from a socket's ``refill`` address, with items at ``refill_items``."""

    body: bytes
    content_type: str
    url: str
    source: Source
    refill: bool = False


class ItemsAnswer(msgspec.Struct, frozen=True, kw_only=True, tag="items"):
    """The items in the order of the response, each id once."""

    items: tuple[Item, ...] = ()
    problem: Problem = ""


class _ShapeError(ValueError):
    """The response does not have the shape that the source's row describes."""


def items_of(asked: ItemsRequest) -> ItemsAnswer:
    """Return the items of a response."""
    source = asked.source
    if source.kind != "telegram" and _IS_PAGE.match(asked.body[:1000]):
        return ItemsAnswer(problem="a web page")
    try:
        entries = _ENTRIES[source.kind](asked)
    except (_ShapeError, ValueError, RecursionError):
        return ItemsAnswer(problem="another shape")
    if not entries and source.needs_items:
        return ItemsAnswer(problem="no items")
    made = (item_of(entry, source) for entry in entries[:MAX_ITEMS])
    items = {item.external_id: item for item in made if item is not None}
    if entries and not items and source.kind != "socket":
        return ItemsAnswer(problem="another shape")
    if source.keep:
        items = {
            name: item for name, item in items.items() if any(re.search(pattern, item.title) for pattern in source.keep)
        }
    return ItemsAnswer(items=tuple(items.values()))


def _of_feed(asked: ItemsRequest) -> list[Entry]:
    import feedparser  # type: ignore[import-untyped]

    # Always in UTF-8, so that no untrusted label selects one of Python's codecs (infra.pages.charsets).
    text = _DECLARATION.sub("", decoded(asked.body, asked.content_type), count=1)
    read = feedparser.parse(
        io.BytesIO(text.encode("utf-8", "replace")),
        response_headers={"content-type": "application/xml; charset=utf-8"},
        sanitize_html=False,
        resolve_relative_uris=False,
    )
    if not read.get("version") and not read.entries:
        raise _ShapeError
    return [_feed_entry(entry) for entry in read.entries[:MAX_ITEMS]]


def _feed_entry(entry: Any) -> Entry:
    contents = [str(part.get("value", "")) for part in entry.get("content", ())]
    media = [
        {"url": str(m.get("href", "")), "type": str(m.get("type", "")), "length": str(m.get("length", ""))}
        for m in entry.get("enclosures", ())
    ]
    return Entry(
        guid=str(entry.get("id", "")),
        link=str(entry.get("link", "")),
        title=str(entry.get("title", "")),
        text=str(entry.get("summary", "")) or next(iter(contents), ""),
        published=entry.get("published") or entry.get("updated"),
        author=str(entry.get("author", "")),
        media=tuple(media),
    )


def _of_telegram(asked: ItemsRequest) -> list[Entry]:
    try:
        page = lxml.html.document_fromstring(decoded(asked.body, asked.content_type).encode(), parser=_UTF8)
    except ParserError as exc:
        raise _ShapeError from exc
    posts = page.find_class("tgme_widget_message")
    if not posts:
        raise _ShapeError  # the channel has no public preview
    entries = []
    for post in posts:
        texts, times = post.find_class("tgme_widget_message_text"), post.xpath(".//time[@datetime]")
        if (name := post.get("data-post")) and texts:
            text = tostring(texts[-1], encoding="unicode", with_tail=False)
            at = times[-1].get("datetime") if times else None
            entries.append(Entry(guid=name, link=f"https://t.me/{name}", text=text, published=at))
    return entries


_UTF8 = lxml.html.HTMLParser(encoding="utf-8")


def _of_json(asked: ItemsRequest) -> list[Entry]:
    source = asked.source
    document = json.loads(decoded(asked.body, asked.content_type))
    path = source.refill_items if asked.refill else source.items
    objects = list(_each(document, path, {}))
    entries = [_json_entry(raw, around, source) for raw, around in objects if isinstance(raw, dict)]
    if objects and not entries:
        raise _ShapeError
    return entries


def _each(value: Any, path: str, around: Raw) -> Iterator[tuple[Any, Raw]]:
    """Yield every element at a path such as ``data[].details[]``, with the outer list's element that contains it."""
    head, lists, rest = path.partition("[]")
    inner = _at(value, head.strip("."))
    if not lists:
        yield inner, around
        return
    if not isinstance(inner, list):
        raise _ShapeError
    for element in inner:
        if rest:
            yield from _each(element, rest, element if isinstance(element, dict) else {})
        else:
            yield element, around


def _at(value: Any, path: str) -> Any:
    for name in filter(None, path.split(".")):
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _json_entry(raw: Raw, around: Raw, source: Source) -> Entry:
    def found(path: str) -> Any:
        return _at(around, path[1:]) if path.startswith("^") else _at(raw, path)

    def words(path: str) -> str:
        if "{" in path:
            return _FIELD.sub(lambda field: _text(found(field[1])), path)
        return _text(found(path)) if path else ""

    return Entry(
        guid=words(source.item_id),
        link=words(source.link),
        title=words(source.title),
        text=words(source.text),
        published=found(source.published) if source.published else None,
    )


def _text(value: Any) -> str:
    return str(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else ""


_ENTRIES: dict[Kind, Callable[[ItemsRequest], list[Entry]]] = {
    "feed": _of_feed, "telegram": _of_telegram, "json": _of_json, "socket": _of_json,
}  # fmt: skip
