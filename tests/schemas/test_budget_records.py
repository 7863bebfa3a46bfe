"""The records of the budget topic: what any version ever wrote must decode for ever, and garbage is told from newer code."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from schemas.budget import (
    MAX_USD,
    UNLISTED,
    VERSION,
    BudgetRecord,
    LimitsSet,
    PassedBy,
    Reserved,
    Settled,
    decode,
    encode,
    nano_usd,
    usd_of,
)
from schemas.errors import ContractError
from schemas.topics import NewerRecordError

GOLDEN = Path(__file__).parents[1] / "data" / "golden_budget"
LIMITS = LimitsSet(
    monthly_usd=Decimal("30.0"), triage_reserve_usd=Decimal("3"), daily_units=50, allow_unpriced=False, by="0",
    doubtful_percent=40, forced_percent=20, investigation_percent=40, daily_percent=10, group_percent=50,
    unlisted_percent=30, verification_percent=10,
)  # fmt: skip
RESERVED = Reserved(
    id="0a1b2c-1", effect="search", provider="tavily", usd=Decimal("0.008"), units=1, for_triage=False,
    case_id="case", head_id="head", claim_kinds=("forced",), group="unlisted",
)  # fmt: skip
SETTLED = Settled(id="0a1b2c-1", usd=Decimal("0.004"), by="0")
PASSED_BY = PassedBy(offsets=(3, 17))
SAMPLES: dict[str, BudgetRecord] = {
    "limits_set.v5": LIMITS, "reserved.v5": RESERVED, "settled.v5": SETTLED, "passed_by.v5": PASSED_BY,
}  # fmt: skip
# What each version lacked, from the newest to the oldest, adds up.
V4 = {"verification_percent": None}
V3 = V4 | {"daily_percent": 100, "group_percent": 100, "unlisted_percent": 100}
V2 = V3 | {"investigation_percent": 100}
V1 = V2 | {"doubtful_percent": 100, "forced_percent": 0}
OLDER: dict[str, BudgetRecord] = {
    **{f"limits_set.v{n}": replace(LIMITS, **lacked, version=n) for n, lacked in ((4, V4), (3, V3), (2, V2), (1, V1))},
    **{f"settled.v{n}": replace(SETTLED, version=n) for n in (4, 3, 2, 1)},
    **{f"passed_by.v{n}": replace(PASSED_BY, version=n) for n in (4, 3, 2, 1)},
    "reserved.v4": replace(RESERVED, version=4),
    "reserved.v3": replace(RESERVED, claim_kinds=("investigation",), group="", version=3),
    "reserved.v2": replace(RESERVED, claim_kinds=("doubtful", "forced"), group="", version=2),
    "reserved.v1": replace(RESERVED, claim_kinds=(), group="", version=1),
    "reserved_unpriced.v1": replace(
        RESERVED, id="0a1b2c-2", effect="call_model", provider="gemini", usd=None, units=0, for_triage=True,
        claim_kinds=(), group="", version=1,
    ),
    "settled_unused.v1": Settled(id="0a1b2c-2", usd=None, by="1", unused=True, version=1),
}  # fmt: skip


@pytest.mark.parametrize("name", SAMPLES)
def test_a_golden_record_decodes_into_what_was_meant_and_is_what_is_written_today(name: str) -> None:
    value = (GOLDEN / f"{name}.json").read_bytes()
    assert decode(value) == SAMPLES[name]
    assert json.loads(encode(SAMPLES[name])) == json.loads(value)


@pytest.mark.parametrize("name", OLDER)
def test_a_golden_record_of_an_older_version_decodes_into_what_was_meant(name: str) -> None:
    assert decode((GOLDEN / f"{name}.json").read_bytes()) == OLDER[name]


def test_limits_of_before_the_shares_share_nothing_out() -> None:
    limits = OLDER["limits_set.v1"]
    assert isinstance(limits, LimitsSet)
    assert (limits.doubtful_units, limits.forced_units) == (limits.daily_units, 0)
    assert limits.daily_nano == nano_usd(limits.monthly_usd)
    assert [limits.share_of(group, 50) for group in ("", "coindesk", UNLISTED)] == [50, 50, 50]


def test_every_golden_record_is_tested() -> None:
    assert {path.stem for path in GOLDEN.glob("*.json")} == {*SAMPLES, *OLDER}


def settled(**changes: object) -> bytes:
    return json.dumps({"type": "newsproof.budget_settled", "id": "a", "usd": "1", "by": "x", **changes}).encode()


@pytest.mark.parametrize(
    "value",
    [
        None,
        b"",
        b"{",
        b"[]",
        b"null",
        b"\xff",
        b"[" * 100_000,
        settled(usd="NaN"),
        settled(usd="sNaN"),
        settled(usd="Infinity"),
        settled(usd="-0.01"),
        settled(usd="1e999999"),
        settled(usd=str(MAX_USD + 1)),
        settled(id=""),
        settled(id="a" * 201),
        settled(id=None),
        settled(type="newsproof.case_dropped"),
        settled(type="newsproof.budget_dreamt"),
        settled(version=0),
        settled(version=10**9),
        settled(version="2"),
        b'{"type":"newsproof.budget_limits_set","monthly_usd":"1","triage_reserve_usd":"0","daily_units":1,'
        b'"allow_unpriced":false,"by":"0","forced_percent":101}',
        b'{"type":"newsproof.budget_limits_set","monthly_usd":"1","triage_reserve_usd":"0","daily_units":1,'
        b'"allow_unpriced":false,"by":"0","unlisted_percent":-1}',
        b'{"type":"newsproof.budget_reserved","id":"a","effect":"x","provider":"p","usd":"1","units":-1,'
        b'"for_triage":false,"case_id":"","head_id":""}',
    ],
)
def test_what_is_no_record_is_garbage(value: bytes | None) -> None:
    with pytest.raises(ContractError) as caught:
        decode(value)
    assert caught.value.reason == "bad_budget_record"


@given(st.binary(max_size=200) | st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.sampled_from(["newsproof.budget_settled", "type", "usd"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
).map(lambda doc: json.dumps(doc).encode()))  # fmt: skip
def test_no_value_raises_anything_but_a_contract_error(value: bytes) -> None:
    with pytest.raises(ContractError):
        decode(value)


@pytest.mark.parametrize(
    "value", [settled(version=VERSION + 1), settled(type="newsproof.budget_dreamt", version=VERSION + 1)]
)
def test_a_record_of_newer_code_stops_the_reader_and_says_what_to_deploy(value: bytes) -> None:
    with pytest.raises(NewerRecordError, match="deploy"):
        decode(value)


def test_a_field_that_newer_code_added_is_ignored() -> None:
    assert decode(settled(since_version_9=True)) == Settled(id="a", usd=Decimal(1), by="x")


@pytest.mark.parametrize(
    ("usd", "nano"), [("0", 0), ("0.008", 8_000_000), ("0.0000000001", 1), ("1E-999999", 1), ("30", 30_000_000_000)]
)
def test_amounts_are_rounded_up_to_billionths(usd: str, nano: int) -> None:
    assert nano_usd(Decimal(usd)) == nano
    assert usd_of(nano) >= Decimal(usd)
