"""ClickHouse requests of the Analytics page, made one after another, each for the first time: 500 and 50,000 cases.

The tables hold the sink's rows of the sample log, copied under new ids over 180 days as live news, with five-minute
bars for every asset and the outcomes computed from them. Kafka is not used during the measurement.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx
import numpy as np
import psutil
from fastapi import FastAPI

from infra.clickhouse.client import Address, ClickHouse, connect
from infra.clickhouse.columns import COLUMNS
from infra.clickhouse.migrate import migrate
from infra.clickhouse.record import epoch_ms
from infra.embedded.clickhouse.server import EmbeddedClickHouse
from infra.market.outcomes.bars import PriceImport, standing_imports, write_bars, write_import
from infra.market.outcomes.tables import compute, judged_cases, keep
from infra.settings import Settings
from lab.backtest.selftest import offline_settings
from lab.bench.measures import Figure
from lab.bench.sink import sunk, write_journal
from lab.bench.world import world
from newsproof.report.report_charts import CHARTS
from newsproof.web.api import analytics as api
from newsproof.web.backend import Backend
from newsproof.web.pages import wrong_address
from newsproof.web.responses import answer_errors
from schemas.prices import HORIZONS_S, PriceSeries

SIZES = {500: 1.0, 50_000: 3.0}
"""Number of cases → maximum seconds of each request."""
DAYS = 180
BAR_MS = 300_000
DATABASE = "newsproof"
ASKED = (
    *(
        "report",
        *(f"report/charts/{name}.svg" for name in CHARTS),
        "report/study",
        "report/charts/study.svg",
        "report/tables/trust",
    ),
    *("report?days=30", "report/study?by=source"),
)
"""First the page's own requests, each after the previous response; then those of a reader's choices."""


class _TablesBackend(Backend):
    """The components behind the routes. These routes use only the tables."""

    def reachable_tables(self) -> ClickHouse:
        assert self.tables is not None
        return self.tables


async def analytics(sizes: Sequence[int] = tuple(SIZES)) -> list[Figure]:
    """Time every request of the page on tables of each size. The engine and this process are the same for all."""
    figures = []
    for cases in sizes:
        with TemporaryDirectory(prefix="newsproof-bench-") as directory:
            async with EmbeddedClickHouse(Path(directory) / "clickhouse") as engine:
                address = Address(host=engine.host, port=engine.port)
                async with connect(address, database=DATABASE) as client:
                    held = await filled(client, cases)
                settings = offline_settings(Path(directory), max_open_cases=100).model_copy(update={
                    "clickhouse_url": f"http://default@{engine.host}:{engine.port}", "clickhouse_database": DATABASE,
                    "kafka_bootstrap_servers": "127.0.0.1:1",
                })  # fmt: skip
                figures += await _timed(settings, engine.pid, held, SIZES.get(cases, 0.0))
    return figures


async def _timed(settings: Settings, pid: int, cases: int, within_s: float) -> list[Figure]:
    figures, spent = [], 0.0
    backend = _TablesBackend(settings)
    app = FastAPI()
    app.state.backend = backend
    answer_errors(app, wrong_address)
    app.include_router(api.router)
    assert backend.tables is not None
    async with backend.tables, httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://page") as http:
        for path in ASKED:
            began, before = time.perf_counter(), _cpu_s(pid)
            answer = await http.get(f"/api/v1/{path}", timeout=120)
            answer.raise_for_status()
            took, cpu = time.perf_counter() - began, _cpu_s(pid) - before
            spent += took
            figures.append(
                Figure(name=f"analytics: {path} of {cases:,} cases", value=took, unit="s", target=f"<= {within_s:g}",
                       baseline=f"{cpu:.2f} s of processor time, ours and the engine's")
            )  # fmt: skip
    return [*figures, Figure(name=f"analytics: all of {cases:,} cases", value=spent, unit="s", target="-")]


async def filled(client: ClickHouse, cases: int) -> int:
    """Fill the tables with at least this many cases, and return their number."""
    await migrate(client)
    async with world() as w:
        await write_journal(w, 1)
        await sunk(w, client)
    once = int((await client.query("SELECT uniqExact(case_id) FROM events")).rows[0][0])
    copies = -(-cases // once)
    for table in COLUMNS:
        await _copy(client, table, copies)
    await _prices(client)
    return copies * once


async def _copy(client: ClickHouse, table: str, copies: int) -> None:
    """Make ``copies`` of the table's rows, spread over ``DAYS``, all as live news."""
    described = [name for name, *_ in (await client.query(f"DESCRIBE TABLE {table}")).rows if name in COLUMNS[table]]
    made = {name: f"{name} || toString(n)" for name in ("case_id", "signal_id") if name in described}
    made |= {
        name: f"if({name} = '', '', {name} || toString(n))"
        for name in ("event_id", "causation_id", "cause_id", "request_hash", "external_id")
        if name in described
    }
    times = {"event_time", "appended_at", "as_of", "started_at", "decided_at", "emitted_at", "opened_at"} & {*described}
    made |= {name: f"{name} - toIntervalSecond(n * {DAYS * 86_400 // copies})" for name in times}
    first = "event_time" if table == "events" else "decided_at"
    if "knowable_at" in described:
        known = f"{first} - toIntervalSecond(n * {DAYS * 86_400 // copies})"
        made["knowable_at"] = f"if(knowable_at IS NULL, NULL, {known})" if table == "events" else known
    if "live" in described:
        made["live"] = "if(live IS NULL, NULL, true)"
    values = ", ".join(made.get(name, name) for name in described)
    await client.command(f"RENAME TABLE {table} TO {table}_once")
    await client.command(f"CREATE TABLE {table} AS {table}_once")
    await client.command(
        f"INSERT INTO {table} ({', '.join(described)}) SELECT {values} FROM {table}_once "
        f"CROSS JOIN (SELECT number AS n FROM numbers({copies})) AS copies SETTINGS max_partitions_per_insert_block = 0"
    )
    await client.command(f"DROP TABLE {table}_once")


async def _prices(client: ClickHouse) -> None:
    """Write bars of every asset around all signals, and the outcomes."""
    result = await client.query("SELECT min(emitted_at), max(emitted_at), groupUniqArray(asset) FROM signals")
    first, last, assets = result.rows[0]
    begin, end = epoch_ms(first) - 40 * 86_400_000, epoch_ms(last) + 2 * 86_400_000
    times = list(range(begin // BAR_MS * BAR_MS, end, BAR_MS))
    random = np.random.default_rng(7)
    series = []
    for asset in sorted({*assets, "BTC"} - {""}):
        path = (100 * np.exp(np.cumsum(random.normal(0, 0.0015, len(times))))).tolist()
        columns = {"highs": path, "lows": path, "closes": path, "volumes": [1.0] * len(path)}
        series.append(PriceSeries(symbol=f"{asset}/USDT", venue="", times_ms=times, opens=path, **columns))
    await write_bars(client, 1, series)
    now = epoch_ms(datetime.now(UTC) + timedelta(days=40))
    await write_import(client, PriceImport(
        version=1, source="synthetic:bench", imported_ms=now, bars=len(series) * len(times),
        markets=tuple(market.symbol for market in series), covers=((begin, end),), entry_within_s=900.0, horizons_s=HORIZONS_S,
    ))  # fmt: skip
    computed = await compute(client, await standing_imports(client), await judged_cases(client), now_ms=now)
    await keep(client, computed)


def _cpu_s(pid: int) -> float:
    engine = psutil.Process(pid).cpu_times()
    return float(time.process_time() + engine.user + engine.system)
