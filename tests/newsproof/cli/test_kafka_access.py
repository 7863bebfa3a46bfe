"""``newsproof kafka``: what it prints works, for those who may read the directory and for them alone."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from aiokafka.admin import AIOKafkaAdminClient

from infra.embedded.kafka.jars import default_cache_dir, ensure_jars
from infra.embedded.kafka.java import find_java
from infra.embedded.kafka.server import EmbeddedKafka
from infra.kafka.topics import ensure_topics
from newsproof.app import exits
from schemas.topics import Topics
from tests.newsproof.command import environment, invoked

BOT = """
import asyncio
from newsproof import publish
item = {"source": "bot", "external_id": "1", "text": "SEC approves", "published_at": "2026-01-01T00:00:00Z", "language": "en"}
print(asyncio.run(publish([item])).published)
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A directory in which ``newsproof up`` would have started a broker; its topics are there."""
    directory = tmp_path_factory.mktemp("place")
    server = EmbeddedKafka(directory / ".data" / "kafka")
    asyncio.run(server.start())
    asyncio.run(ensure_topics(server.address, Topics(), partitions=1, replication=1))
    yield directory
    asyncio.run(server.stop())


@pytest.fixture(scope="module")
def told(place: Path) -> dict[str, str]:
    done = invoked("kafka", "--json", cwd=place)
    assert done.returncode == 0, done.stderr
    answer: dict[str, str] = json.loads(done.stdout)
    return answer


@pytest.mark.security
async def test_the_login_that_it_prints_is_taken(told: dict[str, str]) -> None:
    client = AIOKafkaAdminClient(
        bootstrap_servers=told["bootstrap"], security_protocol=told["protocol"].partition(",")[0], sasl_mechanism="PLAIN",
        sasl_plain_username=told["user"], sasl_plain_password=told["password"],
    )  # fmt: skip
    await client.start()
    try:
        assert "newsproof.signals" in await client.list_topics()
    finally:
        await client.close()


@pytest.mark.security
def test_kafkas_own_tools_work_with_the_lines_for_them(told: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "client.properties").write_text(told["kafka_tools"])
    jars = os.pathsep.join(map(str, ensure_jars(default_cache_dir())))
    # The one of those tools that is among the broker's own jars.
    java = [str(find_java().path), "-cp", jars, "kafka.admin.ConfigCommand", "--describe", "--entity-type", "topics"]
    words = ["--bootstrap-server", told["bootstrap"], "--command-config", str(tmp_path / "client.properties")]
    done = subprocess.run([*java, *words], capture_output=True, text=True, timeout=60, check=False)
    assert "newsproof.signals" in done.stdout, done.stdout + done.stderr


def test_confluent_kafka_and_kcat_are_told_the_same(told: dict[str, str]) -> None:
    for_confluent = eval(told["confluent_kafka"])
    lines = [line for line in told["kcat"].splitlines() if not line.startswith("#")]
    assert for_confluent == dict(line.split("=", 1) for line in lines)
    assert for_confluent["sasl.password"] == told["password"] and told["bootstrap"] in told["kcat"]


def test_a_bot_works_beside_it_without_a_password_here_and_elsewhere(
    told: dict[str, str], place: Path, tmp_path: Path
) -> None:
    name, _, directory = told["bots"].splitlines()[-1].removeprefix("export ").partition("=")
    for cwd, env in ((place, {}), (tmp_path, {name: directory})):
        done = subprocess.run(
            [sys.executable, "-c", BOT], cwd=cwd, env=environment(**env), capture_output=True, text=True, check=False
        )
        assert (done.stdout, done.stderr) == ("1\n", ""), done.stderr


def test_it_says_what_to_do_where_there_is_no_embedded_kafka(place: Path, tmp_path: Path) -> None:
    for cwd, env, says in (
        (tmp_path, {}, "up`"),
        (place, {"KAFKA_BOOTSTRAP_SERVERS": "broker:9092"}, "the settings decide"),
    ):
        done = invoked("kafka", cwd=cwd, env=env)
        assert (done.returncode, says in done.stderr) == (exits.USAGE, True), done.stderr


def test_people_read_it_as_a_table_and_lines_to_copy(told: dict[str, str], place: Path) -> None:
    done = invoked("kafka", cwd=place)
    assert told["kcat"] in done.stdout and told["password_file"] in done.stdout.replace("\n", "")
