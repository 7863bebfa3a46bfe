"""`newsproof outcomes`: from a file of prices to the tables, what is told of it, and what is refused before anything is written."""

from __future__ import annotations

import re
from contextlib import asynccontextmanager
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from infra.clickhouse.client import ClickHouse
from infra.market.outcomes.csv_bars import PriceFile, read_bars
from newsproof.app.invocation import Invocation
from newsproof.cli.data import outcomes
from newsproof.cli.data.outcomes import CaseSelection, ImportReport, import_file
from newsproof.cli.main import app
from schemas.errors import ConfigError, ContractError
from tests.infra.clickhouse.clickhouse_samples import NOW, fill_signals, published, seconds, signal

pytest_plugins = ["tests.infra.embedded.clickhouse_engine"]

CHECKOUT = Path(__file__).parents[3]
HEADER = "timestamp,symbol,open,high,low,close,volume\n"


@pytest.fixture
async def tables(clickhouse: ClickHouse, monkeypatch: pytest.MonkeyPatch) -> ClickHouse:
    """The tables that the command finds, with three signals: on BTC, on ETH, and on what is no ticker."""

    @asynccontextmanager
    async def found(_: Invocation) -> Any:
        yield clickhouse

    monkeypatch.setattr(outcomes, "_tables", found)
    at = NOW - seconds(60)
    for case, asset in (("b", "BTC"), ("e", "ETH"), ("n", "crypto")):
        of = signal(signal_id=case, case_id=case, asset=asset, action="buy", direction="long", published_at=at)
        await fill_signals(clickhouse, published(of))
    return clickhouse


def prices(directory: Path, *bars: tuple[float, str, float], name: str = "p.csv") -> PriceFile:
    """``bars``: seconds after NOW, symbol, price."""
    rows = [f"{(NOW + seconds(s)).isoformat()},{symbol},{p},{p},{p},{p},1\n" for s, symbol, p in bars]
    path = directory / name
    path.write_text(HEADER + "".join(rows), "utf-8")
    return read_bars(path)


DAY = ((-61, 1.0), (0, 100.0), (300, 101.0), (3600, 99.0), (14400, 110.0), (86400, 120.0))
"""A planted price a second before the news was knowable, the entry a minute after it, an exit for each horizon."""


def day(symbol: str, times: float = 1.0) -> tuple[tuple[float, str, float], ...]:
    return tuple((s, symbol, p * times) for s, p in DAY)


async def kept(
    client: ClickHouse, table: str = "outcomes", columns: str = "case_id, horizon_s, round(return, 6)"
) -> list[Any]:
    return (await client.query(f"SELECT {columns} FROM {table} FINAL ORDER BY case_id, horizon_s")).rows


async def test_a_file_becomes_outcomes_entered_at_the_first_price_once_the_news_was_knowable(
    tables: ClickHouse, tmp_path: Path
) -> None:
    report = await import_file(Invocation(), prices(tmp_path, *day("BTC/USDT")), CaseSelection())
    # Were the planted price of 1 the entry, the first return would be 100.
    assert await kept(tables) == [("b", 300, 0.01), ("b", 3600, -0.01), ("b", 14400, 0.1), ("b", 86400, 0.2)]
    entries = await tables.query("SELECT DISTINCT entry_at, entry_price, source FROM outcomes FINAL")
    assert entries.rows == [(NOW, 100.0, "csv:p.csv")]
    first = report.horizons[0]
    assert (first.signals, first.outcomes, first.dropped) == (3, 1, {"no_symbol": 2})
    assert first.dropped_share == pytest.approx(2 / 3)
    assert report.not_mapped == {"ETH": 1, "crypto": 1}
    assert report.coverage["5m"] == {"counted": 1, "no_symbol": 2}


async def test_importing_twice_changes_nothing_and_a_later_file_corrects_an_earlier_one(
    tables: ClickHouse, tmp_path: Path
) -> None:
    await import_file(Invocation(), prices(tmp_path, *day("BTC/USDT")), CaseSelection())
    before = await kept(tables)
    await import_file(Invocation(), prices(tmp_path, *day("BTC/USDT")), CaseSelection())
    assert await kept(tables) == before
    corrected = prices(tmp_path, (0, "BTC/USDT", 100.0), (300, "BTC/USDT", 90.0))
    await import_file(Invocation(), corrected, CaseSelection())
    assert (await kept(tables))[0] == ("b", 300, -0.1)


async def test_a_file_of_another_market_hides_no_reason_that_an_earlier_one_gave(
    tables: ClickHouse, tmp_path: Path
) -> None:
    holed = prices(tmp_path, (-4000, "BTC/USDT", 1.0), (4000, "BTC/USDT", 1.0))
    await import_file(Invocation(), holed, CaseSelection())
    report = await import_file(Invocation(), prices(tmp_path, *day("ETH/USD"), name="eth.csv"), CaseSelection())
    assert report.coverage["5m"] == {"counted": 1, "gap": 1, "no_symbol": 1}
    reasons = await kept(tables, "outcome_drops", "case_id, horizon_s, reason")
    assert ("b", 300, "gap") in reasons and ("n", 300, "no_symbol") in reasons


async def test_only_cases_of_the_time_asked_for_are_measured(tables: ClickHouse, tmp_path: Path) -> None:
    wanted = CaseSelection(since=NOW)
    report = await import_file(Invocation(), prices(tmp_path, *day("BTC/USDT")), wanted)
    assert (report.horizons[0].signals, await kept(tables)) == (0, [])


async def test_a_source_can_be_forgotten(tables: ClickHouse, tmp_path: Path) -> None:
    await import_file(Invocation(), prices(tmp_path, *day("BTC/USDT")), CaseSelection())
    await import_file(Invocation(), prices(tmp_path, *day("ETH/USDT"), name="eth.csv"), CaseSelection())
    assert await outcomes.remove(Invocation(), "csv:p.csv") == 4
    assert {row[0] for row in await kept(tables)} == {"e"}


async def test_the_windows_asked_of_an_exchange_are_those_of_its_cases_and_touching_ones_are_one() -> None:
    from schemas.prices import JudgedCase

    def case(asset: str, at_ms: int) -> JudgedCase:
        return JudgedCase(case_id=f"{at_ms}", asset=asset, symbol="", venue="", knowable_at_ms=at_ms)

    length = round((86400 * 1.1 + 900) * 1000)
    cases = [case("BTC", 10**9), case("ETH", 5), case("BTC", 0), case("BTC", length)]
    found = outcomes._windows(cases, "BTCUSDT", CaseSelection())
    assert found == [(0, 2 * length), (10**9, 10**9 + length)]


def refused(*arguments: str) -> BaseException:
    done = CliRunner().invoke(app, ["outcomes", "import", *arguments])
    assert done.exception is not None
    return done.exception


def test_a_wrong_file_is_refused_before_any_server_is_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outcomes, "_tables", lambda _: pytest.fail("nothing may be opened"))
    (tmp_path / "bad.csv").write_text(HEADER + "2024-01-01,BTC/USDT,1,1,1,1,1\nnow,BTC/USDT,1,1,1,1,1\n")
    told = refused(str(tmp_path / "bad.csv"))
    assert isinstance(told, ContractError) and "line 3" in str(told)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((), "say where prices come from"),
        (("x.csv", "--sample"), "one of them"),
        (("--exchange", "binance"), "needs --symbol"),
        (("--sample", "--from", "yesterday"), "--from 'yesterday' is no time"),
        (("--sample", "--map", "UST"), "ASSET=BASE/QUOTE"),
        (("none.csv", "--symbol", "BTC/USDT", "--symbol", "ETH/USDT"), "give --symbol once"),
    ],
)
def test_a_command_that_does_not_say_enough_is_told_what_to_write(arguments: tuple[str, ...], says: str) -> None:
    told = refused(*arguments)
    assert isinstance(told, ConfigError) and says in str(told)


def test_the_report_names_what_was_dropped_and_what_could_not_be_mapped(capsys: pytest.CaptureFixture[str]) -> None:
    at = outcomes.AtHorizon(horizon="5m", signals=4, outcomes=3, dropped={"gap": 1}, dropped_share=0.25)
    report = ImportReport(
        source="csv:p.csv",
        bars=7,
        markets=("BTC/USDT",),
        horizons=(at,),
        not_mapped={"crypto": 2},
        coverage={"5m": {"neutral": 1, "counted": 2}},
    )
    outcomes.print_import(report)
    printed = capsys.readouterr().out
    assert "7 bars of BTC/USDT from csv:p.csv" in printed
    assert "25.0%" in printed and "crypto (2)" in printed


async def test_every_statement_of_the_page_is_answered_and_every_question_has_one(clickhouse: ClickHouse) -> None:
    spec = spec_from_file_location("sql_page", CHECKOUT / "docs" / "sql.py")
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    page = (CHECKOUT / "docs" / "sql.md").read_text("utf-8")
    questions = re.split(r"^## (\d+)\. ", page, flags=re.MULTILINE)
    assert [int(n) for n in questions[1::2]] == list(range(1, 11))
    for text in questions[2::2]:
        assert module.statements(text)
    assert len(module.statements(page)) == page.count("./run sql ")
    for statement in module.statements(page):
        await clickhouse.query(statement)
