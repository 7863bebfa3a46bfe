"""The pipeline as the page sees it: what each process reports on `/readyz` and `/metrics`, and the metrics of the whole.

The addresses of processes are in files that Prometheus also reads (:mod:`newsproof.app.processes.targets`). The metrics of the
line at the top of the page are read on request, so that a page that nobody has open costs nothing.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal

import httpx
import msgspec
import structlog
from aiokafka import TopicPartition
from aiokafka.errors import KafkaError
from msgspec.structs import replace
from prometheus_client.parser import text_string_to_metric_families

from infra.kafka.topics import KafkaAddress, committed_by, partitions_of
from newsproof.app.processes.targets import Target, targets_in
from schemas.errors import NewsproofError
from schemas.topics import NewerRecordError, Topics
from streams.budget.reading import fold_budget
from streams.budget.rule import BudgetState
from streams.journal.clock import utc_now

WITHIN_S = 3.0
"""Timeout after which a process counts as unreachable."""

Sample = tuple[str, dict[str, str], float]
"""Name, labels and value of one sample of `/metrics`."""


class Process(msgspec.Struct, frozen=True, kw_only=True):
    """A process now. ``waits``: what it waits for. ``seen_at``: its last response to this service (UTC), or None."""

    name: str
    kind: str
    state: Literal["ready", "waits", "away"]
    waits_for: dict[str, str] = {}
    seen_at: datetime | None = None


class Figures:
    """The samples of all processes that responded, by process."""

    def __init__(self, samples: Iterable[tuple[str, Sample]] = ()) -> None:
        self._samples = list(samples)

    def of(self, name: str, **labels: str) -> list[tuple[str, dict[str, str], float]]:
        """Return (process, labels, value) of the samples of this name with these labels."""
        return [
            (process, sample_labels, value)
            for process, (known, sample_labels, value) in self._samples
            if known == name and labels.items() <= sample_labels.items()
        ]

    def one(self, how: Callable[[list[float]], float], name: str, **labels: str) -> float | None:
        """Return the values of :meth:`of` combined by sum, min or max; None if no process reports any."""
        values = [value for _, _, value in self.of(name, **labels)]
        return how(values) if values else None


class Processes:
    """The processes in the files of this data directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._seen: dict[str, datetime] = {}

    async def look(self) -> tuple[list[Process], Figures]:
        """Read the state of all processes concurrently."""
        async with httpx.AsyncClient(trust_env=False, timeout=WITHIN_S) as http:
            answers = await asyncio.gather(*(self._poll(http, target) for target in targets_in(self._directory)))
        return [process for process, _ in answers], Figures(
            (process.name, sample) for process, samples in answers for sample in samples
        )

    async def _poll(self, http: httpx.AsyncClient, target: Target) -> tuple[Process, list[Sample]]:
        process = Process(name=target.name, kind=target.kind, state="away", seen_at=self._seen.get(target.name))
        try:
            readiness, metrics = await asyncio.gather(
                http.get(f"{target.url}/readyz"), http.get(f"{target.url}/metrics")
            )
            waits_for = msgspec.json.decode(readiness.content, type=_Ready).waits_for
            samples = _samples(metrics.raise_for_status().text)
        except (httpx.HTTPError, httpx.InvalidURL, msgspec.MsgspecError, ValueError):
            return process, []
        self._seen[target.name] = now = utc_now()
        return replace(process, state="waits" if waits_for else "ready", waits_for=waits_for, seen_at=now), samples


class _Ready(msgspec.Struct):
    waits_for: dict[str, str]


def _samples(text: str) -> list[Sample]:
    families: Iterable[Any] = text_string_to_metric_families(text)
    return [(sample.name, dict(sample.labels), sample.value) for family in families for sample in family.samples]


log = structlog.get_logger(__name__)

READ_FOR_S = 10.0
"""Time for which a reading is reused."""
WAIT_S = 1.5
"""Maximum wait of a response for a running reading. After it, the previous reading is returned."""
_NANO_USD = Decimal(10) ** -9


class BudgetLeft(msgspec.Struct, frozen=True, kw_only=True):
    """The budget left: USD of this UTC month and tool calls of this UTC day, each with its limit."""

    usd: Decimal
    of_usd: Decimal
    calls: int
    of_calls: int


class Vitals(msgspec.Struct, frozen=True, kw_only=True):
    """None: unknown. ``news_last_hour``: records of ``news`` by append time. ``news_waiting``: those that intake has
    not finished. ``budget`` is also None if no worker has written limits."""

    news_last_hour: int | None = None
    news_waiting: int | None = None
    budget: BudgetLeft | None = None


class VitalsReader:
    """Reads the metrics of one installation. The budget is folded once, and then from the end of the last reading."""

    def __init__(self, address: KafkaAddress, topics: Topics) -> None:
        self._address, self._topics = address, topics
        self._budget, self._next = BudgetState(), 0
        self._known, self._read_at = Vitals(), float("-inf")
        self._reading: asyncio.Task[None] | None = None

    async def read(self) -> Vitals:
        """Return the metrics, at most ``READ_FOR_S`` old if Kafka responds in time."""
        if time.monotonic() - self._read_at > READ_FOR_S and (self._reading is None or self._reading.done()):
            self._reading = asyncio.create_task(self._read(), name="vitals")
        if self._reading is not None:
            await asyncio.wait({self._reading}, timeout=WAIT_S)
        return self._known

    def stop(self) -> None:
        """End a running reading."""
        if self._reading is not None:
            self._reading.cancel()

    async def _read(self) -> None:
        try:
            came, waits = await self._news()
            self._known = Vitals(news_last_hour=came, news_waiting=waits, budget=await self._left())
        except (NewsproofError, KafkaError, OSError) as exc:
            log.info("the metrics of the pipeline are not known", why=repr(exc)[:300])
            self._known = Vitals()
        self._read_at = time.monotonic()

    async def _news(self) -> tuple[int | None, int | None]:
        since = int((utc_now() - timedelta(hours=1)).timestamp() * 1000)
        async with self._address.reading() as consumer:
            tps = [TopicPartition(self._topics.news, n) for n in await partitions_of(consumer, self._topics.news)]
            if not tps:
                return None, None
            then = await consumer.offsets_for_times(dict.fromkeys(tps, since))
            first, ends = await consumer.beginning_offsets(tps), await consumer.end_offsets(tps)
        done = await committed_by(self._address, self._topics.group("worker"))
        came = sum(ends[tp] - then[tp].offset for tp in tps if then[tp] is not None)
        return came, sum(ends[tp] - (done[tp].offset if tp in done else first[tp]) for tp in tps)

    async def _left(self) -> BudgetLeft | None:
        # An interrupted fold is restarted, because folding a record twice would book it twice.
        state, first = self._budget, self._next
        self._budget, self._next = BudgetState(), 0
        try:
            after = await fold_budget(self._address, self._topics, state, first)
        except NewerRecordError as exc:
            log.warning("the budget is not known here", why=str(exc))
            return None
        self._budget, self._next = state, after
        if (limits := state.limits) is None:
            return None
        nano, _, calls = state.left(utc_now())
        return BudgetLeft(usd=nano * _NANO_USD, of_usd=limits.monthly_usd, calls=calls, of_calls=limits.daily_units)
