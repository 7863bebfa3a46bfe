"""Report of the demo: the signals; latency, cost and confidence from ClickHouse; the audit."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from infra.clickhouse.client import ClickHouse
from newsproof.app.invocation import say_result, table
from newsproof.report.data import QUESTIONS, StepFigures, read_steps
from schemas.ids import LIVE_RUN
from schemas.news import News
from schemas.signals import Signal
from streams.audit.audit import AuditReport


async def print_report(
    items: Sequence[News], signals: Sequence[Signal], report: AuditReport, tables: ClickHouse
) -> None:
    print_signals(signals, {news.case_id: news.identity for news in items})
    await print_analytics(tables)
    print_audit(report)


def print_signals(signals: Sequence[Signal], ids: dict[str, str] | None = None, *, title: str = "Signals") -> None:
    """Print the newest revision of each signal. ``ids`` maps a case id to a short name, such as the news's own id."""
    newest = {s.signal_id: s for s in signals}
    known = ids or {}
    order = {case: n for n, case in enumerate(known)}
    rows = [
        (
            known.get(s.case_id, s.case_id[:8]),
            s.asset or "–",
            s.action,
            f"{s.preliminary_confidence:.2f} → {s.confidence:.2f}",
            s.independent_sources,
            s.status,
            " ".join(s.risk_flags),
            shortened(s.summary, 60),
        )
        for s in sorted(newest.values(), key=lambda s: order.get(s.case_id, 0))
    ]
    columns = ("news", "asset", "action", "confidence", "sources", "status", "flags", "summary")
    table(columns, rows, title=title, right=("sources",))


async def print_analytics(tables: ClickHouse) -> None:
    """Print latency and cost by step, and confidence by event type."""
    rows = [
        (s.step, s.results, s.p50_ms and round(s.p50_ms, 1), s.p95_ms and round(s.p95_ms, 1), s.calls, s.failed_calls,
         s.input_tokens + s.output_tokens, _money(s))
        for s in await read_steps(tables)
    ]  # fmt: skip
    columns = ("step", "results", "p50 ms", "p95 ms", "calls", "failed", "tokens", "cost USD")
    table(columns, rows, title="Latency and cost by step (v_latency_by_step, v_cost_by_step)", right=columns[1:])
    deltas = await tables.query(QUESTIONS["deltas_by_type"], {"run": LIVE_RUN})
    title = "Confidence by event type (v_confidence_delta_by_event_type)"
    table(deltas.columns, deltas.rows, title=title, right=deltas.columns[1:])


def print_audit(report: AuditReport) -> None:
    """Print the audit's counts, the forged signals and the verdict."""
    figures = msgspec.structs.asdict(report)
    forged = figures.pop("forged")
    table(("audit", "count"), figures.items(), title="Audit of the whole log", right=("count",))
    if report.clean:
        return say_result("Clean: nothing lost, nothing twice, nothing forged.")
    if report.lost or report.duplicate_events or report.duplicate_signals:
        say_result(
            "NOT CLEAN: lost, duplicate_events and duplicate_signals should be 0. `newsproof cases --status open` and "
            "`newsproof dlq list` show where."
        )
    if forged:
        rows = [(one.partition, one.offset, one.why) for one in forged]
        title = f"Forged or altered signals ({len(rows)} of {report.forged_signals})"
        table(("partition", "offset", "why"), rows, title=title, right=("partition", "offset"))
        say_result(
            "NOT CLEAN: somebody other than publish wrote to the signals topic. Do not act on these records, tell whoever "
            "subscribes, take away every right to write there but the publisher's, and change the passwords that had it."
        )


def shortened(text: str, length: int) -> str:
    """Return the text on one line, cut to ``length`` characters."""
    line = " ".join(text.split())
    return line if len(line) <= length else line[: length - 1] + "…"


def _money(step: StepFigures) -> str:
    if step.calls == 0:
        return "–"
    known = "unknown" if step.cost_usd is None else f"{step.cost_usd:.4f}"
    return known if not step.unpriced_calls else f"{known} + {step.unpriced_calls} unpriced"
