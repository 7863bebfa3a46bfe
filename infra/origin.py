"""The origin of addresses in settings, which decides whether a secret may be sent to them.

A ``.env`` file is read from the working directory, which may be a stranger's: a cloned repository, an unpacked archive.
Its addresses must not receive the secrets of the environment. The rule: **a secret that does not come from a file is
not sent to an address that comes from that file**. No address is taken from a file that anybody may write or that
belongs to another user. Addresses of providers are taken only from a file in or beside the data directory, or one that
``--env-file`` names. Addresses from the environment, the command line and the defaults are trusted.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Mapping
from difflib import get_close_matches
from pathlib import Path
from types import MappingProxyType

from schemas.errors import ConfigError

KEY_OF_GATEWAY = "openai_key_"
"""The prefix of settings that hold a gateway's key, such as ``OPENAI_KEY_TUZI``."""
SECRET_OF_BOT = "bot_secret_"
"""The prefix of settings that hold a bot's secret, such as ``BOT_SECRET_MY_BOT``."""
MAPPINGS = frozenset({KEY_OF_GATEWAY[:-1], SECRET_OF_BOT[:-1]})
"""Settings that are mappings: each entry is a variable of its own, and these names alone are none."""
SENT_TO: Mapping[str, tuple[str, ...]] = {
    "gemini_api_key": ("gemini_base_url", "embedding_base_url"),
    "openai_api_key": ("openai_base_url", "embedding_base_url"),
    "openai_key": ("openai_gateways",),
    "bot_secret": ("bots_file",),
    "embedding_api_key": ("embedding_base_url", "gemini_base_url", "openai_base_url"),
    "tavily_api_key": ("tavily_base_url",),
    "bocha_api_key": ("bocha_base_url",),
    "ragflow_api_key": ("ragflow_endpoint",),
    "coingecko_api_key": ("coingecko_base_url",),
    "fred_api_key": ("fred_api_base_url",),
    "coinmetrics_api_key": ("coinmetrics_base_url",),
    "cryptopanic_api_key": ("listener_sources",),
    "phoenix_api_key": ("listener_sources",),
    "treeofalpha_api_key": ("listener_sources",),
    "kafka_sasl_password": ("kafka_bootstrap_servers", "kafka_ssl_ca_file"),
    "clickhouse_analyst_password": ("clickhouse_url",),
}
"""Secret → the settings that decide who receives it. Secrets that are not sent anywhere are not listed.

``openai_key`` represents the keys of all gateways: ``openai_key_tuzi`` and so on, as ``bot_secret`` those of all bots.
"""

_OF_SERVERS = {"kafka_sasl_password", "clickhouse_analyst_password"}
PROVIDERS = frozenset(address for secret, group in SENT_TO.items() if secret not in _OF_SERVERS for address in group)
"""Settings with the addresses that the keys of model, search and data providers are sent to."""

NOT_OURS = frozenset(
    {"clickhouse_password", "grafana_password", "kafka_outside_password", "kafka_outside_pem", "newsproof_python"}
)
"""Names that only the compose files and ``run`` read. A ``.env`` may hold them without a warning."""


def refuse_foreign_addresses(file: Path, in_file: Collection[str], elsewhere: Collection[str]) -> None:
    """Check the addresses that a ``.env`` file sets. Setting names are in lower case.

    ``in_file``: settings whose effective value comes from the file. ``elsewhere``: those from the environment and the
    command line.

    Raises:
        ConfigError: the file sets an address that a secret from elsewhere would be sent to; or it sets any such
            address, and another user owns it or anybody may write it; or it sets ``KAFKA_EMBEDDED_PASSWORD_FILE``.
    """
    if "kafka_embedded_password_file" in in_file:
        raise ConfigError(
            f"KAFKA_EMBEDDED_PASSWORD_FILE is not read from {file.absolute()}, because its content is sent to a broker: remove "
            "it there; commands find the embedded Kafka by the data directory"
        )
    addresses = sorted({address for group in SENT_TO.values() for address in group} & set(in_file))
    if addresses and (danger := danger_of(file)):
        raise ConfigError(
            f"{file.absolute()} {danger}, so {_names(addresses)} is not read from it: make yourself its only writer (chown, "
            f"chmod o-w), or set {_names(addresses)} in the environment"
        )
    for secret in sorted(elsewhere):
        mapping = next((name for name in MAPPINGS if secret.startswith(f"{name}_")), secret)
        sent_to = SENT_TO.get(mapping, ())
        if foreign := [address for address in sent_to if address in in_file]:
            raise ConfigError(
                f"{secret.upper()} comes from the environment or the command line, but {_names(foreign)}, where it "
                f"would be sent, comes from {file.absolute()}: set {_names(foreign)} in the environment too, or move "
                f"{secret.upper()} into that file, or remove the address there"
            )


def refuse_addresses_from_elsewhere(file: Path, in_file: Collection[str], data_dir: Path) -> None:
    """Check that a ``.env`` file which was not named explicitly may set ``PROVIDERS``.

    Raises:
        ConfigError: it sets one of them and is neither in nor beside the data directory.
    """
    at = data_dir.resolve()
    if (addresses := sorted(PROVIDERS & set(in_file))) and file.resolve().parent not in (at, at.parent):
        raise ConfigError(
            f"{file.absolute()} sets {_names(addresses)}, where keys are sent to, but is not beside the data "
            f"directory {data_dir.absolute()}: name the file (--env-file {file}), or set the address in the environment"
        )


def written_in(file: Path) -> dict[str, str]:
    """Return the non-empty settings of a ``.env`` file by lower-case name; empty if there is no file.

    ``${NAME}`` is not interpolated: it would take the environment's value, and could send any secret anywhere.

    Raises:
        ConfigError: the file cannot be read, or a line does not have the form NAME=value.
    """
    if not file.is_file():
        return {}
    from dotenv.parser import parse_stream  # not for the many commands that find no file

    try:
        with file.open(encoding="utf-8") as opened:
            lines = list(parse_stream(opened))
    except (OSError, UnicodeError) as exc:
        raise ConfigError(f"{file.absolute()} cannot be read ({exc}): correct it, or remove it") from exc
    for binding in lines:
        if binding.error or (binding.key is not None and binding.value is None):
            text = binding.original.string
            number = binding.original.line + text[: len(text) - len(text.lstrip())].count("\n")
            # The line itself is not repeated: it may be a key.
            raise ConfigError(
                f"line {number} of {file.absolute()} is not NAME=value: correct it, or comment it out with #"
            )
    return {binding.key.lower(): binding.value for binding in lines if binding.key and binding.value}


def misspelt_in(
    file: Path, settings: Collection[str], removed: Mapping[str, str] = MappingProxyType({})
) -> dict[str, str]:
    """Return the names in a ``.env`` file that look like misspelt settings, each with the closest setting.

    ``removed``: former settings, each with the setting to report. All names are in lower case. A name looks like a
    setting if it begins with ``newsproof_``, or if it is very similar to one. Less similarity is enough if its first
    word is also the first word of a setting. Other names are ignored, because the file may serve other programs.
    """
    words = {name.partition("_")[0] for name in settings}
    misspelt = {}
    for name in written_in(file):
        if name in settings or name in NOT_OURS or is_entry(name) or name in MAPPINGS:
            continue
        if name in removed:
            misspelt[name] = removed[name]
            continue
        first = name.partition("_")[0]
        cutoff = 0.0 if first == "newsproof" else 0.6 if first in words else 0.8
        if near := get_close_matches(name, settings, n=1, cutoff=cutoff):
            misspelt[name] = near[0]
    return misspelt


def given_by_environment() -> frozenset[str]:
    """Return the lower-case names of all non-empty environment variables except ``MAPPINGS``, which are no settings."""
    return frozenset(name.lower() for name, value in os.environ.items() if value) - MAPPINGS


def is_entry(name: str) -> bool:
    """Return whether this lower-case name is an entry of ``MAPPINGS``, such as ``openai_key_tuzi``."""
    return name.startswith((KEY_OF_GATEWAY, SECRET_OF_BOT))


def danger_of(file: Path) -> str:
    """Return in words why the content of a file may be a stranger's; empty if it is not.

    Raises:
        OSError: the file cannot be examined.
    """
    status = file.stat()
    if status.st_uid not in (os.getuid(), 0):
        return "belongs to another user"
    return "is writable by everybody" if status.st_mode & stat.S_IWOTH else ""


def _names(settings: Collection[str]) -> str:
    return ", ".join(settings).upper()
