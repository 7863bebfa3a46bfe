"""The outcome of each item that a poll returned. Pure: it depends on what is remembered and on the time of the poll."""

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
"""Share of a text's shingles beyond which its change is an edit."""
MAX_EDITS = 3
Outcome = Literal["new", "late", "backfilled", "edit", "repeat", "recorded", "refused"]
"""new, late, backfilled and edit become news. ``recorded``: remembered, and no news; ``refused``: cannot be news."""
PUBLISHED: frozenset[Outcome] = frozenset({"new", "late", "backfilled", "edit"})
_FIRST = ("new", "edit", "late", "backfilled")


class SeenItem(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What is remembered of an item: hashes and sketch of the text that was last published, or seen where none was.

    ``sent``: it became news. ``edits``: how often again. ``left_at``: when a look no longer showed it; None while it does.
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
    """When a look was. ``previous``: the one before, None at the first look ever. ``backfill``: how far back it was asked to go.

    ``max_age``: up to which age an item counts as just published; ``kept``: for how long intake knows what was news.
    """

    at: datetime
    previous: datetime | None
    max_age: timedelta
    kept: timedelta
    backfill: timedelta | None = None

    @property
    def is_gapless(self) -> bool:
        """Whether what this look shows for the first time came out since a look that is not long ago."""
        return self.previous is not None and self.at - self.previous <= self.max_age


def decide_outcome(item: Item, seen: SeenItem | None, look: Poll, *, is_known_text: bool) -> Outcome:
    """Return what becomes of an item. ``seen``: what is remembered under its id; ``is_known_text``: of its text, under any.

    An item without a date is as old as our own sight of it: fresh where the look before, not long ago, did not show it.
    """
    age = None if item.published is None else max(look.at - item.published, timedelta(0))
    asked_for = look.backfill is not None and age is not None and age <= look.backfill
    if seen is not None:
        if not seen.sent:
            return "backfilled" if asked_for else "repeat"
        return "edit" if seen.edits < MAX_EDITS and is_edit(seen, item) else "repeat"
    if is_known_text:
        return "repeat"  # an id that changes at every look, or an archive that is shown again under new ones
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


def limit_items(found: list[tuple[Item, Outcome]], most: int) -> tuple[list[tuple[Item, Outcome]], int]:
    """Return what a look may publish, at most ``most`` items, and how many wait for the next; just published ones go first."""
    wanted = sorted((one for one in found if one[1] in PUBLISHED), key=lambda one: _FIRST.index(one[1]))
    waiting = {id(item) for item, _ in wanted[most:]}
    return [one for one in found if id(one[0]) not in waiting], len(waiting)


def remembered(source: str, item: Item, outcome: Outcome, seen: SeenItem | None) -> SeenItem:
    """Return what is remembered of an item after this outcome."""
    return SeenItem(
        source=source,
        external_id=item.external_id,
        text_hash=item.text_hash,
        title_hash=item.title_hash,
        sketch=item.sketch,
        # A text that is known under another id was news under that one.
        sent=outcome in PUBLISHED or outcome == "repeat",
        edits=(seen.edits + 1 if seen else 0) if outcome == "edit" else 0,
    )


def news_of(source: Source, item: Item, outcome: Outcome, look: Poll) -> dict[str, Any]:
    """Return the record of ``news``. A date later than the look + 60 s, or none, is the time of the look.

    ``extra.previous_look_at``: the look that did not show the item yet; of a socket, the receipt itself.
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
        # The past is judged as of its publication, so it was received at no time.
        "received_at": None if outcome == "backfilled" else received_at,
        "media": list(item.media),
        "extra": {name: value for name, value in extra.items() if value},
    }
    return {"published_at": published if is_dated else received_at} | {n: v for n, v in fields.items() if v}


def encoded(fields: dict[str, Any]) -> bytes:
    return orjson.dumps(fields)


def seen_item_of(news: News, before: SeenItem | None, sketch: bytes) -> SeenItem:
    """Return what a record of ``news`` that we wrote says of its item: what to remember where nobody got to write it down."""
    title = str(news.extra.get("title", ""))
    is_again = before is not None and before.sent and before.text_hash != news.text_hash
    edits = 0 if before is None else before.edits + is_again
    return SeenItem(
        source=news.source, external_id=news.identity, text_hash=news.text_hash,
        title_hash=text_hash(title) if title else "", sketch=sketch, sent=True, edits=edits,
    )  # fmt: skip
