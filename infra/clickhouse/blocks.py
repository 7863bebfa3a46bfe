"""Rows in ClickHouse's ``Native`` format, made apart from sending them: one block is made while another is inserted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

import msgspec
from clickhouse_connect.datatypes.base import ClickHouseType
from clickhouse_connect.driver.binding import quote_identifier
from clickhouse_connect.driver.compression import get_compressor

from infra.clickhouse.native import Writer, varint, writer_of
from infra.clickhouse.record import Row


class Block(msgspec.Struct, frozen=True, kw_only=True):
    """Rows of one table as one insert sends them: the statement, then the columns."""

    table: str
    rows: int
    body: bytes


class Shape:
    """The columns of a table that rows are mapped to, in their order."""

    def __init__(self, table: str, columns: Sequence[str], types: Sequence[ClickHouseType]) -> None:
        names = ", ".join(quote_identifier(column) for column in columns)
        self._statement = f"INSERT INTO {table} ({names}) FORMAT Native\n".encode() + varint(len(columns))
        self._columns: list[tuple[bytes, Writer]] = [
            (_text(name) + _text(kind.insert_name), writer_of(name, kind))
            for name, kind in zip(columns, types, strict=True)
        ]

    def pieces(self, rows: Sequence[Row], *, compression: str | None) -> Iterator[list[bytes]]:
        """Yield the body of an insert column by column, each in pieces: one block. ``compression`` is lz4 or None.

        Raises:
            Exception: a value does not fit its column; whatever the library makes of it.
        """
        compressor = None if compression is None else get_compressor(compression)
        written = (
            [head, *write(column)] for (head, write), column in zip(self._columns, zip(*rows, strict=True), strict=True)
        )
        for pieces in chain([[self._statement, varint(len(rows))]], written):
            yield pieces if compressor is None else [compressor.compress_block(b"".join(pieces))]
        if compressor is not None:
            yield [compressor.flush() or b""]


def _text(text: str) -> bytes:
    encoded = text.encode()
    return varint(len(encoded)) + encoded
