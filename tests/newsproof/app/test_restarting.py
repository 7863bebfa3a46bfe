"""The keeper of embedded servers: one that hangs is killed and comes back, and one that is busy is left alone."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path

import pytest

from infra.clickhouse.client import Address, connect
from infra.embedded.clickhouse.protocol import QUERY_THREADS
from infra.embedded.clickhouse.server import EmbeddedClickHouse
from infra.embedded.kafka.server import EmbeddedKafka
from newsproof.app import restarting
from newsproof.app.restarting import ASK_EVERY_S, HANGS_AFTER, KeptServer


@pytest.fixture
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(restarting, "ASK_EVERY_S", 1.0)  # a busy server that is well answers within it
    monkeypatch.setattr(restarting, "BACKOFF_S", (0.0,))


@asynccontextmanager
async def kept(server: KeptServer) -> AsyncIterator[Callable[[str], asyncio.Future[str]]]:
    """Keep it; yields a function that waits for a message with these words."""
    said: list[str] = []
    spoke = asyncio.Condition()

    def say(text: str) -> None:
        said.append(text)
        asyncio.ensure_future(tell())  # noqa: RUF006 - ends at once

    async def tell() -> None:
        async with spoke:
            spoke.notify_all()

    async def heard(words: str) -> str:
        async with asyncio.timeout(60), spoke:
            await spoke.wait_for(lambda: any(words in line for line in said))
        return next(line for line in said if words in line)

    keeping = asyncio.create_task(server.keep(say))
    try:
        yield lambda words: asyncio.ensure_future(heard(words))
    finally:
        keeping.cancel()
        with suppress(asyncio.CancelledError):
            await keeping
        await server.stop()


@pytest.mark.usefixtures("_soon")
async def test_a_clickhouse_that_hangs_is_killed_and_comes_back_with_what_it_had_acknowledged(tmp_path: Path) -> None:
    engine = EmbeddedClickHouse(tmp_path, memory_bytes=1024**3)
    await engine.start()
    server = KeptServer(
        "ClickHouse", engine, partial(EmbeddedClickHouse, tmp_path, port=engine.port, memory_bytes=1024**3)
    )
    async with (
        kept(server) as heard,
        connect(Address(host=engine.host, port=engine.port), database="default") as client,
    ):
        await client.command("CREATE DATABASE kept")
        await client.command("CREATE TABLE kept.t (n UInt64) ENGINE = MergeTree ORDER BY n")
        await client.insert("kept.t", ["n"], [(1,), (2,)])
        frozen = engine.pid
        os.kill(frozen, signal.SIGSTOP)
        said = await heard("did not respond")
        assert said == "the embedded ClickHouse did not respond for 3 s and was killed; restarting it in 0 s"
        await heard("is running again")
        assert (await client.query("SELECT sum(n) FROM kept.t")).rows == [(3,)]
    assert server.restarts == 1
    with pytest.raises(ProcessLookupError):
        os.kill(frozen, 0)


@pytest.mark.slow
@pytest.mark.usefixtures("_soon")
async def test_a_kafka_that_hangs_is_killed_and_comes_back(tmp_path: Path) -> None:
    broker = EmbeddedKafka(tmp_path)
    await broker.start()
    server = KeptServer("Kafka", broker)
    async with kept(server) as heard:
        frozen = broker.pid
        os.kill(frozen, signal.SIGSTOP)
        await heard("the embedded Kafka did not respond for 3 s and was killed")
        await heard("is running again")
        assert broker.pid != frozen and await broker.responds()


async def test_an_engine_whose_threads_all_work_is_not_taken_for_one_that_hangs(tmp_path: Path) -> None:
    async with EmbeddedClickHouse(tmp_path, memory_bytes=1024**3) as engine:
        address = Address(host=engine.host, port=engine.port)
        async with connect(address, database="default") as client:
            long = "SELECT sleepEachRow(1) FROM numbers(60) SETTINGS max_block_size = 1"
            reports = [asyncio.create_task(client.query(long)) for _ in range(QUERY_THREADS)]
            with pytest.raises(TimeoutError):  # an ordinary query waits for a thread
                async with asyncio.timeout(20):
                    while True:
                        await asyncio.wait_for(client.query("SELECT 1"), 1.0)
            async with asyncio.timeout(ASK_EVERY_S):
                assert await engine.responds()
            assert not any(report.done() for report in reports)
            for report in reports:
                report.cancel()
            await asyncio.gather(*reports, return_exceptions=True)


async def test_questions_that_are_lost_now_and_then_restart_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(restarting, "ASK_EVERY_S", 0.001)
    asked: list[bool] = []
    enough = asyncio.Event()

    class Deaf:
        """It misses two questions of three."""

        data_dir = Path()
        running = True
        killed = False

        async def responds(self) -> bool:
            asked.append(len(asked) % HANGS_AFTER == HANGS_AFTER - 1)
            if len(asked) == 4 * HANGS_AFTER:
                enough.set()
            return asked[-1]

        async def start(self) -> None:
            raise AssertionError("it was restarted")

        async def stop(self) -> None: ...

        def kill(self) -> None:
            self.killed = True

    deaf = Deaf()
    server = KeptServer("server", deaf)
    async with kept(server):
        async with asyncio.timeout(30):
            await enough.wait()
    assert not deaf.killed and server.restarts == 0
