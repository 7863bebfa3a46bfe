"""The embedded Kafka lets in whoever can read its directory, and nobody else: on both of its ports."""

from __future__ import annotations

import asyncio
import os
import re
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import psutil
import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.conn import AIOKafkaConnection, create_conn
from aiokafka.errors import KafkaError
from aiokafka.protocol.admin import CreateTopicsRequest_v2

from infra.embedded.kafka.server import EmbeddedKafka, running_bootstrap
from infra.kafka.topics import KafkaAddress, offsets_of
from infra.owner_only import make_owner_only
from infra.redaction import redacted
from infra.settings import Settings, load_settings
from newsproof.sdk.client import publish
from schemas.errors import ConfigError, TransientError
from schemas.topics import Topics
from tests.newsproof.command import newsproof
from tests.streams.world import news

pytestmark = pytest.mark.security


def controller_port(kafka: EmbeddedKafka) -> int:
    written = (kafka.data_dir / "server.properties").read_text()
    return int(re.findall(r"CONTROLLER://127\.0\.0\.1:(\d+)", written)[0])


class AsIs:
    """A request of a version that we name, which a stranger needs no negotiation for."""

    def __init__(self, request: object) -> None:
        self._request = request

    def prepare(self, _versions: object) -> object:
        return self._request


@asynccontextmanager
async def connected(port: int, **login: str | None) -> AsyncIterator[AIOKafkaConnection]:
    connection = await create_conn("127.0.0.1", port, request_timeout_ms=5000, **login)
    try:
        yield connection
    finally:
        connection.close()


async def create_topic(connection: AIOKafkaConnection, name: str) -> int:
    """Ask for a topic; return the error code, 0 when it was made."""
    request = CreateTopicsRequest_v2([(name, 1, 1, [], [])], 5000, False)
    answer = await connection.send(AsIs(request))
    return int(answer.topic_errors[0][1])


async def topics_of(kafka: EmbeddedKafka) -> set[str]:
    async with kafka.address.admin() as admin:
        return set(await admin.list_topics())


async def test_a_stranger_neither_lists_nor_produces_on_the_brokers_port(kafka: EmbeddedKafka, topics: Topics) -> None:
    async with kafka.address.admin() as admin:
        await admin.create_topics([NewTopic(topics.signals, 1, 1)])
    stranger = AIOKafkaAdminClient(bootstrap_servers=kafka.bootstrap, request_timeout_ms=5000)
    try:
        with pytest.raises(KafkaError):
            await stranger.start()
    finally:
        await stranger.close()
    producer = AIOKafkaProducer(bootstrap_servers=kafka.bootstrap, request_timeout_ms=5000)
    try:
        with pytest.raises(KafkaError):
            await producer.start()
            await producer.send_and_wait(topics.signals, b"verified sell 0.99")
    finally:
        await producer.stop()
    assert list((await offsets_of(kafka.address, topics.signals)).values()) == [(0, 0)]


async def test_a_stranger_creates_no_topic_through_either_port(kafka: EmbeddedKafka) -> None:
    broker = int(kafka.bootstrap.rpartition(":")[2])
    for name, port in (("by-the-broker", broker), ("by-the-controller", controller_port(kafka))):
        async with connected(port) as connection:
            with pytest.raises(KafkaError):
                await create_topic(connection, name)
    assert not {"by-the-broker", "by-the-controller"} & await topics_of(kafka)


async def test_whoever_knows_the_password_creates_topics_through_either_port(kafka: EmbeddedKafka) -> None:
    """So the refusals are refusals of strangers, not of the requests."""
    login = {name: value for name, value in kafka.address.client_args().items() if name != "bootstrap_servers"}
    broker = int(kafka.bootstrap.rpartition(":")[2])
    for name, port in (("mine-by-the-broker", broker), ("mine-by-the-controller", controller_port(kafka))):
        async with connected(port, **login) as connection:
            assert await create_topic(connection, name) == 0
    async with asyncio.timeout(20):  # the controller answers before the broker has heard of it
        while not {"mine-by-the-broker", "mine-by-the-controller"} <= await topics_of(kafka):
            pass


async def test_a_wrong_password_is_refused_and_the_error_says_where_the_right_one_is(
    kafka: EmbeddedKafka, tmp_path: Path
) -> None:
    (tmp_path / "password").write_text("not-the-one-of-this-broker")
    wrong = KafkaAddress.embedded(kafka.bootstrap, tmp_path / "password")
    with pytest.raises(ConfigError, match=f"refuses the password in {tmp_path}/password.*`newsproof kafka`") as caught:
        async with wrong.admin():
            pass
    assert "not-the-one" not in str(caught.value)
    for port in (int(kafka.bootstrap.rpartition(":")[2]), controller_port(kafka)):
        login = msgspec.structs.replace(wrong, bootstrap=f"127.0.0.1:{port}").client_args()
        with pytest.raises(KafkaError):
            async with connected(port, **{name: value for name, value in login.items() if name != "bootstrap_servers"}):
                pass


async def test_a_client_without_a_login_is_told_what_is_missing(kafka: EmbeddedKafka) -> None:
    with pytest.raises(TransientError, match=r"does not respond to a client without a login.*`newsproof kafka`"):
        await publish([news()], kafka=kafka.bootstrap)


def test_what_holds_the_password_is_its_owners_alone_and_no_command_line_shows_it(kafka: EmbeddedKafka) -> None:
    password = kafka.address.password
    assert password is not None and len(password) >= 32
    holding = {path for path in kafka.data_dir.rglob("*") if path.is_file() and password.encode() in path.read_bytes()}
    assert {path.name for path in holding} == {"password", "server.properties"}
    for path in kafka.data_dir.rglob("*"):
        if path.is_file():
            assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path
    assert stat.S_IMODE(kafka.data_dir.stat().st_mode) == 0o700
    server = psutil.Process(kafka.pid)
    assert password not in " ".join([*server.cmdline(), *server.environ().values()])
    assert password not in repr(kafka.address) and password not in redacted(f"it is {password}")


@pytest.mark.slow
async def test_the_password_stays_over_restarts_and_each_directory_has_its_own(
    kafka: EmbeddedKafka, tmp_path: Path
) -> None:
    server = EmbeddedKafka(tmp_path / "kafka")
    async with server:
        first = server.address.password
        assert running_bootstrap(server.data_dir) == server.bootstrap
    assert running_bootstrap(server.data_dir) is None
    (server.data_dir / "password").chmod(0o644)
    async with EmbeddedKafka(tmp_path / "kafka") as again:
        assert again.address.password == first != kafka.address.password
        assert stat.S_IMODE((again.data_dir / "password").stat().st_mode) == 0o600


async def test_a_password_file_that_we_did_not_write_is_refused(tmp_path: Path) -> None:
    (tmp_path / "password").write_text('"; user_other="x')
    with pytest.raises(ConfigError, match="holds no secret that Newsproof made"):
        await EmbeddedKafka(tmp_path).start()


def test_a_login_without_tls_is_for_the_embedded_kafka_of_this_machine_alone(tmp_path: Path) -> None:
    (tmp_path / "password").write_text("some-password-of-a-broker")
    with pytest.raises(ConfigError, match="in the clear"):
        KafkaAddress.embedded("kafka.example:9092", tmp_path / "password")
    with pytest.raises(ConfigError, match="in the clear"):
        KafkaAddress.embedded("127.0.0.1:9092,kafka.example:9092", tmp_path / "password")
    with pytest.raises(ConfigError, match="in the clear"):
        KafkaAddress(bootstrap="127.0.0.1:9092", security_protocol="SASL_PLAINTEXT", username="u", password="p")
    with pytest.raises(ConfigError, match="KAFKA_SECURITY_PROTOCOL"):
        load_settings(kafka_security_protocol="SASL_PLAINTEXT")
    with pytest.raises(ConfigError, match=f"{tmp_path}/none does not exist.*stop it and start it again"):
        at = Settings(_env_file=None, kafka_embedded_password_file=tmp_path / "none")
        KafkaAddress.of(at, "127.0.0.1:9092")


def test_a_directory_of_ours_is_closed_to_others_and_no_other_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, shared, theirs = tmp_path / "ours", tmp_path / "shared", tmp_path / "theirs"
    for directory, mode in ((ours, 0o755), (shared, 0o1777), (theirs, 0o755)):
        directory.mkdir()
        directory.chmod(mode)
        (directory / "kept").write_text("as it was")
    make_owner_only(ours)
    make_owner_only(shared)
    make_owner_only(tmp_path / "new")
    monkeypatch.setattr(os, "geteuid", lambda: theirs.stat().st_uid + 1)
    make_owner_only(theirs)
    modes = [stat.S_IMODE(one.stat().st_mode) for one in (ours, shared, theirs, tmp_path / "new")]
    assert modes == [0o700, 0o1777, 0o755, 0o700]
    assert (ours / "kept").read_text() == "as it was"


@pytest.mark.slow
def test_a_command_closes_the_data_directory_and_what_its_children_write(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir(mode=0o755)
    done = newsproof("--data-dir", str(tmp_path / "data"), "topics", "create", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert stat.S_IMODE((tmp_path / "data").stat().st_mode) == 0o700
    open_to_others = [path for path in (tmp_path / "data").rglob("*") if path.is_file() and path.stat().st_mode & 0o077]
    assert open_to_others == []
