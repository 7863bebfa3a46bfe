"""Recorded cases: from the Kafka journal in bulk, from a log file, or from live traffic as they end; and their stories.

Bulk sources are read twice: to survey them, then to replay. A story is a group of cases about the same news, so that statistics
do not count ten copies of one rumour as ten proofs. Two cases belong to one story when one repeats, denies, corrects or retries
the other, or when triage stated the same act of the same party on the same asset (:func:`agents.evidence.story.compared`). A story
lasts :data:`SPAN` at most. Words decide nothing: in one template, thirty coins are thirty stories.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

import msgspec
from aiokafka import TopicPartition

from agents.evidence.story import compared, key_of
from evaluation.replay.log_file import LogFile, by_partition
from infra.kafka.topics import KafkaAddress, committed_by
from schemas import envelope as wire
from schemas import events as ev
from schemas.config import Snapshot, decode_snapshot
from schemas.errors import ContractError
from schemas.ids import content_hash
from schemas.signals import Story
from schemas.topics import Topics
from streams.journal.fold import JournalFold
from streams.journal.log import Bounds, KafkaLog, Log
from streams.journal.reader import JournalReader
from streams.replay import Recording, Recordings

MAX_RECORDS = 500
"""Records of one read of live traffic."""
SPAN = timedelta(days=7)
"""The maximum time from the first case of a story to its last."""
COMPARED = 64
"""Cases of one asset and act that a case is compared with, the newest."""


class Stories:
    """Maps cases to stories. Feed every accepted event in log order, then query."""

    def __init__(self) -> None:
        self._parent: dict[str, str] = {}
        self.at: dict[str, datetime] = {}
        """By case: when its news was published, or received if that was earlier; of a second look, when it was due."""
        self._spans: dict[str, tuple[datetime, datetime]] = {}
        self._told: dict[tuple[str, str], deque[tuple[str, Story]]] = {}

    def add(self, case_id: str, event: ev.Event) -> None:
        """Add one accepted event of a case."""
        match event:
            case ev.EventReceived(news=news, edits=edits, retries=retries):
                self._open(case_id, min(news.published_at, news.as_of), (edits, retries))
            case ev.SecondLookOpened(of_case=first, due_at=due_at):
                self._open(case_id, due_at, (first,))
            case ev.CaseTriaged(draft=draft, story=Story() as story) if case_id in self.at:
                self._compare(case_id, draft.asset, story)
            case ev.CaseDropped(duplicate_of=first):
                self._join(case_id, (first,))
            case ev.RetractionFound(of_case=of_case):
                self._join(case_id, (of_case,))
            case _:
                pass

    def of(self, case_id: str) -> str:
        """Return the story's id: the id of its first case."""
        root = case_id
        while (above := self._parent.get(root, root)) != root:
            root = above
        while (above := self._parent.get(case_id, root)) != root:
            self._parent[case_id], case_id = root, above
        return root

    def _open(self, case_id: str, at: datetime, others: Iterable[str | None]) -> None:
        self.at[case_id] = at
        self._spans.setdefault(case_id, (at, at))
        self._join(case_id, others)

    def _join(self, case_id: str, others: Iterable[str | None]) -> None:
        for other in others:
            if other is None or (ours := self.of(case_id)) == (theirs := self.of(other)):
                continue
            times = (*self._spans.get(ours, ()), *self._spans.get(theirs, ()))
            if not times or max(times) - min(times) <= SPAN:
                self._parent[ours] = theirs
                if times:
                    self._spans[theirs] = min(times), max(times)

    def _compare(self, case_id: str, asset: str, story: Story) -> None:
        reports = self._told.setdefault((asset, key_of(story)), deque(maxlen=COMPARED))
        same = (o for o, other in reports if compared(story, other, self.at[case_id] - self.at[o]) == "same")
        self._join(case_id, [next(same, None)])
        reports.append((case_id, story))


_STORY_EVENTS = frozenset(
    {*ev.OPENING_NAMES, *(ev.WIRE_NAMES[t] for t in (ev.CaseTriaged, ev.CaseDropped, ev.RetractionFound))}
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

    ``ended`` holds case ids in the order of their news; ``open`` counts the cases that have not ended. ``first`` and ``last``:
    when the first and the last news of ``ended`` was published.
    ``config_hashes``: the configurations that the ended cases pin.
    """

    ended: list[str]
    open: int
    stories: Stories
    first: datetime | None
    last: datetime | None
    config_hashes: tuple[str, ...] = ()


async def survey(source: Source, *, since: datetime | None = None, until: datetime | None = None) -> Survey:
    """Read the journal once for its stories and for the ended cases whose news was published in ``since`` <= time < ``until``.

    Not received: a backfill receives years within minutes. News that claims a time after its receipt counts from its receipt, and
    so does a case whose opening cannot be read. A second look counts from when it was due.
    """
    parts: dict[int, JournalFold] = {}
    opened: dict[str, datetime] = {}
    pinned: dict[str, str] = {}
    ended: set[str] = set()
    stories = Stories()
    async for number, records in source.batches():
        part = parts.setdefault(number, JournalFold(partitions=source.partitions))
        for env, record in part.accept(records):
            event = _add_event(stories, env, record) if env.type in _STORY_EVENTS else None
            if isinstance(event, ev.EventReceived) and event.news.is_asked:
                continue  # a question, which no run judges again
            if isinstance(event, ev.EventReceived | ev.SecondLookOpened):
                pinned[env.case_id] = sys.intern(event.config_hash)
            if env.type in ev.OPENING_NAMES:
                opened[env.case_id] = min(stories.at.get(env.case_id, env.time), env.time)
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
    if not (isinstance(event, ev.EventReceived) and event.news.is_asked):
        stories.add(env.case_id, event)
    return event


def draw_sample(case_ids: list[str], sample: int) -> list[str]:
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


async def recent_stories(log: Log, topics: Topics) -> Stories:
    """Return the stories of the journal's last :data:`SPAN`."""
    bounds = await log.bounds(topics.cases)
    since = round((datetime.now(UTC) - SPAN).timestamp() * 1000)
    starts = await log.offsets_at(bounds, since)
    spans = {tp: (end if (start := starts[tp]) is None else start, end) for tp, (_, end) in bounds.items()}
    return (await survey(LogSource(log, spans, {}))).stories


class LiveCases:
    """Cases of live traffic as they end, read with a consumer group of its own.

    Cases returned by :meth:`next` count as done at :meth:`commit`; a restart continues after what is done.

    The first start begins at the end of the journal, with cases opened from then on.
    """

    def __init__(self, address: KafkaAddress, topics: Topics, group: str) -> None:
        self._address, self._topic, self._group = address, topics.cases, group
        self._parts: dict[TopicPartition, Recordings] = {}
        self._consumer: Any = None

    async def start(self) -> None:
        """Find the start offsets and commit them, so that a restart before the first read begins there too."""
        reader = JournalReader(KafkaLog(self._address), self._topic)
        bounds = await reader.log.bounds(self._topic)
        known = await committed_by(self._address, self._group)
        starts = {tp: known[tp].offset if tp in known else end for tp, (_, end) in bounds.items()}
        self._parts = {tp: Recordings(fold) for tp, fold in (await reader.begin(starts)).items()}
        self._consumer = self._address.consumer(group_id=self._group, fetch_max_wait_ms=100)
        await self._consumer.start()
        self._consumer.assign(list(self._parts))
        for tp, part in self._parts.items():
            self._consumer.seek(tp, part.fold.position)
        await self.commit()

    async def next(self) -> list[Recording]:
        """Return the cases that ended in the next batch; empty after half a second without records."""
        got = await self._consumer.getmany(timeout_ms=500, max_records=MAX_RECORDS)
        ended = (recording for tp, records in got.items() for recording in self._parts[tp].take(records))
        return [recording for recording in ended if not recording.received.news.is_asked]

    async def commit(self) -> None:
        """Mark everything returned so far as done. The offset is that of the oldest open case."""
        await self._consumer.commit({tp: (p.fold.accepted.watermark, "") for tp, p in self._parts.items()})

    async def stop(self) -> None:
        if self._consumer is not None:
            await self._consumer.stop()
