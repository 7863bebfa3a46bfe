"""The first rows of an answer, however long it is: for whoever shows it rather than reads it."""

from __future__ import annotations

from typing import Any

import msgspec

from infra.clickhouse.client import ClickHouse


class FirstRows(msgspec.Struct, frozen=True):
    """``types`` are ClickHouse's names of the columns' types; ``cut`` says that there are more rows."""

    columns: tuple[str, ...]
    types: tuple[str, ...]
    rows: list[tuple[Any, ...]]
    cut: bool


async def first_rows(client: ClickHouse, sql: str, *, most: int, most_characters: int) -> FirstRows:
    """Run a query and take its first rows only: memory is bounded by them.

    Raises:
        TransientError, PermanentError: as every method of the client.
    """
    rows: list[tuple[Any, ...]] = []
    characters, cut = 0, False
    async with client._errors(sql) as connected, await connected.query_rows_stream(sql) as stream:
        columns, types = stream.source.column_names, [one.name for one in stream.source.column_types]
        async for row in stream:
            characters += sum(len(value) if isinstance(value, str | bytes) else 8 for value in row)
            if cut := len(rows) >= most or characters > most_characters:
                break
            rows.append(tuple(row))
    return FirstRows(tuple(columns), tuple(types), rows, cut)
