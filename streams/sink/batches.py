"""Batches of the sink: one offset range of one partition, converted to blocks before its insert.

A batch is prepared in memory while the previous one is inserted. Its range is written into the commit only at its
turn. It keeps the watermark as of its end, because a later watermark may lie after records that are not inserted yet.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol, TypeVar

import msgspec
import structlog
from aiokafka import TopicPartition

from infra.clickhouse.client import Block, ClickHouse
from infra.clickhouse.columns import COLUMNS
from infra.clickhouse.rows import Row, Rows, delivery_row, signal_row
from schemas.deliveries import decode as decode_delivery
from schemas.envelope import NewerSignalError, read_signal
from schemas.errors import ContractError, TransientError
from schemas.topics import NewerRecordError
from streams.journal.retry import retry_while_unavailable
from streams.sink.journal import Bad, Progress

T = TypeVar("T")
log = structlog.get_logger(__name__)

ANSWER_WITHIN_S = (10.0, 20.0, 40.0, 80.0, 120.0)
"""Timeouts for the attempts of one insert; the last one repeats. They grow, so that a block that takes longer on a slow
server or connection is inserted in the end."""
SLICE = 200
"""Records processed per turn of the event loop: a few milliseconds."""


class Source(Protocol):
    """One partition: the sink's position in it, and the rows of its next records."""

    progress: Progress

    @property
    def watermark(self) -> int:
        """The offset where a fold must start to know every open case."""
        ...

    def rows(self, records: Sequence[Any]) -> tuple[Rows, list[Bad]]:
        """Return the rows of records (in order, contiguous), and the records without rows."""
        ...


class Batch(msgspec.Struct, frozen=True, kw_only=True):
    """One range: its ``blocks`` with their tokens. ``bad`` become dead letters. ``fresh``: not inserted before."""

    tp: TopicPartition
    last: int
    watermark: int
    fresh: bool
    blocks: list[tuple[Block, str]]
    bad: list[Bad]
    left_out: int = 0


class SinkTable:
    """One partition of a topic whose records are rows of one table. Nothing is folded: the watermark is the insert position.

    ``row_of``: record → row; its ``ContractError`` makes the record a dead letter, unless newer code wrote the record.
    """

    def __init__(self, progress: Progress, table: str, row_of: Callable[[Any], Row]) -> None:
        self.progress = progress
        self._table, self._row_of = table, row_of
        self._read = progress.through

    @property
    def watermark(self) -> int:
        """The offset after the last record read."""
        return self._read + 1

    def rows(self, records: Sequence[Any]) -> tuple[Rows, list[Bad]]:
        """Return the rows of records (in order), and the records without rows."""
        rows: list[Any] = []
        bad: list[Bad] = []
        for record in records:
            if record.offset <= self.progress.through:
                continue
            try:
                rows.append(self._row_of(record))
            except (NewerSignalError, NewerRecordError):
                raise
            except ContractError as exc:
                bad.append((record, exc))
            except Exception as exc:  # any error in the mapping that a decodable record's values cause
                bad.append((record, ContractError(f"the record cannot become a row: {exc!r:.300}", reason="bad_row")))
        self._read = max(self._read, records[-1].offset)
        return ({self._table: rows} if rows else {}), bad


class Tables:
    """Inserts into the tables, and retries while they are unavailable.

    An attempt without a response within :data:`ANSWER_WITHIN_S` is repeated with the same token: a hanging server holds
    the connection open, and a client's read timeout starts only after the whole body is sent.

    ``waits_for``: what ClickHouse does not accept now, and why. ``retries``: number of repeated inserts.
    """

    def __init__(self, client: ClickHouse) -> None:
        self._client = client
        self.waits_for: dict[str, str] = {}
        self.retries = self.inserted = 0

    @property
    def waiting(self) -> bool:
        """True if ClickHouse accepts no rows now."""
        return bool(self.waits_for)

    async def block(self, table: str, rows: list[Any]) -> Block:
        """Encode the rows of one insert. The first call for a table asks ClickHouse for its columns."""
        return await self._retried(
            f"a question for the columns of {table}", lambda: self._client.block(table, COLUMNS[table], rows)
        )

    async def insert(self, block: Block, token: str) -> None:
        """Insert a block, however long that takes."""
        await self._retried(f"an insert into {block.table}", lambda: self._client.insert_block(block, token=token))
        self.inserted += block.rows

    async def _retried(self, what: str, work: Callable[[], Awaitable[T]]) -> T:
        within = iter(ANSWER_WITHIN_S)
        within_s = next(within)

        async def attempt() -> T:
            nonlocal within_s
            try:
                async with asyncio.timeout(within_s):
                    return await work()
            except TimeoutError as exc:
                unanswered_s, within_s = within_s, next(within, within_s)
                raise TransientError(f"{what} got no response for {unanswered_s:g} s", kind="timeout") from exc

        def wait(exc: Exception) -> None:
            self.waits_for[what] = why_not(exc, what)
            self.retries += 1

        try:
            return await retry_while_unavailable(attempt, f"ClickHouse, {what}", on_wait=wait)
        finally:
            # Only this one: the next batch may be prepared while this batch's insert fails.
            self.waits_for.pop(what, None)


def why_not(exc: Exception, what: str) -> str:
    """Return why ClickHouse does not accept ``what``, in words."""
    # Never the engine's own text: /readyz is open to anyone who reaches its port.
    match exc:
        case TransientError(kind="timeout"):
            return f"it hangs: it does not respond to {what}"
        case TransientError(kind="unavailable"):
            return f"it refuses {what} for now"
        case _:
            return "it is away"


async def build_batch(tp: TopicPartition, records: list[Any], source: Source, tables: Tables) -> Batch:
    """Return the batch of one range. Waits until ClickHouse has once reported its columns."""
    rows: Rows = {}
    bad: list[Bad] = []
    through = source.progress.through
    for first in range(0, len(records), SLICE):
        more, worse = source.rows(records[first : first + SLICE])
        bad += [refusal for refusal in worse if refusal[0].offset > through]
        for table, of_table in more.items():
            rows.setdefault(table, []).extend(of_table)
        await asyncio.sleep(0)
    fresh = [r for r in records if r.offset > through]
    blocks: list[tuple[Block, str]] = []
    left_out: list[Bad] = []
    for table, of_table in rows.items():
        token = f"{tp.topic}-{tp.partition}-{fresh[0].offset}-{fresh[-1].offset}-{table}"
        await _blocks(tables, table, of_table, token, fresh, blocks, left_out)
    return Batch(
        tp=tp,
        last=records[-1].offset,
        watermark=source.watermark,
        fresh=bool(fresh),
        blocks=blocks,
        bad=[(record, exc) for record, exc in bad + left_out if record is not None],
        left_out=len(left_out),
    )


async def _blocks(
    tables: Tables,
    table: str,
    rows: list[Any],
    token: str,
    records: list[Any],
    into: list[tuple[Block, str]],
    left_out: list[Bad],
) -> None:
    try:
        into.append((await tables.block(table, rows), f"{table}-{token}"))
    except ContractError as exc:
        # One row does not fit. Bisection finds it, with the same halves after a crash, so that the tokens are equal.
        if len(rows) == 1:
            log.error("a row does not fit its table and is skipped", table=table, why=str(exc))
            left_out.append((_record_of(table, rows[0], records), exc))
            return
        half = len(rows) // 2
        await _blocks(tables, table, rows[:half], f"{token}-a", records, into, left_out)
        await _blocks(tables, table, rows[half:], f"{token}-b", records, into, left_out)


def _record_of(table: str, row: Any, records: list[Any]) -> Any:
    if table == "signals":
        return next((r for r in records if r.key == row[1].encode()), None)
    offset = row[COLUMNS[table].index("journal_offset")]
    return next((r for r in records if r.offset == offset), None)


def row_of_signal(record: Any) -> Row:
    """Return the row of a record of ``signals``."""
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


def row_of_delivery(record: Any) -> Row:
    """Return the row of a record of ``deliveries``."""
    return delivery_row(
        decode_delivery(record.value),
        appended_ms=record.timestamp,
        journal_topic=record.topic,
        journal_partition=record.partition,
        journal_offset=record.offset,
    )
