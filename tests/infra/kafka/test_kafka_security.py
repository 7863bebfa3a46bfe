"""SASL_SSL for real: an embedded Kafka with a login over TLS, and everything that speaks to it."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
import uvloop
from aiokafka import TopicPartition

from infra.kafka.topics import KafkaAddress, ensure_topics, read_range
from infra.settings import Settings
from newsproof.app import exits
from newsproof.sdk.client import publish, subscribe
from schemas.errors import ConfigError, TransientError
from schemas.topics import Topics
from tests.infra.kafka.secured_kafka import KEY_PASSWORD, PASSWORD, Secured, secured_kafka
from tests.newsproof.command import newsproof
from tests.plain_graph import plain_registry
from tests.streams.world import World, news


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    with secured_kafka(tmp_path_factory.mktemp("secured")) as broker:
        yield broker


@pytest.mark.slow
async def test_topics_news_a_worker_its_publisher_and_a_subscriber_work_over_sasl_ssl(
    secured: Secured, topics: Topics, tmp_path: Path
) -> None:
    address = secured.address()
    async with World.made(address, topics.prefix, tmp_path, partitions=2) as world:
        report = await publish([news(n) for n in range(5)], kafka=address, prefix=topics.prefix)
        assert (report.published, report.refused) == (5, [])
        async with world.working(plain_registry(asks=True)), world.publishing():
            assert (await world.until_closed(5, within_s=60)).clean
            got = subscribe(verdicts=None, actions=None, start="earliest", kafka=address, prefix=topics.prefix)
            async with asyncio.timeout(60):
                assert len({(await anext(got)).case_id for _ in range(5)}) == 5
            await got.aclose()  # type: ignore[attr-defined]


def test_short_reads_over_tls_end_at_once_on_the_loop_of_services(secured: Secured, topics: Topics) -> None:
    address, tp = secured.address(), TopicPartition(topics.news, 0)

    async def read_one() -> None:
        reading: Any = read_range(address, {tp: (0, 1)})
        async with aclosing(reading):
            await anext(reading)  # the next fetch is under way

    async def read() -> None:
        await ensure_topics(address, topics, partitions=1, replication=1)
        async with address.producer() as producer:
            await producer.send_and_wait(tp.topic, b"x", partition=0)
        async with asyncio.timeout(15):  # without the fix, half of them take 30 s
            await asyncio.gather(*(read_one() for _ in range(20)))

    uvloop.run(read())


@pytest.mark.parametrize(
    ("changes", "names"),
    [
        ({"kafka_sasl_password": "wrong"}, "KAFKA_SASL_PASSWORD"),
        ({"kafka_sasl_mechanism": "SCRAM-SHA-512"}, "KAFKA_SASL_MECHANISM"),
        ({"kafka_ssl_ca_file": None}, "KAFKA_SSL_CA_FILE"),
    ],
)
async def test_a_refused_login_is_an_error_that_names_the_setting(
    secured: Secured, changes: dict[str, Any], names: str
) -> None:
    with pytest.raises(ConfigError, match=names) as caught:
        async with secured.address(**changes).admin():
            pass
    assert PASSWORD not in str(caught.value) and "wrong" not in str(caught.value)
    with pytest.raises(ConfigError, match=names):
        await publish([news()], kafka=secured.address(**changes))


async def test_a_certificate_of_another_name_is_refused(secured: Secured) -> None:
    address = secured.address(kafka_bootstrap_servers=secured.login.replace("127.0.0.1", "localhost"))
    with pytest.raises(ConfigError, match="not trusted"):
        async with address.admin():
            pass


@pytest.mark.slow
def test_a_worker_with_a_wrong_password_refuses_to_start_and_says_why(secured: Secured, tmp_path: Path) -> None:
    shown = {
        name.upper(): value.get_secret_value() if hasattr(value, "get_secret_value") else str(value)
        for name, value in secured.settings(kafka_sasl_password="wr0ng-one").model_dump(exclude_unset=True).items()
    }
    for command in (("worker",), ("dlq", "list")):
        done = newsproof(*command, cwd=tmp_path, env=shown | {"CLICKHOUSE_URL": "http://127.0.0.1:1"})
        assert done.returncode == exits.USAGE, done.stderr
        assert "KAFKA_SASL_PASSWORD" in done.stderr and "wr0ng-one" not in done.stderr


async def test_a_client_certificate_is_shown_where_brokers_ask_for_one(secured: Secured) -> None:
    plain_tls: dict[str, Any] = {
        "kafka_bootstrap_servers": secured.mutual,
        "kafka_security_protocol": "SSL",
        "kafka_sasl_mechanism": None,
    }
    own = {
        "kafka_ssl_cert_file": secured.files / "client.crt",
        "kafka_ssl_key_file": secured.files / "client.key",
        "kafka_ssl_key_password": KEY_PASSWORD,
    }
    async with secured.address(**plain_tls, **own).admin() as admin:
        assert isinstance(await admin.list_topics(), list)
    with pytest.raises((ConfigError, TransientError)):
        async with secured.address(**plain_tls).admin():
            pass
    with pytest.raises(ConfigError, match="KAFKA_SSL_KEY_FILE"):
        secured.address(**plain_tls, **own | {"kafka_ssl_key_password": "wrong"})


@pytest.mark.parametrize(
    ("told", "says"),
    [
        ({"kafka_sasl_mechanism": "PLAIN"}, "in the clear"),
        ({"kafka_sasl_mechanism": "PLAIN", "kafka_security_protocol": "SSL"}, "in the clear"),
        ({"kafka_security_protocol": "SASL_SSL"}, "set all three"),
        ({"kafka_ssl_ca_file": "authority.pem"}, "PLAINTEXT has none"),
        ({"kafka_security_protocol": "SSL", "kafka_ssl_key_file": "client.key"}, "KAFKA_SSL_CERT_FILE"),
        ({"kafka_security_protocol": "SSL", "kafka_ssl_ca_file": "/nowhere/authority.pem"}, "KAFKA_SSL_CA_FILE"),
    ],
)
def test_a_login_without_tls_or_half_of_one_is_refused(told: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        KafkaAddress.of(Settings(_env_file=None, **told), "127.0.0.1:9092")


def test_an_address_does_not_show_its_passwords() -> None:
    shown = repr(KafkaAddress(bootstrap="b:1", password="pa55", key_password="k3y"))
    assert "pa55" not in shown and "k3y" not in shown


def test_tls_context_is_that_of_the_operating_system_unless_a_file_is_named() -> None:
    context = KafkaAddress(bootstrap="b:1", security_protocol="SSL").ssl_context
    assert context.verify_mode == ssl.CERT_REQUIRED and context.check_hostname
