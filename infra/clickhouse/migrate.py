"""Migrations: numbered SQL files, applied once, in order, and recorded with their checksums.

ClickHouse has neither transactional DDL nor locks, so every statement of a migration must be idempotent (``IF NOT
EXISTS``, ``IF EXISTS``, ``OR REPLACE``; checked before anything runs). Two processes that start at once, or one that
died midway, then end with the same schema.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from pathlib import Path

import msgspec

from infra.clickhouse.client import ClickHouse, connect
from infra.clickhouse.descriptions import describe
from infra.clickhouse.statement import split_statements
from schemas.errors import ConfigError

DIRECTORY = Path(__file__).parent / "migrations"

_NAME = re.compile(r"m(\d{3})_[a-z0-9_]+\.sql\Z")
_REPEATABLE = re.compile(
    r"CREATE OR REPLACE VIEW |CREATE (TABLE|VIEW|DATABASE) IF NOT EXISTS |DROP (TABLE|VIEW) IF EXISTS "
    r"|ALTER TABLE \S+ ((ADD|CLEAR) COLUMN IF NOT EXISTS |(DROP|COMMENT|RENAME|MODIFY) COLUMN IF EXISTS "
    r"|MODIFY (TTL|SETTING) |ADD PROJECTION IF NOT EXISTS |(MATERIALIZE|DROP) PROJECTION IF EXISTS )",
    re.IGNORECASE,
)
_COPY = re.compile(r"INSERT INTO (\w+) \([^)]*\) SELECT ", re.IGNORECASE)
_REPLACING = re.compile(r"CREATE TABLE IF NOT EXISTS (\w+) .*ENGINE = ReplacingMergeTree", re.IGNORECASE)
"""A copy into such a table may run twice, also after an interruption, because readers see one row per key."""
_VIEW = re.compile(r"CREATE\s+OR\s+REPLACE\s+VIEW\s+(\w+)", re.IGNORECASE)
_COLUMNS = re.compile(r"ALTER\s+TABLE\s+(\w+)\s+(?=(?:ADD|COMMENT|MODIFY)\s+COLUMN\s)", re.IGNORECASE)
_LEDGER = """CREATE TABLE IF NOT EXISTS migrations
(
    number     UInt16,
    name       String,
    checksum   FixedString(64) COMMENT 'SHA-256 of the file',
    applied_at DateTime64(3, 'UTC') DEFAULT now64(3)
)
ENGINE = ReplacingMergeTree ORDER BY number"""


class Migration(msgspec.Struct, frozen=True, kw_only=True):
    """One migration file. ``checksum`` is the SHA-256 of its text, in hex digits."""

    number: int
    name: str
    checksum: str
    statements: tuple[str, ...]


def load_migrations(directory: Path = DIRECTORY) -> tuple[Migration, ...]:
    """Read the migrations of a directory in order.

    Raises:
        ConfigError: a file name is invalid, a number is out of order, or a statement is not idempotent.
    """
    replacing: set[str] = set()
    migrations = tuple(_read(path, replacing) for path in sorted(directory.glob("*.sql")))
    for expected, migration in enumerate(migrations, start=1):
        if migration.number != expected:
            raise ConfigError(
                f"migration {migration.name}: its number must be m{expected:03d}, without gaps; rename it"
            )
    return migrations


def _read(path: Path, replacing: set[str]) -> Migration:
    """Read one file. ``replacing`` collects the ReplacingMergeTree tables created so far."""
    match = _NAME.match(path.name)
    if match is None:
        raise ConfigError(f"migration {path.name}: name it m001_what_it_does.sql")
    text = path.read_text(encoding="utf-8")
    statements = tuple(split_statements(text))
    for statement in statements:
        flat = re.sub(r"\s+", " ", statement)
        if made := _REPLACING.match(flat):
            replacing.add(made.group(1))
        copied = _COPY.match(flat)
        if not (_REPEATABLE.match(flat) or (copied and copied.group(1) in replacing)):
            raise ConfigError(
                f"migration {path.name}: write it so that it may run twice (IF NOT EXISTS, OR REPLACE; a copy, "
                f"INSERT INTO t (…) SELECT, into a ReplacingMergeTree): "
                f"{statement[:80]}"
            )
    digest = hashlib.sha256(text.encode()).hexdigest()
    return Migration(number=int(match.group(1)), name=path.stem, checksum=digest, statements=statements)


async def migrate(client: ClickHouse, *, directory: Path = DIRECTORY) -> tuple[str, ...]:
    """Create the client's database if it is missing, apply the new migrations and return their names.

    The project's own migrations are followed by the descriptions of tables and columns (``descriptions.toml``).

    Safe to run at every start and from several processes at once.

    Raises:
        ConfigError: a file was changed after it had been applied, or the database is newer than this code.
    """
    migrations = load_migrations(directory)
    await _create_database(client)
    await client.define(_LEDGER)
    applied = {number: (name, checksum) for number, name, checksum in await _applied(client)}
    _refuse_changes(migrations, applied, client.database)
    new = tuple(m for m in migrations if m.number not in applied)
    batch = [m.statements for m in new]
    for migration, statements in zip(new, batch if applied else shorten(batch), strict=True):
        for statement in statements:
            await client.define(statement)
        await client.insert(
            "migrations",
            ("number", "name", "checksum"),
            [(migration.number, migration.name, migration.checksum.encode())],
        )
    if directory == DIRECTORY:
        await describe(client)
    return tuple(m.name for m in new)


def shorten(batch: Sequence[Sequence[str]]) -> list[list[str]]:
    """Return fewer statements that make the same schema in a new database, by migration.

    Omitted are views that a later statement replaces before any other statement names them. Successive statements that
    add, comment or modify columns of one table are joined.
    """
    shortened: list[list[str]] = []
    replaced: set[str] = set()
    for statements in reversed(batch):
        kept: list[str] = []
        for statement in reversed(statements):
            view = _VIEW.match(statement)
            if view and view.group(1) in replaced:
                continue
            replaced.difference_update(re.findall(r"\w+", statement))
            if view:
                replaced.add(view.group(1))
            kept.append(statement)
        shortened.append(_joined(kept[::-1]))
    return shortened[::-1]


def _joined(statements: Sequence[str]) -> list[str]:
    joined: list[str] = []
    table = None
    for statement in statements:
        match = _COLUMNS.match(statement)
        if match and match.group(1) == table:
            joined[-1] += f"\n, {statement[match.end() :]}"
        else:
            joined.append(statement)
        table = match.group(1) if match else None
    return joined


async def _create_database(client: ClickHouse) -> None:
    # Not over the client's own connection, because that names the database, which may not exist yet.
    async with connect(client.address, database="default", cluster=client.cluster) as outside:
        await outside.define(f"CREATE DATABASE IF NOT EXISTS `{client.database}`")


async def _applied(client: ClickHouse) -> list[tuple[int, str, str]]:
    ledger = await client.query("SELECT number, name, toString(checksum) FROM migrations FINAL ORDER BY number")
    return [(int(number), str(name), str(checksum)) for number, name, checksum in ledger.rows]


def _refuse_changes(migrations: tuple[Migration, ...], applied: dict[int, tuple[str, str]], database: str) -> None:
    known = {m.number: m for m in migrations}
    for number, (name, checksum) in applied.items():
        migration = known.get(number)
        if migration is None:
            raise ConfigError(
                f"database {database} has migration {name}, which this code does not know: start the newer code"
            )
        if migration.checksum != checksum:
            raise ConfigError(
                f"migration {migration.name} was changed after database {database} had applied it: "
                "restore the file and put the change into a new migration with the next number"
            )
