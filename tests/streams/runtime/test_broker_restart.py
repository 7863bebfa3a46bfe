"""The broker dies under running workers, publisher and sink, and comes back: all of them go on by themselves."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path

import pytest

from infra.clickhouse.client import connect
from infra.clickhouse.migrate import migrate
from infra.embedded.clickhouse.server import EmbeddedClickHouse
from infra.embedded.kafka.server import EmbeddedKafka
from streams.audit.audit import audit
from streams.journal.log import KafkaLog
from streams.sink.sink import Sink
from tests.plain_graph import plain_registry, simulated_ports
from tests.streams.world import World

CASES = 60
_numbers = count()


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[EmbeddedKafka]:
    """A broker of this test's own, that may be killed."""
    async with EmbeddedKafka(tmp_path / "kafka") as server:
        yield server


@pytest.mark.slow
@pytest.mark.timeout(400)
async def test_a_killed_broker_loses_nothing_and_all_go_on_in_the_same_process(
    broker: EmbeddedKafka, clickhouse_engine: EmbeddedClickHouse, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    address = broker.address
    url = f"http://{clickhouse_engine.host}:{clickhouse_engine.port}"
    async with (
        World.made(address, "restart.", tmp_path / "slots", partitions=2) as world,
        connect(url, database=f"restart{next(_numbers)}") as client,
    ):
        await migrate(client)
        registry, ports = plain_registry(asks=True), simulated_ports(0.1)
        sink = Sink(address, world.topics, client)
        async with (
            _sinking(world, sink),
            world.publishing() as publisher,
            world.working(registry, ports=ports, slot="a", max_open_cases=20) as a,
            world.working(registry, ports=ports, slot="b", max_open_cases=20) as b,
        ):
            await world.publish(*range(CASES))
            await world.until(lambda: publisher.published > 5 and sink.inserted > 0)
            broker.kill()
            began = time.monotonic()
            await broker.start()
            serves = time.monotonic() - began
            before = a.projector.folded + b.projector.folded
            await world.publish(CASES)  # all of the others may have been folded before the kill
            await world.until(lambda: a.projector.folded + b.projector.folded > before, within_s=120)
            goes_on = time.monotonic() - began
            await world.until_closed(CASES + 1, within_s=120)
            await world.until(lambda: _published(world), within_s=120)
            published = time.monotonic() - began
            await sink.caught_up(timeout_s=120)
            sunk = time.monotonic() - began
        with capsys.disabled():
            print(
                f"\nafter a SIGKILL: the broker serves again in {serves:.1f} s, workers fold in {goes_on:.1f} s, all is "
                f"published in {published:.1f} s and in the tables in {sunk:.1f} s"
            )
        report = await audit(KafkaLog(address), world.topics)
        assert (report.cases, report.signals, report.lost, report.duplicate_events) == (CASES + 1, CASES + 1, 0, 0)
        found = await client.query("SELECT uniqExact(case_id), count() FROM signals")
        assert found.rows == [(CASES + 1, CASES + 1)]


@asynccontextmanager
async def _sinking(world: World, sink: Sink) -> AsyncIterator[None]:
    async with world._while_running(sink.run()):
        try:
            yield
        finally:
            sink.stop()


async def _published(world: World) -> bool:
    return len(await world.signals()) == CASES + 1
