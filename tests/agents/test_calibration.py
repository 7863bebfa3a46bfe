"""The application of a calibration map to one signal."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from scipy import stats

from agents.calibration import CLIP, apply_curve, calibrated, clipped_logit
from schemas.calibration import STOOD, CalibrationMap, Curve, moved

HOUR_S = 3600


def curve(
    target: str, intercept: float, slope: float = 1.0, stories: int = 80, group: tuple[str, str] = ("", "")
) -> Curve:
    return Curve(
        target=target, stories=stories, intercept=intercept, slope=slope, covariance=(0.04, -0.01, 0.09),
        event_type=group[0], language=group[1],
    )  # fmt: skip


def made(*curves: Curve) -> CalibrationMap:
    return CalibrationMap(as_of=datetime(2026, 3, 1, tzinfo=UTC), curves=curves)


@pytest.mark.parametrize(
    ("event_type", "language", "stories"), [("hack", "zh", 210), ("hack", "en", 80), ("macro", "zh", 80)]
)
def test_a_signal_takes_the_curve_of_its_group_if_there_is_one(event_type: str, language: str, stories: int) -> None:
    found = calibrated(
        made(curve(moved(HOUR_S), 0.0), curve(moved(HOUR_S), -1.0, stories=210, group=("hack", "zh")), curve(moved(300), 3.0)),
        confidence=0.5, event_type=event_type, language=language, horizon_s=HOUR_S,
    )  # fmt: skip
    assert found is not None
    assert (found[0], found[1].n_stories) == ((0.2689, 210) if stories == 210 else (0.5, 80))
    assert (found[1].target, found[1].p_true) == ("moved:3600", None)


def test_without_a_curve_of_its_horizon_a_signal_has_no_calibrated_confidence() -> None:
    other = made(curve(moved(300), 0.0), curve(STOOD, 0.0), curve(moved(HOUR_S), 0.0, group=("hack", "zh")))
    assert calibrated(other, confidence=0.5, event_type="macro", language="en", horizon_s=HOUR_S) is None


def test_the_probability_of_the_claim_itself_has_its_own_curve() -> None:
    both = made(curve(moved(HOUR_S), -1.0), curve(STOOD, 2.0))
    found = calibrated(both, confidence=0.5, event_type="macro", language="en", horizon_s=HOUR_S)
    assert found is not None
    assert (found[0], found[1].p_true, found[1].id) == (0.2689, 0.8808, both.id)


def test_the_interval_is_that_of_a_normal_distribution_on_the_logit() -> None:
    x = 1.3862943611198906  # of 0.8
    spread = (0.04 + 2 * x * -0.01 + x * x * 0.09) ** 0.5
    low, high = stats.norm(-0.5 + 0.7 * x, spread).interval(0.95)
    assert apply_curve(curve(STOOD, -0.5, 0.7), 0.8)[1:] == pytest.approx(
        (stats.logistic.cdf(low), stats.logistic.cdf(high)), abs=1e-4
    )


def test_a_confidence_of_0_or_1_counts_as_the_bound_of_the_clip() -> None:
    assert clipped_logit(0.0) == clipped_logit(CLIP) == pytest.approx(-clipped_logit(1.0))
    assert apply_curve(curve(STOOD, 0.0), 1.0)[0] == 1.0 - CLIP
    assert apply_curve(curve(STOOD, 900.0), 1.0) == (1.0, 1.0, 1.0)
    assert apply_curve(curve(STOOD, -900.0), 1.0) == (0.0, 0.0, 0.0)
