"""HTML page of the standard report: one self-contained file. It has no scripts, and its CSP forbids external resources.

Each chart has the table of its data beside it. All text from data is escaped, here and in the charts.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from xml.sax.saxutils import escape

from newsproof.app.sheet import Sheet, document
from newsproof.report import report_charts as charts
from newsproof.report.charts import NARROW, STYLE, WIDE, Canvas
from newsproof.report.data import Report, horizon, usd
from newsproof.report.sheets import sheet_of

PAGE_STYLE = (
    STYLE
    + """
body{margin:0 auto;max-width:62rem;padding:1.5rem;background:var(--page);color:var(--ink);font:16px/1.5 system-ui,sans-serif}
h1{font-size:1.6rem;margin:0}h2{font-size:1.2rem;margin:2.5rem 0 .5rem}p{max-width:48rem}
figure{margin:0}figcaption{color:var(--faint);font-size:.875rem}svg{display:block;width:100%;height:auto}
.table{overflow-x:auto}table{border-collapse:collapse;font-size:.875rem;margin:.75rem 0;font-variant-numeric:tabular-nums}
th,td{padding:.25rem .75rem;text-align:left;border-bottom:1px solid var(--line)}td{white-space:pre-line}td.n,th.n{text-align:right}
caption{text-align:left;color:var(--faint);padding:.25rem 0}.note{border-left:4px solid var(--c1);padding-left:1rem}
summary{cursor:pointer}.narrow{display:none}
@media (max-width:40rem){.narrow{display:block}.wide{display:none}}
"""
)


def page_of(report: Report, *, written_at: str, more: str = "") -> str:
    """Return the page. ``written_at``: the time as text. ``more``: further sections as HTML. Equal arguments give equal
    bytes."""
    title = f"Newsproof report: {report.name}"
    sections = (_signals, _precision, _deltas, _reliability, _cost, _latency)
    body = [_head(report, written_at)]
    if not report.is_empty:
        body += [_outcomes_note(report), *(section(report) for section in sections), more, _trust(report)]
    return document(title, PAGE_STYLE, "".join(body))


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


def folded(sheet: Sheet) -> str:
    """Return a sheet as HTML that the reader can fold, "" without rows."""
    if not sheet.rows:
        return ""
    return f"<details open><summary>{escape(sheet.title)}</summary>{sheet.html(caption=True)}</details>"


def _tables(report: Report, *names: str) -> str:
    return "".join(folded(sheet_of(report, name)) for name in names)


def _cost(report: Report) -> str:
    unpriced = sum(row["unpriced"] for row in report["spend"])
    calls = sum(row["calls"] for row in report["spend"])
    cost_note = f"{unpriced} of {calls} calls have no known price: they are in no sum." if calls else ""
    for row in report["cost_per_signal"]:
        cost_note += (
            f" {row['signals']} signals, {usd(row['cost_per_signal_usd'])} USD each, unsuccessful cases included."
        )
    what = f"USD per {charts.per(report, 'spend')} of the request (UTC), of executed calls; from v_calls"
    chart = partial(charts.cost, report)
    return _section("Cost by step", what, chart, f"<p>{escape(cost_note)}</p>", _tables(report, "spend"))


def _latency(report: Report) -> str:
    what = "From a step's cause to its result: median, 95th and 99th percentile, on a logarithmic axis; from events, v_judgements"
    tables = _tables(report, "latency", "to_signal")
    return _section("Latency by step", what, partial(charts.latency, report), tables)


def _signals(report: Report) -> str:
    what = f"Signals per {charts.per(report, 'signals')} of their emission (UTC), each by its last final revision; from v_judgements"
    tables = _tables(report, "signals", "unchecked")
    return _section("Signals by verdict", what, partial(charts.signals, report), tables)


def _precision(report: Report) -> str:
    if not report["precision"]:
        return ""
    what = (
        "Share of buy and sell signals whose asset moved as predicted, from the first price after the signal until "
        f"{horizon(report.horizon_s)} later, before costs. The 95 % interval resamples whole blocks of time (a UTC day, or twice "
        "the horizon); below six blocks there are too few days. Dashed: one half. A retracted signal counts only where the table "
        "says so, and is held until its retraction. From v_held_outcomes"
    )
    tables = _tables(report, "precision")
    return _section("Precision of signals to buy or sell", what, partial(charts.precision, report), tables)


def _deltas(report: Report) -> str:
    unchecked = sum(row["signals"] for row in report["unchecked"])
    what = f"Signals by final less first confidence, in steps of 0.1, without the {unchecked:,} that were not verified; from v_judgements"
    tables = _tables(report, "deltas", "deltas_by_type")
    return _section("Confidence change by verification", what, partial(charts.confidence, report), tables)


def _outcomes_note(report: Report) -> str:
    notes = (report.without_outcomes, report.synthetic)
    return "".join(f'<p class="note">{escape(note)}</p>' for note in notes if note)


def _reliability(report: Report) -> str:
    coverage = _tables(report, "coverage")
    if not report["calibration"]:
        return f"<section><h2>Outcomes</h2>{coverage}</section>"
    what = (
        "Share of hits by stated confidence of signals to buy or sell, in tenths, by horizon. Dotted: by calibrated confidence, of all "
        "signals with one, the share whose price moved over 10 bp at the signal's own horizon. The noise floor is the ECE that a "
        "perfect forecaster exceeds in 5 of 100 samples like this one; from v_held_outcomes"
    )
    tables = _tables(report, "calibration", "reliability", "calibrated", "calibrated_bins")
    return _section("Reliability", what, partial(charts.reliability, report), tables, coverage)


def _trust(report: Report) -> str:
    rows = _tables(report, "trust")
    return f"<section><h2>Data checks</h2>{rows or '<p>There is no data yet.</p>'}</section>"
