"""A watcher's dependencies with a log in memory: an appender that can be killed, openings, a configuration."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import Any

from agents.investigation.subject import asked
from infra.clickhouse.record import epoch_ms
from schemas.events import InvestigationAsked
from schemas.topics import Topics
from schemas.watches import WatchSet
from tests.streams.memory_log import MemoryLog
from tests.virtual_time import virtual_now

TOPICS = Topics("")


class Killed(Exception):  # noqa: N818 - the end of a worker, not a fault
    pass


class MemoryAppender:
    """Appends of one worker. ``dies``: just before or after one of the next appends."""

    def __init__(self, log: MemoryLog) -> None:
        self._log, self.dies = log, ""

    async def start(self) -> None:
        pass

    stop = start

    async def append(self, topic: str, value: Any, *, key: Any, partition: Any, headers: Any = None) -> tuple[int, int]:
        await asyncio.sleep(0.004)
        if self.dies == "before":
            raise Killed
        now = epoch_ms(virtual_now())
        offset = self._log.append(topic, partition, value=value, key=key, headers=headers, timestamp=now)
        if self.dies == "after":
            raise Killed
        await asyncio.sleep(0.004)
        return partition, offset


def asked_by(watch: WatchSet, at: datetime) -> InvestigationAsked:
    """Return the opening of an investigation for a watch."""
    return asked(watch.subject, as_of=at, config_hash="", watch=watch.id)


async def pinned(_appender: object) -> str:
    return "c"
