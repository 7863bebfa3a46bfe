"""The topic `calibration` on a real Kafka: its newest map, what is no map, and newer code."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from msgspec.structs import replace
from structlog.testing import capture_logs

from infra.kafka.topics import KafkaAddress
from schemas.calibration import STOOD, CalibrationMap, Curve
from schemas.topics import NewerRecordError, Topics
from streams.audit.audit import audit
from streams.calibration.topic import CalibrationFitted, Fits, append_fit, calibration_of, encode
from streams.journal.log import KafkaLog

CURVE = Curve(target=STOOD, stories=60, intercept=0.1, slope=0.9, covariance=(0.1, 0.0, 0.1))


def fitted(days_ago: int, *curves: Curve, sell_from: float | None = None) -> CalibrationFitted:
    as_of = datetime.now(UTC) - timedelta(days=days_ago)
    return CalibrationFitted(map=CalibrationMap(as_of=as_of, curves=curves, sell_from=sell_from), stories={STOOD: 60})


async def write(address: KafkaAddress, topics: Topics, *values: bytes | None) -> None:
    async with address.producer() as producer:
        for value in values:
            await producer.send_and_wait(topics.calibration, value, key=b"any", partition=0)


async def test_the_newest_map_is_the_last_one_and_readers_follow(address: KafkaAddress, made_topics: Topics) -> None:
    fits = Fits(KafkaLog(address), made_topics)
    assert await fits.read() is None
    first, second, third = (fitted(days, CURVE) for days in (2, 1, 0))
    await append_fit(address, made_topics, first)
    await append_fit(address, made_topics, second)
    assert await fits.read() == second == await Fits(KafkaLog(address), made_topics).read()

    seen: asyncio.Queue[CalibrationFitted | None] = asyncio.Queue()

    async def on_new() -> None:
        seen.put_nowait(fits.newest)

    following = asyncio.create_task(fits.follow(on_new))
    await append_fit(address, made_topics, third)
    assert await asyncio.wait_for(seen.get(), 30) == third
    following.cancel()
    assert await asyncio.gather(following, return_exceptions=True) and seen.empty()


@pytest.mark.security
async def test_what_is_no_map_is_told_ignored_and_counted_by_the_audit(
    address: KafkaAddress, made_topics: Topics
) -> None:
    good = fitted(1, CURVE)
    from_tomorrow = fitted(-1, CURVE)
    infinite = fitted(0, replace(CURVE, slope=1e300))
    wrong = [b"{}", b"not JSON", None, encode(from_tomorrow), encode(infinite), encode(good).replace(b":1}", b":-1}")]
    await write(address, made_topics, encode(good), *wrong)
    fits = Fits(KafkaLog(address), made_topics)
    with capture_logs() as logs:
        assert await fits.read() == good
    said = [one["why"] for one in logs if one["event"] == "ignored: no calibration map"]
    assert len(said) == len(wrong)
    assert "set the clock of the machine that fits" in said[3] and "impossible parameters" in said[4]
    report = await audit(KafkaLog(address), made_topics)
    assert report.foreign == {"calibration": len(wrong)}


@pytest.mark.parametrize("shape", ["same", "other"])
async def test_a_record_of_newer_code_stops_the_reader(shape: str, address: KafkaAddress, made_topics: Topics) -> None:
    newer = msgspec.json.decode(encode(fitted(0, CURVE))) | {"version": 2}
    if shape == "other":
        newer["map"] = {"method": "isotonic"}
    await write(address, made_topics, msgspec.json.encode(newer))
    with pytest.raises(NewerRecordError, match="before its writers"):
        await Fits(KafkaLog(address), made_topics).read()


def test_a_map_that_says_nothing_is_not_pinned() -> None:
    assert calibration_of(None) is calibration_of(fitted(0)) is None
    for one in (fitted(0, CURVE), fitted(0, sell_from=0.7)):
        assert calibration_of(one) == one.map
