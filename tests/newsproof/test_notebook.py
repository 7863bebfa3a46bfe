"""Frames for notebooks: where an event loop runs already and where none does, and what is said when it cannot be done."""

from __future__ import annotations

import asyncio
import os
import re
import signal as signals
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from infra.clickhouse.client import ClickHouse, connect
from newsproof import notebook
from newsproof.app.invocation import Invocation
from newsproof.notebook import compare, outcomes, run, sql
from schemas.errors import ConfigError, PermanentError
from tests.infra.clickhouse.clickhouse_samples import fill_signals, published, signal

PROJECT = Path(__file__).parents[2]
asked: list[tuple[Path | None, bool]] = []
COLUMNS = (
    *("run_id", "case_id", "repeat", "story_id", "status", "has_signal", "asset", "action", "direction", "confidence"),
    *("cost_usd", "signal", "received_at", "knowable_at", "started_at", "version"),
)


@pytest.fixture
async def tables(clickhouse: ClickHouse, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ClickHouse]:
    """Runs v3 and v4 of eight cases, of which v4 is surer; case-0 rose within an hour. A live signal of case-0."""

    @asynccontextmanager
    async def found(invocation: Invocation, *, admin: bool) -> Any:
        asked.append((invocation.data_dir, admin))
        async with connect(clickhouse.address, database=clickhouse.database) as client:
            yield client

    monkeypatch.setattr(notebook, "database", found)
    asked.clear()
    now = datetime.now(UTC).replace(microsecond=0)
    rows: list[tuple[Any, ...]] = []
    for run_id, confidence in (("v3", 0.6), ("v4", 0.8)):
        for n in range(8):
            action = "sell" if (run_id, n) == ("v4", 7) else "buy"
            judged = ("replayed", 1, "BTC", action, "long", confidence, Decimal("0.001"), '{"verdict":"likely"}')
            rows.append((run_id, f"case-{n}", 0, f"story-{n}", *judged, now, now, now, 1))
    await clickhouse.insert("run_cases", COLUMNS, rows)
    times = (now + timedelta(minutes=1), 100.0, now + timedelta(hours=1), 101.0, 0.01)
    columns = (
        "case_id", "horizon_s", "asset", "entry_at", "entry_price", "exit_at", "exit_price", "return", "source",
        "version",
    )  # fmt: skip
    await clickhouse.insert("outcomes", columns, [("case-0", 3600, "BTC", *times, "t", 1)])
    await fill_signals(clickhouse, published(signal(signal_id="s", case_id="case-0")))
    yield clickhouse


async def test_frames_come_back_where_a_loop_runs_already(tables: ClickHouse) -> None:
    cases = run("v4")
    assert isinstance(cases, pd.DataFrame) and len(cases) == 8
    assert set(cases.verdict) == {"likely"} and set(cases.cost_usd) == {Decimal("0.001")}
    assert str(cases.received_at.dt.tz) == "UTC"
    judged = outcomes("v4", horizon_s=3600).set_index("case_id")
    assert judged.standing.value_counts().to_dict() == {"no_outcome": 7, "counted": 1}
    assert (judged.hit["case-0"], judged.directed_return["case-0"]) == (1.0, pytest.approx(0.01))
    assert set(outcomes("v4").horizon_s) == {300, 3600, 14400, 86400}
    assert list(run().case_id) == ["case-0"]  # live
    assert all(admin for _, admin in asked)


async def test_a_comparison_is_the_commands_with_its_tables_as_frames(tables: ClickHouse) -> None:
    found = compare("v3", "v4", seed=3)
    assert (found.a, found.b, found.seed) == ("v3", "v4", 3)
    assert found.verdict == found.comparison.verdict and found.verdict in repr(found)
    assert len(found.metrics) == len(found.comparison.metrics) > 3
    assert list(found.flips.case_id) == ["case-7"]
    assert list(found.flips.action_b) == ["sell"]
    assert len(found.spend) == 2
    assert len(found.verdict_flips) == 0 and "verdict_a" in found.verdict_flips.columns
    assert {"metrics", "verdict"} <= set(dir(found))
    with pytest.raises(AttributeError, match="a comparison has no 'metric'"):
        _ = found.metric
    with pytest.raises(ConfigError, match="v5"):
        compare("v3", "v5")


async def test_queries_are_asked_as_who_can_only_read(tables: ClickHouse) -> None:
    rows = sql("SELECT {n:UInt8} AS n, now() AS t", {"n": 7}, data_dir="somewhere")
    assert list(rows.n) == [7] and str(rows.t.dtype).startswith("datetime64")
    assert asked == [(Path("somewhere"), False)]
    with pytest.raises(PermanentError, match="no such table"):
        sql("SELECT * FROM nothing")


async def test_frames_of_other_libraries(tables: ClickHouse, monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(run("v4", frames="arrow"), pa.Table)
    assert compare("v3", "v4", frames="arrow").flips["case_id"].to_pylist() == ["case-7"]
    asked.clear()
    monkeypatch.setitem(sys.modules, "polars", None)  # not installed
    with pytest.raises(ConfigError, match="needs polars, which is not installed here: pip install polars"):
        run("v4", frames="polars")
    with pytest.raises(ConfigError, match="say pandas, polars, arrow"):
        run("v4", frames="excel")  # type: ignore[arg-type]
    assert asked == []  # nothing was started for it


async def test_a_run_that_does_not_exist_is_told_from_one_without_such_rows(tables: ClickHouse) -> None:
    with pytest.raises(ConfigError, match="there is no run 'v5': there are live, v3, v4"):
        run("v5")
    with pytest.raises(ConfigError, match="run 'v3' has no such rows: ask for another horizon_s"):
        outcomes("v3", horizon_s=7)


@pytest.mark.parametrize("wakes_another_thread", [False, True])
def test_an_interrupt_cancels_the_work_and_waits_until_it_has_cleaned_up(wakes_another_thread: bool) -> None:
    cleaned = []

    async def work() -> None:
        try:
            if wakes_another_thread:
                signals.pthread_kill(threading.get_ident(), signals.SIGINT)
            else:
                os.kill(os.getpid(), signals.SIGINT)
            await asyncio.Event().wait()
        finally:
            cleaned.append(True)

    with pytest.raises(KeyboardInterrupt):
        notebook._in_a_loop_of_its_own(work())
    assert cleaned == [True]


def test_it_works_where_no_loop_runs() -> None:
    async def work() -> int:
        return 7

    assert notebook._in_a_loop_of_its_own(work()) == 7


async def test_the_pages_example_runs(tables: ClickHouse, capsys: pytest.CaptureFixture[str]) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", (PROJECT / "docs" / "notebook.md").read_text("utf-8"), re.DOTALL)
    exec(compile(example, "docs/notebook.md", "exec"), {})
    said = capsys.readouterr().out
    assert "100% of 1 orders were hits" in said and "case-7" in said
