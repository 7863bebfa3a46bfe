"""Measurements: market figures that confirm or contradict a claim about a price or a sum.

A depeg of at least 1 % and at least half the claimed deviation at two venues within two hours confirms it; a full window
within 0.5 % contradicts it; one price never does. A liquidation total of at least half the claim confirms it.

The price tool supplies the prices for a depeg of coins pegged to the dollar. No configurable source gives totals of
liquidations, so the pipeline does not measure such claims; a case file of ``newsproof eval`` may supply one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Literal

import msgspec

from agents.evidence.claim import Claim
from agents.evidence.verdict import Measured
from agents.text.amounts import Amounts
from agents.text.matching import fold_han
from schemas.evidence import DOLLAR_PEGGED, MarketValue

WINDOW = timedelta(hours=2)
"""Measurements count this long before and after the case's time."""
DEVIATION, STILL = 0.01, 0.005
_FULL, _GAP = timedelta(hours=2), timedelta(hours=1)
"""A full window covers at least this time without a longer gap."""
_ENOUGH_CANDLES = 20
"""Minimum of the 24 five-minute candles of two hours. A market with fewer was not traded throughout."""
_PRICE = re.compile(r"(?<![\d.])0?\.\d+(?![\d.]|\s?%)")
_CENTS = re.compile(r"(?<![\d.])(\d{1,2}(?:\.\d+)?)\s?(?:cents|美分)")
_PERCENT = re.compile(r"(\d+(?:\.\d+)?)\s?%")


class Measurement(msgspec.Struct, frozen=True, kw_only=True):
    """A figure of a venue at a time (UTC). ``price_usd`` of kind price, ``total_usd`` of kind liquidation.

    With ``since``, the price is the lowest or the highest of the time from then to ``at``, traded throughout.
    """

    kind: Literal["price", "liquidation"]
    venue: str
    at: datetime
    asset: str = ""
    price_usd: float | None = None
    total_usd: float | None = None
    since: datetime | None = None


def measurements_of(values: Sequence[MarketValue], claim: Claim) -> tuple[Measurement, ...]:
    """Return the price tool's values for the claim's asset as measurements; none for a coin without a dollar peg.

    ``values`` are those of a case's searches: the last price, and by venue the lowest and the highest of two hours. A
    price in another stablecoin counts as one in dollars, except for that coin's own peg; but it shows only the
    difference between the two, so it makes no full window.
    """
    asset = claim.asset.upper()
    if asset not in DOLLAR_PEGGED:
        return ()
    enough = {(v.source, v.observed_at) for v in values if v.name == "candles_2h" and v.value >= _ENOUGH_CANDLES}
    return tuple(
        Measurement(
            kind="price",
            venue=v.source,
            at=v.observed_at,
            asset=asset,
            price_usd=v.value,
            since=v.observed_at - _FULL
            if v.name != "price" and v.unit == "USD" and (v.source, v.observed_at) in enough
            else None,
        )
        for v in values
        if v.name in {"price", "price_low_2h", "price_high_2h"} and v.unit in {"USD", *DOLLAR_PEGGED} - {asset}
    )


def measured(claim: Claim, figures: Sequence[Measurement]) -> Measured | None:
    """Return whether the figures confirm or contradict the claim; None if they do neither."""
    near = [f for f in figures if abs(f.at - claim.as_of) <= WINDOW]
    if claim.event_type == "liquidation":
        claimed = claim.amount or max(Amounts(fold_han(claim.text).lower()).given, default=None)
        totals = [f.total_usd for f in near if f.kind == "liquidation" and f.total_usd is not None]
        return "confirms" if claimed is not None and any(t >= claimed / 2 for t in totals) else None
    if claim.event_type != "depeg":
        return None
    prices = [f for f in near if _is_price_of(f, claim)]
    needed = max(DEVIATION, claimed_deviation(claim.text) / 2)
    off = {f.venue.casefold() for f in prices if _off(f) >= needed}
    if len(off) >= 2:
        return "confirms"
    still = all(_off(f) <= STILL for f in prices)
    # A figure shortly before the window represents its beginning: no venue is read at the exact minute of the case.
    led_by = [f for f in figures if _is_price_of(f, claim) and WINDOW < claim.as_of - f.at <= WINDOW + _GAP]
    still = still and all(_off(f) <= STILL for f in led_by)
    return "contradicts" if still and prices and _is_full([*led_by, *prices]) else None


def claimed_deviation(text: str) -> float:
    """Return the deviation from 1 that the text states for the price (0.05 for “0.95 美元”, “95 cents”, “5 %”), 0 if it does not."""
    low = fold_han(text).lower()
    deviations = [abs(1.0 - float(p)) for p in _PRICE.findall(low)]
    deviations += [abs(1.0 - float(c) / 100) for c in _CENTS.findall(low)]
    deviations += [float(p) / 100 for p in _PERCENT.findall(low)] if not deviations else []
    return max((d for d in deviations if d < 1.0), default=0.0)


def _is_price_of(figure: Measurement, claim: Claim) -> bool:
    return figure.kind == "price" and figure.price_usd is not None and figure.asset.upper() in {"", claim.asset.upper()}


def _off(figure: Measurement) -> float:
    # Without the rounding 0.995 is further from 1 than half a percent.
    return round(abs(1.0 - figure.price_usd), 9) if figure.price_usd is not None else 0.0


def _is_full(figures: Sequence[Measurement]) -> bool:
    spans = sorted((f.since or f.at, f.at) for f in figures)
    if not spans:
        return False
    first, until = spans[0]
    for began, ended in spans[1:]:
        if began - until > _GAP:
            return False
        until = max(until, ended)
    return until - first >= _FULL
