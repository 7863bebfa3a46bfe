"""Records of the ``signals`` topic: what publish writes into their headers, and who may be believed to have written one.

Anything may stand on a topic. A record counts as published when its headers are whole and agree with each other, its key
and its value; everything else is passed by, by every reader alike. This keeps out what went astray and what is malformed.
It does not keep out a forger who may write to the topic: that is what the broker's access control is for.
"""

from __future__ import annotations

from typing import Any

import msgspec

from schemas.errors import ContractError
from schemas.ids import uuid5
from schemas.signals import SIGNAL_SCHEMA_VERSION, Signal
from schemas.upcasts import SIGNAL, UPCAST_FAILURES, upcast

CAUSE, TOPIC, PARTITION, OFFSET = "np_causeid", "np_journaltopic", "np_journalpartition", "np_journaloffset"
REVISION = "np_revision"
SIGNAL_TYPE = SIGNAL.encode()
MAX_REVISION = 1_000_000
_MAX_OFFSET = 2**63 - 1

_decode = msgspec.json.Decoder(Signal).decode


class NewerSignalError(ContractError):
    """The signal was published by newer code. The reader stops: deploy readers before writers."""


class Publication(msgspec.Struct, frozen=True, kw_only=True):
    """The headers of one published revision: which event of which journal it stands for."""

    signal_id: str
    revision: int
    cause_id: str
    run_id: str
    journal_topic: str
    journal_partition: int
    journal_offset: int
    schema_version: int


def read_publication(record: Any) -> Publication:
    """Return what the headers of a record on ``signals`` say.

    Raises:
        ContractError: publish has not written it (reason ``foreign_signal``).
    """
    h = dict(record.headers or ())
    try:
        found = Publication(
            signal_id=_text(h["ce_subject"]),
            revision=_number(h[REVISION], MAX_REVISION),
            cause_id=_text(h[CAUSE]),
            run_id=_text(h["ce_runid"]),
            journal_topic=_text(h[TOPIC]),
            journal_partition=_number(h[PARTITION], 2**31),
            journal_offset=_number(h[OFFSET], _MAX_OFFSET),
            schema_version=_number(h["ce_schemaversion"], 9999),
        )
        whole = h["ce_type"] == SIGNAL_TYPE and _text(record.key) == found.signal_id and found.revision > 0
        if not whole or _text(h["ce_id"]) != uuid5("signal-revision", found.signal_id, str(found.revision)):
            raise ValueError("its headers do not agree")
    except (KeyError, ValueError, TypeError, AttributeError) as exc:
        raise ContractError(
            f"a record that publish has not written (partition {record.partition}, offset {record.offset}): {exc!r:.200}",
            reason="foreign_signal",
        ) from exc
    return found


def read_signal(record: Any) -> tuple[Signal, Publication]:
    """Return the signal of a record on ``signals``, lifted to today's schema, and where it comes from.

    Raises:
        NewerSignalError: it was published by newer code.
        ContractError: publish has not written it, or it does not decode (``foreign_signal``, ``bad_signal``).
    """
    published = read_publication(record)
    if published.schema_version > SIGNAL_SCHEMA_VERSION:
        raise NewerSignalError(
            f"signal schema {published.schema_version} is newer than this newsproof reads ({SIGNAL_SCHEMA_VERSION}): "
            "update newsproof here",
            reason="newer_schema",
        )
    try:
        signal = decode_signal(record.value or b"", published.schema_version)
    except UPCAST_FAILURES as exc:
        raise ContractError(
            f"a record of the signals topic (partition {record.partition}, offset {record.offset}) is no signal: "
            f"{exc!s:.200}",
            reason="bad_signal",
        ) from exc
    if (signal.signal_id, signal.revision) != (published.signal_id, published.revision):
        raise ContractError(
            f"the record at partition {record.partition}, offset {record.offset} holds another signal than its headers say",
            reason="bad_signal",
        )
    return signal, published


def decode_signal(value: bytes, version: int) -> Signal:
    """Return a signal of this schema version as one of today's.

    Raises:
        One of ``UPCAST_FAILURES``: it is none. ContractError: there was no such version.
    """
    if version == SIGNAL_SCHEMA_VERSION:
        return _decode(value)
    return msgspec.convert(upcast(SIGNAL, version, SIGNAL_SCHEMA_VERSION, msgspec.json.decode(value)), Signal)


def _text(value: bytes | None) -> str:
    text = (value or b"").decode("ascii")
    if not 0 < len(text) <= 300:
        raise ValueError("a header has no length that is written here")
    return text


def _number(value: bytes, at_most: int) -> int:
    if not (value.isdigit() and len(value) <= 19 and (number := int(value)) <= at_most):
        raise ValueError(f"{value[:30]!r} is no number that is written here")
    return number
