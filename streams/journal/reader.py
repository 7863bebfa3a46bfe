"""Reads of a journal by the acceptance rule, from any offset. Every reader outside the runtime uses it:

- the whole reader: publisher, remote partitions, shadow, live and turn feeds, backtest, audit, case list, memory
  rebuild;
- only the fold (:class:`~streams.journal.fold.JournalFold`): the projector, which Faust's group feeds; the sink, which
  also needs ignored records, exact ranges and two isolation levels; recordings and case records;
- neither: text and claim index, which scan headers (0.4 µs a record; judging costs 4.5), and topics that hold no cases.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from typing import Any

from aiokafka import TopicPartition

from streams.journal.fold import JournalFold
from streams.journal.log import Bounds, Log
from streams.journal.tombstones import Tombstones


class JournalReader:
    """Creates folds of a journal's partitions. ``bounds`` is as of the last :meth:`begin`."""

    def __init__(self, log: Log, topic: str, tombstones: Tombstones | None = None) -> None:
        """``tombstones``: shared by this process's readers of this journal, so that none is read twice."""
        self.log, self.topic = log, topic
        self.bounds: Bounds = {}
        self._tombstones = Tombstones(log) if tombstones is None else tombstones

    async def begin(
        self, starts: Mapping[TopicPartition, int] | None = None, *, only: Collection[TopicPartition] | None = None
    ) -> dict[TopicPartition, JournalFold]:
        """Return a fold of each partition (or of each in ``only``) at its offset in ``starts``, else at its first one.

        Folds that start inside the log get the tombstones before them, so each judges like a fold that started at the
        log's start.

        Raises:
            KafkaError: the broker does not respond.
        """
        self.bounds = await self.log.bounds(self.topic)
        firsts = {tp: first for tp, (first, _) in self.bounds.items()}
        begin_at = {tp: (starts or {}).get(tp, first) for tp, first in firsts.items() if only is None or tp in only}
        folds = {tp: JournalFold(at, partitions=len(self.bounds)) for tp, at in begin_at.items()}
        inside = {tp: fold.accepted for tp, fold in folds.items() if fold.position > firsts[tp]}
        await self._tombstones.load(inside, firsts, partitions=len(self.bounds))
        return folds

    async def replay(
        self, folds: Mapping[TopicPartition, JournalFold]
    ) -> AsyncIterator[tuple[TopicPartition, Sequence[Any]]]:
        """Yield (partition, records) from each fold's position to the log's end as of :meth:`begin`.

        The caller judges them.
        """
        async for tp, records in self.log.replay(
            {tp: (fold.position, self.bounds[tp][1]) for tp, fold in folds.items()}
        ):
            yield tp, records
