"""Kafka address and login, shared by all clients, with a diagnosis of failed connections."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.conn import create_conn
from aiokafka.errors import (
    AuthenticationFailedError,
    IllegalSaslStateError,
    KafkaError,
    SaslAuthenticationFailed,
    UnsupportedSaslMechanismError,
)
from aiokafka.helpers import create_ssl_context

from infra.client_settings import ClientSettings
from infra.kafka.aiokafka_fixes import TLS_PROTOCOLS
from infra.kafka.fetch_waits import QuietConsumer
from infra.owner_only import kept_secret
from infra.redaction import know
from schemas.errors import ConfigError, NewsproofError, TransientError
from schemas.topics import MAX_MESSAGE_BYTES

if TYPE_CHECKING:
    from infra.settings import Settings

ASK_WITHIN_S = 10.0
"""Timeout of one login attempt, after which the broker counts as unavailable."""
EMBEDDED_USER = "newsproof"
"""The only user of an embedded broker, who may do everything."""
LOOPBACK = "127.0.0.1"


class KafkaAddress(msgspec.Struct, frozen=True, kw_only=True):
    """Bootstrap servers (``host:port,…``) and login. Only an embedded broker may use SASL without TLS.

    ``ca_file``: PEM file with the authorities that may sign brokers' certificates; None = the operating system's. The
    host name in a broker's certificate is always checked. ``cert_file`` and ``key_file``: this client's own
    certificate, for brokers that require one. ``password_file``: the file that an embedded broker's password was read
    from (:meth:`embedded`); None for any other broker.

    Raises:
        ConfigError: SASL without TLS would leave this machine.
    """

    bootstrap: str
    security_protocol: str = "PLAINTEXT"
    sasl_mechanism: str | None = None
    username: str | None = None
    password: str | None = None
    ca_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = None
    key_password: str | None = None
    password_file: str | None = None

    def __post_init__(self) -> None:
        here = all(server.strip().rpartition(":")[0] == LOOPBACK for server in self.bootstrap.split(","))
        if self.security_protocol == "SASL_PLAINTEXT" and not (here and self.password_file):
            raise ConfigError(
                f"SASL without TLS would send the password to {self.bootstrap} in the clear, which is only allowed for "
                f"the embedded Kafka at {LOOPBACK}: unset KAFKA_EMBEDDED_PASSWORD_FILE, and set "
                "KAFKA_SECURITY_PROTOCOL=SASL_SSL"
            )

    def __repr__(self) -> str:
        return f"KafkaAddress({self.bootstrap!r}, {self.security_protocol}, username={self.username!r})"

    @classmethod
    def of(cls, settings: Settings | ClientSettings, bootstrap: str) -> KafkaAddress:
        """Return the address from settings; ``bootstrap`` is the effective value, which may be the embedded server's.

        Raises:
            ConfigError: SASL is configured without TLS or incompletely, or a PEM file cannot be used; or as
                :meth:`embedded`.
        """
        if not isinstance(settings, ClientSettings):
            settings = ClientSettings.of(settings)
        if settings.kafka_embedded_password_file is not None:
            # Takes precedence over settings for another broker.
            return cls.embedded(bootstrap, settings.kafka_embedded_password_file)
        _refuse_half_configured(settings)
        address = cls(
            bootstrap=bootstrap,
            security_protocol=settings.kafka_security_protocol,
            sasl_mechanism=settings.kafka_sasl_mechanism,
            username=settings.kafka_sasl_username,
            password=settings.kafka_sasl_password,
            ca_file=settings.kafka_ssl_ca_file,
            cert_file=settings.kafka_ssl_cert_file,
            key_file=settings.kafka_ssl_key_file,
            key_password=settings.kafka_ssl_key_password,
        )
        address.client_args()  # reports a missing file now, not at the first client
        return address

    @classmethod
    def embedded(cls, bootstrap: str, password_file: Path | str) -> KafkaAddress:
        """Return the address of an embedded broker at ``127.0.0.1:PORT``, whose password the file holds.

        Raises:
            ConfigError: the file is missing, Newsproof did not write it, or the broker is on another machine.
        """
        password = kept_secret(Path(password_file))
        if password is None:
            raise ConfigError(
                f"the embedded Kafka at {bootstrap} requires a password, but {password_file} does not exist: if an "
                "earlier version started that Kafka, stop it and start it again"
            )
        know(password)
        logging.getLogger("aiokafka.conn").addFilter(_is_no_warning_of_loopback)
        return cls(
            bootstrap=bootstrap,
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism="PLAIN",
            username=EMBEDDED_USER,
            password=password,
            password_file=str(password_file),
        )

    def as_environment(self) -> dict[str, str]:
        """Return the environment variables by which another process finds this embedded broker; no password."""
        return {"KAFKA_BOOTSTRAP_SERVERS": self.bootstrap, "KAFKA_EMBEDDED_PASSWORD_FILE": self.password_file or ""}

    def client_args(self) -> dict[str, Any]:
        """Return the keyword arguments common to all aiokafka clients."""
        args: dict[str, Any] = {"bootstrap_servers": self.bootstrap, "security_protocol": self.security_protocol}
        if self.security_protocol in TLS_PROTOCOLS:
            args["ssl_context"] = self.ssl_context
        if self.sasl_mechanism:
            args |= {
                "sasl_mechanism": self.sasl_mechanism,
                "sasl_plain_username": self.username,
                "sasl_plain_password": self.password,
            }
        return args

    @property
    def ssl_context(self) -> ssl.SSLContext:
        """The TLS context of all connections, created once.

        Raises:
            ConfigError: a PEM file cannot be used.
        """
        return _ssl_context(self.ca_file, self.cert_file, self.key_file, self.key_password)

    def producer(self, **more: Any) -> AIOKafkaProducer:
        """Return an idempotent producer (acks=all); not started."""
        return AIOKafkaProducer(
            **self.client_args(),
            **{
                "enable_idempotence": True,
                "acks": "all",
                "max_request_size": MAX_MESSAGE_BYTES,
                "compression_type": "lz4",
                "max_batch_size": 512 * 1024,
                "metadata_max_age_ms": 60_000,
                **more,
            },
        )

    def consumer(self, **more: Any) -> AIOKafkaConsumer:
        """Return a consumer that never commits on its own; not started."""
        return QuietConsumer(
            **self.client_args(),
            **{
                "enable_auto_commit": False,
                "auto_offset_reset": "earliest",
                "max_partition_fetch_bytes": 2 * MAX_MESSAGE_BYTES,
                "metadata_max_age_ms": 60_000,
                **more,
            },
        )

    @asynccontextmanager
    async def reading(self, **more: Any) -> AsyncIterator[AIOKafkaConsumer]:
        """Yield a started consumer that never commits on its own. It is always closed, even if its start fails."""
        consumer = self.consumer(**more)
        try:
            await consumer.start()
            yield consumer
        finally:
            await _closed(consumer.stop())

    @asynccontextmanager
    async def admin(self) -> AsyncIterator[AIOKafkaAdminClient]:
        """Yield a started admin client.

        Raises:
            ConfigError: a broker refuses the login, or the TLS handshake fails.
            TransientError: no broker answers.
        """
        client = AIOKafkaAdminClient(**self.client_args())
        try:
            await client.start()
        except (KafkaError, OSError) as exc:
            raise await self.why_not(exc) from exc
        try:
            yield client
        finally:
            await _closed(client.close())

    async def why_not(self, exc: BaseException) -> NewsproofError:
        """Return the error to raise for a client that could not start.

        The client reports "unable to bootstrap" for every cause, so this connects to each server once more and
        classifies the first error that gives a cause.
        """
        away = TransientError(
            f"no Kafka broker responds at {self.bootstrap}: start it, or correct KAFKA_BOOTSTRAP_SERVERS",
            kind="unavailable",
        )
        for server in self.bootstrap.split(","):
            host, _, port = server.strip().rpartition(":")
            try:
                await self._check_connection(host.strip("[]"), int(port))
                if self.security_protocol == "PLAINTEXT":
                    return TransientError(
                        f"the server at {server} does not respond to a client without a login: set KAFKA_SECURITY_PROTOCOL and "
                        "the related settings to what that Kafka requires, or wait until it has started. An embedded one is found by "
                        "its data directory, with KAFKA_BOOTSTRAP_SERVERS unset; `newsproof kafka` prints its login",
                        kind="unavailable",
                    )
            except (KafkaError, OSError, TimeoutError, ValueError) as refused:
                if (sentence := self._in_words(refused, server)) is not None:
                    return sentence
        return away

    async def _check_connection(self, host: str, port: int) -> None:
        args = {name: value for name, value in self.client_args().items() if name != "bootstrap_servers"}
        async with asyncio.timeout(ASK_WITHIN_S):
            connection = await create_conn(host, port, **args)
        connection.close()

    def _in_words(self, exc: BaseException, server: str) -> ConfigError | None:
        match exc:
            case SaslAuthenticationFailed() | AuthenticationFailedError() | IllegalSaslStateError() if (
                self.password_file
            ):
                return ConfigError(
                    f"the server at {server} refuses the password in {self.password_file}, so it is not the embedded "
                    "Kafka of that directory: `newsproof kafka` prints its address, and `newsproof up` starts it"
                )
            case SaslAuthenticationFailed() | AuthenticationFailedError():
                return ConfigError(
                    f"Kafka at {server} refuses the login of user {self.username!r} ({self.sasl_mechanism}): correct "
                    "KAFKA_SASL_USERNAME and KAFKA_SASL_PASSWORD, or the user's rights there"
                )
            case UnsupportedSaslMechanismError() | IllegalSaslStateError():
                return ConfigError(
                    f"Kafka at {server} does not support {self.sasl_mechanism}: correct KAFKA_SASL_MECHANISM"
                )
            case ssl.SSLCertVerificationError():
                return ConfigError(
                    f"the certificate of Kafka at {server} is not trusted ({exc.verify_message}): set KAFKA_SSL_CA_FILE "
                    "to the PEM file of the authority that signed it, and name the broker as its certificate does"
                )
            case ssl.SSLError():
                return ConfigError(
                    f"the TLS handshake with Kafka at {server} failed ({exc.reason or exc}): use a port that speaks "
                    "TLS, and set KAFKA_SSL_CERT_FILE and KAFKA_SSL_KEY_FILE if brokers require a certificate"
                )
            case _:
                return None


def _is_no_warning_of_loopback(record: logging.LogRecord) -> bool:
    # Logged at every connection, also in a bot's process; KafkaAddress allows it on loopback only.
    return record.msg != "Sending username and password in the clear"


def _refuse_half_configured(settings: ClientSettings) -> None:
    if settings.kafka_sasl_mechanism and settings.kafka_security_protocol != "SASL_SSL":
        raise ConfigError(
            "KAFKA_SASL_MECHANISM without TLS would send the password in the clear: "
            "set KAFKA_SECURITY_PROTOCOL=SASL_SSL"
        )
    if settings.kafka_security_protocol == "SASL_SSL" and not (
        settings.kafka_sasl_mechanism and settings.kafka_sasl_username and settings.kafka_sasl_password
    ):
        raise ConfigError(
            "KAFKA_SECURITY_PROTOCOL=SASL_SSL needs KAFKA_SASL_MECHANISM, KAFKA_SASL_USERNAME "
            "and KAFKA_SASL_PASSWORD: set all three"
        )
    if settings.kafka_security_protocol == "PLAINTEXT" and (settings.kafka_ssl_ca_file or settings.kafka_ssl_cert_file):
        raise ConfigError(
            "KAFKA_SSL_CA_FILE and KAFKA_SSL_CERT_FILE need TLS, but KAFKA_SECURITY_PROTOCOL=PLAINTEXT has none: "
            "set it to SSL or SASL_SSL, or unset the files"
        )
    if settings.kafka_ssl_key_file and not settings.kafka_ssl_cert_file:
        raise ConfigError("KAFKA_SSL_KEY_FILE is the key of a certificate: set KAFKA_SSL_CERT_FILE too")


@lru_cache(maxsize=8)
def _ssl_context(
    ca_file: str | None, cert_file: str | None, key_file: str | None, key_password: str | None
) -> ssl.SSLContext:
    named = f"KAFKA_SSL_CA_FILE={ca_file}"
    try:
        context: ssl.SSLContext = create_ssl_context(cafile=ca_file)
        if cert_file is not None:
            named = f"KAFKA_SSL_CERT_FILE={cert_file} with KAFKA_SSL_KEY_FILE={key_file}"
            # An empty password, not None: with None, OpenSSL would prompt at the terminal if the key is encrypted.
            context.load_cert_chain(cert_file, key_file, key_password or "")
    except (OSError, ValueError) as exc:
        raise ConfigError(f"{named} cannot be used ({exc}): name a readable PEM file, and its password") from exc
    return context


async def _closed(closing: Awaitable[None]) -> None:
    # While closing, a client awaits tasks that it has cancelled, and mistakes its caller's cancellation for theirs. A
    # caller cancelled in the meantime would continue, with partitions that it no longer owns.
    await closing
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError
