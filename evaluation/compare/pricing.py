"""What the market did after the cases of a comparison: one entry a case, whichever run acts on it.

Pure: rows, times, withdrawals and price series in, returns out.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping

import msgspec

from agents.signal import HORIZON_S
from evaluation.compare.adjusting import Span, adjusted_of
from evaluation.compare.rows import HORIZONS, Asked, ComparedCase, Returns
from infra.market.outcomes.markets import ENTRY_WITHIN_S, Markets, wanted_symbols
from infra.market.outcomes.returns import Within, first_bar_from, price
from schemas.prices import JudgedCase, Outcome, PriceSeries, Renaming

LATENCY_S = 30.0
"""Seconds from when news was knowable to the entry, where no live signal says how long it took."""


class CaseTimes(msgspec.Struct, frozen=True, kw_only=True):
    """The times of one case, Unix milliseconds. ``emitted_ms``: of its live signal if the news was live, else None.

    ``withdrawn_ms``: from when on one could know that the live signal was retracted or superseded (for live news not before bots
    were told); None: never.
    """

    knowable_ms: int
    emitted_ms: int | None
    withdrawn_ms: int | None


def entry_ms(times: CaseTimes, latency_s: float = LATENCY_S) -> int:
    """Return when both runs enter a case: as late as the live signal was, else ``latency_s`` after it was knowable."""
    if times.emitted_ms is not None:
        return max(times.knowable_ms, times.emitted_ms)
    return times.knowable_ms + round(latency_s * 1000)


def asked_of(rows: Iterable[ComparedCase]) -> dict[tuple[str, str], set[int]]:
    """Return by case and asset the horizons that a comparison needs: each signal's own, all that another one may have, and
    :data:`HORIZONS`."""
    found: dict[tuple[str, str], set[int]] = {}
    for row in rows:
        if row.has_signal and row.asset:
            found.setdefault((row.case_id, row.asset), {*HORIZONS, *HORIZON_S.values()}).add(row.horizon_s)
    return found


def symbols_of(
    asked: Iterable[tuple[str, str]], times: Mapping[str, CaseTimes], renamed: Iterable[Renaming], latency_s: float
) -> set[str]:
    """Return the markets that may measure these cases and assets."""
    rows = tuple(renamed)
    return {symbol for key in asked for symbol in wanted_symbols(_case(*key, times, latency_s), rows)}


def returns_of(
    asked: Mapping[tuple[str, str], Iterable[int]],
    times: Mapping[str, CaseTimes],
    markets: Markets,
    *,
    now_ms: int,
    latency_s: float = LATENCY_S,
    entry_within_s: Within = ENTRY_WITHIN_S,
) -> Returns:
    """Return what the market did after each case and asset at each horizon, from the case's entry on.

    A signal that was withdrawn is held until the first price from then on; one that was withdrawn by the bar of the entry is not
    traded. A horizon that is not over yet has no return, also of a withdrawn signal: only those would be counted.
    """
    held: dict[Asked, float] = {}
    moved: dict[Asked, float] = {}
    spans: dict[Asked, Span] = {}
    cases: list[JudgedCase] = []
    untraded = set()
    for (case_id, asset), horizons in asked.items():
        case, withdrawn_ms = _case(case_id, asset, times, latency_s), times[case_id].withdrawn_ms
        begin = case.knowable_at_ms
        if not wanted_symbols(case, ()):
            untraded.add((case_id, asset))
            continue
        cases.append(case)
        left: tuple[float, Span] | None = None
        if withdrawn_ms is not None:
            series = markets.of(case)
            entry = "no_symbol" if series is None else first_bar_from(series, begin, entry_within_s, now_ms)
            if withdrawn_ms <= (series.times_ms[entry] if series is not None and isinstance(entry, int) else begin):
                untraded.add((case_id, asset))
                continue
            if series is not None and isinstance(entry, int):
                left = _change_until(series, entry, withdrawn_ms, now_ms)
        for horizon_s in horizons:
            found = price(markets, case, horizon_s, entry_ms=begin, now_ms=now_ms, entry_within_s=entry_within_s)
            key = (case_id, asset, horizon_s)
            if withdrawn_ms is not None and withdrawn_ms < begin + horizon_s * 1000:
                if left is not None and (isinstance(found, Outcome) or found.reason == "halted"):
                    held[key], spans[key] = left
            elif isinstance(found, Outcome):
                held[key], spans[key] = found.change, (found.entry_at_ms, found.exit_at_ms)
                if not found.halted and found.depeg is None:
                    moved[key] = found.change
    adjusted, unadjusted = adjusted_of(held, spans, cases, markets)
    return Returns(held=held, moved=moved, untraded=frozenset(untraded), adjusted=adjusted, unadjusted=unadjusted)


def _change_until(series: PriceSeries, entry: int, at_ms: int, now_ms: int) -> tuple[float, Span] | None:
    """Return the return, and its times, from an entry's bar to the first price from ``at_ms`` on; of a halted market, to its next or
    last one."""
    found = first_bar_from(series, at_ms, ENTRY_WITHIN_S, now_ms)
    if found == "halted":
        found = min(bisect_left(series.times_ms, at_ms), len(series.times_ms) - 1)
    if not isinstance(found, int):
        return None
    return series.opens[found] / series.opens[entry] - 1.0, (series.times_ms[entry], series.times_ms[found])


def _case(case_id: str, asset: str, times: Mapping[str, CaseTimes], latency_s: float) -> JudgedCase:
    at = entry_ms(times[case_id], latency_s)
    return JudgedCase(case_id=case_id, asset=asset, symbol="", venue="", knowable_at_ms=at)
