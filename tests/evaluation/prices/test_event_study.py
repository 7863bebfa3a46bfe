"""The event study: returns around a signal less what the market did, from nothing later than they may know."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import numpy as np
import pytest

from evaluation.compare.inputs import CaseTimes, returns_of
from evaluation.prices.ledger import MarkedTrade, mark_trade
from evaluation.prices.study import (
    BETA_RETURNS,
    OFFSETS_MIN,
    EventPath,
    Group,
    Hourly,
    Point,
    Study,
    StudyEvent,
    betas_before,
    event_paths,
    hourly,
    study_of,
)
from evaluation.prices.trades import TradeRules
from infra.market.outcomes.markets import Markets
from schemas.prices import PriceSeries
from tests.evaluation.prices.price_paths import DAY, MINUTE, START, bars, order

HOUR = 60 * MINUTE
AT = START + 40 * DAY
"""The base of the events: forty days of bars lie before it."""


def event(**fields: Any) -> StudyEvent:
    usual = {"side": 1, "at_ms": AT - MINUTE, "groups": {"verdict": "likely"}}
    return StudyEvent(**(usual | fields))


def two_markets(beta: float = 1.5) -> tuple[PriceSeries, PriceSeries]:
    """Asset and BTC in bars of five minutes: each hour BTC moves and the asset by ``beta`` times that, until an hour before
    the base. Then both stand still, but in the five minutes after the base BTC gains 2 % and the asset 8 %."""
    draw = random.Random(1)
    asset, btc = [100.0], [50_000.0]
    for n in range(1, (AT + 2 * DAY - START) // (5 * MINUTE)):
        at = START + n * 5 * MINUTE
        move = draw.gauss(0, 0.01) if at % HOUR == 0 and at < AT - 2 * HOUR else 0.0
        jump, market = (0.08, 0.02) if at == AT + 5 * MINUTE else (beta * move, move)
        asset.append(asset[-1] * (1 + jump))
        btc.append(btc[-1] * (1 + market))
    return bars(asset, symbol="A/USDT"), bars(btc, symbol="BTC/USDT")


@pytest.fixture(scope="module")
def markets() -> tuple[PriceSeries, PriceSeries]:
    return two_markets()


def path_of(one: StudyEvent, asset: PriceSeries, btc: PriceSeries | None, **how: Any) -> EventPath:
    (found,) = event_paths([one], asset, btc, **how)
    assert isinstance(found, EventPath)
    return found


def beta_before(prices: Hourly, at_ms: int) -> float:
    return float(betas_before(prices, np.array([at_ms]))[0])


def test_the_abnormal_return_is_what_beta_times_the_market_leaves(markets: tuple[PriceSeries, PriceSeries]) -> None:
    path = path_of(event(), *markets)
    base = OFFSETS_MIN.index(0)
    assert not isinstance(path.abnormal, str)
    assert path.raw[: base + 1] == pytest.approx(0) and path.abnormal[: base + 1] == pytest.approx(0)
    assert path.raw[base + 1 :] == pytest.approx(0.08)
    # 0.08 - 1.5 * 0.02
    assert path.abnormal[base + 1 :] == pytest.approx(0.05)


def test_the_market_may_be_a_bar_late_where_the_asset_may_not(markets: tuple[PriceSeries, PriceSeries]) -> None:
    asset, btc = markets
    gone = list(btc.times_ms).index(AT + 10 * MINUTE)
    times, opens = ([*of[:gone], *of[gone + 1 :]] for of in (btc.times_ms, btc.opens))
    path = path_of(event(), asset, msgspec.structs.replace(btc, times_ms=times, opens=opens))
    assert not isinstance(path.abnormal, str)
    assert path.abnormal[OFFSETS_MIN.index(10)] == pytest.approx(0.05)


def test_a_claim_that_lowers_the_price_is_measured_downwards(markets: tuple[PriceSeries, PriceSeries]) -> None:
    down = path_of(event(side=-1), *markets)
    assert not isinstance(down.abnormal, str)
    assert (down.raw[-1], down.abnormal[-1]) == (pytest.approx(-0.08), pytest.approx(-0.05))
    assert path_of(event(side=-1), *markets, directed=False).raw[-1] == pytest.approx(0.08)
    assert path_of(event(side=0), *markets, directed=False).raw[-1] == pytest.approx(0.08)
    assert event_paths([event(side=0), event(at_ms=0)], *markets) == ["neutral", "no_price"]


def test_beta_knows_nothing_of_the_event_nor_of_the_hour_before_it(markets: tuple[PriceSeries, PriceSeries]) -> None:
    asset, btc = markets
    known = (AT - HOUR - START) // (5 * MINUTE)
    invented = [*asset.opens[:known], *(1.0 + n % 7 for n in range(len(asset.opens) - known))]
    other = msgspec.structs.replace(asset, opens=invented)
    was, found = hourly(asset, btc), hourly(other, btc)
    assert was is not None and found is not None
    assert beta_before(was, AT) == pytest.approx(1.5)
    assert beta_before(found, AT) == beta_before(was, AT)
    # An hour later the invented ones are known.
    assert beta_before(found, AT + 2 * HOUR) != pytest.approx(1.5)


def test_beta_needs_two_days_of_hours_and_looks_back_thirty_days(markets: tuple[PriceSeries, PriceSeries]) -> None:
    prices = hourly(*markets)
    assert prices is not None
    enough = START + (BETA_RETURNS + 2) * HOUR
    assert beta_before(prices, enough) == pytest.approx(1.5)
    assert np.isnan(beta_before(prices, enough - HOUR))
    # What lies more than thirty days and an hour before is forgotten.
    early = 10 * DAY // HOUR - 1
    changed = msgspec.structs.replace(prices, asset=np.concatenate([prices.asset[:early][::-1], prices.asset[early:]]))
    assert beta_before(changed, AT) == pytest.approx(1.5)
    assert beta_before(changed, START + 9 * DAY) != pytest.approx(1.5)


def test_hours_without_a_bar_of_both_are_no_returns() -> None:
    asset, btc = two_markets()
    # Only every second hour has bars: no two hours follow each other.
    kept = [n for n, at in enumerate(btc.times_ms) if (at // HOUR) % 2]
    holed = msgspec.structs.replace(btc, times_ms=[btc.times_ms[n] for n in kept], opens=[btc.opens[n] for n in kept])
    assert path_of(event(), asset, holed).abnormal == "no_beta"


def test_without_the_market_or_on_bitcoin_itself_the_raw_return_stands_alone(
    markets: tuple[PriceSeries, PriceSeries],
) -> None:
    asset, btc = markets
    assert path_of(event(), asset, None).abnormal == "no_beta"
    assert path_of(event(), btc, btc).abnormal == "is_benchmark"
    assert path_of(event(), btc, btc).raw[-1] == pytest.approx(0.02)


def test_what_has_no_bars_is_counted_and_what_lacks_some_has_those_that_are_there() -> None:
    assert event_paths([event(), event(side=0)], None, None) == ["no_symbol", "neutral"]
    assert event_paths([event()], bars([1.0]), None) == ["no_price"]
    # Hourly bars cannot stand for minutes, but they can for hours.
    hours = bars([1.0 + n / 10 for n in range(30)], step_ms=HOUR)
    found = path_of(event(at_ms=START + HOUR), hours, None).raw
    there = [m for m, value in zip(OFFSETS_MIN, found, strict=True) if not np.isnan(value)]
    assert there == [-60, 0, 60, 120, 240, 480, 720, 1440]  # not -5, which would be the base
    assert found[0] == pytest.approx(1.0 / 1.1 - 1)


def paths(days: int, draw: random.Random, *, each: int = 5, mean: float = 0.0) -> list[EventPath]:
    """Events whose returns share a day's shock: correlation 0.6 within a day."""
    found = []
    for day in range(days):
        shock = draw.gauss(0, 0.6**0.5)
        for n in range(each):
            value = mean + shock + draw.gauss(0, 0.4**0.5)
            one = event(at_ms=START + day * DAY + n * HOUR, groups={"verdict": "likely" if n % 2 else "confirmed"})
            found.append(EventPath(one, 0, np.full(len(OFFSETS_MIN), value), "no_beta"))
    return found


def point(study: Study, minutes: int = 60, group: int = 0) -> Point:
    return study.groups[group].points[OFFSETS_MIN.index(minutes)]


@pytest.mark.slow
def test_bands_hold_what_they_say_although_events_of_a_day_move_together() -> None:
    covered = by_event = 0
    for seed in range(60):
        made = paths(30, random.Random(seed))
        at = point(study_of(made, dimensions=()))
        assert at.raw_low is not None and at.raw_high is not None
        covered += at.raw_low <= 0 <= at.raw_high
        values = [path.raw[0] for path in made]
        by_event += abs(np.mean(values)) <= 1.96 * np.std(values) / len(values) ** 0.5
    # 57 are expected; as if each event were alone, about 40. docs/profit.md says these.
    assert (covered, by_event) == (58, 38)


def test_five_days_are_too_few_for_a_band_and_a_day_later_needs_blocks_of_two() -> None:
    few = study_of(paths(5, random.Random(1)), dimensions=())
    assert (point(few).blocks, point(few).raw_low, point(few).raw_high) == (5, None, None)
    assert point(few).raw is not None
    more = study_of(paths(10, random.Random(1)), dimensions=())
    assert point(more).raw_low is not None
    # Returns over a day overlap those that begin on the next day.
    assert (point(more, 1440).blocks, point(more, 1440).raw_low) == (5 + START // DAY % 2, None)


def test_groups_have_their_events_and_the_others_are_counted() -> None:
    made = [*paths(7, random.Random(1)), "neutral", "no_price", "neutral"]
    study = study_of(made, dimensions=("verdict", "source"))  # type: ignore[arg-type]
    assert (study.events, study.measured) == (38, 35)
    assert study.left_out == {"neutral": 2, "no_price": 1}
    assert study.raw_only == {"no_beta": 35}

    def named(group: Group) -> tuple[str, str, int, int]:
        return group.dimension, group.name, group.events, group.days

    assert [named(group) for group in study.groups] == [
        ("all", "", 35, 7),
        ("verdict", "confirmed", 21, 7),
        ("verdict", "likely", 14, 7),
        ("source", "", 35, 7),
    ]
    assert (point(study).abnormal_events, point(study).abnormal, point(study).abnormal_low) == (0, None, None)


def test_no_event_is_no_curve() -> None:
    assert study_of([], dimensions=("verdict",)) == Study(events=0, measured=0, left_out={}, raw_only={}, groups=())


@pytest.mark.parametrize("within_s", [600.0, 900.0, 3_600.0])
def test_an_entry_may_be_as_late_as_the_import_says_in_a_trade_a_comparison_and_a_study(within_s: float) -> None:
    # Hourly bars of import 7. The signal is in hand 40 min before a bar, and 15 min before another.
    hours = bars([100.0 + n for n in range(60)], step_ms=HOUR)
    series = msgspec.structs.replace(hours, imports=[7] * 60)
    for minutes, enters in ((40, within_s >= 2_400), (15, within_s >= 900)):
        emitted_ms = START + 2 * HOUR - minutes * MINUTE
        one, within = order(emitted_at_ms=emitted_ms, horizon_s=14_400), {7: within_s}
        rules = TradeRules(latency_s=0.0)
        marked = mark_trade(one, series, rules, now_ms=AT, within_s=within)
        times = {"case": CaseTimes(knowable_ms=emitted_ms, emitted_ms=None, withdrawn_ms=None)}
        compared = returns_of(
            {("case", "A"): [14_400]}, times, Markets([series], ()), now_ms=AT, latency_s=0.0, entry_within_s=within
        )
        (path,) = event_paths([event(at_ms=emitted_ms)], series, None, within_s=within)
        assert isinstance(marked, MarkedTrade) == bool(compared.held) == isinstance(path, EventPath) == enters
        if isinstance(marked, MarkedTrade) and isinstance(path, EventPath):
            assert (marked.trade.first, path.base) == (2, 2)
            assert compared.held["case", "A", 14_400] == pytest.approx(106 / 102 - 1)
            assert path.raw[OFFSETS_MIN.index(240)] == pytest.approx(106 / 102 - 1)
