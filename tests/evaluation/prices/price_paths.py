"""Bars of made-up markets, as the tests of trades and of the event study want them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from evaluation.prices.trades import Order
from schemas.prices import PriceSeries

DAY = 86_400_000
MINUTE = 60_000
START = int(datetime(2026, 3, 2, tzinfo=UTC).timestamp() * 1000)
"""A Monday, 00:00 UTC."""


def bars(
    opens: Sequence[float],
    *,
    at_ms: int = START,
    step_ms: int = 5 * MINUTE,
    symbol: str = "A/USDT",
    lows: Sequence[float] | None = None,
    highs: Sequence[float] | None = None,
) -> PriceSeries:
    """Bars that touch nothing but their opens, unless lows or highs are given."""
    return PriceSeries(
        symbol=symbol,
        venue="",
        times_ms=[at_ms + n * step_ms for n in range(len(opens))],
        opens=opens,
        highs=list(opens) if highs is None else highs,
        lows=list(opens) if lows is None else lows,
        closes=list(opens),
    )


def order(**fields: Any) -> Order:
    """A signal to buy A for an hour, in hand at 00:03:30, so that with a minute's latency it is entered at 00:05."""
    usual = {
        "case_id": "case",
        "asset": "A",
        "side": 1,
        "confidence": 0.5,
        "horizon_s": 3600,
        "emitted_at_ms": START + 3 * MINUTE + 30_000,
    }
    return Order(**(usual | fields))
