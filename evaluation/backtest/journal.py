"""Sources of recordings: the Kafka journal, read in bulk, or a log file. Read twice: to survey, then to replay."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol

import msgspec

from evaluation.backtest.sample import LogFile, by_partition
from evaluation.backtest.story import Stories
from schemas import envelope as wire
from schemas import events as ev
from schemas.config import Snapshot, decode_snapshot
from schemas.errors import ContractError
from schemas.ids import content_hash
from schemas.topics import Topics
from streams.journal.fold import JournalFold
from streams.journal.log import Bounds, Log
from streams.replay import Recording, Recordings

_STORY_EVENTS = frozenset(
    {ev.OPENING_NAME, *(ev.WIRE_NAMES[t] for t in (ev.SecondLookOpened, ev.CaseDropped, ev.RetractionFound))}
)
"""Events that determine which story a case belongs to."""


class Source(Protocol):
    """A journal that can be read from its start any number of times. ``snapshots`` is keyed by hash."""

    partitions: int
    snapshots: Mapping[str, Snapshot]

    def batches(self) -> AsyncIterator[tuple[int, Sequence[Any]]]:
        """Yield (partition, records), in log order per partition."""
        ...


class FileSource:
    """A journal read from a log file."""

    def __init__(self, log: LogFile) -> None:
        self.partitions = log.partitions
        self.snapshots: Mapping[str, Snapshot] = log.snapshots
        self._log = log

    async def batches(self) -> AsyncIterator[tuple[int, Sequence[Any]]]:
        """Yield one batch per partition."""
        for number, records in by_partition(self._log.cases):
            yield number, records


class LogSource:
    """The journal of an installation, up to its end at the time of construction."""

    def __init__(self, log: Log, bounds: Bounds, snapshots: dict[str, Snapshot]) -> None:
        self.partitions = len(bounds)
        self.snapshots: Mapping[str, Snapshot] = snapshots
        self._log, self._bounds = log, bounds

    @classmethod
    async def made(cls, log: Log, topics: Topics, *, bounds: Bounds | None = None) -> LogSource:
        """Read the snapshots and record the journal's current end offsets, or take these ``bounds`` of it."""
        snapshots: dict[str, Snapshot] = {}
        async for _, records in log.replay(await log.bounds(topics.configs)):
            for record in records:
                try:
                    snapshots.update([decode_snapshot(record.key, record.value)])
                except ContractError:
                    continue  # a tombstone or not a snapshot: a case that pins it is reported
        return cls(log, await log.bounds(topics.cases) if bounds is None else bounds, snapshots)

    async def batches(self) -> AsyncIterator[tuple[int, Sequence[Any]]]:
        """Read in bulk, without a consumer group."""
        async for tp, records in self._log.replay(self._bounds):
            yield tp.partition, records


class Survey(msgspec.Struct):
    """Contents of a journal range.

    ``ended`` holds case ids in the order in which the cases were opened; ``open`` counts the cases that have not ended.
    ``config_hashes``: the configurations that the ended cases pin.
    """

    ended: list[str]
    open: int
    stories: Stories
    first: datetime | None
    last: datetime | None
    config_hashes: tuple[str, ...] = ()


async def survey(source: Source, *, since: datetime | None = None, until: datetime | None = None) -> Survey:
    """Read the journal once for its stories and for the ended cases opened in ``since`` <= time < ``until``."""
    parts: dict[int, JournalFold] = {}
    opened: dict[str, datetime] = {}
    pinned: dict[str, str] = {}
    ended: set[str] = set()
    stories = Stories()
    async for number, records in source.batches():
        part = parts.setdefault(number, JournalFold(partitions=source.partitions))
        for env, record in part.accept(records):
            if env.type in _STORY_EVENTS:
                event = _add_event(stories, env, record)
                if isinstance(event, ev.EventReceived | ev.SecondLookOpened):
                    pinned[env.case_id] = sys.intern(event.config_hash)
            if env.type in ev.OPENING_NAMES:
                opened[env.case_id] = env.time
            elif env.type in ev.TERMINAL_NAMES:
                ended.add(env.case_id)
    inside = [c for c, at in opened.items() if (since is None or at >= since) and (until is None or at < until)]
    inside.sort(key=lambda c: (opened[c], c))
    chosen = [c for c in inside if c in ended]
    first, last = (opened[chosen[0]], opened[chosen[-1]]) if chosen else (None, None)
    configs = tuple(dict.fromkeys(pinned.get(c, "") for c in chosen))
    return Survey(chosen, len(inside) - len(chosen), stories, first, last, configs)


def _add_event(stories: Stories, env: wire.Envelope, record: Any) -> ev.CaseEvent | None:
    try:
        event = wire.decode(env.type, env.version, record.value)
    except wire.NewerSchemaError:
        raise
    except ContractError:
        return None  # the replay reports this case as unreadable
    stories.add(env.case_id, event)
    return event


def drawn(case_ids: list[str], sample: int) -> list[str]:
    """Return a sample of the cases, the same in every run over the same log; ``sample`` 0 returns all of them."""
    if not sample or sample >= len(case_ids):
        return case_ids
    chosen = set(sorted(case_ids, key=lambda c: content_hash(("backtest", c)))[:sample])
    return [c for c in case_ids if c in chosen]


async def recordings(
    source: Source, wanted: Callable[[str], bool], *, mine: Callable[[Any], bool] = lambda _end: True
) -> AsyncIterator[Recording]:
    """Yield the wanted cases as they end. Memory grows with the cases open at one offset, not with the log.

    ``mine`` chooses of them by the record that ended each, once, where several processes share them.
    """
    parts: dict[int, Recordings] = {}
    async for number, records in source.batches():
        if number not in parts:
            fold = JournalFold(partitions=source.partitions)
            parts[number] = Recordings(fold, wanted=lambda case, end: wanted(case) and mine(end))
        for recording in parts[number].take(records):
            yield recording
