"""What each asset of a comparison did less what the market did: its return less beta times that of BTC over the same time. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
from msgspec.structs import replace

from evaluation.compare.rows import Asked, Unadjusted
from evaluation.prices.study import BENCHMARK, benchmark_return, betas_before, hourly, is_benchmark
from infra.market.outcomes.markets import Markets
from schemas.prices import JudgedCase, PriceSeries

Span = tuple[int, int]
"""When a return begins and ends: its bars' opening times, milliseconds since 1970."""


def adjusted_of(
    held: Mapping[Asked, float], spans: Mapping[Asked, Span], cases: Iterable[JudgedCase], markets: Markets
) -> tuple[dict[Asked, float], dict[tuple[str, str], Unadjusted]]:
    """Return the adjusted return of everything that was held, and why a case's asset has none.

    A case's asset has all of its returns adjusted or none, so that leaving it out does not depend on what a run made of it.
    """
    of_case: dict[tuple[str, str], list[Asked]] = {}
    for key in held:
        of_case.setdefault(key[:2], []).append(key)
    groups: dict[tuple[int, int], tuple[PriceSeries, PriceSeries, list[Asked]]] = {}
    left_out: dict[tuple[str, str], Unadjusted] = {}
    for case in cases:
        name = (case.case_id, case.asset)
        if not (keys := of_case.get(name)):
            continue
        series, benchmark = markets.of(case), markets.of(replace(case, asset=BENCHMARK))
        if series is not None and is_benchmark(series):
            left_out[name] = "is_benchmark"
        elif series is None or benchmark is None:
            left_out[name] = "no_beta"
        else:
            groups.setdefault((id(series), id(benchmark)), (series, benchmark, []))[2].extend(keys)
    adjusted: dict[Asked, float] = {}
    for series, benchmark, keys in groups.values():
        begins, ends = np.array([spans[key] for key in keys], dtype=np.int64).T
        betas = betas_before(hourly(series, benchmark), begins)
        for key, less in zip(keys, (betas * benchmark_return(benchmark, begins, ends)).tolist(), strict=True):
            adjusted[key] = held[key] - less
            if less != less:  # noqa: PLR0124 - not a number
                left_out[key[:2]] = "no_beta"
    return {key: change for key, change in adjusted.items() if key[:2] not in left_out}, left_out
