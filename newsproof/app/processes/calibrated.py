"""The calibration map of one worker's new cases: the newest on the topic, within seconds of its arrival."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import structlog
from msgspec.structs import replace

from schemas.calibration import CalibrationMap
from schemas.config import Snapshot
from schemas.errors import NewsproofError
from streams.calibration.topic import Fits, calibration_of

if TYPE_CHECKING:  # a sink loads no worker
    from streams.worker import Worker

AGAIN_S = 1.0
"""Pause before the adoption of a map is tried again."""

log = structlog.get_logger(__name__)


class CalibratedCases:
    """Makes a worker's new cases pin the newest map. Other changes of their snapshot go through :meth:`adopt`, too.

    A map is adopted after it was fitted, so no case sees an outcome from after its opening. Open cases keep theirs.
    """

    def __init__(self, fits: Fits, worker: Worker) -> None:
        """``fits`` has been read to its end, and ``worker``'s snapshot has its newest map."""
        self._fits, self._worker = fits, worker
        self._one_at_a_time = asyncio.Lock()

    async def adopt(self, snapshot: Snapshot) -> None:
        """Make new cases pin this snapshot with the newest map.

        Raises:
            ContractError, KafkaError: as for :meth:`streams.worker.Worker.adopt`.
        """
        async with self._one_at_a_time:
            await self._worker.adopt(replace(snapshot, calibration=calibration_of(self._fits.newest)))

    async def run(self) -> None:
        """Follow the topic until cancelled.

        Raises:
            NewerRecordError: a newer version wrote a record.
        """
        await self._fits.follow(self._adopt_newest)

    async def _adopt_newest(self) -> None:
        while True:
            is_started = bool(self._worker.configs.adopted)  # before that, its first snapshot would come after this one
            try:
                if is_started and not _differ(
                    calibration_of(self._fits.newest), self._worker.snapshot.calibration or None
                ):
                    return
                if is_started:
                    await self.adopt(self._worker.snapshot)
                    log.info("calibration_adopted", config=self._worker.snapshot.config_hash)
                    return
            except (NewsproofError, TimeoutError, OSError) as exc:
                log.warning("calibration_not_adopted_yet", error=str(exc))
            await asyncio.sleep(AGAIN_S)


def _differ(newest: CalibrationMap | None, adopted: CalibrationMap | None) -> bool:
    """Return whether two maps say different things. A day without a new outcome makes no new snapshot."""
    if newest is None or adopted is None:
        return newest is not adopted
    return replace(newest, as_of=adopted.as_of) != adopted
