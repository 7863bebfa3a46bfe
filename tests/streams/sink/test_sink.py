"""The sink on a real engine: every record's rows once, through crashes at the worst moment and while ClickHouse is away."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from infra.clickhouse.client import ClickHouse
from streams.sink.sink import Sink
from tests.plain_graph import plain_registry
from tests.streams.world import World, news

CASES = 40
EVENTS_OF_A_CASE, CALLS_OF_A_CASE = 6, 4
OTHER_ROWS_OF_A_CASE = 3
"""A signal, a row of memory, and the news."""


@pytest.fixture
def tables(clickhouse: ClickHouse) -> ClickHouse:
    return clickhouse


class Breaking:
    """A client whose n-th insert reaches the tables, and whose caller dies before it hears of it."""

    def __init__(self, client: ClickHouse, breaks_at: int) -> None:
        self._client, self._left = client, breaks_at

    async def insert_block(self, *args: Any, **kwargs: Any) -> None:
        await self._client.insert_block(*args, **kwargs)
        self._left -= 1
        if self._left == 0:
            raise SystemError("the sink dies here")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)


@asynccontextmanager
async def sinking(world: World, client: Any) -> AsyncIterator[Sink]:
    sink = Sink(world.address, world.topics, client, registry=plain_registry(asks=True))
    async with world._while_running(sink.run()):
        try:
            yield sink
        finally:
            sink.stop()


async def settled(world: World, sink: Sink) -> None:
    """Wait until the sink has everything that is in the log now."""
    await world.until(lambda: sink._settled)
    await sink.caught_up(30)


async def close_cases(world: World, *numbers: Any) -> None:
    """Close a case for each number, or fields of news, and publish its signal."""
    async with world.publishing(), world.working(plain_registry(asks=True)):
        await world.publish(*numbers)
        before = len(await world.signals())

        async def there() -> bool:
            return len(await world.signals()) == before + len(numbers)

        await world.until(there, within_s=40)


async def rows(client: ClickHouse, table: str) -> int:
    """Rows that are really there: without FINAL, which would hide what was inserted twice."""
    return int((await client.query(f"SELECT count() FROM {table}")).rows[0][0])


async def everything_is_there_once(world: World, client: ClickHouse, cases: int) -> None:
    journal = await world.journal()
    assert len(journal) == cases * EVENTS_OF_A_CASE
    assert await rows(client, "events") == len(journal)
    assert await rows(client, "llm_calls") == cases * CALLS_OF_A_CASE
    assert await rows(client, "signals") == cases
    [distinct] = (await client.query("SELECT uniqExact(event_id) FROM events")).rows
    assert distinct[0] == len(journal)


@pytest.mark.slow
async def test_a_restart_goes_on_where_the_sink_ended_and_repeats_nothing(world: World, tables: ClickHouse) -> None:
    await close_cases(world, *range(10))
    async with sinking(world, tables) as sink:
        await settled(world, sink)
    await close_cases(world, *range(10, 20))
    async with sinking(world, tables) as sink:
        await settled(world, sink)
        assert sink.inserted == 10 * (EVENTS_OF_A_CASE + CALLS_OF_A_CASE + OTHER_ROWS_OF_A_CASE)
    await everything_is_there_once(world, tables, 20)


async def test_a_signals_row_names_its_journal_record_and_a_case_is_remembered_by_its_news_keywords(
    world: World, tables: ClickHouse
) -> None:
    await close_cases(world, news(1, keywords_hit=["ETF", "etf", "SEC"]), news(2))
    async with sinking(world, tables) as sink:
        await settled(world, sink)
    rows = (await tables.query("SELECT case_id, cause_id FROM signals")).rows
    of_event = {f.envelope.id: f.envelope.case_id for f in await world.journal() if f.envelope}
    assert len(rows) == 2 and all(of_event[str(cause)] == str(case) for case, cause in rows)
    assert (await tables.query("SELECT keywords FROM memories ORDER BY keywords")).rows == [([],), (["etf", "sec"],)]


@pytest.mark.slow
async def test_a_chat_lands_in_the_same_tables_under_a_run_of_its_own(world: World, tables: ClickHouse) -> None:
    from tests.streams.runtime import test_research as chat

    await close_cases(world, 1)
    async with world.working(chat.research(), ports=chat.ports(chat.Watched()), snapshot=chat.SNAPSHOT):
        events = await chat.until_ended(world, await chat.ask(world))
    for _ in range(2):  # a second sink goes on where the first ended
        async with sinking(world, tables) as sink:
            await settled(world, sink)
    counted = "SELECT run_id, count(), uniqExact(event_id) FROM events GROUP BY run_id ORDER BY run_id"
    assert [tuple(r) for r in (await tables.query(counted)).rows] == [
        ("live", EVENTS_OF_A_CASE, EVENTS_OF_A_CASE),
        ("research", len(events), len(events)),
    ]
    spent = "SELECT step, llm_calls, unpriced_calls FROM v_cost_by_step WHERE run_id = 'research' AND llm_calls > 0"
    assert [tuple(r) for r in (await tables.query(spent)).rows] == [
        ("analyze", 3, 0), ("answer", 1, 0), ("plan", 1, 0), ("route", 1, 0),
    ]  # fmt: skip
