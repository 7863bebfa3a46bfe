"""Columns of our own tables are written as the library writes them, byte by byte, and refused as it refuses them."""

from __future__ import annotations

from array import array
from decimal import Decimal
from typing import Any

import pytest
from clickhouse_connect.datatypes.registry import get_from_name
from clickhouse_connect.driver.insert import InsertContext

from infra.clickhouse.native import varint, writer_of

UUIDS = ["6c1d3c2e-5d1b-5d1f-9b0e-6e6577737072", "7c1d3c2e-5d1b-5d1f-9b0e-6e6577737072"]
EVIDENCE = (
    "Array(Tuple(url String, hash String, stance String, official UInt8, independent UInt8, "
    "published_at Nullable(DateTime64(3, 'UTC'))))"
)
COLUMNS: list[tuple[str, list[Any]]] = [
    ("String", UUIDS),
    ("String", ["", "稳定币", "x" * 127, "x" * 128, "x" * 16_383, "x" * 16_384, "é" * 40_000]),
    ("String", ["稳定", "中文"]),
    ("String", [b"", b"\xff\x00", b"{}" * 3_000_000]),
    ("String", [""]),
    ("LowCardinality(String)", ["live"] * 3),
    ("LowCardinality(String)", ["a", "", "a", "比"]),
    ("LowCardinality(String)", [str(i) for i in range(255)] * 2),
    ("LowCardinality(String)", [str(i) for i in range(256)]),
    ("LowCardinality(String)", [str(i) for i in range(70_000)]),
    ("UInt8", [0, 255, True]),
    ("UInt16", [0, 65_535]),
    ("UInt32", [7, 2**32 - 1]),
    ("UInt64", [0, 2**64 - 1]),
    ("Float64", [0.1, 1, -2.5]),
    ("Nullable(Float64)", [0.1, None, 3]),
    ("Nullable(Float64)", [None, None]),
    ("Nullable(Float64)", [1.5]),
    ("Nullable(UInt32)", [None, 3]),
    ("DateTime64(3, 'UTC')", [0, 1_790_000_000_000]),
    ("Nullable(Decimal(18, 9))", [None, Decimal(0), Decimal("0.000000001"), Decimal("12.5"), Decimal("-3E+2")]),
    ("Nullable(Decimal(18, 9))", [None, None]),
    ("Nullable(Decimal(18, 9))", [Decimal("999999999.999999999"), Decimal("0.0000000019")]),
    ("Array(Float32)", [[0.5, -1.0], [], [3.25]]),
    ("Array(Float32)", [array("f", [0.5, -1.0]), array("f"), array("f", [3.25])]),
    ("Array(Int8)", [[127, -127], [], [0]]),
    ("Array(Int8)", [array("b", [127, -127]), array("b")]),
    ("Array(Int8)", [array("h", [127, -127]), [3]]),
    ("Array(String)", [["stale", "风险"], []]),
    ("Array(Tuple(rule String, amount Float64, reason String))", [[("official", 0.25, "官方公告"), ("a", 1, "")], []]),
    ("Array(Tuple(rule String, amount Float64, reason String))", [[], []]),
    (EVIDENCE, [[("u", "h", "supports", 1, 0, 1_790_000_000_000), ("v", "i", "denies", 0, 1, None)]]),
]


def by_library(kind: str, column: list[Any]) -> bytes:
    into = bytearray()
    context = InsertContext("t", ["c"], [get_from_name(kind)])
    context.start_column("c")
    get_from_name(kind).write_column(column, into, context)
    return bytes(into)


@pytest.mark.parametrize(("kind", "column"), COLUMNS, ids=[f"{i}-{kind[:24]}" for i, (kind, _) in enumerate(COLUMNS)])
def test_a_column_is_written_as_the_library_writes_it(kind: str, column: list[Any]) -> None:
    assert b"".join(writer_of("c", get_from_name(kind))(tuple(column))) == by_library(kind, column)


@pytest.mark.parametrize(
    ("kind", "column"),
    [
        ("UInt8", [256]), ("Array(Int8)", [[128]]), ("UInt32", [-1]), ("UInt32", [None]), ("UInt64", [2**64]), ("UInt16", ["many"]),
        ("Float64", ["x"]), ("Float64", [None]), ("String", [7]), ("String", ["\ud800"]), ("String", ["a", b"b"]),
        ("LowCardinality(String)", [["not hashable"]]), ("LowCardinality(String)", [7, 8]),
        ("DateTime64(3, 'UTC')", [2**70]), ("Nullable(Decimal(18, 9))", [Decimal("NaN")]),
        ("Nullable(Decimal(18, 9))", [Decimal(10**12)]), ("Array(Float32)", [None]), ("Array(Float32)", [["x"]]),
        ("Array(Tuple(rule String, amount Float64))", [[("one",)]]),
    ],
)  # fmt: skip
def test_what_the_library_refuses_is_refused(kind: str, column: list[Any]) -> None:
    try:
        expected = by_library(kind, column)
    except Exception as exc:
        with pytest.raises(type(exc)):
            writer_of("c", get_from_name(kind))(column)
    else:  # it takes more than one thinks
        assert b"".join(writer_of("c", get_from_name(kind))(column)) == expected


@pytest.mark.parametrize(
    ("number", "text"), [(0, "00"), (127, "7f"), (128, "8001"), (16_384, "808001"), (2**31, "8080808008")]
)
def test_lengths_are_written_seven_bits_a_byte(number: int, text: str) -> None:
    assert varint(number).hex() == text
