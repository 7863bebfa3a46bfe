"""What a comparison says of small runs whose answers were worked out by hand."""

from __future__ import annotations

from decimal import Decimal
from functools import partial
from typing import Any

import msgspec
import numpy as np
import pytest

from evaluation.compare.compare_runs import gate_status, parse_margins
from evaluation.compare.comparison import Comparison
from evaluation.compare.comparison import compare as compare_runs
from evaluation.compare.metrics import MetricResult, parse_primary
from evaluation.compare.run_rows import ComparedCase, Returns, Unadjusted
from evaluation.compare.terms import OWN_HORIZONS, Scoring
from newsproof.app import exits
from schemas.errors import ConfigError
from tests.evaluation.compare.compare_samples import DAY_MS, after, called, case, run

EIGHT = "abcdefgh"
compare = partial(compare_runs, how=Scoring(primary="profit"))
"""Compares at each signal's own horizon: an hour here."""
ROSE = dict.fromkeys("abcdef", 0.02) | dict.fromkeys("gh", -0.01)
"""Returns after an hour: six rose, two fell."""


def metric(found: Comparison, label: str) -> MetricResult:
    return next(m for m in found.metrics if m.label == label)


def eight(**changes: Any) -> list[ComparedCase]:
    return [case(name, **changes) for name in EIGHT]


def test_a_run_beside_itself_is_identical_and_spends_nothing() -> None:
    found = compare(run("A", eight()), run("B", eight()), after({3600: ROSE}))
    assert found.verdict == "identical: B equals A in all 8 cases"
    assert (found.flips, found.differences, found.changed_texts) == ((), (), 0)
    assert {m.verdict for m in found.metrics if m.a is not None} == {"identical"}
    assert [s.cost_usd for s in found.spend] == [None, None]
    assert [s.avoided_cost_usd for s in found.spend] == [Decimal("0.016")] * 2


def test_scores_of_two_runs_by_hand() -> None:
    # A says long with 0.6 everywhere: six hits of eight. B turns g, which fell, to short, and is surer of all.
    b = [case(n, confidence=0.8, signal_hash=2) for n in "abcdefh"]
    b.append(case("g", confidence=0.8, action="sell", direction="short", verdict="likely", signal_hash=2))
    found = compare(run("A", eight()), run("B", b), after({3600: ROSE}))
    hits, brier = (metric(found, f"{name}@1h") for name in ("hit_rate", "brier"))
    assert (hits.a, hits.b, hits.delta) == (0.75, 0.875, 0.125)
    # One block of eight differs: with a random sign its t is as large in every draw.
    assert (hits.p, hits.note) == (1.0, "few blocks: 8 days")
    # A case earns its return less 0.002 for the trade. Six gain 0.02 and two lose 0.01; B gains 0.01 on g instead.
    profit = found.primary
    assert profit.label == "profit"
    assert profit.a == pytest.approx((6 * 0.02 - 2 * 0.01) / 8 - 0.002)
    assert profit.delta == pytest.approx(0.02 / 8)
    assert brier.a == pytest.approx((6 * 0.16 + 2 * 0.36) / 8)
    assert brier.b == pytest.approx((7 * 0.04 + 1 * 0.64) / 8)
    # Calibration counts each run's orders in bins: one bin each here.
    assert [one.parts.brier for one in found.calibration] == [pytest.approx(brier.a), pytest.approx(brier.b)]
    assert [one.parts.ece for one in found.calibration] == [pytest.approx(0.75 - 0.6), pytest.approx(0.875 - 0.8)]
    assert (hits.cases, hits.blocks) == (8, 8)
    assert metric(found, "confidence").delta == pytest.approx(0.2)
    assert (metric(found, "action_flips").b, metric(found, "action_rate").delta) == (0.125, 0.0)
    assert [(f.case_id, f.action_a, f.action_b) for f in found.flips] == [("g", "buy", "sell")]
    assert metric(found, "verdict_flips").b == 0.125
    assert [(f.case_id, f.verdict_a, f.verdict_b) for f in found.verdict_flips] == [("g", "confirmed", "likely")]
    # All eight days are surer by the same: only 2 of 2^8 signs are as extreme.
    confidence = metric(found, "confidence")
    assert (confidence.p, confidence.verdict) == (2 / 2**8, "higher")
    assert found.verdict.startswith("profit (primary) is not distinguishable (+0.0025, 95 % interval ")
    assert "; of 3 secondary metrics (Holm, 5 %): confidence higher (+0.2);" in found.verdict


def test_a_signal_without_a_verdict_is_no_flip_of_it() -> None:
    old = [case(n, verdict="") for n in "abcdefg"] + [case("h", verdict="likely")]
    found = compare(run("A", old), run("B", eight()))
    flips = metric(found, "verdict_flips")
    assert (flips.cases, flips.b, [f.case_id for f in found.verdict_flips]) == (1, 1.0, ["h"])
    assert found.changed_texts == 8  # saying nothing of it is not saying the same
    none = compare(run("A", old[:7]), run("B", eight()[:7]))
    assert metric(none, "verdict_flips").note == "no case has a verdict in both: signals of schema 1 have none"


def test_a_price_that_did_not_move_is_neither_hit_nor_miss_and_observing_says_nothing() -> None:
    rows = [*eight(), case("i"), case("j", action="observe", direction="long")]
    found = compare(run("A", rows), run("B", rows), after({300: ROSE | {"i": 0.0, "j": 0.5}}))
    hits = metric(found, "hit_rate@5m")
    assert (hits.cases, hits.a) == (8, pytest.approx(6 / 8))
    assert (
        metric(found, "hit_rate@1h").note
        == "no outcomes at this horizon: import prices with `newsproof outcomes import`"
    )


def test_repeats_are_averaged_per_case_and_the_action_is_the_majoritys() -> None:
    a = [
        case("a", repeat=0, confidence=0.2, action="observe", direction="neutral", verdict="likely"),
        case("a", repeat=1, confidence=0.4),
        case("a", repeat=2, confidence=0.9),
        *(case(n) for n in "bcdefgh"),
    ]
    b = [case("a", confidence=0.5), *(case(n) for n in "bcdefgh")]
    found = compare(run("A", a), run("B", b), after({3600: ROSE}))
    assert metric(found, "confidence").cases == 8
    assert metric(found, "confidence").delta == pytest.approx(0.0)  # (0.2 + 0.4 + 0.9) / 3 = 0.5
    assert metric(found, "action_flips").b == 0.0
    assert metric(found, "action_rate").a == pytest.approx((2 / 3 + 7) / 8)
    # Repeats that named a direction: (0.6² + 0.1²) / 2 for case a.
    expected = ((0.36 + 0.01) / 2 + 5 * 0.16 + 2 * 0.36) / 8
    assert metric(found, "brier@1h").a == pytest.approx(expected)
    assert (found.comparability.a.repeats, found.verdict_flips) == (3, ())


def test_what_did_not_work_is_counted_and_left_out() -> None:
    gone: dict[str, Any] = {"has_signal": 0, "action": "", "direction": ""}
    b = [
        *(case(n) for n in "abcde"),
        case("f", status="miss", **gone),
        case("g", status="failed", **gone),
        case("h", status="refused", look_ahead=2, **gone),
        case("a", repeat=1, status="failed", **gone),
    ]
    found = compare(run("A", eight(), cases=20), run("B", b, cases=9, status="running"))
    counts = found.comparability
    assert (counts.in_both, counts.aligned, counts.stories) == (8, 5, 5)
    assert (counts.b.misses, counts.b.failed, counts.b.refused, counts.b.partly, counts.b.look_ahead) == (1, 1, 1, 1, 2)
    assert (counts.a.missing, counts.b.missing) == (1, 12)
    assert any(warning.startswith("run B is running and may grow") for warning in found.warnings)
    assert (counts.only_a, counts.only_b) == (3, 0)
    assert "run B: 4 cases did not complete in all repeats: counted at both extremes" in found.warnings
    assert {(t.path_a, t.path_b): t.cases for t in counts.transitions} == {
        ("checked", "checked"): 5,
        **{("checked", how): 1 for how in ("miss", "failed", "refused")},
    }
    # What cannot be bounded is not measured; a share is, at both ends of what the three may have said.
    # The case that failed in one of two repeats is half known.
    assert metric(found, "full_cost").note == ("4 cases did not complete in both runs, and this metric has no bounds")
    assert (
        metric(found, "hit_rate@1h").note
        == "no outcomes at this horizon: import prices with `newsproof outcomes import`"
    )
    acts = metric(found, "action_rate")
    assert (acts.a, acts.b, acts.delta) == (1.0, None, None)
    assert (acts.delta_low, acts.delta_high) == (-3.5 / 8, 0.0)


def test_a_case_that_lost_its_signal_is_a_flip_to_none_and_has_no_confidence() -> None:
    b = [case(n) for n in "abcdefg"] + [case("h", has_signal=0, action="", direction="", confidence=0.0)]
    found = compare(run("A", eight()), run("B", b))
    (flip,) = found.flips
    assert (flip.action_b, flip.confidence_a, flip.confidence_b, flip.delta) == ("none", 0.6, None, -0.6)
    assert metric(found, "confidence").cases == 7
    assert found.comparability.b.without_signal == 1


def test_the_largest_differences_come_first_and_a_changed_text_counts_as_well() -> None:
    b = [case("a", confidence=0.5), case("b", confidence=0.9), case("c", notes_hash=7), *(case(n) for n in "defgh")]
    found = compare(run("A", eight()), run("B", b), differences=2)
    assert [c.case_id for c in found.differences] == ["b", "a"]
    assert found.changed_texts == 3


def test_live_keeps_no_whole_signal_so_its_notes_are_compared() -> None:
    found = compare(run("live", eight(signal_hash=0), status=""), run("B", eight()))
    assert found.changed_texts == 0


def test_runs_that_differ_before_anything_was_looked_up_are_pointed_out() -> None:
    b = [case(n, preliminary_confidence=0.7) for n in "ab"] + [case(n) for n in "cdefgh"]
    found = compare(run("A", eight()), run("B", b))
    assert found.comparability.other_preliminary == 2
    assert found.warnings == (
        "in 2 cases the preliminary confidence differs: the runs differ from triage on, or replay different recordings",
    )


def test_longer_horizons_are_secondary_with_blocks_of_their_own() -> None:
    names = days(100, 2)
    rng = np.random.default_rng(2)
    came = {name: float(0.03 * rng.standard_normal()) for name, _ in names}
    rows = [case(name, **at, horizon_s=DAY_MS // 1000 * (7 if n % 5 == 0 else 1)) for n, (name, at) in enumerate(names)]
    held = [
        msgspec.structs.replace(row, action="observe")
        if rng.random() < (0.8 if came[row.case_id] < 0 else 0.1)
        else row
        for row in rows
    ]
    found = compare_runs(run("A", rows), run("B", held), after(dict.fromkeys(OWN_HORIZONS, came)))
    roles = {m.label: (m.role, m.verdict) for m in found.metrics}
    assert (found.primary.label, roles["profit@24h"]) == ("profit@24h", ("primary", "better"))
    assert 50 <= found.primary.blocks <= 51
    assert (roles["profit@7d"], metric(found, "profit@7d").blocks) == (("secondary", "better"), 8)
    assert "too few for a test: 2 blocks of 60 days; 6 are needed" in metric(found, "profit@30d").note
    assert found.verdict.startswith("profit@24h (primary) is better in B")


def test_days_that_depend_too_strongly_are_refused_in_the_words_of_the_verdict() -> None:
    rng = np.random.default_rng(4)
    mood = 0.0
    a, b = [], []
    for n, (name, at) in enumerate(days(40, 4)):
        mood = 0.95 * mood + 0.3 * rng.standard_normal() if n % 4 == 0 else mood
        a.append(case(name, **at))
        b.append(case(name, **at, confidence=0.6 + 0.01 * mood))
    found = metric(compare(run("A", a), run("B", b)), "confidence")
    assert (found.p, found.verdict) == (None, "not distinguishable")
    assert "neighbouring days depend on each other" in found.note and found.note.startswith("too few for a test: ")


def test_cases_of_one_day_are_one_observation_however_many_stories_they_tell() -> None:
    a = [case(f"{n}", knowable_ms=(n % 8) * DAY_MS) for n in range(160)]
    b = [case(f"{n}", knowable_ms=(n % 8) * DAY_MS, confidence=0.6 + 0.1 * (n % 8 < 2)) for n in range(160)]
    found = compare(run("A", a), run("B", b))
    confidence = metric(found, "confidence")
    assert (confidence.cases, confidence.blocks, confidence.verdict) == (160, 8, "not distinguishable")
    assert found.comparability.days == 8


def test_too_few_days_are_said_and_nothing_is_tested() -> None:
    rows = [case(f"{n}", knowable_ms=(n % 5) * DAY_MS) for n in range(200)]
    surer = [case(f"{n}", knowable_ms=(n % 5) * DAY_MS, confidence=0.9) for n in range(200)]
    found = compare(run("A", rows), run("B", surer), after({3600: {f"{n}": 0.01 for n in range(200)}}))
    assert metric(found, "confidence").note == "too few for a test: 5 days; 6 are needed"
    assert {m.p for m in found.metrics} == {None} and {m.low for m in found.metrics} == {None}
    assert found.verdict.startswith(
        "profit (primary) is the same in every case; no secondary metric is tested; 200 of 200"
    )


def test_nothing_in_common_and_nothing_that_worked_are_refused_with_what_to_do() -> None:
    with pytest.raises(ConfigError, match=r"A has 8 cases and B 1, but none is in both; replay the same cases"):
        compare(run("A", [], cases=8), run("B", [case("z")]))
    missed = [case(n, status="miss", has_signal=0) for n in EIGHT]
    with pytest.raises(
        ConfigError, match=r"8 cases are in both runs, but none completed in both .*B: 8 misses.*--on-miss"
    ):
        compare(run("A", eight()), run("B", missed))


def test_the_same_seed_gives_the_same_comparison() -> None:
    rng = np.random.default_rng(1)
    runs = [run(name, [case(str(n), confidence=float(rng.uniform(0.4, 0.8))) for n in range(40)]) for name in "AB"]
    first, again, other = (compare(runs[0], runs[1], how=Scoring(seed=seed, draws=999)) for seed in (1, 1, 2))
    assert first == again
    assert metric(first, "confidence").low != metric(other, "confidence").low


# The ways in which a comparison misled, each with its known truth


def days(count: int, per_day: int) -> list[tuple[str, dict[str, Any]]]:
    """Return names of cases with their days."""
    return [(f"{d:03}-{n:02}", {"knowable_ms": (20_000 + d) * DAY_MS}) for d in range(count) for n in range(per_day)]


def test_a_candidate_that_leaves_out_its_losers_is_better_not_identical() -> None:
    rng = np.random.default_rng(5)
    names = days(30, 4)
    came = {name: float(0.03 * rng.standard_normal()) for name, _ in names}
    held_back = {name for name, move in came.items() if rng.random() < (0.8 if move < 0 else 0.1)}
    a = [case(name, **at) for name, at in names]
    b = [case(name, **at, **({"action": "observe"} if name in held_back else {})) for name, at in names]
    found = compare(run("A", a), run("B", b), after({3600: came}))
    assert found.primary.verdict == "better"
    hits = metric(found, "hit_rate@1h")
    assert hits.a is not None and hits.b is not None
    assert (hits.a < 0.5, hits.b > 0.7, hits.verdict) == (True, True, "better")
    assert found.comparability.b.acted == 120 - len(held_back)


def test_misses_on_one_side_hide_neither_harm_nor_make_a_candidate_better() -> None:
    # Truth: B is as good as A. Where it would have gone deeper it missed; there A lost. Left out, B looked better.
    names = days(30, 4)
    came = {name: -0.03 if n % 4 == 0 else 0.01 for n, (name, _) in enumerate(names)}
    a = [case(name, **at) for name, at in names]
    gone = {"status": "miss", "has_signal": 0, "action": "", "direction": "", "asset": ""}
    b = [case(name, **at, **(gone if n % 4 == 0 else {})) for n, (name, at) in enumerate(names)]
    # Whatever horizon B would have had, the asset moved no more than 3 %.
    found = compare(run("A", a), run("B", b), after(dict.fromkeys((3600, *OWN_HORIZONS), came)))
    assert (found.primary.verdict, found.primary.b) == ("not distinguishable", None)
    # A loses 0.032 a case there: B can have earned from the same (sold: +0.028) down to the same loss.
    assert found.primary.delta_low == pytest.approx(0.0)
    assert found.primary.delta_high == pytest.approx((0.028 + 0.032) / 4)
    # A difference has to pass the gap between the ends before it shows.
    assert found.primary.detectable is not None and found.primary.detectable > (0.028 + 0.032) / 4
    assert gate_status(found, {})[0] == exits.GATE_UNDECIDED, "a gate that cannot see does not open"
    assert {metric(found, name).verdict for name in ("cost", "full_cost", "latency")} == {"not measured"}
    assert metric(found, "brier@1h").a is not None and metric(found, "brier@1h").b is None
    assert "and 30 completed in one run only" in found.verdict


def test_misses_do_not_hide_a_difference_that_holds_whatever_they_came_to() -> None:
    names = days(40, 4)
    came = {name: 0.01 * (1 + n % 3) for n, (name, _) in enumerate(names)}
    a = [case(name, **at) for name, at in names]
    gone = {"status": "miss", "has_signal": 0, "action": "", "direction": ""}
    b = [case(name, **at, **(gone if n == 7 else {"action": "sell"})) for n, (name, at) in enumerate(names)]
    found = compare(run("A", a), run("B", b), after(dict.fromkeys((3600, *OWN_HORIZONS), came)))
    assert (found.primary.verdict, found.primary.delta) == ("worse", None)
    assert found.primary.delta_high is not None and found.primary.delta_high < 0
    assert "1 case without a known result in both runs: counted at both extremes" in found.primary.note
    assert "sign test" not in found.primary.note, "at one extreme of what is not known it would be no finding"


def test_one_case_cannot_win_more_than_the_cap_and_the_uncapped_figure_stands_beside() -> None:
    names = days(30, 1)
    came = {name: 0.001 for name, _ in names} | {names[3][0]: 4.0}
    rows = [case(name, **at) for name, at in names]
    observing = [case(name, **at, action="observe") for name, at in names]
    found = compare(run("A", observing), run("B", rows), after({3600: came}))
    assert found.primary.b == pytest.approx((29 * 0.001 + 0.25) / 30 - 0.002)
    uncapped = metric(found, "profit_uncapped")
    assert (uncapped.b, uncapped.role, uncapped.p) == (pytest.approx((29 * 0.001 + 4.0) / 30 - 0.002), "shown", None)


def test_profit_less_what_the_market_did_is_of_the_cases_with_a_beta() -> None:
    """Everything rises by 5 % with the market. A buys what rises by 1 % more, B what rises by 1 % less; on BTC both buy."""
    names = days(30, 2)
    alpha = {name: 0.01 * (-1) ** n for n, (name, _) in enumerate(names[:50])}
    held = {(name, "SOL", at): 0.05 + move for name, move in alpha.items() for at in (3600, *OWN_HORIZONS)}
    held |= {(name, asset, 3600): 0.05 for n, (name, _) in enumerate(names[50:]) for asset in (("BTC", "NEW")[n % 2],)}
    adjusted = {key: move - 0.05 for key, move in held.items() if key[1] == "SOL"}
    why: dict[tuple[str, str], Unadjusted] = {
        key[:2]: "is_benchmark" if key[1] == "BTC" else "no_beta" for key in held if key[1] != "SOL"
    }
    returns = Returns(held=held, moved=held, adjusted=adjusted, unadjusted=why)

    def rows(sign: int) -> list[ComparedCase]:
        assets = ["SOL"] * 50 + ["BTC", "NEW"] * 5
        acts = ["buy" if alpha.get(name, 1) * sign > 0 or n >= 50 else "observe" for n, (name, _) in enumerate(names)]
        return [
            case(name, **at, asset=asset, action=act)
            for (name, at), asset, act in zip(names, assets, acts, strict=True)
        ]

    found = compare(run("A", rows(1)), run("B", rows(-1)), returns)
    less = metric(found, "profit_adjusted")
    assert (less.role, less.cases, less.verdict) == ("secondary", 50, "worse")
    assert (less.a, less.b) == (pytest.approx((0.01 - 0.002) / 2), pytest.approx((-0.01 - 0.002) / 2))
    assert less.p_holm is not None and less.p is not None and less.p_holm > less.p
    assert "without 10 cases that have no beta: is_benchmark 5, no_beta 5" in less.note
    assert found.primary.a == pytest.approx((25 * 0.06 + 10 * 0.05) / 60 - 0.002 * 35 / 60)
    # What B missed it may have won or lost, as far as the asset moved against the market.
    gone = [case(row.case_id, **at, asset="SOL", status="miss", has_signal=0, action="") if n == 0 else row
            for n, (row, (_, at)) in enumerate(zip(rows(-1), names, strict=True))]  # fmt: skip
    missed = metric(compare(run("A", rows(1)), run("B", gone), returns), "profit_adjusted")
    assert missed.cases == 50 and missed.delta is None and missed.delta_low is not None and less.delta is not None
    assert missed.delta_low == pytest.approx(less.delta - (0.01 + 0.002) / 50)
    alone = compare(run("A", rows(1)[50:]), run("B", rows(-1)[50:]), returns)
    assert metric(alone, "profit_adjusted").verdict == "not measured"
    note = metric(alone, "profit_adjusted").note
    assert "no case that a run acted on has a beta" in note
    assert "from files" in note  # an exchange is asked for bars from each entry on, and a beta needs those before


def test_what_one_run_acts_on_without_a_price_may_be_anything_up_to_the_cap() -> None:
    names = days(8, 1)
    came = {name: 0.02 for name, _ in names[2:]}
    rows, observing = ([case(name, **at, action=action) for name, at in names] for action in ("buy", "observe"))
    returns = msgspec.structs.replace(after({3600: came}), untraded=frozenset({(names[1][0], "BTC")}))
    found = compare(run("A", observing), run("B", rows), returns).primary
    assert (found.cases, found.a, found.b) == (8, 0.0, None)
    assert found.delta_low == pytest.approx((6 * 0.018 - 0.25 - 0.002) / 8), "a withdrawn trade earns nothing"
    assert found.delta_high == pytest.approx((6 * 0.018 + 0.25 - 0.002) / 8)
    assert "1 case without a price, on which the runs act differently: counted at both extremes" in found.note


def test_the_same_trade_without_a_price_is_no_difference_and_without_any_price_nothing_is_identical() -> None:
    names = days(8, 1)
    rows = [case(name, **at) for name, at in names]
    sold = [case(name, **at, action="sell") for name, at in names]
    priced = after({3600: {name: 0.02 for name, _ in names[1:]}})
    surer = [case(name, **at, confidence=0.9) for name, at in names]
    one = compare(run("A", rows), run("B", surer), priced).primary
    assert (one.verdict, one.cases, one.note) == (
        "equal",
        8,
        "few blocks: 8 days; 1 case without a price, on which both runs make the same trade: difference 0",
    )
    blind = compare(run("A", rows), run("B", sold))
    assert (blind.primary.verdict, blind.primary.note) == (
        "not measured",
        "no case that a run acted on has a price: import prices with `newsproof outcomes import`",
    )
    assert gate_status(blind, {})[0] == exits.GATE_UNDECIDED


def test_an_asset_without_a_price_that_one_run_names_hides_no_loser() -> None:
    names = days(30, 1)
    came = {name: -0.02 if n % 3 == 0 else 0.02 for n, (name, _) in enumerate(names)}
    rows = [case(name, **at) for name, at in names]
    renamed = [case(name, **at, asset="XYZ" if n % 3 == 0 else "BTC") for n, (name, at) in enumerate(names)]
    found = compare(run("A", rows), run("B", renamed), after({3600: came}))
    hits = metric(found, "hit_rate@1h")
    assert (hits.verdict, hits.b, hits.delta_low, hits.delta_high) == (
        "not distinguishable",
        None,
        0.0,
        pytest.approx(1 / 3),
    )


def test_a_repeat_that_missed_is_as_unknown_as_a_case() -> None:
    names = days(20, 5)
    came = {name: 0.02 for name, _ in names}
    observing = [case(name, **at, action="observe", repeat=n) for name, at in names for n in range(5)]
    gone: dict[str, Any] = {"status": "miss", "has_signal": 0, "action": "", "asset": ""}
    one_of_five = [case(name, **at, repeat=n, **(gone if n else {})) for name, at in names for n in range(5)]
    found = compare(run("A", observing), run("B", one_of_five), after(dict.fromkeys((3600, *OWN_HORIZONS), came)))
    assert found.primary.verdict == "not distinguishable"
    assert found.primary.delta_low == pytest.approx((0.018 - 4 * 0.022) / 5)
    assert found.primary.delta_high == pytest.approx(0.018)


def test_a_missed_signal_may_have_had_any_horizon() -> None:
    names = days(30, 4)
    short = {name: 0.0003 for name, _ in names}
    a = [case(name, **at) for name, at in names]
    gone = {"status": "miss", "has_signal": 0, "action": "", "direction": "", "asset": ""}
    b = [case(name, **at, **(gone if n % 4 == 0 else {"action": "observe"})) for n, (name, at) in enumerate(names)]
    long = {name: 0.05 for name, _ in names}
    found = compare(run("A", a), run("B", b), after({3600: short} | dict.fromkeys(OWN_HORIZONS, long))).primary
    assert found.delta_low == pytest.approx((-0.05 - 0.002) / 4 - (0.0003 - 0.002))
    assert found.verdict == "not distinguishable"
    fixed = compare(run("A", a), run("B", b), after({3600: short}), how=Scoring(primary="profit@1h")).primary
    assert fixed.delta_low == pytest.approx((-0.0003 - 0.002) / 4 - (0.0003 - 0.002))


def test_harm_in_one_half_and_help_in_the_other_is_shown_by_segment() -> None:
    rng = np.random.default_rng(9)
    names = days(40, 4)
    came = {name: float(0.02 * rng.standard_normal()) for name, _ in names}
    kinds = ("wire", "blog")

    def judged(right: dict[str, float]) -> list[ComparedCase]:
        rows = []
        for n, (name, at) in enumerate(names):
            rise = came[name] > 0
            buys = rise if rng.random() < right[kinds[n % 2]] else not rise
            rows.append(case(name, **at, source=kinds[n % 2], action="buy" if buys else "sell"))
        return rows

    a, b = judged({"wire": 0.5, "blog": 0.5}), judged({"wire": 0.8, "blog": 0.2})
    found = compare(run("A", a), run("B", b), after({3600: came}))
    assert found.primary.verdict == "not distinguishable"
    (kind,) = (one for one in found.segments if one.name == "source")
    assert kind.differs and {s.value: s.verdict for s in kind.segments} == {"wire": "better", "blog": "worse"}
    assert "; profit differs by source (better for wire; worse for blog); " in found.verdict


def test_another_primary_metric_is_tested_alone_and_profit_joins_the_others() -> None:
    found = compare(
        run("A", eight()), run("B", eight(confidence=0.9)), after({3600: ROSE}), how=Scoring(primary="brier@1h")
    )
    assert [m.label for m in found.metrics if m.role == "primary"] == ["brier@1h"] == [found.primary.label]
    assert metric(found, "profit").role == "secondary"
    with pytest.raises(ConfigError, match="--primary 'luck': write profit"):
        parse_primary("luck")


def judged(words: str, confidence: float | None = None, **changes: Any) -> list[ComparedCase]:
    """Return one case a day: c confirmed (and bought), r refuted, by the letters of ``words``, over and over for 40 days."""
    verdicts = {"c": ("confirmed", "buy", 0.8), "r": ("refuted", "observe", 0.2)}
    rows = []
    for n, (name, at) in enumerate(days(40, 2)):
        verdict, action, sure = verdicts[words[n % len(words)]]
        said = {"verdict": verdict, "action": action, "confidence": sure if confidence is None else confidence}
        rows.append(case(name, **at, **(said | changes)))
    return rows


def gated(a: list[ComparedCase], b: list[ComparedCase], truths: dict[str, float]) -> tuple[int, str]:
    rng = np.random.default_rng(3)
    came = {row.case_id: float(0.01 * rng.standard_normal()) for row in a}
    returns = msgspec.structs.replace(after({86_400: came}), truths=truths)
    found = compare_runs(run("A", a), run("B", b), returns)
    status, why = gate_status(found, {})
    return status, "; ".join(why)


TRUE = {name: float(n % 2 == 0) for n, (name, _) in enumerate(days(40, 2))}
"""Every second claim was true."""


def test_a_gate_sees_truth_where_profit_is_equal() -> None:
    right = judged("cr")
    for cheat, said in (
        ([msgspec.structs.replace(row, verdict="confirmed") for row in right], "a loss of truth_errors"),
        ([msgspec.structs.replace(row, confidence=0.97) for row in right], "a loss of truth_brier"),
    ):
        found = compare_runs(run("A", right), run("B", cheat))
        assert "identical" not in {m.verdict for m in found.metrics} and "identical" not in found.verdict
        status, why = gated(right, cheat, TRUE)
        assert (status, said in why) == (exits.GATE_CLOSED, True), why
        # Without a truth nothing shows the loss, and nothing excludes it.
        status, why = gated(right, cheat, {})
        assert (status, "no case's truth is known" in why) == (exits.GATE_UNDECIDED, True), why
        # Nor do a few truths of cases that are judged alike.
        few = {row.case_id: 1.0 for row, other in zip(right, cheat, strict=True) if row.verdict == other.verdict}
        assert gated(right, cheat, dict(list(few.items())[:20]))[0] != exits.OK


def test_a_gate_sees_what_a_run_leaves_out_and_opens_for_what_is_better_or_says_the_same() -> None:
    right, mixed = judged("cr"), judged("crcrcrcrrc")
    status, why = gated(right, [msgspec.structs.replace(row, action="observe") for row in right], TRUE)
    assert (status, "a loss of action_rate" in why) == (exits.GATE_CLOSED, True), why
    assert gated(right, right, {}) == (exits.OK, "open: B says the same as A in every case")
    status, why = gated(mixed, right, TRUE)
    assert (status, why.count("is excluded")) == (exits.OK, 7), why
    slow = [msgspec.structs.replace(row, delay_ms=900_000.0) for row in right]
    status, why = gated(right, slow, TRUE)
    assert (status, why) == (exits.GATE_CLOSED, "closed: a loss of delay of more than 60000 ms is certain")
    with pytest.raises(ConfigError, match="--margin 'luck': write a number"):
        parse_margins(["luck=1"])
    assert parse_margins(["0.01", "tail=0.2"]) == {"": 0.01, "tail": 0.2}
    for wrong in ("nan", "inf", "-0.01", "tail=nan", "tail=-1", "much"):  # each would open or close every gate
        with pytest.raises(ConfigError, match="write a number from 0 on"):
            parse_margins([wrong])


def test_the_tail_is_the_mean_of_the_worst_cases() -> None:
    rows = judged("c")
    came = {row.case_id: -0.1 if n % 40 == 0 else 0.01 for n, row in enumerate(rows)}
    never = [msgspec.structs.replace(row, action="observe") for row in rows]
    tail = metric(compare_runs(run("A", rows), run("B", never), after({86_400: came})), "tail@24h")
    # Of 80 cases the worst four: two lost a tenth, two others gained 0.01; each less 0.002.
    assert (tail.a, tail.b) == (pytest.approx((2 * -0.102 + 2 * 0.008) / 4), 0.0)


def test_better_is_held_back_while_one_block_could_reverse_it() -> None:
    names = days(40, 5)
    rng = np.random.default_rng(8)
    wild = {name: float(0.04 * rng.standard_normal()) for name, _ in names}
    pennies = {name: float(0.005 + 0.002 * rng.standard_normal()) for name, _ in names}
    returns = Returns(
        held={(n, "BTC", 86_400): m for n, m in wild.items()} | {(n, "P", 86_400): m for n, m in pennies.items()}
    )
    a = [case(name, **at, action="buy" if n % 5 == 0 else "observe") for n, (name, at) in enumerate(names)]
    b = [row if row.action == "buy" else msgspec.structs.replace(row, action="buy", asset="P") for row in a]
    found = compare_runs(run("A", a), run("B", b), returns)
    assert (found.primary.verdict, found.primary.reversible) == ("not distinguishable", True)
    assert found.primary.note.startswith("not called better: one block")
    assert "the difference is above 0 in 14 of the 14 blocks that differ (sign test: p <0.001)" in found.primary.note
    assert "one bad block would reverse it" in found.verdict


def test_cost_and_latency_are_of_executed_calls_alone_and_only_where_they_are_alike() -> None:
    a = [case(n, **called("0.001", 100.0)) for n in EIGHT]
    b = [case(n, **called("0.003", 250.0)) for n in "abcdef"] + [case("g", **called("0.1", 9.0, calls=2)), case("h")]
    found = compare(run("A", a), run("B", b))
    assert (metric(found, "cost").cases, metric(found, "cost").delta) == (6, pytest.approx(0.002))
    assert (metric(found, "latency").cases, metric(found, "latency").delta) == (6, 150.0)
    # Without a recording: 0.003 six times, 0.1, 0.002 of what was reused.
    assert metric(found, "full_cost").b == pytest.approx((6 * 0.003 + 0.1 + 0.002) / 8)
    assert (found.spend[1].executed, found.spend[1].reused, found.spend[1].cost_usd) == (8, 4, Decimal("0.118"))


def test_a_call_of_unknown_price_makes_the_case_unpriced_not_free() -> None:
    a = [case(n, **called("0.001", 100.0)) for n in EIGHT]
    b = [case(n, **called("0.001", 100.0) | {"unpriced_calls": 1}) for n in EIGHT]
    found = compare(run("A", a), run("B", b))
    assert (metric(found, "cost").b, metric(found, "full_cost").b) == (None, None)
    assert metric(found, "cost").note == "the price or latency of a call is unknown in every case"
    assert found.spend[1].unpriced_calls == 8


def test_calls_in_one_run_only_are_not_compared_with_none() -> None:
    found = compare(run("A", [case(n, **called("0.001", 9.0)) for n in EIGHT]), run("B", eight()))
    assert metric(found, "cost").note == "nothing was executed in B; full_cost compares the cost without a recording"
    assert metric(found, "full_cost").delta == pytest.approx(0.001)


def test_a_case_lies_in_the_block_of_its_own_day_whatever_its_story() -> None:
    def told(sure: float) -> list[ComparedCase]:
        return [case(f"{n}", story="one", confidence=sure, knowable_ms=n * DAY_MS) for n in range(8)]

    confidence = metric(compare(run("A", told(0.6)), run("B", told(0.7))), "confidence")
    assert (confidence.cases, confidence.blocks, confidence.verdict) == (8, 8, "higher")


def test_one_failed_case_is_no_outcome() -> None:
    a, b = eight(), [*(case(n) for n in "abcdefg"), case("h", status="failed", has_signal=0)]
    found = metric(compare(run("A", a), run("B", b)), "hit_rate@1h")
    assert (found.verdict, found.note) == (
        "not measured",
        "no outcomes at this horizon: import prices with `newsproof outcomes import`",
    )


def test_the_brier_score_falls_into_its_parts() -> None:
    rng = np.random.default_rng(3)
    names = days(10, 10)
    came = {name: float(rng.choice([-0.01, 0.01], p=[0.3, 0.7])) for name, _ in names}
    rows = [case(name, **at, confidence=float(rng.uniform(0.4, 0.9))) for name, at in names]
    found = compare(run("A", rows), run("B", rows), after({3600: came}))
    parts = found.calibration[0].parts
    assert parts.brier == pytest.approx(metric(found, "brier@1h").a)
    assert parts.brier == pytest.approx(
        parts.reliability - parts.resolution + parts.uncertainty + parts.within_bins, abs=1e-15
    )
    hits = np.array([came[name] > 0 for name, _ in names])
    assert parts.uncertainty == pytest.approx(hits.mean() * (1 - hits.mean()))
