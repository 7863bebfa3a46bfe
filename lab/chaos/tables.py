"""Compares the tables with the log after a run: every accepted event, call and signal must be there exactly once."""

from __future__ import annotations

import asyncio
import time

import msgspec

from infra.clickhouse.client import ClickHouse
from lab.chaos.tally import CALLS_A_RECORD, Tally, place
from schemas.topics import RESEARCH_TOPIC

STILL_S = 30.0
"""A sink that inserts nothing for this long has either caught up or is stuck."""


class Compared(msgspec.Struct, frozen=True):
    """The comparison of one table with the log. Rows are counted as stored, without ``FINAL``."""

    table: str
    expected: int
    lost: int
    duplicates: int
    strange: int

    @property
    def exact(self) -> bool:
        return not (self.lost or self.duplicates or self.strange)


async def compare_tables(client: ClickHouse, tally: Tally) -> list[Compared]:
    """Wait until the tables hold as many rows as the log says, or stop growing; then compare row by row."""
    wanted = {table: len(keys) for table, keys in tally.rows.items()}
    held, since = await _held(client, wanted), time.monotonic()
    while any(held[table] < count for table, count in wanted.items()) and time.monotonic() - since < STILL_S:
        await asyncio.sleep(0.5)
        now = await _held(client, wanted)
        if now != held:
            held, since = now, time.monotonic()
    return [await _compared(client, table, keys) for table, keys in tally.rows.items()]


async def _held(client: ClickHouse, tables: dict[str, int]) -> dict[str, int]:
    return {table: int((await client.query(f"SELECT count() FROM {table}")).rows[0][0]) for table in tables}


async def _compared(client: ClickHouse, table: str, keys: set[int]) -> Compared:
    of_calls = table.endswith("_calls")
    index = ", call_index" if of_calls else ""
    research = f"endsWith(journal_topic, '{RESEARCH_TOPIC}')"
    found = await client.query(f"SELECT {research}, journal_partition, journal_offset{index} FROM {table}")
    places = ((place(partition, offset, research=bool(of)), more) for of, partition, offset, *more in found.rows)
    rows = [at * CALLS_A_RECORD + more[0] if of_calls else at for at, more in places]
    distinct = set(rows)
    return Compared(table, len(keys), len(keys - distinct), len(rows) - len(distinct), len(distinct - keys))
