"""Technical indicators of complete bars, computed by talipp. An indicator with too few bars is left out.

Averages and bands follow the textbooks: an EMA starts with the simple average of its first period, RSI uses Wilder's
smoothing (New Concepts in Technical Trading Systems, 1978), and Bollinger bands lie two population deviations apart.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

from talipp.indicators import BB, EMA, MACD, SMA, SMMA  # type: ignore[import-untyped]

from schemas.evidence import Candle, MarketValue

Figures = dict[str, float]
INDICATORS = (
    "close",
    "ema_20",
    "ema_50",
    "sma_50",
    "sma_200",
    "rsi_14",
    "macd",
    "macd_signal",
    "macd_histogram",
    "bollinger_upper",
    "bollinger_middle",
    "bollinger_lower",
    "volume",
    "volume_average_20",
    "volume_ratio",
    "support",
    "resistance",
)
"""Names of the indicators that :func:`indicators` returns. The unit is that of the price, except for :data:`UNITS`."""
UNITS = {
    "rsi_14": "0-100",
    "volume": "units of the asset",
    "volume_average_20": "units of the asset",
    "volume_ratio": "x",
}
COMPUTED_FROM = "computed from "
"""Prefix of an indicator's ``source``, before the name of the bars' source."""
LEVELS_WITHIN = 90
"""The last bars in which support and resistance are searched."""
PIVOT_SIDE = 2
"""Bars on each side that a pivot must exceed: the five-bar fractal of Bill Williams (Trading Chaos, 1995)."""


def indicators(
    candles: Iterable[Candle], *, unit: str, source: str, price: float | None = None
) -> tuple[MarketValue, ...]:
    """Return the indicators of these bars (in any order), as of the end of the last bar. ``unit`` is that of prices.

    ``price``: a newer price, between support and resistance; None: the last close.
    """
    bars = sorted((c for c in candles if _sound(c)), key=lambda c: c.ended_at)
    if not bars:
        return ()
    closes, volumes = [b.close for b in bars], [b.volume for b in bars]
    figures: Figures = {
        "close": closes[-1],
        **{f"ema_{n}": v for n in (20, 50) if (v := ema(closes, n)) is not None},
        **{f"sma_{n}": v for n in (50, 200) if (v := sma(closes, n)) is not None},
        **({"rsi_14": v} if (v := rsi(closes, 14)) is not None else {}),
        **macd(closes),
        **bollinger(closes),
        **volume(volumes),
        **levels(bars, price),
    }
    return tuple(
        MarketValue(
            name=name,
            value=figures[name],
            unit=UNITS.get(name, unit),
            source=COMPUTED_FROM + source,
            observed_at=bars[-1].ended_at,
        )
        for name in INDICATORS
        if name in figures
    )


def sma(values: Sequence[float], period: int) -> float | None:
    """Return the mean of the last ``period`` values, or None with fewer."""
    return _number(SMA(period, list(values)))


def ema(values: Sequence[float], period: int) -> float | None:
    """Return the exponential average, weight 2 / (period + 1), seeded with the mean of the first ``period`` values."""
    return _number(EMA(period, list(values)))


def rsi(values: Sequence[float], period: int = 14) -> float | None:
    """Return the relative strength index, 0–100, with Wilder's smoothing; 50 if nothing moved.

    As in Wilder's book, the averages start with the mean of the first ``period`` changes; talipp's RSI uses one fewer.
    """
    changes = [after - before for before, after in pairwise(values)]
    gain = _number(SMMA(period, [max(c, 0.0) for c in changes]))
    loss = _number(SMMA(period, [max(-c, 0.0) for c in changes]))
    if gain is None or loss is None:
        return None
    return 50.0 if gain + loss == 0 else 100.0 * gain / (gain + loss)


def macd(values: Sequence[float], fast: int = 12, slow: int = 26, signal: int = 9) -> Figures:
    """Return the difference of two EMAs, its own EMA, and the difference of both; empty with too few values."""
    last = _last(MACD(fast, slow, signal, list(values)))
    if last is None or last.signal is None:
        return {}
    return {"macd": last.macd, "macd_signal": last.signal, "macd_histogram": last.histogram}


def bollinger(values: Sequence[float], period: int = 20, deviations: float = 2.0) -> Figures:
    """Return the bands ``deviations`` away from the mean of the last ``period`` values; empty with too few."""
    last = _last(BB(period, deviations, list(values)))
    if last is None:
        return {}
    return {"bollinger_upper": last.ub, "bollinger_middle": last.cb, "bollinger_lower": last.lb}


def volume(volumes: Sequence[float], period: int = 20) -> Figures:
    """Return the last volume, the mean of the last ``period`` volumes, and the ratio of last to mean."""
    average = sma(volumes, period)
    if average is None:
        return {"volume": volumes[-1]} if volumes else {}
    ratio = {"volume_ratio": volumes[-1] / average} if average > 0 else {}
    return {"volume": volumes[-1], "volume_average_20": average, **ratio}


def levels(bars: Sequence[Candle], price: float | None = None, side: int = PIVOT_SIDE) -> Figures:
    """Return support and resistance: the nearest earlier low below the price (the last close), the nearest high above it.

    A low (high) counts if it is below (above) those of ``side`` bars on each side, within the last 90 bars.
    """
    near = bars[-LEVELS_WITHIN:]
    at = near[-1].close if price is None else price
    inner = range(side, len(near) - side)
    lows = [near[i].low for i in inner if _stands_out([-b.low for b in near[i - side : i + side + 1]])]
    highs = [near[i].high for i in inner if _stands_out([b.high for b in near[i - side : i + side + 1]])]
    below, above = [low for low in lows if low < at], [high for high in highs if high > at]
    return {**({"support": max(below)} if below else {}), **({"resistance": min(above)} if above else {})}


def _stands_out(values: list[float]) -> bool:
    middle = len(values) // 2
    return all(values[middle] > v for i, v in enumerate(values) if i != middle)


def _sound(bar: Candle) -> bool:
    prices = (bar.open, bar.high, bar.low, bar.close)
    return all(math.isfinite(p) and p > 0 for p in prices) and math.isfinite(bar.volume) and bar.volume >= 0


def _number(series: Any) -> float | None:
    last = _last(series)
    return None if last is None else float(last)


def _last(series: Any) -> Any:
    return series[-1] if len(series) else None
