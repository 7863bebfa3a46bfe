"""The search cache: a search that any case made recently is not paid again.

It is filled with this worker's results, and with the replies of all workers in the journal. A hit is a separate call
record, marked ``cached``, without cost and without a grant.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from typing import Any

import msgspec
from msgspec.structs import replace

from schemas import envelope as wire
from schemas.calls import Call, ProviderMode
from schemas.effects import Search, SearchReply
from schemas.errors import ContractError
from schemas.events import WIRE_NAMES, EffectCompleted, SearchCompleted, StepFailed
from schemas.ids import content_hash
from streams.journal.clock import append_ms, utc_now
from streams.journal.fold_store import FollowingFold

_HOLD_SEARCHES = frozenset(WIRE_NAMES[t].encode() for t in (EffectCompleted, SearchCompleted, StepFailed))
AS_IT_COMES_IN = frozenset({"feeds"})
"""Live providers whose results grow by the minute and depend on ``as_of`` exactly."""
MAX_ENTRIES = 10_000
"""At most about 100 MB of replies; the oldest are dropped first."""

TABLES = """
CREATE TABLE searches (number INTEGER PRIMARY KEY, at_ms REAL NOT NULL, record BLOB NOT NULL);
CREATE INDEX searches_of_time ON searches (at_ms)
"""
"""Journal records that hold searches, newest last."""

Asking = Callable[[], Awaitable[tuple[Call, ...]]]


def search_key(search: Search, mode: ProviderMode) -> str:
    """Return the cache key of a search, which is the same for equal searches of any case.

    ``as_of`` limits what a search may know. Offline searches and searches of incoming news (``AS_IT_COMES_IN``) have
    the exact time in their key; those of other live providers have the day.
    """
    as_of = search.as_of.date() if mode == "live" and search.provider not in AS_IT_COMES_IN else search.as_of
    what = (search.provider, search.query, search.max_results, search.depth, search.include_domains, search.language)
    days = ((search.since.date(), search.as_of.date()),) if search.since else ()
    look = (("look", search.look),) if search.look else ()
    topic = (search.topic,) if search.topic != "general" else ()
    return content_hash(
        ("search", mode, what, as_of, *days, *topic, *((search.source,) if search.source else ()), *look)
    )


class _Record(msgspec.Struct, array_like=True):
    """The stored part of a journal record."""

    timestamp: float
    headers: list[tuple[str, bytes]]
    value: bytes


_record = msgspec.msgpack.Decoder(_Record).decode


class _Flight:
    """One running search, and its waiters. ``calls`` stays None if the caller was cancelled."""

    def __init__(self) -> None:
        self.over = asyncio.Event()
        self.calls: tuple[Call, ...] | None = None


class SearchCache:
    """Replies by key, for ``ttl_s`` seconds after they arrived; 0 disables the cache. ``now`` is UTC."""

    def __init__(self, ttl_s: float, *, now: Callable[[], datetime] = utc_now) -> None:
        self._ttl = timedelta(seconds=ttl_s)
        self._now = now
        self._replies: dict[str, tuple[datetime, SearchReply]] = {}
        self._flights: dict[str, _Flight] = {}
        self.hits = 0

    def __len__(self) -> int:
        return len(self._replies)

    def get(self, key: str) -> SearchReply | None:
        """Return the cached reply, marked as cached; None if there is no recent one."""
        at, reply = self._replies.get(key, (None, None))
        if at is None or reply is None or at + self._ttl <= self._now():
            return None
        self.hits += 1
        return replace(reply, cached=True)

    def put(self, call: Call) -> None:
        """Store the reply of a search; hits and failures are not stored."""
        if call.search_key is None or call.cached or not isinstance(call.reply, SearchReply):
            return
        now = self._now()
        if call.replied_at + self._ttl <= now:
            return
        known = self._replies.pop(call.search_key, None)
        newer = known is None or known[0] <= call.replied_at
        self._replies[call.search_key] = (call.replied_at, call.reply) if newer or known is None else known
        while self._replies:
            first = next(iter(self._replies))
            if len(self._replies) <= MAX_ENTRIES and self._replies[first][0] + self._ttl > now:
                break
            del self._replies[first]

    async def share(self, key: str, ask: Asking) -> tuple[tuple[Call, ...], bool] | None:
        """Make the search, or wait for an identical one; return the calls, and whether another caller made them.

        A failure is shared as well, because the provider would respond to the next caller alike. (A budget denial may
        apply to the first caller only; the next caller must check.) None: the other caller was cancelled. Look up the
        cache again, because another caller may have searched meanwhile.
        """
        if (flight := self._flights.get(key)) is not None:
            await flight.over.wait()
            return None if flight.calls is None else (flight.calls, True)
        flight = self._flights[key] = _Flight()
        try:
            flight.calls = await ask()
            for call in flight.calls:
                self.put(call)
            return flight.calls, False
        finally:
            del self._flights[key]
            flight.over.set()

    def on_record(self, record: Any) -> None:
        """Store the searches in one journal record, accepted or not: the replies are real either way. Never raises."""
        if not self._holds_searches(record):
            return
        try:
            env = wire.read_envelope(record.headers)
            event = wire.decode(env.type, env.version, record.value)
        except ContractError:
            return  # the projector handles it
        for call in event.calls:
            self.put(call)

    def keep(self, record: Any, rows: FollowingFold) -> None:
        """Write one journal record to the rows if it holds searches. May run in another thread than the event loop."""
        if self._holds_searches(record):
            kept = _Record(append_ms(record), [*record.headers], record.value)
            values = (append_ms(record), msgspec.msgpack.encode(kept))
            rows.write("INSERT INTO searches (at_ms, record) VALUES (?, ?)", *values)
            rows.write("DELETE FROM searches WHERE at_ms <= ?", self._over_ms())
            rows.write("DELETE FROM searches WHERE number <= (SELECT max(number) FROM searches) - ?", MAX_ENTRIES)

    def restore(self, rows: FollowingFold) -> None:
        """Load the searches of the stored records."""
        asked = "SELECT record FROM searches WHERE at_ms > ? ORDER BY number"
        for (kept,) in rows.rows.execute(asked, (self._over_ms(),)):
            self.on_record(_record(kept))

    def _over_ms(self) -> float:
        """Return the append time (in milliseconds since 1970) up to which records are too old."""
        return (self._now() - self._ttl).timestamp() * 1000

    def _holds_searches(self, record: Any) -> bool:
        """Return whether a journal record holds searches that may be recent enough."""
        if dict(record.headers).get("ce_type") not in _HOLD_SEARCHES or b'"search_key"' not in (record.value or b""):
            return False
        return append_ms(record) > self._over_ms()
