"""What the market did after the cases of a comparison: one entry a case, whichever run acts on it.

Pure: rows, times, withdrawals and price series in, returns out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from infra.market.outcomes.markets import Markets, wanted_symbols
from infra.market.outcomes.returns import price
from newsproof.evaluation.compare.rows import HORIZONS, Asked, ComparedCase, Returns
from schemas.prices import JudgedCase, Outcome, Renaming

LATENCY_S = 30.0
"""Seconds from when news was knowable to the entry, where no live signal says how long it took."""


class CaseTimes(msgspec.Struct, frozen=True, kw_only=True):
    """The times of one case, Unix milliseconds. ``emitted_ms``: of its live signal if the news was live, else None.

    ``withdrawn_ms``: from when on it was knowable that the live signal was retracted or superseded; None: never.
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
    """Return by case and asset the horizons that a comparison needs: each signal's own, and :data:`HORIZONS`."""
    found: dict[tuple[str, str], set[int]] = {}
    for row in rows:
        if row.has_signal and row.asset:
            found.setdefault((row.case_id, row.asset), set(HORIZONS)).add(row.horizon_s)
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
) -> Returns:
    """Return what the market did after each case and asset at each horizon, from the case's entry on.

    A signal that was withdrawn is held until the first price after that; one that was withdrawn before the entry is not traded.
    """
    held: dict[Asked, float] = {}
    moved: dict[Asked, float] = {}
    untraded = set()
    for (case_id, asset), horizons in asked.items():
        case, of_case = _case(case_id, asset, times, latency_s), times[case_id]
        begin, withdrawn_ms = case.knowable_at_ms, of_case.withdrawn_ms
        if withdrawn_ms is not None and withdrawn_ms <= begin:
            untraded.add(case_id)
            continue
        for horizon_s in horizons:
            found = price(markets, case, horizon_s, entry_ms=begin, now_ms=now_ms)
            key = (case_id, asset, horizon_s)
            if isinstance(found, Outcome) and (withdrawn_ms is None or withdrawn_ms > found.exit_at_ms):
                held[key] = found.change
                if not found.halted and found.depeg is None:
                    moved[key] = found.change
            elif withdrawn_ms is not None:
                until_s = max(1, -(-(withdrawn_ms - begin) // 1000))
                left = price(markets, case, min(until_s, horizon_s), entry_ms=begin, now_ms=now_ms)
                if isinstance(left, Outcome):
                    held[key] = left.change
    return Returns(held=held, moved=moved, untraded=frozenset(untraded))


def _case(case_id: str, asset: str, times: Mapping[str, CaseTimes], latency_s: float) -> JudgedCase:
    at = entry_ms(times[case_id], latency_s)
    return JudgedCase(case_id=case_id, asset=asset, symbol="", venue="", knowable_at_ms=at)
