"""The listeners' memory, in two compacted topics, and the order in which it is written.

News is written first, then its items, then the source's cursor. After a kill, a successor may find news whose items are
not recorded, but never the reverse. Before it polls any source, it therefore reads the listener's own records on
``news`` from ``news_through`` on. Each write starts with the fence, so a listener that was frozen writes nothing after
its successor has started, except for the write whose fence it had passed. This guarantees one case per id and text. It
also guarantees one case per item, except for writes at that moment.
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
"""Time for which an item is remembered after it left its source: longer than ``DEDUP_DAYS``."""
MOST_REMEMBERED = 20_000
"""Maximum number of items remembered per source beside those of its last poll (the newest to leave are kept): 570 a day
for 35 days, at 0.6 KB each in memory. A feed with 500 new ids at every poll would otherwise take 3 GiB a day."""
KEPT_LAGS = 100
LOOKS_OF_A_GAP = 5
"""Number of gaps between a source's news before its silence means anything. Then 5 times the average gap is stale."""
_THROUGH = b"\x1fnews_through"


class SourceCursor(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The listener's position in one source, and its state. ``markets``: market → its state and number of changes.

    ``looked_at``: the last successful poll. ``news_at``: the last poll with news. ``gap_s``: average time between two
    of those. ``lags``: seconds from publication (by the publisher's clock) to receipt, for the newest ``KEPT_LAGS`` new
    items. ``reason``: why the last poll failed, a key of ``infra.listeners.failures.DO``; "" if it succeeded.
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
        """Record a successful poll."""
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
    """A write was interrupted, so it is unknown what was written. Start the log again."""


class Memory:
    """The whole memory, by source. Built by :func:`remembered_in`; only :meth:`ItemLog.record` changes it."""

    def __init__(self) -> None:
        self.items: dict[str, dict[str, SeenItem]] = {}
        self.texts: dict[str, Counter[str]] = {}
        """Source → number of its items per text hash."""
        self.present: dict[str, set[str]] = {}
        """Source → ids in its last poll."""
        self.cursors: dict[str, SourceCursor] = {}
        self.through: dict[int, int] | None = None

    def seen(self, source: str, external_id: str) -> SeenItem | None:
        return self.items.get(source, {}).get(external_id)

    def knows_text(self, source: str, text_hash: str) -> bool:
        return text_hash in self.texts.get(source, ())

    def cursor(self, source: str) -> SourceCursor:
        """Return a copy of the source's cursor, to change and record."""
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
        """Return the items that a poll with these ids no longer has."""
        gone = self.present.get(source, set()).difference(shown)
        return [msgspec.structs.replace(self.items[source][item_id], left_at=at) for item_id in gone]

    def forgotten(self, source: str, at: datetime, shown: Iterable[SeenItem] = ()) -> list[SeenItem]:
        """Return the items to forget: they left long ago, or more than ``MOST_REMEMBERED`` left later.

        ``shown``: the items of the present poll, which are not forgotten.
        """
        kept, items = {item.external_id for item in shown}, self.items.get(source, {})
        gone = [
            (item.left_at, item.external_id) for item in items.values() if item.left_at and item.external_id not in kept
        ]
        most = nsmallest(len(gone) - MOST_REMEMBERED, gone)
        return [items[name] for _, name in {*most, *(entry for entry in gone if at - entry[0] > FORGOTTEN_AFTER)}]


class ItemLog:
    """The only writer of the two topics and of the listeners' news. Writes one record at a time."""

    def __init__(self, address: KafkaAddress, topics: Topics, key: bytes) -> None:
        """``key``: the listener's; its own records carry its mark."""
        self._address, self._topics, self._key = address, topics, key
        self._producer: Any = None
        self._fence = Fence(address, topics.transactional_id("listener"), topics.listener_lease)
        self.memory = Memory()
        self.recovered = 0
        """Number of items that a predecessor had published but not recorded."""
        self._in_doubt = False

    async def start(self, sources: Iterable[str]) -> None:
        """Fence predecessors; read the memory, and the news of these sources that a predecessor did not record.

        Raises:
            KafkaError: no broker responds.
        """
        await self._fence.start()
        self._producer = self._address.producer(linger_ms=0)
        await self._producer.start()
        self.memory = await remembered_in(self._address, self._topics)
        known = {*sources, *self.memory.cursors, *self.memory.items}
        ends = {tp: end for tp, (_, end) in (await offsets_of(self._address, self._topics.news)).items()}
        through = self.memory.through
        recovered: list[SeenItem] = []
        if through is not None:
            spans = {tp: (through.get(tp.partition, 0), end) for tp, end in ends.items()}
            async for _, records in read_range(self._address, spans):
                recovered += [self._recovered(news) for news in _ours(records, known, self._key)]
        self.recovered = len(recovered)
        self.memory.through = {tp.partition: end for tp, end in ends.items()}
        await self._remember(recovered, ())

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
        """Write news (key and value), then items, then the cursor, each once the previous is durable; remember them.

        Must not be called concurrently.

        Raises:
            KafkaError: the broker does not accept it; ``ProducerFenced``: another listener has started.
            InDoubtError: an earlier call failed or was cancelled.
        """
        if self._in_doubt:
            # A later call would move news_through past news whose items are not recorded.
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
                *((topic, _key(item), msgspec.json.encode(item)) for item in seen),
                *((topic, _key(item), None) for item in forgotten),
            ]
        )
        for item in seen:
            self.memory.put(item)
        for item in forgotten:
            self.memory.forget(item)
        topic, through = self._topics.listener_cursors, _Through(self.memory.through or {})
        written = [(topic, _THROUGH, msgspec.json.encode(through))]
        if cursor is not None:
            cursor.written_at = datetime.now(UTC)
            written.append((topic, cursor.source.encode(), msgspec.json.encode(cursor)))
            self.memory.cursors[cursor.source] = cursor
        await self._sent(written)

    async def _sent(self, records: Iterable[tuple[str, bytes, bytes | None]]) -> list[Any]:
        waiting = [await self._producer.send(topic, value, key=key) for topic, key, value in records]
        return [await sent for sent in waiting]

    def _recovered(self, news: News) -> SeenItem:
        seen = seen_item_of(news, self.memory.seen(news.source, news.identity), sketch(news.text))
        self.memory.put(seen)
        return seen


class Cursors:
    """The cursors of all sources, read from the log. Each reading continues where the previous one ended."""

    def __init__(self, address: KafkaAddress, topics: Topics) -> None:
        self._address, self._topic = address, topics.listener_cursors
        self._cursors: dict[str, SourceCursor] = {}
        self._next: dict[TopicPartition, int] = {}
        self._turn = asyncio.Lock()

    async def read(self) -> dict[str, SourceCursor]:
        """Return source → its latest cursor.

        Raises:
            KafkaError: Kafka does not respond.
        """
        async with self._turn:
            bounds = await offsets_of(self._address, self._topic)
            spans = {tp: (max(first, self._next.get(tp, first)), end) for tp, (first, end) in bounds.items()}
            async for tp, records in read_range(self._address, spans):
                cursors = (_as(SourceCursor, record.value) for record in records if record.key != _THROUGH)
                self._cursors |= {cursor.source: cursor for cursor in cursors if cursor is not None}
                self._next[tp] = records[-1].offset + 1
            return self._cursors


async def remembered_in(address: KafkaAddress, topics: Topics) -> Memory:
    """Return the contents of the two topics. Records that do not decode are ignored."""
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
    now = datetime.now(UTC) + timedelta(days=1)  # its date was checked when it was written
    for record in records:
        if (record.key or b"").partition(b":")[0].decode("utf-8", "replace") in sources:
            try:
                news = decode_news(record.value, now=now)
            except ContractError:
                continue
            if is_marked(news, [key]):  # a foreign record would suppress an item of the source
                yield news
