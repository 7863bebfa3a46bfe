"""Batches that a foreign client wrote: one that aiokafka cannot unpack must not stop a consumer for ever.

Kafka takes any bytes as the name of a header; aiokafka decodes it as UTF-8, and a name that is not makes every reader of
its partition fail at that record, again and again, losing what it had unpacked before (measured on aiokafka 0.14,
``consumer/fetcher.py``, ``FetchResult.getall``). Here such a batch is unpacked once more by aiokafka's own Python code,
with the bad bytes written as ``\\xff``; the record is then judged like any other.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from aiokafka.consumer import fetcher
from aiokafka.record.default_records import _DefaultRecordBatchPy
from aiokafka.record.memory_records import _MemoryRecordsPy

_FIRST_MAGIC_WITH_HEADERS = 2


class _LenientBytes(bytearray):
    """Bytes whose pieces decode without ever failing."""

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
    """A batch of the fast reader, with the lenient one in reserve."""

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
    """Let every consumer of this process, Faust's included, read any batch that the broker took. Idempotent."""
    fetcher.MemoryRecords = _Batches
