"""The envelope: CloudEvents 1.0 in Kafka's binary content mode. Attributes are headers, the value is the event's JSON.

The value is readable without the headers (its ``type`` field), and a consumer that wants one type skips the rest by the
``ce_type`` header without decoding it. Source: CloudEvents 1.0.2, "Kafka Protocol Binding", 3.2.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

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
_KNOWN_TYPES = {name.encode(): name for name in BY_WIRE_NAME}
_NAME = re.compile(r"newsproof\.[a-z0-9_]{1,80}").fullmatch
_CASE_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}").fullmatch
_ID = re.compile(r"[!-~]{1,200}").fullmatch
"""Printable, and short: every reader keeps ids in memory."""
_IDS = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}(?:\n[!-~]{1,200})+").fullmatch
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
    wire = WIRE_NAMES[type(event)]
    subject = case_id.encode()
    headers = [
        _SPEC,
        _CONTENT,
        ("ce_id", id.encode()),
        ("ce_source", source.encode()),
        ("ce_type", wire.encode()),
        ("ce_time", _rfc3339(time)),
        ("ce_subject", subject),
        ("ce_schemaversion", b"%d" % SCHEMA_VERSIONS[wire]),
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
        ids = [h["ce_subject"], h["ce_runid"], h["ce_id"]]
        if "ce_causationid" in h:
            ids.append(h["ce_causationid"])
        case_id, run_id, id, *cause = _all_matched(ids)
        return Envelope(
            id=id,
            type=_KNOWN_TYPES.get(h["ce_type"]) or _matched(h["ce_type"], _NAME),
            case_id=case_id,
            causation_id=cause[0] if cause else None,
            run_id=run_id,
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


def _all_matched(ids: list[bytes]) -> list[str]:
    """Return a case's id and the others behind it, each of its form, which is looked at in one go: readers do little else."""
    text = b"\n".join(ids).decode("ascii")
    found = text.split("\n")
    if len(found) != len(ids) or _IDS(text) is None:
        return [_matched(one, _ID if n else _CASE_ID) for n, one in enumerate(ids)]
    return found


def _matched(value: bytes, match: Callable[[str], Any]) -> str:
    text = value.decode("ascii")
    if match(text) is None:
        raise ValueError(f"{text[:60]!r} is not of the form that is written here")
    return text


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
    return time.astimezone(UTC).isoformat(timespec="microseconds").encode()
