"""The installation under test: its own servers, workers, sink and provider in a separate directory."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator
from pathlib import Path

from infra.embedded.child import free_ports
from infra.embedded.clickhouse.server import EmbeddedClickHouse
from infra.settings import Settings, load_settings
from lab.chaos.brokers import Brokers
from lab.chaos.children import PROJECT, Child, ProviderProcess
from lab.chaos.plan import Shape
from newsproof.app.composition import address_of, prepare_topics, topics_of
from newsproof.app.processes.supervisor import environment_of, prepare_tables
from newsproof.app.servers import Say

_KEEP_EVERY_S = 0.2
RESTART_S = 1.0
"""Restart delay, as in a supervisor: a process that finds no broker must not use the processor until there is one."""


class Installation:
    """All targets of a run's faults. Made by :func:`installation`."""

    def __init__(
        self,
        settings: Settings,
        shape: Shape,
        kafka: Brokers,
        clickhouse: EmbeddedClickHouse,
        provider: ProviderProcess,
        say: Say,
    ) -> None:
        self.settings, self.shape = settings, shape
        self.kafka, self.clickhouse, self.provider = kafka, clickhouse, provider
        self.address, self.topics = address_of(settings), topics_of(settings)
        self.workers: dict[str, Child] = {}
        self.gone: list[Child] = []
        """Workers that joined and left again."""
        self.research: list[Child] = []
        self.surprises: list[str] = []
        """Exits without an injected fault. The keeper restarts such a process, as a supervisor would."""
        self._say = say
        self._directory = settings.newsproof_data_dir
        self._env = environment(settings)
        self.sink = self._child("sink", "sink")
        for n in range(shape.workers):
            self.add_worker(str(n))
        for n in range(shape.research_workers):
            self.research.append(self._child(f"research-{n}", "research", str(n)))

    def add_worker(self, slot: str) -> Child:
        """Define one more worker without starting it."""
        self.workers[slot] = self._child(f"worker-{slot}", "worker", slot)
        return self.workers[slot]

    @property
    def children(self) -> list[Child]:
        """Every process that is kept running."""
        return [*self.workers.values(), *self.research, self.sink]

    @property
    def exposed(self) -> int:
        """Calls of cases in flight at kills and rebalances, over all workers that ever ran."""
        return sum(child.exposed for child in [*self.workers.values(), *self.gone])

    async def kill_broker(self) -> None:
        """As :meth:`Brokers.kill_one`."""
        await self.kafka.kill_one(self.address, self.topics)

    async def keep(self) -> None:
        """Restart processes that exit unexpectedly, until cancelled."""
        while True:
            for child in self.children:
                if not child.running and not child.struck:
                    why = child.last_words()
                    self.surprises.append(f"{child.name}: {why}")
                    self._say(f"{child.name} ended by itself ({why}); restarting it")
                    await asyncio.sleep(RESTART_S)
                    child.start()
            await asyncio.sleep(_KEEP_EVERY_S)

    async def stop_services(self) -> None:
        """Stop the workers, then the sink."""
        await asyncio.gather(*(worker.stop() for worker in [*self.workers.values(), *self.research]))
        await self.sink.stop()

    def _child(self, name: str, what: str, slot: str = "0") -> Child:
        env = self._env | {"WORKER_SLOT": slot}
        return Child(name, what, self._directory, env, self.provider.port)


def environment(settings: Settings) -> dict[str, str]:
    """Return the children's environment: these settings override the user's own."""
    paths = (str(PROJECT), *os.environ.get("PYTHONPATH", "").split(os.pathsep))
    return environment_of(settings) | {"PYTHONPATH": os.pathsep.join(dict.fromkeys(filter(None, paths)))}


@contextlib.asynccontextmanager
async def installation(directory: Path, shape: Shape, say: Say) -> AsyncIterator[Installation]:
    """Start everything, and stop everything on exit.

    Raises:
        ConfigError: a server does not start.
    """
    kafka = Brokers(directory, shape.brokers, say)
    clickhouse = EmbeddedClickHouse(directory / "clickhouse", port=free_ports(1)[0], memory_bytes=1024**3)
    async with contextlib.AsyncExitStack() as stack:
        # Started in reverse order of stopping: a client of a server stops before it.
        await asyncio.gather(kafka.start(), clickhouse.start())
        stack.push_async_callback(kafka.stop)
        stack.push_async_callback(clickhouse.stop)
        settings = settings_of(directory, shape, kafka, clickhouse)
        env = environment(settings)
        provider = ProviderProcess(directory, env, latency_s=shape.latency_s, seed=shape.seed)
        await asyncio.gather(provider.start(), prepare_topics(settings), prepare_tables(settings))
        stack.push_async_callback(provider.stop)
        made = Installation(settings, shape, kafka, clickhouse, provider, say)
        stack.push_async_callback(made.stop_services)
        for child in made.children:
            child.start()
        yield made


def settings_of(directory: Path, shape: Shape, kafka: Brokers, clickhouse: EmbeddedClickHouse) -> Settings:
    """Return the settings of the installation, without any of the user's servers or keys."""
    return load_settings(
        newsproof_mode="simulated",
        newsproof_data_dir=directory,
        newsproof_topic_prefix="chaos.",
        kafka_bootstrap_servers=kafka.bootstrap,
        kafka_embedded_password_file=kafka.password_file,
        clickhouse_url=f"http://{clickhouse.host}:{clickhouse.port}",
        clickhouse_database="chaos",
        topic_partitions=shape.partitions,
        topic_replication=kafka.copies,
        max_open_cases=shape.max_open,
        effects_in_flight=shape.max_open,
        step_concurrency=shape.max_open,
        session_timeout_seconds=shape.session_s,
        # Two searches per case: the quota is used up after 70 % of the cases, and the others continue without searches.
        deep_analysis_tool_daily_limit=int(1.4 * shape.cases),
        # The day's money never runs out: cases would then fail without a call, and no fault would find a busy process.
        deep_analysis_monthly_budget=30.0 * max(1.0, shape.cases / 20_000),
        gemini_api_key=None,
        tavily_api_key=None,
        metrics_port=None,
        log_level="INFO",
    )
