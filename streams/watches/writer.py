"""What is written for watches: records of ``watches``, and the openings of their investigations."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Protocol

from agents.investigation.subject import asked
from schemas import envelope as wire
from schemas.ids import RESEARCH_RUN
from schemas.topics import Topics, partition_of
from schemas.watches import WatchFired, WatchRecord, WatchSet, encode


class Appends(Protocol):
    """:meth:`streams.journal.appender.Appender.append`."""

    async def append(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None,
        partition: int | None,
        headers: list[tuple[str, bytes]] | None = None,
    ) -> tuple[int, int]: ...


class WatchWriter:
    """Writes to the log. ``config_hash``: the snapshot, on the log already, that investigations pin."""

    def __init__(self, appender: Appends, topics: Topics, *, partitions: int, config_hash: str) -> None:
        """``partitions``: the count of the journal ``research``."""
        self._appender, self._topics, self._partitions = appender, topics, partitions
        self._config_hash = config_hash

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
