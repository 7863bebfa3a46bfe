"""The return after a case at each horizon. Pure: prices, times and the current time in, outcomes or drop reasons out.

One rule gives the price at a time, for entry and exit alike: the open of the first bar that opens at or after it. The
open is the only price of a bar with a known time, and a trader waiting for that time could have traded at it. A bar
that began before the news was knowable is never used: its close may lie after that time, but its range includes trades
from before.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator

from infra.market.outcomes.markets import ENTRY_WITHIN_S
from schemas.prices import HORIZONS_S, Drop, DropReason, JudgedCase, Outcome, PriceSeries

EXIT_WITHIN = 0.1
"""Allowed delay of an exit, as a share of the horizon (at least one minute). A 24-hour return may span 26 hours, but an
hourly bar cannot stand for 5 minutes.
"""
_EXIT_WITHIN_AT_LEAST_S = 60


def measure(
    case: JudgedCase, series: PriceSeries | None, *, now_ms: int, entry_within_s: float = ENTRY_WITHIN_S
) -> Iterator[Outcome | Drop]:
    """Yield one outcome or drop for each of ``HORIZONS_S``. A horizon that ends after ``now_ms`` is still open."""
    for horizon_s in HORIZONS_S:
        found = _at_horizon(case, series, horizon_s, now_ms, entry_within_s)
        if isinstance(found, Outcome):
            yield found
        else:
            yield Drop(case_id=case.case_id, horizon_s=horizon_s, asset=case.asset, reason=found)


def _at_horizon(
    case: JudgedCase, series: PriceSeries | None, horizon_s: int, now_ms: int, entry_within_s: float
) -> Outcome | DropReason:
    if series is None:
        return "no_symbol"
    entry = _first_from(series, case.entry_from_ms, entry_within_s, now_ms)
    if not isinstance(entry, int):
        return entry
    entry_at = series.times_ms[entry]
    late_s = max(_EXIT_WITHIN_AT_LEAST_S, horizon_s * EXIT_WITHIN)
    leaving = _first_from(series, entry_at + horizon_s * 1000, late_s, now_ms)
    if not isinstance(leaving, int):
        return leaving
    return Outcome(
        case_id=case.case_id,
        horizon_s=horizon_s,
        asset=case.asset,
        symbol=series.symbol,
        venue=series.venue,
        entry_at_ms=entry_at,
        entry_price=series.opens[entry],
        exit_at_ms=series.times_ms[leaving],
        exit_price=series.opens[leaving],
    )


def _first_from(series: PriceSeries, at_ms: int, within_s: float, now_ms: int) -> int | DropReason:
    """Return the index of the first bar within ``within_s`` seconds from ``at_ms``, else the drop reason."""
    times = series.times_ms
    place = bisect_left(times, at_ms)
    if place < len(times) and times[place] - at_ms <= within_s * 1000:
        return place
    if at_ms + within_s * 1000 > now_ms:
        return "horizon_open"  # that price does not exist yet
    return "gap" if 0 < place < len(times) else "no_price"
