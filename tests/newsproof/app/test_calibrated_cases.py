"""From outcomes to calibrated signals, on real Kafka and ClickHouse: fitted daily, pinned by new cases, replayed byte for byte."""

from __future__ import annotations

import asyncio
import signal as signals_of_unix
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import UNSET
from msgspec.structs import replace

from agents.graphs import verification
from evaluation.replay.journal import LogSource
from evaluation.replay.verify import verify
from infra.clickhouse.client import ClickHouse
from infra.kafka.topics import KafkaAddress
from infra.offline.model import OfflineModel
from infra.offline.search import OfflinePages, OfflineSearch
from infra.offline.simulated import Simulated
from infra.ports import Ports
from infra.settings import Settings, load_settings
from newsproof.app.composition import snapshot_of
from newsproof.app.processes import services
from newsproof.app.processes.calibrated import CalibratedCases
from schemas.calibration import STOOD, CalibrationMap, Curve, SignalCalibration, moved
from schemas.config import Snapshot
from schemas.events import EventReceived, SignalSynthesized
from schemas.topics import NewerRecordError, Topics
from streams.calibration import refit
from streams.calibration.refit import DailyFit, fit_as_of
from streams.calibration.topic import CalibrationFitted, Fits, append_fit, calibration_of
from streams.journal.log import KafkaLog
from streams.worker import Worker
from tests.infra.clickhouse.clickhouse_samples import fill_signals, published, signal
from tests.streams.world import World, news

STORIES = 60
CURVES = tuple(
    Curve(target=target, stories=60, intercept=0.1, slope=0.9, covariance=(0.1, 0.0, 0.1))
    for target in (STOOD, moved(86400))
)


def ports() -> Ports:
    model, search, ours = OfflineModel(), OfflineSearch(), Simulated()
    pages = OfflinePages(search.documents)
    return Ports(
        models={"light": model, "heavy": model}, search={search.provider: search}, recall=ours, earlier=ours,
        concerned=ours, scrape=pages,
    )  # fmt: skip


def rules() -> Snapshot:
    """The configuration of a live worker, but for its adapters."""
    settings = load_settings(
        _env_file=None, newsproof_mode="offline", phase1_rollout_percentage=1.0, deep_analysis_tools_enabled=True
    )
    return replace(snapshot_of(settings), provider_mode="live")


def hacked(number: int) -> dict[str, Any]:
    text = f"Wormhole bridge drained of {number}20,000 wETH on Solana, $SOL falls"
    return news(number, text=text, published_at=datetime.now(UTC).isoformat())


async def history(client: ClickHouse, until: datetime) -> None:
    """Write live signals of two months ago, with prices and labels: every second one of them came true."""
    then, imported = until.replace(microsecond=0) - timedelta(days=60), until - timedelta(hours=1)
    said, returns, labels = [], [], []
    for n in range(STORIES):
        named = {"case_id": f"case-{n}", "signal_id": f"signal-{n}", "asset": "ETH", "direction": "long"}
        confidence = 0.5 + 0.4 * n / STORIES
        one = signal(**named, confidence=confidence, provider_mode="live", horizon=86400, published_at=then)
        said.append(published(one, emitted_at=then))
        change, end = 0.02 if n % 2 else -0.02, then + timedelta(days=1)
        returns.append((f"case-{n}", 86400, "ETH", then, 1.0, end, 1 + change, change, "binance:5m", 1))
        labels.append(("desk", 1, f"case-{n}", "true" if n % 2 else "false", imported))
    await fill_signals(client, *said)
    columns = (
        "case_id",
        "horizon_s",
        "asset",
        "entry_at",
        "entry_price",
        "exit_at",
        "exit_price",
        "return",
        "source",
        "version",
    )
    await client.insert("outcomes", columns, returns)
    await client.insert("labels", ("source", "version", "case_id", "truth", "ingested_at"), labels)


async def published_of(world: World, number: int) -> tuple[Snapshot | None, Any, bytes]:
    """Return the snapshot that the case of this news pinned, its signal, and the signal's bytes on the journal."""
    source = await LogSource.made(KafkaLog(world.address), world.topics)
    found = await world.story(of_text=hacked(number)["text"])
    pinned = next(source.snapshots.get(e.config_hash) for e in found if isinstance(e, EventReceived))
    said = next(e.signal for e in found if isinstance(e, SignalSynthesized))
    return pinned, said, msgspec.json.encode(said)


@asynccontextmanager
async def running(part: Any) -> AsyncIterator[None]:
    task = asyncio.create_task(part.run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        if not task.cancelled():
            task.result()


async def test_outcomes_become_a_map_that_cases_opened_afterwards_pin_and_replay_byte_for_byte(
    world: World, clickhouse: ClickHouse
) -> None:
    await history(clickhouse, datetime.now(UTC))
    address, topics, graph = world.address, world.topics, verification()
    fits = Fits(KafkaLog(address), topics)
    assert await fits.read() is None
    async with world.working(graph, ports=ports(), snapshot=rules()) as worker:
        calibrated = CalibratedCases(fits, worker)
        async with running(calibrated):
            await world.publish(hacked(1))
            await world.until_closed(1)
            async with running(DailyFit(address, topics, clickhouse, false_share=None)):
                await world.until(lambda: worker.snapshot.calibration)
            await world.publish(hacked(2))
            await world.until_closed(2)
            # Another change of settings keeps the map.
            await calibrated.adopt(replace(rules(), max_steps=9))
            assert worker.snapshot.max_steps == 9 and worker.snapshot.calibration
    assert fits.newest is not None
    found = fits.newest.map
    assert fits.newest.stories == {STOOD: STORIES, moved(86400): STORIES}
    assert {curve.target for curve in found.curves} == set(fits.newest.stories)

    before, first, first_bytes = await published_of(world, 1)
    after, second, second_bytes = await published_of(world, 2)
    assert before is not None and before.calibration is None and after is not None and after.calibration == found
    assert (first.confidence_calibrated, first.calibration) == (None, None)
    said = second.calibration
    assert isinstance(said, SignalCalibration) and (said.id, said.n_stories) == (found.id, STORIES)
    assert said.low < second.confidence_calibrated < said.high and said.p_true is not None
    assert second.confidence_calibrated < second.confidence == first.confidence, "half of them came true"

    # A worker of older code, whose snapshots do not have the field.
    async with world.working(graph, ports=ports(), snapshot=replace(rules(), calibration=UNSET)):
        await world.publish(hacked(3))
        await world.until_closed(3)
    assert b'"calibration"' not in (await published_of(world, 3))[2]

    # Everything that becomes known afterwards changes no byte: not of the map as of then, and of no replay.
    later = datetime.now(UTC) + timedelta(seconds=2)
    others = [("desk", 2, f"case-{n}", "false" if n % 2 else "true", later) for n in range(STORIES)]
    await clickhouse.insert("labels", ("source", "version", "case_id", "truth", "ingested_at"), others)
    again = await fit_as_of(clickhouse, found.as_of, false_share=None)
    assert again == fits.newest
    relabelled = await fit_as_of(clickhouse, later + timedelta(seconds=1), false_share=None)
    assert relabelled.map.curves != found.curves
    await append_fit(address, topics, replace(relabelled, map=replace(relabelled.map, as_of=datetime.now(UTC))))
    result = await verify(await LogSource.made(KafkaLog(address), topics))
    assert (result.cases, result.differences, result.misses) == (3, [], 0)
    assert (await published_of(world, 1))[2] == first_bytes and (await published_of(world, 2))[2] == second_bytes


# As processes


@contextmanager
def until_stopped(monkeypatch: pytest.MonkeyPatch) -> Iterator[asyncio.Event]:
    """An event that ends a service as a signal would."""
    stop = asyncio.Event()
    before = signals_of_unix.getsignal(signals_of_unix.SIGTERM)
    monkeypatch.setattr(services, "shutdown_on_signal", lambda: stop)
    yield stop
    assert signals_of_unix.getsignal(signals_of_unix.SIGTERM) is before


def live(address: KafkaAddress, topics: Topics, folder: Path, monkeypatch: pytest.MonkeyPatch, **more: Any) -> Settings:
    for name, value in address.as_environment().items():
        monkeypatch.setenv(name, value)
    given: dict[str, Any] = {
        "_env_file": None, "newsproof_mode": "live", "newsproof_data_dir": folder, "topic_partitions": 2,
        "newsproof_topic_prefix": topics.prefix, "gemini_api_key": "g-key", "tavily_api_key": "t-key",
        "clickhouse_url": "http://127.0.0.1:1",
    }  # fmt: skip
    return load_settings(**(given | more))


@asynccontextmanager
async def serving(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Worker]:
    """Run a worker's whole process until the block ends."""
    started: asyncio.Queue[Worker] = asyncio.Queue()
    with until_stopped(monkeypatch) as stop:
        work = services.run_worker(settings, take_over=True, ports=ports(), starting=lambda w, _: started.put_nowait(w))
        task = asyncio.create_task(work)
        waiting = asyncio.create_task(started.get())
        await asyncio.wait({task, waiting}, return_when=asyncio.FIRST_COMPLETED)
        try:
            if task.done():
                task.result()
            yield await waiting
        finally:
            waiting.cancel()
            stop.set()
            await task


def fit_of(day: int) -> CalibrationFitted:
    as_of = datetime.now(UTC) - timedelta(days=9 - day)
    curves = tuple(replace(curve, stories=60 + day) for curve in CURVES)
    return CalibrationFitted(map=CalibrationMap(as_of=as_of, curves=curves), stories={})


def pinned(worker: Worker) -> Any:
    """The map of the snapshot that new cases pin; UNSET before the first one."""
    snapshot = worker.configs.get(worker.configs.adopted)
    return UNSET if snapshot is None else snapshot.calibration


async def test_a_live_worker_starts_with_the_newest_map_adopts_the_next_and_keeps_it_over_a_restart(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = live(world.address, world.topics, tmp_path, monkeypatch)
    first, second, unchanged = (fit_of(day) for day in (1, 2, 3))
    unchanged = replace(unchanged, map=replace(second.map, as_of=unchanged.map.as_of))
    await append_fit(world.address, world.topics, first)
    async with serving(settings, monkeypatch) as worker:
        await world.until(lambda: worker.assigned)
        assert pinned(worker) == first.map
        await append_fit(world.address, world.topics, second)
        await world.until(lambda: pinned(worker) == second.map)
        adopted = worker.configs.adopted
        # A day on which nothing new is known makes no new snapshot.
        await append_fit(world.address, world.topics, unchanged)
        third = fit_of(4)
        await append_fit(world.address, world.topics, third)
        await world.until(lambda: pinned(worker) == third.map)
        snapshots = {key for record in await world.records(world.topics.configs) if (key := record.key)}
        assert len(snapshots) == 3 and adopted.encode() in snapshots
        adopted = worker.configs.adopted
    async with serving(settings, monkeypatch) as worker:
        await world.until(lambda: worker.assigned)
        assert (pinned(worker), worker.configs.adopted) == (third.map, adopted)


async def test_offline_no_map_is_pinned(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = live(world.address, world.topics, tmp_path, monkeypatch, newsproof_mode="offline")
    await append_fit(world.address, world.topics, fit_of(1))
    async with serving(settings, monkeypatch) as worker:
        await world.until(lambda: worker.assigned)
        assert pinned(worker) is None
        assert worker.snapshot.calibration is None


@pytest.mark.parametrize("when", ["before", "while running"])
async def test_a_map_of_newer_code_stops_a_live_worker(
    when: str, world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = live(world.address, world.topics, tmp_path, monkeypatch)
    newer = replace(fit_of(1), version=2)
    if when == "before":
        await append_fit(world.address, world.topics, newer)
    with pytest.raises(NewerRecordError, match="before its writers"):
        async with serving(settings, monkeypatch) as worker:
            await world.until(lambda: worker.assigned)
            await append_fit(world.address, world.topics, newer)
            await world.until(lambda: worker.ending.over)


async def test_a_live_sink_fits_a_map_at_once_and_another_a_day_later(
    world: World, clickhouse: ClickHouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await history(clickhouse, datetime.now(UTC))
    at = clickhouse.address
    found = {"clickhouse_url": f"http://{at.host}:{at.port}", "clickhouse_database": clickhouse.database}
    settings = live(world.address, world.topics, tmp_path, monkeypatch, calibration_max_false_share=0.9, **found)
    fits = Fits(KafkaLog(world.address), world.topics)
    with until_stopped(monkeypatch) as stop:
        sink = asyncio.create_task(services.run_sink(settings))
        await world.until(fits.read)
        stop.set()
        await sink
    assert fits.newest is not None and len(fits.newest.map.curves) == 2
    assert fits.newest.map.sell_from == pytest.approx(0.5, abs=0.2), "the setting's rule"

    class Asleep(Exception):  # noqa: N818 - it ends what would run for a day
        pass

    shortly = asyncio.sleep

    async def sleep(seconds: float) -> None:
        if seconds > 3600:
            raise Asleep(seconds)
        await shortly(seconds)

    monkeypatch.setattr(refit.asyncio, "sleep", sleep)
    daily = DailyFit(world.address, world.topics, clickhouse, false_share=None)
    with pytest.raises(Asleep) as slept:
        await daily.run()
    assert 0 < 86400 - slept.value.args[0] < 600
    assert len(await world.records(world.topics.calibration)) == 1


async def test_a_sink_in_another_mode_fits_none(tmp_path: Path, clickhouse: ClickHouse) -> None:
    for mode in ("offline", "simulated"):
        settings = Settings(_env_file=None, newsproof_mode=mode, newsproof_data_dir=tmp_path)
        assert services._daily_fit(settings, clickhouse) == ()
    assert calibration_of(None) is None
