"""Hostile records for the topics without cases: signals, configs, budget, dead letters, the publisher's lease."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import msgspec

from lab.hostile.pieces import BAD_NUMBERS, BYTES, TEXTS
from lab.hostile.record import Headers, HostileRecord
from schemas.config import Snapshot
from schemas.envelope import CAUSE, OFFSET, PARTITION, REVISION, SIGNAL_TYPE, TOPIC
from schemas.ids import uuid5


def hostile_signal(rng: Random, mark: str) -> HostileRecord:
    """Return a record that resembles a signal but contradicts itself in at least one header."""
    signal_id = uuid5("hostile signal", mark)
    headers: dict[str, bytes | None] = {
        "ce_id": uuid5("signal-revision", signal_id, "1").encode(),
        "ce_type": SIGNAL_TYPE,
        "ce_subject": signal_id.encode(),
        "ce_schemaversion": rng.choice((b"1", b"999")),
        "ce_runid": b"live",
        CAUSE: uuid5("cause", mark).encode(),
        TOPIC: b"newsproof.cases",
        PARTITION: b"0",
        OFFSET: rng.choice((b"0", b"9" * 18)),
        REVISION: b"1",
    }
    kind, chosen = rng.choice(("no headers", "a header is missing", "odd numbers", "not in agreement")), dict(headers)
    if kind == "no headers":
        chosen = {}
    elif kind == "a header is missing":
        del chosen[rng.choice(list(chosen))]
    elif kind == "odd numbers":
        bad = [n for n in BAD_NUMBERS if n not in (b"0",)]
        chosen[rng.choice((PARTITION, OFFSET, REVISION, "ce_schemaversion"))] = rng.choice((*bad, None))
    else:
        name = rng.choice(("ce_id", "ce_subject", "ce_type"))
        chosen[name] = rng.choice((b"", b"\xff", b"other", None, uuid5("other", mark).encode()))
    value = rng.choice((*BYTES, _like_a_signal(rng, signal_id)))
    return HostileRecord(
        kind=f"signals: {kind}", topic="signals", fate="foreign", key=signal_id.encode(), value=value,
        headers=list(chosen.items()),
    )  # fmt: skip


def _like_a_signal(rng: Random, signal_id: str) -> bytes:
    fields: dict[str, Any] = {
        "schema_version": rng.choice((1, 999, -1, "1")), "signal_id": signal_id, "revision": rng.choice((1, -1, 2**62)),
        "stage": "final", "verdict": "confirmed", "action": "buy", "asset": "BTC", "confidence": rng.choice((1.0, 1e308, -5)),
        "summary": rng.choice(TEXTS),
    }  # fmt: skip
    return json.dumps(fields).encode()


def hostile_config(rng: Random, mark: str) -> HostileRecord:
    """Return a record that is not a snapshot, or a snapshot whose key is not its hash."""
    honest = Snapshot(code_version=mark)
    kind = rng.choice(("garbage", "another hash", "odd key", "a deleted one", "endless deadlines"))
    key, value = honest.config_hash.encode(), msgspec.json.encode(honest)
    if kind == "garbage":
        value = rng.choice([b for b in BYTES if b is not None])
    elif kind == "another hash":
        key = Snapshot(code_version=f"not {mark}").config_hash.encode()
    elif kind == "odd key":
        key = rng.choice((b"\xff\xfe", b"", b"k" * 100_000, mark.encode(), key.upper()))
    elif kind == "a deleted one":
        value = b""
    else:
        endless = Snapshot(code_version=mark, case_deadline_seconds=rng.choice((1e300, 1e12, -1.0)))
        key, value = endless.config_hash.encode(), msgspec.json.encode(endless)
    return HostileRecord(kind=f"configs: {kind}", topic="configs", fate="foreign", key=key, value=value, partition=0)


def hostile_budget(rng: Random, mark: str) -> HostileRecord:
    """Return a record that neither reserves nor settles anything."""
    amounts = ("-1", "NaN", "Infinity", "1e999999", "9" * 400, "sNaN", "", None, {"a": 1}, -5, 2**70)
    kind = rng.choice(("garbage", "odd amounts", "odd units", "odd types"))
    fields: dict[str, Any] = {
        "type": "newsproof.budget_reserved", "id": mark, "effect": "search", "provider": "x", "usd": "1", "units": 1,
        "for_triage": False, "case_id": mark, "head_id": mark,
    }  # fmt: skip
    if kind == "odd amounts":
        fields["usd"] = rng.choice([a for a in amounts if a is not None])
    elif kind == "odd units":
        fields["units"] = rng.choice((-1, 2**60, "1", 1.5, None))
    elif kind == "odd types":
        fields["type"] = rng.choice(("", "newsproof", "budget_reserved", 7, None, "newsproof.case_failed"))
    value = rng.choice(BYTES) if kind == "garbage" else json.dumps(fields).encode()
    return HostileRecord(kind=f"budget: {kind}", topic="budget", fate="foreign", key=None, value=value, partition=0)


def hostile_letter(rng: Random, mark: str) -> HostileRecord:
    """Return a record on the dead letters that no part of Newsproof wrote."""
    headers: Headers = []
    for name in ("dl_topic", "dl_partition", "dl_offset", "dl_why", "dl_requeued_from"):
        if rng.random() < 0.5:
            headers.append((name, rng.choice((*BAD_NUMBERS, None, b"newsproof.news"))))
    return HostileRecord(
        kind="dead-letters: no reason", topic="dead-letters", fate="foreign", key=mark.encode(),
        value=rng.choice(BYTES), headers=headers,
    )  # fmt: skip


def hostile_lease(rng: Random, mark: str) -> HostileRecord:
    """Return an arbitrary record: the lease belongs to the consumer group, and the topic's records have no effect."""
    return HostileRecord(
        kind="publisher-lease: anything", topic="publisher-lease", fate="ignored", key=mark.encode(),
        value=rng.choice(BYTES), headers=[(b"\xff", b"\xff")], partition=0,
    )  # fmt: skip
