"""The outcome of each item that a poll returned. Pure: depends on the remembered items and on the time of the poll."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal

import msgspec
import orjson

from infra.listeners.sketches import changed
from schemas.ids import text_hash
from schemas.news import News

if TYPE_CHECKING:
    from infra.listeners.items import Item
    from infra.listeners.source import Source

EDITED_FROM = 0.15
"""A text is an edit if more than this share of its shingles changed."""
MAX_EDITS = 3
Outcome = Literal["new", "late", "backfilled", "edit", "repeat", "recorded", "refused"]
"""new, late, backfilled and edit become news. ``recorded``: only remembered. ``refused``: cannot be news."""
PUBLISHED: frozenset[Outcome] = frozenset({"new", "late", "backfilled", "edit"})
_FIRST = ("new", "edit", "late", "backfilled")


class SeenItem(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The memory of an item: hashes and sketch of the text last published, or last seen if none was published.

    ``sent``: it became news. ``edits``: how often it was published again. ``left_at``: when a poll no longer returned
    it; None while polls do.
    """

    source: str
    external_id: str
    text_hash: str
    title_hash: str
    sketch: bytes
    sent: bool = False
    edits: int = 0
    left_at: datetime | None = None


class Poll(msgspec.Struct, frozen=True, kw_only=True):
    """The time of a poll. ``previous``: the poll before, None at first. ``backfill``: how far back to go, if requested.

    ``max_age``: maximum age of an item that counts as just published. ``kept``: how long intake remembers past news.
    """

    at: datetime
    previous: datetime | None
    max_age: timedelta
    kept: timedelta
    backfill: timedelta | None = None

    @property
    def is_gapless(self) -> bool:
        """True if the poll before was recent, so that items new in this poll were published in between."""
        return self.previous is not None and self.at - self.previous <= self.max_age


def decide_outcome(item: Item, seen: SeenItem | None, look: Poll, *, is_known_text: bool) -> Outcome:
    """Return an item's outcome. ``seen``: the memory of its id. ``is_known_text``: its text is known, under any id.

    An item without a date is new if the poll before was recent and did not return it.
    """
    age = None if item.published is None else max(look.at - item.published, timedelta(0))
    asked_for = look.backfill is not None and age is not None and age <= look.backfill
    if seen is not None:
        if not seen.sent:
            return "backfilled" if asked_for else "repeat"
        return "edit" if seen.edits < MAX_EDITS and is_edit(seen, item) else "repeat"
    if is_known_text:
        return "repeat"  # its id changes at every poll, or an archive is shown again under new ids
    if age is None:
        return "new" if look.is_gapless else "recorded"
    if age <= look.max_age:
        return "new"
    if asked_for:
        return "backfilled"
    return "late" if look.previous is not None and age <= look.kept else "recorded"


def is_edit(seen: SeenItem, item: Item) -> bool:
    """Return whether the title changed, or more than ``EDITED_FROM`` of the text."""
    if seen.text_hash == item.text_hash:
        return False
    return seen.title_hash != item.title_hash or changed(seen.sketch, item.sketch) > EDITED_FROM


def limit_items(items: list[tuple[Item, Outcome]], most: int) -> tuple[list[tuple[Item, Outcome]], int]:
    """Return what a poll may publish, ``most`` items, and how many wait for the next. Just published items go first."""
    wanted = sorted((pair for pair in items if pair[1] in PUBLISHED), key=lambda pair: _FIRST.index(pair[1]))
    waiting = {id(item) for item, _ in wanted[most:]}
    return [pair for pair in items if id(pair[0]) not in waiting], len(waiting)


def remembered(source: str, item: Item, outcome: Outcome, seen: SeenItem | None) -> SeenItem:
    """Return what to remember of an item after this outcome."""
    return SeenItem(
        source=source,
        external_id=item.external_id,
        text_hash=item.text_hash,
        title_hash=item.title_hash,
        sketch=item.sketch,
        # A text that is known under another id became news under that one.
        sent=outcome in PUBLISHED or outcome == "repeat",
        edits=(seen.edits + 1 if seen else 0) if outcome == "edit" else 0,
    )


def news_of(source: Source, item: Item, outcome: Outcome, look: Poll) -> dict[str, Any]:
    """Return the record for ``news``. A missing date, or one more than 60 s after the poll, becomes the poll's time.

    ``extra.previous_look_at``: the time of the last poll that did not return the item; for a socket, the time of
    receipt.
    """
    received_at, previous = look.at, look.previous
    published = item.published
    is_dated = published is not None and published <= received_at + timedelta(seconds=60)
    flags = [outcome] if outcome in ("late", "backfilled") else []
    extra = {
        "title": item.title, "flags": flags, "dated": "" if is_dated else item.dated, "group": source.group,
        "official": source.official, "previous_look_at": previous and previous.isoformat(timespec="milliseconds"),
    }  # fmt: skip
    fields = {
        "source": source.id,
        "external_id": item.external_id,
        "text": item.text,
        "language": source.language,
        "url": item.link,
        "author": item.author,
        # Past news is judged as of its publication, so it has no time of receipt.
        "received_at": None if outcome == "backfilled" else received_at,
        "media": list(item.media),
        "extra": {name: value for name, value in extra.items() if value},
    }
    return {"published_at": published if is_dated else received_at} | {n: v for n, v in fields.items() if v}


def encoded(fields: dict[str, Any]) -> bytes:
    return orjson.dumps(fields)


def seen_item_of(news: News, before: SeenItem | None, sketch: bytes) -> SeenItem:
    """Return what to remember of the item behind one of our ``news`` records, if it was not remembered at the time."""
    title = str(news.extra.get("title", ""))
    is_again = before is not None and before.sent and before.text_hash != news.text_hash
    edits = 0 if before is None else before.edits + is_again
    return SeenItem(
        source=news.source, external_id=news.identity, text_hash=news.text_hash,
        title_hash=text_hash(title) if title else "", sketch=sketch, sent=True, edits=edits,
    )  # fmt: skip
