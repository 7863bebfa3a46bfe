"""Routes of the standard report and its charts, of SQL as the analysts' user, and of backtests and their comparison."""

from __future__ import annotations

import time
from datetime import date, timedelta
from math import inf
from typing import Annotated

from fastapi import APIRouter, Path, Query, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from infra.clickhouse.client import engine_words
from infra.clickhouse.first_rows import first_rows
from infra.clickhouse.statement import split_statements
from newsproof.evaluation.backtest.run.tables import read_runs
from newsproof.evaluation.compare.running import compare_runs
from newsproof.evaluation.compare.terms import Scoring
from newsproof.evaluation.profit.study_page import drawn_study
from newsproof.evaluation.profit.study_report import Dimension, Returns, StudyReport, study_or_why_not
from newsproof.report.data import Report, read_report
from newsproof.web.api.live import backend_of
from newsproof.web.api.report_charts import CHARTS, Theme, drawn, in_colours
from newsproof.web.api.statements import held_slot, unless_disconnected, with_timeout
from newsproof.web.backend import Backend
from newsproof.web.responses import Refused, as_json
from schemas.errors import ConfigError, PermanentError
from schemas.ids import LIVE_RUN
from streams.journal.clock import utc_now

router = APIRouter(prefix="/api/v1", tags=["analytics"])

MOST_ROWS, MOST_BYTES = 2_000, 4_000_000
"""Limits of an answer to SQL in a page; ``newsproof sql`` returns everything."""
REPORT_FOR_S = 5.0
"""How long a reading is reused: the four charts of a page and its tables are made from one."""
STUDY_FOR_S = 60.0
"""The same of an event study, which reads all prices."""
SVG_POLICY = "default-src 'none'; style-src 'unsafe-inline'; sandbox"
Days = Annotated[
    int, Query(ge=1, le=3650, description="Days of cost to include; the other figures cover the whole run.")
]
RunId = Annotated[str, Query(min_length=1, max_length=200)]


@router.get("/report")
async def report(request: Request, days: Days = 30) -> Response:
    """Return the figures of the standard report on the live run. Field names are those of newsproof/report/data.py."""
    found = await _report(backend_of(request), days)
    return as_json({
        "run_id": found.run_id,
        "days": days,
        "days_apply_to": ["spend"],
        "answers": found.answers,
        "is_empty": found.is_empty,
        "synthetic": bool(found.synthetic),
        "without_outcomes": found.without_outcomes,
    })  # fmt: skip


@router.get("/report/study")
async def study(request: Request, by: Dimension = "verdict") -> Response:
    """Return the event study of the live run as `newsproof backtest study --json` prints it, with its largest groups; or why there is none."""
    found = await _study(backend_of(request), by)
    return as_json({"study": None, "why": found} if isinstance(found, str) else {"study": found, "why": ""})


@router.get("/report/charts/study.svg", response_class=Response, responses={200: {"content": {"image/svg+xml": {}}}})
async def study_chart(
    request: Request, theme: Theme = "light", by: Dimension = "verdict", returns: Returns = "abnormal"
) -> Response:
    """Return the event study as SVG, a panel for each of its largest groups."""
    found = await _study(backend_of(request), by)
    if isinstance(found, str):
        raise Refused(404, "there is no event study to draw", found)
    return _as_svg(in_colours(drawn_study(found, returns), theme))


@router.get("/report/charts/{name}.svg", response_class=Response, responses={200: {"content": {"image/svg+xml": {}}}})
async def chart(request: Request, name: str, theme: Theme = "light", days: Days = 30) -> Response:
    """Return a chart of the report as SVG: cost, latency, confidence or reliability."""
    if name not in CHARTS:
        raise Refused(404, f"there is no chart {name[:80]!r}", f"ask for one of {', '.join(CHARTS)}")
    found = await _report(backend_of(request), days)
    return _as_svg(drawn(name, found, theme))


def _as_svg(svg: str) -> Response:
    headers = {"content-security-policy": SVG_POLICY, "cache-control": "private, max-age=5"}
    return Response(svg, 200, headers, "image/svg+xml")


async def _study(backend: Backend, by: Dimension) -> StudyReport | str:
    async with backend.reading_study:
        kept, at = backend.studies.get(by, ("", -inf))
        if time.monotonic() - at > STUDY_FOR_S or isinstance(kept, str):
            kept = await with_timeout(study_or_why_not(backend.reachable_tables(), LIVE_RUN, (by,)))
            backend.studies[by] = kept, time.monotonic()
        return kept


async def _report(backend: Backend, days: int) -> Report:
    async with backend.reading_report:
        kept, at = backend.report
        if kept is None or time.monotonic() - at > REPORT_FOR_S:
            kept = await with_timeout(read_report(backend.reachable_tables(), run_id=LIVE_RUN))
            backend.report = kept, time.monotonic()
    first = utc_now().date() - timedelta(days=days - 1)
    spend = [row for row in kept["spend"] if date.fromisoformat(row["day"]) >= first]
    return Report(run_id=kept.run_id, answers={**kept.answers, "spend": spend})


class Statement(BaseModel):
    """One SQL statement that only reads."""

    model_config = ConfigDict(extra="forbid")

    query: str = Field(min_length=1, max_length=20_000)


@router.post("/sql")
async def sql(request: Request, statement: Statement) -> Response:
    """Run one statement as the analysts' user, which is read-only and limited.

    `truncated` is true if there are more rows than returned.
    """
    backend = backend_of(request)
    statements = split_statements(statement.query)
    if len(statements) != 1:
        raise Refused(400, f"these are {len(statements)} statements", "send one")
    began = time.monotonic()
    async with held_slot(backend.asking_sql):
        try:
            asking = first_rows(backend.reachable_tables(), statements[0], most=MOST_ROWS, most_bytes=MOST_BYTES)
            found = await unless_disconnected(request, with_timeout(asking))
        except PermanentError as exc:
            raise Refused(
                400, engine_words(exc), "correct the statement; `SHOW TABLES` lists what there is to read"
            ) from exc
    return as_json({
        "columns": [{"name": n, "type": t} for n, t in zip(found.columns, found.types, strict=True)],
        "rows": found.rows,
        "truncated": found.cut,
        "seconds": round(time.monotonic() - began, 3),
    })  # fmt: skip


# Backtests


@router.get("/backtests")
async def backtests(request: Request) -> Response:
    """Return all backtest runs, newest first."""
    return as_json({"items": await with_timeout(read_runs(backend_of(request).reachable_tables()))})


@router.get("/backtests/compare")
async def compare(request: Request, a: RunId, b: RunId) -> Response:
    """Compare two runs; run id `live` stands for the live judgements. Keys: docs/verdict.md."""
    backend = backend_of(request)
    async with held_slot(backend.asking_sql):
        try:
            comparing = compare_runs(
                backend.reachable_tables(), a, b, how=Scoring(primary="", cap=backend.settings.profit_cap)
            )
            return as_json(await unless_disconnected(request, with_timeout(comparing)))
        except ConfigError as exc:
            raise Refused(404, str(exc), "choose two runs of /api/v1/backtests that share cases") from exc


@router.get("/backtests/{run_id}")
async def backtest(request: Request, run_id: Annotated[str, Path(max_length=200)]) -> Response:
    """Return one run and the results of its cases."""
    tables = backend_of(request).reachable_tables()
    runs = await with_timeout(read_runs(tables, run_id))
    if not runs:
        raise Refused(404, f"there is no run {run_id!r}", "look at /api/v1/backtests")
    states = await with_timeout(tables.query(_STATES, {"run_id": run_id}))
    others = await with_timeout(tables.query(_OTHERS, {"run_id": run_id}))
    return as_json({**runs[0], "cases_by_status": dict(states.rows), "not_replayed": others.dicts()})


_STATES = "SELECT status, count() FROM run_cases FINAL WHERE run_id = {run_id:String} GROUP BY status ORDER BY status"
_OTHERS = """SELECT case_id, repeat, status, reason FROM run_cases FINAL
WHERE run_id = {run_id:String} AND status != 'replayed' ORDER BY case_id, repeat LIMIT 20"""
