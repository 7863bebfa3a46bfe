"""Signals and bars that are in ClickHouse, traded and studied by the commands as a user gives them."""

from __future__ import annotations

import asyncio
import csv
import json
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from evaluation.prices import study_report
from evaluation.prices.profit_report import profit_of
from evaluation.prices.study_report import study_section
from evaluation.prices.trades import TradeRules
from infra.clickhouse.client import ClickHouse, connect
from infra.embedded.clickhouse.server import EmbeddedClickHouse
from newsproof.app import exits
from newsproof.cli.measure.profit import pnl, study
from newsproof.cli.options import command
from schemas.errors import ConfigError
from schemas.events import EventReceived, RetractionFound
from schemas.news import News
from schemas.prices import PriceSeries
from tests.evaluation.stored import new_database, store_prices
from tests.infra.clickhouse.clickhouse_samples import NOW, fill_signals, published, record, seconds, signal
from tests.infra.clickhouse.clickhouse_samples import fill as fill_events

MINUTE = 60_000
AT = round(NOW.timestamp() * 1000)
"""The news was knowable a minute before; with a minute's latency this is the entry."""


def market(symbol: str, changes: dict[int, float], *, days: int = 3) -> PriceSeries:
    """Bars of five minutes from ``days`` before ``AT`` on; ``changes``: by minutes from there, what the price is from then on."""
    first, price, opens = -days * 1440, 100.0, []
    for minute in range(first, 1800, 5):
        price = changes.get(minute, price)
        opens.append(price)
    times = [AT + minute * MINUTE for minute in range(first, 1800, 5)]
    return PriceSeries(
        symbol=symbol, venue="", times_ms=times, opens=opens, highs=opens, lows=opens, closes=opens,
        volumes=[float("nan")] * len(opens),
    )  # fmt: skip


def hours(every: float, other: float, *, days: int = 3) -> dict[int, float]:
    """A price that goes to and fro by the hour before the news."""
    return {-m: (every if m // 60 % 2 else other) for m in range(120, days * 1440 + 1, 60)} | {-60: 100.0}


def judged(case: str, asset: str, action: str, direction: str, **fields: Any) -> Any:
    usual = {"published_at": NOW - seconds(60), "event_type": "listing", "news_source": "wire", "verdict": "likely"}
    return signal(signal_id=case, case_id=case, asset=asset, action=action, direction=direction, **(usual | fields))


async def fill(tables: ClickHouse) -> None:
    """Live: BTC bought, ETH sold and taken back 20 minutes later, SOL observed, and a purchase of what is no ticker. In run
    v2 BTC is sold in its first repeat and bought in its second; another case is a miss."""
    sold = judged("e", "ETH", "sell", "short", verdict="confirmed")
    back = {"revision": 2, "supersedes": 1, "stage": "retracted", "verdict": "refuted"}
    await fill_signals(
        tables,
        published(judged("b", "BTC", "buy", "long")),
        published(sold),
        published(judged("e", "ETH", "observe", "short", **back), emitted_at=NOW + seconds(1200)),
        published(judged("o", "SOL", "observe", "long", verdict="unconfirmed")),
        published(judged("n", "crypto", "buy", "long")),
    )
    rows = []
    for case, repeat, action, status in (
        ("b", 0, "sell", "replayed"),
        ("b", 1, "buy", "replayed"),
        ("m", 0, "", "miss"),
    ):
        row = {
            "run_id": "v2", "case_id": case, "repeat": repeat, "story_id": case, "status": status, "source": "wire",
            "received_at": NOW, "knowable_at": NOW - seconds(60), "published_at": NOW, "has_signal": int(bool(action)),
            "event_type": "listing", "asset": "BTC" if action else "", "action": action, "direction": "short",
            "horizon_s": 3600, "confidence": 0.5, "signal": '{"verdict":"likely","symbol":null,"venue":null}' if action else "",
            "cost_usd": Decimal(0), "started_at": datetime.now(UTC), "version": 1,
        }  # fmt: skip
        rows.append(row)
    await tables.insert("run_cases", list(rows[0]), [tuple(row.values()) for row in rows])
    await store_prices(
        tables, 1, "csv:a.csv",
        market("BTC/USDT", hours(101.0, 100.0) | {60: 110.0}),
        market("ETH/USDT", hours(102.0, 100.0) | {25: 98.0}),
    )  # fmt: skip
    await store_prices(tables, 2, "synthetic:prices", market("SOL/USDT", {5: 105.0}, days=0))


@pytest.fixture(scope="module")
def database(clickhouse_engine: EmbeddedClickHouse) -> dict[str, str]:
    return new_database(clickhouse_engine, fill)


def run(database: dict[str, str], *arguments: str) -> Any:
    app = typer.Typer()
    command(app)(pnl)
    command(app)(study)
    return CliRunner().invoke(app, list(arguments), env=database)


def told(database: dict[str, str], *arguments: str) -> Any:
    done = run(database, *arguments, "--json")
    assert done.exit_code == exits.OK, done.output
    return json.loads(done.stdout)


def test_live_signals_are_traded_after_costs_and_every_other_is_counted(database: dict[str, str]) -> None:
    report = told(database, "pnl", "live")
    assert (report["signals"], report["observed"], report["not_traded"]) == (4, 1, {"no_symbol": 1})
    trades = {row["case_id"]: row for row in report["trades"]}
    # V = 1000 * 1.10 * 0.9995/1.0005 = 1098.900550; less 1000 and fees of 1.049450.
    assert (trades["b"]["profit"], trades["b"]["exit_reason"]) == ("97.85", "horizon")
    assert trades["b"]["entry_at"] == "2026-03-01T12:00:00Z"
    # Known at 12:20 and acted on a minute later: bought back at the open of 12:25, which is 2 % lower.
    # V = 1000 * 0.98 * 1.0005/0.9995 = 980.980490; 1000 - V - 0.990490.
    assert (trades["e"]["profit"], trades["e"]["exit_reason"]) == ("18.03", "withdrawn")
    assert trades["e"]["exit_at"] == "2026-03-01T12:25:00Z"
    assert (trades["n"]["status"], trades["n"]["profit"]) == ("no_symbol", None)
    assert report["figures"]["profit"] == "115.88"
    assert report["equity"] == [{"day": "2026-03-01", "equity": "10115.88"}]
    assert report["on_synthetic_prices"] == 0
    assert report["verdict"].endswith("too few blocks of time (1) to tell it from chance")


def test_options_change_the_rules(database: dict[str, str]) -> None:
    free = ("--fee-bps", "0", "--slippage-bps", "0")
    report = told(database, "pnl", "live", *free, "--size", "confidence", "--stake", "400", "--hold", "30m")
    profits = {row["case_id"]: (row["stake"], row["profit"]) for row in report["trades"] if row["status"] == "traded"}
    assert profits == {"b": ("300.00", "0.00"), "e": ("300.00", "6.00")}
    late = told(database, "pnl", "live", *free, "--latency", "1560")
    # 25 minutes later ETH has fallen already, and by then the denial is known.
    assert late["not_traded"] == {"no_symbol": 1, "withdrawn_before": 1}
    lost = told(database, "pnl", "v2", *free, "--stop", "0.05")
    assert [(row["exit_reason"], row["profit"]) for row in lost["trades"]] == [("horizon", "-100.00")]


def test_a_runs_own_signals_are_traded_at_the_same_time_as_the_live_ones(database: dict[str, str]) -> None:
    report = told(database, "pnl", "v2")
    assert [(row["action"], row["entry_at"]) for row in report["trades"]] == [("sell", "2026-03-01T12:00:00Z")]
    assert report["unfinished"] == {"miss": 1}
    assert "1 miss" in report["warnings"][0]
    second = told(database, "pnl", "v2", "--repeat", "1")
    assert [row["action"] for row in second["trades"]] == ["buy"]
    assert "miss" not in json.dumps(second["warnings"])


def test_the_table_says_what_the_figures_rest_on(database: dict[str, str], tmp_path: Path) -> None:
    file = tmp_path / "trades.csv"
    done = run(database, "pnl", "live", "--trades", str(file))
    assert done.exit_code == exits.OK, done.output
    assert "Profit and loss of offline judgements (run id live): 4 signals, 3 to buy or sell, 2 traded" in done.stdout
    assert "Not traded: no_symbol 1" in done.stdout and "Ended: horizon 1, withdrawn 1" in done.stdout
    assert "annualized (365 days), from 1 day;" in done.stdout
    assert "Verdict: +115.88 on 10,000.00 dollars in 2 trades, +57.94 each" in done.stdout
    rows = list(csv.DictReader(file.read_text("utf-8").splitlines()))
    assert [(row["case_id"], row["status"], row["profit"]) for row in rows] == [
        ("b", "traded", "97.85"),
        ("e", "traded", "18.03"),
        ("n", "no_symbol", ""),
    ]
    assert rows[0]["entry_price"] == "100.05"


def test_a_study_takes_every_signal_with_a_direction_whatever_its_action(database: dict[str, str]) -> None:
    report = told(database, "study", "live", "--by", "verdict")
    found = report["study"]
    assert (found["events"], found["measured"], found["left_out"]) == (4, 3, {"no_symbol": 1})
    assert found["raw_only"] == {"is_benchmark": 1, "no_beta": 1}
    groups = {(group["dimension"], group["name"]): group for group in found["groups"]}
    assert set(groups) == {("all", ""), ("verdict", "confirmed"), ("verdict", "likely"), ("verdict", "unconfirmed")}
    points = {name: {p["minutes"]: p for p in group["points"]} for (_, name), group in groups.items()}
    # The event of each begins with the open at 11:59 or later, which is that of 12:00. ETH fell by 2 %, as was said.
    assert points["confirmed"][30]["raw"] == pytest.approx(0.02)
    # Its hours moved by 2 % where those of BTC moved by 1 %: beta is near 2. BTC gained 10 % after an hour.
    assert points["confirmed"][60]["abnormal"] == pytest.approx(0.02 + 2 * 0.1, abs=0.01)
    assert points["unconfirmed"][5]["raw"] == pytest.approx(0.05)
    assert points["likely"][60]["raw"] == pytest.approx(0.10)
    assert points["likely"][60]["abnormal"] is None
    assert report["on_synthetic_prices"] == 1
    assert "too few days for bands" in report["warnings"][1]


def test_the_study_is_printed_and_may_be_undirected(database: dict[str, str]) -> None:
    done = run(database, "study", "live", "--undirected", "--by", "source")
    assert done.exit_code == exits.OK, done.output
    assert (
        "Event study of offline judgements (run id live): 4 signals, 3 measured; returns of the asset, whatever the claim,"
        in done.stdout
    )
    assert "Abnormal: " in done.stdout and "Raw: " in done.stdout and "too few days" in done.stdout
    # One of three events has an abnormal return.
    assert "│ source │ wire  │      1 │    1 │" in done.stdout and "│ source │ wire  │      3 │    1 │" in done.stdout
    assert "verdict" not in done.stdout.split("Abnormal: ")[1]


async def test_the_study_is_a_section_of_the_report_and_of_its_largest_groups(
    database: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with connect(database["CLICKHOUSE_URL"], database=database["CLICKHOUSE_DATABASE"]) as tables:
        whole = await study_section(tables, "live")
        assert whole.count("<svg ") == 2 * 2 and "4 signals, 3 measured" in whole and "no_symbol 1" in whole
        assert "1 event on synthetic prices" in whole and "smaller group" not in whole
        assert "there is no run" in await study_section(tables, "v9")
        monkeypatch.setattr(study_report, "MOST_GROUPS", 2)
        assert "1 smaller group not shown: newsproof backtest study live" in await study_section(tables, "live")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("pnl", "v9"), "there is no run 'v9' with cases in ClickHouse: there are "),
        (("pnl", "v2", "--repeat", "2"), "run v2 has 2 repeats, counted from 0: there is no --repeat 2"),
        (("pnl", "live", "--hold", "4 hours"), "write a number and s, m, h or d"),
        (("pnl", "live", "--trades", "no/such/folder.csv"), "name a file in a folder that can be written to"),
        (("study", "v9"), "there is no run 'v9'"),
    ],
)
def test_what_cannot_be_done_says_what_to_do(database: dict[str, str], arguments: tuple[str, ...], says: str) -> None:
    done = run(database, *arguments)
    assert isinstance(done.exception, ConfigError) and says in str(done.exception)


def test_without_prices_or_judgements_it_says_so(clickhouse_engine: EmbeddedClickHouse) -> None:
    empty = new_database(clickhouse_engine)
    assert "there are no prices yet: import some with" in str(run(empty, "pnl", "live").exception)

    async def prices() -> None:
        async with connect(empty["CLICKHOUSE_URL"], database=empty["CLICKHOUSE_DATABASE"]) as tables:
            await store_prices(tables, 1, "csv:a.csv", market("BTC/USDT", {}, days=0))

    asyncio.run(prices())
    assert "ClickHouse has no live judgements yet" in str(run(empty, "study", "live").exception)


async def test_live_news_is_traded_from_when_its_signal_and_its_withdrawal_were_told(clickhouse: ClickHouse) -> None:
    """The signal was emitted at 12:08, its denial known at 12:21, but told at 12:38 only."""

    def opened(minutes: int, **fields: Any) -> Any:
        at = NOW + seconds(60 * minutes)
        news = News(source="s", text="t", published_at=at - seconds(60), received_at=at)
        received = EventReceived(news=news, config_hash="", text_hash="", language="en")
        return record(received, appended_ms=round(at.timestamp() * 1000), time=at, **fields)

    found = RetractionFound(signal_id="b", of_case="b", kind="retracted", reason="denied")
    back = judged("b", "BTC", "observe", "neutral", revision=2, supersedes=1, stage="retracted")
    denial = record(found, case="denial", event_id="told", offset=3)
    await fill_events(clickhouse, [opened(-1, case="b", offset=1), opened(21, case="denial", offset=2), denial])
    await fill_signals(
        clickhouse,
        published(judged("b", "BTC", "buy", "long"), emitted_at=NOW + seconds(480)),
        published(back, emitted_at=NOW + seconds(38 * 60), cause_id="told"),
    )
    await store_prices(clickhouse, 1, "csv:a.csv", market("BTC/USDT", {15: 120.0, 25: 130.0, 40: 90.0}))
    report = await profit_of(
        clickhouse, "live", TradeRules(fee_bps=Decimal(0), slippage_bps=Decimal(0)), capital=Decimal(1)
    )
    (trade,) = report.trades
    # 12:08 and a minute: the open of 12:10, at 100. 12:38 and a minute: the open of 12:40, at 90, not that of 12:25.
    assert (trade.entry_at, trade.exit_at) == (NOW + seconds(600), NOW + seconds(2400))
    assert (trade.exit_reason, str(trade.profit)) == ("withdrawn", "-100.00")
