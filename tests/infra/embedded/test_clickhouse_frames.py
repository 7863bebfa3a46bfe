"""The native compression that JDBC drivers ask for: ``compress=1`` and ``decompress=1`` at the embedded engine's port."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
from backports import zstd

from infra.embedded.clickhouse.frames import _HEAD, FRAME_BYTES, NONE, ZSTD, FrameDecoder, _checksum, framed
from infra.embedded.clickhouse.server import EmbeddedClickHouse
from infra.embedded.clickhouse.wire import EncodingError

ROWS = "SELECT number, repeat('text', 10) FROM numbers(60000)"


@pytest.fixture
async def http(clickhouse_engine: EmbeddedClickHouse) -> AsyncIterator[httpx.AsyncClient]:
    base = f"http://{clickhouse_engine.host}:{clickhouse_engine.port}"
    async with httpx.AsyncClient(base_url=base, trust_env=False, timeout=60) as client:
        yield client


def unframed(body: bytes, *, piece: int = 1000) -> bytes:
    decoder = FrameDecoder()
    found = [data for at in range(0, len(body), piece) for data in decoder.decode(body[at : at + piece])]
    decoder.finish()
    return b"".join(found)


def frame(method: int, packed: bytes, size: int) -> bytes:
    whole = _HEAD.pack(method, _HEAD.size + len(packed), size) + packed
    return _checksum(whole) + whole


async def test_an_answer_comes_in_frames_when_asked_and_is_the_same_one(http: httpx.AsyncClient) -> None:
    plain = await http.get("/", params={"query": ROWS})
    packed = await http.get("/", params={"query": ROWS, "compress": "1"}, headers={"Accept-Encoding": "gzip"})
    assert packed.status_code == 200 and "Content-Encoding" not in packed.headers
    assert len(packed.content) < len(plain.content) / 2
    assert unframed(packed.content) == plain.content
    assert (await http.get("/", params={"query": ROWS, "compress": "0"})).content == plain.content
    nothing = await http.get("/", params={"query": f"{ROWS} WHERE number < 0", "compress": "1"})
    assert (nothing.status_code, nothing.content) == (200, b"")


async def test_an_error_is_readable_whatever_was_asked_for(http: httpx.AsyncClient) -> None:
    refused = await http.get("/", params={"query": "SELECT nonsense", "compress": "1"})
    assert (refused.status_code, refused.headers["X-ClickHouse-Exception-Code"]) == (404, "47")
    assert "nonsense" in refused.text


async def test_rows_may_be_sent_in_frames_of_every_method(http: httpx.AsyncClient) -> None:
    create = "CREATE OR REPLACE TABLE default.framed (n UInt64) ENGINE = Memory"
    assert (await http.post("/", content=create)).status_code == 200
    body = b"".join(
        [*framed(iter([b"1\n2\n", b"3\n"])), frame(NONE, b"4\n", 2), frame(ZSTD, zstd.compress(b"5\n" * 9), 18)]
    )
    where = {"query": "INSERT INTO default.framed FORMAT CSV", "decompress": "1"}
    sent = await http.post("/", params=where, content=body)
    assert sent.status_code == 200, sent.text
    total = await http.get("/", params={"query": "SELECT count(), sum(n) FROM default.framed"})
    assert total.text == "13\t55\n"
    for bad, why in ((body[:-3], "in the middle"), (b"n" * 40, "decompress=1"), (b"\0" + body[1:], "checksum")):
        torn = await http.post("/", params=where, content=bad)
        assert (torn.status_code, why in torn.text) == (500, True), torn.text
    assert (await http.get("/", params={"query": "SELECT count() FROM default.framed"})).text == "13\n"


async def test_the_checksum_is_the_one_that_clickhouse_writes(
    http: httpx.AsyncClient, clickhouse_engine: EmbeddedClickHouse
) -> None:
    """The engine writes its own columns in the same frames, so its files say what the checksum has to be."""
    create = (
        "CREATE OR REPLACE TABLE default.written (text String CODEC(LZ4)) ENGINE = MergeTree ORDER BY tuple() "
        "SETTINGS min_bytes_for_wide_part = 0, min_rows_for_wide_part = 0"
    )
    for statement in (
        create,
        "INSERT INTO default.written SELECT concat('value ', toString(number)) FROM numbers(5000)",
    ):
        assert (await http.post("/", content=statement)).status_code == 200
    where = "SELECT path FROM system.parts WHERE table = 'written' AND active"
    part = Path((await http.get("/", params={"query": where})).text.strip())
    written = (
        (clickhouse_engine.data_dir / "engine" / part / "text.bin") if not part.is_absolute() else part / "text.bin"
    )
    assert b"value 4999" in unframed(written.read_bytes())


def test_large_pieces_are_cut_and_damage_is_found() -> None:
    data = bytes(range(256)) * 8192 + b"end"
    frames = list(framed(iter([data])))
    assert len(frames) == -(-len(data) // FRAME_BYTES)
    assert unframed(b"".join(frames), piece=65_536) == data
    damaged = bytearray(frames[0])
    damaged[-1] ^= 1
    with pytest.raises(EncodingError, match="checksum"):
        unframed(bytes(damaged))


@pytest.mark.parametrize(
    ("method", "packed", "size", "says"),
    [(0x91, b"xyz", 3, "0x91 is not spoken"), (0x82, b"\xff" * 9, 9, "cannot be read"), (ZSTD, b"no", 2, "cannot be read"),
     (NONE, b"abc", 2, "another size"), (ZSTD, zstd.compress(b"b" * 5000), 7, "another size")],
)  # fmt: skip
def test_a_frame_that_is_not_what_it_says_is_refused(method: int, packed: bytes, size: int, says: str) -> None:
    with pytest.raises(EncodingError, match=says):
        unframed(frame(method, packed, size))
