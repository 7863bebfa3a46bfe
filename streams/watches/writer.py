"""What is written for watches: records of ``watches``, and the openings of their investigations."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any

from agents.investigation.subject import asked
from schemas import envelope as wire
from schemas.ids import RESEARCH_RUN
from schemas.topics import Topics, partition_of
from schemas.watches import WatchFired, WatchRecord, WatchSet, encode


class WatchWriter:
    """Writes to the log. :meth:`start` first: it puts on the log what investigations pin."""

    def __init__(self, appender: Any, topics: Topics, *, partitions: int, pin: Callable[[Any], Awaitable[str]]) -> None:
        """``partitions``: the count of the journal ``research``. ``pin`` puts the snapshot of investigations on the log by
        the appender, and returns its hash."""
        self._appender, self._topics, self._partitions, self._pin = appender, topics, partitions, pin
        self._config_hash = ""

    async def start(self) -> None:
        await self._appender.start()
        self._config_hash = await self._pin(self._appender)

    async def stop(self) -> None:
        await self._appender.stop()

    async def append(self, record: WatchRecord) -> int:
        return await append_record(self._appender, self._topics, record)

    async def open(self, watch: WatchSet, fired: WatchFired, at: datetime) -> None:
        event = asked(watch.subject, as_of=at, config_hash=self._config_hash, watch=watch.id)
        id = fired.investigation
        key, value, headers = wire.encode(
            event, id=fired.id, case_id=id, causation_id=None, run_id=RESEARCH_RUN, time=at, source="newsproof-watches"
        )
        partition = partition_of(id, self._partitions)
        await self._appender.append(self._topics.research, value, key=key, partition=partition, headers=headers)


async def append_record(appender: Any, topics: Topics, record: WatchRecord) -> int:
    """Append a record to ``watches``; return its offset once it is durable."""
    headers = [("content-type", b"application/json")]
    _, offset = await appender.append(topics.watches, encode(record), key=None, partition=0, headers=headers)
    return int(offset)
