"""Query results as Parquet files, which ClickHouse writes itself, with its types."""

from __future__ import annotations

import asyncio
from pathlib import Path

from infra.clickhouse.client import ClickHouse
from schemas.errors import PermanentError

__all__ = ["write_parquet"]

_TAIL = 1000
"""Bytes of a body that broke off in which the server's reason stands."""


async def write_parquet(client: ClickHouse, sql: str, path: Path) -> int:
    """Write the result of a query into a new file; return its number of rows, as the file itself says.

    The result is streamed: a server sends it in pieces; the embedded engine holds the whole file in memory first.

    Raises:
        PermanentError: the statement is refused, or broke off midway; the file is not complete then.
        TransientError: as every method of the client.
        OSError: the file cannot be written.
    """
    file = await asyncio.to_thread(path.open, "xb")
    try:
        async with (
            client._errors(sql) as connected,
            await connected.raw_stream(sql, fmt="Parquet") as stream,
        ):
            async for chunk in stream:
                await asyncio.to_thread(file.write, chunk)
    finally:
        await asyncio.to_thread(file.close)
    return await asyncio.to_thread(_rows_in, path)


def _rows_in(path: Path) -> int:
    # Imported here: loading it takes longer than most commands do.
    from pyarrow import ArrowInvalid
    from pyarrow.parquet import read_metadata

    try:
        return int(read_metadata(path).num_rows)
    except ArrowInvalid as exc:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - _TAIL))
            said = file.read().decode("utf-8", "replace")
        raise PermanentError(f"the query broke off: {said}; ask for less, or correct it") from exc
