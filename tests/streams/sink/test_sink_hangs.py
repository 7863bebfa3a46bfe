"""A ClickHouse that hangs or is killed. Frozen with SIGSTOP, it holds the connection open and says nothing."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import pytest

import streams.sink.batches
from infra.clickhouse.client import Address, Block, ClickHouse, connect
from infra.clickhouse.migrate import migrate
from infra.embedded.child import free_ports
from infra.embedded.clickhouse.server import EmbeddedClickHouse
from newsproof.app.processes.health import sink_unready
from streams.sink.batches import ANSWER_WITHIN_S, Tables
from tests.conftest import FILLED
from tests.streams.sink.test_sink import CASES, close_cases, everything_is_there_once, settled, sinking
from tests.streams.world import World
from tests.virtual_time import run_virtually


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every wait by the clock a hundredth of what it is."""
    monkeypatch.setattr(streams.sink.batches, "ANSWER_WITHIN_S", tuple(s / 100 for s in ANSWER_WITHIN_S))
    monkeypatch.setattr("streams.journal.retry.PAUSES_S", (0.01,))


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedClickHouse]:
    """An engine of these tests alone, which may be frozen, or killed and started on its port again."""
    (port,) = free_ports(1)
    engine = EmbeddedClickHouse(tmp_path_factory.mktemp("clickhouse"), port=port, memory_bytes=1024**3)

    async def made() -> None:
        await engine.start()
        async with connect(Address(host=engine.host, port=engine.port), database="sink") as client:
            await migrate(client)

    asyncio.run(made())
    yield engine
    asyncio.run(engine.stop())


@pytest.fixture
async def tables(engine: EmbeddedClickHouse) -> AsyncIterator[ClickHouse]:
    """A client of its empty tables."""
    async with connect(Address(host=engine.host, port=engine.port), database="sink") as client:
        for (table,) in (await client.query(FILLED)).rows:
            await client.command(f"TRUNCATE TABLE {table}")
        try:
            yield client
        finally:
            os.kill(engine.pid, signal.SIGCONT)


class Freezing:
    """A client whose engine freezes in each of its first inserts, every time later: from before it has read a byte to
    after it has stored the rows and nobody has heard of it."""

    def __init__(self, client: ClickHouse, engine: EmbeddedClickHouse, *, freezes: int) -> None:
        self._client, self._engine, self._freezes = client, engine, freezes
        self._tokens: set[str | None] = set()

    @property
    def frozen(self) -> int:
        return len(self._tokens)

    async def insert_block(self, block: Block, *, token: str | None = None) -> None:
        if token in self._tokens or self.frozen == self._freezes:
            return await self._client.insert_block(block, token=token)
        sending = asyncio.create_task(self._client.insert_block(block, token=token))
        try:
            last = self.frozen == self._freezes - 1
            await asyncio.wait({sending}, timeout=None if last else 0.003 * self.frozen)
            self._tokens.add(token)
            os.kill(self._engine.pid, signal.SIGSTOP)
            await asyncio.Event().wait()  # what it answered, even while it froze, is lost
        finally:
            sending.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await sending

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)


@pytest.mark.slow
async def test_what_an_engine_took_or_not_when_it_froze_is_in_the_tables_once_when_it_thaws(
    world: World, engine: EmbeddedClickHouse, tables: ClickHouse
) -> None:
    await close_cases(world, *range(20))
    freezing = Freezing(tables, engine, freezes=6)
    async with sinking(world, freezing) as sink:
        for number in range(1, 7):
            # It freezes and is thawed again when the sink has said so and has sent the same rows again.
            await world.until(lambda number=number: freezing.frozen == number and sink.waits_for_tables)
            hung_at = sink.retries
            assert "hangs" in sink_unready(sink)["clickhouse"]
            await world.until(lambda hung_at=hung_at: sink.retries >= hung_at + 2)
            assert sink.waits_for_tables
            os.kill(engine.pid, signal.SIGCONT)
        await settled(world, sink)
        assert sink_unready(sink) == {}
    await everything_is_there_once(world, tables, 20)


@pytest.mark.slow
async def test_a_sink_catches_up_after_the_engine_was_killed_under_it_and_came_back(
    world: World, engine: EmbeddedClickHouse, tables: ClickHouse
) -> None:
    async with sinking(world, tables) as sink:
        await close_cases(world, *range(10))
        await settled(world, sink)
        engine.kill()
        await close_cases(world, *range(10, CASES))
        await world.until(lambda: sink.waits_for_tables, within_s=60)
        await engine.start()
        await world.until(lambda: not sink.waits_for_tables, within_s=60)
        await sink.caught_up(60)
    await everything_is_there_once(world, tables, CASES)


@pytest.mark.slow
async def test_a_body_larger_than_what_sockets_hold_waits_no_longer(
    engine: EmbeddedClickHouse, tables: ClickHouse
) -> None:
    # The client's own read timeout begins when the whole body is sent, which never is.
    await tables.command("CREATE TABLE sink.large (body String) ENGINE = MergeTree ORDER BY tuple()"
                         " SETTINGS non_replicated_deduplication_window = 100")  # fmt: skip
    block = await tables.block("large", ["body"], [(os.urandom(64).hex() * 1024,) for _ in range(400)])
    assert len(block.body) > 50_000_000
    os.kill(engine.pid, signal.SIGSTOP)
    sink = Tables(tables)
    inserting = asyncio.create_task(sink.insert(block, "one"))
    async with asyncio.timeout(30):
        while sink.retries < 3:  # noqa: ASYNC110 - what it counts sends no event
            await asyncio.sleep(0.01)
        os.kill(engine.pid, signal.SIGCONT)
        await inserting
    assert (await tables.query("SELECT count() FROM large")).rows == [(400,)]


async def test_preparing_the_next_batch_does_not_say_that_a_hanging_insert_is_well() -> None:
    asked: list[str] = []

    async def hang(*_: Any, **__: Any) -> None:
        asked.append("insert")
        await asyncio.Event().wait()

    async def prepared(*_: Any) -> str:
        return "a block"

    tables: Any = Tables(SimpleNamespace(insert_block=hang, block=prepared))  # type: ignore[arg-type]
    inserting = asyncio.create_task(tables.insert(Block(table="events", rows=1, body=b""), "token"))
    async with asyncio.timeout(10):
        while not tables.waiting:  # noqa: ASYNC110 - as above
            await asyncio.sleep(0)
    assert await tables.block("events", [()]) == "a block"
    assert tables.waits_for == {"an insert into events": "it hangs: it does not respond to an insert into events"}
    inserting.cancel()
    with suppress(asyncio.CancelledError):
        await inserting
    assert tables.waits_for == {} and asked


def test_an_insert_that_takes_long_is_given_longer_until_it_gets_through() -> None:
    took: list[float] = []

    async def slow(*_: Any, **__: Any) -> None:
        began = asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout(0.5):  # longer than two of the limits
                await asyncio.Event().wait()
        except TimeoutError:
            return
        finally:
            took.append(asyncio.get_running_loop().time() - began)

    tables = Tables(SimpleNamespace(insert_block=slow))  # type: ignore[arg-type]
    run_virtually(tables.insert(Block(table="events", rows=1, body=b""), "token"))
    assert tables.retries >= 3 and took == sorted(took) and tables.inserted == 1
