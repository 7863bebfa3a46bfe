"""Insert bodies in ClickHouse's ``Native`` format.

Building a body is separate from sending it, so that one block is built while another is inserted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
from clickhouse_connect.datatypes.base import ClickHouseType
from clickhouse_connect.driver.binding import quote_identifier
from clickhouse_connect.driver.common import write_leb128
from clickhouse_connect.driver.compression import get_compressor
from clickhouse_connect.driver.insert import InsertContext

from infra.clickhouse.record import Row


class Block(msgspec.Struct, frozen=True, kw_only=True):
    """One insert into one table. ``body`` holds the statement, then the rows column by column."""

    table: str
    rows: int
    body: bytes


class Shape:
    """The columns of a table that rows are mapped to, in their order.

    The library writes only the values of a column. Its own insert imports pandas to check whether the rows are a data
    frame, which takes two seconds of a process's first insert.
    """

    def __init__(self, table: str, columns: Sequence[str], types: Sequence[ClickHouseType]) -> None:
        self._table, self._columns, self._types = table, list(columns), list(types)

    def pieces(self, rows: Sequence[Row]) -> Iterator[bytearray]:
        """Yield the body of an insert, one block, column by column.

        Raises:
            Exception: a value does not fit its column; the type is whatever the library raises.
        """
        context = InsertContext(self._table, self._columns, self._types)
        names = ", ".join(quote_identifier(column) for column in self._columns)
        piece = bytearray(f"INSERT INTO {self._table} ({names}) FORMAT Native\n".encode())
        write_leb128(len(self._columns), piece)
        write_leb128(len(rows), piece)
        for name, kind, values in zip(self._columns, self._types, zip(*rows, strict=True), strict=True):
            for text in (name.encode(), kind.insert_name.encode()):
                write_leb128(len(text), piece)
                piece += text
            context.start_column(name)
            kind.write_column(values, piece, context)
            yield piece
            piece = bytearray()


def compressed(body: bytes, compression: str) -> bytes:
    """Return the body as one frame of ``compression`` (lz4)."""
    compressor = get_compressor(compression)
    return bytes(compressor.compress_block(body)) + (compressor.flush() or b"")
