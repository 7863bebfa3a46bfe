"""``bench nulls``: how often a comparison reports a difference where there is none, and detects one where there is.

Seeded repetitions of made-up runs whose truth is known, each put through the whole comparison of ``backtest compare``.
In a null, both runs are drawn in the same way, day by day and case by case: any reported difference is a false alarm.
Returns, confidence, latency and a run's tendencies share a part among all cases of a day: 60 % of the variance.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from decimal import Decimal
from functools import partial
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from evaluation.compare.comparison import Comparison, compare
from evaluation.compare.run_rows import HORIZONS, ComparedCase, Returns, RunRows
from evaluation.compare.terms import OWN_HORIZONS, Scoring
from evaluation.statistics.sequence import looked_at
from lab.bench.measures import Figure

Floats = npt.NDArray[np.float64]

REPETITIONS = 400
"""The short form; docs/verdict.md reports 2,000."""
POWER_OF = 0.25
"""Power needs fewer repetitions than a small error rate: this share of them."""
DRAWS = 999
"""Random signs per test, fewer than the command's: same level, slightly coarser p-value."""
DAY_S = 86_400
BEGIN_S = 20_000 * DAY_S
OWN_S = 14_400
"""Own horizon of a made-up signal; a day if horizons overlap."""
SHARED = 0.6
RETURN = 0.03
EVENT_TYPES = ("listing", "hack", "regulation", "partnership", "macro", "delisting", "funding", "upgrade")


class World(msgspec.Struct, frozen=True, kw_only=True):
    """Days, and cases per day. ``shared``: the part of the variance that the cases of a day have in common."""

    days: int
    per_day: int
    shared: float = SHARED
    overlapping: bool = False
    """True if returns of neighbouring days share hours of one price path."""

    @property
    def cases(self) -> int:
        """The number of cases."""
        return self.days * self.per_day


class Verdicts(msgspec.Struct, frozen=True, kw_only=True):
    """Differences reported by one comparison: primary metric, any secondary metric, any dimension of segments."""

    primary: bool
    secondary: bool
    segments: bool
    untested: bool


def common(rng: np.random.Generator, world: World, shared: float | None = None) -> Floats:
    """Return a standard normal number per case, with a part that the cases of a day share."""
    part = world.shared if shared is None else shared
    day = np.repeat(rng.standard_normal(world.days), world.per_day)
    return np.asarray(math.sqrt(part) * day + math.sqrt(1.0 - part) * rng.standard_normal(world.cases))


def moves(rng: np.random.Generator, world: World) -> tuple[Floats, Floats]:
    """Return each case's time in seconds and its asset's return over a day. Shorter horizons are parts of it."""
    at = np.sort(rng.random((world.days, world.per_day)), axis=1) * DAY_S
    at = (np.arange(world.days)[:, None] * DAY_S + at).ravel()
    if not world.overlapping:
        return at, RETURN * common(rng, world)
    # One hourly market under all assets: a 24 h return shares hours with those of the days before and after.
    path = np.concatenate([[0.0], np.cumsum(rng.standard_normal(24 * (world.days + 2)))]) / math.sqrt(24)
    hour = (at // 3600).astype(int)
    market = path[hour + 24] - path[hour]
    own = rng.standard_normal(world.cases)
    return at, RETURN * (math.sqrt(world.shared) * market + math.sqrt(1.0 - world.shared) * own)


class Made(msgspec.Struct, frozen=True, kw_only=True):
    """Two runs before their comparison: for each case the side that each takes, and whether it missed."""

    at: Floats
    returns: Floats
    sides: tuple[npt.NDArray[Any], npt.NDArray[Any]]
    missed: tuple[npt.NDArray[Any], npt.NDArray[Any]]
    events: npt.NDArray[Any]


def compared(rng: np.random.Generator, world: World, made: Made, seed: int) -> Comparison:
    """Compare two made-up runs."""
    names = [f"c{n:05d}" for n in range(world.cases)]
    runs, how = _runs(rng, world, made, names), Scoring(seed=seed, draws=DRAWS)
    return compare(runs[0], runs[1], _returns(made, names), how=how, differences=0)


def _runs(rng: np.random.Generator, world: World, made: Made, names: list[str]) -> list[RunRows]:
    return [
        RunRows(run_id=name, cases=world.cases, rows=list(_rows(rng, world, made, side, names)), status="finished")
        for side, name in enumerate("ab")
    ]


def _returns(made: Made, names: list[str]) -> Returns:
    moved = {
        (name, "BTC", horizon): change * math.sqrt(horizon / DAY_S)
        for name, change in zip(names, made.returns.tolist(), strict=True)
        for horizon in (*HORIZONS, *OWN_HORIZONS)
    }
    # The shared part of a day's cases is the market, with a beta of 0.9.
    days = np.unique(made.at // DAY_S, return_inverse=True)[1]
    market = 0.9 * (np.bincount(days, weights=made.returns) / np.bincount(days))[days]
    less = dict(zip(names, market.tolist(), strict=True))
    adjusted = {key: change - less[key[0]] * math.sqrt(key[2] / DAY_S) for key, change in moved.items()}
    return Returns(held=moved, moved=moved, adjusted=adjusted)


def _rows(rng: np.random.Generator, world: World, made: Made, side: int, names: list[str]) -> Iterator[ComparedCase]:
    # Differences between two readings of one prompt, plus each day's own tendency.
    confidence = np.clip(0.65 + 0.08 * common(rng, world), 0.02, 0.98)
    latency = 900.0 * np.exp(0.2 * common(rng, world))
    cost = 0.0004 * np.exp(0.1 * common(rng, world))
    for n, name in enumerate(names):
        sure = float(confidence[n])
        spent = Decimal(f"{cost[n]:.7f}")
        acts = int(made.sides[side][n])
        missed = bool(made.missed[side][n])
        yield ComparedCase(
            case_id=name, repeat=0, story_id=name, status="miss" if missed else "replayed", has_signal=not missed,
            event_type=str(made.events[n]), asset="BTC", action=("sell", "observe", "buy")[acts + 1],
            direction="long" if acts >= 0 else "short", preliminary_confidence=0.6, confidence=sure, executed=1,
            cost_usd=spent, would_have_cost_usd=spent, latency_ms=float(latency[n]),
            verdict="confirmed" if acts else "unconfirmed", signal_hash=n * 2 + side, notes_hash=1, language="en",
            source="wire", horizon_s=DAY_S if world.overlapping else OWN_S, knowable_ms=int((BEGIN_S + made.at[n]) * 1000),
        )  # fmt: skip


# Nulls


def moods(rng: np.random.Generator, world: World) -> npt.NDArray[Any]:
    """Return the side that one reading of a prompt takes in each case. It is bolder on some days than on others."""
    bold, bullish = common(rng, world), common(rng, world)
    return np.where(bold > -0.3, np.where(bullish > -0.4, 1, -1), 0)


def null(rng: np.random.Generator, world: World) -> Made:
    """Two readings of one prompt: half of the cases are judged alike, the others by each run's own tendency."""
    at, returns = moves(rng, world)
    first, alike = moods(rng, world), rng.random(world.cases) < 0.5
    sides = tuple(np.where(alike, first, moods(rng, world)) for _ in range(2))
    none = np.zeros(world.cases, bool)
    return Made(at=at, returns=returns, sides=sides, missed=(none, none), events=_events(rng, world))  # type: ignore[arg-type]


def gate(rng: np.random.Generator, world: World) -> Made:
    """A rewording of triage that moves one case in ten across the gate each way.

    Deep to shallow replays (the signal is held back). Shallow to deep needs a search that was never made, and is a
    miss.
    """
    made = null(rng, world)
    drawn, deep = rng.random(world.cases), common(rng, world) > 0
    side = np.where(deep, made.sides[0], 0)
    reworded = np.where(deep & (drawn < 0.2), 0, side)
    missed = ~deep & (drawn < 0.2)
    none = np.zeros(world.cases, bool)
    return msgspec.structs.replace(made, sides=(side, reworded), missed=(none, missed))


def _events(rng: np.random.Generator, world: World) -> npt.NDArray[Any]:
    return np.array(EVENT_TYPES)[rng.integers(0, len(EVENT_TYPES), world.cases)]


# Real differences


def filtered(rng: np.random.Generator, world: World) -> Made:
    """A candidate that holds back 80 % of the losing signals and 10 % of the winning ones."""
    at, returns = moves(rng, world)
    first = np.where(common(rng, world) > -0.3, np.where(rng.random(world.cases) < 0.5, 1, -1), 0)
    loses = first * returns < 0
    held_back = rng.random(world.cases) < np.where(loses, 0.8, 0.1)
    none = np.zeros(world.cases, bool)
    sides = (first, np.where(held_back, 0, first))
    return Made(at=at, returns=returns, sides=sides, missed=(none, none), events=_events(rng, world))


def both_ways(rng: np.random.Generator, world: World) -> Made:
    """A candidate that is right more often in half of the event types and wrong more often in the others."""
    at, returns = moves(rng, world)
    events = _events(rng, world)
    right = np.sign(returns).astype(int)
    helped = np.isin(events, EVENT_TYPES[::2])
    first = np.where(rng.random(world.cases) < 0.5, right, -right)
    changed = np.where(rng.random(world.cases) < 0.4, np.where(helped, right, -right), first)
    none = np.zeros(world.cases, bool)
    return Made(at=at, returns=returns, sides=(first, changed), missed=(none, none), events=events)


NULLS: dict[str, tuple[World, Callable[[np.random.Generator, World], Made]]] = {
    "independent": (World(days=40, per_day=10, shared=0.0), null),
    "20 days x 10 cases, correlation 0.6": (World(days=20, per_day=10), null),
    "6 days x 40 cases": (World(days=6, per_day=40), null),
    "5 days x 40 cases (too few days)": (World(days=5, per_day=40), null),
    "24 h horizons that overlap": (World(days=40, per_day=10, overlapping=True), null),
    "rewording across the gate both ways": (World(days=40, per_day=10), gate),
}
POWER: dict[str, tuple[World, Callable[[np.random.Generator, World], Made]]] = {
    "filter of losers": (World(days=40, per_day=10), filtered),
    "half of the event types harmed, half helped": (World(days=40, per_day=10), both_ways),
}


def one_null(name: str, seed: int) -> Verdicts:
    """Return the differences that one comparison reported in a null."""
    world, make = NULLS[name]
    found = _compared(world, make, seed)
    called = [m for m in found.metrics if m.verdict in ("better", "worse", "higher", "lower")]
    return Verdicts(
        primary=any(m.role == "primary" for m in called),
        secondary=any(m.role == "secondary" for m in called),
        segments=any(one.differs for one in found.segments),
        untested=all(m.p is None for m in found.metrics),
    )


def one_watched(seed: int) -> bool:
    """Return whether a check of a growing null after every ten of 400 cases ever reports a difference."""
    rng = np.random.default_rng(seed)
    world = World(days=40, per_day=10)
    made = null(rng, world)
    earned = (made.sides[1] - made.sides[0]) * made.returns
    return looked_at(earned, np.repeat(np.arange(world.days), world.per_day), every=10)


def one_power(name: str, seed: int) -> bool:
    """Return whether one comparison detected the real difference."""
    world, make = POWER[name]
    found = _compared(world, make, seed)
    if make is filtered:
        return found.primary.verdict == "better"
    kinds = next((one for one in found.segments if one.name == "event_type"), None)
    return kinds is not None and kinds.differs and {"better", "worse"} <= {one.verdict for one in kinds.segments}


def _compared(world: World, make: Callable[[np.random.Generator, World], Made], seed: int) -> Comparison:
    rng = np.random.default_rng(seed)
    return compared(rng, world, make(rng, world), seed)


def comparing(days: int = 250) -> Figure:
    """Time the comparison of two runs of 40 cases per day, as in the command, without reading the tables."""
    world = World(days=days, per_day=40)
    rng = np.random.default_rng(1)
    made = null(rng, world)
    names = [f"c{n:05d}" for n in range(world.cases)]
    runs = _runs(rng, world, made, names)
    returns = _returns(made, names)
    begin = time.process_time()
    compare(runs[0], runs[1], returns)
    return Figure(
        name=f"compare: {world.cases:,} cases on {days} days, all signs drawn", value=time.process_time() - begin, unit="s",
        target="< 3",
    )  # fmt: skip


async def nulls(repetitions: int = REPETITIONS) -> list[Figure]:
    """Return the share of false alarms in each situation, and the power.

    A false alarm is a difference in the primary metric, or in any secondary one after Holm; the larger share is
    reported. Segments, corrected as a separate family, are reported separately.
    """
    figures = []
    with ProcessPoolExecutor() as pool:
        for number, name in enumerate(NULLS):
            seeds = range(1_000_000 * (number + 1), 1_000_000 * (number + 1) + repetitions)
            found = list(pool.map(partial(one_null, name), seeds, chunksize=8))
            shares = {
                kind: sum(getattr(one, kind) for one in found) / repetitions
                for kind in ("primary", "secondary", "segments")
            }
            untested = sum(one.untested for one in found) / repetitions
            told = f"primary {shares['primary']:.1%}, any secondary {shares['secondary']:.1%}"
            figures.append(
                Figure(name=f"false alarms: {name}", value=max(shares["primary"], shares["secondary"]), unit="share", target="<= 0.06",
                       baseline=f"{told}; {repetitions} repetitions" + (f", {untested:.0%} untested" if untested else ""))
            )  # fmt: skip
            figures.append(
                Figure(name=f"segments said to differ: {name}", value=shares["segments"], unit="share", target="<= 0.075",
                       baseline=f"{repetitions} repetitions")
            )  # fmt: skip
        seeds = range(1_000_000 * 40, 1_000_000 * 40 + repetitions)
        watched = sum(pool.map(one_watched, seeds, chunksize=64)) / repetitions
        figures.append(
            Figure(name="false alarms: shadow looked at every 10 cases up to 400", value=watched, unit="share",
                   target="<= 0.06", baseline=f"{repetitions} repetitions")
        )  # fmt: skip
        many = max(int(repetitions * POWER_OF), 100)
        for number, name in enumerate(POWER):
            seeds = range(50_000_000 + 1_000_000 * number, 50_000_000 + 1_000_000 * number + many)
            seen = sum(pool.map(partial(one_power, name), seeds, chunksize=8)) / many
            figures.append(
                Figure(name=f"power: {name}", value=seen, unit="share", target=">= 0.90", baseline=f"{many} repetitions")
            )  # fmt: skip
    return figures
