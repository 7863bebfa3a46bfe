"""`newsproof outcomes`: from a file of prices to the tables, what is told of it, and what is refused before anything is written."""

from __future__ import annotations

import re
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner

from evaluation.compare import compare_runs
from infra.clickhouse.client import ClickHouse
from infra.market.outcomes.bar_files import PriceFile, read_bars
from infra.market.outcomes.bars import Overlap, delete_left_over, overlaps, standing_imports, write_bars
from infra.market.outcomes.markets import renaming
from newsproof.app.invocation import Invocation
from newsproof.cli.main import app
from newsproof.cli.measure import outcomes, price_imports
from newsproof.cli.measure.price_imports import (
    CaseSelection,
    Changes,
    ImportReport,
    Preview,
    import_file,
    import_from_exchange,
)
from schemas.errors import ConfigError, ContractError, TransientError
from schemas.events import EventReceived
from schemas.news import News
from tests.infra.clickhouse.clickhouse_samples import NOW, fill, fill_signals, published, record, seconds, signal
from tests.infra.market.test_outcome_exchange import START, Binance

CHECKOUT = Path(__file__).parents[3]
HEADER = "timestamp,symbol,open,high,low,close,volume\n"


@pytest.fixture
async def tables(clickhouse: ClickHouse, monkeypatch: pytest.MonkeyPatch) -> ClickHouse:
    """The tables that the command finds, with three signals: on BTC, on ETH, and on what is no ticker."""

    @asynccontextmanager
    async def found(_: Invocation) -> Any:
        yield clickhouse

    monkeypatch.setattr(price_imports, "_tables", found)
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


DAY = ((-61, 2.0), (0, 100.0), (300, 101.0), (3600, 99.0), (14400, 110.0), (86400, 120.0))
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
    # Were the planted price of 2 the entry, the first return would be 49.
    assert await kept(tables) == [("b", 300, 0.01), ("b", 3600, -0.01), ("b", 14400, 0.1), ("b", 86400, 0.2)]
    entries = await tables.query("SELECT DISTINCT entry_at, entry_price, source FROM outcomes FINAL")
    assert entries.rows == [(NOW, 100.0, "csv:p.csv")]
    first = report.horizons[0]
    assert (first.signals, first.outcomes, first.dropped) == (3, 1, {"no_symbol": 2})
    assert first.dropped_share == pytest.approx(2 / 3)
    assert report.not_mapped == {"ETH": 1, "crypto": 1}
    assert report.coverage["5m"] == {"counted": 1, "no_symbol": 2}


async def test_a_file_that_stands_is_not_imported_again_unless_a_later_one_corrects_it(
    tables: ClickHouse, tmp_path: Path
) -> None:
    await import_file(Invocation(), prices(tmp_path, *day("BTC/USDT")), CaseSelection())
    before = await kept(tables)
    again = await import_file(Invocation(), prices(tmp_path, *day("BTC/USDT")), CaseSelection())
    assert (again.version, again.already, await kept(tables)) == (1, True, before)
    assert [row[0] for row in (await tables.query("SELECT DISTINCT version FROM bars")).rows] == [1]
    corrected = prices(tmp_path, (0, "BTC/USDT", 100.0), (300, "BTC/USDT", 90.0))
    assert not (await import_file(Invocation(), corrected, CaseSelection())).already
    assert (await kept(tables))[0] == ("b", 300, -0.1)
    back = await import_file(Invocation(), prices(tmp_path, *day("BTC/USDT")), CaseSelection())
    assert (back.version, back.already, await kept(tables)) == (3, False, before)


async def test_bars_of_a_killed_import_go_with_the_next_one_and_two_of_one_number_are_refused(
    tables: ClickHouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed = prices(tmp_path, *day("ETH/USD"))
    await write_bars(tables, 7, killed.series)
    report = await import_file(Invocation(), prices(tmp_path, *day("BTC/USDT")), CaseSelection())
    count = "SELECT version, count() FROM bars GROUP BY version"
    assert (await tables.query(count)).rows == [(report.version, len(DAY))] == [(1, len(DAY))]

    async def both(client: ClickHouse, version: int, series: Any) -> None:
        await write_bars(client, version, series)
        await write_bars(client, version, killed.series)

    monkeypatch.setattr(price_imports, "write_bars", both)
    with pytest.raises(TransientError, match="another process changes the imported prices"):
        await import_file(Invocation(), prices(tmp_path, *day("SOL/USDT")), CaseSelection())
    assert (await tables.query(count)).rows == [(1, len(DAY))]


@pytest.mark.parametrize("taken", [False, True], ids=["deleted", "and its number taken"])
async def test_an_import_whose_bars_another_machine_deletes_meanwhile_does_not_stand(
    tables: ClickHouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, taken: bool
) -> None:
    other = prices(tmp_path, *day("ETH/USD"), name="other.csv")

    async def meanwhile(client: ClickHouse, *args: Any, **how: Any) -> Any:
        monkeypatch.undo()
        monkeypatch.setattr(price_imports, "_tables", found)
        await delete_left_over(client)
        if taken:
            assert (await import_file(Invocation(), other, CaseSelection())).version == 1
        return await overlaps(client, *args, **how)

    found = price_imports._tables
    monkeypatch.setattr(price_imports, "overlaps", meanwhile)
    with pytest.raises(TransientError, match="nothing was imported: import again"):
        await import_file(Invocation(), prices(tmp_path, *day("SOL/USDT")), CaseSelection())
    stand = [(one.version, one.source) for one in await standing_imports(tables)]
    assert stand == ([(1, other.source)] if taken else [])
    assert (await tables.query("SELECT DISTINCT symbol FROM bars")).rows == ([("ETH/USD",)] if taken else [])


async def test_the_imports_that_stand_are_listed_and_one_command_changes_them_at_a_time(
    clickhouse: ClickHouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    @asynccontextmanager
    async def found(_: Invocation, *, admin: bool) -> Any:
        yield clickhouse

    monkeypatch.setattr(price_imports, "database", found)
    monkeypatch.setenv("NEWSPROOF_DATA_DIR", str(tmp_path))
    outcomes.print_imports(await price_imports.active_imports(Invocation()))
    assert "No prices imported" in capsys.readouterr().out
    mapped = CaseSelection(renamed=(renaming("UST=USTC/USDT"),), horizons_s=(300,))
    await import_file(Invocation(), prices(tmp_path, *day("BTC/USDT")), mapped)
    (one,) = await price_imports.active_imports(Invocation())
    assert (one.version, one.source, one.bars, one.markets) == (1, "csv:p.csv", 6, ("BTC/USDT",))
    assert (one.horizons, one.maps, one.from_at) == (
        ("5m",),
        ("UST=USTC/USDT",),
        f"{NOW - seconds(61):%Y-%m-%dT%H:%M:%SZ}",
    )
    async with price_imports._tables(Invocation()):
        with pytest.raises(ConfigError, match="`newsproof outcomes` already runs on"):
            await price_imports.compute_again(Invocation())


async def test_removing_an_import_brings_back_what_it_hid_and_says_what_changed(
    tables: ClickHouse, tmp_path: Path
) -> None:
    await import_file(Invocation(), prices(tmp_path, *day("BTC/USDT")), CaseSelection())
    before = await kept(tables, columns="* EXCEPT (version, ingested_at)")
    shifted = prices(tmp_path, *((s, symbol, p + 1) for s, symbol, p in day("BTC/USDT")), name="shifted.csv")
    newer = await import_file(Invocation(), shifted, CaseSelection())
    assert (newer.changes.known, newer.changes.moved, newer.changes.beyond) == (4, 4, 0)
    assert await kept(tables, columns="* EXCEPT (version, ingested_at)") != before
    found = await price_imports.remove_imports(Invocation(), "csv:shifted.csv", changed_by=0.001)
    assert (found.versions, found.bars, found.standing) == ((2,), 6, ("csv:p.csv",))
    # The returns of shifted.csv are 101/100 … of what p.csv says: 0.0099, -0.0099, 0.0990, 0.1980 beside 0.01, -0.01, 0.1, 0.2.
    assert (found.changes.known, found.changes.gone, found.changes.moved, found.changes.beyond) == (4, 0, 4, 1)
    assert await kept(tables, columns="* EXCEPT (version, ingested_at)") == before
    assert (await tables.query("SELECT count(), max(version) FROM bars")).rows == [(6, 1)]


async def test_an_import_is_removed_by_its_number_too_and_one_that_is_not_there_is_told_with_those_that_are(
    tables: ClickHouse, tmp_path: Path
) -> None:
    for times in (1, 2):
        await import_file(Invocation(), prices(tmp_path, *day("BTC/USDT", times)), CaseSelection())
    with pytest.raises(ConfigError, match=r"there is no import '7': .* \(1 csv:p.csv, 2 csv:p.csv\)"):
        await price_imports.remove_imports(Invocation(), "7")
    assert (await price_imports.remove_imports(Invocation(), "1")).versions == (1,)
    assert len(await kept(tables)) == 4
    await import_file(Invocation(), prices(tmp_path, *day("BTC/USDT")), CaseSelection())
    assert (await price_imports.remove_imports(Invocation(), "csv:p.csv")).versions == (2, 3)
    assert await kept(tables) == await kept(tables, "outcome_drops", "case_id, horizon_s, reason") == []
    await import_file(Invocation(), prices(tmp_path, *day("BTC/USDT")), CaseSelection())
    assert len(await kept(tables, "outcome_drops", "case_id, horizon_s, reason")) == 8, (
        "rows that come back as they were are no repetition"
    )


async def test_what_an_import_changes_is_told_before_it_counts(tables: ClickHouse, tmp_path: Path) -> None:
    await import_file(Invocation(), prices(tmp_path, *day("BTC/USDT")), CaseSelection())
    other = prices(tmp_path, (0, "BTC/USDT", 100.0), (300, "BTC/USDT", 102.5), (3600, "BTC/USDT", 99.5), name="o.csv")

    class StopError(Exception):
        pass

    def stop(preview: Preview) -> None:
        assert preview.changes == Changes(known=4, new=0, gone=0, moved=2, beyond=1, gone_before_bars={})
        (one,) = preview.overlaps
        assert (one.version, one.source, one.market, one.bars, one.beyond) == (1, "csv:p.csv", "BTC/USDT", 3, 1)
        assert one.largest == pytest.approx(102.5 / 101 - 1) and one.median == pytest.approx(0.5 / 99)
        raise StopError

    before = await kept(tables)
    with pytest.raises(StopError):
        await import_file(Invocation(), other, CaseSelection(), tell=stop)
    assert await kept(tables) == before
    assert (await tables.query("SELECT count() FROM bars WHERE version = 2")).rows == [(0,)]
    report = await import_file(Invocation(), other, CaseSelection())
    assert report.changes.beyond == 1
    assert (await kept(tables))[:2] == [("b", 300, 0.025), ("b", 3600, -0.005)]


async def test_invented_prices_are_not_mixed_with_others_in_one_market(tables: ClickHouse, tmp_path: Path) -> None:
    real = prices(tmp_path, *day("BTC/USDT"))
    invented = msgspec.structs.replace(real, source="synthetic:s.csv")
    await import_file(Invocation(), invented, CaseSelection())
    with pytest.raises(ConfigError, match=r"newsproof outcomes remove synthetic:s.csv"):
        await import_file(Invocation(), real, CaseSelection())
    await import_file(Invocation(), prices(tmp_path, *day("ETH/USDT"), name="eth.csv"), CaseSelection())
    await price_imports.remove_imports(Invocation(), "synthetic:s.csv")
    await import_file(Invocation(), real, CaseSelection())
    with pytest.raises(ConfigError, match=r"newsproof outcomes remove csv:p.csv"):
        await import_file(Invocation(), invented, CaseSelection())


async def test_outcomes_from_before_prices_were_kept_go_and_are_named(tables: ClickHouse, tmp_path: Path) -> None:
    old = {"case_id": "old", "horizon_s": 300, "entry_at": NOW, "source": "csv:old.csv", "version": 9}
    await tables.insert("outcomes", tuple(old), [tuple(old.values())])
    report = await import_file(Invocation(), prices(tmp_path, *day("BTC/USDT")), CaseSelection())
    assert (report.changes.gone, report.changes.gone_before_bars) == (1, {"csv:old.csv": 1})
    assert {row[0] for row in await kept(tables)} == {"b"}


async def test_a_signal_that_came_after_the_import_is_measured_by_computing_again(
    tables: ClickHouse, tmp_path: Path
) -> None:
    await import_file(Invocation(), prices(tmp_path, *day("BTC/USDT")), CaseSelection())
    at = NOW - seconds(60)
    await fill_signals(tables, published(signal(signal_id="l", case_id="l", asset="BTC", published_at=at)))
    assert (await price_imports.compute_again(Invocation())).new == 4
    assert {row[0] for row in await kept(tables)} == {"b", "l"}


async def test_a_live_signal_enters_when_it_was_emitted_and_looks_at_its_own_horizon(
    tables: ClickHouse, tmp_path: Path
) -> None:
    said = signal(signal_id="b", case_id="b", asset="BTC", action="buy", direction="long", horizon=7200, revision=2)
    await fill_signals(tables, published(said, emitted_at=NOW + seconds(1)))
    heard = News(source="s", text="t", published_at=NOW - seconds(60), received_at=NOW - seconds(30))
    await fill(tables, [record(EventReceived(news=heard, config_hash="", text_hash="", language="en"), case="b")])
    bars = [(s, "BTC/USDT", p) for s, p in ((0, 50.0), (2, 100.0), (302, 101.0), (7202, 104.0))]
    report = await import_file(Invocation(), prices(tmp_path, *bars), CaseSelection(horizons_s=(300,)))
    assert await kept(tables) == [("b", 300, 0.01), ("b", 7200, 0.04)]
    assert [at.horizon for at in report.horizons] == ["5m", "1h", "2h"]  # 1h: the other signals' own
    checks = dict((await tables.query("SELECT check, violations FROM v_trust_checks WHERE run_id = 'live'")).rows)
    assert (checks["entry_before_emitted"], checks["entry_before_knowable"]) == (0, 0)


@pytest.mark.parametrize(("written", "seconds_"), [("7d,5m, 1H,90s", (90, 300, 3600, 604_800)), ("24h", (86_400,))])
def test_horizons_are_read_in_any_order(written: str, seconds_: tuple[int, ...]) -> None:
    assert price_imports.horizon_seconds(written) == seconds_


@pytest.mark.parametrize(("option", "cap", "horizons"), [(True, 0.5, (60,)), (False, 0.1, (7200,))])
def test_an_option_goes_before_the_setting(
    option: bool, cap: float, horizons: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PROFIT_CAP", "0.1")
    monkeypatch.setenv("OUTCOME_HORIZONS", "2h")
    asked: list[Any] = []

    async def seen(*_: Any, **given: Any) -> Any:
        asked.append(given["how"].cap)
        raise ConfigError("seen")

    async def imported(_invocation: Any, _prices: Any, wanted: CaseSelection, **_: Any) -> Any:
        asked.append(wanted.horizons_s)
        raise ConfigError("seen")

    monkeypatch.setattr(compare_runs, "read_comparison", seen)
    monkeypatch.setattr(price_imports, "import_file", imported)
    compared = ["backtest", "compare", "a", "b", *(("--cap", "0.5") if option else ())]
    assert str(CliRunner().invoke(app, compared).exception) == "seen"
    assert str(refused("--sample", *(("--horizons", "1m") if option else ()))) == "seen"
    assert asked == [cap, horizons]


def test_a_horizon_is_named_in_the_largest_unit_that_it_is_a_whole_number_of() -> None:
    names = {90: "90s", 300: "5m", 3600: "1h", 86_400: "24h", 172_800: "2d", 604_800: "7d"}
    assert {seconds: price_imports.span_name(seconds) for seconds in names} == names


@pytest.mark.slow
async def test_a_market_that_an_exchange_closed_is_halted_for_good_and_other_times_are_not_asked_for(
    tables: ClickHouse,
) -> None:
    binance = Binance(halted=range(20, 100_000))  # its last bar opens at 95 minutes
    at = datetime.fromtimestamp(START / 1000, UTC)
    said = {"asset": "BTC", "action": "buy", "direction": "long"}
    await fill_signals(
        tables,
        *(
            published(signal(signal_id=c, case_id=c, published_at=when, **said))
            for c, when in (("x", at), ("y", at - seconds(864_000)))
        ),
    )
    server = await binance.server()
    try:
        chosen = CaseSelection(since=at - seconds(60), until=at + seconds(60), horizons_s=(300, 14_400))
        report = await import_from_exchange(
            Invocation(), "binance", ["BTC/USDT"], chosen, timeframe="5m", base_url=f"http://127.0.0.1:{server.port}"
        )
    finally:
        await server.close()
    assert (report.source, report.bars, report.markets) == ("binance:5m", 20, ("BTC/USDT (binance)",))
    found = await kept(tables, columns="case_id, horizon_s, halted, toUnixTimestamp64Milli(exit_at), exit_price")
    assert found == [
        ("x", 300, False, START + 300_000, 2.5),
        ("x", 3600, False, START + 3_600_000, 13.5),  # its own horizon
        ("x", 14_400, True, START + 19 * 300_000, 2.0),  # the close of the last bar
    ]
    assert report.coverage["4h"] == {"halted": 1, "not_imported": 4}


async def test_the_windows_asked_of_an_exchange_are_those_of_its_cases_and_touching_ones_are_one() -> None:
    from schemas.prices import JudgedCase

    def case(asset: str, at_ms: int) -> JudgedCase:
        return JudgedCase(case_id=f"{at_ms}", asset=asset, symbol="", venue="", knowable_at_ms=at_ms)

    length = round((86400 * 1.1 + 900) * 1000)
    cases = [case("BTC", 10**10), case("BTC", 10**9), case("ETH", 5), case("BTC", 0), case("BTC", length)]
    found = price_imports._windows(cases, "BTCUSDT", CaseSelection(), now_ms=10**9 + 7)
    assert found == [(0, 2 * length), (10**9, 10**9 + 7)]  # what is not over yet is not asked for


def refused(*arguments: str) -> BaseException:
    done = CliRunner().invoke(app, ["outcomes", "import", *arguments])
    assert done.exception is not None
    return done.exception


def test_a_wrong_file_is_refused_before_any_server_is_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(price_imports, "_tables", lambda _: pytest.fail("nothing may be opened"))
    (tmp_path / "bad.csv").write_text(HEADER + "2024-01-01,BTC/USDT,1,1,1,1,1\nnow,BTC/USDT,1,1,1,1,1\n")
    told = refused(str(tmp_path / "bad.csv"))
    assert isinstance(told, ContractError) and "line 3" in str(told)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((), "give one of these: a price file"),
        (("x.csv", "--sample"), "give one of these"),
        (("--exchange", "binance"), "needs --symbol"),
        (("--sample", "--from", "yesterday"), "--from 'yesterday' is not a time"),
        (("--sample", "--map", "UST"), "ASSET=BASE/QUOTE"),
        (("--sample", "--map", "UST=USTC/USDT@May"), "is no date"),
        (("--sample", "--horizons", "5"), "such as 5m,1h,4h,24h,7d"),
        (("--sample", "--horizons", "0m"), "such as 5m,1h,4h,24h,7d"),
        (("--sample", "--horizons", "400d"), "up to a year"),
        (("x.csv", "--columns", "zeit=Zeit"), "NAME=COLUMN"),
        (("none.csv", "--symbol", "BTC/USDT", "--symbol", "ETH/USDT"), "give --symbol once"),
    ],
)
def test_a_command_that_does_not_say_enough_is_told_what_to_write(arguments: tuple[str, ...], says: str) -> None:
    told = refused(*arguments)
    assert isinstance(told, ConfigError) and says in str(told)


def test_what_is_printed_names_what_changes_what_was_dropped_and_what_could_not_be_mapped(
    capsys: pytest.CaptureFixture[str],
) -> None:
    changed = Changes(known=9, new=3, gone=1, moved=2, beyond=1, gone_before_bars={"csv:old.csv": 1})
    same = Overlap(version=4, source="csv:q.csv", market="BTC/USDT", bars=1200, beyond=7, median=0.0001, largest=0.5)
    alike = msgspec.structs.replace(same, beyond=0, largest=0.003, bars=40)
    brought: dict[str, Any] = {"source": "csv:p.csv", "bars": 7, "markets": ("BTC/USDT",), "changed_by": 0.01}
    brought |= {"changes": changed, "overlaps": (same, alike)}
    outcomes.print_preview(Preview(**brought))
    at = price_imports.AtHorizon(horizon="5m", signals=4, outcomes=3, dropped={"gap": 1}, dropped_share=0.25)
    covered = {"5m": {"neutral": 1, "counted": 2}}
    outcomes.print_import(
        ImportReport(**brought, version=5, already=False, horizons=(at,), not_mapped={"crypto": 2}, coverage=covered)
    )
    removed = {"versions": (4, 5), "sources": ("csv:p.csv",), "bars": 7, "changed_by": 0.01, "standing": ()}
    outcomes.print_removed(price_imports.RemovedImports(**removed, changes=changed))
    printed = " ".join(capsys.readouterr().out.split())
    for words in (
        "7 bars for BTC/USDT from csv:p.csv",
        "1,200 bars overlap with import 4 (csv:q.csv); 7 of them differ by more than 1.00%; median 0.0100%, maximum 50.00%",
        "40 bars overlap with earlier imports (1 markets and imports) and differ by 0.3000% at most",
        "3 new outcomes; of 9 known ones, 1 are removed and 2 change, 1 of them by more than 1.00%",
        *("csv:old.csv loses 1 outcome from a version", "import it again", "25.0%", "crypto (2)"),
        *("Import 4, 5 (csv:p.csv) was removed", "oldest first: none"),
    ):
        assert words in printed


@pytest.mark.slow
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
