"""The event study: how the price of an asset moved around the signal on it, beside what the market did. Pure.

Each event has a base: the first open at or after its signal was emitted. At each of ``OFFSETS_MIN`` from there the price is
compared with the base, so that the curve is 0 at the base: what lies before it was missed, what lies after it could be
had. The **raw** return is that of the asset. The **abnormal** one takes from it beta times that of BTC over the same bars
(the market model without its constant; MacKinlay 1997, "Event Studies in Economics and Finance"). Beta is the slope of the
asset's hourly returns on those of BTC in the 30 days that end an hour before the base, so that neither the event nor what
leaked of it is in it; hourly, because over minutes prices that do not trade at the same moment seem unrelated (Epps 1979).
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

import msgspec
import numpy as np
import numpy.typing as npt

from infra.market.outcomes.markets import ENTRY_WITHIN_S
from newsproof.evaluation.statistics import mean_of
from schemas.prices import PriceSeries

OFFSETS_MIN = (-60, -45, -30, -15, -5, 0, 5, 10, 15, 30, 60, 120, 240, 480, 720, 1440)
"""Minutes from the base."""
BETA_DAYS = 30
BETA_RETURNS = 48
"""Hourly returns that a beta needs at least. With the correlations of coins its standard error is then about 0.15."""
DRAWS = 1_999
BENCHMARK = "BTC"
_MINUTE_MS, _HOUR_MS, _DAY_MS = 60_000, 3_600_000, 86_400_000
_LATE, _LATE_AT_LEAST_MS = 0.1, 5 * _MINUTE_MS
"""By how much a price may come after its offset: a tenth of it, at least five minutes."""

Floats = npt.NDArray[np.float64]
LeftOut = Literal["neutral", "no_symbol", "no_price"]
"""Why an event is in no curve: its claim has no direction; no bars of its market; no bar near its emission."""
NotAbnormal = Literal["is_benchmark", "no_beta"]
"""Why an event has raw returns alone: it is on BTC itself; too few bars before it, of the asset or of BTC."""


class StudyEvent(msgspec.Struct, frozen=True, kw_only=True):
    """A signal. ``side``: 1 where its claim, if true, lifts the price, -1 where it lowers it, 0: neither.

    ``at_ms``: when it was emitted. ``groups``: its value in each dimension, such as ``{"verdict": "likely"}``.
    """

    side: int
    at_ms: int
    groups: Mapping[str, str]


class EventPath(msgspec.Struct, frozen=True):
    """Returns of one event at ``OFFSETS_MIN``, NaN where there is no price. ``abnormal``: or why there is none. ``base``: its
    bar's place in the series."""

    event: StudyEvent
    base: int
    raw: Floats
    abnormal: Floats | NotAbnormal


class Point(msgspec.Struct, frozen=True, kw_only=True):
    """Mean returns of a group ``minutes`` from the base, each with its number of events and its pointwise 95 % band.

    The band draws whole blocks of time: a UTC day, or twice the offset where that is more. It is None below six of them
    (too few days).
    """

    minutes: int
    events: int
    blocks: int
    raw: float | None
    raw_low: float | None
    raw_high: float | None
    abnormal_events: int
    abnormal_blocks: int
    abnormal: float | None
    abnormal_low: float | None
    abnormal_high: float | None


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """The curve of all events with the value ``name`` in ``dimension``; ``days``: UTC days that have one of them."""

    dimension: str
    name: str
    events: int
    days: int
    points: tuple[Point, ...]


class Study(msgspec.Struct, frozen=True, kw_only=True):
    """The curves, the largest group of each dimension first. ``measured`` events are in them; ``left_out`` and ``raw_only`` count the others."""

    events: int
    measured: int
    left_out: dict[str, int]
    raw_only: dict[str, int]
    groups: tuple[Group, ...]


class Hourly(msgspec.Struct, frozen=True):
    """Hours since 1970 of which both markets have a bar that opens at one time, and both opens; the first such bar of each hour."""

    hours: npt.NDArray[np.int64]
    asset: Floats
    benchmark: Floats


def hourly(series: PriceSeries | None, benchmark: PriceSeries | None) -> Hourly | None:
    """Return what betas of a market are computed from; None where either has no bars."""
    if series is None or benchmark is None:
        return None
    times = np.asarray(series.times_ms, dtype=np.int64)
    both, mine, its = np.intersect1d(times, np.asarray(benchmark.times_ms, dtype=np.int64), return_indices=True)
    hours, first = np.unique(both // _HOUR_MS, return_index=True)
    return Hourly(hours, np.asarray(series.opens)[mine[first]], np.asarray(benchmark.opens)[its[first]])


def beta_before(prices: Hourly, at_ms: int) -> float | None:
    """Return the slope from bars that opened before ``at_ms`` minus an hour; None where there are too few."""
    end = (at_ms - _HOUR_MS) // _HOUR_MS  # the hour that is still running is left out
    place = slice(*np.searchsorted(prices.hours, (end - 24 * BETA_DAYS, end)))
    follows = np.diff(prices.hours[place]) == 1
    if follows.sum() < BETA_RETURNS:
        return None
    of_asset, of_benchmark = (
        (np.diff(prices_of[place]) / prices_of[place][:-1])[follows] for prices_of in (prices.asset, prices.benchmark)
    )
    varies = float(np.var(of_benchmark))
    return float(np.cov(of_asset, of_benchmark, bias=True)[0, 1]) / varies if varies > 0 else None


def event_path(
    event: StudyEvent,
    series: PriceSeries | None,
    benchmark: PriceSeries | None,
    prices: Hourly | None,
    *,
    directed: bool = True,
) -> EventPath | LeftOut:
    """Return the returns around one event. ``prices`` is :func:`hourly` of both markets; ``directed``: in the claim's direction, else as they are."""
    side = event.side if directed else 1
    if not side:
        return "neutral"
    if series is None:
        return "no_symbol"
    base = _bar_from(series, event.at_ms, round(ENTRY_WITHIN_S * 1000))
    if base is None:
        return "no_price"
    at = series.times_ms[base]
    bars = [_bar_from(series, at + m * _MINUTE_MS, _late_ms(m)) for m in OFFSETS_MIN]
    raw = _relative(series, bars, base)
    if series.symbol.partition("/")[0] == BENCHMARK:
        return EventPath(event, base, side * raw, "is_benchmark")
    beta = None if prices is None else beta_before(prices, at)
    if beta is None or benchmark is None:
        return EventPath(event, base, side * raw, "no_beta")
    beside = [None if bar is None else _bar_from(benchmark, series.times_ms[bar], _LATE_AT_LEAST_MS) for bar in bars]
    market = _relative(benchmark, beside, beside[OFFSETS_MIN.index(0)])
    return EventPath(event, base, side * raw, side * (raw - beta * market))


def _late_ms(minutes: int) -> int:
    late = max(_LATE_AT_LEAST_MS, round(abs(minutes) * _LATE * _MINUTE_MS)) if minutes else 0
    return min(late, -minutes * _MINUTE_MS - 1) if minutes < 0 else late  # before the base is never the base


def _bar_from(series: PriceSeries, at_ms: int, late_ms: int) -> int | None:
    place = bisect_left(series.times_ms, at_ms)
    return place if place < len(series.times_ms) and series.times_ms[place] - at_ms <= late_ms else None


def _relative(series: PriceSeries, bars: Sequence[int | None], base: int | None) -> Floats:
    if base is None:
        return np.full(len(bars), np.nan)
    return np.array([np.nan if bar is None else series.opens[bar] / series.opens[base] - 1 for bar in bars])


def study_of(found: Iterable[EventPath | LeftOut], *, dimensions: Sequence[str], seed: int = 0) -> Study:
    """Return mean curves with their bands over all events and by the value in each dimension. ``seed`` draws the bands."""
    every = list(found)
    paths = [one for one in every if isinstance(one, EventPath)]
    groups = [_group("all", "", paths, seed)] if paths else []
    for dimension in dimensions:
        by: dict[str, list[EventPath]] = {}
        for path in paths:
            by.setdefault(path.event.groups.get(dimension, ""), []).append(path)
        groups += [_group(dimension, n, by[n], seed) for n in sorted(by, key=lambda name: (-len(by[name]), name))]
    return Study(
        events=len(every),
        measured=len(paths),
        left_out=dict(Counter(one for one in every if isinstance(one, str)).most_common()),
        raw_only=dict(Counter(one.abnormal for one in paths if isinstance(one.abnormal, str)).most_common()),
        groups=tuple(groups),
    )


def _group(dimension: str, name: str, paths: Sequence[EventPath], seed: int) -> Group:
    at = np.array([path.event.at_ms for path in paths], dtype=np.int64)
    nothing = np.full(len(OFFSETS_MIN), np.nan)
    raw = np.array([path.raw for path in paths])
    abnormal = np.array([nothing if isinstance(path.abnormal, str) else path.abnormal for path in paths])
    # One draw of blocks serves all offsets that have blocks of that length.
    lengths = [max(_DAY_MS, 2 * abs(minutes) * _MINUTE_MS) for minutes in OFFSETS_MIN]
    points: dict[int, Point] = {}
    for length in dict.fromkeys(lengths):
        places = [n for n, one in enumerate(lengths) if one == length]
        measured = _means(np.hstack([raw[:, places], abnormal[:, places]]), at // length, seed)
        for n, (ours, theirs) in enumerate(zip(measured[: len(places)], measured[len(places) :], strict=True)):
            points[places[n]] = Point(
                minutes=OFFSETS_MIN[places[n]],
                events=ours.events,
                blocks=ours.blocks,
                raw=ours.mean,
                raw_low=ours.low,
                raw_high=ours.high,
                abnormal_events=theirs.events,
                abnormal_blocks=theirs.blocks,
                abnormal=theirs.mean,
                abnormal_low=theirs.low,
                abnormal_high=theirs.high,
            )
    return Group(
        dimension=dimension,
        name=name,
        events=len(paths),
        days=len(np.unique(at // _DAY_MS)),
        points=tuple(points[n] for n in range(len(OFFSETS_MIN))),
    )


class _Mean(msgspec.Struct, frozen=True):
    events: int
    blocks: int
    mean: float | None = None
    low: float | None = None
    high: float | None = None


def _means(values: Floats, blocks: npt.NDArray[np.int64], seed: int) -> list[_Mean]:
    """Return the mean of each column with its band, by random signs of whole blocks; NaN is no observation."""
    found = []
    for column in values.T:
        there = ~np.isnan(column)
        if not there.any():
            found.append(_Mean(0, 0))
            continue
        labels = np.unique(blocks[there], return_inverse=True)[1].astype(np.intp)
        band = mean_of(column[there], labels, seed=seed, draws=DRAWS)
        found.append(_Mean(int(there.sum()), band.blocks, band.estimate, band.low, band.high))
    return found
