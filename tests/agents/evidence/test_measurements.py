"""What figures say of a claim, whatever the press says."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from agents.evidence import Claim
from agents.evidence.measurements import Measurement, claimed_deviation, measured, measurements_of
from schemas.evidence import MarketValue

NOW = datetime(2024, 6, 3, 10, tzinfo=UTC)


def claim(text: str = "USDC depegs to 0.90", event_type: str = "depeg", asset: str = "USDC") -> Claim:
    return Claim(text=text, language="en", event_type=event_type, asset=asset, as_of=NOW)


def price(usd: float, venue: str = "kraken", minutes: float = 0, **marks: Any) -> Measurement:
    at = NOW + timedelta(minutes=minutes)
    return Measurement(**{"kind": "price", "venue": venue, "at": at, "asset": "USDC", "price_usd": usd} | marks)


def liquidated(usd: float, minutes: float = 0) -> Measurement:
    at = NOW + timedelta(minutes=minutes)
    return Measurement(kind="liquidation", venue="all", at=at, total_usd=usd)


WINDOW = [price(0.998 + 0.002 * (n % 3), minutes=30 * n - 90) for n in range(5)]


def test_a_depeg_is_confirmed_by_half_the_claimed_deviation_at_two_venues_within_two_hours() -> None:
    rows = [
        ([price(0.91), price(0.93, "binance")], "confirms"),
        ([price(0.95), price(0.95, "binance")], "confirms"),
        ([price(0.951), price(0.951, "binance")], None),
        ([price(0.91)], None),
        ([price(0.91), price(0.92, minutes=5)], None),
        ([price(0.91), price(0.92, "Kraken")], None),
        ([price(0.91), price(1.00, "binance")], None),
        ([price(0.91, minutes=-120), price(0.91, "binance", 120)], "confirms"),
        ([price(0.91, minutes=-121), price(0.91, "binance")], None),
        ([price(0.91), price(0.91, "binance", 121)], None),
        ([price(0.91), price(0.91, "binance", asset="DAI")], None),
        ([price(0.91, asset="usdc"), price(0.91, "binance", asset="")], "confirms"),
        ([], None),
    ]
    assert [(prices, found) for prices, expected in rows if (found := measured(claim(), prices)) != expected] == []


def test_a_claim_without_a_figure_needs_one_percent() -> None:
    of = claim("USDC loses its peg")
    assert measured(of, [price(0.99), price(1.01, "binance")]) == "confirms"
    assert measured(of, [price(0.991), price(0.991, "binance")]) is None
    # Half of a small claimed deviation is still one percent.
    assert measured(claim("USDC slips to 0.99"), [price(0.994), price(0.994, "binance")]) is None


def test_a_full_window_within_half_a_percent_contradicts() -> None:
    assert measured(claim(), WINDOW) == "contradicts"
    assert measured(claim(), [*WINDOW, price(0.995, "binance")]) == "contradicts"
    assert measured(claim(), [*WINDOW, price(0.994, "binance")]) is None


@pytest.mark.parametrize(
    "prices",
    [
        [price(1.0)],
        [price(1.0), price(1.0, "binance"), price(1.0, "coinbase")],
        [price(1.0, minutes=-60), price(1.0)],
        [price(1.0, minutes=-120), price(1.0, minutes=-50), price(1.0, minutes=20)],
        WINDOW[1:],
        [price(1.0, asset="DAI", minutes=30 * n - 90) for n in range(5)],
    ],
)
def test_a_single_price_or_a_window_with_a_gap_never_contradicts(prices: list[Measurement]) -> None:
    assert measured(claim(), prices) is None


def test_a_figure_shortly_before_the_window_stands_for_its_beginning() -> None:
    quarters = [price(1.0, venue, minutes=-15 * n - 5) for n in range(16) for venue in ("kraken", "binance")]
    assert measured(claim(), quarters) == "contradicts"
    assert measured(claim(), quarters[:16]) is None
    # It confirms nothing itself, and one off the peg leaves the window unproven.
    moved = [price(0.9, venue, minutes=-130) for venue in ("kraken", "binance")]
    assert measured(claim(), [*quarters, *moved]) is None


def read(
    low: float, high: float, *, source: str = "coinbase", unit: str = "USD", candles: int = 24
) -> list[MarketValue]:
    """What the price tool brings of one venue."""
    named = {"price": (high, unit), "price_low_2h": (low, unit), "price_high_2h": (high, unit)}
    named["candles_2h"] = (candles, "of 24")
    at = NOW - timedelta(minutes=3)
    return [MarketValue(name=n, value=v, unit=u, source=source, observed_at=at) for n, (v, u) in named.items()]


BINANCE = {"source": "binance", "unit": "USDT"}


@pytest.mark.parametrize(
    ("asset", "values", "expected"),
    [
        ("USDC", [*read(0.91, 1.0), *read(0.92, 1.0, **BINANCE)], "confirms"),
        ("USDC", read(0.91, 1.0), None),
        ("USDC", read(0.996, 1.004), "contradicts"),
        ("usdc", read(0.996, 1.004, candles=20), "contradicts"),
        ("USDC", read(0.996, 1.004, candles=19), None),
        ("USDC", read(0.996, 1.006), None),
        ("USDC", [*read(0.996, 1.004), *read(0.99, 1.0, **BINANCE)], None),
        ("USDC", read(0.996, 1.004)[:1], None),
        ("USDC", read(0.996, 1.004, **BINANCE), None),
        ("USDT", [*read(0.91, 1.0), *read(0.91, 1.0, **BINANCE)], None),
        ("USDT", [*read(0.999, 1.0), *read(0.91, 1.0, **BINANCE)], "contradicts"),
        ("USDC", [*read(0.91, 1.0), *read(0.91, 1.0, source="x", unit="EUR")], None),
        ("WBTC", [*read(60000, 61000), *read(60000, 61000, **BINANCE)], None),
        ("UNKNOWN", [*read(0.91, 1.0), *read(0.92, 1.0, **BINANCE)], None),
        ("USDC", [], None),
    ],
)
def test_what_the_price_tool_read_is_measured_by_venue_and_unit(
    asset: str, values: list[MarketValue], expected: str | None
) -> None:
    of = claim("it fell to $0.90", asset=asset)
    assert measured(of, measurements_of(values, of)) == expected


def test_a_price_of_nothing_at_all_is_a_price() -> None:
    assert measured(claim(), measurements_of(read(0.0, 1.0), claim())) is None
    assert measured(claim(), [price(0.0), price(0.0, "binance")]) == "confirms"


def test_a_figure_of_another_kind_or_of_another_time_says_nothing() -> None:
    of = claim("$300 million liquidated in one hour", "liquidation", "USDC")
    assert measured(of, measurements_of(read(0.91, 1.0), of)) is None
    of = claim("$300 million liquidated in one hour", "liquidation", "BTC")
    assert measured(of, [liquidated(9e9, minutes=-121), liquidated(9e9, minutes=121)]) is None
    assert measured(of, [price(150e6)]) is None
    figures = [price(0.5), price(0.5, "binance"), liquidated(9e9)]
    assert measured(claim("USDC hacked for $1 million", "hack"), figures) is None
    assert measured(claim(), [liquidated(9e9)]) is None


def test_a_liquidation_is_confirmed_by_half_its_total_and_never_contradicted() -> None:
    expected = {
        ("$300 million liquidated in one hour", 150e6): "confirms",
        ("$300 million liquidated in one hour", 149e6): None,
        ("1 小时爆仓 3 亿美元", 1.5e8): "confirms",
        ("1 小时爆仓 3 亿美元", 1.4e8): None,
        ("全网大额爆仓", 9e9): None,
    }
    assert {
        (text, total): measured(claim(text, "liquidation", "BTC"), [liquidated(total)]) for text, total in expected
    } == expected


@pytest.mark.parametrize(
    ("text", "deviation"),
    [
        ("USDC falls to $0.87", 0.13),
        ("USDC 跌至 0.87 美元", 0.13),
        ("USDC 跌至 0.87 美元", 0.13),
        ("USDC trades at .95", 0.05),
        ("USDC at 95 cents", 0.05),
        ("USDC 跌至 95 美分", 0.05),
        ("USDC is 5% off its peg", 0.05),
        ("USDC 脱锚 5%", 0.05),
        ("USDC at $0.87, and 40% of its reserves are stuck", 0.13),
        ("USDC falls from 0.99 to 0.90", 0.10),
        ("USDC loses its peg", 0.0),
        ("USDC trades at 12.5", 0.0),
        ("USDC loses its peg by 500%", 0.0),
    ],
)
def test_the_claimed_deviation_is_read_from_prices_cents_and_shares(text: str, deviation: float) -> None:
    assert claimed_deviation(text) == pytest.approx(deviation)
