"""Vectors that cases pay for, from the recall through the journal into the table; and what a rebuild keeps of them."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from agents.core.registry import Registry
from agents.graphs import NEWS
from agents.verification.recall import STEP
from infra.clickhouse.client import ClickHouse, connect
from infra.clickhouse.memory import ClickHouseMemory
from infra.models.embeddings.hashing import EMBEDDING_MODEL
from infra.models.embeddings.port import Embedded, unpacked
from infra.offline.simulated import Simulated
from infra.ports import Ports
from newsproof.cli.operate.record import Rebuilt, rebuild
from schemas.effects import RecallReply
from schemas.events import ContextGathered
from tests.plain_graph import plain_registry
from tests.streams.sink.test_sink import settled, sinking, tables
from tests.streams.world import World, news

__all__ = ["tables"]

REGISTRY = Registry(
    [STEP if step.name == "recall" else step for step in plain_registry(asks=False).steps.values()], NEWS
)


class Paid:
    """A provider whose vectors lie a little apart, each text's own."""

    provider, model, rows = "acme", "vec-1", "acme:vec-1:4"

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def embed(self, text: str) -> Embedded:
        self.asked.append(text)
        last = ord(text[-1]) % 50
        return Embedded(vector=[127, last, 0, 0], cost_usd=Decimal("0.001"), cost_source="acme's list")

    def worst_case_usd(self, text: str) -> Decimal | None:
        return Decimal("0.002")

    async def close(self) -> None:
        pass


async def judged(world: World, client: ClickHouse, embedder: Any, *items: Any) -> None:
    """Let a worker judge these news, its memory searched by this provider; return when their cases are closed."""
    own = connect(client.address, database=client.database)
    simulated = Simulated()
    ports = Ports(
        models={"light": simulated, "heavy": simulated},
        search={},
        recall=ClickHouseMemory(own, embedder=embedder, timeout_s=30.0),
        earlier=simulated,
    )
    closed = sum(count for name, count in (await world.counted()).items() if name == "SignalSynthesized")
    async with world.working(REGISTRY, ports=ports):
        await world.publish(*items)
        await world.until_closed(closed + len(items), within_s=60.0)


async def remembered(client: ClickHouse) -> list[tuple[Any, ...]]:
    return (await client.query("SELECT case_id, embedding_model, embedding FROM memories ORDER BY ALL")).rows


async def rebuilt(world: World, client: ClickHouse) -> Rebuilt:
    return await rebuild(world.address, world.topics, client, registry=REGISTRY)


@pytest.mark.slow
async def test_a_case_pays_once_and_is_found_by_what_it_paid_for_also_after_a_rebuild(
    world: World, tables: ClickHouse
) -> None:
    paid = Paid()
    async with sinking(world, tables) as sink:
        await judged(world, tables, paid, 1)
        await settled(world, sink)
        now = datetime.now(UTC).isoformat()
        await judged(world, tables, paid, news(2, published_at=now))
        await settled(world, sink)
    assert paid.asked == ["news number 1", "news number 2"]
    gathered = [f.event for f in await world.journal() if isinstance(f.event, ContextGathered)]
    first, second = sorted(gathered, key=lambda event: event.calls[0].replied_at)
    assert (first.memory, second.memory) == ("no_match", "found")
    for event in (first, second):
        (call,) = event.calls
        assert (call.kind, call.provider, call.model, call.cost_usd) == ("recall", "acme", "vec-1", Decimal("0.001"))
        assert isinstance(call.reply, RecallReply)
        assert call.reply.embedding is not None
        assert unpacked(call.reply.embedding) in [row[2] for row in await remembered(tables)]
    made = await remembered(tables)
    assert [model for _, model, _ in made] == [Paid.rows, EMBEDDING_MODEL] * 2
    done = await rebuilt(world, tables)
    assert (done.memories, done.same) == (4, 4)
    assert await remembered(tables) == made


@pytest.mark.slow
async def test_a_rebuild_carries_over_vectors_that_the_log_does_not_hold(world: World, tables: ClickHouse) -> None:
    async with sinking(world, tables) as sink:
        await judged(world, tables, None, 1, 2)
        await settled(world, sink)
    bought = f"'{Paid.rows}' AS embedding_model, [127, 1, 0, 0] AS embedding"
    await tables.command(f"INSERT INTO memories SELECT * REPLACE ({bought}) FROM memories")
    made = await remembered(tables)
    assert [model for _, model, _ in made] == [Paid.rows, EMBEDDING_MODEL] * 2
    done = await rebuilt(world, tables)
    assert (done.memories, done.same) == (4, 4)
    assert await remembered(tables) == made
