"""The event study: how the price of an asset moved around the signal on it, compared with the market. Pure.

Each event has a base: the first open at or after its signal was emitted. At each of ``OFFSETS_MIN`` from there the price is
compared with the base, so the curve is 0 at the base. A trader missed what lies before it and could trade what lies after it.
The **raw** return is that of the asset. The **abnormal** return subtracts beta times the return of BTC over the same bars
(the market model without its constant; MacKinlay 1997, "Event Studies in Economics and Finance").

Beta is the slope of the asset's hourly returns on those of BTC in the 30 days that end an hour before the base. So it contains
neither the event nor what leaked of it. Returns are hourly, because over minutes prices that do not trade at the same moment
seem unrelated (Epps 1979).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

import msgspec
import numpy as np
import numpy.typing as npt

from evaluation.prices.confidence_study import ConfidenceStudy, confidence_study, measured
from infra.market.outcomes.markets import ENTRY_WITHIN_S
from infra.market.outcomes.returns import Within
from schemas.prices import PriceSeries

BENCHMARK = "BTC"
BETA_DAYS = 30
BETA_RETURNS = 48
"""Hourly returns that a beta needs at least. With the correlations of coins its standard error is then about 0.15."""
_BENCHMARK_LATE_MS = 300_000
"""By how much a price of the benchmark may be later than the asset's."""
_HOUR_MS = 3_600_000
_NONE = 1e-12
"""A variance below this share of all squares is rounding: the market stood still."""

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


class Hourly(msgspec.Struct, frozen=True):
    """Hours since 1970 of which both markets have a bar that opens at one time, and both opens; the first such bar of each hour."""

    hours: Ints
    asset: Floats
    benchmark: Floats


def hourly(series: PriceSeries, benchmark: PriceSeries) -> Hourly:
    """Return the hourly prices from which betas of a market are computed."""
    times = np.asarray(series.times_ms, dtype=np.int64)
    both, mine, its = np.intersect1d(
        times, np.asarray(benchmark.times_ms, dtype=np.int64), assume_unique=True, return_indices=True
    )
    hours, first = np.unique(both // _HOUR_MS, return_index=True)
    return Hourly(hours, np.asarray(series.opens)[mine[first]], np.asarray(benchmark.opens)[its[first]])


def bars_from(times: Ints, at_ms: Ints, late_ms: int | Ints) -> Ints:
    """Return the index of the first bar from each time on, or -1 if it comes later than ``late_ms``."""
    place = np.searchsorted(times, at_ms)
    opened_at = times[np.minimum(place, len(times) - 1)]
    return np.where((opened_at >= at_ms) & (opened_at - at_ms <= late_ms), place, -1)


def benchmark_return(benchmark: PriceSeries, begin_ms: Ints, end_ms: Ints) -> Floats:
    """Return the benchmark's return between bars of an asset that open at these times; NaN without a price near one of them."""
    times, opens = np.asarray(benchmark.times_ms, dtype=np.int64), np.asarray(benchmark.opens)
    first, last = (bars_from(times, at, _BENCHMARK_LATE_MS) for at in (begin_ms, end_ms))
    return np.where((first < 0) | (last < 0), np.nan, opens[last] / opens[first] - 1)


def is_benchmark(series: PriceSeries) -> bool:
    """Return whether this is the market of the benchmark itself, which has no beta."""
    return series.symbol.partition("/")[0] == BENCHMARK


def betas_before(prices: Hourly, at_ms: Ints) -> Floats:
    """Return for each time the slope of the asset's hourly returns on the benchmark's in the :data:`BETA_DAYS` days that end
    an hour before; NaN where there are fewer than :data:`BETA_RETURNS` of them."""
    if len(prices.hours) < BETA_RETURNS + 1:
        return np.full(len(at_ms), np.nan)
    follows = np.diff(prices.hours) == 1
    x, y = (np.where(follows, np.diff(of) / of[:-1], 0.0) for of in (prices.benchmark, prices.asset))
    sums = np.zeros((5, len(x) + 1))
    np.cumsum([follows, x, y, x * y, x * x], axis=1, out=sums[:, 1:])
    end = (at_ms - _HOUR_MS) // _HOUR_MS  # the hour that is still running is left out
    first, last = (np.searchsorted(prices.hours, hour) for hour in (end - 24 * BETA_DAYS, end))
    count, of_x, of_y, of_xy, of_xx = sums[:, np.maximum(last - 1, first)] - sums[:, first]
    with np.errstate(divide="ignore", invalid="ignore"):
        varies = of_xx - of_x * of_x / count
        beta = (of_xy - of_x * of_y / count) / varies
    return np.where((count >= BETA_RETURNS) & (varies > _NONE * sums[4, -1]), beta, np.nan)


OFFSETS_MIN = (-60, -45, -30, -15, -5, 0, 5, 10, 15, 30, 60, 120, 240, 480, 720, 1440)
"""Minutes from the base."""
_MINUTE_MS, _DAY_MS = 60_000, 86_400_000
_OFFSETS_MS = np.array(OFFSETS_MIN, dtype=np.int64) * _MINUTE_MS
_LATE_MS = np.maximum(_MINUTE_MS, np.abs(_OFFSETS_MS) // 10)
"""By how much a price may come after its offset: a tenth of it, at least a minute, as for outcomes; before the base it is never the base."""
_LATE_MS = np.where(_OFFSETS_MS < 0, np.minimum(_LATE_MS, -_OFFSETS_MS - 1), np.where(_OFFSETS_MS, _LATE_MS, 0))

LeftOut = Literal["neutral", "no_symbol", "no_price"]
"""Reason why an event is in no curve: its claim has no direction; no bars of its market; no bar near its emission."""
NotAbnormal = Literal["is_benchmark", "no_beta"]
"""Reason why an event has only raw returns: it is on BTC itself; or too few bars of the asset or of BTC before it."""


class StudyEvent(msgspec.Struct, frozen=True, kw_only=True):
    """A signal. ``side``: 1 where its claim, if true, lifts the price, -1 where it lowers it, 0: neither.

    ``at_ms``: when it was emitted. ``confidence`` from 0 to 1. ``groups``: its value in each dimension, such as ``{"verdict": "likely"}``.
    """

    side: int
    at_ms: int
    groups: Mapping[str, str]
    confidence: float = 0.0


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
    """The curves, the largest group of each dimension first. ``measured`` events are in them; ``left_out`` and ``raw_only`` count the others.

    ``smaller_groups``: how many groups are not among ``groups``, where the largest alone were asked for. ``by_confidence`` (of
    abnormal returns ``abnormal_by_confidence``): how far confidence tells of the returns.
    """

    events: int
    measured: int
    left_out: dict[str, int]
    raw_only: dict[str, int]
    groups: tuple[Group, ...]
    smaller_groups: int = 0
    by_confidence: ConfidenceStudy = ConfidenceStudy()
    abnormal_by_confidence: ConfidenceStudy = ConfidenceStudy()


def event_paths(
    events: Sequence[StudyEvent],
    series: PriceSeries | None,
    benchmark: PriceSeries | None,
    *,
    directed: bool = True,
    within_s: Within = ENTRY_WITHIN_S,
) -> list[EventPath | LeftOut]:
    """Return the returns around each event on one market. ``directed``: in the claim's direction, else as they are.
    ``within_s``: by how much the base may be late, also by import."""
    side = np.array([event.side if directed else 1 for event in events])
    if series is None:
        return ["no_symbol" if acted else "neutral" for acted in side]
    times = np.asarray(series.times_ms, dtype=np.int64)
    at = np.array([event.at_ms for event in events])
    late = np.array(
        [within_s[version] for version in series.imports] if isinstance(within_s, Mapping) else [within_s] * len(times)
    )
    base = bars_from(times, at, (late * 1000).astype(np.int64)[np.minimum(np.searchsorted(times, at), len(times) - 1)])
    bars = np.where(base[:, None] < 0, -1, bars_from(times, times[base][:, None] + _OFFSETS_MS, _LATE_MS))
    raw = side[:, None] * _relative(series, bars, base)
    why: NotAbnormal = "is_benchmark" if is_benchmark(series) else "no_beta"
    beta, abnormal = np.full(len(events), np.nan), raw
    if benchmark is not None and why == "no_beta":
        beta = betas_before(hourly(series, benchmark), times[base])
        abnormal = raw - (side * beta)[:, None] * benchmark_return(benchmark, times[base][:, None], times[bars])
    paths: list[EventPath | LeftOut] = []
    for n, event in enumerate(events):
        if not side[n]:
            paths.append("neutral")
        elif base[n] < 0:
            paths.append("no_price")
        else:
            paths.append(EventPath(event, int(base[n]), raw[n], why if np.isnan(beta[n]) else abnormal[n]))
    return paths


def _relative(series: PriceSeries, bars: Ints, base: Ints) -> Floats:
    opens = np.asarray(series.opens)
    return np.where((bars < 0) | (base < 0)[:, None], np.nan, opens[bars] / opens[base][:, None] - 1)


def study_of(
    events: Iterable[EventPath | LeftOut],
    *,
    dimensions: Sequence[str],
    seed: int = 0,
    most: int | None = None,
    directed: bool = True,
) -> Study:
    """Return mean curves with their bands over all events and by the value in each dimension, of ``most`` groups of each at
    most. ``seed`` draws the bands. ``directed``: the paths are in the direction of each claim."""
    every = list(events)
    paths = [event for event in every if isinstance(event, EventPath)]
    groups = [_group("all", "", paths, seed)] if paths else []
    smaller = 0
    for dimension in dimensions:
        by: dict[str, list[EventPath]] = {}
        for path in paths:
            by.setdefault(path.event.groups.get(dimension, ""), []).append(path)
        names = sorted(by, key=lambda name: (-len(by[name]), name))
        groups += [_group(dimension, name, by[name], seed) for name in names[:most]]
        smaller += len(names) - len(names[:most])
    return Study(
        events=len(every),
        measured=len(paths),
        left_out=dict(Counter(reason for reason in every if isinstance(reason, str)).most_common()),
        raw_only=dict(Counter(path.abnormal for path in paths if isinstance(path.abnormal, str)).most_common()),
        groups=tuple(groups),
        smaller_groups=smaller,
        by_confidence=_by_confidence(paths, "raw", seed, directed=directed),
        abnormal_by_confidence=_by_confidence(paths, "abnormal", seed, directed=directed),
    )


def _by_confidence(
    paths: Sequence[EventPath], returns: Literal["raw", "abnormal"], seed: int, *, directed: bool
) -> ConfidenceStudy:
    of = [(p.event, p.raw if returns == "raw" else p.abnormal) for p in paths]
    known = [(event, values) for event, values in of if not isinstance(values, str)]
    confidence, sides, at = (np.array([getattr(e, name) for e, _ in known]) for name in ("confidence", "side", "at_ms"))
    moved = np.array([values * (1 if directed else event.side) for event, values in known])
    return confidence_study(confidence, sides, at, moved, OFFSETS_MIN, seed=seed)


def _group(dimension: str, name: str, paths: Sequence[EventPath], seed: int) -> Group:
    at = np.array([path.event.at_ms for path in paths], dtype=np.int64)
    nothing = np.full(len(OFFSETS_MIN), np.nan)
    raw = np.array([path.raw for path in paths])
    abnormal = np.array([nothing if isinstance(path.abnormal, str) else path.abnormal for path in paths])
    points = []
    for n, minutes in enumerate(OFFSETS_MIN):
        ours, theirs = (measured(minutes, of[:, n], at, seed) for of in (raw, abnormal))
        points.append(Point(
            minutes=minutes, events=ours.events, blocks=ours.blocks, raw=ours.value, raw_low=ours.low, raw_high=ours.high,
            abnormal_events=theirs.events, abnormal_blocks=theirs.blocks, abnormal=theirs.value, abnormal_low=theirs.low,
            abnormal_high=theirs.high,
        ))  # fmt: skip
    return Group(
        dimension=dimension,
        name=name,
        events=len(paths),
        days=len(np.unique(at // _DAY_MS)),
        points=tuple(points),
    )
