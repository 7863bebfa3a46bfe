"""Comparing runs that are in ClickHouse, by the command as a user gives it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import count
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from infra.clickhouse.client import ClickHouse, connect
from infra.clickhouse.migrate import migrate
from infra.embedded.clickhouse.server import EmbeddedClickHouse
from newsproof.app import exits
from newsproof.cli.commands.compare import compare
from newsproof.evaluation.compare.reading import HOW, read_runs
from schemas.errors import ConfigError

_numbers = count()
AT = datetime(2026, 3, 1, 12, tzinfo=UTC)
SIGNAL = {
    "language": "en",
    "source": "wire",
    "received_at": AT,
    "knowable_at": AT,
    "published_at": AT,
    "event_type": "listing",
    "asset": "BTC",
    "action": "buy",
    "direction": "long",
    "horizon_s": 3600,
    "preliminary_confidence": 0.5,
    "confidence": 0.6,
    "has_signal": 1,
    "status": "replayed",
    "executed": 1,
    "reused": 3,
    "missed": 0,
    "cost_usd": Decimal("0.001"),
    "unpriced_calls": 0,
    "avoided_cost_usd": Decimal("0.002"),
    "would_have_cost_usd": Decimal("0.003"),
    "latency_ms": 120.0,
    "signal": '{"verdict":"likely","action":"buy","decided_at":"%s","model":null,"prompt_versions":[{"name":"x"}],"z":1}',
    "notes": "Confirmed by the exchange.",
    "started_at": datetime.now(UTC),
}
NAMES = [f"case-{n}" for n in range(10)]


def outcome(case_id: str, came: float, **changes: Any) -> dict[str, Any]:
    """A return after an hour."""
    usual = {"asset": "BTC", "symbol": "BTC/USDT", "venue": "x", "entry_price": 100.0, "exit_price": 100 * (1 + came)}
    times = {"entry_at": AT + timedelta(seconds=60), "exit_at": AT + timedelta(hours=1)}
    return (
        usual | times | {"case_id": case_id, "horizon_s": 3600, "return": came, "source": "t", "version": 1} | changes
    )


async def fill(tables: ClickHouse, table: str, rows: Sequence[dict[str, Any]]) -> None:
    """Insert rows that have the same columns."""
    await tables.insert(table, list(rows[0]), [tuple(row.values()) for row in rows])


async def two_runs(tables: ClickHouse) -> None:
    """Runs v3 and v4 of ten cases (eight stories): v4 is surer of all, and sells case-9, which fell. case-8 is a miss."""
    await migrate(tables)
    rows = []
    for run_id, confidence in (("v3", 0.6), ("v4", 0.8)):
        for n, name in enumerate(NAMES):
            row: dict[str, Any] = SIGNAL | {
                "run_id": run_id,
                "case_id": name,
                "repeat": 0,
                "story_id": f"s{max(n - 2, 0)}",
                "version": 1,
                "reason": "",
            }
            row |= {"confidence": confidence, "signal": str(SIGNAL["signal"]).replace("%s", run_id)}
            if run_id == "v4" and n == 9:
                row["signal"] = row["signal"].replace("likely", "refuted")
                row |= {"action": "sell", "direction": "short", "notes": "Denied \x1b[2Jby the exchange."}
            if run_id == "v4" and n == 8:
                row |= {"status": "miss", "has_signal": 0, "reason": "search"}
            rows.append(row)
    # A run that was resumed wrote a case again: the newest row counts, once.
    rows.append(rows[0] | {"confidence": 0.99, "version": 0})
    await fill(tables, "run_cases", rows)
    came = [*(outcome(n, 0.02) for n in NAMES[:6]), *(outcome(n, -0.01) for n in NAMES[6:])]
    # Bought before anybody could know the news: no outcome that counts.
    came[0] |= {"entry_at": AT - timedelta(seconds=60)}
    await fill(tables, "outcomes", came)


@pytest.fixture(scope="module")
def database(clickhouse_engine: EmbeddedClickHouse) -> Iterator[dict[str, str]]:
    """The settings of a database with both runs."""
    found = {
        "CLICKHOUSE_URL": f"http://{clickhouse_engine.host}:{clickhouse_engine.port}",
        "CLICKHOUSE_DATABASE": f"compare{next(_numbers)}",
    }

    async def prepare() -> None:
        async with connect(found["CLICKHOUSE_URL"], database=found["CLICKHOUSE_DATABASE"]) as tables:
            await two_runs(tables)

    asyncio.run(prepare())
    yield found


def run(database: dict[str, str], *arguments: str) -> Any:
    """Give the command as the group mounts it."""
    app = typer.Typer()
    app.command()(compare)
    return CliRunner().invoke(app, list(arguments), env=database)


def test_two_runs_are_compared_by_their_newest_rows_and_by_the_outcomes_that_count(database: dict[str, str]) -> None:
    done = run(database, "v3", "v4", "--format", "json")
    assert done.exit_code == exits.OK, done.output
    told = json.loads(done.stdout)
    counts = told["comparability"]
    assert (counts["aligned"], counts["stories"], counts["b"]["misses"]) == (9, 7, 1)
    metrics = {(m["metric"], m["horizon"]): m for m in told["metrics"]}
    assert metrics["confidence", None]["a"] == pytest.approx(0.6)
    # Of nine cases one was entered too early; five rose, three fell, and v4 sold one of those.
    hits = metrics["hit_rate", "1h"]
    assert (hits["cases"], hits["a"], hits["b"]) == (8, 5 / 8, 6 / 8)
    assert metrics["cost", None]["delta"] == 0.0
    assert [s["cost_usd"] for s in told["spend"]] == ["0.010000000", "0.010000000"]
    assert [f["case_id"] for f in told["flips"]] == ["case-9"]
    assert [(f["case_id"], f["verdict_a"], f["verdict_b"]) for f in told["verdict_flips"]] == [
        ("case-9", "likely", "refuted")
    ]
    assert "-notes: Confirmed by the exchange." in told["differences"][0]["diff"]
    assert "+notes: Denied \\u001b[2Jby the exchange." in told["differences"][0]["diff"]


def test_the_same_command_says_the_same_again_and_a_run_is_identical_to_itself(database: dict[str, str]) -> None:
    first, again = (run(database, "v3", "v4", "--format", "csv").stdout for _ in range(2))
    assert first == again and first.startswith("metric,horizon,")
    assert "Verdict: identical: B says the same as A in all 10 cases." in run(database, "v3", "v3").stdout


@pytest.mark.parametrize(
    ("rules", "status"),
    [(["misses>0"], 100), (["misses>5"], 0), (["misses>5", "brier@1h<-0.01"], 100), (["brier@5m>+0.01"], 1)],
)
def test_a_rule_that_holds_ends_with_100(database: dict[str, str], rules: list[str], status: int) -> None:
    done = run(database, "v3", "v4", *(part for rule in rules for part in ("--fail-on", rule)))
    assert done.exit_code == status, done.output
    assert "Verdict: " in done.stdout


@pytest.mark.parametrize(
    ("runs", "says"),
    [
        (("v3", "v33"), "there is no run 'v33': did you mean v3? (newsproof backtest list)"),
        (("nonsense", "v3"), "there is no run 'nonsense': there are v3, v4, live"),
        (("live", "v3"), "there are no live judgements in ClickHouse yet"),
        (("v3' OR 1=1 --", "v3"), "there is no run"),
    ],
)
def test_a_run_that_is_not_known_is_refused_with_those_that_are(
    database: dict[str, str], runs: tuple[str, str], says: str
) -> None:
    done = run(database, *runs)
    assert isinstance(done.exception, ConfigError) and says in str(done.exception)
    assert exits.status_of(done.exception) == exits.USAGE


def test_a_rule_that_is_none_is_refused_before_any_server_is_asked(database: dict[str, str]) -> None:
    done = run(database | {"CLICKHOUSE_URL": "http://127.0.0.1:1"}, "v3", "v4", "--fail-on", "nicer")
    assert isinstance(done.exception, ConfigError) and "METRIC[@HORIZON] OPERATOR NUMBER" in str(done.exception)


async def test_when_and_how_a_signal_was_made_is_not_what_it_says(database: dict[str, str]) -> None:
    async with connect(database["CLICKHOUSE_URL"], database=database["CLICKHOUSE_DATABASE"]) as tables:
        v3, v4 = await read_runs(tables, "v3", "v4")
        assert len({row.signal_hash for row in [*v3.rows, *v4.rows] if row.verdict == "likely"}) == 1
        kept = f"SELECT DISTINCT replaceRegexpAll(signal, '{HOW}', '') FROM run_cases ORDER BY 1"
        assert (await tables.query(kept)).rows == [
            ('{"verdict":"likely","action":"buy",,,,"z":1}',),
            ('{"verdict":"refuted","action":"buy",,,,"z":1}',),
        ]


async def test_what_was_judged_live_is_a_run_beside_others(clickhouse_engine: EmbeddedClickHouse) -> None:
    url = f"http://{clickhouse_engine.host}:{clickhouse_engine.port}"
    async with connect(url, database=f"compare{next(_numbers)}") as tables:
        await two_runs(tables)
        signal = {
            name: SIGNAL[name] for name in ("event_type", "asset", "action", "direction", "horizon_s", "confidence")
        }
        own = {
            "run_id": "live",
            "signal_id": "s",
            "revision": 1,
            "stage": "final",
            "verdict": "confirmed",
            "first_wins": 1,
            "notes": "Live.",
        }
        times = dict.fromkeys(("published_at", "knowable_at", "decided_at", "valid_until", "emitted_at"), AT)
        await fill(tables, "signals", [own | signal | times | {"case_id": NAMES[3], "preliminary_confidence": 0.5}])
        live, v3 = await read_runs(tables, "live", "v3")
    assert (live.cases, v3.cases) == (1, 10)
    assert [(row.case_id, row.story_id, row.confidence) for row in live.rows] == [(NAMES[3], "s1", 0.6)]
    assert [row.case_id for row in v3.rows] == [NAMES[3]]
    assert live.hits == {3600: {(NAMES[3], 0): 1}}
