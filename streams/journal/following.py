"""Following a journal from a reader's own watermark: the fold that publish, sink and the case view have in common.

Before the rule of acceptance comes one question, and every reader asks it by :func:`parse_record`: is this a record of this
journal at all? Its envelope is whole, its run is the topic's, and its partition is the one of its case. What is not is
passed by unseen by the rule: it opens nothing, closes nothing and places no tombstone.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import structlog
from aiokafka import TopicPartition

from infra.kafka.topics import KafkaAddress, committed_by, offsets_of, read_range
from schemas import envelope as wire
from schemas.acceptance import AcceptedEvents
from schemas.errors import ContractError
from schemas.ids import LIVE_RUN, RESEARCH_RUN
from schemas.topics import RESEARCH_TOPIC, partition_of

if TYPE_CHECKING:
    from streams.journal.tombstones import Tombstones

log = structlog.get_logger(__name__)


_RUN = re.compile(r"(?:^|\.)runs\.(.+)$")


@lru_cache(maxsize=64)
def run_of(topic: str) -> str:
    """Return the run that a journal holds: a backtest's own, that of the research chats, else the live one."""
    if (backtest := _RUN.search(topic)) is not None:
        return backtest.group(1)
    return RESEARCH_RUN if topic.endswith(RESEARCH_TOPIC) else LIVE_RUN


def parse_record(record: Any, partitions: int | None) -> wire.Envelope:
    """Return the envelope of a journal record. ``partitions`` is the journal's count; None asks nothing of the place.

    Raises:
        ContractError: the record is none of this journal's (reason ``bad_envelope``, ``wrong_run``, ``wrong_partition``).
    """
    env = wire.read_envelope(record.headers or ())
    if env.run_id != run_of(record.topic):
        raise ContractError(
            f"the record is of the run {env.run_id!r}, and {record.topic} holds {run_of(record.topic)!r} alone: write it "
            "to its own run's topic",
            reason="wrong_run",
        )
    if partitions is not None and (right := partition_of(env.case_id, partitions)) != record.partition:
        raise ContractError(
            f"the record's case belongs to partition {right}: only there every reader looks for it",
            reason="wrong_partition",
        )
    return env


class FollowedPartition:
    """The acceptance state of one partition, for a reader that holds no cases. ``malformed`` counts foreign records.

    ``partitions`` is the journal's partition count; a reader that does not say it takes records of misplaced cases too,
    which the runtime does not.
    """

    def __init__(self, position: int = 0, *, partitions: int | None = None) -> None:
        self.accepted = AcceptedEvents(position)
        self.malformed = 0
        self._partitions = partitions

    def judge(self, record: Any) -> tuple[wire.Envelope | None, bool]:
        """Return the record's envelope (None when it has no readable one) and whether the record is accepted."""
        try:
            env = parse_record(record, self._partitions)
        except ContractError as exc:
            if record.offset >= self.accepted.position:
                self.accepted.position = record.offset + 1
                self.malformed += 1
                if (
                    self.malformed & (self.malformed - 1) == 0
                ):  # the 1st, 2nd, 4th, 8th …: a flood must not fill the log
                    log.warning(
                        "passed by: no record of this journal",
                        topic=record.topic,
                        partition=record.partition,
                        offset=record.offset,
                        why=str(exc),
                        so_far=self.malformed,
                    )
            return None, False
        return env, self.accepted.offer(record.offset, env.type, env.case_id, env.id, env.causation_id)

    def accept(self, records: Iterable[Any]) -> Iterator[tuple[wire.Envelope, Any]]:
        """Yield (envelope, record) of the accepted ones, in order."""
        for record in records:
            env, accepted = self.judge(record)
            if accepted and env is not None:
                yield env, record


async def record_ends(
    address: KafkaAddress, spans: Mapping[TopicPartition, tuple[int, int]]
) -> dict[TopicPartition, int]:
    """Return the offset after the last record of each range, its start when there is none.

    The broker's end offset counts the markers of foreign transactions, behind which no record need ever come.
    """
    ends = {tp: first for tp, (first, _) in spans.items()}
    left, back = dict(spans), 1
    while left:
        asked = {tp: (max(first, end - back), end) for tp, (first, end) in left.items()}
        async for tp, records in read_range(address, asked):
            ends[tp] = records[-1].offset + 1
        left = {tp: span for tp, span in left.items() if ends[tp] == span[0] and asked[tp][0] > span[0]}
        back *= 16
    return ends


@asynccontextmanager
async def follow_from_watermarks(
    address: KafkaAddress, topic: str, group: str, tombstones: Tombstones
) -> AsyncIterator[tuple[Any, dict[TopicPartition, FollowedPartition]]]:
    """Yield (consumer, partitions): a consumer assigned by hand to all partitions at the group's committed watermarks."""
    bounds = await offsets_of(address, topic)
    known = await committed_by(address, group)
    count = len(bounds)
    parts = {
        tp: FollowedPartition(known[tp].offset if tp in known else first, partitions=count)
        for tp, (first, _) in bounds.items()
    }
    await tombstones.load(
        {tp: p.accepted for tp, p in parts.items()},
        {tp: first for tp, (first, _) in bounds.items()},
        partitions=count,
    )
    async with address.reading(fetch_max_wait_ms=25) as consumer:
        consumer.assign(list(parts))
        for tp, p in parts.items():
            consumer.seek(tp, p.accepted.position)
        yield consumer, parts
