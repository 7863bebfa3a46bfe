"""One trade: when it is entered and left, what it fills at, and every reason for which there is none."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import msgspec
import pytest

from evaluation.prices.trades import NoTrade, Order, Trade, TradeRules, trade_of
from schemas.prices import PriceSeries
from tests.evaluation.prices.price_paths import DAY, MINUTE, START, bars, order

FREE = TradeRules(latency_s=60, fee_bps=Decimal(0), slippage_bps=Decimal(0))
HOUR = 60 * MINUTE
PATH = [7.0, *[100.0] * 12, 110.0]
"""A planted price before the entry, an hour of 100, and the exit."""
LATE = START + DAY


def traded(series: PriceSeries | None, rules: TradeRules = FREE, *, now_ms: int = LATE, **fields: Any) -> Trade:
    found = trade_of(order(**fields), series, rules, now_ms=now_ms)
    assert isinstance(found, Trade)
    return found


def refused(series: PriceSeries | None, rules: TradeRules = FREE, *, now_ms: int = LATE, **fields: Any) -> str:
    found = trade_of(order(**fields), series, rules, now_ms=now_ms)
    assert isinstance(found, NoTrade)
    return found.reason


def test_the_entry_is_the_first_open_after_the_signal_and_the_latency() -> None:
    assert traded(bars(PATH)).entry_at_ms == START + 5 * MINUTE
    # With 90 seconds from the signal to the order the open of 00:05 is the very moment; with more it is missed.
    assert traded(bars(PATH), msgspec.structs.replace(FREE, latency_s=90)).entry_at_ms == START + 5 * MINUTE
    later = msgspec.structs.replace(FREE, latency_s=90.001)
    assert traded(bars([*PATH, 110.0]), later).entry_at_ms == START + 10 * MINUTE


def test_a_trade_is_held_for_the_signals_own_horizon_or_the_one_that_is_given() -> None:
    assert str(traded(bars(PATH)).profit) == "100.00"
    half = traded(bars(PATH), msgspec.structs.replace(FREE, hold_s=1800))
    assert (half.exit_at_ms - half.entry_at_ms, str(half.profit)) == (30 * MINUTE, "0.00")
    short = traded(bars(PATH), horizon_s=600)
    assert short.exit_at_ms - short.entry_at_ms == 10 * MINUTE


def test_a_stake_by_confidence_is_the_stake_times_it() -> None:
    rules = msgspec.structs.replace(FREE, sizing="confidence")
    found = traded(bars(PATH), rules, confidence=0.333)
    assert (str(found.stake), str(found.profit)) == ("333.00", "33.30")
    assert found.profit_share == pytest.approx(0.1)
    assert refused(bars(PATH), rules, confidence=0.0) == "no_stake"


def test_money_is_exact_where_floats_are_not() -> None:
    # A third of a cent each way: 1000 * (3.00001 / 3 - 1) = 0.00333…
    assert str(traded(bars([7.0, *[3.0] * 12, 3.00001])).profit) == "0.00"
    assert str(traded(bars([7.0, *[1e-8] * 12, 1.1e-8])).profit) == "100.00"
    # Half a cent is rounded to the even one, as in a ledger.
    rules = msgspec.structs.replace(FREE, stake=Decimal("0.50"))
    assert str(traded(bars([7.0, *[100.0] * 12, 101.0]), rules).profit) == "0.00"
    assert str(traded(bars([7.0, *[100.0] * 12, 103.0]), rules).profit) == "0.02"


def test_a_withdrawal_ends_the_trade_at_the_first_open_after_it_can_be_acted_on() -> None:
    path = [7.0, *[100.0] * 4, 99.0, 98.0, *[100.0] * 7]
    # Denied at 00:24: the minute's latency lets the open of 00:25 be met, from 00:24:01 on no more.
    at = START + 24 * MINUTE
    met = traded(bars(path), withdrawn_at_ms=at)
    assert (met.exit_at_ms, met.exit_reason, str(met.profit)) == (START + 25 * MINUTE, "withdrawn", "-10.00")
    assert str(traded(bars(path), withdrawn_at_ms=at + 1000).profit) == "-20.00"


def test_a_withdrawal_after_the_end_changes_nothing_and_one_before_the_entry_prevents_it() -> None:
    assert traded(bars(PATH), withdrawn_at_ms=START + 2 * HOUR).exit_reason == "horizon"
    # Nor one that could be acted on only after the end, at 01:05.
    late = traded(bars([*PATH, 50.0]), withdrawn_at_ms=START + 65 * MINUTE - 1000)
    assert (late.exit_reason, str(late.profit)) == ("horizon", "100.00")
    entry = START + 5 * MINUTE
    assert refused(bars(PATH), withdrawn_at_ms=entry) == "withdrawn_before"
    assert traded(bars(PATH), withdrawn_at_ms=entry + 1).exit_reason == "withdrawn"


STOP = msgspec.structs.replace(FREE, stop=Decimal("0.05"))


def test_a_stop_fills_at_its_level_and_where_the_price_jumped_over_it_at_the_worse_open() -> None:
    touched = traded(bars(PATH, lows=[1.0, 100.0, 94.0, *[100.0] * 11]), STOP)
    assert (touched.exit_at_ms, touched.exit_reason) == (START + 10 * MINUTE, "stop")
    assert str(touched.profit) == "-50.00"
    jumped = traded(bars([7.0, 100.0, 80.0, *PATH[3:]]), STOP)
    assert (jumped.exit_reason, str(jumped.profit)) == ("stop_gap", "-200.00")
    # A stop is of the price that was paid: with slippage it is nearer to the market.
    rules = msgspec.structs.replace(STOP, slippage_bps=Decimal(100))
    # 100 * 1.01 * 0.95 = 95.95, so a low of 95.9 touches it, which without slippage it would not.
    lows = [1.0, 100.0, 95.9, *[100.0] * 11]
    assert (traded(bars(PATH, lows=lows), rules).exit_reason, traded(bars(PATH, lows=lows), STOP).exit_reason) == (
        "stop",
        "horizon",
    )


def test_a_stop_nearer_than_the_slippage_ends_the_trade_at_once_and_at_the_market() -> None:
    # 110 was paid for what costs 100, so a stop at 104.5 is beyond the market, where nobody buys it: sold at 100 less 10 %.
    rules = msgspec.structs.replace(STOP, slippage_bps=Decimal(1000))
    found = traded(bars(PATH), rules)
    assert (found.exit_at_ms - found.entry_at_ms, found.exit_reason, str(found.exit_price)) == (0, "stop_gap", "90.0")


def test_what_a_bar_touches_before_the_entry_or_after_the_exit_is_no_stop() -> None:
    before = bars(PATH, lows=[1.0, *[100.0] * 12, 110.0])
    assert traded(before, STOP).exit_reason == "horizon"
    # The exit is at the open of its bar; what that bar did afterwards is not ours.
    after = bars(PATH, lows=[*PATH[:-1], 1.0])
    assert str(traded(after, STOP).profit) == "100.00"


def test_a_short_sale_is_stopped_by_highs() -> None:
    highs = [200.0, 100.0, 105.0, *[100.0] * 11]
    found = traded(bars(PATH, highs=highs), STOP, side=-1)
    assert (found.exit_reason, str(found.profit)) == ("stop", "-50.00")
    assert str(traded(bars(PATH), side=-1).profit) == "-100.00"


@pytest.mark.parametrize(
    ("series", "rules", "fields", "reason"),
    [
        (None, FREE, {}, "no_symbol"),
        (bars(PATH, symbol="A/BTC"), FREE, {}, "other_currency"),
        (bars(PATH), FREE, {"emitted_at_ms": START - HOUR}, "no_price"),
        (bars(PATH), FREE, {"emitted_at_ms": START + 3 * HOUR}, "no_price"),
        (bars([100.0, 100.0], step_ms=HOUR), FREE, {"emitted_at_ms": START + MINUTE}, "gap"),
        (bars(PATH[:-1]), FREE, {}, "no_exit"),
        (PriceSeries(symbol="A/USDT", venue="", times_ms=[START], opens=[1.0]), STOP,
         {"emitted_at_ms": START - MINUTE}, "no_path"),
    ],
)  # fmt: skip
def test_what_cannot_be_traded_says_why(
    series: PriceSeries | None, rules: TradeRules, fields: dict[str, Any], reason: str
) -> None:
    assert refused(series, rules, **fields) == reason


def test_what_is_not_over_yet_is_open_however_it_ended_so_far() -> None:
    now = START + 65 * MINUTE
    assert refused(bars(PATH[:-1]), now_ms=now) == "horizon_open"
    assert refused(bars([7.0]), now_ms=START + 5 * MINUTE) == "horizon_open"
    fell = bars(PATH[:-1], lows=[1.0, 100.0, 90.0, *[100.0] * 10])
    # Of trades that go on, those that were stopped would be counted alone.
    assert refused(fell, STOP, now_ms=now) == "horizon_open"
    assert refused(fell, STOP) == "no_exit"
    assert refused(fell, withdrawn_at_ms=START + 30 * MINUTE) == "no_exit"
    assert traded(bars(PATH, lows=[1.0, 100.0, 90.0, *[100.0] * 11]), STOP).exit_reason == "stop"


def test_an_exit_may_be_late_by_a_tenth_of_the_horizon() -> None:
    def halted(minutes: int) -> Trade | NoTrade:
        found = bars([100.0], at_ms=START + 5 * MINUTE)
        series = msgspec.structs.replace(
            found, times_ms=[*found.times_ms, START + (5 + 600 + minutes) * MINUTE], opens=[100.0, 90.0]
        )
        return trade_of(order(horizon_s=36_000), series, FREE, now_ms=START + 9 * DAY)

    assert isinstance(halted(60), Trade)
    # The asset was halted: what that trade came to nobody knows, so it is counted apart.
    later = halted(61)
    assert isinstance(later, NoTrade) and later.reason == "no_exit"


def holed(opens: int, *later: tuple[int, float], covered: int = 0) -> PriceSeries:
    """Bars of five minutes at 100, then those given by minute and price; ``covered``: until which minute others have bars."""
    times = [*range(0, opens * 5, 5), *(minute for minute, _ in later)]
    prices = [*[100.0] * opens, *(price for _, price in later)]
    found = bars(prices)
    at = [START + minute * MINUTE for minute in times]
    return msgspec.structs.replace(found, times_ms=at, covered=((START, START + covered * MINUTE),))


def test_who_is_in_a_halted_market_leaves_at_the_first_open_after_the_halt() -> None:
    # The last bar before the halt opens at 00:55, the end would be at 01:05, trading goes on at 03:00.
    found = traded(holed(12, (180, 80.0), (185, 90.0)))
    assert (found.exit_at_ms, found.exit_reason, str(found.profit)) == (START + 180 * MINUTE, "halted", "-200.00")
    # A stop could not be met in it either.
    stopped = traded(holed(12, (180, 80.0), (185, 90.0)), STOP)
    assert (stopped.exit_reason, str(stopped.profit)) == ("halted", "-200.00")
    withdrawn = traded(holed(5, (60, 90.0), (65, 95.0)), withdrawn_at_ms=START + 30 * MINUTE)
    assert (withdrawn.exit_reason, str(withdrawn.profit)) == ("halted", "-100.00")
    assert refused(holed(12, (180, 80.0)), emitted_at_ms=START + 70 * MINUTE) == "halted"


def test_a_market_that_never_opens_again_is_valued_at_its_last_close_and_says_so() -> None:
    series = msgspec.structs.replace(holed(11, covered=600), closes=[*[100.0] * 10, 40.0])
    found = traded(series)
    assert (found.exit_at_ms, found.exit_reason, str(found.profit)) == (START + 50 * MINUTE, "ended", "-600.00")
    # Where no other market has later prices either, nobody knows.
    assert refused(msgspec.structs.replace(series, covered=())) == "no_exit"


def test_overlapping_signals_are_trades_of_their_own() -> None:
    both: list[Order] = [order(case_id=name) for name in ("a", "b")]
    found = [trade_of(one, bars(PATH), FREE, now_ms=LATE) for one in both]
    assert [str(one.profit) for one in found if isinstance(one, Trade)] == ["100.00", "100.00"]
