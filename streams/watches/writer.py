"""The output of watches: records of ``watches``, and the openings of their investigations."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any

from msgspec.structs import replace

from schemas import envelope as wire
from schemas.ids import RESEARCH_RUN, uuid5
from schemas.research_events import InvestigationAsked
from schemas.topics import Topics, partition_of
from schemas.watches import WatchFired, WatchRecord, WatchSet, encode

Ask = Callable[[WatchSet, datetime], InvestigationAsked]
"""Returns the opening of an investigation for a watch that fired at this time, without its configuration."""
Pin = Callable[[Any], Awaitable[str]]
"""Writes the configuration of investigations to the log with an appender; returns its hash."""


class WatchWriter:
    """Writes to the log. Call :meth:`start` first: it writes the configuration that investigations pin."""

    def __init__(self, appender: Any, topics: Topics, *, partitions: int, ask: Ask, pin: Pin) -> None:
        """``partitions``: the partition count of the journal ``research``."""
        self._appender, self._topics, self._partitions = appender, topics, partitions
        self._ask, self._pin = ask, pin
        self._config_hash = ""

    async def start(self) -> None:
        await self._appender.start()
        self._config_hash = await self._pin(self._appender)

    async def stop(self) -> None:
        await self._appender.stop()

    async def append(self, record: WatchRecord) -> int:
        return await append_record(self._appender, self._topics, record)

    async def open(self, watch: WatchSet, fired: WatchFired, at: datetime) -> None:
        event, id = replace(self._ask(watch, at), config_hash=self._config_hash), fired.investigation
        key, value, headers = wire.encode(
            event, id=uuid5("opened", id), case_id=id, causation_id=None, run_id=RESEARCH_RUN, time=at,
            source="newsproof-watches",
        )  # fmt: skip
        partition = partition_of(id, self._partitions)
        await self._appender.append(self._topics.research, value, key=key, partition=partition, headers=headers)


async def append_record(appender: Any, topics: Topics, record: WatchRecord) -> int:
    """Append a record to ``watches``; return its offset once it is durable."""
    headers = [("content-type", b"application/json")]
    _, offset = await appender.append(topics.watches, encode(record), key=None, partition=0, headers=headers)
    return int(offset)
