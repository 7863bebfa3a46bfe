"""The topic ``calibration``: one fitted map a day, kept forever. Cases pin a map by their snapshot, never by this topic."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta
from typing import Any

import msgspec
from aiokafka import TopicPartition

from infra.kafka.topics import KafkaAddress
from infra.late_log import log_of
from schemas.calibration import CalibrationMap
from schemas.errors import ContractError
from schemas.topics import NewerRecordError, RecordCodec, Topics
from streams.journal.clock import appended_at
from streams.journal.log import Log
from streams.journal.retry import is_away, retry_while_unavailable

VERSION = 1
AHEAD = timedelta(minutes=1)
"""Maximum lead of the fitting machine's clock over the broker's. A map from further ahead is ignored: cases that pin it would
open before its ``as_of``."""
MAX_PARAMETER = 1e6
"""Larger curve parameters are garbage; their curves' probabilities might not be numbers."""


class CalibrationFitted(msgspec.Struct, frozen=True, kw_only=True, tag="newsproof.calibration_fitted"):
    """A map, and for each target the number of stories with a known outcome, also where they are too few for a curve."""

    map: CalibrationMap
    stories: dict[str, int]
    version: int = VERSION


_codec: RecordCodec[CalibrationFitted] = RecordCodec(
    CalibrationFitted, "calibration", tags="newsproof.calibration_", version=VERSION
)
encode = _codec.encode


def decode(record: Any) -> CalibrationFitted:
    """Return the fit in a Kafka record.

    Raises:
        NewerRecordError: a newer version wrote it: deploy this reader before its writers.
        ContractError: it is no fit, has impossible parameters, or contains outcomes from after it was appended.
    """
    fitted = _codec.decode(record.value)
    bad = "bad_calibration_record"
    if fitted.map.as_of.tzinfo is None or fitted.map.as_of > appended_at(record) + AHEAD:
        raise ContractError(
            f"a calibration map as of {fitted.map.as_of} was appended earlier: set the clock of the machine that fits",
            reason=bad,
        )
    for curve in fitted.map.curves:
        numbers = (curve.intercept, curve.slope, *curve.covariance)
        if not all(math.isfinite(n) and abs(n) <= MAX_PARAMETER for n in numbers):
            raise ContractError(f"the calibration curve of {curve.target:.40} has impossible parameters", reason=bad)
    return fitted


async def append_fit(address: KafkaAddress, topics: Topics, fitted: CalibrationFitted) -> None:
    """Append a fit; it is durable afterwards."""
    async with address.producer(linger_ms=0) as producer:
        await producer.send_and_wait(topics.calibration, encode(fitted), partition=0)


class Fits:
    """A reader of the topic. ``newest``: the last fit that it has read, None without one. Other records are logged and ignored."""

    def __init__(self, log: Log, topics: Topics) -> None:
        self._log, self._topic = log, topics.calibration
        self._next: dict[TopicPartition, int] = {}
        self.newest: CalibrationFitted | None = None

    async def read(self) -> CalibrationFitted | None:
        """Read to the topic's present end, and return the newest fit.

        Raises:
            NewerRecordError: a newer version wrote a record.
            KafkaError: the broker does not respond.
        """
        bounds = await self._log.bounds(self._topic)
        spans = {tp: (self._next.get(tp, first), end) for tp, (first, end) in bounds.items()}
        async for tp, records in self._log.replay(spans):
            self._take({tp: records})
        self._next |= {tp: end for tp, (_, end) in bounds.items()}
        return self.newest

    async def follow(self, on_new: Callable[[], Awaitable[None]]) -> None:
        """Read on until cancelled, also while Kafka is unavailable; call ``on_new`` after each new fit.

        Raises:
            NewerRecordError: a newer version wrote a record.
        """

        async def followed() -> None:
            if await self._read_on():
                await on_new()
            async with self._log.follow(self._next, wait_ms=500) as cursor:
                while True:
                    if self._take(await cursor.next(5.0)):
                        await on_new()

        await retry_while_unavailable(followed, "the calibration maps", unavailable=is_away)

    async def _read_on(self) -> bool:
        before = self.newest
        return await self.read() is not before

    def _take(self, batches: Mapping[TopicPartition, Any]) -> bool:
        before = self.newest
        for tp, records in batches.items():
            for record in records:
                try:
                    self.newest = decode(record)
                except NewerRecordError:
                    raise
                except ContractError as exc:
                    log_of(__name__).warning("ignored: no calibration map", offset=record.offset, why=str(exc))
                self._next[tp] = record.offset + 1
        return self.newest is not before


def calibration_of(fitted: CalibrationFitted | None) -> CalibrationMap | None:
    """Return the map that snapshots pin; None if it says nothing, so that a day without a curve makes no new snapshot."""
    if fitted is None or not (fitted.map.curves or fitted.map.sell_from is not None):
        return None
    return fitted.map
