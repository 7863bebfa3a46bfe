"""Lenient reading of record batches from foreign clients: one that aiokafka cannot decode must not block a consumer.

Kafka accepts any bytes as a header's name, but aiokafka decodes it as UTF-8. An invalid name makes every reader of its
partition fail at that record, again and again, and lose the records it had unpacked before (measured on aiokafka 0.14,
``consumer/fetcher.py``, ``FetchResult.getall``). Here aiokafka's own Python code unpacks such a batch once more, with
the invalid bytes written as ``\\xff``. The record is then judged like any other.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from aiokafka.consumer import fetcher
from aiokafka.record.default_records import _DefaultRecordBatchPy
from aiokafka.record.memory_records import _MemoryRecordsPy

_FIRST_MAGIC_WITH_HEADERS = 2


class _LenientBytes(bytearray):
    """Bytes whose slices always decode."""

    def __getitem__(self, index: Any) -> Any:
        found = super().__getitem__(index)
        return _LenientBytes(found) if isinstance(index, slice) else found

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        return super().decode(encoding, "backslashreplace")


class _LenientBatch(_DefaultRecordBatchPy):  # type: ignore[misc]
    def _maybe_uncompress(self) -> None:
        super()._maybe_uncompress()
        self._buffer: bytearray = _LenientBytes(self._buffer)


class _Batch:
    """A batch of the fast reader that falls back to the lenient one."""

    __slots__ = ("_fast", "_raw")

    def __init__(self, fast: Any, raw: memoryview) -> None:
        self._fast, self._raw = fast, raw

    def __getattr__(self, name: str) -> Any:
        return getattr(self._fast, name)

    def __next__(self) -> Any:
        return next(self._fast)

    def __iter__(self) -> Iterator[Any]:
        last = -1
        try:
            for record in self._fast:
                last = record.offset
                yield record
        except UnicodeDecodeError:
            yield from (record for record in _LenientBatch(self._raw) if record.offset > last)


class _Batches(_MemoryRecordsPy):  # type: ignore[misc]
    def next_batch(self) -> Any:
        raw = self._next_slice
        batch = super().next_batch()
        if raw is None or raw[self.MAGIC_OFFSET] < _FIRST_MAGIC_WITH_HEADERS:
            return batch
        return _Batch(batch, raw)


def read_any_batch() -> None:
    """Patch aiokafka: all consumers of this process, Faust's too, read any batch that a broker accepted. Idempotent."""
    fetcher.MemoryRecords = _Batches
