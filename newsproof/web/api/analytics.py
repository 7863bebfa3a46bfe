"""Routes of the standard report and its charts, of SQL as the analyst user, and of backtests and their comparison."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from datetime import date, timedelta
from functools import lru_cache, partial
from importlib import resources
from typing import Annotated, Literal, TypeVar

import msgspec
from fastapi import APIRouter, Depends, Path, Query, Request
from pydantic import Field
from starlette.responses import Response

from evaluation.compare.compare_runs import compare_runs
from evaluation.compare.run_records import read_run, read_runs
from evaluation.compare.terms import Scoring
from evaluation.prices.study_report import (
    MOST_GROUPS,
    POINT_COLUMNS,
    Dimension,
    Returns,
    StudyReport,
    drawn_study,
    points_of,
    study_report,
)
from evaluation.statistics.blocks import share_interval
from infra.clickhouse.client import engine_words
from infra.clickhouse.first_rows import first_rows
from infra.clickhouse.statement import split_statements
from newsproof.report.charts import NARROW, STYLE, WIDE, Canvas
from newsproof.report.data import ANSWERS, QUESTIONS, Report, Rows, read_report
from newsproof.report.period import Period
from newsproof.report.report_charts import CHARTS, per
from newsproof.web.api.live import backend_of
from newsproof.web.backend import Backend
from newsproof.web.responses import Refused, StrictBody, as_json, csv_file, left
from schemas.errors import ConfigError, PermanentError, TransientError
from schemas.ids import LIVE_RUN
from streams.journal.clock import utc_now

router = APIRouter(prefix="/api/v1", tags=["analytics"])

MOST_ROWS, MOST_BYTES = 2_000, 4_000_000
"""Limits of a response to SQL on the page; ``newsproof sql`` returns everything."""
REPORT_FOR_S = 15.0
"""Time for which a reading is reused: a page's charts and tables are made from one."""
STUDY_FOR_S = 60.0
"""The same for the readings that take longest: an event study, and the checks."""
SVG_POLICY = "default-src 'none'; style-src 'unsafe-inline'; sandbox"
RunId = Annotated[str, Query(min_length=1, max_length=200)]
Format = Literal["json", "csv"]


def _period(
    days: Annotated[int | None, Query(ge=1, le=3650, description="Number of UTC days up to today, inclusive.")] = None,
    first: Annotated[date | None, Query(alias="from", description="First UTC day.")] = None,
    last: Annotated[date | None, Query(alias="to", description="Last UTC day.")] = None,
) -> Period:
    if days is not None and (first or last):
        raise Refused(400, "`days` and `from` or `to` name two periods", "send only one of them")
    if first and last and first > last:
        raise Refused(400, f"the period ends on {last}, before it begins", "swap `from` and `to`")
    today = utc_now().date()
    return Period(first, last) if days is None else Period(today - timedelta(days=days - 1), today)


InPeriod = Annotated[Period, Depends(_period)]


@router.get("/report")
async def report(request: Request, period: InPeriod) -> Response:
    """Return the metrics of the standard report on the live run, by default of the whole run. Days of a period:
    newsproof/report/period.py; tables: newsproof/report/data.py."""
    report_data = await _report(backend_of(request), period)
    return as_json({
        "run_id": report_data.run_id,
        "from": period.first,
        "to": period.last,
        "per": {name: per(report_data, name) for name in ("signals", "spend")},
        "horizon_s": report_data.horizon_s,
        "answers": {name: rows for name, rows in report_data.answers.items() if name != "trust"},
        "is_empty": report_data.is_empty,
        "synthetic": bool(report_data.synthetic),
        "without_outcomes": report_data.without_outcomes,
    })  # fmt: skip


@router.get("/report/tables/{name}")
async def report_table(request: Request, name: str, period: InPeriod, format: Format = "json") -> Response:
    """Return one table of the report, as JSON or CSV. `trust`, the data checks, always covers the whole run."""
    if name not in ANSWERS:
        raise Refused(404, f"there is no table {name[:80]!r}", f"ask for one of {', '.join(ANSWERS)}")
    backend = backend_of(request)
    rows = await _trust(backend) if name == "trust" else (await _report(backend, period))[name]
    if format == "csv":
        return csv_file(name, list(rows[0]) if rows else [], rows)
    return as_json({"rows": rows})


@router.get("/report/study")
async def study(request: Request, period: InPeriod, by: Dimension = "verdict", format: Format = "json") -> Response:
    """Return the event study of the live run with its largest groups, or why there is none.

    The JSON is that of `newsproof backtest study --json`.

    As CSV, one line per point of each group."""
    event_study = await _study(backend_of(request), by, period)
    if format == "csv":
        rows = [] if isinstance(event_study, str) else points_of(event_study.study)
        return csv_file(f"study-{by}", POINT_COLUMNS, rows)
    return as_json(
        {"study": None, "why": event_study} if isinstance(event_study, str) else {"study": event_study, "why": ""}
    )


@router.get("/report/charts/study.svg", response_class=Response, responses={200: {"content": {"image/svg+xml": {}}}})
async def study_chart(
    request: Request,
    period: InPeriod,
    theme: Theme = "light",
    size: Size = "wide",
    language: Language = "en",
    by: Dimension = "verdict",
    returns: Returns = "abnormal",
) -> Response:
    """Return the event study as SVG, with a panel for each of its largest groups."""
    event_study = await _study(backend_of(request), by, period)
    if isinstance(event_study, str):
        raise Refused(404, "there is no event study to draw", event_study)
    return _as_svg(in_colours(drawn_study(event_study, returns, canvas(size, language)), theme))


@router.get("/report/charts/{name}.svg", response_class=Response, responses={200: {"content": {"image/svg+xml": {}}}})
async def chart(
    request: Request,
    name: str,
    period: InPeriod,
    theme: Theme = "light",
    size: Size = "wide",
    language: Language = "en",
    horizon_s: Annotated[
        int, Query(ge=0, description="Horizon of the precision chart in seconds. 0: as in the report.")
    ] = 0,
) -> Response:
    """Return a chart of the report as SVG: signals, precision, confidence, reliability, cost or latency."""
    if name not in CHARTS:
        raise Refused(404, f"there is no chart {name[:80]!r}", f"ask for one of {', '.join(CHARTS)}")
    report_data = await _report(backend_of(request), period)
    return _as_svg(in_colours(CHARTS[name](report_data, canvas(size, language), horizon_s), theme))


def _as_svg(svg: str) -> Response:
    headers = {"content-security-policy": SVG_POLICY, "cache-control": "private, max-age=5"}
    return Response(svg, 200, headers, "image/svg+xml")


async def _study(backend: Backend, by: Dimension, period: Period) -> StudyReport | str:
    reading = partial(study_report, backend.reachable_tables(), LIVE_RUN, by=(by,), most=MOST_GROUPS, period=period)
    try:
        return await backend.readings.of(("study", by, period), STUDY_FOR_S, lambda: with_timeout(reading()))
    except ConfigError as exc:
        return str(exc)


async def _report(backend: Backend, period: Period) -> Report:
    tables = backend.reachable_tables()
    reading = partial(read_report, tables, run_id=LIVE_RUN, interval=share_interval, period=period, trust=False)
    return await backend.readings.of(("report", period), REPORT_FOR_S, lambda: with_timeout(reading()))


async def _trust(backend: Backend) -> Rows:
    tables = backend.reachable_tables()

    async def read() -> Rows:
        return (await with_timeout(tables.query(QUESTIONS["trust"], {"run": LIVE_RUN}))).dicts()

    return await backend.readings.of("trust", STUDY_FOR_S, read)


class Statement(StrictBody):
    """One read-only SQL statement."""

    query: str = Field(min_length=1, max_length=20_000)


@router.post("/sql")
async def sql(request: Request, statement: Statement) -> Response:
    """Run one statement as the analyst user, which is read-only and limited.

    `truncated` is true if there are more rows than returned.
    """
    backend = backend_of(request)
    statements = split_statements(statement.query)
    if len(statements) != 1:
        raise Refused(400, f"the text has {len(statements)} statements", "send one statement")
    began = time.monotonic()
    async with held_slot(backend.asking_sql):
        try:
            asking = first_rows(backend.reachable_tables(), statements[0], most=MOST_ROWS, most_bytes=MOST_BYTES)
            result = await unless_disconnected(request, with_timeout(asking))
        except PermanentError as exc:
            raise Refused(
                400, engine_words(exc), "correct the statement; `SHOW TABLES` lists the readable tables"
            ) from exc
    return as_json({
        "columns": [{"name": n, "type": t} for n, t in zip(result.columns, result.types, strict=True)],
        "rows": result.rows,
        "truncated": result.cut,
        "seconds": round(time.monotonic() - began, 3),
    })  # fmt: skip


# Backtests


@router.get("/backtests")
async def backtests(request: Request) -> Response:
    """Return all backtest runs, newest first."""
    return as_json({"items": await with_timeout(read_runs(backend_of(request).reachable_tables()))})


@router.get("/backtests/compare")
async def compare(request: Request, a: RunId, b: RunId) -> Response:
    """Compare two runs; run ID `live` means the live judgements. Keys: docs/verdict.md."""
    backend = backend_of(request)
    async with held_slot(backend.asking_sql):
        try:
            comparing = compare_runs(
                backend.reachable_tables(), a, b, how=Scoring(primary="", cap=backend.settings.profit_cap), record=False
            )
            return as_json(await unless_disconnected(request, with_timeout(comparing)))
        except ConfigError as exc:
            raise Refused(404, str(exc), "choose two runs from /api/v1/backtests that share cases") from exc


@router.get("/backtests/{run_id}")
async def backtest(request: Request, run_id: Annotated[str, Path(max_length=200)]) -> Response:
    """Return one run and the results of its cases."""
    run = await with_timeout(read_run(backend_of(request).reachable_tables(), run_id))
    if run is None:
        raise Refused(404, f"there is no run {run_id!r}", "list the runs with /api/v1/backtests")
    return as_json(run)


Theme = Literal["light", "dark"]
_USED = re.compile(r"var\((--[a-z0-9]+),[^)]*\)")
_SET = re.compile(r"(--[a-z0-9]+):([^;}]+)")
_LIGHT, _DARK = (dict(_SET.findall(part)) for part in STYLE.split("@media"))


Size = Literal["wide", "narrow"]
Language = Literal["en", "zh"]
_TERM = re.compile(r'^  "term\.([^"]+)": ("(?:[^"\\]|\\.)*"),$', re.MULTILINE)


def in_colours(svg: str, theme: Theme) -> str:
    """Return a drawing in a theme's colours."""
    colours = _DARK if theme == "dark" else _LIGHT
    return _USED.sub(lambda used: colours[used.group(1)], svg)


def canvas(size: Size, language: Language) -> Canvas:
    """Return the canvas for a reader of the page. Words without a translation stay in English."""
    on = NARROW if size == "narrow" else WIDE
    return on if language == "en" else msgspec.structs.replace(on, say=_in_chinese)


def _in_chinese(word: str) -> str:
    return _chinese().get(word, word.replace("_", " "))


@lru_cache(maxsize=1)
def _chinese() -> dict[str, str]:
    """Return the page's own terms, so that a chart and the table below it use the same words."""
    texts = resources.files("newsproof.web").joinpath("static/js/texts/zh.js").read_text("utf-8")
    return {name: json.loads(words) for name, words in _TERM.findall(texts)}


PLACE_WITHIN_S = 5.0
"""Maximum wait of a statement for another one to end."""
WITHIN_S = 90.0
T = TypeVar("T")


async def with_timeout(work: Awaitable[T]) -> T:
    """Return ClickHouse's response.

    Raises:
        TransientError: it took longer than ``WITHIN_S``.
    """
    try:
        async with asyncio.timeout(WITHIN_S):
            return await work
    except TimeoutError as exc:
        raise TransientError(
            "ClickHouse did not respond in time: request less data, or try again", kind="timeout"
        ) from exc


@asynccontextmanager
async def held_slot(slots: asyncio.Semaphore) -> AsyncIterator[None]:
    """Hold one of the slots.

    Raises:
        Refused: no slot became free within ``PLACE_WITHIN_S``.
    """
    try:
        async with asyncio.timeout(PLACE_WITHIN_S):
            await slots.acquire()
    except TimeoutError as exc:
        do = "try again when one of them has finished"
        raise Refused(503, "other statements are running", do, retry_after=str(int(PLACE_WITHIN_S))) from exc
    try:
        yield
    finally:
        slots.release()


async def unless_disconnected(request: Request, work: Awaitable[T]) -> T:
    """Return the result of ``work``; cancel it if the client disconnects.

    Raises:
        Refused: the client has disconnected.
    """
    working, gone = asyncio.ensure_future(work), asyncio.ensure_future(left(request.receive))
    try:
        await asyncio.wait({working, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise Refused(499, "the client has disconnected", "send the request again")
        return working.result()
    finally:
        for task in (working, gone):
            task.cancel()
        await asyncio.gather(working, gone, return_exceptions=True)
