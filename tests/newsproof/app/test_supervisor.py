"""The process tree: children come back when they die, end in order, and get exactly our settings."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from infra.kafka.topics import KafkaAddress
from infra.settings import Settings, load_settings
from newsproof.app.composition import address_of, clickhouse_of, topics_of
from newsproof.app.processes.supervisor import Pipeline, Service, environment_of, pipeline
from newsproof.app.restarting import STEADY_S, Backoff
from newsproof.app.servers import running_kafka
from schemas.errors import ConfigError
from schemas.topics import Topics
from streams.audit.audit import audit
from streams.journal.log import KafkaLog
from tests.newsproof.command import CHECKOUT, processes_in


def service(tmp_path: Path, code: str) -> Service:
    env = {"PYTHONPATH": str(CHECKOUT)}
    made = Service("worker-0", ["worker"], env=env, log_file=tmp_path / "worker.log")
    made.child.command = [sys.executable, "-c", code]
    made.child.start()
    return made


async def test_a_child_that_refuses_its_settings_ends_everything_with_its_words(tmp_path: Path) -> None:
    refusing = service(tmp_path, "import sys; print('TOPIC_PARTITIONS is wrong'); sys.exit(2)")
    with pytest.raises(ConfigError, match="TOPIC_PARTITIONS is wrong"):
        async with asyncio.timeout(20):
            await refusing.keep(lambda text: None)


@pytest.mark.slow
async def test_a_child_that_dies_is_started_again_and_a_worker_told_that_its_slot_is_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("newsproof.app.restarting.BACKOFF_S", (0.0,))
    dying = service(tmp_path, "import os; os.kill(os.getpid(), 9)")
    said: list[str] = []
    keeping = asyncio.create_task(dying.keep(said.append))
    # Without a Kafka the real worker refuses to start, so it is seen to have been started.
    with pytest.raises(ConfigError, match="KAFKA_BOOTSTRAP_SERVERS"):
        async with asyncio.timeout(30):
            await keeping
    assert dying.restarts == 1 and "status -9" in said[0]
    assert dying.child.command[-2:] == ["worker", "--take-over"]


def test_the_environment_of_a_child_says_every_setting_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    given = Settings(
        _env_file=None,  # type: ignore[call-arg]
        newsproof_data_dir=tmp_path / "d",
        tavily_api_key="key",  # type: ignore[arg-type]
        phase1_rollout_percentage=1.0,
        deep_analysis_tools_enabled=True,
        clickhouse_url="http://u:p@h:1",
    )
    for name, value in environment_of(given).items():
        monkeypatch.setenv(name, value)
    # A child works in another directory, so its file of bots has a whole path.
    assert load_settings() == given.model_copy(update={"bots_file": tmp_path / "bots.toml"})


async def test_a_killed_worker_comes_back_and_stopping_leaves_nothing(tmp_path: Path) -> None:
    at = Settings(_env_file=None, newsproof_data_dir=tmp_path)  # type: ignore[call-arg]
    came_back = asyncio.Event()
    said: list[str] = []

    def say(text: str) -> None:
        said.append(text)
        came_back.set()

    async with pipeline(at, say=say) as running:
        worker = running.services[0]
        before = worker.child.pid
        watching = asyncio.create_task(running.watch())
        worker.child.kill()
        async with asyncio.timeout(60):
            await came_back.wait()
            while worker.child.pid == before or not worker.child.running:  # noqa: ASYNC110 - another process
                await asyncio.sleep(0.02)
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
    assert "worker-0 ended with status -9" in said[0]
    assert await running_kafka(tmp_path / "kafka") is None
    assert processes_in(tmp_path) == []


def test_a_child_that_crashes_at_start_again_and_again_is_started_ever_more_seldom() -> None:
    backoff = Backoff()
    waits = [backoff.after_run_of(0.2) for _ in range(8)]
    assert waits == [0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 30.0, 30.0]
    assert backoff.after_run_of(STEADY_S + 1) == 0.5, "it had recovered"


async def test_a_child_that_dies_at_each_start_waits_longer_each_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("newsproof.app.restarting.BACKOFF_S", (0.01, 0.02, 0.03))
    dying = service(tmp_path, "import sys; sys.exit(70)")
    monkeypatch.setattr(dying, "start", lambda **_: dying.child.start())  # the same program again
    said: list[str] = []
    four = asyncio.Event()

    def say(text: str) -> None:
        said.append(text.rpartition(" in ")[2])
        if len(said) == 4:
            four.set()

    keeping = asyncio.create_task(dying.keep(say))
    async with asyncio.timeout(60):
        await four.wait()
    keeping.cancel()
    await asyncio.gather(keeping, return_exceptions=True)
    dying.child.kill()
    assert said == ["0.01 s", "0.02 s", "0.03 s", "0.03 s"]


@pytest.mark.slow
@pytest.mark.timeout(180)
async def test_embedded_servers_that_die_under_a_running_pipeline_come_back_where_they_were_and_news_goes_on(
    tmp_path: Path,
) -> None:
    at = Settings(_env_file=None, newsproof_data_dir=tmp_path, newsproof_mode="simulated")  # type: ignore[call-arg]
    said: list[str] = []
    async with pipeline(at, say=said.append) as running:
        watching = asyncio.create_task(running.watch())
        address, topics = address_of(running.settings), topics_of(running.settings)
        await write_news(address, topics, 1)
        await ended(address, topics, 1)
        for kept in running.servers.kept:
            os.kill(kept.server.pid, signal.SIGKILL)  # type: ignore[attr-defined]
        await come_back(running)
        await write_news(address, topics, 2)
        await ended(address, topics, 2)
        async with clickhouse_of(running.settings) as client:

            async def both_are_in_the_tables() -> bool:
                found = await client.query("SELECT uniqExact(case_id) FROM events")
                return bool(found.rows[0][0] == 2)

            await until(both_are_in_the_tables)
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
    assert {k.name: k.restarts for k in running.servers.kept} == {"Kafka": 1, "ClickHouse": 1}
    assert sum("is running again after" in line for line in said) == 2
    assert processes_in(tmp_path) == []


async def until(there: Callable[[], Awaitable[bool]]) -> None:
    """Wait for what other processes do."""
    async with asyncio.timeout(90):
        while not await there():  # noqa: ASYNC110
            await asyncio.sleep(0.1)


async def come_back(running: Pipeline) -> None:
    """Wait until both servers were started again, and Kafka serves."""

    async def there() -> bool:
        again = all(k.restarts and k.server.running for k in running.servers.kept)
        return again and await running_kafka(running.settings.newsproof_data_dir / "kafka") is not None

    await until(there)


async def write_news(address: KafkaAddress, topics: Topics, number: int) -> None:
    item = {"source": "wire", "external_id": str(number), "text": f"n {number}", "published_at": "2026-01-01T00:00:00Z"}
    async with address.producer() as producer:
        await producer.send_and_wait(topics.news, json.dumps(item).encode(), key=f"wire:{number}".encode())


async def ended(address: KafkaAddress, topics: Topics, count: int) -> None:
    """Wait until this many cases have ended, by the audit's word."""

    async def quiet() -> bool:
        report = await audit(KafkaLog(address), topics)
        return report.cases == count and report.open == 0

    await until(quiet)
    report = await audit(KafkaLog(address), topics)
    assert (report.cases, report.duplicate_events) == (count, 0)
