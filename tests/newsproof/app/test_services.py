"""The long-running processes and the signals that end them."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from infra.embedded.clickhouse.server import EmbeddedClickHouse
from infra.embedded.kafka.server import EmbeddedKafka
from infra.kafka.topics import KafkaAddress
from infra.settings import load_settings
from newsproof.app.processes import services
from newsproof.app.processes.lifecycle import run_until
from newsproof.cli.run import up as commands
from schemas.errors import TransientError
from schemas.topics import Topics
from streams.intake.text_index import TextIndex
from tests.newsproof.command import CHECKOUT, environment

STRUCK_WHEN_IT_SAYS = """
import asyncio, signal, sys
import newsproof.app.processes.services as services
import streams.worker
from infra.settings import load_settings
from newsproof.app.logging_setup import configure_logs

class Struck:
    def __init__(self, log):
        self._log = log

    def __getattr__(self, level):
        def say(event, **more):
            getattr(self._log, level)(event, **more)
            if event == sys.argv[2]:
                signal.raise_signal(signal.SIGTERM)
        return say

configure_logs()
services.log = Struck(services.log)
streams.worker.log = Struck(streams.worker.log)
asyncio.run(getattr(services, sys.argv[1])(load_settings()))
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("service", "says"), [("run_worker", "worker starts"), ("run_worker", "assigned"), ("run_sink", "sink starts")]
)
def test_a_signal_while_a_service_starts_ends_it_in_order(
    service: str, says: str, kafka: EmbeddedKafka, clickhouse_engine: EmbeddedClickHouse, topics: Topics, tmp_path: Path
) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", STRUCK_WHEN_IT_SAYS, service, says],
        cwd=tmp_path,
        env=environment(
            **kafka.address.as_environment(),
            CLICKHOUSE_URL=f"http://{clickhouse_engine.host}:{clickhouse_engine.port}",
            NEWSPROOF_TOPIC_PREFIX=topics.prefix,
            NEWSPROOF_MODE="offline",
        ),
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert says in ended.stderr and "ended in order" in ended.stderr


@pytest.mark.parametrize("how", ["cancelled", "returned"])
async def test_a_part_that_ends_although_nobody_asked_is_no_end_in_order(how: str) -> None:
    asked = asyncio.Event()

    async def ends() -> None:
        if how == "cancelled":
            raise asyncio.CancelledError  # as a client does that takes a cancellation of its own for its caller's

    with pytest.raises(TransientError, match="ends ended unexpectedly"):
        await run_until(asyncio.Event(), (ends, lambda: None), (asked.wait, asked.set))  # type: ignore[arg-type]
    assert asked.is_set(), "the other part was stopped"


async def test_an_error_in_the_reading_of_the_indexes_ends_the_worker(
    made_topics: Topics, address: KafkaAddress, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fails(self: TextIndex) -> None:
        raise LookupError("nobody foresaw this")

    monkeypatch.setattr(TextIndex, "_follow", fails)
    monkeypatch.setattr(services, "shutdown_on_signal", asyncio.Event)
    for name, value in address.as_environment().items():
        monkeypatch.setenv(name, value)
    settings = load_settings(
        _env_file=None, newsproof_mode="offline", newsproof_data_dir=tmp_path, topic_partitions=2,
        newsproof_topic_prefix=made_topics.prefix, clickhouse_url="http://127.0.0.1:1",
    )  # fmt: skip
    with pytest.raises(LookupError, match="nobody foresaw"):
        async with asyncio.timeout(60):
            await services.run_worker(settings, take_over=True)


@pytest.mark.parametrize("module", ["newsproof.app.processes.services", "newsproof.web.service"])
def test_neither_a_sink_nor_the_page_loads_a_worker(module: str) -> None:
    loaded = f"import sys, {module}; sys.exit('faust' in sys.modules or 'streams.worker' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", loaded], cwd=CHECKOUT, check=False).returncode == 0


def test_waiting_for_a_model_server_ends_with_its_settings_or_says_how_to_start_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commands, "WAIT_S", 0.0)
    with pytest.raises(TransientError, match="start one with `newsproof model-server > "):
        commands._wait_for_model(tmp_path / "scripted.env")
    (tmp_path / "scripted.env").write_text("NEWSPROOF_MODE=simulated\nSCRIPTED_MODEL_URL=http://127.0.0.1:1/v1\n")
    commands._wait_for_model(tmp_path / "scripted.env")
