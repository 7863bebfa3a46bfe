"""HTML page of the standard report: one self-contained file. It has no scripts, and its CSP forbids external resources.

Beside every chart is the table that it was drawn from. Every text from data is escaped, here and in the charts.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Sequence
from typing import Any
from xml.sax.saxutils import escape

from newsproof.report import drawn as charts
from newsproof.report.charts import STYLE
from newsproof.report.data import Report, Rows, horizon, milliseconds, usd

_STYLE = (
    STYLE
    + """
body{margin:0 auto;max-width:62rem;padding:1.5rem;background:var(--page);color:var(--ink);font:16px/1.5 system-ui,sans-serif}
h1{font-size:1.6rem;margin:0}h2{font-size:1.2rem;margin:2.5rem 0 .5rem}p{max-width:48rem}
figure{margin:0}figcaption{color:var(--faint);font-size:.875rem}svg{display:block;width:100%;height:auto}
.table{overflow-x:auto}table{border-collapse:collapse;font-size:.875rem;margin:.75rem 0;font-variant-numeric:tabular-nums}
th,td{padding:.25rem .75rem;text-align:left;border-bottom:1px solid var(--line)}td.n,th.n{text-align:right}
caption{text-align:left;color:var(--faint);padding:.25rem 0}.note{border-left:4px solid var(--c1);padding-left:1rem}
summary{cursor:pointer}
"""
)
_NUMBERS = (int, float)
Cell = Callable[[Any], str]


def page_of(report: Report, *, written_at: str, more: str = "") -> str:
    """Return the page. ``written_at`` is the time as text, ``more`` further sections as HTML; the same arguments give the same
    bytes."""
    digest = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    title = f"Newsproof report: {report.name}"
    body = [
        _head(report, written_at),
        _cost(report),
        _latency(report),
        _deltas(report),
        _reliability(report),
        more,
        _trust(report),
    ]
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width,initial-scale=1"><meta name="referrer" content="no-referrer">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head><body><main>{''.join(body)}</main></body></html>\n"
    )


def _head(report: Report, written_at: str) -> str:
    summary = f"{report.name}, written {written_at}. {report.modes}"
    nothing = "" if not report.is_empty else '<p class="note">There is nothing of this run in ClickHouse yet.</p>'
    return f"<h1>Newsproof report</h1><p>{escape(summary)}</p>{nothing}"


def _section(heading: str, views: str, chart: str, *below: str) -> str:
    caption = f"<figcaption>From {escape(views)}</figcaption>" if views else ""
    return f"<section><h2>{escape(heading)}</h2><figure>{chart}{caption}</figure>{''.join(below)}</section>"


def table(caption: str, rows: Rows, columns: Sequence[tuple[str, str, Cell]]) -> str:
    """Return a table as HTML, "" without rows. Each of ``columns`` is (field, heading, formatter)."""
    if not rows:
        return ""
    right = {name: all(isinstance(row[name], _NUMBERS) or row[name] is None for row in rows) for name, _, _ in columns}
    classes = {name: ' class="n"' if right[name] else "" for name, _, _ in columns}
    head = "".join(f'<th scope="col"{classes[name]}>{escape(words)}</th>' for name, words, _ in columns)
    lines = "".join(
        "<tr>" + "".join(f"<td{classes[name]}>{escape(write(row[name]))}</td>" for name, _, write in columns) + "</tr>"
        for row in rows
    )
    return (
        f'<details open><summary>{escape(caption)}</summary><div class="table"><table><caption>{escape(caption)}</caption>'
        f"<thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table></div></details>"
    )


def _cost(report: Report) -> str:
    unpriced = sum(row["unpriced"] for row in report["spend"])
    calls = sum(row["calls"] for row in report["spend"])
    cost_note = f"{unpriced} of {calls} calls have no known price: they are in no sum." if calls else ""
    for row in report["cost_per_signal"]:
        cost_note += (
            f" {row['signals']} signals, {usd(row['cost_per_signal_usd'])} USD each, unsuccessful cases included."
        )
    columns = (
        *(("day", "day (UTC)", str), ("step", "step", str), ("calls", "calls", str), ("executed", "executed", str)),
        *(("cost_usd", "cost USD", usd), ("unpriced", "of unknown price", str)),
    )
    return _section(
        "Cost by day and step",
        "v_spend",
        charts.cost(report),
        f"<p>{escape(cost_note)}</p>",
        table("Cost by day and step", report["spend"], columns),
    )


def _latency(report: Report) -> str:
    ms: list[tuple[str, str, Cell]] = [(f"p{n}_ms", f"p{n} ms", milliseconds) for n in (50, 95, 99)]
    steps = table(
        "Latency by step",
        report["latency"],
        [("step", "step", str), ("results", "results", str), ("failures", "failures", str), *ms],
    )
    opened: list[tuple[str, str, Cell]] = [(f"opened_p{n}_ms", f"p{n} ms", milliseconds) for n in (50, 95, 99)]
    signals = table(
        "From the opened case to the signal",
        report["to_signal"],
        [("verdict", "verdict", lambda v: v or "of schema 1"), ("signals", "signals", str), *opened],
    )
    views = "v_latency_by_step, v_latency_to_signal"
    return _section("Latency by step", views, charts.latency(report), steps, signals)


def _deltas(report: Report) -> str:
    chart = charts.confidence(report)
    changes = table(
        "Change of confidence, in steps of 0.1",
        report["deltas"],
        [("delta_from", "from", lambda v: f"{v:+.1f}"), ("signals", "signals", str)],
    )
    three: list[tuple[str, str, Cell]] = [
        (name, words, lambda v: f"{v:.3f}")
        for name, words in (("mean_preliminary", "first"), ("mean_final", "final"), ("mean_delta", "change"))
    ]
    types = table(
        "By type of event",
        report["deltas_by_type"],
        [
            ("event_type", "type", str),
            ("signals", "signals", str),
            *three,
            ("raised", "raised", str),
            ("lowered", "lowered", str),
        ],
    )
    return _section("What verification did to confidence", "v_confidence_delta_bins", chart, changes, types)


def _reliability(report: Report) -> str:
    notes = (report.without_outcomes, report.synthetic)
    paragraphs = "".join(f'<p class="note">{escape(note)}</p>' for note in notes if note)
    views = "v_reliability, v_calibration, v_outcome_coverage"
    return _section("Reliability", views, charts.reliability(report), paragraphs, *_reliability_tables(report))


def _reliability_tables(report: Report) -> list[str]:
    named = {"mean_confidence": "confidence", "hit_rate": "hit rate", "brier": "Brier", "ece": "ECE"}
    figures: list[tuple[str, str, Cell]] = [(name, words, lambda v: f"{v:.3f}") for name, words in named.items()]
    at: tuple[str, str, Cell] = ("horizon_s", "horizon", horizon)
    cases: tuple[str, str, Cell] = ("cases", "cases", str)
    bins: list[tuple[str, str, Cell]] = [
        at,
        ("confidence_from", "from", str),
        cases,
        ("stories", "stories", str),
        *figures[:2],
    ]
    counted: list[tuple[str, str, Cell]] = [
        ("standing", "standing", str),
        ("signals", "signals", str),
        ("on_synthetic_prices", "on synthetic prices", str),
    ]
    return [
        table("Calibration by horizon", report["calibration"], [at, cases, *figures]),
        table("Reliability by tenth of confidence", report["reliability"], bins),
        table("Which signals count", report["coverage"], [at, *counted]),
    ]


def _trust(report: Report) -> str:
    rows = table("Checks", report["trust"], [("check", "check", str), ("violations", "violations", str)])
    return f"<section><h2>Can these figures be trusted?</h2>{rows or '<p>There is no data yet.</p>'}</section>"
