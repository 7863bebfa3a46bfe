"""Results: a step's result becomes a record of the journal, at the head for which it was computed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime
from typing import Any

import structlog

from agents.core.case_core import CaseCore
from agents.core.failures import failed
from agents.core.registry import Registry
from agents.core.step_turn import successor_id
from schemas import envelope as wire
from schemas import events as ev
from schemas.effects import Failure
from schemas.errors import ContractError
from schemas.topics import Topics, partition_of
from streams.effects.meter import Meter
from streams.journal.appender import Appender
from streams.journal.clock import utc_now

log = structlog.get_logger(__name__)


class Results:
    """Appends results, and dead letters for failed cases. The log decides whether a result is accepted."""

    def __init__(
        self,
        registry: Registry,
        appender: Appender,
        topics: Topics,
        meter: Meter,
        partitions: int,
        *,
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        self._registry = registry
        self._appender = appender
        self._meter = meter
        self._topics = topics
        self._flow = registry.flow
        self._topic = topics.journal(registry.flow.name)
        self._partitions = partitions
        self._now = now
        self._asides: set[asyncio.Task[Any]] = set()

    def partition_of(self, case_id: str) -> int:
        return partition_of(case_id, self._partitions)

    async def append(self, case: CaseCore, event: ev.Event, *, dead_letter: bool = True) -> None:
        """Append the event as the successor (or an effect) of the case's head; return when it is durable.

        A ``CaseFailed`` first writes a dead letter, if its flow has one: a crash in between repeats the dead letter
        and does not lose it.
        """
        if dead_letter and isinstance(event, ev.CaseFailed) and (asked := self._flow.letter(case)) is not None:
            await self._failed_case_letter(case, event, *asked)
        new_id, now = successor_id(case, event), self._now()
        self._meter.appending(case, event, new_id, now)
        key, value, headers = wire.encode(
            event, id=new_id, case_id=case.case_id, causation_id=case.head_id, run_id=case.run_id, time=now
        )
        partition = self.partition_of(case.case_id)
        try:
            await self._appender.append(self._topic, value, key=key, partition=partition, headers=headers)
        except ContractError as exc:
            failure = Failure(kind="too_large", message=str(exc), retryable=False)
            step = self._registry.next_step(case)
            await self.append(case, failed(case, step.name if step else "journal", failure, now=self._now()))

    def append_aside(self, case: CaseCore, event: ev.Event) -> None:
        """Append in the background."""
        self._aside(self.append(case, event))

    def quarantine(self, record: Any, case: CaseCore | None, reason: str, why: str) -> None:
        """Write a dead letter for an unreadable journal record; close its case, if there is one, as failed."""
        about = {} if case is None else {"case": case.case_id}
        log.error("poison record in the journal", partition=record.partition, offset=record.offset, why=why, **about)
        self._aside(self._put_aside(record, case, reason, why))

    async def stop(self) -> None:
        """Cancel pending appends; the partition's next owner repeats them."""
        for task in (asides := list(self._asides)):
            task.cancel()
        await asyncio.gather(*asides, return_exceptions=True)

    async def _put_aside(self, record: Any, case: CaseCore | None, reason: str, why: str) -> None:
        letters = self._topics.dead_letters
        await self._appender.dead_letter(letters, record, reason=reason, why=why, consumer="projector")
        if case is not None:
            event = ev.CaseFailed(reason=f"quarantined: {why}"[:1000], failed_step="journal", attempts=0)
            await self.append(case, event, dead_letter=False)

    async def _failed_case_letter(self, case: CaseCore, end: ev.CaseFailed, key: bytes, value: bytes) -> None:
        headers = [
            ("dl_reason", b"case_failed"),
            ("dl_why", f"{end.failed_step}: {end.reason}".encode()[:2000]),
            ("dl_consumer", b"worker"),
            ("dl_case", case.case_id.encode()),
        ]
        self._appender.dead_letters["case_failed"] += 1
        await self._appender.append(self._topics.dead_letters, value, key=key, partition=None, headers=headers)

    def _aside(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._asides.add(task)
        task.add_done_callback(self._asides.discard)
