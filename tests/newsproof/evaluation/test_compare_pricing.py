"""Where a comparison enters and leaves: one entry for both runs, withdrawals, horizons that are not over."""

from __future__ import annotations

import pytest

from infra.market.outcomes.markets import Markets
from newsproof.evaluation.compare.pricing import CaseTimes, asked_of, entry_ms, returns_of
from newsproof.evaluation.compare.rows import Returns
from schemas.prices import PriceSeries
from tests.newsproof.evaluation.compare_samples import case

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


def test_both_runs_enter_when_the_live_signal_was_emitted_else_after_the_latency() -> None:
    times = CaseTimes(knowable_ms=START, emitted_ms=START + 7 * MINUTE, withdrawn_ms=None)
    assert entry_ms(times) == START + 7 * MINUTE
    assert entry_ms(CaseTimes(knowable_ms=START, emitted_ms=None, withdrawn_ms=None), 45.0) == START + 45_000
    late = priced(bars(5, [100.0, 110.0, 121.0] + [133.1] * 20), emitted_ms=START + 7 * MINUTE)
    assert late.held["c", "BTC", 3_600] == pytest.approx(0.1), "entered at 121"


@pytest.mark.parametrize("step", [1, 5, 15])
@pytest.mark.parametrize("minutes", [3, 10, 12, 30])
def test_a_withdrawn_signal_is_held_until_the_first_price_from_then_on(step: int, minutes: int) -> None:
    count = 120 // step
    prices = [100.0 - n * step * 0.1 for n in range(count)]
    found = priced(bars(step, prices), withdrawn_ms=START + step * MINUTE + minutes * MINUTE)
    entry, leaving = 1, 1 + -(-minutes // step)
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


def test_every_horizon_that_a_signal_may_have_is_asked_of_the_asset_that_a_run_named() -> None:
    asked = asked_of([case("c", horizon_s=3_600), case("d", has_signal=0)])
    assert asked == {("c", "BTC"): {300, 3_600, 14_400, 86_400, 604_800, 2_592_000}}
