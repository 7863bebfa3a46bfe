"""Terminal output of a comparison."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal

from evaluation.compare.comparison import Change, Comparison
from evaluation.compare.metrics import MetricResult
from evaluation.compare.pairing import RunCounts, describe_alignment
from evaluation.compare.run_rows import visible
from newsproof.app.invocation import figures_table as table
from newsproof.app.invocation import say_result
from newsproof.app.terminal import as_started

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
METRIC_COLUMNS = ("metric", "A", "B", "B - A", "95 % interval", "p (Holm)", "can show", "cases", "blocks", "verdict")
SEGMENT_COLUMNS = ("by", "is", "A", "B", "B - A", "95 % interval", "p (Holm)", "cases", "blocks", "verdict")
CALIBRATION_COLUMNS = (
    "run",
    "after",
    "acted on",
    "Brier",
    "reliability",
    "resolution",
    "uncertainty",
    "within bins",
    "ECE",
)


def show_table(found: Comparison) -> None:
    """Print comparability, metrics, flips, differences and spend, then the verdict."""
    say_result(f"A = {found.name_a}{_changes(found.changes_a)}\nB = {found.name_b}{_changes(found.changes_b)}\n")
    counts = found.comparability
    say_result(describe_alignment(counts))
    table(("", "A", "B"), count_rows(counts.a, counts.b), right=("A", "B"))
    for warning in found.warnings:
        say_result(as_started(f"! {warning}"))
    say_result()
    if moved := transition_rows(found):
        table(TRANSITION_COLUMNS, moved, title="Paths of the cases", right=TRANSITION_COLUMNS[2:])
    say_result(metrics_title(found))
    table(METRIC_COLUMNS, measured_rows(found), right=METRIC_COLUMNS[1:-1])
    for line in (*metric_notes(found), *not_measured(found)):
        say_result(as_started(line))
    say_result()
    _show_segments(found)
    if found.calibration:
        rows = calibration_rows(found)
        table(CALIBRATION_COLUMNS, rows, title="Calibration of signals acted on", right=CALIBRATION_COLUMNS[2:])
    _show_flips(found)
    _show_differences(found)
    table(SPEND_COLUMNS, spend_rows(found), title="Spend over the cases in both, all repeats", right=SPEND_COLUMNS[1:])
    say_result(f"\nVerdict: {found.verdict}.")


def count_rows(a: RunCounts, b: RunCounts) -> list[tuple[str, str, str]]:
    """Return the rows of the comparability table."""
    return [(label, f"{getattr(a, name):,}", f"{getattr(b, name):,}") for name, label in COUNTS]


def measured_rows(found: Comparison) -> list[tuple[str, ...]]:
    """Return the measured metrics as rows of ``METRIC_COLUMNS``; :func:`metric_notes` are the notes that they refer to."""
    notes = _notes(found)
    return [metric_row(m, notes) for m in found.metrics if m.verdict != "not measured"]


def metric_notes(found: Comparison) -> list[str]:
    """Return each note of the measured metrics once, by its number."""
    return [f"[{number}] {note}" for note, number in _notes(found).items()]


def _notes(found: Comparison) -> dict[str, int]:
    every = dict.fromkeys(m.note for m in found.metrics if m.verdict != "not measured" and m.note)
    return {note: number for number, note in enumerate(every, 1)}


def not_measured(found: Comparison) -> list[str]:
    """Return one line per reason why metrics were not measured, with the metrics it applies to."""
    reasons: dict[str, list[str]] = {}
    for m in found.metrics:
        if m.verdict == "not measured":
            reasons.setdefault(m.note, []).append(m.label)
    return [f"Not measured: {', '.join(labels)} ({why})" for why, labels in reasons.items()]


def metrics_title(found: Comparison) -> str:
    """Return the heading of the metrics, with what profit rests on."""
    return (
        f"Metrics (B - A, 95 % interval; profit: at most {found.cap:.0%} a case, a trade costs "
        f"{found.trade_cost * 1e4:g} basis points)"
    )


def metric_row(m: MetricResult, notes: Mapping[str, int]) -> tuple[str, ...]:
    """Return one measured metric as text, in the order of ``METRIC_COLUMNS``; ``notes`` are numbered."""
    label = f"{m.label} (primary)" if m.role == "primary" else m.label
    a, b = ("unknown" if value is None else figure(m, value) for value in (m.a, m.b))
    delta = "–"
    if m.delta_low is not None and m.delta_high is not None:
        ends = [figure(m, m.delta_low, True), figure(m, m.delta_high, True)]
        delta = ends[0] if m.delta is not None else " to ".join(ends)
    interval = "–" if m.low is None or m.high is None else f"{figure(m, m.low, True)} … {figure(m, m.high, True)}"
    text = f"{m.verdict} [{notes[m.note]}]" if m.note else str(m.verdict)
    if m.role == "secondary" and m.verdict == "not distinguishable" and m.p is not None and m.p < 0.05:
        text += f"; p {m.p:.3f} alone is expected by chance in so many tests"
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
    return "–" if p is None else f"{p:.3f}" if p >= 0.001 else "<0.001"


TRANSITION_COLUMNS = ("in A", "in B", "cases")


def transition_rows(found: Comparison) -> list[tuple[str, str, str]]:
    """Return how many cases took which path in A and in B; nothing if all took one path in both."""
    every = found.comparability.transitions
    return [(one.path_a, one.path_b, f"{one.cases:,}") for one in every] if len(every) > 1 else []


def segment_rows(found: Comparison, *, every: bool = False) -> list[tuple[str, ...]]:
    """Return the segments of the dimensions that differ, or of all, in the order of ``SEGMENT_COLUMNS``."""
    return [
        (
            dimension.name,
            visible(one.value),
            *(f"{value:.4f}" for value in (one.a, one.b)),
            f"{one.delta:+.4f}",
            "–" if one.low is None or one.high is None else f"{one.low:+.4f} … {one.high:+.4f}",
            _p(one.p_holm),
            f"{one.cases:,}",
            f"{one.blocks:,}",
            one.verdict if dimension.differs or one.verdict == "identical" else "–",
        )
        for dimension in found.segments
        if every or dimension.differs
        for one in dimension.segments
    ]


def segment_lines(found: Comparison) -> list[str]:
    """Return lines on the dimensions that are not shown segment by segment."""
    same = [f"{one.name} (p {_p(one.p_holm)})" for one in found.segments if not one.differs and one.p_holm is not None]
    untested = [one.name for one in found.segments if one.p_holm is None]
    lines = [f"Profit does not differ beyond chance (Holm) by {', '.join(same)}."] if same else []
    if untested:
        lines.append(f"Not tested: profit by {', '.join(untested)} (--format html or json shows them).")
    return lines


def _show_segments(found: Comparison) -> None:
    if rows := segment_rows(found):
        table(SEGMENT_COLUMNS, rows, title="Profit where segments differ", right=SEGMENT_COLUMNS[2:-1])
    for line in segment_lines(found):
        say_result(line)
    say_result()


def calibration_rows(found: Comparison) -> list[tuple[str, ...]]:
    """Return one row per run and horizon, in the order of ``CALIBRATION_COLUMNS``."""
    return [
        (
            visible(one.run_id),
            one.horizon,
            f"{one.parts.count:,}",
            *(
                f"{value:.4f}"
                for value in (
                    *(one.parts.brier, one.parts.reliability, one.parts.resolution, one.parts.uncertainty),
                    *(one.parts.within_bins, one.parts.ece),
                )
            ),
        )
        for one in found.calibration
    ]


def figure(m: MetricResult, value: float, change: bool = False) -> str:
    """Return a figure with its unit's number of decimals; a change has a sign."""
    digits = {"usd": 6, "ms": 1, "share": 4, "probability": 4, "score": 4, "return": 5}[m.unit]
    text = f"{value:+,.{digits}f}" if change else f"{value:,.{digits}f}"
    return text if float(text.replace(",", "")) else text.replace("-", "+") if change else text.replace("-", "")


SPEND_COLUMNS = (
    "run",
    "executed",
    "reused",
    "missed",
    "spent USD",
    "unpriced calls",
    "avoided USD",
    "would have cost USD",
)


def spend_rows(found: Comparison) -> list[tuple[str, ...]]:
    """Return one row per run, in the order of ``SPEND_COLUMNS``."""
    return [
        (
            s.run_id,
            f"{s.executed:,}",
            f"{s.reused:,}",
            f"{s.missed:,}",
            money(s.cost_usd) if s.executed else "nothing was executed",
            f"{s.unpriced_calls:,}",
            money(s.avoided_cost_usd),
            money(s.would_have_cost_usd),
        )
        for s in found.spend
    ]


def money(cost: Decimal | None) -> str:
    """Return an amount in USD with 6 decimals; ``unknown`` for None."""
    return "unknown" if cost is None else f"{cost:,.6f}"


def flip_row(change: Change) -> tuple[str, ...]:
    """Return one flip as text, in the order of ``FLIP_COLUMNS``; the case's id is short, as `newsproof case` takes it."""
    a, b = (("–" if c is None else f"{c:.3f}") for c in (change.confidence_a, change.confidence_b))
    actions = f"{change.action_a} → {change.action_b}"
    verdicts = f"{change.verdict_a or '–'} → {change.verdict_b or '–'}"
    return (change.case_id[:8], change.asset, change.event_type, actions, verdicts, f"{a} → {b}", change.title)


FLIP_COLUMNS = ("case", "asset", "event type", "action", "verdict", "confidence", "news")


def flip_title(found: Comparison) -> str:
    """Return how many actions and verdicts differ, in words."""
    return f"Flips: {len(found.flips):,} of the action, {len(found.verdict_flips):,} of the verdict"


def flip_rows(found: Comparison) -> list[tuple[str, ...]]:
    """Return the first flips as text, those of the action before those of the verdict alone."""
    every = (*found.flips, *(c for c in found.verdict_flips if c not in found.flips))
    return [flip_row(change) for change in every[:MAX_FLIPS]]


def _show_flips(found: Comparison) -> None:
    if not (rows := flip_rows(found)):
        say_result("Flips: none; every action and every verdict is the same.\n")
        return
    table(FLIP_COLUMNS, rows, title=flip_title(found))
    if len(rows) == MAX_FLIPS:
        say_result(f"At most {MAX_FLIPS} are shown (--format json has them all)")


def _show_differences(found: Comparison) -> None:
    if not found.changed_texts:
        say_result("Differences: none; every signal and every note is the same.\n")
        return
    say_result(f"Largest differences ({len(found.differences):,} of {found.changed_texts:,})")
    for change in found.differences:
        say_result("  ".join(flip_row(change)).rstrip())
        for line in change.diff:
            say_result(f"    {line}")
    say_result()


def _changes(changes: str) -> str:
    return f": {changes}" if changes else ""
