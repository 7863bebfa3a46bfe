"""Topic names, the partition of a record, and the codec of topics that are read as a whole."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

import msgspec

from schemas.errors import ContractError

MAX_MESSAGE_BYTES = 4 * 1024 * 1024
"""``max.message.bytes`` of every topic (the issue's "Large bodies")."""
MAX_BODY_BYTES = 64 * 1024
"""Adapters cut page texts and search contents here and say so (``truncated``)."""


RESEARCH_TOPIC = "research"
"""Last part of the name of the chats' journal."""


class Topics(msgspec.Struct, frozen=True):
    """The topics of one installation; ``prefix`` such as ``newsproof.``."""

    prefix: str = "newsproof."

    @property
    def news(self) -> str:
        return self.prefix + "news"

    @property
    def cases(self) -> str:
        return self.prefix + "cases"

    @property
    def signals(self) -> str:
        return self.prefix + "signals"

    @property
    def budget(self) -> str:
        return self.prefix + "budget"

    @property
    def configs(self) -> str:
        return self.prefix + "configs"

    @property
    def dead_letters(self) -> str:
        return self.prefix + "dead-letters"

    @property
    def research(self) -> str:
        return self.prefix + RESEARCH_TOPIC

    @property
    def watches(self) -> str:
        return self.prefix + "watches"

    @property
    def deliveries(self) -> str:
        """What bots were about to do, tried, and achieved."""
        return self.prefix + "deliveries"

    @property
    def record_roots(self) -> str:
        """The Merkle root of each day's signals."""
        return self.prefix + "record-roots"

    def journal(self, name: str) -> str:
        """The journal of a flow, such as cases or research."""
        return self.prefix + name

    @property
    def publisher_lease(self) -> str:
        """One empty partition. The group member that it is assigned to publishes."""
        return self.prefix + "publisher-lease"

    @property
    def listener_items(self) -> str:
        """Items that listeners have seen: a record for each source and external id."""
        return self.prefix + "listener-items"

    @property
    def listener_cursors(self) -> str:
        """Positions of listeners: a record for each source, and one for the news that they wrote."""
        return self.prefix + "listener-cursors"

    @property
    def listener_lease(self) -> str:
        """One empty partition. The group member that it is assigned to listens."""
        return self.prefix + "listener-lease"

    @property
    def reputation(self) -> str:
        """The metrics of each source and language, written once a day."""
        return self.prefix + "reputation"

    @property
    def calibration(self) -> str:
        """The maps from raw to calibrated confidence, one a day."""
        return self.prefix + "calibration"

    def group(self, reader: str) -> str:
        """Consumer group of a reader: worker, publisher, sink."""
        return self.prefix + reader

    def transactional_id(self, writer: str) -> str:
        """Return a fixed transactional id, so that a second writer fences the first."""
        return self.prefix + writer


def partition_of(case_id: str, partitions: int) -> int:
    """Return the journal partition of a case. Case ids are hashes, so their leading bits are uniform already."""
    return int(case_id[:8], 16) % partitions


MAX_VERSION = 1000
"""A higher number is garbage, not newer code."""
R = TypeVar("R")


class NewerRecordError(ContractError):
    """The record was written by newer code. The reader stops, since it could decide differently from the others."""


class RecordCodec(Generic[R]):
    """Encodes and decodes the records of one topic. Each of them has a ``version``, up to this code's."""

    def __init__(self, records: Any, topic: str, *, tags: str, version: int) -> None:
        """``records``: the union of their structs. ``tags``: prefix of every type tag, including those of newer code."""
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
                raise ContractError(f"a {topic} record cannot have version {record.version}", reason=bad)
            raise NewerRecordError(
                f"a {topic} record has version {record.version}, this code reads up to {self._version}: "
                "deploy it before its writers",
                reason=f"newer_{topic}_record",
            )
        decoded: R = record
        return decoded

    def known(self, value: bytes | None) -> R | None:
        """Return the record of this value; None for anything that is none, which another reader reports.

        Raises:
            NewerRecordError: as :meth:`decode`.
        """
        try:
            return self.decode(value)
        except NewerRecordError:
            raise
        except ContractError:
            return None

    def _is_newer(self, value: bytes) -> bool:
        try:
            head = msgspec.json.decode(value, type=_Head)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            return False
        return head.type.startswith(self._tags) and self._version < head.version <= MAX_VERSION


class _Head(msgspec.Struct):
    type: str
    version: int
