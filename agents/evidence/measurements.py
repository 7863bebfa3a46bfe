"""What figures say of a claim about a price or a sum, whatever the press says.

A depeg of at least 1 % and at least half the claimed deviation at two venues within two hours confirms it; a full window
within 0.5 % contradicts it; one price never does. A liquidation total of at least half the claim confirms it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Literal

import msgspec

from agents.evidence.amounts import Amounts
from agents.evidence.claim import Claim
from agents.evidence.verdict import Measured
from agents.text.matching import fold_han

WINDOW = timedelta(hours=2)
"""Measurements count this long before and after the case's time."""
DEVIATION, STILL = 0.01, 0.005
_FULL, _GAP = timedelta(hours=2), timedelta(hours=1)
"""A full window covers at least this time without a longer gap."""
_PRICE = re.compile(r"(?<![\d.])0?\.\d+(?![\d.]|\s?%)")
_CENTS = re.compile(r"(?<![\d.])(\d{1,2}(?:\.\d+)?)\s?(?:cents|美分)")
_PERCENT = re.compile(r"(\d+(?:\.\d+)?)\s?%")


class Measurement(msgspec.Struct, frozen=True, kw_only=True):
    """A figure of a venue at a time (UTC). ``price_usd`` of kind price, ``total_usd`` of kind liquidation."""

    kind: Literal["price", "liquidation"]
    venue: str
    at: datetime
    asset: str = ""
    price_usd: float | None = None
    total_usd: float | None = None


def measured(claim: Claim, figures: Sequence[Measurement]) -> Measured | None:
    """Return what the figures say of the claim; None when they say nothing."""
    near = [f for f in figures if abs(f.at - claim.as_of) <= WINDOW]
    if claim.event_type == "liquidation":
        claimed = max(Amounts(fold_han(claim.text).lower()).given, default=None)
        totals = [f.total_usd for f in near if f.kind == "liquidation" and f.total_usd is not None]
        return "confirms" if claimed is not None and any(t >= claimed / 2 for t in totals) else None
    if claim.event_type != "depeg":
        return None
    prices = [f for f in near if f.kind == "price" and f.asset.upper() in {"", claim.asset.upper()} and f.price_usd]
    needed = max(DEVIATION, claimed_deviation(claim.text) / 2)
    off = {f.venue.casefold() for f in prices if _off(f) >= needed}
    if len(off) >= 2:
        return "confirms"
    still = all(_off(f) <= STILL for f in prices)
    return "contradicts" if still and _is_full([f.at for f in prices]) else None


def claimed_deviation(text: str) -> float:
    """Return how far from 1 the text says that the price is (0.05 for “0.95 美元”, “95 cents”, “5 %”), 0 if it does not."""
    low = fold_han(text).lower()
    said = [abs(1.0 - float(p)) for p in _PRICE.findall(low)]
    said += [abs(1.0 - float(c) / 100) for c in _CENTS.findall(low)]
    said += [float(p) / 100 for p in _PERCENT.findall(low)] if not said else []
    return max((d for d in said if d < 1.0), default=0.0)


def _off(figure: Measurement) -> float:
    # Without the rounding 0.995 is further from 1 than half a percent.
    return round(abs(1.0 - (figure.price_usd or 1.0)), 9)


def _is_full(times: list[datetime]) -> bool:
    ordered = sorted(times)
    gaps = [b - a for a, b in pairwise(ordered)]
    return len(ordered) > 2 and ordered[-1] - ordered[0] >= _FULL and max(gaps) <= _GAP
