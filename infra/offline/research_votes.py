"""Rules by which the offline research agents read figures: one vote per figure, and the votes determine the signal.

The rules are the textbook readings of single indicators. They make a demonstration that follows its figures; they do
not aim to be right.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

Outlook = Literal["BULLISH", "BEARISH", "NEUTRAL"]
Figures = dict[str, float]


class Vote(NamedTuple):
    """The reading of one figure. ``weight`` is 0–1."""

    name: str
    value: float
    impact: Outlook
    weight: float


def votes_of(facts: dict[str, Any]) -> list[Vote]:
    """Return one vote for each figure that has a rule, in the order of ``RULES``."""
    figures = {name: float(f["value"]) for block in ("beside", "figures") for name, f in facts.get(block, {}).items()}
    own = facts.get("figures", {})
    return [
        Vote(name, figures[name], impact, weight)
        for name, (rule, weight) in RULES.items()
        if name in own and (impact := rule(figures)) is not None
    ]


def outlook_of(votes: list[Vote]) -> Outlook:
    """Return the side of the weighted votes when it leads by more than a fifth of the total weight, else neutral."""
    return _side(_score(votes), 0.2)


def confidence_of(votes: list[Vote], *, missing: int) -> float:
    """Return 0.05–0.7: higher when the votes agree, lower for every missing figure."""
    if not votes:
        return 0.05
    coverage = len(votes) / (len(votes) + missing)
    return round(min(0.7, 0.3 + 0.4 * abs(_score(votes)) * coverage), 2)


def _score(votes: list[Vote]) -> float:
    sides = {"BULLISH": 1.0, "BEARISH": -1.0, "NEUTRAL": 0.0}
    total = sum(v.weight for v in votes)
    return sum(sides[v.impact] * v.weight for v in votes) / total if total else 0.0


def _side(value: float, margin: float) -> Outlook:
    return "BULLISH" if value > margin else "BEARISH" if value < -margin else "NEUTRAL"


def _rising(name: str, margin: float = 0.0, sign: float = 1.0) -> Callable[[Figures], Outlook | None]:
    return lambda f: _side(sign * f[name], margin) if name in f else "NEUTRAL"


def _above(name: str) -> Callable[[Figures], Outlook | None]:
    # The close against an average of it; without a close there is nothing to compare.
    return lambda f: _side(f["close"] - f[name], 0.0) if "close" in f else None


def _extremes(name: str, low: float, high: float) -> Callable[[Figures], Outlook | None]:
    # Contrarian: a very low value counts as bullish.
    return lambda f: "BULLISH" if f[name] < low else "BEARISH" if f[name] > high else "NEUTRAL"


def _momentum(figures: Figures) -> Outlook | None:
    rsi = figures["rsi_14"]
    if rsi > 70 or rsi < 30:
        return "BEARISH" if rsi > 70 else "BULLISH"
    return _side(rsi - 50, 5)


RULES: dict[str, tuple[Callable[[Figures], Outlook | None], float]] = {
    "fed_funds_rate": (_rising("fed_funds_rate_change_30d", 0.05, -1.0), 0.8),
    "m2_growth": (lambda f: _side(f["m2_growth"] - 2.0, 2.0), 0.6),
    "dxy": (_rising("dxy_change_30d", 0.5, -1.0), 0.6),
    "fear_greed": (_extremes("fear_greed", 25, 75), 0.5),
    "treasury_yield": (_rising("treasury_yield_10y_change_30d", 0.1, -1.0), 0.5),
    "ema_20": (_above("ema_20"), 0.6),
    "ema_50": (_above("ema_50"), 0.6),
    "sma_200": (_above("sma_200"), 0.8),
    "rsi_14": (_momentum, 0.7),
    "macd_histogram": (lambda f: _side(f["macd_histogram"], 0.0), 0.7),
    "bollinger_upper": (lambda f: "BEARISH" if f.get("close", 0) > f["bollinger_upper"] else "NEUTRAL", 0.3),
    "bollinger_lower": (lambda f: "BULLISH" if 0 < f.get("close", 0) < f["bollinger_lower"] else "NEUTRAL", 0.3),
    "exchange_netflow": (_rising("exchange_netflow", 0.0, -1.0), 0.8),
    "active_addresses": (_rising("active_addresses_change_7d", 1.0), 0.5),
    "network_activity": (_rising("transactions_per_day_change_7d", 1.0), 0.4),
    "hash_rate": (_rising("hash_rate_change_7d", 1.0), 0.3),
    "chain_tvl": (_rising("chain_tvl_change_7d", 1.0), 0.4),
    "stablecoin_supply": (_rising("stablecoin_supply_change_7d", 0.5), 0.3),
    "mvrv": (_extremes("mvrv", 1.0, 3.5), 0.6),
}
"""Name of a figure → its rule (over all figures given; None = not readable) and the weight of its vote."""
