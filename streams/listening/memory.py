"""What listeners remember, in two compacted topics, and the order in which they write it.

News goes first, then the items that it came from, then the cursor of the source: whoever begins where another one was killed
may find news that no item tells of, and never the reverse. So it reads its own records on ``news`` from ``news_through`` on
before it looks at any source. Each record begins with the fence, so a listener that was frozen writes nothing after its
successor has started, but for what it had passed the fence with. What this promises: one case for an id and a text; one for an
item, but for what is appended in that moment.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from heapq import nsmallest
from typing import Any

import msgspec
from aiokafka import TopicPartition

from infra.kafka.topics import KafkaAddress, offsets_of, read_range
from infra.listeners.sketches import sketch
from infra.listeners.source import Validators
from schemas.errors import ContractError, TransientError
from schemas.news import News, decode_news, is_marked
from schemas.topics import Topics
from streams.lease import Fence
from streams.listening.item_outcome import SeenItem, seen_item_of

FORGOTTEN_AFTER = timedelta(days=35)
"""How long after an item left its source it is still known: longer than ``DEDUP_DAYS``."""
MOST_REMEMBERED = 20_000
"""Items that a source may have remembered beside those that its last look showed, the newest to leave: 570 a day for 35 days, at
0.6 KB each in memory. A feed that shows 500 new ids at every look would take 3 GiB a day."""
KEPT_LAGS = 100
LOOKS_OF_A_GAP = 5
"""Gaps between news of a source that have to be known before its silence says anything: then 5 times the usual one is stale."""
_THROUGH = b"\x1fnews_through"


class SourceCursor(msgspec.Struct, kw_only=True, omit_defaults=True):
    """How far the listener is with one source, and how that stands. ``markets``: market → its state and how often that changed.

    ``looked_at``: the last look that was answered; ``news_at``: the last that brought news; ``gap_s``: between two such, on average.
    ``lags``: seconds from publication, by the publisher's clock, to receipt, of the newest ``KEPT_LAGS`` new items. ``reason``:
    why the last look failed, a key of ``infra.listeners.failures.DO``; "" where it did not.
    """

    source: str
    validators: Validators = Validators()
    looked_at: datetime | None = None
    markets: dict[str, tuple[str, int]] = {}
    state: str = "ok"
    why: str = ""
    reason: str = ""
    written_at: datetime | None = None
    news_at: datetime | None = None
    gap_s: float = 0.0
    gaps: int = 0
    counts: dict[str, int] = {}
    lags: list[float] = []

    def is_ok(self) -> None:
        """Note that a look succeeded."""
        self.state, self.why, self.reason = "ok", "", ""

    def lag_s(self, quantile: float) -> float | None:
        """Return the nearest-rank quantile (0–1) of ``lags``, in seconds."""
        return sorted(self.lags)[max(0, math.ceil(quantile * len(self.lags)) - 1)] if self.lags else None

    def state_at(self, now: datetime) -> str:
        """Return its state: ok, stale, backing_off or blocked."""
        is_silent = self.news_at is not None and self.gaps >= LOOKS_OF_A_GAP
        if self.state == "ok" and is_silent and (now - self.news_at).total_seconds() > 5 * self.gap_s:  # type: ignore[operator]
            return "stale"
        return self.state


class _Through(msgspec.Struct):
    offsets: dict[int, int]


class InDoubtError(TransientError):
    """A record was broken off, so nobody knows what was written: the log is to be started anew."""


class Memory:
    """Everything that is remembered, by source. Built by :func:`remembered_in`; changed by :meth:`ItemLog.record` alone."""

    def __init__(self) -> None:
        self.items: dict[str, dict[str, SeenItem]] = {}
        self.texts: dict[str, Counter[str]] = {}
        """Source → how many of its items have a text."""
        self.present: dict[str, set[str]] = {}
        """Source → the ids that its last look showed."""
        self.cursors: dict[str, SourceCursor] = {}
        self.through: dict[int, int] | None = None

    def seen(self, source: str, external_id: str) -> SeenItem | None:
        return self.items.get(source, {}).get(external_id)

    def knows_text(self, source: str, text_hash: str) -> bool:
        return text_hash in self.texts.get(source, ())

    def cursor(self, source: str) -> SourceCursor:
        """Return a copy of the source's cursor, to be changed and recorded."""
        known = self.cursors.get(source)
        return (
            SourceCursor(source=source) if known is None else msgspec.structs.replace(known, counts=dict(known.counts))
        )

    def put(self, seen: SeenItem) -> None:
        if (before := self.seen(seen.source, seen.external_id)) is not None:
            self.forget(before)
        self.items.setdefault(seen.source, {})[seen.external_id] = seen
        self.texts.setdefault(seen.source, Counter())[seen.text_hash] += 1
        present = self.present.setdefault(seen.source, set())
        (present.add if seen.left_at is None else present.discard)(seen.external_id)

    def forget(self, seen: SeenItem) -> None:
        if (known := self.items.get(seen.source, {}).pop(seen.external_id, None)) is not None:
            texts = self.texts[seen.source]
            texts[known.text_hash] -= 1
            if not texts[known.text_hash]:
                del texts[known.text_hash]

    def left(self, source: str, shown: Iterable[str], at: datetime) -> list[SeenItem]:
        """Return the items that a look, which shows these ids, shows no longer."""
        gone = self.present.get(source, set()).difference(shown)
        return [msgspec.structs.replace(self.items[source][one], left_at=at) for one in gone]

    def forgotten(self, source: str, at: datetime, shown: Iterable[SeenItem] = ()) -> list[SeenItem]:
        """Return the items that need not be known any more: they left long ago, or ``MOST_REMEMBERED`` left later.

        ``shown``: what the present look remembers, which is not forgotten.
        """
        kept, items = {one.external_id for one in shown}, self.items.get(source, {})
        gone = [(one.left_at, one.external_id) for one in items.values() if one.left_at and one.external_id not in kept]
        most = nsmallest(len(gone) - MOST_REMEMBERED, gone)
        return [items[name] for _, name in {*most, *(one for one in gone if at - one[0] > FORGOTTEN_AFTER)}]


class ItemLog:
    """The one writer of the two topics, and of the listeners' news. Records one thing after another."""

    def __init__(self, address: KafkaAddress, topics: Topics, key: bytes) -> None:
        """``key``: of the listener, whose own records bear its mark."""
        self._address, self._topics, self._key = address, topics, key
        self._producer: Any = None
        self._fence = Fence(address, topics.transactional_id("listener"), topics.listener_lease)
        self.memory = Memory()
        self.recovered = 0
        """Items that a predecessor had published and not yet written down."""
        self._in_doubt = False

    async def start(self, sources: Iterable[str]) -> None:
        """Fence predecessors; read what is remembered, and what one published of these sources without writing it down.

        Raises:
            KafkaError: no broker answers.
        """
        await self._fence.start()
        self._producer = self._address.producer(linger_ms=0)
        await self._producer.start()
        self.memory = await remembered_in(self._address, self._topics)
        known = {*sources, *self.memory.cursors, *self.memory.items}
        ends = {tp: end for tp, (_, end) in (await offsets_of(self._address, self._topics.news)).items()}
        through = self.memory.through
        found: list[SeenItem] = []
        if through is not None:
            spans = {tp: (through.get(tp.partition, 0), end) for tp, end in ends.items()}
            async for _, records in read_range(self._address, spans):
                found += [self._recovered(news) for news in _ours(records, known, self._key)]
        self.recovered = len(found)
        self.memory.through = {tp.partition: end for tp, end in ends.items()}
        await self._remember(found, ())

    async def stop(self) -> None:
        await self._fence.stop()
        if self._producer is not None:
            await self._producer.stop()

    async def record(
        self,
        news: Iterable[tuple[bytes, bytes]],
        seen: Iterable[SeenItem],
        cursor: SourceCursor,
        forgotten: Iterable[SeenItem] = (),
    ) -> None:
        """Write news (key and value), then items, then the cursor, each once the one before is durable; then remember them.

        Not to be called twice at a time.

        Raises:
            KafkaError: the broker does not take it; ``ProducerFenced``: another listener has started.
            InDoubtError: an earlier call failed or was cancelled.
        """
        if self._in_doubt:
            # What a later call writes of news_through would pass over news that no item tells of.
            raise InDoubtError("an earlier record was broken off: the listener reads its memory again")
        self._in_doubt = True
        await self._fence.pass_through()
        for meta in await self._sent((self._topics.news, key, value) for key, value in news):
            assert self.memory.through is not None
            self.memory.through[meta.partition] = meta.offset + 1
        await self._remember(seen, forgotten, cursor)
        self._in_doubt = False

    async def _remember(
        self, seen: Iterable[SeenItem], forgotten: Iterable[SeenItem], cursor: SourceCursor | None = None
    ) -> None:
        seen, forgotten = list(seen), list(forgotten)
        topic = self._topics.listener_items
        await self._sent(
            [
                *((topic, _key(one), msgspec.json.encode(one)) for one in seen),
                *((topic, _key(one), None) for one in forgotten),
            ]
        )
        for one in seen:
            self.memory.put(one)
        for one in forgotten:
            self.memory.forget(one)
        topic, through = self._topics.listener_cursors, _Through(self.memory.through or {})
        written = [(topic, _THROUGH, msgspec.json.encode(through))]
        if cursor is not None:
            cursor.written_at = datetime.now(UTC)
            written.append((topic, cursor.source.encode(), msgspec.json.encode(cursor)))
            self.memory.cursors[cursor.source] = cursor
        await self._sent(written)

    async def _sent(self, records: Iterable[tuple[str, bytes, bytes | None]]) -> list[Any]:
        waiting = [await self._producer.send(topic, value, key=key) for topic, key, value in records]
        return [await one for one in waiting]

    def _recovered(self, news: News) -> SeenItem:
        seen = seen_item_of(news, self.memory.seen(news.source, news.identity), sketch(news.text))
        self.memory.put(seen)
        return seen


class Cursors:
    """The cursors of all sources, as readers of the log see them; each reading goes on where the one before ended."""

    def __init__(self, address: KafkaAddress, topics: Topics) -> None:
        self._address, self._topic = address, topics.listener_cursors
        self._cursors: dict[str, SourceCursor] = {}
        self._next: dict[TopicPartition, int] = {}
        self._turn = asyncio.Lock()

    async def read(self) -> dict[str, SourceCursor]:
        """Return source → its newest cursor.

        Raises:
            KafkaError: Kafka does not answer.
        """
        async with self._turn:
            bounds = await offsets_of(self._address, self._topic)
            spans = {tp: (max(first, self._next.get(tp, first)), end) for tp, (first, end) in bounds.items()}
            async for tp, records in read_range(self._address, spans):
                found = (_as(SourceCursor, one.value) for one in records if one.key != _THROUGH)
                self._cursors |= {cursor.source: cursor for cursor in found if cursor is not None}
                self._next[tp] = records[-1].offset + 1
            return self._cursors


async def remembered_in(address: KafkaAddress, topics: Topics) -> Memory:
    """Return what the two topics hold. Records of another form are passed by."""
    memory = Memory()
    async for value, key in _records(address, topics.listener_items):
        seen = _as(SeenItem, value)
        if seen is not None:
            memory.put(seen)
        elif value is None and (old := memory.seen(*_ids(key))) is not None:
            memory.forget(old)
    async for value, key in _records(address, topics.listener_cursors):
        if key == _THROUGH and (through := _as(_Through, value)) is not None:
            memory.through = through.offsets
        elif key != _THROUGH and (cursor := _as(SourceCursor, value)) is not None:
            memory.cursors[cursor.source] = cursor
    return memory


async def _records(address: KafkaAddress, topic: str) -> Any:
    async for _, records in read_range(address, await offsets_of(address, topic)):
        for record in records:
            yield record.value, record.key or b""


def _as(kind: Any, value: bytes | None) -> Any:
    try:
        return None if value is None else msgspec.json.decode(value, type=kind)
    except msgspec.MsgspecError:
        return None


def _key(seen: SeenItem) -> bytes:
    return f"{seen.source}\x1f{seen.external_id}".encode()


def _ids(key: bytes) -> tuple[str, str]:
    source, _, external_id = key.decode("utf-8", "replace").partition("\x1f")
    return source, external_id


def _ours(records: Iterable[Any], sources: set[str], key: bytes) -> Iterable[News]:
    now = datetime.now(UTC) + timedelta(days=1)  # it was checked when it was written
    for record in records:
        if (record.key or b"").partition(b":")[0].decode("utf-8", "replace") in sources:
            try:
                news = decode_news(record.value, now=now)
            except ContractError:
                continue
            if is_marked(news, [key]):  # anybody else's would keep an item of the source out
                yield news
