"""Records of the journal and of the ``signals`` topic: envelope, headers, and the upcast of older versions.

A journal record is a CloudEvent 1.0 in Kafka's binary content mode: attributes are headers, the value is the event's JSON. The
value is readable without the headers (its ``type`` field), and a consumer of one type skips the rest by the ``ce_type``
header without decoding it. Source: CloudEvents 1.0.2, "Kafka Protocol Binding", 3.2.

A record of ``signals`` counts as published if its headers are complete and agree with each other, its key and its value.
Every reader ignores any other record. This keeps out stray and malformed records, but not a forger who may write to the
topic: that is the task of the broker's access control.

Upcasters lift older versions of an event, one step at a time, on read. A new field with a default needs none. Any other
change raises the version in ``schemas.events.SCHEMA_VERSIONS`` and adds one function here; a golden record of every version
stays in the tests and must decode for ever.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import cache, lru_cache
from typing import Any, NoReturn

import msgspec
import orjson

from schemas.errors import ContractError
from schemas.events import BY_WIRE_NAME, SCHEMA_VERSIONS, WIRE_NAMES, CaseEvent, Event, EventReceived
from schemas.ids import uuid5
from schemas.signals import SIGNAL_SCHEMA_VERSION, Signal

Upcast = Callable[[dict[str, Any]], dict[str, Any]]
UPCAST_FAILURES = (ValueError, LookupError, TypeError, AttributeError, RecursionError)
"""Exceptions of decoding an old value: an upcaster may get any JSON."""


def _step_failed_v1_to_v2(old: dict[str, Any]) -> dict[str, Any]:
    """Lift version 1, which kept the failure as two strings; version 2 has a value with its own ``retryable``."""
    new = {k: v for k, v in old.items() if k not in ("error", "error_class")}
    retry_at = old.get("retry_at")
    new["failure"] = {
        "type": "failure",
        "kind": old.get("error_class", "internal"),
        "message": old.get("error", ""),
        "retryable": retry_at is not None,
    }
    new["outcome"] = "retry" if retry_at is not None else "degrade"
    return new


_NEW_IN_SIGNAL_V2 = ("stage", "verdict", "unchecked_reason", "supporting_sources", "summary_zh", "summary_en")
_STAGE_OF_STATUS = {
    "preliminary": "preliminary",
    "preliminary_only": "final",
    "verified": "final",
    "degraded": "final",
    "superseded": "superseded",
    "retracted": "retracted",
}
_VERDICT_OF_RULE = {
    "denied_or_conflict": "disputed",
    "stale": "stale",
    "few_sources": "unconfirmed",
    "no_evidence": "unconfirmed",
}


def _signal_v1_to_v2(old: dict[str, Any]) -> dict[str, Any]:
    """Lift version 1, which had one word, ``status``, for stage and verdict.

    The first adjustment of version 1 was its base rule. Its rules knew neither ``confirmed`` nor ``likely``, so no old
    signal gets such a verdict; and they did not say why nothing was searched, so ``unchecked_reason`` stays None where
    the gate, the budget and a failed search ended as one status.
    """
    if clash := old.keys() & set(_NEW_IN_SIGNAL_V2):
        raise ValueError(f"a signal of schema 1 holds {', '.join(sorted(clash))}, which came with schema 2")
    new = {**dict.fromkeys(_NEW_IN_SIGNAL_V2), **_staged(old), "schema_version": 2}
    if new["stage"] == "preliminary":
        new["unchecked_reason"] = "preliminary"
    return new


def _staged(old: dict[str, Any]) -> dict[str, Any]:
    """Return a signal (or the chat's excerpt of one) with ``stage`` and ``verdict`` instead of ``status``."""
    new = dict(old)
    status, adjustments = new.pop("status"), old.get("adjustments")
    new["stage"] = _STAGE_OF_STATUS[status]
    if status in ("preliminary", "preliminary_only"):
        new["verdict"] = "unchecked"
    elif "refuted" in old.get("risk_flags", ()):
        new["verdict"] = "refuted"
    else:
        new["verdict"] = _VERDICT_OF_RULE.get(adjustments[0]["rule"]) if adjustments else None
    return new


def _data_collected_v1_to_v2(old: dict[str, Any]) -> dict[str, Any]:
    """Lift version 1, which kept the status of the found signals."""
    return old | {"signals": [_staged(signal) for signal in old.get("signals", ())]}


def _signal_within(field: str) -> Upcast:
    """Return the upcaster of an event with a signal in this field, or null, or no such field."""
    return lambda old: old if old.get(field) is None else old | {field: _signal_v1_to_v2(old[field])}


def _as_it_is(old: dict[str, Any]) -> dict[str, Any]:
    """Return the value unchanged: the version only added a value that older code would refuse."""
    return old


SIGNAL = "newsproof.signal"
"""Type of a record on the ``signals`` topic, which is no event of the journal."""
UPCASTS: dict[tuple[str, int], Upcast] = {
    ("newsproof.step_failed", 1): _step_failed_v1_to_v2,
    (SIGNAL, 1): _signal_v1_to_v2,
    ("newsproof.case_triaged", 1): _signal_within("preliminary_signal"),
    ("newsproof.case_triaged", 2): _as_it_is,
    ("newsproof.case_dropped", 1): _as_it_is,
    ("newsproof.signal_synthesized", 1): _signal_within("signal"),
    ("newsproof.data_collected", 1): _data_collected_v1_to_v2,
}


def upcast(wire: str, version: int, to: int, data: dict[str, Any]) -> dict[str, Any]:
    """Return ``data`` lifted from ``version`` to ``to``, one step at a time.

    Raises:
        ContractError: when a step of the chain is missing (reason ``no_upcast``).
    """
    for v in range(version, to):
        step = UPCASTS.get((wire, v))
        if step is None:
            raise ContractError(f"{wire} v{v} cannot be upgraded to v{v + 1}", reason="no_upcast")
        data = step(data)
    return data


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
"""Printable and short: every reader keeps ids in memory."""
_VERSIONS = {b"%d" % number: number for number in range(1, 10)}
_VERSION = re.compile(rb"[0-9]{1,4}").fullmatch
EARLIEST, LATEST = datetime(2008, 10, 31, tzinfo=UTC), datetime(2200, 1, 1, tzinfo=UTC)
"""Bounds of a valid time: room for additions, and within ClickHouse's ``DateTime64``."""
_encoder = msgspec.json.Encoder()


@cache
def _decoder(wire: str) -> msgspec.json.Decoder[Any]:
    # Made on first use: a client of signals imports this module and decodes no event.
    return msgspec.json.Decoder(BY_WIRE_NAME[wire])


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
    """Return (key, value, headers) of the record of this event. Equal arguments give equal bytes."""
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
    # An attempt claims no text, and no further claim of a message either: the first case did. A question never does.
    if isinstance(event, EventReceived) and event.retries is None and event.part is None and not event.news.is_asked:
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
            return _decoder(wire).decode(value or b"")  # type: ignore[no-any-return]
        lifted = upcast(wire, version, current, orjson.loads(value or b""))
        return msgspec.convert(lifted, BY_WIRE_NAME[wire], strict=False)  # type: ignore[return-value]
    except UPCAST_FAILURES as exc:
        raise ContractError(f"{wire} v{version} does not decode: {exc!s:.300}", reason="bad_event") from exc


# Records of a case are close together, and a journal has one run: most ids were just read.
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


CAUSE, TOPIC, PARTITION, OFFSET = "np_causeid", "np_journaltopic", "np_journalpartition", "np_journaloffset"
REVISION = "np_revision"
SIGNAL_TYPE = SIGNAL.encode()
MAX_REVISION = 1_000_000
_MAX_OFFSET = 2**63 - 1

_decode = msgspec.json.Decoder(Signal).decode


class NewerSignalError(ContractError):
    """The signal was published by newer code. The reader stops: deploy readers before writers."""


class Publication(msgspec.Struct, frozen=True, kw_only=True):
    """The headers of one published revision: its signal, and the journal event that caused it."""

    signal_id: str
    revision: int
    cause_id: str
    run_id: str
    journal_topic: str
    journal_partition: int
    journal_offset: int
    schema_version: int


def read_publication(record: Any) -> Publication:
    """Return the publication of a record on ``signals``, from its headers.

    Raises:
        ContractError: publish has not written it (reason ``foreign_signal``).
    """
    h = dict(record.headers or ())
    try:
        publication = Publication(
            signal_id=_text(h["ce_subject"]),
            revision=_number(h[REVISION], MAX_REVISION),
            cause_id=_text(h[CAUSE]),
            run_id=_text(h["ce_runid"]),
            journal_topic=_text(h[TOPIC]),
            journal_partition=_number(h[PARTITION], 2**31),
            journal_offset=_number(h[OFFSET], _MAX_OFFSET),
            schema_version=_number(h["ce_schemaversion"], 9999),
        )
        whole = h["ce_type"] == SIGNAL_TYPE and _text(record.key) == publication.signal_id and publication.revision > 0
        if not whole or _text(h["ce_id"]) != uuid5("signal-revision", publication.signal_id, str(publication.revision)):
            raise ValueError("its headers do not agree")
    except (KeyError, ValueError, TypeError, AttributeError) as exc:
        raise ContractError(
            f"a record that the publisher did not write (partition {record.partition}, offset {record.offset}): {exc!r:.200}",
            reason="foreign_signal",
        ) from exc
    return publication


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
