"""Pairs the cases of two runs: averages the repeats of each case, and keeps cases that worked in only one run.

Numbers (confidence, cost, latency, profits, hits, squared errors) are averaged over the repeats that worked. The action, the
path and the verdict are those of the majority; in a tie, those of the earliest repeat. So every case has the same weight,
however often it was repeated.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

import msgspec

from evaluation.compare.run_rows import NO_SIGNAL, ComparedCase, RunRows
from infra.market.source import ticker
from schemas.errors import ConfigError
from schemas.ids import LIVE_RUN
from schemas.printable import counted

SIDES = {"buy": 1, "sell": -1}
"""Actions that lead to a trade, with their side. No other action does."""


class RepeatSignal(msgspec.Struct, frozen=True, kw_only=True):
    """The signal of one repeat. ``side``: 1 buys, -1 sells, 0 does not act or names no asset. ``confidence`` is None without a signal."""

    side: int
    asset: str
    horizon_s: int
    confidence: float | None

    @property
    def trade(self) -> tuple[int, str, int]:
        """The trade of a follower. All signals that do not act have the same one, whatever their asset."""
        return (self.side, self.asset, self.horizon_s) if self.side else (0, "", 0)


class CaseInRun(msgspec.Struct, frozen=True, kw_only=True):
    """One case in one run, averaged over its repeats. None: absent, or unknown for one of the repeats.

    ``path``: ``checked`` (the search found something out), ``unchecked``, ``signal`` (schema 1, which had no verdicts) or
    ``no signal``. ``verdict`` is "" if no repeat has one. ``missing`` is the share of repeats that did not work. ``repeat`` is the
    earliest repeat with the majority's ``action``; reports show its text. ``acts`` is the share of repeats that say buy or sell.
    ``signals`` holds the signals of all repeats that worked. ``delay_ms``: as :class:`ComparedCase`.
    """

    case_id: str
    event_type: str
    asset: str
    action: str
    verdict: str
    path: str
    repeat: int
    preliminary: float | None
    confidence: float | None
    acts: float
    executed: float
    cost_usd: float | None
    full_cost_usd: float | None
    latency_ms: float | None
    delay_ms: float | None
    missing: float
    signals: tuple[RepeatSignal, ...]
    signal_hash: int
    notes_hash: int


class Pair(msgspec.Struct, frozen=True, kw_only=True):
    """One case in both runs. ``a`` or ``b`` is None where the case did not work there, and ``path_a`` or ``path_b`` says
    how: ``miss``, ``failed``, ``refused``. At least one of them worked. ``at_s``: when its news was knowable, Unix time.
    """

    case_id: str
    story_id: str
    language: str
    source: str
    at_s: float
    a: CaseInRun | None
    b: CaseInRun | None
    path_a: str
    path_b: str

    @property
    def both(self) -> bool:
        """Whether the case worked in both runs."""
        return self.a is not None and self.b is not None


class RunCounts(msgspec.Struct, frozen=True, kw_only=True):
    """Case counts of one run: the total, and among the cases in both runs those that did not work, by reason.

    ``partly`` completed in some repeats only. ``acted``: aligned cases with a buy or a sell. ``look_ahead`` counts refused items
    from after their case. ``after_training_cutoff`` counts cases older than the training cutoff of the model that judged them.
    """

    cases: int
    missing: int
    misses: int
    failed: int
    refused: int
    partly: int
    repeats: int
    without_signal: int
    acted: int
    look_ahead: int
    after_training_cutoff: int


class Transition(msgspec.Struct, frozen=True, kw_only=True):
    """How many cases took this path in A and that one in B."""

    path_a: str
    path_b: str
    cases: int


class Comparability(msgspec.Struct, frozen=True, kw_only=True):
    """The cases that can be compared. ``aligned`` cases worked in both runs and belong to ``stories`` distinct stories on ``days`` days.

    ``first_day`` and ``last_day`` are those days' ends, ISO 8601 in UTC; "" where nothing aligns.
    ``only_a`` and ``only_b`` count the cases that completed in one run only. ``other_preliminary`` counts aligned cases whose
    preliminary confidence differs, that is before any lookup. ``transitions``: all cases in both runs by their paths, the most
    frequent first.
    """

    in_both: int
    aligned: int
    only_a: int
    only_b: int
    stories: int
    days: int
    first_day: str
    last_day: str
    other_preliminary: int
    transitions: tuple[Transition, ...]
    a: RunCounts
    b: RunCounts


def pair_cases(a: RunRows, b: RunRows) -> tuple[Comparability, list[Pair]]:
    """Pair the cases of two runs that worked in one at least, in the order of case ids.

    Raises:
        ConfigError: no case worked in both.
    """
    rows_a, rows_b = _by_case(a.rows), _by_case(b.rows)
    both = sorted(rows_a.keys() & rows_b.keys())
    # Live judgements have a story only when some run found it.
    described = rows_b if a.run_id == LIVE_RUN else rows_a
    every = [_pair(described[case][0], rows_a[case], rows_b[case]) for case in both]
    pairs = [pair for pair in every if pair.a is not None or pair.b is not None]
    aligned = [(pair.a, pair.b) for pair in pairs if pair.a is not None and pair.b is not None]
    worked = [pair for pair in pairs if pair.both]
    paths = Counter((pair.path_a, pair.path_b) for pair in every)
    days = sorted({datetime.fromtimestamp(pair.at_s, UTC).date().isoformat() for pair in worked})
    comparability = Comparability(
        in_both=len(both),
        aligned=len(worked),
        only_a=sum(pair.b is None for pair in pairs),
        only_b=sum(pair.a is None for pair in pairs),
        stories=len({pair.story_id for pair in worked}),
        days=len(days),
        first_day=days[0] if days else "",
        last_day=days[-1] if days else "",
        other_preliminary=sum(
            None not in (of_a.preliminary, of_b.preliminary) and of_a.preliminary != of_b.preliminary
            for of_a, of_b in aligned
        ),
        transitions=tuple(Transition(path_a=x, path_b=y, cases=n) for (x, y), n in paths.most_common()),
        a=_counts(a, b, rows_a, both, [of_a for of_a, _ in aligned]),
        b=_counts(b, a, rows_b, both, [of_b for _, of_b in aligned]),
    )
    if not worked:
        raise ConfigError(_why_nothing_aligns(a, b, comparability))
    return comparability, pairs


def describe_alignment(counts: Comparability) -> str:
    """Return the number of cases compared and their period, as text."""
    worked = f"{counts.aligned:,} of {counted(counts.in_both, 'case')} completed in both runs"
    if not counts.days:
        return worked
    period = counts.first_day if counts.days == 1 else f"{counts.first_day} to {counts.last_day}"
    return f"{worked}: {counted(counts.stories, 'story')} on {counted(counts.days, 'day')}, {period} (UTC)"


def _pair(described: ComparedCase, rows_a: Sequence[ComparedCase], rows_b: Sequence[ComparedCase]) -> Pair:
    a, b = (average_repeats(worked, len(rows)) if (worked := _worked(rows)) else None for rows in (rows_a, rows_b))
    return Pair(
        case_id=described.case_id,
        story_id=described.story_id or described.case_id,
        language=described.language,
        source=described.source,
        at_s=described.knowable_ms / 1000.0,
        a=a,
        b=b,
        path_a=a.path if a is not None else _worst(rows_a),
        path_b=b.path if b is not None else _worst(rows_b),
    )


def average_repeats(repeats: Sequence[ComparedCase], asked: int | None = None) -> CaseInRun:
    """Average the repeats of one case that worked; ``asked`` is the number of all its repeats."""
    with_signal = [row for row in repeats if row.has_signal]
    action = _most([_action(row) for row in repeats])
    shown = next(row for row in repeats if _action(row) == action)
    signals = tuple(map(_signal_of, repeats))
    return CaseInRun(
        case_id=shown.case_id,
        event_type=shown.event_type,
        asset=shown.asset,
        action=action,
        verdict=_most([row.verdict for row in with_signal]),
        path=_most([_path(row) for row in repeats]),
        repeat=shown.repeat,
        preliminary=_mean([row.preliminary_confidence for row in with_signal]),
        confidence=_mean([row.confidence for row in with_signal]),
        acts=sum(signal.side != 0 for signal in signals) / len(signals),
        executed=sum(row.executed for row in repeats) / len(repeats),
        cost_usd=_mean([_known(row.cost_usd, row) if row.executed else None for row in repeats]),
        full_cost_usd=_mean(
            [_known(row.would_have_cost_usd, row) if row.executed or row.reused else None for row in repeats]
        ),
        latency_ms=_mean([row.latency_ms if row.executed else None for row in repeats]),
        delay_ms=_mean([row.delay_ms for row in repeats]),
        missing=0.0 if asked is None else 1.0 - len(repeats) / asked,
        signals=signals,
        signal_hash=shown.signal_hash,
        notes_hash=shown.notes_hash,
    )


def same_text(a: CaseInRun, b: CaseInRun) -> bool:
    """Return whether two runs have the same signal and notes for a case; without a full signal, compare the notes only."""
    decisions = [(j.action, j.verdict, j.confidence, j.notes_hash) for j in (a, b)]
    if decisions[0] != decisions[1]:
        return False
    return not (a.signal_hash and b.signal_hash) or a.signal_hash == b.signal_hash


def _signal_of(row: ComparedCase) -> RepeatSignal:
    return RepeatSignal(
        side=SIDES.get(row.action, 0) if row.has_signal and ticker(row.asset) else 0,
        asset=row.asset,
        horizon_s=row.horizon_s,
        confidence=row.confidence if row.has_signal else None,
    )


def _by_case(rows: Iterable[ComparedCase]) -> dict[str, list[ComparedCase]]:
    by_case: dict[str, list[ComparedCase]] = {}
    for row in sorted(rows, key=lambda row: row.repeat):
        by_case.setdefault(row.case_id, []).append(row)
    return by_case


def _worked(repeats: Sequence[ComparedCase]) -> list[ComparedCase]:
    return [row for row in repeats if row.status == "replayed"]


def _action(row: ComparedCase) -> str:
    return row.action if row.has_signal else NO_SIGNAL


def _path(row: ComparedCase) -> str:
    if not row.has_signal:
        return "no signal"
    return {"": "signal", "unchecked": "unchecked"}.get(row.verdict, "checked")


def _most(words: Sequence[str]) -> str:
    if len(words) == 1:  # nearly always, and a comparison asks six times per case
        return words[0]
    # most_common keeps the order of first appearance among equals, and repeats are in order.
    return Counter(words).most_common(1)[0][0] if words else ""


def _known(cost: object, row: ComparedCase) -> float | None:
    # A sum that omits calls of unknown price is not a price.
    return None if cost is None or row.unpriced_calls else float(str(cost))


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known and len(known) == len(values) else None


def _counts(
    run: RunRows,
    other: RunRows,
    rows: dict[str, list[ComparedCase]],
    both: Sequence[str],
    aligned: Sequence[CaseInRun],
) -> RunCounts:
    states = {case: {row.status for row in rows[case]} for case in both}
    did_not = Counter(_worst(rows[case]) for case, states_of_case in states.items() if "replayed" not in states_of_case)
    every = [row for case in both for row in rows[case]]
    return RunCounts(
        cases=run.cases,
        missing=other.cases - len(both),
        misses=did_not["miss"],
        failed=did_not["failed"],
        refused=did_not["refused"],
        partly=sum("replayed" in states_of_case and len(states_of_case) > 1 for states_of_case in states.values()),
        repeats=max((len(rows[case]) for case in both), default=0),
        without_signal=sum(all(not row.has_signal for row in done) for case in both if (done := _worked(rows[case]))),
        acted=sum(judged.action in SIDES for judged in aligned),
        look_ahead=sum(row.look_ahead for row in every),
        after_training_cutoff=len({row.case_id for row in every if row.after_training_cutoff}),
    )


def _worst(rows: Sequence[ComparedCase]) -> str:
    states = {row.status for row in rows}
    return next((status for status in ("failed", "miss", "refused") if status in states), "failed")


def _why_nothing_aligns(a: RunRows, b: RunRows, counts: Comparability) -> str:
    if not counts.in_both:
        return (
            f"nothing to compare: {a.run_id} has {a.cases:,} cases and {b.run_id} {b.cases:,}, but none is in both; "
            "replay the same cases (the same --from, --to and --sample) in both runs"
        )
    reasons = [
        f"{run.run_id}: {count.misses:,} misses, {count.failed:,} failed, {count.refused:,} refused"
        for run, count in ((a, counts.a), (b, counts.b))
    ]
    return (
        f"nothing to compare: {counts.in_both:,} cases are in both runs, but none completed in both ({'; '.join(reasons)}); "
        "a miss is a request without a recorded reply: change a later step, or run with --on-miss live"
    )
