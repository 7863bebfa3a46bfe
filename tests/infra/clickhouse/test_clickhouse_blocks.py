"""The body of an insert: compressed in one frame, and made without loading pandas."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import lz4.frame  # type: ignore[import-untyped]

from infra.clickhouse.client import compressed


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
