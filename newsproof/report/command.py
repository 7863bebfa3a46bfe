"""``newsproof report``: reads the figures as the analysts' user, prints them and writes the page."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path

from infra.clickhouse.client import ClickHouse
from newsproof.app.data_access import database
from newsproof.app.invocation import Invocation, json_line
from newsproof.app.servers import say_on_stderr
from newsproof.report.answers import Interval
from newsproof.report.data import read_report
from newsproof.report.page import page_of
from newsproof.report.terminal import print_report_of
from schemas.errors import ConfigError

Section = Callable[[ClickHouse, str], Awaitable[str]]
"""Makes a further section of the page, as HTML, from the tables and a run id."""


async def report_on(
    invocation: Invocation, *, run_id: str, html: Path | None, as_json: bool, study: Section, interval: Interval
) -> None:
    """Print the report on one run; write the page, with its event study, if ``html`` names a file.

    Raises:
        ConfigError: the page cannot be written.
        PermanentError: ClickHouse refuses a query.
    """
    async with database(invocation, admin=False) as tables:
        report = await read_report(tables, run_id=run_id, interval=interval)
        more = await study(tables, run_id) if html is not None else ""
    if as_json:
        json_line(report)
    else:
        print_report_of(report)
    if html is not None:
        _write(html, page_of(report, written_at=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"), more=more))
        say_on_stderr(f"Wrote {html}: open it in a browser.")


def _write(file: Path, page: str) -> None:
    try:
        file.write_text(page, "utf-8")
    except OSError as exc:
        raise ConfigError(f"{file} cannot be written: {exc}") from exc
