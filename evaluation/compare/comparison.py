"""A comparison: comparability, metrics, segments, flips, largest differences, spend and verdict. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal

import msgspec
from msgspec.structs import replace

from evaluation.compare.metrics import (
    EQUAL,
    SIGNIFICANT,
    Calibration,
    MetricResult,
    calibration,
    describe_p,
    measure,
)
from evaluation.compare.pairing import CaseInRun, Comparability, Pair, pair_cases, same_text
from evaluation.compare.run_rows import Returns, RunRows, Texts, changes_summary, difference, looks_up_misses, visible
from evaluation.compare.segments import Dimension, split_by_segment
from evaluation.compare.terms import Scoring
from evaluation.declaration import parse_declaration
from schemas.printable import counted

FORMAT_VERSION = 3


class Spend(msgspec.Struct, frozen=True, kw_only=True):
    """Spend of the cases in both runs over all repeats, in USD.

    None means unknown; ``cost_usd`` is also None when nothing was executed. ``unpriced_calls`` counts executed calls
    that no cost includes.
    """

    run_id: str
    executed: int
    reused: int
    missed: int
    cost_usd: Decimal | None
    unpriced_calls: int
    avoided_cost_usd: Decimal | None
    would_have_cost_usd: Decimal | None


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """One case that the runs judge differently. A verdict is "" where there is none.

    ``title`` begins the news, "" where its text is not kept any more; ``diff`` is filled for the largest differences only.
    """

    case_id: str
    story_id: str
    asset: str
    event_type: str
    action_a: str
    action_b: str
    verdict_a: str
    verdict_b: str
    confidence_a: float | None
    confidence_b: float | None
    delta: float
    repeat_a: int
    repeat_b: int
    title: str = ""
    diff: tuple[str, ...] = ()


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """Run B compared with run A. ``metrics`` begins with the primary one. ``changed_texts`` counts aligned cases whose signal
    or notes differ in any way.

    ``flips`` are cases with another action, ``verdict_flips`` those with another verdict, of the cases with one in both.
    ``name_a`` and ``name_b`` are what a person calls the runs. ``cap`` and ``trade_cost`` are shares of the amount traded.
    """

    format_version: int
    a: str
    b: str
    name_a: str
    name_b: str
    changes_a: str
    changes_b: str
    verdict: str
    warnings: tuple[str, ...]
    comparability: Comparability
    metrics: tuple[MetricResult, ...]
    segments: tuple[Dimension, ...]
    calibration: tuple[Calibration, ...]
    changed_texts: int
    flips: tuple[Change, ...]
    verdict_flips: tuple[Change, ...]
    differences: tuple[Change, ...]
    spend: tuple[Spend, Spend]
    cap: float
    trade_cost: float
    seed: int
    draws: int

    @property
    def primary(self) -> MetricResult:
        """The metric that was declared before the run."""
        return self.metrics[0]


def compare(
    a: RunRows,
    b: RunRows,
    returns: Returns | None = None,
    *,
    how: Scoring | None = None,
    differences: int = 10,
    warnings: Sequence[str] = (),
) -> Comparison:
    """Compare two runs. ``returns`` after their cases; without them, no outcome is measured.

    ``differences`` is the number of largest differences kept; :func:`with_texts` adds their texts. ``warnings`` come first
    among those of the comparison itself.

    Raises:
        ConfigError: no case worked in both runs.
    """
    returns, how = returns or Returns(), how or Scoring()
    comparability, pairs = pair_cases(a, b)
    metrics, profit = measure(pairs, returns, how)
    calibrated = [
        *calibration(a.run_id, [(pair.case_id, pair.a) for pair in pairs if pair.both], returns),
        *calibration(b.run_id, [(pair.case_id, pair.b) for pair in pairs if pair.both], returns),
    ]
    segments = split_by_segment(pairs, profit, how)
    aligned = [(pair, pair.a, pair.b) for pair in pairs if pair.a is not None and pair.b is not None]
    changed = [_change(*trio) for trio in aligned if not same_text(trio[1], trio[2])]
    if changed or comparability.only_a or comparability.only_b:
        metrics = tuple(replace(m, verdict="equal") if m.verdict == "identical" else m for m in metrics)
    every = sorted(changed, key=_largest_first)
    return Comparison(
        format_version=FORMAT_VERSION,
        a=visible(a.run_id),
        b=visible(b.run_id),
        name_a=visible(a.name or a.run_id),
        name_b=visible(b.name or b.run_id),
        changes_a=changes_summary(a.changes) if a.changes else "",
        changes_b=changes_summary(b.changes) if b.changes else "",
        verdict=verdict_of(metrics, segments, comparability, len(changed)),
        warnings=tuple(dict.fromkeys(filter(None, [how.note, *warnings, *_warnings(a, b, comparability)]))),
        comparability=comparability,
        metrics=metrics,
        segments=segments,
        calibration=tuple(calibrated),
        changed_texts=len(changed),
        flips=tuple(change for change in every if change.action_a != change.action_b),
        verdict_flips=tuple(c for c in every if c.verdict_a and c.verdict_b and c.verdict_a != c.verdict_b),
        differences=tuple(every[:differences]),
        spend=(_spend(a), _spend(b)),
        cap=how.cap,
        trade_cost=how.trade_cost,
        seed=how.seed,
        draws=how.draws,
    )


def with_texts(comparison: Comparison, texts: Texts, titles: Mapping[str, str] | None = None) -> Comparison:
    """Return the comparison with the text diff of each of its largest differences, and the titles of its cases (by case id)."""

    def titled(changes: Iterable[Change]) -> tuple[Change, ...]:
        known = titles or {}
        return tuple(
            msgspec.structs.replace(change, title=visible(known.get(change.case_id, ""))) for change in changes
        )

    with_diffs = tuple(
        msgspec.structs.replace(
            differing,
            diff=difference(
                texts.get((comparison.a, differing.case_id, differing.repeat_a)),
                texts.get((comparison.b, differing.case_id, differing.repeat_b)),
            ),
        )
        for differing in titled(comparison.differences)
    )
    flips, of_verdict = titled(comparison.flips), titled(comparison.verdict_flips)
    return msgspec.structs.replace(comparison, flips=flips, verdict_flips=of_verdict, differences=with_diffs)


def _change(pair: Pair, a: CaseInRun, b: CaseInRun) -> Change:
    return Change(
        case_id=visible(pair.case_id),
        story_id=visible(pair.story_id),
        asset=visible(b.asset or a.asset),
        event_type=visible(b.event_type or a.event_type),
        action_a=visible(a.action),
        action_b=visible(b.action),
        verdict_a=visible(a.verdict),
        verdict_b=visible(b.verdict),
        confidence_a=a.confidence,
        confidence_b=b.confidence,
        delta=_confidence(b) - _confidence(a),
        repeat_a=a.repeat,
        repeat_b=b.repeat,
    )


def _largest_first(change: Change) -> tuple[float, bool, str]:
    # Among equal changes (rounded, as 0.8 - 0.6 is not 0.7 - 0.5 in binary) flips come first.
    return (-round(abs(change.delta), 6), change.action_a == change.action_b, change.case_id)


def _confidence(judged: CaseInRun) -> float:
    return judged.confidence or 0.0  # No signal differs from 0.8 as much as a signal of 0 would.


def _spend(run: RunRows) -> Spend:
    executed = sum(row.executed for row in run.rows)
    return Spend(
        run_id=visible(run.run_id),
        executed=executed,
        reused=sum(row.reused for row in run.rows),
        missed=sum(row.missed for row in run.rows),
        cost_usd=_total(row.cost_usd for row in run.rows if row.executed),
        unpriced_calls=sum(row.unpriced_calls for row in run.rows),
        avoided_cost_usd=_total(row.avoided_cost_usd for row in run.rows if row.reused),
        would_have_cost_usd=_total(row.would_have_cost_usd for row in run.rows if row.executed or row.reused),
    )


def _total(costs: Iterable[Decimal | None]) -> Decimal | None:
    known = [cost for cost in costs if cost is not None]
    return sum(known, Decimal(0)) if known else None


def verdict_of(
    metrics: Sequence[MetricResult], segments: Sequence[Dimension], counts: Comparability, changed: int
) -> str:
    """Return the verdict in one sentence: the primary metric, then segments that differ, then secondary metrics."""
    alone = counts.only_a + counts.only_b
    if not changed and not alone and all(m.verdict in ("identical", "not measured") for m in metrics):
        return f"identical: B equals A in all {counted(counts.aligned, 'case')}"
    difference = f"{changed:,} of {counted(counts.aligned, 'case')} differ"
    if alone:
        difference += f", and {alone:,} completed in one run only"
    return "; ".join(
        filter(None, (_of_primary(metrics[0]), _of_segments(segments), _of_secondary(metrics), difference))
    )


def _of_primary(m: MetricResult) -> str:
    name = f"{m.label} (primary)"
    if m.verdict == "not measured":
        return f"{name} is not measured: {m.note}"
    if m.verdict in EQUAL:
        return f"{name} is the same in every case"
    if m.p is None:
        return f"{name} is not tested: {m.note}"
    interval = f"{_span(m)}, 95 % interval {m.low:+.4g} to {m.high:+.4g}, {describe_p(m.p)}"
    if m.verdict == "not distinguishable":
        shows = (
            ""
            if m.detectable is None
            else f"; a true difference of {m.detectable:.4g} is detected with a probability of 80 %"
        )
        held = "one bad block would reverse it: " if m.reversible and (m.p_holm or m.p) < SIGNIFICANT else ""
        return f"{name} is not distinguishable ({held}{interval}{shows})"
    return f"{name} is {m.verdict} in B ({interval})"


def _of_segments(segments: Sequence[Dimension]) -> str:
    sentences = []
    for dimension in segments:
        if dimension.differs:
            sides = [
                f"{verdict} for {', '.join(visible(s.value) for s in dimension.segments if s.verdict == verdict)}"
                for verdict in ("better", "worse")
                if any(s.verdict == verdict for s in dimension.segments)
            ]
            sentences.append(f"profit differs by {dimension.name}" + (f" ({'; '.join(sides)})" if sides else ""))
    return " and ".join(sentences)


def _of_secondary(metrics: Sequence[MetricResult]) -> str:
    tests = [m for m in metrics if m.role == "secondary" and m.p_holm is not None]
    if not tests:
        return "no secondary metric is tested"
    different = [m for m in tests if m.verdict in ("better", "worse", "higher", "lower")]
    if not different:
        return f"none of {len(tests)} secondary metrics is distinguishable (Holm, 5 %)"
    named = ", ".join(f"{m.label} {m.verdict} ({_span(m)})" for m in different)
    return f"of {len(tests)} secondary metrics (Holm, 5 %): {named}"


def _span(m: MetricResult) -> str:
    if m.delta is not None:
        return f"{m.delta:+.4g}"
    return f"between {m.delta_low:+.4g} and {m.delta_high:+.4g}"


def _warnings(a: RunRows, b: RunRows, counts: Comparability) -> Iterable[str]:
    for run, count in ((a, counts.a), (b, counts.b)):
        name = visible(run.run_id)
        if growing := growing_warning(name, visible(run.status), run.changes):
            yield growing
        if count.look_ahead:
            pieces = counted(count.look_ahead, "piece")
            yield f"run {name} refused {pieces} of information from after the case (evidence, memories, prices); pages without a date may be from after it, too"
        if looks_up_misses(run.changes):
            yield f"run {name} looked up misses when it ran (--on-miss live): what it found may be from after its cases"
        if count.after_training_cutoff:
            yield (
                f"run {name}: {counted(count.after_training_cutoff, 'case')} older than its model's training cutoff; "
                "the model may know their outcome and look better than it is"
            )
        if lost := count.misses + count.failed + count.refused + count.partly:
            repeats = " in all repeats" if count.repeats > 1 else ""
            yield f"run {name}: {counted(lost, 'case')} did not complete{repeats}: counted at both extremes"
        if count.missing:
            yield (
                f"run {name} lacks {counted(count.missing, 'case')} of the other run (another period, another sample, or not done yet): "
                "not compared"
            )
    if counts.other_preliminary:
        yield (
            f"in {counted(counts.other_preliminary, 'case')} the preliminary confidence differs: the runs differ from triage on, "
            "or replay different recordings"
        )


def growing_warning(run_id: str, status: str, changes: str) -> str:
    """Return the warning of a comparison with a run that is not finished, "" when it is.

    ``status`` and ``changes`` are columns of ``runs``, "" for ``live``.
    """
    if status in ("", "finished"):
        return ""
    instead = f"use newsproof backtest watch {run_id}" if parse_declaration(changes).watch else "wait for its end"
    return (
        f"run {run_id} is {status} and may grow: p-values and intervals hold for one look only, at an end fixed in advance. Whoever "
        f"looks every 10 cases of 400 and stops at a difference calls equal runs different in 23 % of comparisons; {instead}"
    )
