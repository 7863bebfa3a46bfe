"""The text index: the first case of every text, exact across workers, read from the journal's opening records.

A query is answered only after the index has read to the journal's ends as of the query, so it sees every opening that
was appended before this case's own. ``first_of_text`` decides which of several is the first, from the log alone.
"""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

from aiokafka import TopicPartition

from infra.kafka.topics import KafkaAddress, partitions_of
from infra.late_log import log_of
from infra.ports import Answer, Free, Port
from schemas import envelope as wire
from schemas.calls import ProviderMode
from schemas.effects import EarlierReply, FindEarlier
from schemas.envelope import TEXT_HASH_HEADER
from schemas.errors import ContractError, TransientError
from schemas.events import (
    EFFECT_NAME,
    OPENING_NAME,
    TERMINAL_NAMES,
    WIRE_NAMES,
    CaseDegraded,
    CaseEvent,
    CaseTriaged,
    EffectCompleted,
    EventReceived,
)
from schemas.topics import Topics
from streams.effects.search_cache import SearchCache
from streams.intake.first_of_text import Claims, Verdict
from streams.intake.index_rows import RowAccess, index_rows
from streams.journal.clock import append_ms, utc_now
from streams.journal.fold import parse_record
from streams.journal.fold_store import beside_the_loop, is_damage
from streams.journal.log import KafkaLog
from streams.journal.retry import is_away, retry_while_unavailable

_OPENING, _EFFECT = OPENING_NAME.encode(), EFFECT_NAME.encode()
_GOES_ON = frozenset(WIRE_NAMES[t].encode() for t in (CaseTriaged, CaseDegraded))
_ENDS = frozenset(name.encode() for name in TERMINAL_NAMES)
ANSWER_WITHIN_S = 5.0
RIVALS_WITHIN_S = 1.0
"""How long the lowest of several undecided cases waits until the others' answers are in the log.

After an answer this takes milliseconds; a case that has not asked by then will see this one, and need not be waited
for.
"""
WRITTEN_AGAIN_S = 1.0
TOLD_FROM = 50_000
"""The log tells of a reading of so many records."""
_AT_ONCE = 500
_LONGEST_S = 0.005
"""Other tasks of the event loop get their turn after this time. A commit may wait for the disk, so a thread makes it."""


class TextIndex(Free, Port):
    """Answers ``FindEarlier``, free of charge. Holds one entry per distinct text of the window."""

    provider = "journal"
    mode: ProviderMode = "live"

    def __init__(
        self,
        address: KafkaAddress,
        topics: Topics,
        *,
        window_days: int = 30,
        by_owner: bool = False,
        directory: Path | None = None,
        searches: SearchCache | None = None,
    ) -> None:
        """``by_owner``: the same text by another owner is no copy, but a report that the story step looks at.

        ``directory``: that of the worker slot, in which the rows of this index and of those that subscribe are kept.
        ``searches``: a cache that is filled from the journal, too.

        Raises:
            ConfigError: as for :class:`streams.journal.fold_store.FoldStore`.
        """
        self._by_owner = by_owner
        self._heeding: list[Callable[[Any], None]] = [self._take]
        self._topic = topics.cases
        self._window = timedelta(days=window_days)
        self._log = KafkaLog(address)
        self._consumer = address.consumer(fetch_max_wait_ms=100)
        self._tps: list[TopicPartition] = []
        self._read_to: dict[TopicPartition, int] = {}
        self._searches = searches
        self.rows = index_rows(directory)
        self._claims = Claims(self.rows)
        self.moved = RowAccess()
        self._reading: asyncio.Task[None] | None = None
        self._asking: asyncio.Task[dict[TopicPartition, int]] | None = None

    def subscribe(self, on_record: Callable[[Any], None]) -> None:
        """Call ``on_record`` with every record that is new to ``rows``, which it writes.

        Every reader of the rows enters ``moved``.
        """
        self._heeding.append(on_record)

    async def start(self) -> None:
        """Start reading the window's openings; queries wait until that is done."""
        await self._consumer.start()
        self._tps = [TopicPartition(self._topic, p) for p in await partitions_of(self._consumer, self._topic)]
        self._consumer.assign(self._tps)
        self._reading = asyncio.create_task(self._read(), name="text-index")

    @property
    def reading(self) -> asyncio.Task[None]:
        """The task that reads the journal, once started. Only an error ends it."""
        assert self._reading is not None
        return self._reading

    async def close(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.wait([self._reading])
        await self._consumer.stop()
        async with self.moved.alone():  # a cancelled query may still read in its thread
            self.rows.close()

    async def perform(self, effect: FindEarlier) -> Answer:
        """Return the first case with this text, None if the asking case is the first.

        Raises:
            TransientError: the journal could not be read in time.
        """
        try:
            async with asyncio.timeout(ANSWER_WITHIN_S):
                await self.read_to_the_ends()
        except TimeoutError as exc:
            raise TransientError("the journal was not read in time for the duplicate check", kind="timeout") from exc
        async with self.moved:
            verdict = self._claims.judge(effect.text_hash, effect.case_id)
        if verdict.waits_for:
            verdict = await self._when_rivals_are_told(effect, verdict)
        return Answer(reply=EarlierReply(first_case=verdict.first_case), cost_usd=Decimal(0))

    async def read_to_the_ends(self) -> None:
        """Wait until the journal was read to its present ends. ``moved`` is notified after every read."""
        await self._reach(await self._ends())

    async def ends_of(self, topic: str) -> dict[int, tuple[int, int]]:
        """Return partition → (first offset, end offset) of another topic at this moment."""
        tps = [TopicPartition(topic, p) for p in await partitions_of(self._consumer, topic)]
        first, end = await self._consumer.beginning_offsets(tps), await self._consumer.end_offsets(tps)
        return {tp.partition: (first[tp], end[tp]) for tp in tps}

    async def _when_rivals_are_told(self, effect: FindEarlier, verdict: Verdict) -> Verdict:
        # Any case opened from now on sees this one, so nobody else need be waited for.
        rivals = verdict.waits_for
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(RIVALS_WITHIN_S), self.moved:
                while (verdict := self._claims.judge(effect.text_hash, effect.case_id, only=rivals)).waits_for:
                    await self.moved.wait()
        return verdict

    async def _ends(self) -> dict[TopicPartition, int]:
        # One look at the ends serves every query that arrived before it was sent.
        if self._asking is None or self._asking.done():
            self._asking = asyncio.ensure_future(self._look())
        return await asyncio.shield(self._asking)

    async def _look(self) -> dict[TopicPartition, int]:
        await asyncio.sleep(0)
        self._asking = None  # later queries may know of an opening that this look is too early for
        ends: dict[TopicPartition, int] = await self._consumer.end_offsets(self._tps)
        return ends

    async def _reach(self, ends: dict[TopicPartition, int]) -> None:
        async with self.moved:
            while any(self._read_to.get(tp, -1) < end for tp, end in ends.items()):
                await self.moved.wait()

    async def _read(self) -> None:
        while True:
            try:
                await retry_while_unavailable(self._follow, "the indexes", unavailable=is_away)
            except sqlite3.DatabaseError as exc:
                if is_damage(exc):
                    log_of(__name__).warning("the indexes are damaged: the journal is read again", why=str(exc))
                    async with self.moved.alone():
                        self._read_to = {}
                        await beside_the_loop(self.rows.reset)
                else:
                    log_of(__name__).warning("the indexes cannot be written; the worker retries", why=repr(exc))
                await asyncio.sleep(WRITTEN_AGAIN_S)

    async def _follow(self) -> None:
        self._read_to = {}
        async with self.moved:
            self.rows.give_up()  # what was taken in since the last commit is read again
        bounds = await self._log.bounds(self._topic)
        read = await self.rows.begin(self._log, self._topic, bounds)
        if self._searches is not None:
            self._searches.restore(self.rows)
        since = int((utc_now() - self._window).timestamp() * 1000)
        oldest = await self._log.offsets_at(self._tps, since)
        starts = {
            tp: max(read.get(tp, 0), first if (at := oldest[tp]) is None else at) for tp, (first, _) in bounds.items()
        }
        for tp, start in starts.items():
            self._consumer.seek(tp, start)
        if (records := sum(end - starts[tp] for tp, (_, end) in bounds.items())) >= TOLD_FROM:
            log_of(__name__).info("the indexes read the journal", records=records)
        while True:
            got = await self._consumer.getmany(timeout_ms=1000, max_records=_AT_ONCE)
            await self._take_in(got)
            self._read_to = {tp: await self._consumer.position(tp) for tp in self._tps}
            self.moved.notify_all()
            await asyncio.sleep(0)  # those that wait read now

    async def _take_in(self, got: Mapping[TopicPartition, Sequence[Any]]) -> None:
        # On the loop: SQLite releases the interpreter at each statement, and a thread waits 5 ms for a busy loop to get it back.
        new = deque((tp, record) for tp, records in got.items() for record in records)
        while new:
            async with self.moved:
                until = time.monotonic() + _LONGEST_S
                while new and time.monotonic() < until:
                    self._heed(*new.popleft())
            await asyncio.sleep(0)
        if self.rows.is_due:
            async with self.moved.alone():
                await beside_the_loop(self.rows.commit)

    def _heed(self, tp: TopicPartition, record: Any) -> None:
        for on_record in self._heeding:
            on_record(record)
        if self._searches is not None:
            self._searches.keep(record, self.rows)
            self._searches.on_record(record)
        self.rows.take(tp, record)

    def _take(self, record: Any) -> None:
        headers = dict(record.headers)
        kind, case = headers.get("ce_type"), (headers.get("ce_subject") or b"").decode("utf-8", "replace")
        if kind == _OPENING:
            opening = self._opening_in(record, headers.get(TEXT_HASH_HEADER))
            if opening is not None:
                owner = owner_of_news(opening) if self._by_owner else ""
                self._claims.forget_before(append_ms(record) - self._window.total_seconds() * 1000)
                self._claims.add(opening.text_hash, case, (record.partition, record.offset), append_ms(record), owner)
        elif not self._claims.is_undecided(case):
            return
        elif kind == _EFFECT:
            if (reply := self._earlier_in(record)) is not None:
                self._claims.record_verdict(case, first=reply.first_case is None)
        elif (kind in _GOES_ON or kind in _ENDS) and self._decoded(record) is not None:
            self._claims.record_verdict(case, first=kind in _GOES_ON)

    def _earlier_in(self, record: Any) -> EarlierReply | None:
        event = self._decoded(record)
        replies = (c.reply for c in event.calls) if isinstance(event, EffectCompleted) else ()
        return next((r for r in replies if isinstance(r, EarlierReply)), None)

    def _decoded(self, record: Any) -> CaseEvent | None:
        try:
            env = parse_record(record, len(self._tps))
            return wire.decode(env.type, env.version, record.value)
        except ContractError:
            return None

    def _opening_in(self, record: Any, text_hash: bytes | None) -> EventReceived | None:
        """Return an opening; None if the record opens nothing that may claim its text."""
        # A claimed text closes every later case with it as a duplicate, so a header alone never claims one.
        event = self._decoded(record)
        if not isinstance(event, EventReceived):
            return None
        return event if text_hash == event.text_hash.encode() else None


def owner_of_news(opening: EventReceived) -> str:
    """Return whose news it is: the group of its source, else the source. Nobody claims a text in a listed source's name."""
    group = opening.news.extra.get("group")
    owner = group if isinstance(group, str) and group else opening.news.source
    return f"listener {owner}" if opening.authenticated else owner
