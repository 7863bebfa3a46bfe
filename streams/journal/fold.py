"""The fold of one journal partition: which of its records every reader accepts. Pure.

Before the acceptance rule applies, every reader checks with :func:`parse_record` that a record belongs to this
journal: its envelope is complete, its run is the topic's, and its partition is its case's. Any other record is
ignored: it opens nothing, closes nothing and places no tombstone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any

from infra.late_log import log_of
from schemas import envelope as wire
from schemas.errors import ContractError
from schemas.ids import LIVE_RUN, RESEARCH_RUN
from schemas.topics import RESEARCH_TOPIC, partition_of
from streams.journal.acceptance import AcceptedEvents

_RUN = re.compile(r"(?:^|\.)runs\.(.+)$")


@lru_cache(maxsize=64)
def run_of(topic: str) -> str:
    """Return the run id of a journal: the backtest's, the research chat's, or else the live one."""
    if (backtest := _RUN.search(topic)) is not None:
        return backtest.group(1)
    return RESEARCH_RUN if topic.endswith(RESEARCH_TOPIC) else LIVE_RUN


def parse_record(record: Any, partitions: int | None) -> wire.Envelope:
    """Return the envelope of a journal record.

    ``partitions`` is the journal's count; None skips the check of the partition.

    Raises:
        ContractError: the record does not belong to this journal (reason ``bad_envelope``, ``wrong_run``,
            ``wrong_partition``).
    """
    env = wire.read_envelope(record.headers or ())
    if env.run_id != run_of(record.topic):
        raise ContractError(
            f"the record belongs to run {env.run_id!r}, but {record.topic} holds only {run_of(record.topic)!r}: write it "
            "to its own run's topic",
            reason="wrong_run",
        )
    if partitions is not None and (right := partition_of(env.case_id, partitions)) != record.partition:
        raise ContractError(
            f"the record's case belongs to partition {right}, and readers look for it only there",
            reason="wrong_partition",
        )
    return env


class JournalFold:
    """The acceptance state of one partition. ``malformed`` counts records that do not belong to this journal.

    Records are judged once each, in offset order; a record below :attr:`position` is ignored as redelivered. A fold
    that starts inside a log needs the tombstones of the range before its position (:mod:`streams.journal.reader`).
    ``partitions`` is the journal's partition count. Without it the fold also accepts records on the wrong partition,
    which the runtime does not.
    """

    def __init__(self, position: int = 0, *, partitions: int | None = None) -> None:
        self.accepted = AcceptedEvents(position)
        self.malformed = 0
        self._partitions = partitions

    @property
    def position(self) -> int:
        """The offset of the next record to judge."""
        return self.accepted.position

    def judge(self, record: Any) -> tuple[wire.Envelope | None, bool]:
        """Return the record's envelope (None if it is unreadable) and whether the record is accepted."""
        try:
            env = parse_record(record, self._partitions)
        except ContractError as exc:
            if record.offset >= self.accepted.position:
                self.accepted.position = record.offset + 1
                self.malformed += 1
                if (
                    self.malformed & (self.malformed - 1) == 0
                ):  # the 1st, 2nd, 4th, 8th …, so that a flood does not fill the program's log
                    log_of(__name__).warning(
                        "ignored: no record of this journal",
                        topic=record.topic,
                        partition=record.partition,
                        offset=record.offset,
                        why=str(exc),
                        so_far=self.malformed,
                    )
            return None, False
        return env, self.accepted.offer(record.offset, env.type, env.case_id, env.id, env.causation_id)

    def accept(self, records: Iterable[Any]) -> Iterator[tuple[wire.Envelope, Any]]:
        """Yield (envelope, record) for each accepted record, in order."""
        for record in records:
            env, accepted = self.judge(record)
            if accepted and env is not None:
                yield env, record
