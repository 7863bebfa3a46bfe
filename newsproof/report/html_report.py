"""HTML page of the standard report: one self-contained file. It has no scripts, and its CSP forbids external resources.

Each chart has the table of its data beside it. All text from data is escaped, here and in the charts.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any
from xml.sax.saxutils import escape

from newsproof.report import report_charts as charts
from newsproof.report.charts import NARROW, STYLE, WIDE, Canvas
from newsproof.report.data import VERDICTS, Report, Rows, horizon, milliseconds, usd

_STYLE = (
    STYLE
    + """
body{margin:0 auto;max-width:62rem;padding:1.5rem;background:var(--page);color:var(--ink);font:16px/1.5 system-ui,sans-serif}
h1{font-size:1.6rem;margin:0}h2{font-size:1.2rem;margin:2.5rem 0 .5rem}p{max-width:48rem}
figure{margin:0}figcaption{color:var(--faint);font-size:.875rem}svg{display:block;width:100%;height:auto}
.table{overflow-x:auto}table{border-collapse:collapse;font-size:.875rem;margin:.75rem 0;font-variant-numeric:tabular-nums}
th,td{padding:.25rem .75rem;text-align:left;border-bottom:1px solid var(--line)}td.n,th.n{text-align:right}
caption{text-align:left;color:var(--faint);padding:.25rem 0}.note{border-left:4px solid var(--c1);padding-left:1rem}
summary{cursor:pointer}.narrow{display:none}
@media (max-width:40rem){.narrow{display:block}.wide{display:none}}
"""
)
_NUMBERS = (int, float)
Cell = Callable[[Any], str]


def page_of(report: Report, *, written_at: str, more: str = "") -> str:
    """Return the page. ``written_at``: the time as text. ``more``: further sections as HTML. Equal arguments give equal
    bytes."""
    title = f"Newsproof report: {report.name}"
    sections = (_signals, _precision, _deltas, _reliability, _cost, _latency)
    body = [_head(report, written_at)]
    if not report.is_empty:
        body += [_outcomes_note(report), *(section(report) for section in sections), more, _trust(report)]
    return document(title, "".join(body))


def document(title: str, body: str) -> str:
    """Return a self-contained page of this body: no scripts, nothing from elsewhere."""
    digest = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width,initial-scale=1"><meta name="referrer" content="no-referrer">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head><body><main>{body}</main></body></html>\n"
    )


def _head(report: Report, written_at: str) -> str:
    summary = f"{report.name}, written {written_at}. {report.modes}"
    nothing = "" if not report.is_empty else '<p class="note">There is nothing of this run in ClickHouse yet.</p>'
    return f"<h1>Newsproof report</h1><p>{escape(summary)}</p>{nothing}"


def _section(heading: str, what: str, chart: Callable[[Canvas], str], *below: str) -> str:
    """Return a section. ``what``: its caption, with the unit and the view."""
    caption = f"<figcaption>{escape(what)}</figcaption>"
    return f"<section><h2>{escape(heading)}</h2>{figure(chart, caption)}{''.join(below)}</section>"


def figure(chart: Callable[[Canvas], str], caption: str = "") -> str:
    """Return a chart as HTML, drawn for wide and for narrow screens. Only one is shown."""
    drawn = "".join(f'<div class="{name}">{chart(on)}</div>' for name, on in (("wide", WIDE), ("narrow", NARROW)))
    return f"<figure>{drawn}{caption}</figure>"


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
        "Cost by step",
        f"USD per {charts.per(report, 'spend')} of the request (UTC), of executed calls; from v_calls",
        partial(charts.cost, report),
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
    what = "From a step's cause to its result: median, 95th and 99th percentile, on a logarithmic axis; from events, v_judgements"
    return _section("Latency by step", what, partial(charts.latency, report), steps, signals)


def _signals(report: Report) -> str:
    columns: list[tuple[str, str, Cell]] = [("day", "day (UTC)", str), ("signals", "signals", str)]
    columns += [(name, name.replace("_", " "), str) for name in (*VERDICTS, "without_verdict")]
    what = f"Signals per {charts.per(report, 'signals')} of their emission (UTC), each by its last final revision; from v_judgements"
    days = table("Signals by day and verdict", report["signals"], columns)
    why: list[tuple[str, str, Cell]] = [
        ("unchecked_reason", "reason", lambda v: v.replace("_", " ") or "of schema 1"),
        ("signals", "signals", str),
    ]
    unchecked = table("Not verified, by reason", report["unchecked"], why)
    return _section("Signals by verdict", what, partial(charts.signals, report), days, unchecked)


def _precision(report: Report) -> str:
    if not report["precision"]:
        return ""
    share: Cell = lambda v: "too few days" if v is None else f"{v:.3f}"  # noqa: E731 - as the other columns are written
    columns: list[tuple[str, str, Cell]] = [
        ("horizon_s", "horizon", horizon),
        ("by", "by", lambda v: "all, withdrawn ones too" if v == "held" else v),
        ("group", "group", lambda v: v or "–"),
        *((name, name, str) for name in ("acted", "counted", "hits")),
        ("precision", "precision", lambda v: "–" if v is None else f"{v:.3f}"),
        ("low", "from", share),
        ("high", "to", share),
        ("blocks", "blocks of time", str),
    ]
    what = (
        "Of the signals to buy or sell, the share whose asset moved the said way from the first price that one could have had "
        f"until {horizon(report.horizon_s)} later, before costs, with its 95 % interval over whole blocks of time (a UTC day, or "
        "twice the horizon): below six of them too few; dashed: one half. A withdrawn signal counts only where the table says so, "
        "held until its withdrawal; from v_held_outcomes"
    )
    rows = table("Precision by horizon", report["precision"], columns)
    return _section("Precision of signals to buy or sell", what, partial(charts.precision, report), rows)


def _deltas(report: Report) -> str:
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
    unchecked = sum(row["signals"] for row in report["unchecked"])
    what = f"Signals by final less first confidence, in steps of 0.1, without the {unchecked:,} that were not verified; from v_judgements"
    chart = partial(charts.confidence, report)
    return _section("Confidence change by verification", what, chart, changes, types)


def _outcomes_note(report: Report) -> str:
    notes = (report.without_outcomes, report.synthetic)
    return "".join(f'<p class="note">{escape(note)}</p>' for note in notes if note)


def _reliability(report: Report) -> str:
    if not report["calibration"]:
        return f"<section><h2>Outcomes</h2>{_reliability_tables(report)[-1]}</section>"
    what = (
        "Share of hits by stated confidence of signals to buy or sell, in tenths, by horizon. Dotted: by calibrated confidence, of all "
        "signals with one, the share whose price moved over 10 bp at the signal's own horizon. The noise floor is the ECE that a "
        "perfect forecaster exceeds in 5 of 100 samples like this one; from v_held_outcomes"
    )
    return _section("Reliability", what, partial(charts.reliability, report), *_reliability_tables(report))


def _reliability_tables(report: Report) -> list[str]:
    named = {
        "mean_confidence": "confidence",
        "hit_rate": "hit rate",
        "brier": "Brier",
        "ece": "ECE",
        "ece_noise": "noise floor",
    }
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
        table("Calibrated confidence by horizon", report["calibrated"], [at, cases, *figures]),
        table("Reliability by tenth of calibrated confidence", report["calibrated_bins"], bins),
        table("Counted signals", report["coverage"], [at, *counted]),
    ]


def _trust(report: Report) -> str:
    rows = table("Checks", report["trust"], [("check", "check", str), ("violations", "violations", str)])
    return f"<section><h2>Data checks</h2>{rows or '<p>There is no data yet.</p>'}</section>"
