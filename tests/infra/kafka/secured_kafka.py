"""An embedded Kafka with a login over TLS, and the PEM files that go with it."""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from infra.embedded.child import free_ports
from infra.embedded.kafka.server import EmbeddedKafka
from infra.kafka.topics import KafkaAddress
from infra.settings import Settings

PASSWORD = "correct-horse-battery"
KEY_PASSWORD = "staple"
USER = "worker"

LISTENERS = """
listeners=BROKER://127.0.0.1:{{port}},CONTROLLER://127.0.0.1:{{controller_port}},LOGIN://127.0.0.1:{login},MUTUAL://127.0.0.1:{mutual}
advertised.listeners=BROKER://127.0.0.1:{{port}},LOGIN://127.0.0.1:{login},MUTUAL://127.0.0.1:{mutual}
listener.security.protocol.map=BROKER:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT,LOGIN:SASL_SSL,MUTUAL:SSL
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


@contextmanager
def secured_kafka(directory: Path, *, password: str = PASSWORD) -> Iterator[Secured]:
    """A broker with a listener for users with a password and one for clients with a certificate."""
    files = directory / "pem"
    files.mkdir()
    make_certificates(files)
    login, mutual = free_ports(2)
    lines = LISTENERS.format(
        login=login, mutual=mutual, user=USER, password=password,
        server=files / "server.pem", authority=files / "authority.pem",
    )  # fmt: skip
    server = EmbeddedKafka(directory / "kafka", more_properties=lines)
    asyncio.run(server.start())
    try:
        yield Secured(login, mutual, files)
    finally:
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
