"""The origin of addresses in settings, which decides whether a secret may be sent to them.

A ``.env`` file is read from the working directory, which may be a stranger's: a cloned repository, an unpacked archive.
Its addresses must not receive the secrets of the environment. The rule: **a secret that does not come from a file is
not sent to an address that comes from that file**. Also, no address is taken from a file that anybody may write or that
belongs to another user. Addresses from the environment, the command line and the defaults are trusted.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Mapping
from pathlib import Path

from schemas.errors import ConfigError

KEY_OF_GATEWAY = "openai_key_"
"""What the setting of a gateway's key begins with: ``OPENAI_KEY_TUZI``."""
SENT_TO: Mapping[str, tuple[str, ...]] = {
    "gemini_api_key": ("gemini_base_url", "embedding_base_url"),
    "openai_api_key": ("openai_base_url", "embedding_base_url"),
    "openai_key": ("openai_gateways",),
    "embedding_api_key": ("embedding_base_url", "gemini_base_url", "openai_base_url"),
    "tavily_api_key": ("tavily_base_url",),
    "bocha_api_key": ("bocha_base_url",),
    "ragflow_api_key": ("ragflow_endpoint",),
    "coingecko_api_key": ("coingecko_base_url",),
    "fred_api_key": ("fred_api_base_url",),
    "coinmetrics_api_key": ("coinmetrics_base_url",),
    "blockchair_api_key": ("blockchair_base_url",),
    "glassnode_api_key": ("glassnode_base_url",),
    "kafka_sasl_password": ("kafka_bootstrap_servers", "kafka_ssl_ca_file"),
    "clickhouse_analyst_password": ("clickhouse_url",),
}
"""Secret → the settings that decide who receives it. Secrets that are not sent anywhere are not listed.

``openai_key`` stands for the key of every gateway, ``openai_key_tuzi`` and so on.
"""


def refuse_foreign_addresses(file: Path, in_file: Collection[str], elsewhere: Collection[str]) -> None:
    """Check the addresses that a ``.env`` file sets. Setting names are in lower case.

    ``in_file``: effective settings that the file set. ``elsewhere``: those of the environment and the command line.

    Raises:
        ConfigError: the file names an address that a secret from elsewhere would be sent to, or any such address while
            another user owns the file or anybody may write it, or it sets ``KAFKA_EMBEDDED_PASSWORD_FILE``.
    """
    if "kafka_embedded_password_file" in in_file:
        raise ConfigError(
            f"KAFKA_EMBEDDED_PASSWORD_FILE is not taken from {file.absolute()}, for what it names is sent to a broker: remove "
            "it there; commands find the embedded Kafka by the data directory"
        )
    addresses = sorted({address for group in SENT_TO.values() for address in group} & set(in_file))
    if addresses and (danger := _danger(file)):
        raise ConfigError(
            f"{file.absolute()} {danger}, so {_names(addresses)} is not taken from it: make it yours alone (chown, "
            "chmod o-w), or set that in the environment"
        )
    for secret in sorted(elsewhere):
        sent_to = SENT_TO.get("openai_key" if secret.startswith(KEY_OF_GATEWAY) else secret, ())
        if foreign := [address for address in sent_to if address in in_file]:
            raise ConfigError(
                f"{secret.upper()} comes from the environment or the command line, but {_names(foreign)} from "
                f"{file.absolute()}, which would be sent it: set {_names(foreign)} in the environment too, or put "
                f"{secret.upper()} into that file, or remove the address there"
            )


def written_in(file: Path) -> dict[str, str]:
    """Return the non-empty settings of a ``.env`` file by lower-case name; empty if there is no file.

    ``${NAME}`` is not interpolated: it would take the environment's value, and could send any secret anywhere.
    """
    if not file.is_file():
        return {}
    from dotenv import dotenv_values  # not for the many commands that find no file

    return {name.lower(): value for name, value in dotenv_values(file, interpolate=False).items() if value}


def given_by_environment() -> frozenset[str]:
    """Return the lower-case names of all non-empty environment variables, ``OPENAI_KEY`` left out: it is no setting."""
    return frozenset(name.lower() for name, value in os.environ.items() if value) - {"openai_key"}


def _danger(file: Path) -> str:
    found = file.stat()
    if found.st_uid not in (os.getuid(), 0):
        return "belongs to another user"
    return "may be written by anybody" if found.st_mode & stat.S_IWOTH else ""


def _names(settings: Collection[str]) -> str:
    return ", ".join(settings).upper()
