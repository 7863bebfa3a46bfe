"""The settings of a plain Kafka client (``publish``, the SDK), read without pydantic, which takes long to import.

The names, defaults and bounds are those of :mod:`infra.settings`; a test compares them.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

import msgspec

from infra import setting_names
from infra.origin import (
    given_by_environment,
    is_entry,
    refuse_addresses_from_elsewhere,
    refuse_foreign_addresses,
    written_in,
)
from infra.redaction import know

if TYPE_CHECKING:
    from infra.settings import Settings

_SECRETS = ("kafka_sasl_password", "kafka_ssl_key_password")


class ClientSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Kafka's address and login, and the layout of the topics."""

    newsproof_data_dir: str = ".data"
    newsproof_topic_prefix: Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9._-]*$")] = "newsproof."
    kafka_bootstrap_servers: str | None = None
    kafka_security_protocol: Literal["PLAINTEXT", "SSL", "SASL_SSL"] = "PLAINTEXT"
    kafka_embedded_password_file: str | None = None
    kafka_sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] | None = None
    kafka_sasl_username: str | None = None
    kafka_sasl_password: str | None = None
    kafka_ssl_ca_file: str | None = None
    kafka_ssl_cert_file: str | None = None
    kafka_ssl_key_file: str | None = None
    kafka_ssl_key_password: str | None = None
    listener_sources: str | None = None
    topic_partitions: Annotated[int, msgspec.Meta(ge=1, le=512)] = 4
    topic_replication: Annotated[int, msgspec.Meta(ge=1, le=7)] = 1

    def __repr__(self) -> str:
        return f"ClientSettings({self.kafka_bootstrap_servers!r}, {self.newsproof_data_dir!r})"

    @property
    def data_dir(self) -> Path:
        return Path(self.newsproof_data_dir)

    @classmethod
    def of(cls, settings: Settings) -> Self:
        """Return the client's subset of all settings."""
        given = {name: getattr(settings, name) for name in cls.__struct_fields__}
        given |= {name: given[name] and given[name].get_secret_value() for name in _SECRETS}
        return msgspec.convert({name: str(v) if isinstance(v, Path) else v for name, v in given.items()}, cls)


KNOWN_TO_CLIENTS = (
    *ClientSettings.__struct_fields__,
    "newsproof_mode",
    "newsproof_min_free_mb",
    "listener_contact",
    "listener_key",
    "listener_max_age_seconds",
    "listener_max_new",
    "listener_webhook_host",
    "listener_webhook_port",
    "listener_webhook_secret",
)
"""The names of these settings, and of others that :func:`infra.origin.misspelt_in` would take for misspelt ones."""


def load_client_settings(**overrides: object) -> ClientSettings:
    """Read the settings from the environment and ``.env``; ``overrides`` that are not None take precedence.

    ``_env_file`` names the file to read instead of ``.env``.

    Raises:
        ConfigError: as :func:`infra.settings.load_settings`, for these settings alone.
    """
    overrides = {name: str(value) for name, value in overrides.items() if value is not None}
    file = Path(str(overrides.get("_env_file", ".env")))
    in_file = written_in(file)
    environment = {name.lower(): value for name, value in os.environ.items() if value}
    given: dict[str, Any] = {**in_file, **environment, **overrides}
    given.pop("_env_file", None)
    try:
        settings = msgspec.convert(given, ClientSettings, strict=False)
    except msgspec.ValidationError:
        from infra.settings import load_settings  # Its error names every wrong setting and the values it accepts.

        return ClientSettings.of(load_settings(**overrides))
    know(*(value for name in _SECRETS if (value := getattr(settings, name))))
    elsewhere = given_by_environment() | overrides.keys()
    refuse_foreign_addresses(file, in_file.keys() - elsewhere, elsewhere)
    return settings


_NOT_FOR_A_READER = setting_names.CHECKED.difference(ClientSettings.__struct_fields__) | {"clickhouse_url"}
"""If one of these is set, a reader of the log loads all settings: to check it, or because of ``clickhouse_url``."""


def load_reader_settings(**overrides: object) -> ClientSettings | None:
    """Return the settings of a reader of the log, or None if those given can only be checked with all settings.

    Raises:
        ConfigError: as :func:`infra.settings.load_settings`.
    """
    file = Path(str(overrides.get("_env_file", ".env")))
    in_file = written_in(file)
    given = {**in_file, **{name.lower(): value for name, value in os.environ.items() if value}}
    if not _NOT_FOR_A_READER.isdisjoint(given):
        return None
    settings = load_client_settings(**overrides)
    know(*(given[name] for name in given if name in setting_names.SECRETS or is_entry(name)))
    if "_env_file" not in overrides:
        refuse_addresses_from_elsewhere(file, in_file.keys() - given_by_environment(), settings.data_dir)
    return settings
