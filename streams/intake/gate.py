"""The gate: how news enters a worker, by intake, admission and the view of the other workers.

A worker of a flow without news has none.
"""

from __future__ import annotations

from agents.core.case import Case
from streams.effects.host import EffectsHost
from streams.intake.admission import Admission
from streams.intake.intake import Intake
from streams.intake.remote_partitions import RemotePartitions
from streams.intake.second_looks import SecondLooks
from streams.runtime.partition import Partitions


class Gate:
    """Passes openings, ends and assignments of the log to its parts.

    ``looks`` opens cases that no news opens. ``parts`` are the own journal partitions, ``count`` is the topic's number of partitions.
    """

    def __init__(
        self,
        admission: Admission,
        remote_partitions: RemotePartitions,
        intake: Intake,
        looks: SecondLooks,
        parts: Partitions,
        count: int,
    ) -> None:
        self.admission, self.remote_partitions, self.intake = admission, remote_partitions, intake
        self.looks = looks
        self._parts, self._count = parts, count

    def paused_by(self, effects: EffectsHost) -> str | None:
        """Return why news waits now; None if there is room for more cases, or if no news waits."""
        if not self.admission.full:
            return None
        if self.admission.unaffordable is not None:
            return "budget" if effects.outage() is None else "outage"
        return "max_open_cases" if self.admission.all_live else "not_caught_up"

    def on_folded(self, partition: int, case: Case) -> None:
        if case.seq == 0:
            self.admission.on_opened(partition, case.case_id, case.received.news_partition)

    def on_closed(self, case: Case) -> None:
        self.admission.on_closed(case.case_id)

    def on_live(self, partition: int) -> None:
        cases: dict[str, Case] = self._parts[partition].cases
        self.admission.on_live(partition, ((c.case_id, c.received.news_partition) for c in cases.values()))

    def assign(self, cases: set[int], news: set[int]) -> None:
        """Take these partitions of the journal and of ``news``."""
        self.admission.assign(cases, news)
        self.remote_partitions.follow(set(range(self._count)) - cases if cases else set())
        self.intake.assign(news)
