"""Confidence and returns: the rank correlation by horizon and the quantiles, against scipy, by hand, and over nulls."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from scipy.stats import spearmanr

from evaluation.prices.confidence_study import ConfidenceStudy, confidence_study
from evaluation.prices.study import EventPath, StudyEvent, study_of
from evaluation.prices.study_report import study_sheets
from tests.evaluation.prices.price_paths import DAY, START

OFFSETS = (-60, 0, 60, 1_440)
Floats = npt.NDArray[np.float64]


def studied(confidence: Floats, sides: Floats, moved: Floats, days: Floats | None = None) -> ConfidenceStudy:
    """``moved``: the return of the asset an hour later, and a tenth of it a day later."""
    days = np.arange(confidence.size) if days is None else days
    directed = np.column_stack([np.zeros_like(moved), np.zeros_like(moved), sides * moved, sides * moved / 10])
    at_ms = (START + days * DAY).astype(np.int64)
    return confidence_study(confidence, sides.astype(np.int64), at_ms, directed, OFFSETS, seed=1)


def drawn(seed: int, size: int = 240) -> tuple[Floats, Floats, Floats]:
    rng = np.random.default_rng(seed)
    sides = np.where(rng.random(size) < 0.5, 1.0, -1.0)
    return np.round(rng.uniform(0.3, 0.9, size), 2), sides, rng.normal(0, 0.03, size)


def test_the_coefficient_is_spearmans_of_signed_confidence_at_each_later_horizon() -> None:
    confidence, sides, moved = drawn(1)
    moved = moved + 0.05 * sides * confidence
    found = studied(confidence, sides, moved)
    assert [one.minutes for one in found.coefficients] == [60, 1_440]
    for one in found.coefficients:
        assert one.value == pytest.approx(spearmanr(sides * confidence, moved).statistic)
        assert (one.events, one.blocks) == (240, 240 if one.minutes == 60 else 120)
        assert one.low is not None and one.high is not None and 0 < one.low < (one.value or 0) < one.high < 1


def test_the_interval_holds_nothing_where_events_of_a_day_share_its_market() -> None:
    # 40 days of 6 events. Confidence and returns share 60 % of their variance among the events of a day.
    held = naive = 0
    for seed in range(60):
        rng, days = np.random.default_rng(seed), np.repeat(np.arange(40.0), 6)
        confidence, moved = (
            np.sqrt(0.6) * rng.standard_normal(40)[days.astype(int)] + np.sqrt(0.4) * rng.standard_normal(240)
            for _ in range(2)
        )
        found = studied(confidence / 10 + 0.5, np.ones(240), moved, days).coefficients[0]
        assert found.low is not None and found.high is not None
        held += found.low <= 0 <= found.high
        naive += abs(found.value or 0) <= 1.96 / np.sqrt(240)
    assert held >= 54 > naive


def test_quantiles_are_fifths_of_the_confidence_with_their_mean_return_in_the_claims_direction() -> None:
    confidence = np.linspace(0.05, 0.95, 50)
    sides = np.where(np.arange(50) % 2, 1.0, -1.0)
    found = studied(confidence, sides, sides * confidence / 100)
    assert [one.events for one in found.quantiles] == [10] * 5
    assert (found.quantiles[0].least, found.quantiles[-1].most) == (pytest.approx(0.05), pytest.approx(0.95))
    means = [one.returns[0].value for one in found.quantiles]
    assert means == pytest.approx([confidence[n : n + 10].mean() / 100 for n in range(0, 50, 10)])


def test_what_does_not_vary_has_no_coefficient_and_ties_stay_in_one_quantile() -> None:
    confidence, sides, moved = drawn(2)
    same = studied(np.full(240, 0.5), np.ones(240), moved)
    assert [(one.value, one.events) for one in same.coefficients] == [(None, 240)] * 2
    assert [one.events for one in same.quantiles] == [240]
    assert studied(confidence, np.zeros(240), moved) == ConfidenceStudy()
    few = studied(confidence[:4], sides[:4], moved[:4]).coefficients[0]
    assert few.value is not None and (few.low, few.high, few.blocks) == (None, None, 4)


def test_a_study_has_them_beside_its_curves_in_either_direction_of_its_returns() -> None:
    confidence, sides, moved = drawn(3)
    rows = np.zeros((240, 16))
    rows[:, 10] = moved  # an hour after the base

    def events(directed: bool) -> list[EventPath]:
        return [
            EventPath(
                StudyEvent(side=int(side), at_ms=int(START + n * DAY), groups={"verdict": "likely"}, confidence=float(sure)), 0,
                row * (side if directed else 1.0), "no_beta",
            )
            for n, (sure, side, row) in enumerate(zip(confidence, sides, rows, strict=True))
        ]  # fmt: skip

    along = study_of(events(True), dimensions=["verdict"])
    anyway = study_of(events(False), dimensions=["verdict"], directed=False)
    assert along.by_confidence == anyway.by_confidence
    assert along.abnormal_by_confidence == ConfidenceStudy()
    titles = [sheet.title for sheet in study_sheets(along, "raw")]
    assert [title.partition(":")[0] for title in titles] == ["Raw", "Information coefficient", "By confidence"]
    assert study_sheets(along, "abnormal") == []
