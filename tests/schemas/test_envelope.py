"""The envelope: CloudEvents in headers, exactly these, and back."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone

import msgspec
import pytest

from schemas import envelope as wire
from schemas import events as ev
from schemas.config import Snapshot
from schemas.effects import CallModel, Search, Trusted, Untrusted, request_hash
from schemas.errors import ContractError
from schemas.news import News
from schemas.signals import Signal
from tests.schemas.write_golden import CASE, NOW, SAMPLES

REQUIRED = {"ce_specversion", "content-type", "ce_id", "ce_source", "ce_type", "ce_time", "ce_subject"}
OURS = {"ce_schemaversion", "ce_runid"}


def test_the_headers_are_exactly_these() -> None:
    step = ev.StepStarted(step="s", crashes=3)
    _, _, headers = wire.encode(step, id="i", case_id=CASE, causation_id="h", run_id="live", time=NOW)
    assert {k for k, _ in headers} == REQUIRED | OURS | {"ce_causationid"} and len(headers) == len(dict(headers))
    assert dict(headers)["ce_specversion"] == b"1.0"
    _, _, bare = wire.encode(step, id="i", case_id=CASE, causation_id=None, run_id="live", time=NOW)
    assert {k for k, _ in bare} == REQUIRED | OURS
    _, _, opening = wire.encode(SAMPLES[0], id="i", case_id=CASE, causation_id=None, run_id="live", time=NOW)
    assert {k for k, _ in opening} == REQUIRED | OURS | {wire.TEXT_HASH_HEADER}


def test_times_are_written_in_utc_and_equal_arguments_give_equal_bytes() -> None:
    elsewhere = NOW.astimezone(timezone(timedelta(hours=8)))
    step = ev.StepStarted(step="s", crashes=3)
    one = wire.encode(step, id="i", case_id=CASE, causation_id=None, run_id="live", time=elsewhere)
    assert one == wire.encode(step, id="i", case_id=CASE, causation_id=None, run_id="live", time=NOW)
    assert dict(one[2])["ce_time"] == b"2026-01-02T03:04:05.678901+00:00"


@pytest.mark.parametrize(
    ("header", "value"),
    [
        ("ce_id", None), ("ce_type", None), ("ce_subject", None), ("ce_runid", None), ("ce_time", None),
        ("ce_schemaversion", None), ("ce_time", b"yesterday"), ("ce_time", b"2026-01-01T00:00:00"),
        ("ce_schemaversion", b"one"), ("ce_id", b"\xff"),
    ],
)  # fmt: skip
def test_a_broken_envelope_is_a_contract_error(header: str, value: bytes | None) -> None:
    step = ev.StepStarted(step="s", crashes=3)
    _, _, headers = wire.encode(step, id="i", case_id=CASE, causation_id="h", run_id="live", time=NOW)
    changed = [(k, v if k != header else value) for k, v in headers if k != header or value is not None]
    with pytest.raises(ContractError) as caught:
        wire.read_envelope(changed)  # type: ignore[arg-type]
    assert caught.value.reason == "bad_envelope"


def test_every_public_contract_exports_as_json_schema() -> None:
    contracts = [ev.CaseEvent, Signal, News, Snapshot, *ev.EVENT_TYPES]
    schemas, components = msgspec.json.schema_components(contracts)
    assert len(schemas) == len(contracts)
    assert {t.__name__ for t in ev.EVENT_TYPES} | {"Signal", "News", "Snapshot"} <= components.keys()
    exported = json.loads(json.dumps([schemas, components]))[1]
    assert exported["StepFailed"]["properties"]["type"]["enum"] == ["newsproof.step_failed"]
    assert "confidence" in exported["Signal"]["required"]


def test_a_request_hash_is_stable_whatever_the_order_of_keys_and_tells_kinds_apart() -> None:
    search = Search(provider="p", query="q", max_results=5, as_of=datetime(2026, 1, 1, tzinfo=UTC))
    assert request_hash(search) == "b402ec67e75ecf5967785bd448e48243"

    def call(schema: dict[str, object], text: str = "b") -> CallModel:
        return CallModel(
            task="t", tier="light", prompt_name="n", prompt_version="1", prompt_hash="h", system="s",
            parts=(Trusted("a"), Untrusted("news", text)), response_schema=schema,
        )  # fmt: skip

    assert request_hash(call({"b": 1, "a": {"d": 1, "c": 2}})) == "e6b62245aec4bbf44a6bd9c4d745449f"
    assert request_hash(call({"a": {"c": 2, "d": 1}, "b": 1})) == "e6b62245aec4bbf44a6bd9c4d745449f"
    assert request_hash(call({"a": {"c": 2, "d": 1}, "b": 1}, "B")) != "e6b62245aec4bbf44a6bd9c4d745449f"
    trusted, untrusted = (
        CallModel(
            task="t", tier="light", prompt_name="n", prompt_version="1", prompt_hash="h", system="", parts=(part,)
        )
        for part in (Trusted("x"), Untrusted("", "x"))
    )
    assert request_hash(trusted) != request_hash(untrusted)
