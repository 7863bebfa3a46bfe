"""Where a comparison enters and leaves: one entry for both runs, withdrawals, horizons that are not over."""

from __future__ import annotations

import random

import msgspec
import pytest

from evaluation.compare.inputs import CaseTimes, entry_ms, horizons_of, own_times, returns_of
from evaluation.compare.run_rows import Returns
from infra.market.outcomes.markets import Markets
from schemas.prices import PriceSeries
from tests.evaluation.compare.compare_samples import case, run

START = 1_767_225_600_000
MINUTE = 60_000
LATER = START + 90 * 86_400_000


def bars(step: int, prices: list[float]) -> PriceSeries:
    """Bars of so many minutes."""
    times = [START + n * step * MINUTE for n in range(len(prices))]
    return PriceSeries(symbol="BTC/USDT", venue="", times_ms=times, opens=prices, closes=prices)


def priced(series: PriceSeries, horizon_s: int = 3_600, now_ms: int = LATER, **times: int | None) -> Returns:
    of_case = CaseTimes(**{"knowable_ms": START, "emitted_ms": None, "withdrawn_ms": None, **times})  # type: ignore[arg-type]
    return returns_of({("c", "BTC"): {horizon_s}}, {"c": of_case}, Markets([series]), now_ms=now_ms, latency_s=30.0)


def test_both_runs_enter_after_the_live_signal_else_after_the_news_and_the_latency() -> None:
    times = CaseTimes(knowable_ms=START, emitted_ms=START + 7 * MINUTE, withdrawn_ms=None)
    assert entry_ms(times) == START + 7 * MINUTE + 30_000
    assert entry_ms(CaseTimes(knowable_ms=START, emitted_ms=None, withdrawn_ms=None), 45.0) == START + 45_000
    late = priced(bars(5, [100.0, 110.0, 121.0] + [133.1] * 20), emitted_ms=START + 7 * MINUTE)
    assert late.held["c", "BTC", 3_600] == pytest.approx(0.1), "entered at 121"


def test_each_run_enters_after_its_own_delay_where_both_are_known() -> None:
    times = {name: CaseTimes(knowable_ms=START, emitted_ms=START + 9, withdrawn_ms=None) for name in ("c", "unknown")}
    fast, slow = (
        run(str(ms), [case("c", delay_ms=ms), case("c", repeat=1, delay_ms=ms + 2), case("unknown", delay_ms=known)])
        for ms, known in ((1_000.0, 5.0), (900_000.0, None))
    )
    entries = [{name: entry_ms(at, 0.0) - START for name, at in own.items()} for own in own_times(times, (fast, slow))]
    assert entries == [{"c": 1_001, "unknown": 9}, {"c": 900_001, "unknown": 9}]


@pytest.mark.parametrize("step", [1, 5, 15])
@pytest.mark.parametrize("minutes", [3, 10, 12, 30])
def test_a_withdrawn_signal_is_held_until_the_first_price_from_then_on(step: int, minutes: int) -> None:
    count = 120 // step
    prices = [100.0 - n * step * 0.1 for n in range(count)]
    found = priced(bars(step, prices), withdrawn_ms=START + step * MINUTE + minutes * MINUTE)
    entry, leaving = 1, 1 + -(-(2 * minutes + 1) // (2 * step))  # the order leaves half a minute after the withdrawal
    assert found.held["c", "BTC", 3_600] == pytest.approx(prices[leaving] / prices[entry] - 1)
    assert not found.moved, "whether it was right at its horizon nobody waited for"


def test_a_signal_that_was_withdrawn_by_the_bar_of_the_entry_is_not_traded() -> None:
    found = priced(bars(5, [100.0] * 40), withdrawn_ms=START + 4 * MINUTE)
    assert (found.held, found.untraded) == ({}, frozenset({("c", "BTC")}))


def test_of_signals_that_are_not_over_yet_the_withdrawn_ones_are_not_counted_alone() -> None:
    series = bars(5, [100.0] * 6)
    assert priced(series, now_ms=START + 30 * MINUTE, withdrawn_ms=START + 15 * MINUTE).held == {}
    assert priced(series, withdrawn_ms=START + 15 * MINUTE).held == {}, "the prices end before the horizon does"
    assert priced(bars(5, [100.0] * 14), withdrawn_ms=START + 15 * MINUTE).held != {}


def test_what_is_no_ticker_has_no_market_and_is_not_traded() -> None:
    of_case = CaseTimes(knowable_ms=START, emitted_ms=None, withdrawn_ms=None)
    found = returns_of({("c", "crypto market"): {3_600}}, {"c": of_case}, Markets([bars(5, [1.0] * 20)]), now_ms=LATER)
    assert found.untraded == {("c", "crypto market")}


def test_what_the_market_did_is_taken_off_by_the_beta_of_the_days_before() -> None:
    """In each hour of four days BTC moves and the asset twice as far; after the entry BTC gains 1 % an hour and the asset 5 %."""
    draw, hours, entry = random.Random(1), 4 * 24, 4 * 24
    btc, asset = [100.0], [10.0]
    for n in range(1, hours + 30):
        move, own = (draw.gauss(0, 0.01), None) if n <= entry else (0.01, 0.05)
        btc.append(btc[-1] * (1 + move))
        asset.append(asset[-1] * (1 + (2 * move if own is None else own)))
    markets = Markets([bars(60, btc), msgspec.structs.replace(bars(60, asset), symbol="A/USDT")])
    times = {
        name: CaseTimes(knowable_ms=START + at * 60 * MINUTE, emitted_ms=START + at * 60 * MINUTE, withdrawn_ms=gone)
        for name, at, gone in (
            ("c", entry, None), ("early", 20, None), ("gone", entry, START + (entry + 2) * 60 * MINUTE - MINUTE),
            ("late", entry + 23, None),
        )
    }  # fmt: skip
    asked = {(name, "A"): {3_600, 14_400} for name in times} | {("c", "BTC"): {3_600}}
    found = returns_of(asked, times, markets, now_ms=LATER, latency_s=0.0, entry_within_s=900)
    assert found.held["c", "A", 3_600] == pytest.approx(0.05)
    assert found.adjusted["c", "A", 3_600] == pytest.approx(0.05 - 2 * 0.01)
    assert found.adjusted["c", "A", 14_400] == pytest.approx(1.05**4 - 1 - 2 * (1.01**4 - 1))
    assert found.adjusted["gone", "A", 14_400] == pytest.approx(1.05**2 - 1 - 2 * (1.01**2 - 1)), (
        "until it was withdrawn"
    )
    # A day of bars is too few for a beta; BTC has none on itself.
    assert found.unadjusted == {("early", "A"): "no_beta", ("c", "BTC"): "is_benchmark"}
    short = Markets([bars(60, btc[: entry + 26]), msgspec.structs.replace(bars(60, asset), symbol="A/USDT")])
    without = returns_of(asked, times, short, now_ms=LATER, latency_s=0.0, entry_within_s=900)
    # Of 'late' one exit has no bar of BTC: then none of its returns counts, whichever horizon a run names.
    assert without.unadjusted[("late", "A")] == "no_beta" and ("late", "A", 3_600) not in without.adjusted


def test_every_horizon_that_a_signal_may_have_is_asked_of_the_asset_that_a_run_named() -> None:
    asked = horizons_of([case("c", horizon_s=3_600), case("d", has_signal=0)])
    assert asked == {("c", "BTC"): {300, 3_600, 14_400, 86_400, 604_800, 2_592_000}}
