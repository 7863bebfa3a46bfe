"""The event study as a chart, and as a part of the page of ``newsproof report --html``."""

from __future__ import annotations

from functools import partial
from xml.sax.saxutils import escape

from evaluation.profit.study import Group
from evaluation.profit.study_report import (
    TITLES,
    Returns,
    StudyReport,
    band_of,
    counts_in_words,
    events_of,
    rows_of,
    study_or_why_not,
)
from infra.clickhouse.client import ClickHouse
from newsproof.report.charts import WIDE, Canvas, Curve, CurvePoint, study_panels
from newsproof.report.html_report import figure, table


def drawn_study(found: StudyReport, returns: Returns, on: Canvas = WIDE) -> str:
    """Return the study as SVG, a panel for each group."""
    curves = [
        Curve(
            _name(group, on),
            events_of(group, returns),
            [CurvePoint(point.minutes, *band_of(point, returns)) for point in group.points],
        )
        for group in found.study.groups
    ]
    return study_panels(curves, title=f"Mean {returns} return around the signal", on=on)


def _name(group: Group, on: Canvas) -> str:
    if group.dimension == "all":
        return on.say("all signals")
    return group.name if group.dimension == "source" else on.say(group.name) or "–"


async def study_section(tables: ClickHouse, run_id: str) -> str:
    """Return the study of a run by verdict as a section of HTML, or a section that says why there is none."""
    found = await study_or_why_not(tables, run_id, ("verdict",))
    heading = "How prices moved around the signals"
    if isinstance(found, str):
        return f"<section><h2>{heading}</h2><p>{escape(found)}</p></section>"
    drawn = []
    for returns, title in TITLES.items():
        columns, rows = rows_of(found.study, returns)
        if rows:
            named = [dict(zip(columns, (cell.replace("\n", ", ") for cell in row), strict=True)) for row in rows]
            drawn.append(f"<h3>{escape(title)}</h3>{figure(partial(drawn_study, found, returns))}")
            drawn.append(table(title, named, [(name, name, str) for name in columns]))
    said = "".join(f"<p>{escape(one)}</p>" for one in counts_in_words(found))
    notes = "".join(f'<p class="note">{escape(warning)}</p>' for warning in found.warnings)
    return f"<section><h2>{heading}</h2>{said}{notes}{''.join(drawn)}</section>"
