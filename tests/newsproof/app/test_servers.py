"""Which servers a command uses: never one that a file merely claims, never two on one directory, none left behind."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from infra.embedded.child import DirectoryLock, free_ports
from infra.embedded.clickhouse.server import EmbeddedClickHouse
from infra.embedded.kafka.server import EmbeddedKafka
from infra.kafka.topics import KafkaAddress
from infra.settings import Settings
from newsproof.app.servers import Servers, running_clickhouse, running_kafka, servers, with_data
from schemas.errors import ConfigError, TransientError
from tests.newsproof.command import processes_in


def settings(directory: Path, **values: object) -> Settings:
    return Settings(_env_file=None, newsproof_data_dir=directory, **values)  # type: ignore[arg-type]


def claim(directory: Path, address: str) -> None:
    directory.mkdir(parents=True)
    (directory / "address").write_text(address)


async def test_a_file_that_a_dead_server_left_is_not_believed(
    tmp_path: Path, kafka: EmbeddedKafka, clickhouse_engine: EmbeddedClickHouse
) -> None:
    # Servers do answer there, but they are not those of this directory: nobody holds its lock.
    claim(tmp_path / "kafka", kafka.bootstrap)
    claim(tmp_path / "clickhouse", f"http://{clickhouse_engine.host}:{clickhouse_engine.port}")
    assert await running_kafka(tmp_path / "kafka") is None
    assert await running_clickhouse(tmp_path / "clickhouse") is None


async def test_a_held_directory_without_an_answering_server_is_not_believed(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    claim(tmp_path / "kafka", f"127.0.0.1:{port}")
    claim(tmp_path / "clickhouse", f"http://127.0.0.1:{port}")
    locks = [DirectoryLock(tmp_path / part, what="the test") for part in ("kafka", "clickhouse")]
    for lock in locks:
        lock.acquire()
    assert await running_kafka(tmp_path / "kafka") is None
    assert await running_clickhouse(tmp_path / "clickhouse") is None
    for lock in locks:
        lock.release()


async def test_another_http_server_is_no_clickhouse(tmp_path: Path, kafka: EmbeddedKafka) -> None:
    with pytest.raises(TransientError, match="CLICKHOUSE_URL"):
        async with servers(settings(tmp_path, clickhouse_url=f"http://{kafka.bootstrap}"), kafka=False):
            pass


@pytest.mark.slow
async def test_own_servers_are_found_by_others_and_end_with_their_command(tmp_path: Path) -> None:
    at = settings(tmp_path)
    async with servers(at) as own:
        assert set(own.own) == {"kafka", "clickhouse"} and own.embedded_kafka
        async with servers(at) as found:
            assert (found.kafka, found.clickhouse, found.own) == (own.kafka, own.clickhouse, ())
        assert await running_kafka(tmp_path / "kafka") == own.kafka
    assert await running_kafka(tmp_path / "kafka") is None
    assert await running_clickhouse(tmp_path / "clickhouse") is None
    assert processes_in(tmp_path) == []


@pytest.mark.slow
async def test_two_commands_that_start_at_once_share_one_server(tmp_path: Path) -> None:
    at = settings(tmp_path)
    both_in = asyncio.Barrier(2)

    async def command() -> Servers:
        async with servers(at, clickhouse=False) as found:
            await both_in.wait()
            return found

    first, second = await asyncio.gather(command(), command())
    assert first.kafka == second.kafka
    assert sorted([first.own, second.own]) == [(), ("kafka",)]


async def test_when_one_server_cannot_start_the_other_one_is_not_left_behind(tmp_path: Path) -> None:
    (tmp_path / "clickhouse").write_text("a file where a directory should be")
    with pytest.raises(OSError):
        async with servers(settings(tmp_path)):
            pass
    assert await running_kafka(tmp_path / "kafka") is None
    assert processes_in(tmp_path) == []


@pytest.mark.security
def test_an_embedded_broker_is_logged_in_to_with_its_own_password_whatever_is_configured_for_another_one(
    tmp_path: Path,
) -> None:
    at = settings(
        tmp_path,
        kafka_security_protocol="SASL_SSL",
        kafka_sasl_mechanism="PLAIN",
        kafka_sasl_username="u",
        kafka_sasl_password="p",
    )
    applied = Servers(kafka="127.0.0.1:1", clickhouse=None, embedded_kafka=True).applied_to(at)
    (tmp_path / "kafka").mkdir()
    (tmp_path / "kafka" / "password").write_text("password-of-this-directory")
    address = KafkaAddress.of(applied, "127.0.0.1:1")
    assert address == KafkaAddress.embedded("127.0.0.1:1", tmp_path / "kafka" / "password")
    assert (address.security_protocol, address.username, address.password) == (
        "SASL_PLAINTEXT", "newsproof", "password-of-this-directory"
    )  # fmt: skip


async def test_reading_commands_look_into_the_demo_only_where_nothing_else_is(tmp_path: Path) -> None:
    def holds_a_log(directory: Path) -> None:
        (directory / "kafka").mkdir(parents=True)
        (directory / "kafka" / "cluster-id").write_text("x")

    async def chosen(*, given: bool = False) -> Path:
        return (await with_data(settings(tmp_path), given=given, say=said.append)).newsproof_data_dir

    said: list[str] = []
    assert await chosen() == tmp_path
    holds_a_log(tmp_path / "demo")
    assert await chosen() == tmp_path / "demo" and "--data-dir" in said[0]
    assert await chosen(given=True) == tmp_path
    holds_a_log(tmp_path)
    assert await chosen() == tmp_path


async def test_a_directory_that_is_not_there_is_refused_to_a_reader_alone(tmp_path: Path) -> None:
    new = settings(tmp_path / "new")
    with pytest.raises(ConfigError, match="there is nothing to read"):
        await with_data(new, given=True)
    assert await with_data(new, given=True, must_exist=False) == new
