"""A thousand made-up signals and the bars of their five markets, the same on every machine. Plain Python: another library's
environment reads it too."""

from __future__ import annotations

import random
from typing import Any

HOUR = 3_600_000
START = 1_767_225_600_000
"""2026-01-01, 00:00 UTC, in milliseconds."""
BARS = 24 * 120
MARKETS = ("BTC", "ETH", "SOL", "XRP", "DOGE")
RULES = {"latency_s": 90, "fee_bps": 7.5, "slippage_bps": 12, "stake": 2500, "stop": 0.03, "capital": 100_000}
"""Stakes are these dollars times the confidence."""


def markets(seed: int = 5) -> dict[str, dict[str, list[float]]]:
    """Return opens, highs and lows of each market by the hour: a random walk of fat tails that jumps between bars."""
    found = {}
    for asset in MARKETS:
        draw = random.Random(f"{seed}:{asset}")
        price, bars = draw.uniform(0.1, 50_000), {"opens": [], "highs": [], "lows": []}  # type: dict[str, list[float]]
        for _ in range(BARS):
            price *= 1 + draw.gauss(0, 0.002) * (8 if draw.random() < 0.03 else 1)
            close = price * (1 + draw.gauss(0, 0.006) * (4 if draw.random() < 0.05 else 1))
            bars["opens"].append(round(price, 6))
            bars["highs"].append(round(max(price, close) * (1 + abs(draw.gauss(0, 0.002))), 6))
            bars["lows"].append(round(min(price, close) * (1 - abs(draw.gauss(0, 0.002))), 6))
            price = close
        found[asset] = bars
    return found


def signals(seed: int = 5, count: int = 1_000) -> list[dict[str, Any]]:
    """Return signals that end before the last bar; one in eight is withdrawn at some time, perhaps too late to matter."""
    draw = random.Random(f"{seed}:signals")
    found = []
    for n in range(count):
        emitted = START + draw.randrange((BARS - 60) * HOUR)
        found.append(
            {
                "case_id": f"{n:04}",
                "asset": draw.choice(MARKETS),
                "side": draw.choice((1, -1)),
                "confidence": round(draw.uniform(0.2, 0.99), 3),
                "horizon_s": 3600 * draw.randint(1, 48),
                "emitted_at_ms": emitted,
                # Always after the entry: what was withdrawn before is no trade.
                "withdrawn_at_ms": emitted + draw.randint(61, 60 * 48) * 60_000 + HOUR
                if draw.random() < 0.125
                else None,
            }
        )
    return found
