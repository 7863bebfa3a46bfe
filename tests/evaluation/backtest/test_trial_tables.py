"""A trial that is in ClickHouse, with prices: what a comparison claims of it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import count
from typing import Any

import pytest
from msgspec.structs import replace
from typer.testing import CliRunner

from evaluation.compare.run_records import Trial, write_trial
from infra.clickhouse.client import ClickHouse, connect
from infra.clickhouse.migrate import migrate
from infra.clickhouse.record import epoch_ms
from infra.embedded.clickhouse.server import EmbeddedClickHouse
from infra.market.outcomes.bars import PriceImport, write_bars, write_import
from newsproof.app import exits
from newsproof.cli.main import app
from schemas.prices import PriceSeries

_numbers = count()
DAYS = 12
BEGAN = datetime(2026, 3, 1, 12, tzinfo=UTC)


def day(n: int) -> datetime:
    return BEGAN + timedelta(days=n)


def rises(n: int) -> bool:
    """On even days the price goes from 100 to 102 within the hour, on odd days to 98."""
    return n % 2 == 0


async def write_prices(tables: ClickHouse) -> None:
    moments = [(n, minutes) for n in range(DAYS) for minutes in range(0, 90, 5)]
    times = [epoch_ms(day(n) + timedelta(minutes=minutes)) for n, minutes in moments]
    opens = [100.0 if minutes < 65 else 102.0 if rises(n) else 98.0 for n, minutes in moments]
    bars = PriceSeries(
        symbol="BTC/USDT", venue="x", times_ms=times, opens=opens, highs=opens, lows=opens, closes=opens, volumes=[1.0] * len(times)
    )  # fmt: skip
    await write_bars(tables, 1, [bars])
    await write_import(
        tables,
        PriceImport(
            version=1, source="csv:t.csv", imported_ms=times[0], bars=len(times), markets=("BTC/USDT",), covers=((times[0], times[-1]),),
            entry_within_s=900.0, horizons_s=(3600,),
        ),
    )  # fmt: skip


def rows(run_id: str, cost: str, buys: Any) -> list[dict[str, Any]]:
    usual = {"run_id": run_id, "repeat": 0, "status": "replayed", "has_signal": 1, "asset": "BTC", "horizon_s": 3600}
    usual |= {"confidence": 0.6, "executed": 1, "cost_usd": Decimal(cost), "would_have_cost_usd": Decimal(cost)}
    usual |= {"started_at": datetime.now(UTC), "version": 1}
    return [
        usual
        | {"case_id": f"case-{n}", "story_id": f"case-{n}", "action": "buy" if buys(n) else "sell"}
        | {
            "direction": "long" if buys(n) else "short",
            "received_at": day(n),
            "knowable_at": day(n),
            "published_at": day(n),
        }
        for n in range(DAYS)
    ]


async def prepare(at: dict[str, str]) -> None:
    async with connect(at["CLICKHOUSE_URL"], database=at["CLICKHOUSE_DATABASE"]) as tables:
        await migrate(tables)
        every = [
            *rows("base", "0.002", lambda _: True),
            *rows("t-right", "0.004", rises),
            *rows("t-wrong", "0.001", lambda n: not rises(n)),
        ]
        await tables.insert("run_cases", list(every[0]), [tuple(row.values()) for row in every])
        await write_prices(tables)
        first = Trial(
            run_id="t-wrong", candidate="w", label="", changed=("synthesize",), log="journal", cases=DAYS,
            cases_from=day(0), cases_to=day(DAYS - 1), started_at=day(20),
        )  # fmt: skip
        await write_trial(tables, first)
        await write_trial(tables, replace(first, run_id="t-right", candidate="r", started_at=day(21)))


@pytest.fixture(scope="module")
def database(clickhouse_engine: EmbeddedClickHouse) -> Iterator[dict[str, str]]:
    found = {
        "CLICKHOUSE_URL": f"http://{clickhouse_engine.host}:{clickhouse_engine.port}",
        "CLICKHOUSE_DATABASE": f"trialtables{next(_numbers)}",
    }
    asyncio.run(prepare(found))
    yield found


def command(database: dict[str, str], *arguments: str) -> Any:
    return CliRunner().invoke(app, ["backtest", *arguments], env=database)


def test_compare_says_who_looked_before_and_claims_nothing_on_a_period_that_was_tuned_on(
    database: dict[str, str],
) -> None:
    first, second = (
        json.loads(command(database, "compare", "base", run, "--primary", "profit@1h", "--format", "json").stdout)
        for run in ("t-wrong", "t-right")
    )
    assert (first["metrics"][0]["verdict"], first["metrics"][0]["p"] < 0.05) == ("worse", True)
    told = second["metrics"][0]
    assert (told["p"], told["p_holm"], told["verdict"]) == (None, None, "changed")
    assert told["delta"] == pytest.approx(0.02) and told["low"] is not None
    assert "tuned on this period: 1 earlier trials looked at it" in told["note"]
    assert any("run t-right was tuned on this period" in warning for warning in second["warnings"])
    gate = command(database, "gate", "base", "t-right", "--primary", "profit@1h")
    assert gate.exit_code == exits.OK  # it looks for a loss, which tuning does not make
    assert "is not tested: tuned on this period" in gate.stdout and " is better in B" not in gate.stdout
    margin = command(database, "gate", "base", "t-right", "--primary", "profit@1h", "--margin", "0.5")
    assert margin.exit_code == exits.FINDING  # that no loss is left would be a claim
