"""The daily fit: reads the sample from ClickHouse and appends the map to its topic."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta

from infra.clickhouse.client import ClickHouse
from infra.kafka.topics import KafkaAddress
from infra.late_log import log_of
from schemas.topics import Topics
from streams.calibration.fit import fit_map, stories_with_outcomes
from streams.calibration.sample import read_samples
from streams.calibration.topic import CalibrationFitted, Fits, append_fit
from streams.journal.clock import utc_now
from streams.journal.log import KafkaLog
from streams.journal.retry import is_away, retry_while_unavailable

EVERY = timedelta(days=1)


async def fit_as_of(client: ClickHouse, as_of: datetime, *, false_share: float | None) -> CalibrationFitted:
    """Return the fit of everything known then (UTC). ``false_share``: see :func:`streams.calibration.fit.fit_map`.

    Raises:
        TransientError: ClickHouse does not respond.
    """
    samples = await read_samples(client, as_of)

    def fitted() -> CalibrationFitted:
        counted = stories_with_outcomes(samples, as_of)
        return CalibrationFitted(map=fit_map(samples, as_of, false_share=false_share), stories=counted)

    return await asyncio.to_thread(fitted)  # polls of Kafka continue meanwhile


class DailyFit:
    """Appends a fit each day: at once if the topic's newest is older. Several at once do no harm."""

    def __init__(self, address: KafkaAddress, topics: Topics, client: ClickHouse, *, false_share: float | None) -> None:
        self._address, self._topics, self._client, self._false_share = address, topics, client, false_share
        self._fits = Fits(KafkaLog(address, client_id="newsproof-calibration"), topics)
        self._running: asyncio.Task[None] | None = None

    async def run(self) -> None:
        """Fit until :meth:`stop`, also while a server is unavailable.

        Raises:
            NewerRecordError: a newer version wrote a record of the topic.
        """
        self._running = asyncio.current_task()
        while True:
            newest = await retry_while_unavailable(self._fits.read, "the calibration maps", unavailable=is_away)
            due_s = 0.0 if newest is None else (newest.map.as_of + EVERY - utc_now()).total_seconds()
            if due_s > 0:
                await asyncio.sleep(due_s)
                continue  # another process may have fitted meanwhile
            try:
                await retry_while_unavailable(self._fit, "the fit of the calibration map", unavailable=is_away)
            except Exception:
                log_of(__name__).exception("no calibration map was fitted; the next attempt is tomorrow")
                await asyncio.sleep(EVERY.total_seconds())

    def stop(self) -> None:
        """End at once."""
        if self._running is not None:
            self._running.cancel()

    async def _fit(self) -> None:
        fitted = await fit_as_of(self._client, utc_now(), false_share=self._false_share)
        await append_fit(self._address, self._topics, fitted)
        log_of(__name__).info("a calibration map was fitted", curves=len(fitted.map.curves), stories=fitted.stories)
