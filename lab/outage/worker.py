"""One worker on a log in memory and a virtual clock: the runtime's components, without Kafka, Faust and rebalances."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from aiokafka import TopicPartition

from agents.core.case import Case
from agents.core.case_core import CaseCore
from agents.core.step import Step
from agents.graphs import NEWS, verification
from infra.kafka.topics import KafkaAddress
from schemas import envelope as wire
from schemas.config import Snapshot
from schemas.events import EventReceived
from schemas.ids import LIVE_RUN, uuid5
from schemas.news import News, language_of
from schemas.topics import Topics
from streams.effects.bulkhead import EffectSlots
from streams.effects.host import EffectsHost
from streams.effects.meter import Meter
from streams.effects.spending import UnlimitedBudget
from streams.ending import Ending
from streams.intake.admission import Admission
from streams.intake.remote_partitions import RemotePartitions
from streams.journal.appender import Appender
from streams.journal.configs import ConfigStore
from streams.journal.tombstones import Tombstones
from streams.runtime.dispatcher import Dispatcher
from streams.runtime.options import WorkerOptions
from streams.runtime.partition import Partition, Partitions
from streams.runtime.projector import Projector
from streams.runtime.results import Results
from streams.runtime.worker_slot import WorkerSlot
from streams.wake import Wake
from streams.worker import Listeners
from tests.streams.memory_log import MemoryLog, MemoryRecord
from tests.virtual_time import virtual_now

_TOPICS = Topics("")
_NOWHERE = KafkaAddress(bootstrap="127.0.0.1:1")
"""For components that need a broker's address and connect only to read records again."""
_ENDS_WITHIN_S = 3600.0
"""Simulated seconds after the last news within which every case ends, because its deadline is minutes away."""


class MemoryAppender(Appender):
    """Appends to a log in memory, where a record is available at once."""

    def __init__(self, log: MemoryLog) -> None:
        self._log = log
        self.dead_letters = Counter()

    async def append(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None,
        partition: int | None,
        headers: list[tuple[str, bytes]] | None = None,
    ) -> tuple[int, int]:
        """As in :class:`Appender`."""
        return 0, self._log.append(topic, partition or 0, value=value, key=key, headers=headers or ())


class _AllListeners(Listeners):
    """Also notifies admission and ``on_end``, as a gate would."""

    def __init__(
        self, meter: Meter, dispatcher: Dispatcher, admission: Admission, on_end: Callable[[Case], None]
    ) -> None:
        super().__init__(None, meter, dispatcher)
        self._admission, self._on_end = admission, on_end

    def on_folded(self, partition: int, case: Any) -> None:
        if case.seq == 0:
            self._admission.on_opened(partition, case.case_id, 0)
        super().on_folded(partition, case)

    def on_closed(self, partition: int, case: Any) -> None:
        super().on_closed(partition, case)
        self._on_end(case)
        self._admission.on_closed(case.case_id)


class MemoryWorker:
    """A worker of one partition. Each ended case is passed to ``on_end``. Needs a running :class:`VirtualLoop`."""

    def __init__(
        self, host: EffectsHost, config: Snapshot, wake: Wake, slot_dir: Path, on_end: Callable[[Case], None]
    ) -> None:
        options, registry, parts = WorkerOptions(partitions=1), verification(), Partitions()
        self._log = MemoryLog({_TOPICS.cases: 1, _TOPICS.dead_letters: 1})
        self._appender, self._on_end = MemoryAppender(self._log), on_end
        self._config, self._configs = config, ConfigStore(_NOWHERE, _TOPICS)
        self._configs.put_local(config)
        self._ending, self._slot, meter = Ending(), WorkerSlot(slot_dir, options.slot), Meter(registry)
        tombstones = Tombstones(self._log)
        remote = RemotePartitions(_NOWHERE, _TOPICS.cases, "", tombstones, wake, self._ending, limit=0, partitions=1)
        self._admission = Admission(options.max_open_cases, 1, remote, parts, wake=wake, may_admit=host.may_admit)
        self._dispatcher = Dispatcher(
            registry,
            host,
            Results(registry, self._appender, _TOPICS, meter, 1, now=virtual_now),
            EffectSlots(options.effects_in_flight, options.step_concurrency),
            self._slot,
            parts,
            self._put,
            suspect_after=options.crash_suspect_after,
            now=virtual_now,
        )
        listeners = _AllListeners(meter, self._dispatcher, self._admission, self._ended)
        self._projector = Projector(
            _NOWHERE,
            _TOPICS.cases,
            "",
            NEWS,
            self._configs,
            listeners,
            parts,
            tombstones,
            UnlimitedBudget(),
            self._ending,
        )
        parts[0] = _caught_up()
        self._news: asyncio.Queue[News] = asyncio.Queue()
        self._open, self._idle = 0, asyncio.Event()
        self._held_back = self.most_held_back = 0

    async def journal(self) -> list[MemoryRecord]:
        """Return the records of the journal so far."""
        bounds = await self._log.bounds(_TOPICS.cases)
        return [record async for _, records in self._log.replay(bounds) for record in records]

    def publish(self, news: News) -> None:
        """Queue a news item; it waits while nothing can be triaged."""
        self.most_held_back = max(self.most_held_back, self._held_back)
        self._held_back += 1
        self._open += 1
        self._idle.clear()
        self._news.put_nowait(news)

    async def finish(self) -> None:
        """Wait until every case has ended."""
        async with asyncio.timeout(_ENDS_WITHIN_S):
            await self._idle.wait()

    @asynccontextmanager
    async def working(self) -> AsyncIterator[None]:
        """Work until the block ends. Raises, in a group, the errors that end a worker."""
        self._dispatcher.on_live(0)
        self._admission.assign({0}, {0})
        self._admission.on_live(0, ())
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [
                    group.create_task(run()) for run in (self._ending.wait, self._read, self._sweep, self._open_all)
                ]
                yield
                for task in tasks:
                    task.cancel()
        finally:
            await self._dispatcher.stop()
            await self._configs.stop()
            self._slot.close()

    async def _read(self) -> None:
        async with self._log.follow({TopicPartition(_TOPICS.cases, 0): 0}) as cursor:
            while True:
                for records in (await cursor.next(60.0)).values():
                    for record in records:
                        self._projector.on_record(record)

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(1.0)
            self._dispatcher.sweep(virtual_now())
            self._admission.wake()

    async def _open_all(self) -> None:
        while True:
            news = await self._news.get()
            await self._admission.enter(0, news.case_id)
            self._held_back -= 1
            _, offset = await self._appender.append(_TOPICS.cases, partition=0, **self._opening(news))
            self._admission.appended(news.case_id, offset)

    def _opening(self, news: News) -> dict[str, Any]:
        event = EventReceived(
            news=news,
            config_hash=self._config.config_hash,
            text_hash=news.text_hash,
            language=language_of(news),
            news_partition=0,
        )
        key, value, headers = wire.encode(
            event,
            id=uuid5("opening", LIVE_RUN, news.case_id),
            case_id=news.case_id,
            causation_id=None,
            run_id=LIVE_RUN,
            time=virtual_now(),
        )
        return {"key": key, "value": value, "headers": headers}

    def _put(self, step: Step, case: CaseCore) -> None:
        asyncio.get_running_loop().call_soon(self._dispatcher.start, step, case)

    def _ended(self, case: Case) -> None:
        self._on_end(case)
        self._open -= 1
        if not self._open:
            self._idle.set()


def _caught_up() -> Partition:
    """Return the state of an empty partition that has been read to its end."""
    part = Partition()
    part.waiting, part.loaded, part.live = None, True, True
    return part
