"""The envelope: CloudEvents 1.0 in Kafka's binary content mode. Attributes are headers, the value is the event's JSON.

The value is readable without the headers (its ``type`` field), and a consumer that wants one type skips the rest by the
``ce_type`` header without decoding it. Source: CloudEvents 1.0.2, "Kafka Protocol Binding", 3.2.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, NoReturn

import msgspec
import orjson

from schemas.errors import ContractError
from schemas.events import BY_WIRE_NAME, SCHEMA_VERSIONS, WIRE_NAMES, CaseEvent, Event, EventReceived
from schemas.upcasts import UPCAST_FAILURES, upcast

Headers = Sequence[tuple[str, bytes]]

TEXT_HASH_HEADER = "ce_texthash"
"""Extension attribute of an opening event: the duplicate check reads it without decoding the value."""

_SPEC = ("ce_specversion", b"1.0")
_CONTENT = ("content-type", b"application/json")
_TYPES = {event: ("ce_type", name.encode()) for event, name in WIRE_NAMES.items()}
_WRITTEN_VERSIONS = {event: ("ce_schemaversion", b"%d" % SCHEMA_VERSIONS[name]) for event, name in WIRE_NAMES.items()}
_KNOWN_TYPES = {name.encode(): name for name in BY_WIRE_NAME}
_NAME = re.compile(rb"newsproof\.[a-z0-9_]{1,80}").fullmatch
_CASE_ID = re.compile(rb"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}").fullmatch
_ID = re.compile(rb"[!-~]{1,200}").fullmatch
"""Printable, and short: every reader keeps ids in memory."""
_VERSIONS = {b"%d" % number: number for number in range(1, 10)}
_VERSION = re.compile(rb"[0-9]{1,4}").fullmatch
EARLIEST, LATEST = datetime(2008, 10, 31, tzinfo=UTC), datetime(2200, 1, 1, tzinfo=UTC)
"""Between these a time can be added to, and fits ClickHouse's ``DateTime64``."""
_encoder = msgspec.json.Encoder()
_decoders: dict[str, msgspec.json.Decoder[Any]] = {
    name: msgspec.json.Decoder(event) for name, event in BY_WIRE_NAME.items()
}


class NewerSchemaError(ContractError):
    """The record was written by newer code. The reader stops: deploy readers before writers."""


class Envelope(msgspec.Struct, frozen=True, kw_only=True):
    """The attributes of one record. ``causation_id`` is None for an opening event and for commands."""

    id: str
    type: str
    case_id: str
    causation_id: str | None
    run_id: str
    time: datetime
    version: int = 1


def encode(
    event: Event,
    *,
    id: str,
    case_id: str,
    causation_id: str | None,
    run_id: str,
    time: datetime,
    source: str = "newsproof",
) -> tuple[bytes, bytes, list[tuple[str, bytes]]]:
    """Return (key, value, headers) of the record for this event. Equal arguments give equal bytes."""
    subject = case_id.encode()
    headers = [
        _SPEC,
        _CONTENT,
        ("ce_id", id.encode()),
        ("ce_source", source.encode()),
        _TYPES[type(event)],
        ("ce_time", _rfc3339(time)),
        ("ce_subject", subject),
        _WRITTEN_VERSIONS[type(event)],
        ("ce_runid", run_id.encode()),
    ]
    if causation_id is not None:
        headers.append(("ce_causationid", causation_id.encode()))
    if isinstance(event, EventReceived) and event.retries is None:  # an attempt claims no text: the first one did
        headers.append((TEXT_HASH_HEADER, event.text_hash.encode()))
    return subject, _encoder.encode(event), headers


def read_envelope(headers: Headers) -> Envelope:
    """Return the envelope of a journal record. Of a header that comes twice, the last counts.

    Ids are 1 to 200 printable ASCII characters, case ids UUIDs, types ``newsproof.…``, times between 2008 and 2200.

    Raises:
        ContractError: when a required attribute is missing or broken (reason ``bad_envelope``).
    """
    h = dict(headers)
    try:
        id, cause, wire = h["ce_id"], h.get("ce_causationid"), h["ce_type"]
        return Envelope(
            id=id.decode() if _ID(id) else _refused(id),
            type=_KNOWN_TYPES.get(wire) or (wire.decode() if _NAME(wire) else _refused(wire)),
            case_id=_case_id(h["ce_subject"]),
            causation_id=None if cause is None else cause.decode() if _ID(cause) else _refused(cause),
            run_id=_run_id(h["ce_runid"]),
            time=_sound(datetime.fromisoformat(h["ce_time"].decode())),
            version=_VERSIONS.get(h["ce_schemaversion"]) or _version(h["ce_schemaversion"]),
        )
    except (KeyError, ValueError, AttributeError, TypeError, OverflowError) as exc:
        raise ContractError(f"the record has no readable envelope: {exc!r:.300}", reason="bad_envelope") from exc


def decode(wire: str, version: int, value: bytes | None) -> CaseEvent:
    """Return the event of a record, lifted to today's version.

    Raises:
        NewerSchemaError: the version is newer than this code knows.
        ContractError: the type is unknown or the value does not decode (reason ``bad_event``).
    """
    current = SCHEMA_VERSIONS.get(wire)
    if current is None:
        raise NewerSchemaError(f"event type {wire!r} is unknown here: deploy this reader before its writers")
    if version > current:
        raise NewerSchemaError(
            f"{wire} has schema version {version}, this code reads up to {current}: deploy this reader before its writers"
        )
    try:
        if version == current:
            return _decoders[wire].decode(value or b"")  # type: ignore[no-any-return]
        lifted = upcast(wire, version, current, orjson.loads(value or b""))
        return msgspec.convert(lifted, BY_WIRE_NAME[wire], strict=False)  # type: ignore[return-value]
    except UPCAST_FAILURES as exc:
        raise ContractError(f"{wire} v{version} does not decode: {exc!s:.300}", reason="bad_event") from exc


# The records of a case lie near each other, and those of a journal are of one run: most ask for an id that was just read.
@lru_cache(maxsize=4096)
def _case_id(value: bytes) -> str:
    return value.decode() if _CASE_ID(value) else _refused(value)


@lru_cache(maxsize=16)
def _run_id(value: bytes) -> str:
    return value.decode() if _ID(value) else _refused(value)


def _refused(value: bytes) -> NoReturn:
    raise ValueError(f"{value[:60]!r} is not of the form that is written here")


def _version(value: bytes) -> int:
    if _VERSION(value) is None or (version := int(value)) == 0:
        raise ValueError(f"{value[:20]!r} is no schema version")
    return version


def _sound(time: datetime) -> datetime:
    if time.tzinfo is None:
        raise ValueError("ce_time has no time zone")
    time = time if time.tzinfo is UTC else time.astimezone(UTC)
    if not EARLIEST <= time <= LATEST:
        raise ValueError(f"ce_time {time.isoformat()} lies outside of 2008 to 2200")
    return time


def _rfc3339(time: datetime) -> bytes:
    utc = time if time.tzinfo is UTC else time.astimezone(UTC)
    return utc.isoformat(timespec="microseconds").encode()
