"""The sheets of a comparison, and its output on a terminal."""

from __future__ import annotations

from collections.abc import Mapping

from evaluation.compare.comparison import Change, Comparison
from evaluation.compare.metrics import MetricResult, describe_p
from evaluation.compare.pairing import describe_alignment
from evaluation.compare.run_rows import visible
from newsproof.app.sheet import UNWRAPPED, Sheet, advise, money, say_result

MAX_FLIPS = 20
COUNTS = (
    ("cases", "cases in the run"),
    ("missing", "in the other run only"),
    ("misses", "misses"),
    ("failed", "failed"),
    ("refused", "refused"),
    ("partly", "completed in some repeats only"),
    ("repeats", "repeats"),
    ("without_signal", "without a signal"),
    ("acted", "acted on (buy or sell), of those compared"),
)


def show_table(comparison: Comparison) -> None:
    """Print comparability, metrics, flips, differences and spend, then the verdict."""
    say_result(
        f"A = {comparison.name_a}{_changes(comparison.changes_a)}\nB = {comparison.name_b}{_changes(comparison.changes_b)}\n"
    )
    say_result(describe_alignment(comparison.comparability))
    counts_sheet(comparison).print(piped=UNWRAPPED)
    for warning in comparison.warnings:
        advise(f"! {warning}")
    say_result()
    _print(paths_sheet(comparison))
    say_result(metrics_title(comparison))
    metrics_sheet(comparison).print(piped=UNWRAPPED)
    for line in (*metric_notes(comparison), *not_measured(comparison)):
        advise(line)
    say_result()
    _print(segments_sheet(comparison))
    for line in segment_lines(comparison):
        say_result(line)
    say_result()
    _print(calibration_sheet(comparison))
    _show_flips(comparison)
    _show_differences(comparison)
    spend_sheet(comparison).print(piped=UNWRAPPED)
    advise(f"\nVerdict: {comparison.verdict}.")


def _print(sheet: Sheet) -> None:
    if sheet.rows:
        sheet.print(piped=UNWRAPPED)


def counts_sheet(comparison: Comparison) -> Sheet:
    """Return how many cases each run has, by what became of them."""
    a, b = comparison.comparability.a, comparison.comparability.b
    rows = [(label, f"{getattr(a, name):,}", f"{getattr(b, name):,}") for name, label in COUNTS]
    return Sheet(("", "A", "B"), rows, right=("A", "B"))


def metrics_sheet(comparison: Comparison) -> Sheet:
    """Return the measured metrics; :func:`metric_notes` are the notes that they refer to."""
    columns = ("metric", "A", "B", "B - A", "95 % interval", "p (Holm)", "detectable", "cases", "blocks", "verdict")
    notes = _notes(comparison)
    measured = [m for m in comparison.metrics if m.verdict != "not measured"]
    return Sheet(columns, [_metric_row(m, notes) for m in measured], right=columns[1:-1], items=measured)


def metric_notes(comparison: Comparison) -> list[str]:
    """Return each note of the measured metrics once, by its number."""
    return [f"[{number}] {note}" for note, number in _notes(comparison).items()]


def _notes(comparison: Comparison) -> dict[str, int]:
    every = dict.fromkeys(m.note for m in comparison.metrics if m.verdict != "not measured" and m.note)
    return {note: number for number, note in enumerate(every, 1)}


def not_measured(comparison: Comparison) -> list[str]:
    """Return one line per reason why metrics were not measured, with the metrics it applies to."""
    reasons: dict[str, list[str]] = {}
    for m in comparison.metrics:
        if m.verdict == "not measured":
            reasons.setdefault(m.note, []).append(m.label)
    return [f"Not measured: {', '.join(labels)} ({why})" for why, labels in reasons.items()]


def metrics_title(comparison: Comparison) -> str:
    """Return the heading of the metrics, with what profit rests on."""
    return f"Metrics (the profit of a case is capped at {comparison.cap:.0%}; a trade costs {comparison.trade_cost * 1e4:g} basis points)"


def _metric_row(m: MetricResult, notes: Mapping[str, int]) -> tuple[str, ...]:
    label = f"{m.label} (primary)" if m.role == "primary" else m.label
    a, b = ("unknown" if value is None else figure(m, value) for value in (m.a, m.b))
    delta = "–"
    if m.delta_low is not None and m.delta_high is not None:
        ends = [figure(m, m.delta_low, True), figure(m, m.delta_high, True)]
        delta = ends[0] if m.delta is not None else " to ".join(ends)
    interval = "–" if m.low is None or m.high is None else f"{figure(m, m.low, True)} … {figure(m, m.high, True)}"
    text = f"{m.verdict} [{notes[m.note]}]" if m.note else str(m.verdict)
    if m.role == "secondary" and m.verdict == "not distinguishable" and m.p is not None and m.p < 0.05:
        text += f"; its own p of {m.p:.3f} is expected by chance among so many tests"
    shows = "–" if m.detectable is None else figure(m, m.detectable)
    return (
        label,
        a,
        b,
        delta,
        interval,
        _p(m.p_holm),
        shows,
        f"{m.cases:,}",
        f"{m.blocks:,}" if m.blocks else "–",
        text,
    )


def _p(p: float | None) -> str:
    return "–" if p is None else describe_p(p).removeprefix("p ")


def paths_sheet(comparison: Comparison) -> Sheet:
    """Return how many cases took which path in A and in B; no row if all took one path in both."""
    every = comparison.comparability.transitions
    rows = (
        [(transition.path_a, transition.path_b, f"{transition.cases:,}") for transition in every]
        if len(every) > 1
        else []
    )
    return Sheet(("in A", "in B", "cases"), rows, "Paths of the cases", ("cases",))


def segments_sheet(comparison: Comparison, *, every: bool = False) -> Sheet:
    """Return the segments of the dimensions that differ, or of all."""
    columns = ("by", "is", "A", "B", "B - A", "95 % interval", "p (Holm)", "cases", "blocks", "verdict")
    rows = [
        (
            *(dimension.name, visible(segment.value), f"{segment.a:.4f}", f"{segment.b:.4f}", f"{segment.delta:+.4f}"),
            "–" if segment.low is None or segment.high is None else f"{segment.low:+.4f} … {segment.high:+.4f}",
            *(_p(segment.p_holm), f"{segment.cases:,}", f"{segment.blocks:,}"),
            segment.verdict if dimension.differs or segment.verdict == "identical" else "–",
        )
        for dimension in comparison.segments
        if every or dimension.differs
        for segment in dimension.segments
    ]
    return Sheet(columns, rows, "Profit where segments differ", columns[2:-1])


def segment_lines(comparison: Comparison) -> list[str]:
    """Return lines on the dimensions that are not shown segment by segment."""
    same = [
        f"{dimension.name} (p {_p(dimension.p_holm)})"
        for dimension in comparison.segments
        if not dimension.differs and dimension.p_holm is not None
    ]
    untested = [dimension.name for dimension in comparison.segments if dimension.p_holm is None]
    lines = [f"Profit does not differ beyond chance (Holm) by {', '.join(same)}."] if same else []
    if untested:
        lines.append(f"Not tested: profit by {', '.join(untested)} (--format html or json shows them).")
    return lines


def calibration_sheet(comparison: Comparison) -> Sheet:
    """Return the calibration of each run at each horizon."""
    scores = ("brier", "reliability", "resolution", "uncertainty", "within_bins", "ece")
    columns = ("run", "after", "acted on", "Brier", *scores[1:4], "within bins", "ECE")
    rows = [
        (
            *(visible(calibration.run_id), calibration.horizon, f"{calibration.parts.count:,}"),
            *(f"{getattr(calibration.parts, name):.4f}" for name in scores),
        )
        for calibration in comparison.calibration
    ]
    return Sheet(columns, rows, "Calibration of signals acted on", columns[2:])


def figure(m: MetricResult, value: float, change: bool = False) -> str:
    """Return a figure with its unit's number of decimals; a change has a sign."""
    digits = {"usd": 6, "ms": 1, "share": 4, "probability": 4, "score": 4, "return": 5}[m.unit]
    text = f"{value:+,.{digits}f}" if change else f"{value:,.{digits}f}"
    return text if float(text.replace(",", "")) else text.replace("-", "+") if change else text.replace("-", "")


def spend_sheet(comparison: Comparison) -> Sheet:
    """Return what each run spent."""
    counts = ("executed", "reused", "missed")
    columns = ("run", *counts, "spent USD", "unpriced calls", "avoided USD", "would have cost USD")
    rows = [
        (
            *(s.run_id, *(f"{getattr(s, name):,}" for name in counts)),
            *(money(s.cost_usd, 6) if s.executed else "nothing was executed", f"{s.unpriced_calls:,}"),
            *(money(s.avoided_cost_usd, 6), money(s.would_have_cost_usd, 6)),
        )
        for s in comparison.spend
    ]
    return Sheet(columns, rows, "Cost of the cases in both runs, all repeats", columns[1:])


def flip_row(change: Change) -> tuple[str, ...]:
    """Return one flip as text, a cell of :func:`flips_sheet` each; the case's id is short, as `newsproof case` takes it."""
    a, b = (("–" if c is None else f"{c:.3f}") for c in (change.confidence_a, change.confidence_b))
    actions = f"{change.action_a} → {change.action_b}"
    verdicts = f"{change.verdict_a or '–'} → {change.verdict_b or '–'}"
    return (change.case_id[:8], change.asset, change.event_type, actions, verdicts, f"{a} → {b}", change.title)


def flips_sheet(comparison: Comparison) -> Sheet:
    """Return the first flips, those of the action before those of the verdict alone; the title counts them all."""
    every = (*comparison.flips, *(c for c in comparison.verdict_flips if c not in comparison.flips))
    title = f"Flips: {len(comparison.flips):,} of the action, {len(comparison.verdict_flips):,} of the verdict"
    columns = ("case", "asset", "event type", "action", "verdict", "confidence", "news")
    return Sheet(columns, [flip_row(change) for change in every[:MAX_FLIPS]], title)


def _show_flips(comparison: Comparison) -> None:
    flips = flips_sheet(comparison)
    if not flips.rows:
        say_result("Flips: none; every action and every verdict is the same.\n")
        return
    flips.print(piped=UNWRAPPED)
    if len(flips.rows) == MAX_FLIPS:
        say_result(f"Only the first {MAX_FLIPS} are shown; --format json has all.")


def _show_differences(comparison: Comparison) -> None:
    if not comparison.changed_texts:
        say_result("Differences: none; every signal and every note is the same.\n")
        return
    say_result(f"Largest differences ({len(comparison.differences):,} of {comparison.changed_texts:,})")
    for change in comparison.differences:
        say_result("  ".join(flip_row(change)).rstrip())
        for line in change.diff:
            say_result(f"    {line}")
    say_result()


def _changes(changes: str) -> str:
    return f": {changes}" if changes else ""
