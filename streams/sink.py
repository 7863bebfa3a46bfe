"""The sink: journal and signals → ClickHouse, each record's rows once.

A batch is one partition and one offset range. The range is written into the group's commit metadata before the rows are
sent, and the rows carry a token made of it: after a crash the same range is sent again and the token drops it. The
committed offset is the watermark D, so the fold starts again with every open case; what is ``through`` is not sent again.
A zombie sink's other ranges escape the token; first-wins rows under ``FINAL`` (the ``v_*`` views) are the second line.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import msgspec
import structlog
from aiokafka import TopicPartition

from agents.registry import Registry, verification
from infra.clickhouse.client import ClickHouse, insert_rows
from infra.clickhouse.columns import COLUMNS
from infra.clickhouse.rows import Rows, signal_row
from infra.kafka import KafkaAddress, committed_by, offsets_of
from schemas.errors import ContractError, TransientError
from schemas.published import NewerSignalError, read_signal
from schemas.topics import Topics
from streams.append import Appender
from streams.failpoints import SINK_INSERTED, SINK_PLANNED, hit
from streams.following import load_tombstones
from streams.sink_journal import Progress, SinkJournal
from streams.sink_reading import SinkReading

log = structlog.get_logger(__name__)

MAX_BATCH = 20_000
RETRY_S = (0.5, 1.0, 2.0, 5.0)
COMMIT_IDLE_S = 5.0


class Sink:
    """Keeps ClickHouse in step with the log. Waits while ClickHouse is away and catches up exactly.

    One sink serves all partitions (assigned by hand); a second one would only repeat what the tables drop again.
    """

    def __init__(
        self, address: KafkaAddress, topics: Topics, client: ClickHouse, *, registry: Registry | None = None
    ) -> None:
        self._address, self._topics, self._client = address, topics, client
        self._registry = registry or verification()
        self._group = topics.group("sink")
        self._appender = Appender(address, client_id="newsproof-sink")
        self._reading = SinkReading(address, self._group, max_records=lambda: MAX_BATCH)
        self._journals: dict[TopicPartition, SinkJournal] = {}
        self._signals: dict[TopicPartition, Progress] = {}
        self._settled: dict[TopicPartition, int] = {}
        self._held: dict[TopicPartition, list[Any]] = {}
        self._stopped = asyncio.Event()
        self._moved = asyncio.Condition()
        self.inserted = self.left_out = 0
        self.retries = 0
        self.waits_for_tables = False

    @property
    def lag(self) -> dict[TopicPartition, int]:
        """Records of each partition that are in the log and not in the tables, as the last fetch saw its end."""
        return {
            tp: max(0, (self._reading.of(tp).highwater(tp) or settled) - settled)
            for tp, settled in self._settled.items()
        }

    @property
    def letters(self) -> Mapping[str, int]:
        """Dead letters written by this process, by reason."""
        return self._appender.letters

    def stop(self) -> None:
        """Ask for a clean end."""
        self._stopped.set()

    async def run(self) -> None:
        """Insert until stopped."""
        await self._appender.start()
        try:
            await self._start()
            loop = asyncio.get_running_loop()
            committed_at = loop.time()
            while not self._stopped.is_set():
                got = await self._reading.next()
                if got:
                    await self._take(got)
                    committed_at = loop.time()
                elif loop.time() - committed_at > COMMIT_IDLE_S:
                    await self._commit()
                    committed_at = loop.time()
                for tp in self._reading.assigned:
                    if (settled := await self._settled_at(tp)) is not None:
                        self._settled[tp] = settled
                async with self._moved:
                    self._moved.notify_all()
            await self._commit()
        finally:
            await self._reading.stop()
            await self._appender.stop()

    async def caught_up(self, timeout_s: float = 60.0) -> None:
        """Wait until everything that is in the log now is in the tables.

        Raises:
            TransientError: when that takes longer than ``timeout_s``.
        """
        ends = {**await self._ends(self._topics.cases), **await self._ends(self._topics.signals)}
        try:
            async with asyncio.timeout(timeout_s), self._moved:
                while not all(self._settled.get(tp, 0) >= end for tp, end in ends.items()):
                    await self._moved.wait()
        except TimeoutError as exc:
            raise TransientError("the sink did not catch up in time; look at its log", kind="timeout") from exc

    # Start

    async def _start(self) -> None:
        known = await committed_by(self._address, self._group)
        cases = await offsets_of(self._address, self._topics.cases)
        signals = await offsets_of(self._address, self._topics.signals, isolation_level="read_committed")
        await self._reading.start({"read_uncommitted": list(cases), "read_committed": list(signals)})
        for tp, (first, _) in {**cases, **signals}.items():
            meta = known.get(tp)
            position = first if meta is None else meta.offset
            progress = Progress(through=position - 1) if meta is None else Progress.of(meta.metadata)
            if tp.topic == self._topics.cases:
                self._journals[tp] = SinkJournal(position, self._registry, progress, partitions=len(cases))
            else:
                self._signals[tp] = progress
            self._reading.of(tp).seek(tp, position)
        await load_tombstones(
            self._address,
            {tp: j.followed.accepted for tp, j in self._journals.items()},
            {tp: f for tp, (f, _) in cases.items()},
            partitions=len(cases),
        )

    # Batches

    async def _take(self, got: dict[TopicPartition, list[Any]]) -> None:
        for tp, records in got.items():
            self._held.setdefault(tp, []).extend(records)
        while ranges := self._ready_ranges():
            for tp, records in ranges.items():
                progress = self._progress(tp)
                progress.pending = max(progress.pending, records[-1].offset)
            await self._commit()
            hit(SINK_PLANNED)
            for tp, records in ranges.items():
                await self._insert(tp, records)
            hit(SINK_INSERTED)
            await self._commit()

    def _ready_ranges(self) -> dict[TopicPartition, list[Any]]:
        # What was planned before a crash is sent as the same range, whole and before anything else, so that its token is
        # the same; it may arrive in other pieces than before, and waits until it is complete.
        ranges: dict[TopicPartition, list[Any]] = {}
        for tp, held in self._held.items():
            progress = self._progress(tp)
            if held and held[0].offset <= progress.through:
                cut = progress.through
            elif held and progress.pending > progress.through:
                if held[-1].offset < progress.pending:
                    continue
                cut = progress.pending
            else:
                cut = held[-1].offset if held else -1
            inside = [r for r in held if r.offset <= cut]
            if inside:
                ranges[tp], self._held[tp] = inside, held[len(inside) :]
        return ranges

    async def _insert(self, tp: TopicPartition, records: list[Any]) -> None:
        progress = self._progress(tp)
        if tp in self._journals:
            rows, bad = self._journals[tp].rows(records)
        else:
            rows, bad = self._signal_rows(records, progress.through)
        fresh = [r for r in records if r.offset > progress.through]
        for record, exc in bad:
            if record.offset > progress.through:
                await self._appender.dead_letter(
                    self._topics.dead_letters, record, reason=exc.reason, why=str(exc), consumer="sink"
                )
        if fresh:
            token = f"{tp.topic}-{tp.partition}-{fresh[0].offset}-{fresh[-1].offset}"
            for table, of_table in rows.items():
                await self._send(table, of_table, f"{token}-{table}", {r.offset: r for r in fresh})
            progress.through = fresh[-1].offset

    def _signal_rows(self, records: list[Any], through: int) -> tuple[Rows, list[tuple[Any, ContractError]]]:
        rows: list[Any] = []
        bad: list[tuple[Any, ContractError]] = []
        for record in records:
            if record.offset <= through:
                continue
            try:
                rows.append(_row_of_signal(record))
            except NewerSignalError:
                raise
            except ContractError as exc:
                bad.append((record, exc))
            except Exception as exc:  # whatever the values of a signal that decodes do to the mapping
                bad.append((record, ContractError(f"no row can be made of it: {exc!r:.300}", reason="bad_row")))
        return ({"signals": rows} if rows else {}), bad

    async def _send(self, table: str, rows: list[Any], token: str, records: dict[int, Any]) -> None:
        attempt = 0
        while True:
            try:
                await insert_rows(self._client, table, rows, token)
                self.inserted += len(rows)
                self.waits_for_tables = False
                return
            except ContractError as exc:
                # One row does not fit. Halves find it, the same ones after a crash, so that their tokens are the same.
                if len(rows) == 1:
                    await self._leave_out(table, rows[0], exc, records)
                    return
                half = len(rows) // 2
                await self._send(table, rows[:half], f"{token}-a", records)
                await self._send(table, rows[half:], f"{token}-b", records)
                return
            except TransientError as exc:
                wait = RETRY_S[min(attempt, len(RETRY_S) - 1)]
                attempt += 1
                self.retries += 1
                self.waits_for_tables = True
                log.warning("ClickHouse is away; the same rows are sent again", table=table, error=str(exc), in_s=wait)
                await asyncio.sleep(wait)

    async def _leave_out(self, table: str, row: Any, exc: ContractError, records: dict[int, Any]) -> None:
        self.left_out += 1
        log.error("a row does not fit its table and is left out", table=table, why=str(exc))
        record = records.get(row[COLUMNS[table].index("journal_offset")]) if table != "signals" else None
        record = record or next((r for r in records.values() if table == "signals" and r.key == row[1].encode()), None)
        if record is not None:
            await self._appender.dead_letter(
                self._topics.dead_letters, record, reason=exc.reason, why=str(exc), consumer="sink"
            )

    async def _commit(self) -> None:
        offsets = {tp: (j.watermark, j.progress) for tp, j in self._journals.items()}
        offsets |= {tp: (p.through + 1, p) for tp, p in self._signals.items()}
        wanted = {tp: (max(offset, 0), msgspec.json.encode(p).decode()) for tp, (offset, p) in offsets.items()}
        await self._reading.commit(wanted)

    async def _settled_at(self, tp: TopicPartition) -> int | None:
        held = self._held.get(tp)
        return int(held[0].offset) if held else await self._reading.position(tp)

    def _progress(self, tp: TopicPartition) -> Progress:
        return self._journals[tp].progress if tp in self._journals else self._signals[tp]

    async def _ends(self, topic: str) -> dict[TopicPartition, int]:
        return {tp: end for tp, (_, end) in (await offsets_of(self._address, topic)).items()}


def _row_of_signal(record: Any) -> Any:
    signal, published = read_signal(record)
    return signal_row(
        signal,
        run_id=published.run_id,
        cause_id=published.cause_id,
        journal_topic=published.journal_topic,
        journal_partition=published.journal_partition,
        journal_offset=published.journal_offset,
        emitted_ms=record.timestamp,
    )
