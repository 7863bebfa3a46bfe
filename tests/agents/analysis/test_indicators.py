"""Technical indicators against numbers that were worked out by hand, next to each test."""

from __future__ import annotations

from datetime import timedelta

import pytest

from agents.analysis.indicators import INDICATORS, bollinger, ema, indicators, levels, macd, rsi, sma, volume
from schemas.evidence import Candle
from tests.agents.research.conftest import bars
from tests.specification import START


def bar(day: int, close: float, *, high: float | None = None, low: float | None = None, volume: float = 1.0) -> Candle:
    at = START + timedelta(days=day)
    return Candle(ended_at=at, open=close, high=high or close, low=low or close, close=close, volume=volume)


def test_a_simple_average_is_the_mean_of_the_last_values_and_an_exponential_one_begins_with_it():
    assert sma([9, 1, 2, 6], 3) == 3.0  # (1 + 2 + 6) / 3
    assert sma([1, 2], 3) is None
    # 3 bars: weight 1/2. Begin (2 + 4 + 6) / 3 = 4; then 8 → (8 + 4) / 2 = 6; then 11 → (11 + 6) / 2 = 8.5
    assert ema([2, 4, 6, 8, 11], 3) == 8.5
    assert ema([2, 4], 3) is None


def test_rsi_smooths_as_wilder_did():
    # Changes +1 −1 +2 −1 over 3 bars. First averages: gains (1 + 0 + 2) / 3 = 1, losses (0 + 1 + 0) / 3 = 1/3.
    # Then: gains (1 · 2 + 0) / 3 = 2/3, losses (1/3 · 2 + 1) / 3 = 5/9. RSI = 100 · (2/3) / (2/3 + 5/9) = 600/11.
    assert rsi([10, 11, 10, 12, 11], 3) == pytest.approx(600 / 11)


def test_rsi_is_at_its_ends_where_all_moves_one_way_and_in_the_middle_where_nothing_moves():
    assert rsi([1, 2, 3, 4], 3) == 100.0
    assert rsi([4, 3, 2, 1], 3) == 0.0
    assert rsi([5, 5, 5, 5], 3) == 50.0
    assert rsi([1, 2, 3], 3) is None  # two changes only


def test_macd_is_the_difference_of_two_averages_and_its_own_average():
    # Values 1 2 4 7 11. Fast, 2 bars (weight 2/3): 3/2, 19/6, 103/18, 499/54. Slow, 3 bars (1/2): 7/3, 14/3, 47/6.
    # Differences: 19/6 − 7/3 = 5/6, 103/18 − 14/3 = 19/18, 499/54 − 47/6 = 76/54.
    # Their average over 2: (5/6 + 19/18) / 2 = 17/18, then 2/3 · 76/54 + 1/3 · 17/18 = 203/162.
    found = macd([1, 2, 4, 7, 11], 2, 3, 2)
    assert found == pytest.approx({"macd": 76 / 54, "macd_signal": 203 / 162, "macd_histogram": 76 / 54 - 203 / 162})
    assert macd([1, 2, 4], 2, 3, 2) == {}  # the signal line lacks a bar


def test_bollinger_bands_lie_two_population_deviations_apart():
    # Mean 5; squares of the distances 9 1 1 1 0 0 4 16 = 32; 32 / 8 = 4; deviation 2.
    found = bollinger([2, 4, 4, 4, 5, 5, 7, 9], 8, 2.0)
    assert found == pytest.approx({"bollinger_upper": 9.0, "bollinger_middle": 5.0, "bollinger_lower": 1.0})
    assert bollinger([2, 4], 8) == {}


def test_volume_is_set_against_its_average():
    assert volume([10, 20, 60], 3) == {"volume": 60, "volume_average_20": 30.0, "volume_ratio": 2.0}
    assert volume([0, 0, 0], 3) == {"volume": 0, "volume_average_20": 0.0}
    assert volume([5], 3) == {"volume": 5}


def test_support_and_resistance_are_the_nearest_turns_around_the_close_and_a_plateau_is_none():
    #         turn low 80      turn high 120     turn low 90       turn high 110
    closes = [100, 95, 80, 96, 105, 120, 104, 99, 90, 97, 103, 110, 104, 101, 100]
    found = levels([bar(day, close) for day, close in enumerate(closes)])
    assert found == {"support": 90, "resistance": 110}
    closes = [100, 95, 80, 96, 105, 120, 104, 99, 130]
    assert levels([bar(day, close) for day, close in enumerate(closes)]) == {"support": 80}
    closes = [100, 120, 120, 100, 90, 95]
    assert levels([bar(day, close) for day, close in enumerate(closes)]) == {}


def test_enough_bars_give_every_indicator_with_its_unit_source_and_time():
    found = indicators(bars(), unit="USDT", source="kraken")
    assert tuple(v.name for v in found) == INDICATORS
    assert {v.source for v in found} == {"computed from kraken"} and {v.observed_at for v in found} == {
        bars()[-1].ended_at
    }
    units = {v.name: v.unit for v in found}
    assert (units["close"], units["rsi_14"], units["volume_ratio"]) == ("USDT", "0-100", "x")


def test_few_bars_give_few_indicators_and_none_gives_none():
    assert [v.name for v in indicators([bar(0, 10), bar(1, 11)], unit="USD", source="s")] == ["close", "volume"]
    assert indicators([], unit="USD", source="s") == ()


def test_bars_are_read_in_the_order_of_time_and_broken_ones_are_left_out():
    broken = [bar(5, float("nan")), bar(6, -1.0), bar(7, 10, volume=float("inf"))]
    found = indicators([bar(1, 11), *broken, bar(0, 10)], unit="USD", source="s")
    assert found[0].value == 11
    assert indicators(bars(), unit="USD", source="s") == indicators(reversed(bars()), unit="USD", source="s")
