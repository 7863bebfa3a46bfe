"""The gate: how news comes into a worker. Intake, admission and the view of the other workers, put together.

A worker of a flow that no news opens has none.
"""

from __future__ import annotations

from collections.abc import Callable

from agents.core.case import Case
from infra.kafka.topics import KafkaAddress
from schemas.topics import Topics
from streams.effects.host import EffectsHost
from streams.intake.intake import Intake
from streams.intake.remote_partitions import admitting
from streams.journal.appender import Appender
from streams.runtime.options import WorkerOptions
from streams.runtime.projector import Projector


class Gate:
    """Tells its parts what the log says of openings and ends, and which partitions are whose."""

    def __init__(
        self,
        address: KafkaAddress,
        topics: Topics,
        group: str,
        appender: Appender,
        projector: Projector,
        options: WorkerOptions,
        *,
        config_hash: Callable[[], str],
    ) -> None:
        self._partitions, self._projector = options.partitions, projector
        self.remote_partitions, self.admission = admitting(address, topics.cases, group, options, projector)
        self.intake = Intake(
            address,
            topics,
            group,
            appender,
            self.admission,
            partitions=options.partitions,
            dedup_days=options.dedup_days,
            config_hash=config_hash,
        )

    def paused_by(self, effects: EffectsHost) -> str | None:
        """Why news waits now; None while there is room for more cases, or nothing waits."""
        if not self.admission.full:
            return None
        if self.admission.unaffordable is not None:
            return "budget" if effects.outage() is None else "outage"
        return "max_open_cases" if self.admission.all_live else "not_caught_up"

    def on_folded(self, partition: int, case: Case) -> None:
        """An opening holds its place from now on by the log's word."""
        if case.seq == 0:
            self.admission.on_opened(partition, case.case_id, case.received.news_partition)

    def on_closed(self, case: Case) -> None:
        """There is room for one more."""
        self.admission.on_closed(case.case_id)

    def on_live(self, partition: int) -> None:
        """Admission may know now how many cases are open."""
        cases: dict[str, Case] = self._projector.partitions[partition].cases
        self.admission.on_live(partition, ((c.case_id, c.received.news_partition) for c in cases.values()))

    def assign(self, cases: set[int], news: set[int]) -> None:
        """Take these partitions of the journal and of news."""
        self.admission.assign(cases, news)
        self.remote_partitions.follow(set(range(self._partitions)) - cases if cases else set())
        self.intake.assign(news)
