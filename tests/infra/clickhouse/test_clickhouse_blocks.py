"""A block is what the library would send, without what it loads for that."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import lz4.frame  # type: ignore[import-untyped]
from clickhouse_connect.datatypes.registry import get_from_name
from clickhouse_connect.driver.insert import InsertContext
from clickhouse_connect.driver.transform import NativeTransform

from infra.clickhouse.client import Shape, compressed

COLUMNS = {"id": "String", "kind": "LowCardinality(String)", "cost": "Nullable(Decimal(18, 9))", "at": "Array(Int8)"}
ROWS = [(f"{n:036}", "比特币" if n % 3 else "", None if n % 2 else n, [n % 127, -1]) for n in range(300)]
TYPES = [get_from_name(kind) for kind in COLUMNS.values()]


def test_a_block_is_what_the_library_sends() -> None:
    expected = b"".join(NativeTransform.build_insert(InsertContext("t", list(COLUMNS), TYPES, ROWS)))
    assert b"".join(Shape("t", list(COLUMNS), TYPES).pieces(ROWS)) == expected


def test_a_compressed_body_is_one_frame_that_holds_it() -> None:
    body = b"rows" * 100_000
    assert lz4.frame.decompress(compressed(body, "lz4")) == body


def test_a_first_block_does_not_wait_for_pandas() -> None:
    program = (
        "import sys; from clickhouse_connect.datatypes.registry import get_from_name;"
        "from infra.clickhouse.client import Shape;"
        "b''.join(Shape('t', ['a'], [get_from_name('String')]).pieces([('x',)]));"
        "sys.exit('pandas' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], cwd=Path(__file__).parents[3], check=False).returncode == 0
