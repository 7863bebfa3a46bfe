"""``bench nulls``: how often a comparison reports a difference where there is none, and detects one where there is.

Seeded repetitions of made-up runs whose truth is known, each put through the whole comparison of ``backtest compare``.
In a null, both runs are drawn in the same way, day by day and case by case: any reported difference is a false alarm.
Returns, confidence, latency and a run's tendencies share a part among all cases of a day: 60 % of the variance.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime
from decimal import Decimal
from functools import partial

import msgspec
import numpy as np

from evaluation.compare.compare_runs import gate_status
from evaluation.compare.comparison import Comparison, compare
from evaluation.compare.run_rows import ComparedCase, Returns, RunRows
from evaluation.compare.terms import Scoring
from evaluation.compare.watch import differences_of, parse_metric, watch_result
from evaluation.declaration import Watch
from evaluation.statistics.sequence import FIRST_BLOCK
from lab.bench.measures import Figure
from lab.bench.simulated.null_worlds import (
    BEGIN_S,
    Made,
    World,
    always_sure,
    both_ways,
    common,
    confirms_what_was_refuted,
    filtered,
    gate,
    improved,
    late,
    never_acts,
    null,
    rare_crash,
)
from newsproof.app import exits

REPETITIONS = 400
"""The short form; docs/verdict.md reports 1,000."""
POWER_OF = 0.25
"""Power needs fewer repetitions than a small error rate: this share of them."""
DRAWS = 999
"""Random signs per test, fewer than the command's: same level, slightly coarser p-value."""


class Verdicts(msgspec.Struct, frozen=True, kw_only=True):
    """What one comparison called a difference: the primary metric, any of the secondary ones, any dimension of segments.

    ``untested``: the primary metric could not be tested; ``silent``: none could.
    """

    primary: bool
    secondary: bool
    segments: bool
    untested: bool
    silent: bool


def _compared(world: World, make: Callable[[np.random.Generator, World], Made], seed: int) -> Comparison:
    rng = np.random.default_rng(seed)
    made = make(rng, world)
    runs, returns = _inputs(rng, world, made)
    return compare(runs[0], runs[1], returns, how=Scoring(seed=seed, draws=DRAWS), differences=0)


def _inputs(rng: np.random.Generator, world: World, made: Made) -> tuple[list[RunRows], Returns]:
    names = [f"c{n:05d}" for n in range(made.cases.at.size)]
    runs = [
        RunRows(run_id=name, cases=len(names), rows=list(_rows(rng, world, made, side, names)), status="finished")
        for side, name in enumerate("ab")
    ]
    priced = [(n, name) for n, name in enumerate(names) if made.cases.priced[n]]
    moved = {
        (name, "BTC", horizon): values[n]
        for horizon, returns in made.cases.returns.items()
        for values in (returns.tolist(),)
        for n, name in priced
    }
    if made.penny is not None:
        pennies = enumerate(made.penny.tolist())
        moved |= {(names[n], "PENNY", horizon): move for n, move in pennies for horizon in made.cases.returns}
    truths = {names[n]: truth for n, truth in made.truths.items()}
    late = moved
    if made.missed_moves is not None:
        gone = dict(zip(names, made.missed_moves.tolist(), strict=True))
        late = {key: (1.0 + move) / (1.0 + gone[key[0]]) - 1.0 for key, move in moved.items()}
    own = (Returns(held=moved), Returns(held=late))
    return runs, Returns(held=moved, moved=moved, adjusted=moved, own=own, truths=truths)


def _rows(rng: np.random.Generator, world: World, made: Made, side: int, names: list[str]) -> Iterator[ComparedCase]:
    # What differs between two readings of one prompt, with the days' own mood.
    cases = made.cases
    confidence = np.clip(0.65 + 0.08 * common(rng, world, cases), 0.02, 0.98).tolist()
    latency = (900.0 * np.exp(0.2 * common(rng, world, cases))).tolist()
    cost = (0.0004 * np.exp(0.1 * common(rng, world, cases))).tolist()
    own, at = cases.own.tolist(), cases.at.tolist()
    verdicts = np.where(made.sides[side] == 0, "unconfirmed", "confirmed").tolist()
    if made.judged:
        verdicts, confidence = (column.tolist() for column in made.judged[side])
    for n, name in enumerate(names):
        spent = Decimal(f"{cost[n]:.7f}")
        acts, missed = int(made.sides[side][n]), bool(made.missed[side][n])
        took_ms = latency[n] + side * made.late_s * 1000
        penny = made.penny is not None and side == 1 and not made.sides[0][n]
        yield ComparedCase(
            case_id=name, repeat=0, story_id=name, status="miss" if missed else "replayed", has_signal=not missed,
            event_type="listing", asset="PENNY" if penny else "BTC", action=("sell", "observe", "buy")[acts + 1],
            direction="long" if acts >= 0 else "short", preliminary_confidence=0.6, confidence=confidence[n], executed=1,
            cost_usd=spent, would_have_cost_usd=spent, latency_ms=took_ms, delay_ms=took_ms,
            verdict=verdicts[n], signal_hash=n * 2 + side, notes_hash=1, language="en",
            source=str(made.sources[n]), horizon_s=own[n], knowable_ms=int((BEGIN_S + at[n]) * 1000),
        )  # fmt: skip


MIXED = World(days=40, per_day=10)
NULLS: dict[str, tuple[World, Callable[[np.random.Generator, World], Made]]] = {
    "independent": (World(days=40, per_day=10, shared=0.0), null),
    "20 days x 10 cases": (World(days=20, per_day=10), null),
    "12 days x 40 cases": (World(days=12, per_day=40), null),
    "5 days x 40 cases (too few days)": (World(days=5, per_day=40), null),
    "40 days x 10 cases": (MIXED, null),
    "heavy tails": (World(days=40, per_day=10, tails=3), null),
    "unbalanced days": (World(days=40, per_day=10, unbalanced=True), null),
    "trend": (World(days=40, per_day=10, trend=0.3), null),
    "prices that are missing after falls": (World(days=40, per_day=10, missing=0.3), null),
    "rewording across the gate both ways": (MIXED, gate),
    "moods AR 0.5, 40 days": (World(days=40, per_day=10, mood=0.5), null),
    "moods AR 0.5, 120 days": (World(days=120, per_day=4, mood=0.5), null),
    "moods AR 0.7, 120 days": (World(days=120, per_day=4, mood=0.7, trend=0.3), null),
    "moods AR 0.7, 240 days": (World(days=240, per_day=3, mood=0.7, trend=0.3), null),
    "moods AR 0.9, 120 days": (World(days=120, per_day=4, mood=0.9, trend=0.3), null),
}
CHEATS: dict[str, Callable[[np.random.Generator, World], Made]] = {
    "confirms all that A refuted": confirms_what_was_refuted,
    "0.97 everywhere": always_sure,
    "never acts": never_acts,
    "takes 15 minutes longer": late,
}
"""Candidates to which the gate must not open."""
POWER: dict[str, tuple[World, Callable[[np.random.Generator, World], Made]]] = {
    "filter of losers": (MIXED, filtered),
    "a delay of 15 minutes a case": (MIXED, late),
    "half of the sources harmed, half helped, 60 days": (World(days=60, per_day=10), both_ways),
}


ANY = frozenset({"better", "worse", "higher", "lower"})
BETTER = frozenset({"better"})
WATCHED: dict[str, tuple[World, Callable[[np.random.Generator, World], Made], str, frozenset[str]]] = {
    "40 days x 10 cases": (MIXED, null, "profit@24h", ANY),
    "moods AR 0.7, 120 days, action_rate": (World(days=120, per_day=4, mood=0.7, trend=0.3), null, "action_rate", ANY),
    "a rare crash": (MIXED, rare_crash, "profit@24h", BETTER),
    "filter of losers": (MIXED, filtered, "profit@24h", BETTER),
    "moods AR 0.7, 120 days, confidence": (World(days=120, per_day=4, mood=0.7, trend=0.3), null, "confidence", ANY),
    "moods AR 0.9, 120 days, action_rate": (World(days=120, per_day=4, mood=0.9, trend=0.3), null, "action_rate", ANY),
    "moods AR 0.9, 120 days, confidence": (World(days=120, per_day=4, mood=0.9, trend=0.3), null, "confidence", ANY),
}
"""Growing runs that are looked at whenever a block closes, the metric, and the verdicts that count."""


def one_null(name: str, seed: int) -> Verdicts:
    """Return the differences that one comparison reported in a null."""
    world, make = NULLS[name]
    comparison = _compared(world, make, seed)
    called = [m for m in comparison.metrics if m.verdict in ("better", "worse", "higher", "lower")]
    return Verdicts(
        primary=any(m.role == "primary" for m in called),
        secondary=any(m.role == "secondary" for m in called),
        segments=any(dimension.differs for dimension in comparison.segments),
        untested=comparison.primary.p is None,
        silent=all(m.p is None for m in comparison.metrics),
    )


def one_watched(
    world: World, make: Callable[[np.random.Generator, World], Made], metric: str, says: frozenset[str], seed: int
) -> bool:
    """Return whether somebody who looks at a growing run whenever a block closes is ever told one of these verdicts."""
    rng = np.random.default_rng(seed)
    runs, returns = _inputs(rng, world, make(rng, world))
    chosen, watch = parse_metric(metric), Watch(metric=metric)
    at = {row.case_id: row.knowable_ms / 1000 for row in runs[0].rows}
    received = {name: datetime.fromtimestamp(seconds, UTC) for name, seconds in at.items()}
    ends = range(BEGIN_S + FIRST_BLOCK * chosen.block_s, int(max(at.values())), chosen.block_s)
    if chosen.better == "neither":
        ends = ends[-1:]  # nothing is held back, and the last look says whether an earlier one decided
    for end_s in ends:
        known = [
            msgspec.structs.replace(run, rows=[row for row in run.rows if at[row.case_id] < end_s]) for run in runs
        ]
        differences = differences_of(known[0], known[1], returns, received, chosen)
        differences = msgspec.structs.replace(differences, open_from=end_s // chosen.block_s)
        seen = watch_result("b", watch, chosen, differences)
        if seen.verdict in says or (chosen.better == "neither" and seen.decided_at is not None):
            return True
    return False


def one_power(name: str, seed: int) -> bool:
    """Return whether one comparison detected the real difference."""
    world, make = POWER[name]
    comparison = _compared(world, make, seed)
    if make is filtered:
        return comparison.primary.verdict == "better"
    if make is late:
        return any(m.verdict == "worse" for m in comparison.metrics if m.metric in ("delay", "profit_delayed"))
    kinds = next((segment for segment in comparison.segments if segment.name == "source"), None)
    return (
        kinds is not None and kinds.differs and {"better", "worse"} <= {segment.verdict for segment in kinds.segments}
    )


def one_gate(make: Callable[[np.random.Generator, World], Made], seed: int) -> int:
    """Return the exit status of a gate without options."""
    comparison = _compared(MIXED, make, seed)
    return gate_status(comparison, {})[0]


def one_crash(seed: int) -> bool:
    """Return whether a candidate with a rare crash is called better."""
    return _compared(MIXED, rare_crash, seed).primary.verdict == "better"


def comparing(days: int = 250) -> Figure:
    """Time the comparison of two runs of 40 cases per day, as in the command, without reading the tables."""
    world = World(days=days, per_day=40)
    rng = np.random.default_rng(1)
    runs, returns = _inputs(rng, world, null(rng, world))
    begin = time.process_time()
    compare(runs[0], runs[1], returns)
    return Figure(
        name=f"compare: {runs[0].cases:,} cases on {days} days, all signs drawn", value=time.process_time() - begin, unit="s",
        target="< 3",
    )  # fmt: skip


async def nulls(repetitions: int = REPETITIONS) -> list[Figure]:
    """Return the share of false alarms in each situation, and the power.

    A false alarm is a difference in the primary metric, or in any secondary one after Holm; the larger share is
    reported. Segments, corrected as a separate family, are reported separately.
    """
    with ProcessPoolExecutor() as pool:
        parts = (_false_alarms, _watched, _power, _gates)
        return [figure for part in parts for figure in part(pool, repetitions)]


def _false_alarms(pool: ProcessPoolExecutor, repetitions: int) -> list[Figure]:
    figures = []
    for number, name in enumerate(NULLS):
        seeds = range(1_000_000 * (number + 1), 1_000_000 * (number + 1) + repetitions)
        results = list(pool.map(partial(one_null, name), seeds, chunksize=8))
        shares = {
            kind: sum(getattr(result, kind) for result in results) / repetitions
            for kind in ("primary", "secondary", "segments")
        }
        untested = sum(result.untested for result in results) / repetitions
        if NULLS[name] == (MIXED, null):
            figures.append(
                Figure(name=f"power: the primary metric can be tested, {name}, three in ten beyond 24 h",
                       value=1.0 - untested, unit="share", target=">= 0.95", baseline=f"{repetitions} repetitions")
            )  # fmt: skip
        alarm_shares = f"primary {shares['primary']:.1%}, any secondary {shares['secondary']:.1%}"
        figures.append(
            Figure(name=f"false alarms: {name}", value=max(shares["primary"], shares["secondary"]), unit="share", target="<= 0.06",
                   baseline=f"{alarm_shares}; {repetitions} repetitions" + (f", {untested:.0%} untested" if untested else ""))
        )  # fmt: skip
        figures.append(
            Figure(name=f"segments said to differ: {name}", value=shares["segments"], unit="share", target="<= 0.075",
                   baseline=f"{repetitions} repetitions")
        )  # fmt: skip
    return figures


def _watched(pool: ProcessPoolExecutor, repetitions: int) -> list[Figure]:
    figures = []
    for number, (name, how) in enumerate(WATCHED.items()):
        seeds = range(1_000_000 * (40 + number), 1_000_000 * (40 + number) + repetitions)
        share = sum(pool.map(partial(one_watched, *how), seeds, chunksize=8)) / repetitions
        kind, target = {"a rare crash": ("cheats passed", "<= 0.08"), "filter of losers": ("power", ">= 0.80")}.get(
            name, ("false alarms", "<= 0.08" if "AR 0.9" in name else "<= 0.06")
        )
        figures.append(
            Figure(name=f"{kind}: shadow watched as each block closes, {name}", value=share, unit="share", target=target,
                   baseline=f"{repetitions} repetitions")
        )  # fmt: skip
    return figures


def _power(pool: ProcessPoolExecutor, repetitions: int) -> list[Figure]:
    figures = []
    many = max(int(repetitions * POWER_OF), 100)
    for number, name in enumerate(POWER):
        seeds = range(50_000_000 + 1_000_000 * number, 50_000_000 + 1_000_000 * number + many)
        seen = sum(pool.map(partial(one_power, name), seeds, chunksize=8)) / many
        figures.append(
            Figure(name=f"power: {name}", value=seen, unit="share", target=">= 0.90", baseline=f"{many} repetitions")
        )  # fmt: skip
    return figures


def _gates(pool: ProcessPoolExecutor, repetitions: int) -> list[Figure]:
    figures = []
    many = max(int(repetitions * POWER_OF), 100)
    for number, (name, make) in enumerate((*CHEATS.items(), ("a true improvement", improved))):
        seeds = range(60_000_000 + 1_000_000 * number, 60_000_000 + 1_000_000 * number + many)
        status = list(pool.map(partial(one_gate, make), seeds, chunksize=8))
        opens = status.count(exits.OK) / many
        how = f"{status.count(exits.GATE_CLOSED) / many:.1%} closed, {status.count(exits.GATE_UNDECIDED) / many:.1%} not enough evidence; {many} repetitions"
        is_cheat = name in CHEATS
        figures.append(
            Figure(name=f"cheats passed: {name}" if is_cheat else f"power: the gate opens for {name}", value=opens,
                   unit="share", target="<= 0.05" if is_cheat else ">= 0.80", baseline=how)
        )  # fmt: skip
    called = sum(pool.map(one_crash, range(70_000_000, 70_000_000 + repetitions), chunksize=8)) / repetitions
    figures.append(
        Figure(name="cheats passed: a rare crash is called better", value=called, unit="share", target="<= 0.08",
               baseline=f"{repetitions} repetitions")
    )  # fmt: skip
    return figures
