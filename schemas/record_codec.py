"""Values of a topic that is read as a whole, such as ``budget`` or ``watches``: JSON with a ``type`` and a ``version``."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

import msgspec

from schemas.errors import ContractError

MAX_VERSION = 1000
"""A higher number is garbage, not newer code."""
R = TypeVar("R")


class NewerRecordError(ContractError):
    """The record was written by newer code. The reader stops: it could decide otherwise than the others."""


class RecordCodec(Generic[R]):
    """Encodes and decodes the records of one topic. Each of them has a ``version``, up to this code's."""

    def __init__(self, records: Any, topic: str, *, tags: str, version: int) -> None:
        """``records``: the union of their structs. ``tags``: every type tag begins so, also one of newer code."""
        self._topic, self._tags, self._version = topic, tags, version
        self._encoder = msgspec.json.Encoder()
        self._decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(records)

    def encode(self, record: R) -> bytes:
        """Return the record's value."""
        return self._encoder.encode(record)

    def decode(self, value: bytes | None) -> R:
        """Return the record of this value.

        Raises:
            NewerRecordError: a later version of a record: deploy this reader before its writers.
            ContractError: anything else (reason ``bad_TOPIC_record``).
        """
        topic, bad = self._topic, f"bad_{self._topic}_record"
        try:
            record = self._decoder.decode(value or b"")
        except (msgspec.MsgspecError, ValueError, ArithmeticError, RecursionError) as exc:
            if self._is_newer(value or b""):
                raise NewerRecordError(
                    f"the {topic} topic holds a record of newer code: deploy this version before its writers",
                    reason=f"newer_{topic}_record",
                ) from exc
            raise ContractError(f"not a {topic} record: {exc!s:.300}", reason=bad) from exc
        if not 1 <= record.version <= self._version:
            if not self._version < record.version <= MAX_VERSION:
                raise ContractError(f"no version {record.version} of a {topic} record can be", reason=bad)
            raise NewerRecordError(
                f"a {topic} record has version {record.version}, this code reads up to {self._version}: "
                "deploy it before its writers",
                reason=f"newer_{topic}_record",
            )
        decoded: R = record
        return decoded

    def _is_newer(self, value: bytes) -> bool:
        try:
            head = msgspec.json.decode(value, type=_Head)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            return False
        return head.type.startswith(self._tags) and self._version < head.version <= MAX_VERSION


class _Head(msgspec.Struct):
    type: str
    version: int
