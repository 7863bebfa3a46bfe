"""Stored bars: which one counts where imports overlap, and that an import stands as a whole or not at all."""

from __future__ import annotations

from math import isnan, nan
from typing import Any

from infra.clickhouse.client import ClickHouse
from infra.market.outcomes.bars import (
    PriceImport,
    delete_bars,
    next_version,
    standing_imports,
    stored_bars,
    times_covered,
    write_bars,
    write_import,
)
from schemas.prices import HORIZONS_S, PriceSeries, Renaming

T0 = 1_700_000_000_000
STEP = 300_000


def series(prices: dict[int, float], symbol: str = "BTC/USDT", venue: str = "") -> PriceSeries:
    """``prices``: open by number of the bar."""
    opens = list(prices.values())
    return PriceSeries(
        symbol=symbol,
        venue=venue,
        times_ms=[T0 + n * STEP for n in prices],
        opens=opens,
        highs=[p + 2 for p in opens],
        lows=[p - 2 for p in opens],
        closes=[p + 1 for p in opens],
        volumes=[nan if p == 7 else p * 10 for p in opens],
    )


async def stand(client: ClickHouse, *of: PriceSeries, **fields: Any) -> PriceImport:
    version = await next_version(client)
    await write_bars(client, version, of)
    given: dict[str, Any] = {
        "version": version,
        "source": f"csv:{version}.csv",
        "imported_ms": T0,
        "bars": sum(len(s.opens) for s in of),
        "markets": tuple(s.symbol for s in of),
        "covers": ((T0, T0 + 9 * STEP),),
        "entry_within_s": 900.0,
        "horizons_s": HORIZONS_S,
        **fields,
    }
    found = PriceImport(**given)
    await write_import(client, found)
    return found


def bars(one: PriceSeries) -> dict[int, float]:
    return {(t - T0) // STEP: o for t, o in zip(one.times_ms, one.opens, strict=True)}


async def test_the_bar_that_counts_is_that_of_the_newest_import_that_stands(clickhouse: ClickHouse) -> None:
    await stand(clickhouse, series({0: 1.0, 1: 2.0, 2: 3.0}))
    newer = await stand(clickhouse, series({1: 20.0, 3: 40.0}), covers=((T0 + 5, T0 + 6), (T0 + 7, T0 + 8)))
    (found,) = await stored_bars(clickhouse)
    assert bars(found) == {0: 1.0, 1: 20.0, 2: 3.0, 3: 40.0}
    assert list(found.imports) == [1, 2, 1, 2]
    assert found.covered == [(T0, T0 + 9 * STEP), (T0 + 5, T0 + 6), (T0 + 7, T0 + 8)]
    await write_import(clickhouse, newer, removed_ms=T0)
    (found,) = await stored_bars(clickhouse)
    assert (bars(found), found.covered) == ({0: 1.0, 1: 2.0, 2: 3.0}, [(T0, T0 + 9 * STEP)])
    assert (await clickhouse.query("SELECT open, version FROM v_bars ORDER BY open_at")).rows == [
        (1, 1),
        (2, 1),
        (3, 1),
    ]


async def test_a_bar_comes_back_as_it_was_written(clickhouse: ClickHouse) -> None:
    await stand(clickhouse, series({0: 5.0, 1: 7.0}, "ETH/USD", "kraken"))
    (found,) = await stored_bars(clickhouse)
    assert (found.symbol, found.venue) == ("ETH/USD", "kraken")
    assert (list(found.highs), list(found.lows), list(found.closes)) == ([7.0, 9.0], [3.0, 5.0], [6.0, 8.0])
    assert found.volumes[0] == 50.0 and isnan(found.volumes[1])
    assert (await clickhouse.query("SELECT asset, volume FROM v_bars ORDER BY open_at")).rows == [
        ("ETH", 50),
        ("ETH", None),
    ]


async def test_bars_are_found_by_market_and_time(clickhouse: ClickHouse) -> None:
    await stand(clickhouse, series({0: 1.0, 1: 2.0}), series({0: 3.0}, "ETH/USDT"), series({5: 4.0}, venue="okx"))
    both = await stored_bars(clickhouse, symbols=["BTC/USDT"])
    assert [(s.venue, bars(s)) for s in both] == [("", {0: 1.0, 1: 2.0}), ("okx", {5: 4.0})]
    found = await stored_bars(clickhouse, since_ms=T0 + 1, until_ms=T0 + 5 * STEP)
    assert [(s.symbol, bars(s)) for s in found] == [("BTC/USDT", {1: 2.0})]
    assert await stored_bars(clickhouse, symbols=[]) == []


async def test_an_import_that_was_not_finished_counts_for_nothing_and_its_number_is_not_given_again(
    clickhouse: ClickHouse,
) -> None:
    first = await stand(clickhouse, series({0: 1.0}))
    await write_bars(clickhouse, 2, [series({0: 9.0})])
    (found,) = await stored_bars(clickhouse)
    assert bars(found) == {0: 1.0}
    assert await next_version(clickhouse) == 3
    await delete_bars(clickhouse, [2])
    await write_import(clickhouse, first, removed_ms=T0)
    assert (await next_version(clickhouse), await stored_bars(clickhouse)) == (2, [])


async def test_an_import_keeps_what_it_was_asked_with(clickhouse: ClickHouse) -> None:
    row = Renaming(asset="MATIC", symbol="POL/USDT", from_ms=T0)
    given = await stand(clickhouse, series({0: 1.0}), maps=(row,), horizons_s=(300, 604800), cases_from_ms=5)
    assert await standing_imports(clickhouse) == [given]
    assert [row for one in await standing_imports(clickhouse) for row in one.maps] == [row]


def test_the_time_covered_is_that_of_all_markets_together_without_their_holes() -> None:
    first, other = (
        series(dict.fromkeys(range(20), 1.0)),
        series(dict.fromkeys([*range(15, 40), *range(90, 95)], 1.0), "ETH/USDT"),
    )
    assert times_covered([first, other]) == ((T0, T0 + 39 * STEP), (T0 + 90 * STEP, T0 + 94 * STEP))
    days = series(dict.fromkeys((0, 288, 576, 864, 288 * 9, 288 * 10), 1.0))
    assert times_covered([days]) == ((T0, T0 + 864 * STEP), (T0 + 288 * 9 * STEP, T0 + 288 * 10 * STEP))
    assert times_covered([series({7: 1.0})]) == ((T0 + 7 * STEP, T0 + 7 * STEP),)
    assert times_covered([]) == ()
