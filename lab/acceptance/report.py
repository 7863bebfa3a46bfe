"""The report of an acceptance run, per message, step and target; as tables, Markdown or one line of JSON."""

from __future__ import annotations

from collections.abc import Sequence
from math import isnan
from typing import Any

import msgspec

from lab.acceptance.measures import CaseMeasure, RunMeasures
from lab.acceptance.targets import Verdict
from newsproof.app.sheet import Sheet, say_result, table
from newsproof.report.data import StepFigures


class AcceptanceReport(msgspec.Struct, frozen=True, kw_only=True):
    """The line that ``--json`` prints. ``mode``: live, or simulated (scripted responses). ``met`` counts ``targets``.

    ``cost_usd``: of calls with a known price. ``max_cost_usd``: maximum cost of a live run; None without paid calls.
    """

    mode: str
    messages: int
    deep: int
    failed: int
    met: int
    targets: tuple[Verdict, ...]
    criteria: tuple[Verdict, ...]
    steps: tuple[StepFigures, ...]
    cases: tuple[CaseMeasure, ...]
    seconds: float
    searches: int
    requests: int
    billed_requests: int
    cost_usd: float
    unpriced_calls: int
    max_cost_usd: float | None


def report_of(
    mode: str,
    run: RunMeasures,
    targets: Sequence[Verdict],
    criteria: Sequence[Verdict],
    seconds: float,
    max_cost_usd: float | None,
) -> AcceptanceReport:
    """Return the report of a run that took ``seconds``. ``max_cost_usd`` None: no paid calls."""
    return AcceptanceReport(
        mode=mode,
        messages=len(run.cases),
        deep=len(run.deep),
        failed=sum(c.status.endswith("case_failed") for c in run.cases),
        met=sum(t.met for t in targets),
        targets=tuple(targets),
        criteria=tuple(criteria),
        steps=run.steps,
        cases=run.cases,
        seconds=round(seconds, 2),
        searches=run.searches_answered,
        requests=sum(c.requests for c in run.cases),
        billed_requests=sum(c.billed_requests for c in run.cases),
        cost_usd=sum(c.cost_usd or 0.0 for c in run.cases),
        unpriced_calls=sum(c.unpriced_calls for c in run.cases),
        max_cost_usd=max_cost_usd,
    )


def print_report(report: AcceptanceReport, *, markdown: bool) -> None:
    """Print the four tables on standard output."""
    show = _markdown if markdown else _table
    show(
        "Messages",
        ("message", "path", "requests", "billed", "seconds", "calls", "USD", "verdict", "signal"),
        [_message(c) for c in report.cases],
    )
    show(
        "Steps",
        ("step", "results", "p50 ms", "p95 ms", "calls", "failed", "tokens in", "tokens out", "USD"),
        [*(_step(s) for s in report.steps), _total(report.steps)],
    )
    show(
        "Targets, per message that was analysed deeply",
        ("target", "wanted", "measured", "met", ""),
        _lines(report.targets),
    )
    show(
        "Criteria, of the messages themselves", ("criterion", "wanted", "measured", "met", ""), _lines(report.criteria)
    )
    held = sum(c.met for c in report.criteria)
    say_result(
        f"{report.met} of {len(report.targets)} targets and {held} of {len(report.criteria)} criteria met; "
        f"{report.mode}, {report.deep} messages deep"
    )
    of_most = "simulated" if report.max_cost_usd is None else f"of at most {report.max_cost_usd:g}"
    cost = _usd(report.cost_usd, report.unpriced_calls)
    say_result(
        f"{cost} USD, {of_most}; {report.searches} searches answered, {report.billed_requests} billed requests; {report.seconds:g} s"
    )


def _lines(verdicts: Sequence[Verdict]) -> list[tuple[str, ...]]:
    return [(t.target, t.wanted, _measured(t), "yes" if t.met else "NO", t.note) for t in verdicts]


def _message(c: CaseMeasure) -> tuple[Any, ...]:
    return (
        *(c.message, c.path, c.requests, c.billed_requests, f"{c.took_ms / 1000:.2f}", c.calls),
        *(_usd(c.cost_usd, c.unpriced_calls), c.verdict, c.outcome),
    )


def _step(s: StepFigures) -> tuple[Any, ...]:
    return (
        *(s.step, s.results, _ms(s.p50_ms), _ms(s.p95_ms), s.calls, s.failed_calls),
        *(s.input_tokens, s.output_tokens, _usd(s.cost_usd, s.unpriced_calls)),
    )


def _total(steps: Sequence[StepFigures]) -> tuple[Any, ...]:
    cost, unpriced = sum(s.cost_usd or 0.0 for s in steps), sum(s.unpriced_calls for s in steps)
    sums = [sum(getattr(s, name) for s in steps) for name in ("calls", "failed_calls", "input_tokens", "output_tokens")]
    return ("in all", sum(s.results for s in steps), "", "", *sums, _usd(cost, unpriced))


def _table(title: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    table(columns, rows, title=title, right=columns[1:-1])
    say_result()


def _markdown(title: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    say_result(f"{title}:\n\n{Sheet(columns, rows).markdown()}\n")


def _ms(value: float | None) -> str:
    return "–" if value is None or isnan(value) else f"{value:,.0f}"


def _usd(cost: float | None, unpriced: int) -> str:
    known = "–" if cost is None else f"{cost:.6f}"
    return f"{known} (+{unpriced} unpriced)" if unpriced else known


def _measured(verdict: Verdict) -> str:
    if verdict.measured is None:
        return "nothing to measure"
    digits = {"USD": 4, "messages": 0}.get(verdict.unit, 2)
    return f"{verdict.measured:.{digits}f} {verdict.unit}"
