"""Pairs the cases of two runs: averages the repeats of each case, and counts the cases that cannot be compared.

Numbers (confidence, cost, latency, hits, squared errors) are averaged over the repeats that worked. The action and the
verdict are the majority's; among equally frequent ones, that of the earliest repeat. So every case has the same weight, however
often it was repeated.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec

from newsproof.evaluation.compare.rows import LIVE, NO_SIGNAL, ComparedCase, RunRows
from schemas.errors import ConfigError


class Judged(msgspec.Struct, frozen=True, kw_only=True):
    """One case in one run, averaged over its repeats. None: absent, or unknown for one of the repeats.

    ``verdict`` is "" where no repeat has one. ``repeat`` is the earliest repeat with the majority's ``action``; its text is shown. ``acts`` is the share of
    repeats that say buy or sell. ``said`` holds the confidences of the repeats with a signal, ``repeats`` their
    numbers.
    """

    case_id: str
    story_id: str
    event_type: str
    asset: str
    action: str
    verdict: str
    repeat: int
    preliminary: float | None
    confidence: float | None
    acts: float
    executed: float
    cost_usd: float | None
    full_cost_usd: float | None
    latency_ms: float | None
    unpriced: bool
    repeats: tuple[int, ...]
    said: tuple[float, ...]
    signal_hash: int
    notes_hash: int


class RunCounts(msgspec.Struct, frozen=True, kw_only=True):
    """Case counts of one run: the total, and among the cases in both runs those that did not work, by reason.

    ``partly`` worked in some repeats only. ``look_ahead`` counts refused items from after their case.
    ``after_training_cutoff`` counts cases older than the training cutoff of the model that judged them.
    """

    cases: int
    missing: int
    misses: int
    failed: int
    refused: int
    partly: int
    repeats: int
    without_signal: int
    look_ahead: int
    after_training_cutoff: int


class Comparability(msgspec.Struct, frozen=True, kw_only=True):
    """What can be compared. ``aligned`` cases worked in both runs and belong to ``stories`` distinct stories.

    ``other_preliminary`` counts aligned cases whose preliminary confidence differs, that is before any lookup.
    """

    in_both: int
    aligned: int
    stories: int
    other_preliminary: int
    a: RunCounts
    b: RunCounts


Pair = tuple[Judged, Judged]


def paired(a: RunRows, b: RunRows) -> tuple[Comparability, list[Pair]]:
    """Align two runs by case, in the order of case ids.

    Raises:
        ConfigError: no case worked in both.
    """
    rows_a, rows_b = _by_case(a.rows), _by_case(b.rows)
    both = sorted(rows_a.keys() & rows_b.keys())
    worked_a, worked_b = ({case: done for case in both if (done := _worked(rows[case]))} for rows in (rows_a, rows_b))
    # Live judgements have a story only when some run found it.
    stories = rows_b if a.run_id == LIVE else rows_a
    pairs = [
        (judged(worked_a[case], story), judged(worked_b[case], story))
        for case in both
        if case in worked_a and case in worked_b and (story := stories[case][0].story_id or case)
    ]
    comparability = Comparability(
        in_both=len(both),
        aligned=len(pairs),
        stories=len({one.story_id for one, _ in pairs}),
        other_preliminary=sum(
            None not in (one.preliminary, other.preliminary) and one.preliminary != other.preliminary
            for one, other in pairs
        ),
        a=_counts(a, b, rows_a, both),
        b=_counts(b, a, rows_b, both),
    )
    if not pairs:
        raise ConfigError(_why_nothing_aligns(a, b, comparability))
    return comparability, pairs


def judged(repeats: Sequence[ComparedCase], story_id: str) -> Judged:
    """Average those repeats of one case that worked."""
    signals = [row for row in repeats if row.has_signal]
    action = _most([_action(row) for row in repeats])
    shown = next(row for row in repeats if _action(row) == action)
    return Judged(
        case_id=shown.case_id,
        story_id=story_id,
        event_type=shown.event_type,
        asset=shown.asset,
        action=action,
        verdict=_most([row.verdict for row in signals]),
        repeat=shown.repeat,
        preliminary=_mean([row.preliminary_confidence for row in signals]),
        confidence=_mean([row.confidence for row in signals]),
        acts=sum(_action(row) in ("buy", "sell") for row in repeats) / len(repeats),
        executed=sum(row.executed for row in repeats) / len(repeats),
        cost_usd=_mean([_known(row.cost_usd, row) if row.executed else None for row in repeats]),
        full_cost_usd=_mean(
            [_known(row.would_have_cost_usd, row) if row.executed or row.reused else None for row in repeats]
        ),
        latency_ms=_mean([row.latency_ms if row.executed else None for row in repeats]),
        unpriced=any(row.unpriced_calls for row in repeats),
        repeats=tuple(row.repeat for row in signals),
        said=tuple(row.confidence for row in signals),
        signal_hash=shown.signal_hash,
        notes_hash=shown.notes_hash,
    )


def same_text(one: Judged, other: Judged) -> bool:
    """Return whether two runs have the same signal and notes for a case; without a full signal, compare the notes only."""
    said = [(j.action, j.verdict, j.confidence, j.notes_hash) for j in (one, other)]
    if said[0] != said[1]:
        return False
    return not (one.signal_hash and other.signal_hash) or one.signal_hash == other.signal_hash


def _by_case(rows: Iterable[ComparedCase]) -> dict[str, list[ComparedCase]]:
    found: dict[str, list[ComparedCase]] = {}
    for row in sorted(rows, key=lambda row: row.repeat):
        found.setdefault(row.case_id, []).append(row)
    return found


def _worked(repeats: Sequence[ComparedCase]) -> list[ComparedCase]:
    return [row for row in repeats if row.status == "replayed"]


def _action(row: ComparedCase) -> str:
    return row.action if row.has_signal else NO_SIGNAL


def _most(said: Sequence[str]) -> str:
    # most_common keeps the order of first appearance among equals, and repeats are in order.
    return Counter(said).most_common(1)[0][0] if said else ""


def _known(cost: object, row: ComparedCase) -> float | None:
    # A sum that omits calls of unknown price is not a price.
    return None if cost is None or row.unpriced_calls else float(str(cost))


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known and len(known) == len(values) else None


def _counts(run: RunRows, other: RunRows, rows: dict[str, list[ComparedCase]], both: Sequence[str]) -> RunCounts:
    states = {case: {row.status for row in rows[case]} for case in both}
    did_not = Counter(_worst(found) for found in states.values() if "replayed" not in found)
    every = [row for case in both for row in rows[case]]
    return RunCounts(
        cases=run.cases,
        missing=other.cases - len(both),
        misses=did_not["miss"],
        failed=did_not["failed"],
        refused=did_not["refused"],
        partly=sum("replayed" in found and len(found) > 1 for found in states.values()),
        repeats=max((len(rows[case]) for case in both), default=0),
        without_signal=sum(all(not row.has_signal for row in done) for case in both if (done := _worked(rows[case]))),
        look_ahead=sum(row.look_ahead for row in every),
        after_training_cutoff=len({row.case_id for row in every if row.after_training_cutoff}),
    )


def _worst(states: set[str]) -> str:
    return next((status for status in ("failed", "miss", "refused") if status in states), "failed")


def _why_nothing_aligns(a: RunRows, b: RunRows, found: Comparability) -> str:
    if not found.in_both:
        return (
            f"nothing to compare: {a.run_id} has {a.cases:,} cases and {b.run_id} {b.cases:,}, but none is in both; "
            "replay the same cases (the same --from, --to and --sample) in both runs"
        )
    reasons = [
        f"{run.run_id}: {count.misses:,} misses, {count.failed:,} failed, {count.refused:,} refused"
        for run, count in ((a, found.a), (b, found.b))
    ]
    return (
        f"nothing to compare: {found.in_both:,} cases are in both runs, but none worked in both ({'; '.join(reasons)}); "
        "a miss is a search that was never recorded: change a later step, or run with --on-miss live"
    )
