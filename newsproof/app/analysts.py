"""ClickHouse users: the pipeline's own, and the analysts', who can only read the database.

The embedded engine's first start creates the passwords and stores them in its directory, readable only by their owner,
so no other user of the machine can log in as either.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

import msgspec

from infra.clickhouse.client import Address, ClickHouse, connect, parse_url
from infra.embedded.clickhouse.wire import EngineUser
from infra.owner_only import write_owner_only
from infra.redaction import know
from infra.settings import Settings
from schemas.errors import ConfigError

ADMIN = "newsproof"
"""The pipeline's user at the embedded engine."""
_FILE = "passwords.json"
ANALYST_FILE = "analyst-password"
"""Beside it: the analysts' password alone, for commands that read it from a file."""


def users_of(settings: Settings, directory: Path) -> list[EngineUser]:
    """Return the users of the embedded engine in this directory. Missing passwords are created.

    Raises:
        ConfigError: both users have the same name.
    """
    if settings.clickhouse_analyst_user == ADMIN:
        raise ConfigError(f"CLICKHOUSE_ANALYST_USER is {ADMIN}, as the pipeline's own user is: write another name")
    kept = _kept(directory) or {}
    admin, analyst = (kept.get(who) or secrets.token_urlsafe(24) for who in ("admin", "analyst"))
    if settings.clickhouse_analyst_password is not None:
        analyst = settings.clickhouse_analyst_password.get_secret_value()
    know(admin, analyst)
    return [
        EngineUser(ADMIN, password=admin),
        EngineUser(
            settings.clickhouse_analyst_user,
            password=analyst,
            settings=limits_of(settings),
            databases=(settings.clickhouse_database,),
        ),
    ]


def limits_of(settings: Settings) -> dict[str, str]:
    """Return the ClickHouse settings that limit one query of an analyst."""
    return {
        "max_execution_time": str(settings.clickhouse_analyst_max_seconds),
        "max_memory_usage": str(settings.clickhouse_analyst_max_memory_mb * 1024**2),
        "max_result_rows": str(settings.clickhouse_analyst_max_rows),
        "result_overflow_mode": "throw",
        # For one report; the pipeline's own queries continue beside a few of them.
        "max_threads": "4",
        "max_block_size": "65409",
    }


def as_admin(url: str, directory: Path) -> str:
    """Return the embedded engine's URL with the pipeline's user; unchanged if the directory has no password."""
    kept = _kept(directory)
    if kept is None:
        return url
    know(kept["admin"])
    scheme, _, rest = url.partition("://")
    return f"{scheme}://{ADMIN}:{quote(kept['admin'], safe='')}@{rest}"


def analyst_address(settings: Settings, *, embedded: bool) -> Address | None:
    """Return the address and user for analysts; None if ``CLICKHOUSE_URL`` is set and their password is not.

    ``settings`` hold the address in use (``newsproof.app.servers``). ``embedded``: it is the embedded engine's.
    """
    at = parse_url(settings.clickhouse_url or "")
    if embedded and (kept := _kept(settings.newsproof_data_dir / "clickhouse")) is not None:
        # As of the engine's start, which may be before the setting was changed.
        know(kept["analyst"])
        return msgspec.structs.replace(at, username=kept["analyst_user"], password=kept["analyst"])
    password = settings.clickhouse_analyst_password
    if password is None:
        return None
    return msgspec.structs.replace(at, username=settings.clickhouse_analyst_user, password=password.get_secret_value())


def analyst_client(settings: Settings, *, embedded: bool) -> ClickHouse:
    """Return a read-only client: as the analysts' user, else as the user in ``CLICKHOUSE_URL`` with ``readonly=1``."""
    address = analyst_address(settings, embedded=embedded)
    if address is not None:
        return connect(address, database=settings.clickhouse_database)
    limits = {**limits_of(settings), "readonly": "1"}
    return connect(settings.clickhouse_url or "", database=settings.clickhouse_database, settings=limits)


def _kept(directory: Path) -> dict[str, str] | None:
    try:
        logins: dict[str, str] = json.loads((directory / _FILE).read_text("utf-8"))
    except (FileNotFoundError, ValueError):
        return None
    return logins


def keep_users(directory: Path, users: Sequence[EngineUser]) -> None:
    """Store the passwords of a running engine's users (:func:`users_of`) for other commands."""
    admin, analyst = users
    passwords = {"admin": admin.password, "analyst_user": analyst.name, "analyst": analyst.password}
    write_owner_only(directory / _FILE, json.dumps(passwords))
    write_owner_only(directory / ANALYST_FILE, analyst.password)
