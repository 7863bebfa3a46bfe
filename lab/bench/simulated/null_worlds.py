"""Made-up worlds of ``bench nulls``: their cases, and two runs of each whose truth is known."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from evaluation.compare.run_rows import HORIZONS
from evaluation.compare.terms import OWN_HORIZONS

Floats = npt.NDArray[np.float64]
DAY_S = 86_400
BEGIN_S = 20_000 * DAY_S
OWN_MIX = ((86_400, 0.7), (7 * 86_400, 0.2), (30 * 86_400, 0.1))
"""Own horizons of made-up signals, and how many have each."""
SHARED = 0.6
RETURN = 0.03
SOURCES = ("wire", "blog", "exchange", "agency", "forum", "paper", "desk", "official")


class World(msgspec.Struct, frozen=True, kw_only=True):
    """Days and cases a day. ``shared``: the part of the variance that the cases of a day have in common.

    ``mood``: how far that part of a day depends on the day before (AR(1)), in what a run likes to do, its confidence and its
    latency. ``trend``: what the market gains a day, in daily standard deviations. ``tails``: degrees of freedom of the
    prices' steps, 0 for normal ones. ``unbalanced``: some days have ten times the cases of others. ``missing``: the share of
    falls beyond a standard deviation after which there is no price.
    """

    days: int
    per_day: int
    shared: float = SHARED
    mood: float = 0.0
    trend: float = 0.0
    tails: int = 0
    unbalanced: bool = False
    missing: float = 0.0


class Cases(msgspec.Struct, frozen=True, kw_only=True):
    """The cases of one drawn world: their days and moments, in seconds, their own horizons and returns by horizon."""

    day: npt.NDArray[np.int64]
    at: Floats
    own: npt.NDArray[np.int64]
    returns: dict[int, Floats]
    priced: npt.NDArray[np.bool_]

    @property
    def returned(self) -> Floats:
        """The return after a day."""
        return self.returns[DAY_S]


def common(rng: np.random.Generator, world: World, cases: Cases) -> Floats:
    """Return a standard normal number for each case, of which the cases of a day share a part."""
    of_day = rng.standard_normal(world.days)
    for n in range(1, world.days if world.mood else 0):
        of_day[n] = world.mood * of_day[n - 1] + math.sqrt(1.0 - world.mood**2) * of_day[n]
    own = rng.standard_normal(cases.at.size)
    return np.asarray(math.sqrt(world.shared) * of_day[cases.day] + math.sqrt(1.0 - world.shared) * own)


def cases_of(rng: np.random.Generator, world: World) -> Cases:
    """Draw the cases of a world. One market by the hour lies under all assets, so returns that overlap share hours of it."""
    number = np.full(world.days, world.per_day)
    if world.unbalanced:
        number = np.maximum(1, rng.lognormal(math.log(world.per_day) - 0.5, 1.0, world.days).astype(int))
    day = np.repeat(np.arange(world.days), number)
    at = day * float(DAY_S) + rng.random(day.size) * DAY_S
    own = rng.choice([horizon for horizon, _ in OWN_MIX], day.size, p=[share for _, share in OWN_MIX])

    def steps(size: int) -> Floats:
        if not world.tails:
            return rng.standard_normal(size)
        return rng.standard_t(world.tails, size) * math.sqrt((world.tails - 2) / world.tails)

    path = np.concatenate([[0.0], np.cumsum(steps(24 * (world.days + 32)) / math.sqrt(24) + world.trend / 24)])
    begin = at / 3600
    hours = np.arange(path.size, dtype=np.float64)
    returns = {}
    for horizon in {*HORIZONS, *OWN_HORIZONS}:
        market = np.interp(begin + horizon / 3600, hours, path) - np.interp(begin, hours, path)
        alone = steps(day.size) * math.sqrt(horizon / DAY_S)
        moved = RETURN * (math.sqrt(world.shared) * market + math.sqrt(1.0 - world.shared) * alone)
        returns[horizon] = np.maximum(moved, -0.95)
    fell = returns[DAY_S] < -RETURN
    priced = ~(fell & (rng.random(day.size) < world.missing))
    return Cases(day=day, at=at, own=own, returns=returns, priced=priced)


class Made(msgspec.Struct, frozen=True, kw_only=True):
    """Two runs before their comparison: for each case the side that each takes, and whether it missed."""

    cases: Cases
    sides: tuple[npt.NDArray[Any], npt.NDArray[Any]]
    missed: tuple[npt.NDArray[Any], npt.NDArray[Any]]
    sources: npt.NDArray[Any]
    judged: tuple[tuple[npt.NDArray[Any], Floats], ...] = ()
    """Of each run: its verdicts and confidences. Without: what the sides and the run's mood say."""
    true: npt.NDArray[np.bool_] | None = None
    truths: dict[int, float] = {}
    """The truth of the cases in which it is known."""
    penny: Floats | None = None
    """Moves after a day of another asset, which B buys where A does not act."""
    late_s: float = 0.0
    """How much longer B takes for a case."""
    missed_moves: Floats | None = None
    """What the asset of a case moves before B enters it."""


def _made(rng: np.random.Generator, cases: Cases, *sides: npt.NDArray[Any]) -> Made:
    none = np.zeros(cases.at.size, bool)
    sources = np.array(SOURCES)[rng.integers(0, len(SOURCES), cases.at.size)]
    return Made(cases=cases, sides=(sides[0], sides[1]), missed=(none, none), sources=sources)


# Nulls


def moods(rng: np.random.Generator, world: World, cases: Cases) -> npt.NDArray[Any]:
    """Return the side that one reading of a prompt takes in each case: on some days it is bolder than on others."""
    bold, bullish = common(rng, world, cases), common(rng, world, cases)
    return np.where(bold > -0.3, np.where(bullish > -0.4, 1, -1), 0)


def null(rng: np.random.Generator, world: World) -> Made:
    """Two readings of one prompt: half of the cases are judged alike, the others by each run's own mood."""
    cases = cases_of(rng, world)
    first, alike = moods(rng, world, cases), rng.random(cases.at.size) < 0.5
    return _made(rng, cases, *(np.where(alike, first, moods(rng, world, cases)) for _ in range(2)))


def gate(rng: np.random.Generator, world: World) -> Made:
    """A rewording of triage that moves one case in ten across the gate each way.

    Deep to shallow replays (the signal is held back). Shallow to deep needs a search that was never made, and is a
    miss.
    """
    made = null(rng, world)
    drawn, deep = rng.random(made.cases.at.size), common(rng, world, made.cases) > 0
    side = np.where(deep, made.sides[0], 0)
    reworded, missed = np.where(deep & (drawn < 0.2), 0, side), ~deep & (drawn < 0.2)
    return msgspec.structs.replace(made, sides=(side, reworded), missed=(made.missed[0], missed))


# Real differences


def filtered(rng: np.random.Generator, world: World) -> Made:
    """A candidate that holds back 80 % of what would lose and 10 % of what would gain."""
    cases = cases_of(rng, world)
    first = np.where(common(rng, world, cases) > -0.3, np.where(rng.random(cases.at.size) < 0.5, 1, -1), 0)
    held_back = rng.random(cases.at.size) < np.where(first * cases.returned < 0, 0.8, 0.1)
    return _made(rng, cases, first, np.where(held_back, 0, first))


def both_ways(rng: np.random.Generator, world: World) -> Made:
    """A candidate that is right more often on the news of half of the sources and wrong more often on that of the others."""
    cases = cases_of(rng, world)
    right = np.sign(cases.returned).astype(int)
    first = np.where(rng.random(right.size) < 0.5, right, -right)
    made = _made(rng, cases, first, first)
    helped = np.isin(made.sources, SOURCES[::2])
    changed = np.where(rng.random(right.size) < 0.4, np.where(helped, right, -right), first)
    return msgspec.structs.replace(made, sides=(first, changed))


# Candidates for a gate


def judged(rng: np.random.Generator, world: World) -> Made:
    """A run that judges claims better than a coin and buys what it confirms; truths are known of half of the cases.

    B says the same. True claims rise by half a percent on average, false ones fall by as much.
    """
    cases = cases_of(rng, world)
    true = rng.random(cases.at.size) < 0.6
    drawn = rng.random(true.size)
    words = np.where(
        drawn < np.where(true, 0.7, 0.2),
        "confirmed",
        np.where(drawn < np.where(true, 0.9, 0.4), "unconfirmed", "refuted"),
    )
    noise = 0.05 * rng.standard_normal(true.size)
    sure = np.clip(np.select([words == "confirmed", words == "refuted"], [0.8, 0.2], 0.5) + noise, 0.02, 0.98)
    drift = np.where(true, 0.005, -0.005)
    cases = msgspec.structs.replace(cases, returns={at: moved + drift for at, moved in cases.returns.items()})
    side = (words == "confirmed").astype(int)
    known = np.flatnonzero(rng.random(true.size) < 0.5)
    truths = {int(n): float(true[n]) for n in known}
    made = _made(rng, cases, side, side)
    return msgspec.structs.replace(made, judged=((words, sure), (words, sure)), true=true, truths=truths)


def confirms_what_was_refuted(rng: np.random.Generator, world: World) -> Made:
    """B confirms all that A refuted, and trades as before: profit says nothing of it."""
    made = judged(rng, world)
    words, sure = made.judged[0]
    changed = np.where(words == "refuted", "confirmed", words)
    return msgspec.structs.replace(made, judged=(made.judged[0], (changed, sure)))


def always_sure(rng: np.random.Generator, world: World) -> Made:
    """B is sure of everything by 0.97, and trades as before."""
    made = judged(rng, world)
    words, sure = made.judged[0]
    return msgspec.structs.replace(made, judged=(made.judged[0], (words, np.full(sure.size, 0.97))))


def late(rng: np.random.Generator, world: World) -> Made:
    """B judges as A and takes a quarter of an hour longer, in which the price makes the move of the news, and moves by chance."""
    made = judged(rng, world)
    quarter_s = 900.0
    chance = RETURN * math.sqrt(quarter_s / DAY_S) * rng.standard_normal(made.cases.at.size)
    gone = np.where(np.asarray(made.true), 0.005, -0.005) + chance
    return msgspec.structs.replace(made, late_s=quarter_s, missed_moves=gone)


def never_acts(rng: np.random.Generator, world: World) -> Made:
    """B judges as A, and never acts."""
    made = judged(rng, world)
    return msgspec.structs.replace(made, sides=(made.sides[0], np.zeros_like(made.sides[0])))


def improved(rng: np.random.Generator, world: World) -> Made:
    """B corrects six in ten of A's wrong verdicts, and buys what it confirms."""
    made = judged(rng, world)
    words, sure = made.judged[0]
    right = np.where(np.asarray(made.true), "confirmed", "refuted")
    wrong = (words != right) & (words != "unconfirmed") & (rng.random(words.size) < 0.6)
    better = np.where(wrong, right, words)
    surer = np.where(wrong, 1.0 - sure, sure)
    sides = (made.sides[0], (better == "confirmed").astype(int))
    return msgspec.structs.replace(made, sides=sides, judged=(made.judged[0], (better, surer)))


def rare_crash(rng: np.random.Generator, world: World) -> Made:
    """B also buys a coin that gains half a percent on most days, and loses a quarter on one day in fifty: a loss of 0.2 % a trade."""
    made = null(rng, world)
    side = made.sides[0]
    crash = (rng.random(world.days) < 0.02)[made.cases.day]
    penny = np.where(crash, -0.25, 0.005 + 0.003 * rng.standard_normal(side.size))
    return msgspec.structs.replace(made, sides=(side, np.where(side == 0, 1, side)), penny=penny)
