"""Rows in ClickHouse's ``Native`` format, made apart from sending them: one block is made while another is inserted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NoReturn

import msgspec
from clickhouse_connect.datatypes.base import ClickHouseType
from clickhouse_connect.driver.insert import InsertContext
from clickhouse_connect.driver.transform import NativeTransform

from infra.clickhouse.record import Row


class Block(msgspec.Struct, frozen=True, kw_only=True):
    """Rows of one table as one insert sends them: the statement, then the columns of each piece."""

    table: str
    rows: int
    body: bytes


def native_pieces(
    table: str, columns: Sequence[str], types: Sequence[ClickHouseType], rows: Sequence[Row], *, compression: str | None
) -> Iterator[bytes]:
    """Yield the body of an insert in pieces of about 2 MB.

    Raises:
        Exception: a value does not fit its column; whatever the library makes of it.
    """
    context = InsertContext(table, list(columns), list(types), rows, compression=compression)
    yield from NativeTransform.build_insert(context, _refuse)


def _refuse(exc: Exception) -> NoReturn:
    raise exc
