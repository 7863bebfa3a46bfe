"""The process tree: children come back when they die, end in order, and get exactly our settings."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from infra.settings import Settings, load_settings
from newsproof.servers import running_kafka
from newsproof.supervisor import Service, environment_of, pipeline
from schemas.errors import ConfigError
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


async def test_a_child_that_dies_is_started_again_and_a_worker_told_that_its_slot_is_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("newsproof.supervisor.BACKOFF_S", (0.0,))
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
    assert load_settings() == given


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
