"""SASL_SSL for real: an embedded Kafka with a login over TLS, and everything that speaks to it."""

from __future__ import annotations

import asyncio
import ipaddress
import ssl
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from infra.embedded.child import free_ports
from infra.embedded.kafka import EmbeddedKafka
from infra.kafka import KafkaAddress
from infra.settings import Settings
from newsproof import exits
from newsproof.bench.graph import plain_registry
from newsproof.client import publish, subscribe
from schemas.errors import ConfigError, TransientError
from schemas.topics import Topics
from tests.newsproof.command import newsproof
from tests.streams.world import World, news

PASSWORD = "correct-horse-battery"
KEY_PASSWORD = "staple"
USER = "worker"

LISTENERS = """
listeners=BROKER://127.0.0.1:{{port}},CONTROLLER://127.0.0.1:{{controller_port}},LOGIN://127.0.0.1:{login},MUTUAL://127.0.0.1:{mutual}
advertised.listeners=BROKER://127.0.0.1:{{port}},LOGIN://127.0.0.1:{login},MUTUAL://127.0.0.1:{mutual}
listener.security.protocol.map=BROKER:PLAINTEXT,CONTROLLER:PLAINTEXT,LOGIN:SASL_SSL,MUTUAL:SSL
ssl.keystore.type=PEM
ssl.keystore.location={server}
ssl.truststore.type=PEM
ssl.truststore.location={authority}
listener.name.login.sasl.enabled.mechanisms=PLAIN
listener.name.login.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required user_{user}="{password}";
listener.name.mutual.ssl.client.auth=required
"""


class Secured:
    """The broker's two listeners, and the PEM files."""

    def __init__(self, login: int, mutual: int, files: Path) -> None:
        self.login, self.mutual, self.files = f"127.0.0.1:{login}", f"127.0.0.1:{mutual}", files

    def settings(self, **changes: Any) -> Settings:
        told = {
            "kafka_bootstrap_servers": self.login,
            "kafka_security_protocol": "SASL_SSL",
            "kafka_sasl_mechanism": "PLAIN",
            "kafka_sasl_username": USER,
            "kafka_sasl_password": PASSWORD,
            "kafka_ssl_ca_file": self.files / "authority.pem",
        }
        return Settings(_env_file=None, **{k: v for k, v in (told | changes).items() if v is not None})

    def address(self, **changes: Any) -> KafkaAddress:
        settings = self.settings(**changes)
        return KafkaAddress.of(settings, settings.kafka_bootstrap_servers or "")


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    files = tmp_path_factory.mktemp("pem")
    make_certificates(files)
    login, mutual = free_ports(2)
    lines = LISTENERS.format(
        login=login, mutual=mutual, user=USER, password=PASSWORD,
        server=files / "server.pem", authority=files / "authority.pem",
    )  # fmt: skip
    server = EmbeddedKafka(tmp_path_factory.mktemp("secured-kafka"), more_properties=lines)
    asyncio.run(server.start())
    yield Secured(login, mutual, files)
    asyncio.run(server.stop())


def make_certificates(files: Path) -> None:
    """An authority, the broker's key and certificate in one file, and a client's with an encrypted key."""
    authority_key = ec.generate_private_key(ec.SECP256R1())
    authority = certificate("test authority", authority_key, authority_key, "test authority", is_authority=True)
    (files / "authority.pem").write_bytes(pem(authority))
    for name in ("server", "client"):
        key = ec.generate_private_key(ec.SECP256R1())
        signed = certificate(name, key, authority_key, "test authority")
        plain_key, encrypted = private(key, None), private(key, KEY_PASSWORD)
        (files / f"{name}.pem").write_bytes(plain_key + pem(signed) + pem(authority))
        (files / f"{name}.crt").write_bytes(pem(signed))
        (files / f"{name}.key").write_bytes(encrypted)


def certificate(name: str, key: Any, signing_key: Any, issuer: str, *, is_authority: bool = False) -> x509.Certificate:
    now = datetime.now(UTC)
    built = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
        .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, issuer)]))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signing_key.public_key()), critical=False)
        .add_extension(
            x509.KeyUsage(True, False, False, False, False, is_authority, False, False, False), critical=True
        )
    )
    if not is_authority:
        loopback = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
        built = built.add_extension(x509.SubjectAlternativeName([loopback]), critical=False)
    return built.sign(signing_key, hashes.SHA256())


def pem(of: x509.Certificate) -> bytes:
    return of.public_bytes(serialization.Encoding.PEM)


def private(key: Any, password: str | None) -> bytes:
    how = serialization.BestAvailableEncryption(password.encode()) if password else serialization.NoEncryption()
    shown: bytes = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, how)
    return shown


async def test_topics_news_a_worker_its_publisher_and_a_subscriber_work_over_sasl_ssl(
    secured: Secured, topics: Topics, tmp_path: Path
) -> None:
    address = secured.address()
    async with World.made(address, topics.prefix, tmp_path, partitions=2) as world:
        report = await publish([news(n) for n in range(5)], kafka=address, prefix=topics.prefix)
        assert (report.published, report.refused) == (5, [])
        async with world.working(plain_registry(asks=True)), world.publishing():
            assert (await world.until_closed(5, within_s=60)).clean
            got = subscribe(
                statuses=("verified", "unverified", "preliminary", "degraded"),  # type: ignore[arg-type]
                start="earliest", kafka=address, prefix=topics.prefix,
            )  # fmt: skip
            async with asyncio.timeout(60):
                assert len({(await anext(got)).case_id for _ in range(5)}) == 5
            await got.aclose()  # type: ignore[attr-defined]


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
