"""Query results as Parquet, which ClickHouse itself writes, with its types."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from infra.clickhouse.client import ClickHouse
from schemas.errors import ConfigError, PermanentError

_TAIL = 1000
"""Bytes at the end of an interrupted body that contain the server's reason."""


async def write_parquet(client: ClickHouse, sql: str, path: Path) -> int:
    """Write the result of a query into a new file; return the number of rows that the file states.

    The result is streamed: a server sends it in pieces; the embedded engine holds the whole file in memory first.

    Raises:
        ConfigError: the file cannot be written, or not completely.
        PermanentError: the statement is refused, or fails midway; the file is then incomplete.
        TransientError: as every method of the client.
    """
    file = await _on_disk(path, path.open, "xb")
    try:
        async with client._errors(sql) as connected, await connected.raw_stream(sql, fmt="Parquet") as stream:
            async for chunk in stream:
                await _on_disk(path, file.write, chunk)
    finally:
        await _on_disk(path, file.close)
    return await asyncio.to_thread(_rows_in, path)


async def _on_disk(path: Path, work: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return await asyncio.to_thread(work, *arguments)
    except OSError as exc:  # the client would take an OSError for a connection error
        raise ConfigError(f"{path} cannot be written ({exc.strerror}): make room, or name another place") from exc


def _rows_in(path: Path) -> int:
    # Imported here, because loading it takes longer than most commands run.
    from pyarrow import ArrowInvalid
    from pyarrow.parquet import read_metadata

    try:
        return int(read_metadata(path).num_rows)
    except ArrowInvalid as exc:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - _TAIL))
            tail = file.read()
        raise _broke_off(tail) from exc


async def read_table(client: ClickHouse, sql: str, parameters: Mapping[str, Any] | None = None) -> Any:
    """Return the result of a query as a ``pyarrow.Table``. Uses Parquet: in ClickHouse's Arrow, DateTime is a number.

    Raises:
        PermanentError: the statement is refused, or fails midway.
        TransientError: as every method of the client.
    """
    async with client._errors(sql) as connected:
        body = await connected.raw_query(sql, parameters=dict(parameters or {}), fmt="Parquet")
    return await asyncio.to_thread(_table_of, body)


def _table_of(body: bytes) -> Any:
    from pyarrow import ArrowInvalid
    from pyarrow.parquet import read_table as read

    try:
        return read(io.BytesIO(body))
    except ArrowInvalid as exc:
        raise _broke_off(body[-_TAIL:]) from exc


def _broke_off(tail: bytes) -> PermanentError:
    return PermanentError(f"the query broke off: {tail.decode('utf-8', 'replace')}; ask for less, or correct it")
