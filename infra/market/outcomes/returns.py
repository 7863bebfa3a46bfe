"""The return after a case at each horizon. Pure: prices, times and the current time in, outcomes or drop reasons out.

The price at a time, for both entry and exit, is the open of the first bar that opens at or after that time. The open is
the only price of a bar with a known time, and a trader waiting for that time could have traded at it. A bar that began
before the entry was possible is never used: its close may be after that time, but its range includes earlier trades.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from statistics import median

from msgspec.structs import replace

from infra.market.outcomes.markets import DOLLARS, ENTRY_WITHIN_S, Markets
from infra.market.source import ticker
from schemas.evidence import DOLLAR_PEGGED
from schemas.prices import HORIZONS_S, Drop, DropReason, JudgedCase, Outcome, PriceSeries

EXIT_WITHIN = 0.1
"""Allowed delay of an exit, as a share of the horizon (at least one minute). A 24-hour return may span 26 hours, but an
hourly bar cannot measure 5 minutes.
"""
_EXIT_WITHIN_AT_LEAST_S = 60
HALT_AT_LEAST_S = 900
"""A shorter time without bars is a market without trades, not a halt."""
HALT_AT_MOST_S = 7 * 86_400
"""A longer time without bars is a hole in the data, not a halt: files imported around single events have such holes."""
_HALT_STEPS = 3
"""Minimum length of a halt in usual distances between the market's bars."""
_USUAL_OF = 12
"""The usual distance between bars is the median of this many before the halt."""

Within = float | Mapping[int, float]
"""Seconds by which an entry may be late: for all bars, or by the import that a bar came from."""


def exit_within_s(horizon_s: int) -> float:
    """Return the seconds by which the price at the end of a horizon may be late."""
    return max(_EXIT_WITHIN_AT_LEAST_S, horizon_s * EXIT_WITHIN)


def measure(
    case: JudgedCase,
    series: PriceSeries | None,
    *,
    now_ms: int,
    horizons_s: Iterable[int] = HORIZONS_S,
    entry_within_s: Within = ENTRY_WITHIN_S,
) -> Iterator[Outcome | Drop]:
    """Yield one outcome or drop for each horizon. A horizon that ends after ``now_ms`` is still open."""
    for horizon_s in horizons_s:
        outcome = _at_horizon(case, series, horizon_s, now_ms, entry_within_s)
        if isinstance(outcome, Outcome):
            yield outcome
        else:
            yield Drop(case_id=case.case_id, horizon_s=horizon_s, asset=case.asset, reason=outcome)


def price(
    markets: Markets,
    case: JudgedCase,
    horizon_s: int,
    *,
    entry_ms: int,
    now_ms: int,
    entry_within_s: Within = ENTRY_WITHIN_S,
) -> Outcome | Drop:
    """Return the outcome of an entry at ``entry_ms`` after ``horizon_s`` seconds, or a drop with the reason.

    The entry is the first price at or after ``entry_ms``, whenever the case became knowable. The market is that of the
    case's asset or symbol at that time.
    """
    entering = replace(case, knowable_at_ms=entry_ms, emitted_at_ms=0)
    (outcome,) = measure(
        entering, markets.of(entering), now_ms=now_ms, horizons_s=(horizon_s,), entry_within_s=entry_within_s
    )
    return outcome


def _at_horizon(
    case: JudgedCase, series: PriceSeries | None, horizon_s: int, now_ms: int, entry_within_s: Within
) -> Outcome | DropReason:
    if series is None:
        return "no_symbol"
    entry = first_bar_from(series, case.entry_from_ms, entry_within_s, now_ms)
    if not isinstance(entry, int):
        return entry
    until = series.times_ms[entry] + horizon_s * 1000
    leaving = first_bar_from(series, until, exit_within_s(horizon_s), now_ms)
    if isinstance(leaving, int):
        return _outcome(case, series, horizon_s, entry, leaving)
    return (
        _outcome(case, series, horizon_s, entry, bisect_left(series.times_ms, until), halted=True)
        if leaving == "halted"
        else leaving
    )


def _outcome(
    case: JudgedCase, series: PriceSeries, horizon_s: int, entry: int, leaving: int, *, halted: bool = False
) -> Outcome:
    ended = leaving == len(series.times_ms)  # halted for good: nobody could exit after the last bar
    last = leaving - 1 if ended else leaving
    return Outcome(
        case_id=case.case_id,
        horizon_s=horizon_s,
        asset=case.asset,
        symbol=series.symbol,
        venue=series.venue,
        entry_at_ms=series.times_ms[entry],
        entry_price=series.opens[entry],
        exit_at_ms=series.times_ms[last],
        exit_price=series.closes[last] if ended and series.closes else series.opens[last],
        halted=halted,
        depeg=_depeg(series, entry, last) if is_stable(case.asset, series) else None,
        entry_import=series.imports[entry] if series.imports else 0,
        exit_import=series.imports[last] if series.imports else 0,
    )


def is_stable(asset: str, series: PriceSeries) -> bool:
    """Return whether the market prices a coin that is pegged to the dollar in dollars; a price in euros says nothing of the peg."""
    return ticker(asset) in DOLLAR_PEGGED and series.symbol.split("/")[1] in {*DOLLARS, *DOLLAR_PEGGED}


def _depeg(series: PriceSeries, entry: int, last: int) -> float:
    """Return the largest distance of the price from 1, from the entry to the open of the exit's bar."""
    highs, lows = series.highs or series.opens, series.lows or series.opens
    prices = (*highs[entry:last], *lows[entry:last], series.opens[entry], series.opens[last])
    return max(abs(at - 1.0) for at in prices)


def first_bar_from(series: PriceSeries, at_ms: int, within_s: Within, now_ms: int) -> int | DropReason:
    """Return the index of the first bar within ``within_s`` seconds from ``at_ms``, else the drop reason.

    With ``halted``, the next bar, if there is one, is the first that opens at or after ``at_ms``.
    """
    times = series.times_ms
    place = bisect_left(times, at_ms)
    if place < len(times):
        of_bar = within_s[series.imports[place]] if isinstance(within_s, Mapping) else within_s
        if times[place] - at_ms <= of_bar * 1000:
            return place
    longest = max(within_s.values(), default=0.0) if isinstance(within_s, Mapping) else within_s
    if at_ms + longest * 1000 > now_ms:
        return "horizon_open"  # the price does not exist yet
    if _halted(series, place, at_ms, longest):
        return "halted"
    return "gap" if 0 < place < len(times) else "no_price"


def _halted(series: PriceSeries, place: int, at_ms: int, within_s: float) -> bool:
    """Return whether the market was halted at ``at_ms``; ``place`` is the first bar from then on.

    It was if a bar was expected by then, and the market resumed after a halt of plausible length. It also was if the
    market never resumed, although the import's prices of other markets continue.
    """
    times: Sequence[int] = series.times_ms
    before = times[max(0, place - _USUAL_OF - 1) : place]
    if len(before) < _HALT_STEPS + 1:
        return False  # too few bars to know the usual distance
    usual_ms = median(later - earlier for earlier, later in pairwise(before))
    if usual_ms > within_s * 1000:
        return False  # the bars are too far apart to tell
    if place == len(times):
        lasts = any(first <= at_ms and at_ms + within_s * 1000 <= last for first, last in series.covered)
        return lasts and at_ms - times[-1] >= _HALT_STEPS * usual_ms
    hole_ms = times[place] - times[place - 1]
    return max(HALT_AT_LEAST_S * 1000, _HALT_STEPS * usual_ms) <= hole_ms <= HALT_AT_MOST_S * 1000
