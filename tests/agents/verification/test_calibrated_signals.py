"""What a pinned calibration map adds to a signal, and which orders its selling rule removes."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from msgspec import UNSET
from msgspec.structs import replace

from agents.signal import first_signal, preliminary_signal
from schemas.calibration import STOOD, CalibrationMap, Curve, SignalCalibration, moved
from schemas.signals import BELOW_SELLING_RULE, Signal
from tests.agents.conftest import NEWS
from tests.agents.verification.test_endings import READ, REFUTED, synthesis
from tests.specification import given, opened

WEEK = moved(7 * 24 * 3600)
MAP = CalibrationMap(
    as_of=datetime(2026, 1, 1, tzinfo=UTC),
    curves=(
        Curve(target=WEEK, stories=120, intercept=-0.4, slope=0.5, covariance=(0.04, 0.0, 0.01)),
        Curve(target=STOOD, stories=90, intercept=0.0, slope=1.0, covariance=(0.04, 0.0, 0.01)),
    ),
)


@pytest.fixture
def critiqued(deep, triaged, no_memory, planned, searched):
    def case(calibration: Any, critique=READ, **draft: Any):
        before = (triaged(**draft), no_memory, planned(), searched("critique"), critique)
        return given(opened(NEWS), *before, config=replace(deep, calibration=calibration))

    return case


@pytest.fixture
def ended(critiqued):
    def signal(calibration: Any, **of: Any) -> Signal:
        made: Signal = critiqued(calibration, **of).told(synthesis()).event.signal
        return made

    return signal


def test_a_signal_says_what_the_pinned_map_says_of_its_confidence_at_its_horizon(ended) -> None:
    signal = ended(MAP)
    said = signal.calibration
    assert isinstance(said, SignalCalibration)
    assert (said.id, said.target, said.n_stories) == (MAP.id, WEEK, 120)
    assert 0 < said.low < signal.confidence_calibrated < said.high < 1
    assert signal.confidence_calibrated == pytest.approx(0.64, abs=0.01) and signal.confidence == 0.875
    assert said.p_true == pytest.approx(signal.confidence, abs=1e-4), "the identity"


def test_a_snapshot_of_older_code_leaves_every_byte_and_one_without_a_map_says_null(ended) -> None:
    old, none, mapped = (msgspec.json.encode(ended(one)) for one in (UNSET, None, MAP))
    assert b'"calibration"' not in old
    assert none == old[:-1] + b',"calibration":null}'
    changed = {k for k, v in json.loads(mapped).items() if json.loads(none)[k] != v}
    assert changed == {"confidence_calibrated", "calibration"}


@pytest.mark.parametrize(
    "changes", [{"asset": "UNKNOWN"}, {"direction": "neutral", "action": "observe"}], ids=["no asset", "no direction"]
)
def test_without_an_asset_or_a_direction_nothing_can_move_its_way(ended, changes: dict[str, Any]) -> None:
    signal = ended(MAP, **changes)
    assert signal.direction == "neutral" or signal.asset == "UNKNOWN"
    assert (signal.confidence_calibrated, signal.calibration) == (None, None)


def test_a_map_without_a_curve_of_the_horizon_says_nothing(ended) -> None:
    signal = ended(replace(MAP, curves=MAP.curves[1:]))
    assert (signal.confidence_calibrated, signal.calibration) == (None, None)


def test_a_claim_that_is_refuted_has_a_probability_too_and_is_not_below_the_rule(ended) -> None:
    signal = ended(MAP, critique=REFUTED)
    assert signal.action == "observe" and signal.confidence_calibrated < 0.4
    signal = ended(replace(MAP, sell_from=0.99), critique=REFUTED)
    assert BELOW_SELLING_RULE not in signal.risk_flags and "selling rule" not in signal.notes


def test_a_map_says_nothing_of_a_preliminary_confidence(critiqued) -> None:
    case = critiqued(MAP, timeframe="medium").case
    first = first_signal(case, case.replies)
    assert first.stage == "preliminary" and (first.confidence_calibrated, first.calibration) == (None, None)
    final = preliminary_signal(case)  # of a case that the gate kept off the deep path: its last judgement
    assert final.stage == "final" and isinstance(final.calibration, SignalCalibration)


@pytest.mark.parametrize(
    ("sell_from", "action", "note"),
    [
        (0.875, "sell", ""),
        (0.9, "observe", "; confidence 0.875 is below the selling rule's 0.9, so there is no order"),
        (2.0, "observe", "; at any confidence too many claims were false, so there is no order"),
        (None, "sell", ""),
    ],
)
def test_the_selling_rule_removes_an_order_of_less_confidence_and_says_so(
    ended, sell_from: float | None, action: str, note: str
) -> None:
    plain, signal = ended(MAP), ended(replace(MAP, sell_from=sell_from))
    assert (signal.confidence, signal.action, signal.direction) == (0.875, action, "short")
    assert (BELOW_SELLING_RULE in signal.risk_flags) is bool(note)
    assert signal.notes.replace(note, "") == plain.notes and note in signal.notes
