"""Returns after a case: which price is the entry's, which the exit's, and why there is none."""

from __future__ import annotations

from array import array
from datetime import UTC, datetime

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.market.outcomes.markets import Markets, market_symbol, renaming
from infra.market.outcomes.returns import measure, price
from schemas.errors import ConfigError
from schemas.prices import HORIZONS_S, Drop, JudgedCase, Outcome, PriceSeries

T0 = 1_700_000_000_000 - 1_700_000_000_000 % 300_000
"""A full five minutes, in milliseconds since 1970."""
MINUTE = 60_000
NEVER = T0 * 2


def case(knowable_at_ms: int = T0, **fields: str) -> JudgedCase:
    return JudgedCase(
        **{"case_id": "c", "asset": "BTC", "symbol": "", "venue": "", "knowable_at_ms": knowable_at_ms, **fields}
    )  # type: ignore[arg-type]


def series(bars: dict[int, float], symbol: str = "BTC/USDT", venue: str = "") -> PriceSeries:
    """``bars``: price by minutes after T0."""
    times = sorted(bars)
    opens = array("d", (bars[t] for t in times))
    return PriceSeries(symbol=symbol, venue=venue, times_ms=array("q", (T0 + t * MINUTE for t in times)), opens=opens)


def by_horizon(of: JudgedCase, prices: PriceSeries | None, *, now_ms: int = NEVER) -> dict[int, float | str]:
    found = measure(of, prices, now_ms=now_ms)
    return {m.horizon_s: round(m.change, 9) if isinstance(m, Outcome) else m.reason for m in found}


DAY = {0: 100.0, 5: 101.0, 60: 98.0, 240: 110.0, 1440: 50.0}


def test_returns_are_those_from_the_entry_to_the_first_price_at_each_horizon() -> None:
    # 101/100-1, 98/100-1, 110/100-1, 50/100-1
    assert by_horizon(case(), series(DAY)) == {300: 0.01, 3600: -0.02, 14400: 0.1, 86400: -0.5}


def test_horizons_count_from_the_entry_not_from_the_news() -> None:
    prices = series({0: 1.0, 5: 100.0, 10: 102.0, 65: 103.0, 245: 104.0, 1445: 105.0})
    late = case(T0 + 1)  # a millisecond after the bar opened: the next one is the entry
    assert by_horizon(late, prices) == {300: 0.02, 3600: 0.03, 14400: 0.04, 86400: 0.05}


@given(
    opens=st.lists(st.integers(-2000, 3000), min_size=0, max_size=60, unique=True),
    knowable=st.integers(-3_000_000, 3_000_000),
)
def test_a_planted_price_from_before_the_news_was_knowable_is_never_used(opens: list[int], knowable: int) -> None:
    prices = series({minute: 100.0 + minute / 1000 for minute in opens})
    at = T0 + knowable
    poisoned = PriceSeries(
        symbol=prices.symbol,
        venue="",
        times_ms=prices.times_ms,
        opens=[1e9 if t < at else o for t, o in zip(prices.times_ms, prices.opens, strict=True)],
    )
    found = list(measure(case(at), poisoned, now_ms=NEVER))
    assert [m.horizon_s for m in found] == list(HORIZONS_S)
    for one in found:
        if isinstance(one, Outcome):
            assert one.entry_at_ms >= at and one.exit_at_ms >= one.entry_at_ms + one.horizon_s * 1000
            assert one.entry_price != 1e9 and one.exit_price != 1e9
    assert found == list(measure(case(at), prices, now_ms=NEVER))


def test_prices_that_end_before_the_exit_or_begin_long_after_the_news_are_no_price() -> None:
    assert by_horizon(case(), series({0: 100.0, 5: 101.0})) == {
        300: 0.01,
        **dict.fromkeys((3600, 14400, 86400), "no_price"),
    }
    assert set(by_horizon(case(), series({16: 1.0, 21: 1.0})).values()) == {"no_price"}
    assert set(by_horizon(case(), series({})).values()) == {"no_price"}


def test_a_hole_at_the_entry_or_at_the_exit_is_a_gap() -> None:
    assert set(by_horizon(case(), series({-5: 1.0, 16: 1.0, 21: 1.0})).values()) == {"gap"}
    # After an hour the price may be six minutes late, after five minutes one.
    holed = series({0: 100.0, 7: 101.0, 67: 102.0, 300: 103.0, 1500: 104.0, 1600: 105.0})
    assert by_horizon(case(), holed) == {300: "gap", 3600: "gap", 14400: "gap", 86400: 0.04}
    assert by_horizon(case(), series({0: 100.0, 6: 101.0, 66: 102.0, 264: 103.0}))[3600] == 0.02


def test_a_horizon_that_is_not_over_is_told_apart_from_prices_that_are_missing() -> None:
    now = T0 + 90 * MINUTE
    assert by_horizon(case(), series({0: 100.0, 5: 101.0, 60: 98.0}), now_ms=now) == {
        300: 0.01,
        3600: -0.02,
        14400: "horizon_open",
        86400: "horizon_open",
    }
    assert set(by_horizon(case(), series({-5: 1.0}), now_ms=T0 + MINUTE).values()) == {"horizon_open"}


def minutes(*spans: tuple[int, int], step: int = 1, price: float = 100.0) -> dict[int, float]:
    """A bar every ``step`` minutes over the spans of minutes, each ``price`` and a thousandth of its minute."""
    return {t: price + t / 1000 for first, last in spans for t in range(first, last + 1, step)}


def covered(prices: PriceSeries, minute: int) -> PriceSeries:
    return msgspec.structs.replace(prices, covered=[(T0 - 60 * MINUTE, T0 + minute * MINUTE)])


def test_a_halt_is_held_to_the_first_price_after_it() -> None:
    prices = series(minutes((-30, 50), (200, 1600)))
    hour, day = (m for m in measure(case(), prices, now_ms=NEVER) if m.horizon_s in (3600, 86400))
    assert isinstance(hour, Outcome) and hour.halted
    assert (hour.exit_at_ms, hour.exit_price) == (T0 + 200 * MINUTE, 100.2)
    assert isinstance(day, Outcome) and not day.halted


def test_a_market_that_ended_while_others_went_on_is_left_at_its_last_price() -> None:
    prices = msgspec.structs.replace(series(minutes((-30, 50))), closes=[*[1.0] * 80, 0.25])
    known = [m for m in measure(case(), covered(prices, 300), now_ms=NEVER) if isinstance(m, Outcome)]
    assert [(m.horizon_s, m.halted, m.exit_price) for m in known] == [
        (300, False, 100.005),
        (3600, True, 0.25),
        (14400, True, 0.25),
    ]  # after 24 hours nothing is known of the others either
    elsewhere = msgspec.structs.replace(
        prices, covered=[(T0, T0 + 50 * MINUTE), (T0 + 230 * MINUTE, T0 + 900 * MINUTE)]
    )
    assert by_horizon(case(), elsewhere)[3600] == "no_price"  # the others have no prices of that time either
    assert by_horizon(case(), elsewhere)[14400] != "no_price"
    alone = by_horizon(case(), covered(prices, 50))
    assert alone[3600] == alone[14400] == "no_price"


def test_nobody_enters_a_halted_market() -> None:
    prices = series(minutes((-30, -2), (100, 1700)))
    assert set(by_horizon(case(), prices).values()) == {"halted"}


@pytest.mark.parametrize(
    ("bars", "why"),
    [
        (minutes((-30, 58), (69, 1600)), "eleven minutes without a trade"),
        (minutes((-30, 50), (50 + 7 * 1440 + 1, 50 + 7 * 1440 + 60)), "the prices of another time"),
        (minutes((-2, 50), (200, 1600), step=50), "bars that are too far apart to answer"),
        ({0: 1.0, 50: 1.0, 200: 1.0}, "too few bars to say what is usual"),
    ],
)
def test_a_hole_that_is_no_halt_is_a_gap(bars: dict[int, float], why: str) -> None:
    assert by_horizon(case(), series(bars))[3600] == "gap", why


def test_a_stablecoin_has_the_farthest_that_it_was_from_its_peg_while_the_claim_was_held() -> None:
    prices = series(dict.fromkeys(range(-10, 70), 1.0), "USDC/USDT")
    lows = [0.5 if t < 0 else 0.97 if t == 3 else 0.9 if t == 60 else 0.999 for t in range(-10, 70)]
    prices = msgspec.structs.replace(prices, lows=lows, highs=[1.004] * 80)
    found = {m.horizon_s: m.depeg for m in measure(case(asset="usdc"), prices, now_ms=NEVER) if isinstance(m, Outcome)}
    assert found == {
        300: pytest.approx(0.03),
        3600: pytest.approx(0.03),
    }  # what came before, and after the exit, is not in it
    other = next(measure(case(), msgspec.structs.replace(prices, symbol="BTC/USDT"), now_ms=NEVER))
    assert isinstance(other, Outcome) and other.depeg is None
    euros = next(measure(case(asset="USDC"), msgspec.structs.replace(prices, symbol="USDC/EUR"), now_ms=NEVER))
    assert isinstance(euros, Outcome) and euros.depeg is None


def test_an_entry_may_be_as_late_as_the_import_of_its_bar_says() -> None:
    prices = msgspec.structs.replace(series({10: 1.0, 20: 1.0, 25: 2.0}), imports=[1, 2, 2])
    assert next(measure(case(), prices, now_ms=NEVER, horizons_s=(300,), entry_within_s={1: 60, 2: 3600})) == Drop(
        case_id="c", horizon_s=300, asset="BTC", reason="no_price"
    )
    (found,) = measure(case(T0 + 11 * MINUTE), prices, now_ms=NEVER, horizons_s=(300,), entry_within_s={1: 60, 2: 3600})
    assert isinstance(found, Outcome) and (found.change, found.entry_import, found.exit_import) == (1.0, 2, 2)


def test_live_news_is_entered_when_its_signal_was_emitted() -> None:
    prices = series({0: 1.0, 1: 100.0, 6: 101.0})
    live = msgspec.structs.replace(case(), emitted_at_ms=T0 + 1)
    assert by_horizon(live, prices)[300] == 0.01


def test_one_case_is_priced_at_any_time_and_after_any_horizon() -> None:
    markets = Markets([series(minutes((0, 700))), series(DAY, "ETH/USDT")])
    found = price(markets, case(T0 - 1), 600 * 60, entry_ms=T0 + 1, now_ms=NEVER)
    assert isinstance(found, Outcome)
    assert (found.entry_at_ms, found.exit_at_ms) == (T0 + MINUTE, T0 + 601 * MINUTE)
    assert found.change == pytest.approx(100.601 / 100.001 - 1)
    missing = price(markets, case(asset="SOL"), 60, entry_ms=T0, now_ms=NEVER)
    assert missing == Drop(case_id="c", horizon_s=60, asset="SOL", reason="no_symbol")


def test_without_a_market_there_is_a_drop_for_every_horizon() -> None:
    drops = list(measure(case(), None, now_ms=NEVER))
    assert drops == [Drop(case_id="c", horizon_s=h, asset="BTC", reason="no_symbol") for h in HORIZONS_S]


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("BTC/USDT", "BTC/USDT"),
        ("btc-usd", "BTC/USD"),
        ("ETH_USDC", "ETH/USDC"),
        ("BTCUSDT", "BTC/USDT"),
        ("1000PEPEUSDT", "1000PEPE/USDT"),
        ("ETH/BTC", "ETH/BTC"),
        ("BTC/USDT:USDT", "BTC/USDT:USDT"),
    ],
)
def test_a_market_is_known_in_the_ways_that_exchanges_write_it(written: str, meant: str) -> None:
    assert market_symbol(written) == meant


@pytest.mark.parametrize("written", ["", "BTC", "/USDT", "USDT", "BTC/", "bitcoin against dollars", "BTC/USDT/X"])
def test_what_names_no_market_is_refused_with_an_example(written: str) -> None:
    with pytest.raises(ConfigError, match="such as BTC/USDT"):
        market_symbol(written)


def test_an_asset_is_measured_in_dollars_and_the_dollar_of_the_deepest_market_first() -> None:
    prices = [series(DAY, symbol) for symbol in ("BTC/EUR", "BTC/USDC", "BTC/USD", "ETH/BTC")]
    found = Markets(prices).of(case())
    assert found is not None and found.symbol == "BTC/USD"
    assert Markets(prices).of(case(asset="ETH")) is None  # in bitcoins: that mixes in what bitcoin did
    assert Markets(prices).of(case(symbol="ETH/BTC", asset="ETH")) is prices[3]  # the signal names it itself


@pytest.mark.parametrize("asset", ["", "crypto", "UNKNOWN", "比特币", "A VERY LONG NAME INDEED"])
def test_an_asset_that_is_no_ticker_is_mapped_to_nothing(asset: str) -> None:
    assert Markets([series(DAY, "CRYPTO/USDT")]).of(case(asset=asset)) is None


def test_a_renamed_asset_is_measured_by_the_market_that_was_named_for_it() -> None:
    markets = Markets([series(DAY, "USTC/USDT"), series(DAY, "UST/USDT")], [renaming("ust=USTCUSDT")])
    found = markets.of(case(asset="UST"))
    assert found is not None and found.symbol == "USTC/USDT"


def test_a_renaming_holds_from_its_day_on_and_until_its_end() -> None:
    day = datetime.fromtimestamp(T0 / 1000, UTC).isoformat()
    prices = [series(DAY, "POL/USDT"), series(DAY, "MATIC/USDT")]

    def at(ms: int, *rows: str) -> str:
        found = Markets(prices, map(renaming, rows)).of(case(ms, asset="MATIC"))
        return "" if found is None else found.symbol

    assert at(T0 - 1, f"MATIC=POL/USDT@{day}") == "MATIC/USDT"
    assert at(T0, f"MATIC=POL/USDT@{day}") == "POL/USDT"
    assert at(T0, f"MATIC=POL/USDT@..{day}") == "MATIC/USDT"
    assert at(T0 - 1, f"MATIC=POL/USDT@2020-01-01..{day}") == "POL/USDT"
    assert at(T0, "MATIC=OLD/USDT@2020-01-01", f"MATIC=POL/USDT@{day}") == "POL/USDT"  # the row that begins last


@pytest.mark.parametrize(
    ("written", "says"),
    [
        ("UST", "write ASSET=BASE/QUOTE"),
        ("=UST/USDT", "write ASSET=BASE/QUOTE"),
        ("UST=USTC/USDT@", "write ASSET=BASE/QUOTE"),
        ("UST=USTC/USDT@May", "'May' is no date"),
        ("UST=USTC/USDT@2024-01-02..2024-01-01", "ends before it begins"),
        ("UST=USTC", "names no market"),
    ],
)
def test_a_renaming_that_is_not_understood_is_refused(written: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        renaming(written)


def test_of_several_venues_the_one_imported_last_measures_but_only_where_it_trades_at_the_entry() -> None:
    older, newer = series(DAY, venue="a"), series(DAY, venue="b")
    older, newer = (msgspec.structs.replace(s, imports=[n] * 5) for n, s in ((1, older), (2, newer)))
    assert Markets([older, newer]).of(case()) is newer
    ended = msgspec.structs.replace(series({-5: 1.0}, venue="b"), imports=[2])
    assert Markets([older, ended]).of(case()) is older


def test_a_signal_that_names_its_venue_is_measured_there_only() -> None:
    prices = [series(DAY, venue="kraken"), series(DAY, venue="binance")]
    assert Markets(prices).of(case(venue="Binance")) is prices[1]
    assert Markets(prices).of(case(venue="okx")) is None
