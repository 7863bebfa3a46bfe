"""Withdrawn signals stay in the sample: how long each order was held, and what its price did, worked out by hand."""

from __future__ import annotations

from typing import Any

import pytest

from infra.clickhouse.client import ClickHouse
from tests.infra.clickhouse.clickhouse_samples import NOW, fill_signals, published, seconds, signal
from tests.infra.clickhouse.test_questions import LIVE, H, ask, outcomes_of, rounded, row_of

LONG = {"action": "buy", "direction": "long"}
SHORT = {"action": "sell", "direction": "short"}
CASES: dict[str, tuple[dict[str, Any], float, float | None]] = {
    # case: what it says, the market's return after an hour, and when it was withdrawn (seconds after the entry)
    "kept": (LONG, 0.02, None),
    "denied": (LONG, -0.05, 600),
    "denied, no bars": (SHORT, -0.04, 600),
    "denied at once": (SHORT, -0.001, -1),
    "denied later": (LONG, 0.001, 7200),
    "lean denied": ({"action": "observe", "direction": "short"}, -0.002, 600),
    "unmoved": (LONG, 0.0, None),
    "stablecoin denied": (LONG, 0.003, 600),
}


@pytest.fixture
async def held(clickhouse: ClickHouse) -> ClickHouse:
    signals, rows = [], []
    for case, (said, change, withdrawn_s) in CASES.items():
        named = {"case_id": case, "signal_id": case, **said}
        calibrated = 0.6 if case == "denied" else None
        signals.append(published(signal(**named, confidence_calibrated=calibrated), emitted_at=NOW - seconds(10)))
        if withdrawn_s is not None:
            gone = signal(**named, revision=2, stage="retracted", confidence=0.0)
            signals.append(published(gone, emitted_at=NOW + seconds(withdrawn_s)))
        symbol = "NONE/USDT" if case == "denied, no bars" else "USDC/USDT"
        depeg = 0.003 if case == "stablecoin denied" else None
        rows.append(row_of(case, change, symbol=symbol, venue="binance", depeg=depeg))
    await fill_signals(clickhouse, *signals)
    await outcomes_of(clickhouse, *rows)
    imports = ("version", "horizons", "removed")
    await clickhouse.insert("price_imports", imports, [(1, [H], 0), (2, [H], 0), (3, [H], 1)])
    bars = [
        (1, "binance", 0, 100.0),
        (1, "binance", 300, 98.0),
        (1, "binance", 599, 150.0),
        (1, "kraken", 600, 150.0),
        (1, "binance", 900, 101.0),
        (2, "binance", 900, 103.0),  # a later import corrects the bar
        (3, "binance", 900, 150.0),  # removed
        (1, "binance", 1200, 150.0),
    ]
    columns = ("version", "symbol", "venue", "open_at", "open")
    opened = [(version, "USDC/USDT", venue, NOW + seconds(after), price) for version, venue, after, price in bars]
    await clickhouse.insert("bars", columns, opened)
    return clickhouse


async def test_a_withdrawn_order_is_held_until_the_first_price_after_its_withdrawal(held: ClickHouse) -> None:
    columns = "case_id, withdrawn, dateDiff('second', entry_at, held_until), held_return, held_hit, moved"
    assert rounded(await ask(held, "v_held_outcomes", columns, LIVE)) == [
        ("denied", 1, 900, 0.03, 1, 0),  # at the horizon it would have lost 5 %
        (
            "denied at once",
            1,
            300,
            0.02,
            1,
            0,
        ),  # short, and 98 was the first price after the entry; 10 bp are not over 10 bp
        ("denied later", 0, H, 0.001, 1, 0),
        ("denied, no bars", 1, H, 0.04, 1, 1),  # no price of its market: held to its end
        ("kept", 0, H, 0.02, 1, 1),
        ("lean denied", 0, None, None, None, 1),  # no order
        ("stablecoin denied", 1, None, None, None, None),
        ("unmoved", 0, H, 0.0, None, 0),
    ]
    counted = await ask(held, "v_judged_outcomes", "case_id", f"{LIVE} AND standing = 'counted'")
    assert counted == [("denied later",), ("kept",)]
    said = await ask(held, "v_held_outcomes", "case_id, confidence_calibrated", f"{LIVE} AND confidence_calibrated > 0")
    assert said == [("denied", 0.6)]


async def test_the_hit_rate_is_shown_without_and_with_withdrawn_orders(held: ClickHouse) -> None:
    columns = "cases, hits, withdrawn_cases, withdrawn_hits, held_cases, held_hits, held_hit_rate, mean_held_return"
    assert rounded(await ask(held, "v_held_hit_rate", columns, LIVE)) == [
        (2, 2, 3, 3, 5, 5, 1.0, round((0.03 + 0.02 + 0.001 + 0.04 + 0.02 + 0.0) / 6, 9))
    ]
