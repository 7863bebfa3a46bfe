"""Signals of every schema that was ever published: on the topic, and inside of the events that hold one."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from schemas import envelope as wire
from schemas.envelope import NewerSignalError, read_signal
from schemas.errors import ContractError
from schemas.events import CaseTriaged, DataCollected, SignalSynthesized
from schemas.signals import SIGNAL_SCHEMA_VERSION, Signal
from tests.schemas.test_golden import recorded
from tests.schemas.write_golden import GOLDEN_SIGNALS, SIGNAL, path_of, published

FILES = [GOLDEN_SIGNALS / f"signal.v{version}.json" for version in range(1, SIGNAL_SCHEMA_VERSION + 1)]


def golden(version: int) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((GOLDEN_SIGNALS / f"signal.v{version}.json").read_text("utf-8"))
    return found


def record(one: dict[str, Any], value: bytes | None = None, **headers: str) -> Any:
    """A golden record as a Kafka client gives it; ``value`` and some headers changed."""
    return SimpleNamespace(
        key=one["key"].encode(),
        value=msgspec.json.encode(one["value"]) if value is None else value,
        headers=[(k, v.encode()) for k, v in {**one["headers"], **headers}.items()],
        partition=0,
        offset=0,
    )


def lifted(**changes: Any) -> Signal:
    """The golden signal of schema 1 with some fields changed, as it is read today."""
    old = golden(1)
    return read_signal(record({**old, "value": old["value"] | changes}))[0]


def test_a_signal_of_schema_1_keeps_what_it_said_and_gets_the_words_of_today() -> None:
    old = golden(1)
    signal, where = read_signal(record(old))
    assert where.schema_version == 1
    assert (signal.schema_version, signal.stage, signal.verdict) == (SIGNAL_SCHEMA_VERSION, "final", "unconfirmed")
    none = (signal.unchecked_reason, signal.supporting_sources, signal.summary_zh, signal.summary_en)
    assert none == (None, None, None, None)
    said = msgspec.to_builtins(signal)
    kept = old["value"].keys() - {"schema_version", "status"}
    assert {name: msgspec.json.decode(msgspec.json.encode(said[name])) for name in kept} == {
        name: old["value"][name] for name in kept
    }


def test_a_signal_of_today_is_read_and_written_as_its_golden_record() -> None:
    new = golden(SIGNAL_SCHEMA_VERSION)
    assert read_signal(record(new))[0] == SIGNAL
    key, value, headers = published(SIGNAL)
    assert {"key": key.decode(), "headers": headers, "value": json.loads(value)} == new
    assert sorted(GOLDEN_SIGNALS.glob("*.json")) == FILES


def test_a_claim_is_written_only_where_it_is_kept_apart() -> None:
    """So that older records are written again as they were: the audit compares lengths, and a key more must show."""
    assert not {"claim_zh", "claim_en"} & json.loads(published(SIGNAL)[1]).keys()
    told = msgspec.structs.replace(SIGNAL, claim_zh="", claim_en="s")
    value = published(told)[1]
    assert (json.loads(value)["claim_zh"], json.loads(value)["claim_en"]) == ("", "s")
    assert read_signal(record(golden(SIGNAL_SCHEMA_VERSION), value))[0] == told


def rules(*names: str) -> list[dict[str, Any]]:
    return [{"rule": name, "amount": -0.1, "reason": "r"} for name in names]


@pytest.mark.parametrize(
    ("fields", "stage", "verdict", "reason"),
    [
        ({"status": "preliminary", "adjustments": []}, "preliminary", "unchecked", "preliminary"),
        ({"status": "preliminary", "adjustments": [], "risk_flags": ["refuted"]}, "preliminary", "unchecked", "preliminary"),
        ({"status": "preliminary_only", "adjustments": []}, "final", "unchecked", None),
        ({"status": "preliminary_only", "adjustments": rules("no_evidence")}, "final", "unchecked", None),
        ({"status": "verified", "risk_flags": ["refuted"], "adjustments": rules("denied_or_conflict")}, "final", "refuted", None),
        ({"status": "verified", "adjustments": rules("denied_or_conflict", "memory")}, "final", "disputed", None),
        ({"status": "verified", "adjustments": rules("stale")}, "final", "stale", None),
        ({"status": "degraded", "adjustments": rules("no_evidence")}, "final", "unconfirmed", None),
        ({"status": "verified", "adjustments": rules("few_sources", "stale")}, "final", "unconfirmed", None),
        ({"status": "verified", "adjustments": rules("multi_source_official")}, "final", None, None),
        ({"status": "verified", "adjustments": rules("official_alone", "stale")}, "final", None, None),
        ({"status": "degraded", "adjustments": []}, "final", None, None),
        ({"status": "retracted", "adjustments": rules("few_sources", "retracted")}, "retracted", "unconfirmed", None),
        ({"status": "retracted", "adjustments": rules("retracted")}, "retracted", None, None),
        ({"status": "superseded", "adjustments": rules("multi_source", "superseded")}, "superseded", None, None),
    ],
)  # fmt: skip
def test_the_status_of_schema_1_becomes_a_stage_and_its_first_rule_a_verdict(
    fields: dict[str, Any], stage: str, verdict: str | None, reason: str | None
) -> None:
    signal = lifted(**{"risk_flags": [], **fields})
    assert (signal.stage, signal.verdict, signal.unchecked_reason) == (stage, verdict, reason)


@pytest.mark.parametrize(("name", "field"), [("signal_synthesized", "signal"), ("case_triaged", "preliminary_signal")])
def test_a_signal_within_an_event_of_before_is_lifted_by_the_same_rules(name: str, field: str) -> None:
    envelope, value = recorded(path_of(f"newsproof.{name}", 1))
    holding = json.loads(value) | {field: golden(1)["value"] | {"status": "preliminary", "adjustments": []}}
    event = wire.decode(envelope.type, 1, json.dumps(holding).encode())
    assert isinstance(event, SignalSynthesized | CaseTriaged)
    assert getattr(event, field) == lifted(status="preliminary", adjustments=[])


def test_a_triage_of_before_without_a_signal_stays_without_one() -> None:
    _, value = recorded(path_of("newsproof.case_triaged", 1))
    for holding in (json.loads(value), json.loads(value) | {"preliminary_signal": None}):
        event = wire.decode("newsproof.case_triaged", 1, json.dumps(holding).encode())
        assert isinstance(event, CaseTriaged) and event.preliminary_signal is None and event.claim is None


def test_what_the_chat_found_of_a_signal_of_before_has_the_words_of_today() -> None:
    _, value = recorded(path_of("newsproof.data_collected", 1))
    old = json.loads(value)
    old["signals"] = [one | {"status": "preliminary_only"} for one in old["signals"]]
    event = wire.decode("newsproof.data_collected", 1, json.dumps(old).encode())
    assert isinstance(event, DataCollected)
    assert [(one.stage, one.verdict) for one in event.signals] == [("final", "unchecked")]


def test_a_signal_of_a_newer_schema_stops_the_reader_and_one_that_never_was_has_no_way_up() -> None:
    with pytest.raises(NewerSignalError, match="update newsproof"):
        read_signal(record(golden(2), ce_schemaversion=str(SIGNAL_SCHEMA_VERSION + 1)))
    with pytest.raises(ContractError, match="cannot be upgraded"):
        read_signal(record(golden(1), ce_schemaversion="0"))


OLD = golden(1)["value"]


@pytest.mark.parametrize(
    "value",
    [
        *(b"", b"{", b"[]", b"null", b"5", b'"x"', b"{}", b"\xff", b"[" * 100_000),
        *(
            json.dumps({k: v for k, v in {**OLD, **changes}.items() if v is not ...}).encode()
            for changes in (
                {"status": "confirmed"}, {"status": ...}, {"status": []}, {"adjustments": 5}, {"adjustments": [5]},
                {"adjustments": [{}]}, {"risk_flags": None}, {"confidence": "0.5"}, {"evidence": [{"url": 5}]},
                {"verdict": "confirmed"}, {"stage": "final"},
            )
        ),
    ],
)  # fmt: skip
def test_what_is_no_signal_of_schema_1_is_a_contract_error(value: bytes) -> None:
    with pytest.raises(ContractError) as caught:
        read_signal(record(golden(1), value))
    assert caught.value.reason == "bad_signal"
