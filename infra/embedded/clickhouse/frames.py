"""ClickHouse's native compression of HTTP bodies (``compress=1``, ``decompress=1``), which JDBC and ODBC drivers use.

A frame is a checksum (16 bytes, CityHash128 of version 1.0.2 over all that follows), a method (1 byte: 0x82 LZ4, 0x90 ZSTD,
0x02 none), the size of the frame without its checksum and the size of the data (4 bytes each, little-endian), and the data.

Source: https://clickhouse.com/docs/en/native-protocol/compression
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Iterator

import lz4.block  # type: ignore[import-untyped]

from infra.embedded.clickhouse.wire import EncodingError

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

__all__ = ["FrameDecoder", "framed"]

NONE, LZ4, ZSTD = 0x02, 0x82, 0x90
FRAME_BYTES = 1024 * 1024
"""Uncompressed data of one frame, as ClickHouse's own ``max_compress_block_size``."""
MAX_FRAME_BYTES = 16 * 1024 * 1024
"""Limit of a client's frame, which is decompressed whole. ClickHouse takes 1 GiB; clients send 1 MiB, some 10."""
_CHECKSUM = 16
_HEAD = struct.Struct("<BII")
_HALF = (1 << 64) - 1


def framed(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the pieces as LZ4 frames of at most ``FRAME_BYTES`` of data."""
    for piece in pieces:
        for start in range(0, len(piece), FRAME_BYTES):
            yield _frame(piece[start : start + FRAME_BYTES])


def _frame(data: bytes) -> bytes:
    packed: bytes = lz4.block.compress(data, store_size=False)
    frame = _HEAD.pack(LZ4, _HEAD.size + len(packed), len(data)) + packed
    return _checksum(frame) + frame


def _checksum(frame: bytes) -> bytes:
    # Imported here: only drivers that ask for frames need it, and the engine starts with every command.
    from clickhouse_cityhash.cityhash import CityHash128  # type: ignore[import-untyped]

    number: int = CityHash128(frame)
    return struct.pack("<QQ", number >> 64, number & _HALF)


class FrameDecoder:
    """Incremental decoder of a framed body."""

    def __init__(self) -> None:
        self._held = bytearray()

    def decode(self, piece: bytes) -> Iterator[bytes]:
        """Yield the data of every frame that is complete by now.

        Raises:
            EncodingError: the bytes are not a frame, or are corrupt.
        """
        self._held += piece
        while len(self._held) >= _CHECKSUM + _HEAD.size:
            method, size, data_size = _HEAD.unpack_from(self._held, _CHECKSUM)
            if not _HEAD.size <= size <= MAX_FRAME_BYTES or not 0 < data_size <= MAX_FRAME_BYTES:
                raise EncodingError("The body is not in ClickHouse's native compression: leave decompress=1 out.")
            if len(self._held) < _CHECKSUM + size:
                return
            checksum, frame = bytes(self._held[:_CHECKSUM]), bytes(self._held[_CHECKSUM : _CHECKSUM + size])
            del self._held[: _CHECKSUM + size]
            if checksum != _checksum(frame):
                raise EncodingError("The checksum of a compressed block is wrong: send the body again.")
            yield _data(method, frame[_HEAD.size :], data_size)

    def finish(self) -> None:
        """Raise EncodingError when the body ended within a frame."""
        if self._held:
            raise EncodingError("The body ends in the middle of a compressed block: send it again.")


def _data(method: int, packed: bytes, size: int) -> bytes:
    try:
        match method:
            case 0x82:
                data: bytes = lz4.block.decompress(packed, uncompressed_size=size)
            case 0x90:
                data = zstd.ZstdDecompressor().decompress(packed, max_length=size + 1)
            case 0x02:
                data = packed
            case _:
                raise EncodingError(f"Compression method 0x{method:02x} is not spoken here: use LZ4 or ZSTD.")
    except (lz4.block.LZ4BlockError, zstd.ZstdError) as exc:
        raise EncodingError(f"A compressed block cannot be read: {exc}.") from exc
    if len(data) != size:
        raise EncodingError("A compressed block has another size than it says: send the body again.")
    return data
