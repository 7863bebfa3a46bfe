"""The leaderboard: candidates beside a baseline, corrected for their number, with the Pareto front of cost and quality."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from newsproof.evaluation.backtest.run.claims import Claim
from newsproof.evaluation.compare.claiming import claimed
from newsproof.evaluation.compare.comparison import Comparison, compare
from newsproof.evaluation.compare.rows import Returns, RunRows
from newsproof.evaluation.compare.running import gate_status
from newsproof.evaluation.compare.terms import Scoring
from newsproof.evaluation.trials.leaderboard import Ranked, leaderboard
from tests.newsproof.evaluation.compare_samples import DAY_MS, called, case, run

DAYS = 30
HOW = Scoring(primary="profit@1h", trade_cost=0.0, draws=999)
MOVES = np.random.default_rng(1).normal(0.0, 0.03, size=DAYS)
RETURNS = Returns(held={(f"case-{n}", "BTC", 3600): float(move) for n, move in enumerate(MOVES)})


def candidate(name: str, *, right: float, cost: str, seed: int = 0) -> RunRows:
    """A case a day; a share ``right`` of the cases is traded the right way, the others the wrong way."""
    lucky = np.random.default_rng(seed).random(DAYS) < right
    rows = [
        case(f"case-{n}", knowable_ms=n * DAY_MS, action="buy" if (MOVES[n] > 0) == lucky[n] else "sell", **called(cost, 1.0))
        for n in range(DAYS)
    ]  # fmt: skip
    return run(name, rows)


BASE = candidate("base", right=0.5, cost="0.002", seed=9)


def beside(*candidates: RunRows, base: RunRows = BASE) -> list[Comparison]:
    return [compare(base, one, RETURNS, how=HOW) for one in candidates]


def ranked(*candidates: RunRows, base: RunRows = BASE) -> dict[str, Ranked]:
    found = leaderboard("t", "base", beside(*candidates, base=base))
    return {one.run_id: one for one in found.candidates}


def test_candidates_are_ranked_by_quality_and_those_that_others_beat_in_both_are_not_on_the_front() -> None:
    runs = (
        candidate("dear", right=0.95, cost="0.009"),
        candidate("poor", right=0.3, cost="0.003"),
        candidate("cheap", right=0.6, cost="0.001"),
    )
    found = leaderboard("t", "base", beside(*runs))
    assert [one.run_id for one in found.candidates] == ["dear", "cheap", "poor"]
    assert {one.run_id: one.pareto for one in found.candidates} == {"dear": True, "cheap": True, "poor": False}
    assert not found.pareto  # the baseline is dearer than `cheap`, and worse
    assert found.cost_usd == pytest.approx(0.002)
    assert [one.cost_usd for one in found.candidates] == pytest.approx([0.009, 0.001, 0.003])
    assert found.candidates[0].verdict == "better"


def test_p_values_are_corrected_over_the_candidates() -> None:
    runs = [candidate(f"c{n}", right=0.62, cost="0.002", seed=n) for n in range(5)]
    alone = [one.primary.p for one in beside(*runs)]
    together = ranked(*runs)
    smallest = min(p for p in alone if p is not None)
    assert min(one.p_holm for one in together.values() if one.p_holm is not None) == pytest.approx(
        min(1.0, 5 * smallest)
    )
    assert all(one.p_holm is not None and one.p is not None and one.p_holm >= one.p for one in together.values())


@pytest.mark.slow
def test_of_twenty_equal_candidates_hardly_one_trial_in_twenty_names_a_winner() -> None:
    alarms = 0
    for trial in range(20):
        runs = [candidate(f"c{n}", right=0.5, cost="0.002", seed=1_000 * trial + n) for n in range(20)]
        base = candidate("base", right=0.5, cost="0.002", seed=1_000 * trial + 999)
        alarms += any(one.verdict in ("better", "worse") for one in ranked(*runs, base=base).values())
    assert alarms <= 4  # 5 % of 20 is 1; 5 or more would come of it once in 400 times


def test_a_candidate_equal_to_the_baseline_takes_nothing_from_the_others_and_an_unpriced_one_is_not_on_the_front() -> (
    None
):
    unpriced = run("free", [*map(_unpriced, candidate("x", right=0.9, cost="0.001").rows)])
    found = ranked(run("same", BASE.rows), candidate("dear", right=0.95, cost="0.009"), unpriced)
    assert (found["same"].verdict, found["same"].p_holm) == ("identical", None)
    assert (found["free"].cost_usd, found["free"].pareto) == (None, None)
    assert found["dear"].p_holm == pytest.approx(2 * (found["dear"].p or 0), rel=0.5)


def _unpriced(row: Any) -> Any:
    return case(
        row.case_id,
        knowable_ms=row.knowable_ms,
        action=row.action,
        executed=1,
        unpriced_calls=1,
        would_have_cost_usd=Decimal(1),
    )


def test_a_leaderboard_of_nobody_is_refused() -> None:
    with pytest.raises(ValueError, match="no candidate"):
        leaderboard("t", "base", [])


# What the ledger says, on a comparison


def claim(*, allowed: bool = True, earlier: int = 0, factor: int = 1) -> Claim:
    note = f"run b: {earlier} earlier" if earlier else ""
    return Claim(run_id="b", earlier=earlier, sealed=factor > 1, allowed=allowed, factor=factor, note=note)


def test_what_was_tuned_on_its_period_has_figures_but_no_p_value_and_opens_no_gate() -> None:
    (found,) = beside(candidate("b", right=0.95, cost="0.002"))
    assert found.primary.verdict == "better"
    told = claimed(found, [claim(), claim(allowed=False, earlier=3)])
    assert (told.primary.p, told.primary.p_holm, told.primary.verdict) == (None, None, "changed")
    assert (told.primary.delta, told.primary.low) == (found.primary.delta, found.primary.low)
    assert told.primary.note.startswith("tuned on this period: 3 earlier trials looked at it")
    assert told.warnings[0] == "run b: 3 earlier" and "is not tested: tuned on this period" in told.verdict
    assert not any(m.verdict in ("better", "worse", "higher", "lower") for m in told.metrics)
    assert not any(one.differs or one.p is not None for one in told.segments)
    status, why = gate_status(told.primary, None)
    assert status == 1 and "cannot be seen (tuned on this period" in why


def test_looks_at_the_sealed_period_multiply_p_values_until_nothing_is_claimed_any_more() -> None:
    (found,) = beside(candidate("b", right=0.95, cost="0.002"))
    p = found.primary.p or 0.0
    third = claimed(found, [claim(earlier=2, factor=3)])
    assert (third.primary.p, third.primary.verdict) == (pytest.approx(3 * p), "better")
    assert "p counts 3 looks at these cases" in third.primary.note
    worn = claimed(found, [claim(earlier=999, factor=1_000)])
    assert (worn.primary.p, worn.primary.verdict) == (pytest.approx(min(1.0, 1_000 * p)), "not distinguishable")


def test_where_nobody_looked_before_the_comparison_stays_as_it_is() -> None:
    (found,) = beside(candidate("b", right=0.95, cost="0.002"))
    assert claimed(found, [claim(), claim()]) is found
