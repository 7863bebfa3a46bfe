"""Apache Kafka and a ClickHouse server in containers: the images and settings of docker-compose.yml.

The addresses in the environment go first (``KAFKA_BOOTSTRAP_SERVERS`` with ``CLICKHOUSE_URL``, both); without them a
Docker engine is asked, and where none answers the tests say so and are skipped. Run them with ``./run test -m containers``.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from infra.embedded.child import free_ports
from infra.settings import Settings, load_settings

COMPOSE = Path(__file__).parents[2] / "docker-compose.yml"
PASSWORD = "only-for-this-test"


def _service(name: str) -> dict[str, Any]:
    yaml = pytest.importorskip("yaml", reason="PyYAML reads docker-compose.yml; it is part of requirements-dev.lock")
    found: dict[str, Any] = yaml.safe_load(COMPOSE.read_text("utf-8"))["services"][name]
    return found


def _container(name: str, **changes: str) -> Any:
    """A container of this service, its environment with these changes; not started."""
    from testcontainers.core.container import DockerContainer

    service = _service(name)
    environment = {key: str(value) for key, value in service["environment"].items()} | changes
    return DockerContainer(service["image"]).with_envs(**environment)


@pytest.fixture(scope="session")
def docker_engine() -> None:
    """Skip where no Docker engine answers."""
    import docker

    try:
        docker.from_env(timeout=5).ping()
    except docker.errors.DockerException as exc:
        pytest.skip(
            f"no Docker engine answers here ({type(exc).__name__}); start one, or name servers in the environment"
        )


@pytest.fixture(scope="session")
def kafka_server(request: pytest.FixtureRequest) -> Iterator[str]:
    """The address of an Apache Kafka broker: ``host:port``."""
    if given := _given("KAFKA_BOOTSTRAP_SERVERS"):
        yield given
        return
    request.getfixturevalue("docker_engine")
    from testcontainers.core.wait_strategies import LogMessageWaitStrategy

    # The broker tells its clients where it is, so the port has to be known before it starts.
    (port,) = free_ports(1)
    # docker-compose.yml publishes no listener without a log-in; here one on loopback lives as long as the test.
    broker = _container(
        "kafka",
        KAFKA_LISTENERS="INTERNAL://:9092,CONTROLLER://:9093,HOST://:9094",
        KAFKA_ADVERTISED_LISTENERS=f"INTERNAL://localhost:9092,HOST://127.0.0.1:{port}",
        KAFKA_LISTENER_SECURITY_PROTOCOL_MAP="INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT,HOST:PLAINTEXT",
        KAFKA_CONTROLLER_QUORUM_VOTERS="1@localhost:9093",
    )
    broker.with_bind_ports(9094, port).waiting_for(LogMessageWaitStrategy("Kafka Server started"))
    with broker:
        yield f"127.0.0.1:{port}"


@pytest.fixture(scope="session")
def clickhouse_url(request: pytest.FixtureRequest) -> Iterator[str]:
    """The address of a ClickHouse server with a user who may create databases."""
    if given := _given("CLICKHOUSE_URL"):
        yield given
        return
    request.getfixturevalue("docker_engine")
    from testcontainers.core.wait_strategies import HttpWaitStrategy

    server = _container("clickhouse", CLICKHOUSE_PASSWORD=PASSWORD).with_exposed_ports(8123)
    with server.waiting_for(HttpWaitStrategy(8123, "/ping")):
        yield f"http://newsproof:{PASSWORD}@{server.get_container_host_ip()}:{server.get_exposed_port(8123)}"


@pytest.fixture
def settings(kafka_server: str, clickhouse_url: str, tmp_path: Path) -> Settings:
    """An installation of its own on these servers: topics, groups and database are shared with nobody."""
    own = uuid.uuid4().hex[:8]
    return load_settings(
        newsproof_mode="offline",
        newsproof_data_dir=tmp_path,
        newsproof_topic_prefix=f"t{own}.",
        clickhouse_database=f"t{own}",
        kafka_bootstrap_servers=kafka_server,
        clickhouse_url=clickhouse_url,
        topic_partitions=2,
    )


def _given(name: str) -> str | None:
    both = ("KAFKA_BOOTSTRAP_SERVERS", "CLICKHOUSE_URL")
    return os.environ[name] if all(os.environ.get(one) for one in both) else None
