"""/metrics, /healthz and /readyz of a worker and the sink, and the dashboard that is drawn from them."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families
from structlog.testing import CapturingLogger

from agents.core.registry import Registry
from infra.clickhouse.client import ClickHouse
from infra.offline.simulated import Simulated
from infra.ports import Answer, Ports
from infra.settings import Settings
from newsproof.app.processes.bots import BotMetrics
from newsproof.app.processes.health import STUCK_S, HealthServer, sink_unready, worker_unready
from newsproof.app.processes.metrics import ListenerMetrics, SinkMetrics, WorkerMetrics
from schemas.budget import LimitsSet
from schemas.effects import CallModel
from schemas.errors import PermanentError
from streams.budget.budget import BudgetLedger
from streams.effects import meter
from streams.ending import Ending
from streams.publish.publisher import Publisher
from streams.sink.sink import Sink
from streams.wake import Wake
from streams.worker import Worker
from tests.plain_graph import plain_registry
from tests.streams.graphs import degrading
from tests.streams.world import World
from tests.test_frozen_surfaces import bot, listener

PROJECT = Path(__file__).parents[3]
GRAFANA = PROJECT / "infra" / "grafana"
LIMITS = LimitsSet(monthly_usd=Decimal(30), triage_reserve_usd=Decimal(3), daily_units=50, allow_unpriced=False, by="0")


class Refusing(Simulated):
    """Every model says that the key is wrong."""

    async def perform(self, effect: Any) -> Answer:
        if isinstance(effect, CallModel):
            raise PermanentError("wrong key", kind="auth")
        return await super().perform(effect)


_refusing = Refusing()
REFUSED = Ports(
    models={"light": _refusing, "heavy": _refusing},
    search={"simulated": _refusing},
    recall=_refusing,
    earlier=_refusing,
)


@asynccontextmanager
async def served(collector: Any, unready: Any) -> AsyncIterator[HealthServer]:
    health = HealthServer(Settings(metrics_port=0), collector, unready)
    health.start()
    try:
        yield health
    finally:
        health.stop()


@asynccontextmanager
async def working(
    world: World, registry: Registry, **options: Any
) -> AsyncIterator[tuple[Worker, Publisher, HealthServer]]:
    """A worker, the publisher beside it, and their pages."""
    async with (
        world.working(registry, **options) as worker,
        world.publishing() as publisher,
        served(WorkerMetrics(worker, publisher), lambda: worker_unready(worker, publisher)) as health,
    ):
        yield worker, publisher, health


async def get(health: HealthServer, page: str) -> httpx.Response:
    async with httpx.AsyncClient(trust_env=False, timeout=30) as http:
        return await http.get(f"http://127.0.0.1:{health.port}{page}")


async def scraped(health: HealthServer) -> dict[tuple[str, ...], float]:
    """Every sample: (name, label values in the order of the labels' names…) → value."""
    text = (await get(health, "/metrics")).text
    return {
        (sample.name, *(v for _, v in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


@pytest.mark.slow
async def test_a_worker_says_what_it_waits_for_and_then_that_it_is_ready(world: World) -> None:
    await world.publish(1, 2, 3)
    async with working(world, plain_registry(asks=True)) as (_, _, health):
        first = await get(health, "/readyz")
        assert first.status_code == 503 and first.json()["ready"] is False
        assert {"kafka", "publisher"} <= set(first.json()["waits_for"])

        async def ready() -> bool:
            return (await get(health, "/readyz")).status_code == 200

        await world.until(ready)
        assert (await get(health, "/readyz")).json() == {"ready": True, "waits_for": {}}
        assert (await get(health, "/healthz")).json()["alive"] is True
        assert (await get(health, "/elsewhere")).status_code == 404


class EveryLevel(CapturingLogger):
    """Keeps what is logged at any level."""

    def is_enabled_for(self, _level: int) -> bool:
        return True


@pytest.mark.slow
async def test_results_are_counted_and_logged_once_and_a_replay_counts_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = EveryLevel()
    monkeypatch.setattr(meter, "log", lines)
    await world.publish(*range(4))
    async with working(world, plain_registry(asks=True)) as (worker, publisher, health):
        report = await world.until_closed(4)
        await world.until(lambda: publisher.published == 4)
        got = await scraped(health)
        assert got["newsproof_cases_opened_total",] == 4
        assert got["newsproof_cases_ended_total", "SignalSynthesized"] == 4
        assert got["newsproof_signals_published_total",] == 4
        assert sum(v for k, v in got.items() if k[0] == "newsproof_calls_total") == report.calls
        assert sum(v for k, v in got.items() if k[0] == "newsproof_step_seconds_count") == report.events - 4
        cost = sum(v for k, v in got.items() if k[0] == "newsproof_cost_usd_total")
        assert cost == pytest.approx(0.001 * report.calls)
        steps = [call.kwargs for call in lines.calls if call.method_name == "debug"]
        ends = [call.kwargs for call in lines.calls if call.method_name == "info"]
        assert len(steps) == report.events - 4 and len(ends) == 4
        fields = {"case", "outcome", "latency_ms", "tokens", "cost_usd"}
        assert all(set(line) >= fields | {"step"} for line in steps)
        assert all(set(line) == fields | {"steps"} for line in ends)
        assert sum(line["cost_usd"] for line in steps) == pytest.approx(cost)
        assert sum(line["cost_usd"] for line in ends) == pytest.approx(cost)
        assert sum(line["steps"] for line in ends) == len(steps)
        assert [line["outcome"] for line in ends] == ["SignalSynthesized"] * 4
        assert got["newsproof_publisher_active",] == 1
        lags = [v for k, v in got.items() if k[0] == "newsproof_consumer_lag"]
        assert lags and max(lags) == 0
    async with world.working(plain_registry(asks=True), slot="1") as worker:
        await world.until(lambda: worker.assigned and all(p.live for p in worker.projector.partitions.values()))
        assert sum(worker.meter.calls.values()) == 0 and not worker.meter.step_seconds
    assert len(lines.calls) == len(steps) + len(ends)


async def test_failures_are_counted_by_step_and_kind_and_letters_by_reason(world: World) -> None:
    await world.publish(1, b"{broken")
    async with working(world, degrading(asks=True), ports=REFUSED) as (worker, _, health):
        await world.until_closed(1)
        await world.until(lambda: worker.appender.dead_letters["not_json"] == 1)
        got = await scraped(health)
    failures = {k[1:]: v for k, v in got.items() if k[0] == "newsproof_step_failures_total"}
    assert failures and {kind for kind, _ in failures} == {"auth"}
    assert got["newsproof_dead_letters_total", "not_json"] == 1


async def test_a_loop_that_does_not_turn_is_said_by_a_thread_that_does(monkeypatch: pytest.MonkeyPatch) -> None:
    # Longer than a machine under load lets any loop wait for its turn.
    monkeypatch.setattr("newsproof.app.processes.health.STUCK_S", 1.0)
    async with served(_Nothing(), dict) as health:
        assert (await get(health, "/healthz")).status_code == 200
        held_up_until_it_is_said(f"http://127.0.0.1:{health.port}")
    assert 3 * Settings.model_fields["session_timeout_seconds"].default <= STUCK_S


@pytest.mark.security
async def test_a_stall_of_the_loop_is_counted_with_its_length() -> None:
    async with served(_Nothing(), dict) as health:
        await asyncio.sleep(0)
        held_up = time.monotonic() + 0.6
        while time.monotonic() < held_up:
            pass
        await asyncio.sleep(0)
        got = await scraped(health)
        all_beats, punctual = (got["newsproof_loop_stall_seconds_bucket", bound] for bound in ("+Inf", "0.25"))
        assert all_beats > punctual
        assert 0.5 <= got["newsproof_loop_stall_seconds_sum",] < 30


def held_up_until_it_is_said(url: str) -> None:
    """Block the loop that the server watches until the server says so."""
    with httpx.Client(trust_env=False, timeout=30) as http:
        until = time.monotonic() + 30
        while (said := http.get(f"{url}/healthz")).status_code == 200:
            assert time.monotonic() < until
        assert said.status_code == 503 and said.json()["alive"] is False
        assert "event loop" in http.get(f"{url}/readyz").json()["waits_for"]


class _Nothing:
    def collect(self) -> list[Any]:
        return []


@pytest.mark.slow
async def test_the_sink_says_how_far_behind_it_is_and_when_clickhouse_is_away(
    world: World, clickhouse: ClickHouse
) -> None:
    await world.publish(*range(3))
    async with world.working(plain_registry(asks=True)):
        await world.until_closed(3)
    sink = Sink(world.address, world.topics, clickhouse)
    async with served(SinkMetrics(sink), lambda: sink_unready(sink)) as health:
        assert (await get(health, "/readyz")).json()["waits_for"] == {"kafka": "no partitions are assigned yet"}
        running = asyncio.create_task(sink.run())
        await sink.caught_up()
        assert (await get(health, "/readyz")).status_code == 200
        got = await scraped(health)
        lags = [v for k, v in got.items() if k[0] == "newsproof_sink_lag"]
        journals_and_signals = 3 * world.partitions + 1  # and deliveries
        assert len(lags) == journals_and_signals and max(lags) == 0 and got["newsproof_sink_rows_inserted_total",] > 0
        sink._tables.waits_for["an insert into events"] = "it is away"
        assert "clickhouse" in (await get(health, "/readyz")).json()["waits_for"]
        sink.stop()
        await running


# The dashboard


def expressions() -> list[str]:
    dashboard = json.loads((GRAFANA / "dashboards" / "newsproof.json").read_text("utf-8"))
    return [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", ())]


def names_in(expression: str) -> set[str]:
    """The metrics of a PromQL expression: identifiers that are no functions, keywords, labels or legends."""
    bare = re.sub(r"\{[^}]*\}|\[[^\]]*\]|\b(?:by|without) \([^)]*\)", "", expression)
    return {name for name in re.findall(r"[a-z_][a-z0-9_]+\b(?!\s*\()", bare) if "_" in name or name == "up"}


async def test_every_metric_of_the_dashboard_is_exposed_and_the_other_way_round(
    world: World, clickhouse: ClickHouse
) -> None:
    budget = BudgetLedger(world.address, world.topics, LIMITS, Ending(), Wake())
    await budget.start()
    async with world.working(plain_registry(asks=True)) as worker:
        sink, publisher = Sink(world.address, world.topics, clickhouse), Publisher(world.address, world.topics)
        async with (
            served(WorkerMetrics(worker, publisher, budget), dict) as of_worker,
            served(SinkMetrics(sink), dict) as of_sink,
            served(ListenerMetrics(listener()), dict) as of_listener,
            served(BotMetrics(bot(), meter.Latencies()), dict) as of_bot,
        ):
            running = asyncio.create_task(sink.run())
            await sink.caught_up()
            exposed = await families(of_worker) | await families(of_sink) | await families(of_listener)
            exposed |= await families(of_bot) | {"up"}
            sink.stop()
            await running
    await budget.stop()
    used = set().union(*map(names_in, expressions()))
    assert len(used) > 25
    assert used <= exposed, used - exposed
    ours = {n for n in exposed if n.startswith("newsproof_") and not n.endswith(("_sum", "_count", "_created"))}
    assert ours <= used, f"the dashboard does not show {ours - used}"


async def families(health: HealthServer) -> set[str]:
    """Names as PromQL knows them, also of families that have no sample yet."""
    suffixes = {"counter": ("_total",), "histogram": ("_bucket", "_sum", "_count"), "gauge": ("",)}
    text = (await get(health, "/metrics")).text
    return {
        family.name + suffix
        for family in text_string_to_metric_families(text)
        for suffix in suffixes.get(family.type, ("",))
    }
