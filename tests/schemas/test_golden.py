"""Golden records: what any version ever wrote must decode for ever."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from schemas import envelope as wire
from schemas import events as ev
from schemas.envelope import NewerSchemaError, upcast
from schemas.errors import ContractError
from tests.schemas.write_golden import CASE, FAILURE, GOLDEN, NOW, SAMPLES, path_of

FILES = sorted(GOLDEN.glob("*.json"))
VERSIONS = [(name, v) for name, newest in ev.SCHEMA_VERSIONS.items() for v in range(1, newest + 1)]
CURRENT = {ev.WIRE_NAMES[type(e)]: e for e in SAMPLES}


def recorded(path: Path) -> tuple[wire.Envelope, bytes]:
    record = json.loads(path.read_text())
    headers = [(k, v.encode()) for k, v in record["headers"].items()]
    return wire.read_envelope(headers), json.dumps(record["value"]).encode()


def test_every_version_of_every_event_has_a_golden_record() -> None:
    lacking = [(name, version) for name, version in VERSIONS if not path_of(name, version).exists()]
    assert lacking == [], "write it with python -m tests.schemas.write_golden, and commit it"


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_a_golden_record_decodes_into_what_was_meant(path: Path) -> None:
    envelope, value = recorded(path)
    event = wire.decode(envelope.type, envelope.version, value)
    assert path == path_of(envelope.type, envelope.version)
    assert (envelope.case_id, envelope.run_id, envelope.time) == (CASE, "live", NOW)
    if envelope.version == ev.SCHEMA_VERSIONS[envelope.type]:
        assert event == CURRENT[envelope.type]


@pytest.mark.parametrize("event", SAMPLES, ids=lambda e: type(e).__name__)
def test_what_is_written_today_has_the_golden_bytes(event: ev.Event) -> None:
    name = ev.WIRE_NAMES[type(event)]
    record = json.loads(path_of(name, ev.SCHEMA_VERSIONS[name]).read_text())
    envelope, _ = recorded(path_of(name, ev.SCHEMA_VERSIONS[name]))
    key, value, headers = wire.encode(
        event, id=envelope.id, case_id=CASE, causation_id=envelope.causation_id, run_id="live", time=NOW
    )
    assert json.loads(value) == record["value"]
    assert {k: v.decode() for k, v in headers} == record["headers"]
    assert key.decode() == record["key"]


def test_step_failed_of_version_1_is_lifted_to_version_2_and_degrades_without_a_retry() -> None:
    envelope, value = recorded(path_of("newsproof.step_failed", 1))
    event = wire.decode(envelope.type, envelope.version, value)
    assert isinstance(event, ev.StepFailed)
    assert (event.outcome, event.retry_at, event.attempt) == ("retry", NOW, 1)
    assert (event.failure.kind, event.failure.message, event.failure.retryable) == ("rate_limit", FAILURE.message, True)
    old = {"type": "newsproof.step_failed", "step": "s", "error": "no", "error_class": "auth", "attempt": 3}
    event = wire.decode("newsproof.step_failed", 1, json.dumps(old).encode())
    assert isinstance(event, ev.StepFailed)
    assert (event.outcome, event.failure.retryable) == ("degrade", False)


@pytest.mark.parametrize("value", [b"[]", b"1", b"null", b'"x"', b"{", b"", b'{"retry_at": 5}', b"\xff"])
def test_an_old_record_that_no_upcaster_can_lift_is_a_contract_error(value: bytes) -> None:
    with pytest.raises(ContractError, match="does not decode") as caught:
        wire.decode("newsproof.step_failed", 1, value)
    assert caught.value.reason == "bad_event"


@pytest.mark.parametrize("version", [0, -1])
def test_a_version_that_never_was_has_no_way_up(version: int) -> None:
    with pytest.raises(ContractError, match="cannot be upgraded"):
        wire.decode("newsproof.case_dropped", version, b"{}")


def test_a_missing_step_of_the_chain_is_said_by_name() -> None:
    with pytest.raises(ContractError, match=r"newsproof.case_dropped v2 cannot be upgraded to v3"):
        upcast("newsproof.case_dropped", 1, 3, {})


def test_a_newer_version_stops_the_reader_and_says_what_to_deploy_and_an_unknown_type_is_newer_code_too() -> None:
    for name, newest in ev.SCHEMA_VERSIONS.items():
        with pytest.raises(NewerSchemaError, match="deploy this reader before its writers"):
            wire.decode(name, newest + 1, b"{}")
    with pytest.raises(NewerSchemaError, match="case_dreamt"):
        wire.decode("newsproof.case_dreamt", 1, b"{}")


def test_a_field_that_newer_code_added_is_ignored() -> None:
    value = b'{"type":"newsproof.step_started","step":"s","crashes":3,"since_version_9":true}'
    assert wire.decode("newsproof.step_started", 1, value) == ev.StepStarted(step="s", crashes=3)
