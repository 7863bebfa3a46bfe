"""Open cases in the journal partitions of other workers, followed for admission.

Only an opening's news partition is read from its value; everything else comes from headers.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import msgspec
from aiokafka import TopicPartition

from infra.kafka.topics import KafkaAddress, committed_by, members_of
from schemas.events import OPENING_NAME, TERMINAL_NAMES
from streams.ending import Ending
from streams.journal.fold import JournalFold
from streams.journal.log import KafkaLog, record_ends
from streams.journal.reader import JournalReader
from streams.journal.retry import is_away, retry_while_unavailable
from streams.journal.tombstones import Tombstones
from streams.wake import Wake


class _Opening(msgspec.Struct):
    news_partition: int = -1


_opening = msgspec.json.Decoder(_Opening)


def _news_partition(record: Any) -> int:
    try:
        return _opening.decode(record.value or b"").news_partition
    except msgspec.DecodeError:
        return -1  # its owner quarantines it, and closes it soon


class _FollowedPartition:
    """One partition: its open cases, by their partition of ``news``."""

    def __init__(self, fold: JournalFold) -> None:
        self.fold = fold
        self.opened_by: Counter[int] = Counter()
        self._from: dict[str, int] = {}

    def take(self, record: Any) -> None:
        env, accepted = self.fold.judge(record)
        if env is None or not accepted:
            return
        if env.type == OPENING_NAME:
            number = self._from[env.case_id] = _news_partition(record)
            self.opened_by[number] += 1
        elif env.type in TERMINAL_NAMES and env.case_id in self._from:
            self.opened_by[self._from.pop(env.case_id)] -= 1


class RemotePartitions:
    """Open cases of the partitions that other workers own. ``wake`` is called after more was read."""

    def __init__(
        self,
        address: KafkaAddress,
        topic: str,
        group: str,
        tombstones: Tombstones,
        wake: Wake,
        ending: Ending,
        *,
        limit: int,
        partitions: int,
    ) -> None:
        self._address, self._topic, self._group = address, topic, group
        self._tombstones, self._wake, self._ending = tombstones, wake, ending
        self._reader = JournalReader(KafkaLog(address), topic, tombstones)
        self._limit, self._partitions = limit, partitions
        self._parts: dict[int, _FollowedPartition] = {}
        self._task: asyncio.Task[None] | None = None
        self.slice_of_news: int | None = None

    def open_in(self, partition: int, news_partition: int) -> int | None:
        """Number of open cases there that came from this partition of ``news``; None while unknown."""
        part = self._parts.get(partition)
        return None if part is None else part.opened_by[news_partition]

    def position_of(self, partition: int) -> int:
        """The offset after the last record read; 0 before the first."""
        part = self._parts.get(partition)
        return 0 if part is None else part.fold.position

    def follow(self, numbers: set[int]) -> None:
        """Follow exactly these partitions from now on."""
        for number, part in self._parts.items():
            self._tombstones.keep(TopicPartition(self._topic, number), part.fold.accepted)
        self._parts, self.slice_of_news = {}, None
        if self._task is not None:
            self._task.cancel()
        if not numbers:
            self._task = None
            return
        following = retry_while_unavailable(
            lambda: self._follow(numbers), "other workers' partitions", unavailable=is_away
        )
        self._task = asyncio.create_task(following, name="elsewhere")
        self._ending.watch(self._task)

    async def stop(self) -> None:
        self.follow(set())

    async def _follow(self, numbers: set[int]) -> None:
        # Partitions are spread evenly, so no worker has more of them than this.
        members = max(1, len(await members_of(self._address, self._group)))
        most = -(-self._partitions // members)
        kafka_log = self._reader.log
        known = await committed_by(self._address, self._group)
        tps = [TopicPartition(self._topic, n) for n in sorted(numbers)]
        folds = await self._reader.begin({tp: done.offset for tp, done in known.items()}, only=tps)
        starts = {tp: fold.position for tp, fold in folds.items()}
        ends = await record_ends(kafka_log, {tp: (at, self._reader.bounds[tp][1]) for tp, at in starts.items()})
        parts = {tp: _FollowedPartition(fold) for tp, fold in folds.items()}
        self.slice_of_news = max(1, self._limit // (most * self._partitions))
        async with kafka_log.follow(starts, wait_ms=50) as cursor:
            while True:
                for tp, records in (await cursor.next(1.0)).items():
                    for record in records:
                        parts[tp].take(record)
                for tp in tps:
                    if tp.partition not in self._parts and folds[tp].position >= ends[tp]:
                        self._parts[tp.partition] = parts[tp]
                self._wake()
