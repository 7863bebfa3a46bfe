"""Import, remove, import again, in any order: the tables hold exactly what the imports that are left give alone."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from math import nan
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from infra.clickhouse.client import ClickHouse
from infra.market.outcomes.bar_files import PriceFile
from infra.market.outcomes.markets import renaming
from newsproof.app.invocation import Invocation
from newsproof.cli.measure import price_imports
from newsproof.cli.measure.price_imports import CaseSelection
from schemas.prices import PriceSeries
from tests.infra.clickhouse.clickhouse_samples import NOW, fill_signals, published, seconds, signal

T0 = round(NOW.timestamp() * 1000)


def bars(prices: dict[float, float], symbol: str, venue: str = "") -> PriceSeries:
    """``prices``: by minutes after NOW."""
    opens = list(prices.values())
    return PriceSeries(
        symbol=symbol,
        venue=venue,
        times_ms=[T0 + round(at * 60_000) for at in prices],
        opens=opens,
        highs=[p * 1.1 for p in opens],
        lows=[p * 0.9 for p in opens],
        closes=opens,
        volumes=[nan] * len(opens),
    )


def day(step: float, times: float, first: float = -30) -> dict[float, float]:
    count = round((1500 - first) / step)
    return {first + n * step: times * (100 + (n * 7919) % 13) for n in range(count)}


IMPORTS: Sequence[tuple[str, list[PriceSeries], CaseSelection]] = [
    ("csv:a.csv", [bars(day(30, 1), "BTC/USDT"), bars(day(5, 1), "POL/USDT")], CaseSelection(entry_within_s=3600)),
    (
        "csv:b.csv",
        [bars(day(5, 2), "BTC/USDT"), bars(day(5, 0.01), "USDC/USD")],
        CaseSelection(horizons_s=(300, 604_800)),
    ),
    # Shifted by a minute, on another venue, and for the later cases alone.
    ("csv:c.csv", [bars(day(5, 3, -29), "BTC/USDT"), bars(day(5, 3), "BTC/USDT", "okx")], CaseSelection(since=NOW)),
    ("csv:a.csv", [bars({0: 7.0, 5: 8.0, 60: 9.0}, "BTC/USDT")], CaseSelection()),
    (
        "csv:d.csv",
        [bars(day(5, 1) | {2000: 1.0}, "MATIC/USDT")],
        CaseSelection(renamed=(renaming(f"MATIC=POL/USDT@{(NOW + timedelta(minutes=10)).isoformat()}"),)),
    ),
]


async def make(number: int) -> int:
    source, series, selection = IMPORTS[number]
    file = PriceFile(series=tuple(series), bars=sum(len(s.opens) for s in series), source=source)
    return (await price_imports.import_file(Invocation(), file, selection)).version


async def found(client: ClickHouse) -> tuple[list[Any], list[Any]]:
    """Both tables, each import by its place among those that stand."""
    standing = await client.query("SELECT version FROM price_imports FINAL WHERE NOT removed ORDER BY version")
    place = {0: -1, **{row[0]: n for n, row in enumerate(standing.rows)}}
    columns = "case_id, horizon_s, asset, symbol, venue, entry_at, entry_price, exit_at, exit_price, return, halted, depeg, source"
    kept = await client.query(
        f"SELECT entry_import, exit_import, {columns} FROM outcomes FINAL ORDER BY case_id, horizon_s"
    )
    drops = await client.query(
        "SELECT case_id, horizon_s, asset, reason, source FROM outcome_drops FINAL ORDER BY case_id, horizon_s"
    )
    return [(place[entry], place[left], *row) for entry, left, *row in kept.rows], drops.rows


async def clear(client: ClickHouse) -> None:
    for table in ("bars", "price_imports", "outcomes", "outcome_drops"):
        await client.command(f"TRUNCATE TABLE {table}")


@pytest.fixture
async def tables(clickhouse: ClickHouse, monkeypatch: pytest.MonkeyPatch) -> ClickHouse:
    @asynccontextmanager
    async def same(_: Invocation) -> Any:
        yield clickhouse

    monkeypatch.setattr(price_imports, "_tables", same)
    cases = [(asset, after) for asset in ("BTC", "MATIC", "USDC", "crypto") for after in (-60, 60, 780)]
    await fill_signals(
        clickhouse,
        *(
            published(
                signal(
                    signal_id=f"{asset}{after}",
                    case_id=f"{asset}{after}",
                    asset=asset,
                    published_at=NOW + seconds(after),
                )
            )
            for asset, after in cases
        ),
    )
    return clickhouse


@pytest.mark.slow
@given(
    steps=st.lists(
        st.one_of(st.integers(0, len(IMPORTS) - 1), st.sampled_from(["csv:a.csv", "csv:b.csv", "1", "2", "3"])),
        max_size=7,
    )
)
@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
async def test_the_tables_hold_what_the_imports_that_stand_give_alone(
    tables: ClickHouse, steps: list[int | str]
) -> None:
    await clear(tables)
    standing: dict[int, int] = {}
    for step in steps:
        if isinstance(step, int):
            standing[await make(step)] = step
        elif gone := [v for v, n in standing.items() if step in (str(v), IMPORTS[n][0])]:
            assert (await price_imports.remove_imports(Invocation(), step)).versions == tuple(gone)
            standing = {v: n for v, n in standing.items() if v not in gone}
    after = await found(tables)
    await clear(tables)
    for number in standing.values():
        await make(number)
    assert after == await found(tables)
    if standing:
        assert after != ([], [])


@pytest.mark.slow
async def test_these_imports_do_hide_each_other(tables: ClickHouse) -> None:
    seen = []
    for number in range(len(IMPORTS)):
        await make(number)
        seen.append(await found(tables))
    assert all(one != other for n, one in enumerate(seen) for other in seen[:n])
    kept, drops = seen[-1]
    assert {row[-1] for row in kept} > {"csv:a.csv", "csv:b.csv"} and {row[-2] is None for row in kept} == {True, False}
    assert {row[3] for row in drops} >= {"no_symbol", "no_price"}
