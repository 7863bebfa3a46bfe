"""The sink: journal, signals and deliveries → ClickHouse, each record's rows once.

A batch is one partition and one offset range. The range is written into the group's commit metadata before the rows are
sent, and the rows carry a token derived from it: after a crash the same range is sent again, and ClickHouse drops it by
the token. The committed offset is the watermark, so the fold starts again with every open case; records up to
``through`` are not sent again. While one batch is inserted, the next one is prepared (``streams.sink.batches``), only
in memory. The token does not cover a zombie sink, whose ranges differ; first-wins rows under ``FINAL`` (the ``v_*``
views) do.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import msgspec
from aiokafka import TopicPartition

from agents.core.registry import Registry
from agents.graphs import research, verification
from infra.clickhouse.client import ClickHouse
from infra.kafka.topics import KafkaAddress, committed_by, offsets_of
from schemas.errors import TransientError
from schemas.topics import Topics
from streams.failpoints import SINK_INSERTED, SINK_PLANNED, hit
from streams.journal.appender import Appender
from streams.journal.gc_thresholds import SINKING, rarely_collected
from streams.journal.log import KafkaLog
from streams.journal.reader import JournalReader
from streams.sink.batches import Batch, SinkTable, Source, Tables, build_batch, row_of_delivery, row_of_signal
from streams.sink.journal import Progress, SinkJournal

MAX_BATCH = 20_000
COMMIT_IDLE_S = 5.0
_WAIT_MS = 300


class SinkReading:
    """Two consumers of one group, with manual assignment, used as one.

    There are two because isolation is a property of a consumer. Signals and deliveries are written in transactions, and
    count once those are committed. We never write to a journal in transactions. The runtime reads records of a foreign
    aborted transaction there. With read_committed, only the tables would miss them, or wait as long as a foreign
    transaction stays open.
    """

    def __init__(self, address: KafkaAddress, group: str, *, max_records: Callable[[], int]) -> None:
        self._address, self._group, self._max_records = address, group, max_records
        self._consumers: list[Any] = []
        self._under_way: dict[Any, asyncio.Task[dict[TopicPartition, list[Any]]]] = {}
        self._of: dict[TopicPartition, Any] = {}

    @property
    def assigned(self) -> list[TopicPartition]:
        """Every partition that is read."""
        return list(self._of)

    def of(self, tp: TopicPartition) -> Any:
        """Return the consumer of a partition."""
        return self._of[tp]

    async def start(self, by_isolation: dict[str, list[TopicPartition]]) -> None:
        """Connect without reading, so that positions can be set."""
        for isolation, tps in by_isolation.items():
            consumer = self._address.consumer(
                group_id=self._group, isolation_level=isolation, fetch_max_wait_ms=100, client_id="newsproof-sink"
            )
            self._consumers.append(consumer)
            await consumer.start()
            consumer.assign(tps)
            self._of |= dict.fromkeys(tps, consumer)

    async def stop(self) -> None:
        for task in self._under_way.values():
            task.cancel()
        await asyncio.gather(*self._under_way.values(), return_exceptions=True)
        for consumer in self._consumers:
            await consumer.stop()

    async def next(self) -> dict[TopicPartition, list[Any]]:
        """Return new records of either consumer; empty after a timeout."""
        for consumer in self._consumers:
            if consumer not in self._under_way:
                self._under_way[consumer] = asyncio.ensure_future(
                    consumer.getmany(timeout_ms=_WAIT_MS, max_records=self._max_records())
                )
        done, _ = await asyncio.wait(self._under_way.values(), return_when=asyncio.FIRST_COMPLETED)
        got: dict[TopicPartition, list[Any]] = {}
        for consumer in [c for c, task in self._under_way.items() if task in done]:
            got |= self._under_way.pop(consumer).result()
        return got

    async def position(self, tp: TopicPartition) -> int | None:
        """Return the offset up to which records were returned; None while some are being fetched."""
        consumer = self._of[tp]
        position = int(await consumer.position(tp))
        task = self._under_way.get(consumer)
        return None if task is not None and task.done() else position

    async def commit(self, offsets: dict[TopicPartition, tuple[int, str]]) -> None:
        """Commit for both consumers, one after the other.

        While the broker is unavailable this waits without limit: the client retries every temporary error. Until it
        returns, the sink inserts nothing more, so it sends no rows of a range that is not recorded. A stop request
        waits, too. A crash between the two commits is harmless, because each partition has its own range.

        Raises:
            KafkaError: the broker refuses (no permission to commit, metadata too large); a retry would not help.
        """
        for consumer in self._consumers:
            own = {tp: wanted for tp, wanted in offsets.items() if self._of[tp] is consumer}
            if own:
                await consumer.commit(own)


class Sink:
    """Keeps ClickHouse up to date with the log. Waits while ClickHouse is unavailable, and then catches up exactly.

    One sink serves all partitions (manual assignment); a second one would only repeat inserts that the tables drop.
    """

    def __init__(
        self, address: KafkaAddress, topics: Topics, client: ClickHouse, *, registry: Registry | None = None
    ) -> None:
        self._address, self._topics = address, topics
        self._graphs = {topics.cases: registry or verification(), topics.research: research()}
        self._committed = {
            topics.signals: ("signals", row_of_signal),
            topics.deliveries: ("deliveries", row_of_delivery),
        }
        self._group = topics.group("sink")
        self._appender = Appender(address, client_id="newsproof-sink")
        self._reading = SinkReading(address, self._group, max_records=lambda: MAX_BATCH)
        self._tables = Tables(client)
        self._sources: dict[TopicPartition, Source] = {}
        self._watermarks: dict[TopicPartition, int] = {}
        self._taken: dict[TopicPartition, int] = {}
        self._settled: dict[TopicPartition, int] = {}
        self._held: dict[TopicPartition, list[Any]] = {}
        self._inserting: asyncio.Task[None] | None = None
        self._stopped = asyncio.Event()
        self._moved = asyncio.Condition()
        self.left_out = 0

    @property
    def inserted(self) -> int:
        """Number of rows that this process inserted."""
        return self._tables.inserted

    @property
    def retries(self) -> int:
        """Number of inserts repeated because ClickHouse was unavailable."""
        return self._tables.retries

    @property
    def waits_for_tables(self) -> bool:
        """True if ClickHouse accepts no rows now."""
        return self._tables.waiting

    @property
    def waits_because(self) -> str:
        """Reason why ClickHouse accepts no rows now; empty if it does."""
        return next(iter(self._tables.waits_for.copy().values()), "")

    @property
    def lag(self) -> dict[TopicPartition, int]:
        """Number of records per partition that are in the log but not in the tables, as of the last fetch."""
        return {
            tp: max(0, (self._reading.of(tp).highwater(tp) or settled) - settled)
            for tp, settled in self._settled.items()
        }

    @property
    def dead_letters(self) -> Mapping[str, int]:
        """Number of dead letters written by this process, by reason."""
        return self._appender.dead_letters

    def stop(self) -> None:
        """Request a clean shutdown."""
        self._stopped.set()

    async def run(self) -> None:
        """Insert until stopped."""
        await self._appender.start()
        try:
            with rarely_collected(SINKING):
                await self._start()
                await self._insert_until_stopped()
        finally:
            await self._end()

    async def _insert_until_stopped(self) -> None:
        loop = asyncio.get_running_loop()
        committed_at = loop.time()
        while not self._stopped.is_set():
            got = await self._reading.next()
            if got:
                await self._take(got)
                committed_at = loop.time()
            elif self._inserting is None or self._inserting.done():
                await self._inserted()
                if loop.time() - committed_at > COMMIT_IDLE_S:
                    await self._commit()
                    committed_at = loop.time()
            await self._settle()
        await self._inserted()
        await self._commit()

    async def _end(self) -> None:
        if self._inserting is not None:
            self._inserting.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await self._inserting
        await self._reading.stop()
        await self._appender.stop()

    async def caught_up(self, timeout_s: float = 60.0) -> None:
        """Wait until the tables hold everything that is in the log now.

        Raises:
            TransientError: that takes longer than ``timeout_s``.
        """
        ends: dict[TopicPartition, int] = {}
        for topic in (*self._graphs, *self._committed):
            ends |= await self._ends(topic)
        try:
            async with asyncio.timeout(timeout_s), self._moved:
                while not all(self._settled.get(tp, 0) >= end for tp, end in ends.items()):
                    await self._moved.wait()
        except TimeoutError as exc:
            raise TransientError("the sink did not catch up in time; check its log", kind="timeout") from exc

    # Startup

    async def _start(self) -> None:
        known = await committed_by(self._address, self._group)
        offsets = {tp: done.offset for tp, done in known.items()}
        log = KafkaLog(self._address)
        folds = {topic: await JournalReader(log, topic).begin(offsets) for topic in self._graphs}
        positions = {
            tp: offsets.get(tp, first)
            for topic in self._committed
            for tp, (first, _) in (await log.bounds(topic, isolation="read_committed")).items()
        }
        committed = list(positions)
        positions |= {tp: fold.position for of_topic in folds.values() for tp, fold in of_topic.items()}
        # No await between the start and the seeks: a consumer fetches from its present position.
        await self._reading.start(
            {"read_uncommitted": [tp for tp in positions if tp not in committed], "read_committed": committed}
        )
        for tp, position in positions.items():
            progress = Progress.of(known[tp].metadata) if tp in known else Progress(through=position - 1)
            if (graph := self._graphs.get(tp.topic)) is None:
                self._sources[tp] = SinkTable(progress, *self._committed[tp.topic])
            else:
                self._sources[tp] = SinkJournal(folds[tp.topic][tp], graph, progress)
            self._watermarks[tp], self._taken[tp] = position, progress.through
            self._reading.of(tp).seek(tp, position)

    # Batches

    async def _take(self, got: dict[TopicPartition, list[Any]]) -> None:
        for tp, records in got.items():
            self._held.setdefault(tp, []).extend(records)
        while ranges := self._ready_ranges():
            batches = [
                await build_batch(tp, records, self._sources[tp], self._tables) for tp, records in ranges.items()
            ]
            await self._inserted()
            self._inserting = asyncio.create_task(self._insert(batches))

    def _ready_ranges(self) -> dict[TopicPartition, list[Any]]:
        # A range planned before a crash is sent whole and first, so that its token is the same. It may arrive in other
        # pieces than before, so wait until it is complete.
        ranges: dict[TopicPartition, list[Any]] = {}
        for tp, held in self._held.items():
            done, planned = self._taken[tp], self._sources[tp].progress.pending
            if held and held[0].offset <= done:
                cut = done
            elif held and planned > done:
                if held[-1].offset < planned:
                    continue
                cut = planned
            else:
                cut = held[-1].offset if held else -1
            inside = [r for r in held if r.offset <= cut]
            if inside:
                ranges[tp], self._held[tp] = inside, held[len(inside) :]
                self._taken[tp] = max(done, inside[-1].offset)
        return ranges

    async def _inserted(self) -> None:
        inserting, self._inserting = self._inserting, None
        if inserting is None:
            return
        stopped = asyncio.create_task(self._stopped.wait())
        await asyncio.wait({inserting, stopped}, return_when=asyncio.FIRST_COMPLETED)
        stopped.cancel()
        while not (
            self._tables.waiting or inserting.done()
        ):  # a stop while ClickHouse hangs, which is noticed only after a while
            await asyncio.wait({inserting}, timeout=0.1)
        if self._tables.waiting and not inserting.done():
            inserting.cancel()  # its range is recorded: the next start sends the same one again
            with suppress(asyncio.CancelledError):
                await inserting
        else:
            await inserting

    async def _insert(self, batches: list[Batch]) -> None:
        for batch in batches:
            progress = self._sources[batch.tp].progress
            progress.pending = max(progress.pending, batch.last)
        await self._commit()
        hit(SINK_PLANNED)
        for batch in batches:
            for record, exc in batch.bad:
                await self._appender.dead_letter(
                    self._topics.dead_letters, record, reason=exc.reason, why=str(exc), consumer="sink"
                )
            self.left_out += batch.left_out
            for block, token in batch.blocks:
                await self._tables.insert(block, token)
            if batch.fresh:
                self._sources[batch.tp].progress.through = batch.last
            self._watermarks[batch.tp] = batch.watermark
        hit(SINK_INSERTED)
        await self._commit()
        await self._settle()

    async def _commit(self) -> None:
        # The watermark of the inserted batches: the fold may be a batch ahead of it.
        await self._reading.commit(
            {
                tp: (max(watermark, 0), msgspec.json.encode(self._sources[tp].progress).decode())
                for tp, watermark in self._watermarks.items()
            }
        )

    async def _settle(self) -> None:
        for tp in self._reading.assigned:
            position = await self._reading.position(tp)
            progress, held = self._sources[tp].progress, self._held.get(tp)
            if self._taken[tp] > progress.through:
                self._settled[tp] = progress.through + 1
            elif held:
                self._settled[tp] = int(held[0].offset)
            elif position is not None:
                self._settled[tp] = position
        async with self._moved:
            self._moved.notify_all()

    async def _ends(self, topic: str) -> dict[TopicPartition, int]:
        return {tp: end for tp, (_, end) in (await offsets_of(self._address, topic)).items()}
