"""Server-sent events as bytes, and the live stream: which items a client receives, and its resume position.

Source of the format: WHATWG HTML, "Server-sent events", 9.2.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import datetime

import msgspec

from streams.feed.case_items import FeedFilter
from streams.feed.live import LiveFeed
from streams.feed.window import Item, Place, Window

RETRY_MS = 2_000
"""How long a browser waits before it reconnects."""
HEARTBEAT_S = 10.0
REACHED_WITHIN_S, _LOOK_S = 10.0, 0.05
_HELLO = b"retry: %d\n: connected\n\n" % RETRY_MS


def frame(event: str, data: bytes, *, id: str | None = None) -> bytes:
    """Return one event as bytes. ``data`` is JSON on one line."""
    head = b"" if id is None else b"id: %s\n" % id.encode()
    return b"%sevent: %s\ndata: %s\n\n" % (head, event.encode(), data)


def typed(event: str, data: dict[str, object], *, at: datetime, id: str | None = None) -> bytes:
    """Return one event whose JSON is ``{"type", "data"}``, with a ``timestamp`` in its data."""
    return frame(event, msgspec.json.encode({"type": event, "data": {**data, "timestamp": at}}, enc_hook=str), id=id)


def heartbeat(id: str | None = None) -> bytes:
    """Return a comment that keeps the connection open. ``id`` also updates the client's resume position."""
    return b": \n\n" if id is None else b": \nid: %s\n\n" % id.encode()


class Lagging(Exception):  # noqa: N818 - no error: the client comes back
    """The client is so slow that the window no longer holds its next item."""


async def live_events(
    feed: LiveFeed, wanted: FeedFilter, after: Place | None, *, now: datetime
) -> AsyncIterator[bytes]:
    """Yield the live stream: everything after ``after``, or from now on, with heartbeats in between.

    It never ends by itself.

    Raises:
        Lagging: the reader is too slow. End the connection; the client resumes with the id of its last event.
    """
    yield _HELLO
    while not await feed.until_ready(HEARTBEAT_S):
        yield heartbeat()
    window = feed.window
    reader = _Reader(window.place if after is None else after)
    at = window.end if after is None else window.first
    if after is not None and not (await _reached(window, after) and window.holds(after)):
        if window.has_reached(after):
            reader = _Reader(window.behind(after))
        else:  # of a log that no longer exists: its offsets mean nothing here
            reader, at = _Reader(window.place), window.end
        words = "Some of what happened since is no longer at hand here: read the lists again."
        yield typed("gap", {"message": words}, at=now, id=reader.id)
    yield heartbeat(reader.id)  # so that a client that is disconnected before its first event can resume
    while True:
        if not await window.moved(at, HEARTBEAT_S):
            yield heartbeat(reader.id)
            continue
        try:
            items = window.read(at)
        except LookupError:
            raise Lagging from None
        at += len(items)
        if chunk := b"".join(reader.frames(items, wanted)):
            yield chunk
        else:
            await asyncio.sleep(0)


async def _reached(window: Window, place: Place) -> bool:
    """Wait briefly for a position that another process has reached before this one."""
    for _ in range(int(REACHED_WITHIN_S / _LOOK_S)):
        if window.has_reached(place):
            return True
        await asyncio.sleep(_LOOK_S)
    return window.has_reached(place)


class _Reader:
    """Position of one stream, partition by partition."""

    def __init__(self, place: Place) -> None:
        self._next = {"signal": list(place.signal), "case": list(place.case)}

    @property
    def id(self) -> str:
        return str(Place(signal=tuple(self._next["signal"]), case=tuple(self._next["case"])))

    def frames(self, items: list[Item], wanted: FeedFilter) -> list[bytes]:
        made = []
        for item in items:
            nexts = self._next[item.kind]
            if item.offset < nexts[item.partition]:
                continue  # already sent, perhaps by another process
            nexts[item.partition] = item.offset + 1
            if item.for_all or any(map(wanted.fits, item.shown_by())):
                made.append(frame(item.kind, item.data, id=self.id))
        return made
