"""Comparing runs that are in ClickHouse, by the command as a user gives it."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import count
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from evaluation.compare.compare_runs import describe_sample_power
from evaluation.compare.comparison import compare as compared
from evaluation.compare.inputs import HOW, read_returns, read_run_rows, read_truths
from infra.clickhouse.client import ClickHouse, connect
from infra.clickhouse.migrate import migrate
from infra.clickhouse.record import epoch_ms
from infra.embedded.clickhouse.server import EmbeddedClickHouse
from newsproof.app import exits
from newsproof.cli.measure.runs import compare, gate, power
from schemas.errors import ConfigError
from schemas.prices import PriceSeries
from tests.evaluation.stored import new_database, store_prices

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


def day(n: int) -> datetime:
    """Return when the news of case n was knowable: each on another day."""
    return AT + timedelta(days=n)


def prices() -> PriceSeries:
    """Return bars of 5 minutes around each case: 100, and from an hour after the entry on 102 for the first six, else 99."""
    times, opens = [], []
    for n in range(len(NAMES)):
        for minutes in range(0, 90, 5):
            times.append(epoch_ms(day(n) + timedelta(minutes=minutes)))
            opens.append(100.0 if minutes < 65 else 102.0 if n < 6 else 99.0)
    return PriceSeries(
        symbol="BTC/USDT", venue="x", times_ms=times, opens=opens, highs=opens, lows=opens, closes=opens,
        volumes=[1.0] * len(times),
    )  # fmt: skip


async def fill(tables: ClickHouse, table: str, rows: Sequence[dict[str, Any]]) -> None:
    """Insert rows that have the same columns."""
    await tables.insert(table, list(rows[0]), [tuple(row.values()) for row in rows])


async def two_runs(tables: ClickHouse) -> None:
    """Runs v3 and v4 of ten cases (eight stories): v4 is surer of all, and sells case-9, which fell. case-8 is a miss.

    Runs good and short have eight of them; short sells the six that rose and buys what fell, good the other way round.
    """
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
            row |= {"received_at": day(n), "knowable_at": day(n), "published_at": day(n)}
            row |= {"confidence": confidence, "signal": str(SIGNAL["signal"]).replace("%s", run_id)}
            if run_id == "v4" and n == 9:
                row["signal"] = row["signal"].replace("likely", "refuted")
                row |= {"action": "sell", "direction": "short", "notes": "Denied \x1b[2Jby the exchange."}
            if run_id == "v4" and n == 8:
                row |= {"status": "miss", "has_signal": 0, "reason": "search"}
            rows.append(row)
    for n in range(8):
        for run_id, action in (("good", "buy" if n < 6 else "sell"), ("short", "sell" if n < 6 else "buy")):
            rows.append(rows[n] | {"run_id": run_id, "action": action, "direction": "short"})
    # A run that was resumed wrote a case again: the newest row counts, once.
    rows.append(rows[0] | {"confidence": 0.99, "version": 0})
    await fill(tables, "run_cases", rows)
    await store_prices(tables, 1, "csv:t.csv", prices())
    news = {"run_id": "live", "case_id": "case-9", "event_id": "e", "text": "Exchange X  denies\na listing. " * 9}
    await fill(tables, "news", [news | {"opened_at": AT, "published_at": AT}])
    call = {"case_id": "case-9", "provider_name": "gemini", "accepted": 1, "as_of": AT, "execution": "executed"}
    call |= {"provider_mode": "live"}
    for run_id, step, model in (
        ("v3", "critique", "flash"),
        ("v4", "critique", "pro"),
        ("v3", "triage", "flash"),
        ("v4", "triage", "flash"),
    ):
        await fill(
            tables, "llm_calls", [call | {"run_id": run_id, "event_id": step, "step": step, "request_model": model}]
        )

    # What good reused: three calls of case-0, of which live's took 0.5 s each, and two of case-1, of which one is not known.
    calls = [
        ("good", "case-0", "h"),
        ("good", "case-0", "i"),
        ("good", "case-0", "j"),
        ("good", "case-1", "h"),
        ("good", "case-1", "x"),
    ]
    calls += [("live", "case-0", "h"), ("live", "case-0", "i"), ("live", "case-0", "j"), ("live", "case-1", "h")]
    await fill(
        tables,
        "tool_calls",
        [
            {
                "run_id": run_id,
                "case_id": case_id,
                "event_id": wanted,
                "request_hash": wanted,
                "accepted": 1,
                "as_of": AT,
            }
            | {
                "execution": "executed" if run_id == "live" else "reused",
                "latency_ms": 500.0 if run_id == "live" else None,
            }
            for run_id, case_id, wanted in calls
        ],
    )


@pytest.fixture(scope="module")
def database(clickhouse_engine: EmbeddedClickHouse) -> dict[str, str]:
    """The settings of a database with these runs."""
    return new_database(clickhouse_engine, two_runs)


def run(database: dict[str, str], *arguments: str) -> Any:
    """Give the command as the group mounts it."""
    app = typer.Typer()
    app.command()(compare)
    return CliRunner().invoke(app, list(arguments), env=database)


def test_two_runs_are_compared_by_their_newest_rows_and_by_the_outcomes_that_count(database: dict[str, str]) -> None:
    done = run(database, "v3", "v4", "--primary", "profit", "--format", "json")
    assert done.exit_code == exits.OK, done.output
    told = json.loads(done.stdout)
    counts = told["comparability"]
    assert (counts["aligned"], counts["stories"], counts["b"]["misses"]) == (9, 7, 1)
    metrics = {(m["metric"], m["horizon"]): m for m in told["metrics"]}
    assert metrics["confidence", None]["a"] == pytest.approx(0.6)
    # Six rose and four fell. v4 sold one of those; another it missed, and may have been right or wrong there.
    hits = metrics["hit_rate", "1h"]
    assert (hits["cases"], hits["a"], hits["b"]) == (10, 6 / 10, None)
    assert (hits["delta_low"], hits["delta_high"]) == (pytest.approx(0.1), pytest.approx(0.2))
    # Entered at the first open from 30 s after the news on, left an hour later; 0.002 for each trade.
    profit = metrics["profit", None]
    assert (profit["role"], profit["blocks"]) == ("primary", 10)
    assert profit["a"] == pytest.approx((6 * 0.02 - 4 * 0.01) / 10 - 0.002)
    # What it missed may have been of any horizon, and no bars say what came of the longer ones: up to the cap.
    assert profit["delta_high"] == pytest.approx((0.02 + 0.25 + 0.01) / 10)
    assert metrics["cost", None]["verdict"] == "not measured"
    assert [s["cost_usd"] for s in told["spend"]] == ["0.010000000", "0.010000000"]
    assert [f["case_id"] for f in told["flips"]] == ["case-9"]
    assert told["flips"][0]["title"] == ("Exchange X denies a listing. " * 9)[:80]
    assert (
        "other models judged: critique by gemini:flash in v3 and by gemini:pro in v4; a difference may be due to the model"
        in told["warnings"]
    )
    assert (
        "run v4: the training cutoff of flash, pro is unknown; it may know the outcome of any case" in told["warnings"]
    )
    assert (counts["days"], counts["first_day"], counts["last_day"]) == (9, "2026-03-01", "2026-03-10")
    assert [(f["case_id"], f["verdict_a"], f["verdict_b"]) for f in told["verdict_flips"]] == [
        ("case-9", "likely", "refuted")
    ]
    assert "-notes: Confirmed by the exchange." in told["differences"][0]["diff"]
    assert "+notes: Denied \\u001b[2Jby the exchange." in told["differences"][0]["diff"]


def test_the_same_command_says_the_same_again_and_a_run_is_identical_to_itself(database: dict[str, str]) -> None:
    first, again = (run(database, "v3", "v4", "--format", "json").stdout for _ in range(2))
    assert first == again and json.loads(first)["metrics"]
    assert "Verdict: identical: B equals A in all 10 cases." in run(database, "v3", "v3").stdout


async def test_a_case_takes_its_executed_calls_and_the_recorded_time_of_those_reused(database: dict[str, str]) -> None:
    async with connect(database["CLICKHOUSE_URL"], database=database["CLICKHOUSE_DATABASE"]) as tables:
        good, _ = await read_run_rows(tables, "good", "short")
    assert {row.case_id: row.delay_ms for row in good.rows if row.case_id < "case-3"} == {
        "case-0": 120.0 + 1_500.0, "case-1": None, "case-2": None,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("runs", "says"),
    [
        (("v3", "v33"), "there is no run 'v33': did you mean v3? (newsproof backtest list)"),
        (("nonsense", "v3"), "there is no run 'nonsense': existing runs: good, short, v3, v4, live"),
        (("live", "v3"), "ClickHouse has no live judgements yet"),
        (("v3' OR 1=1 --", "v3"), "there is no run"),
    ],
)
def test_a_run_that_is_not_known_is_refused_with_those_that_are(
    database: dict[str, str], runs: tuple[str, str], says: str
) -> None:
    done = run(database, *runs)
    assert isinstance(done.exception, ConfigError) and says in str(done.exception)
    assert exits.status_of(done.exception) == exits.USAGE


async def test_when_and_how_a_signal_was_made_is_not_what_it_says(database: dict[str, str]) -> None:
    async with connect(database["CLICKHOUSE_URL"], database=database["CLICKHOUSE_DATABASE"]) as tables:
        v3, v4 = await read_run_rows(tables, "v3", "v4")
        assert len({row.signal_hash for row in [*v3.rows, *v4.rows] if row.verdict == "likely"}) == 1
        kept = f"SELECT DISTINCT replaceRegexpAll(signal, '{HOW}', '') FROM run_cases ORDER BY 1"
        assert (await tables.query(kept)).rows == [
            ('{"verdict":"likely","action":"buy",,,,"z":1}',),
            ('{"verdict":"refuted","action":"buy",,,,"z":1}',),
        ]


async def test_what_was_judged_live_is_a_run_beside_others(clickhouse_engine: EmbeddedClickHouse) -> None:
    url = f"http://{clickhouse_engine.host}:{clickhouse_engine.port}"
    async with connect(url, database=f"compare{os.getpid()}_{next(_numbers)}") as tables:
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
            "provider_mode": "offline",
            "notes": "Live.",
        }
        times = dict.fromkeys(("published_at", "knowable_at", "decided_at", "valid_until", "emitted_at"), day(3))
        await fill(tables, "signals", [own | signal | times | {"case_id": NAMES[3], "preliminary_confidence": 0.5}])
        live, v3 = await read_run_rows(tables, "live", "v3")
        returns = await read_returns(tables, [live, v3])
    assert (live.cases, v3.cases) == (1, 10)
    assert (live.name, v3.name) == ("offline judgements (run id live)", "v3")
    assert [(row.case_id, row.story_id, row.confidence) for row in live.rows] == [(NAMES[3], "s1", 0.6)]
    assert [row.case_id for row in v3.rows] == [NAMES[3]]
    assert returns.held[NAMES[3], "BTC", 3600] == returns.moved[NAMES[3], "BTC", 3600] == pytest.approx(0.02)
    assert (NAMES[3], "BTC", 14400) not in returns.moved, "the bars stop before"


def test_a_gate_closes_on_a_loss_of_the_primary_metric_and_when_it_cannot_see(database: dict[str, str]) -> None:
    app = typer.Typer()
    app.command()(gate)
    same = CliRunner().invoke(app, ["v3", "v3"], env=database)
    assert (same.exit_code, "Gate open: B says the same as A in every case" in same.stdout) == (exits.OK, True)
    blind = CliRunner().invoke(app, ["v3", "v4", "--primary", "profit@7d"], env=database)
    assert (blind.exit_code, "a loss of profit@7d of more than 0.005 is not excluded" in blind.stdout) == (101, True)
    margin = CliRunner().invoke(app, ["v3", "v4", "--primary", "profit", "--margin", "0"], env=database)
    assert (margin.exit_code, "a loss of profit of more than 0 is not excluded" in margin.stdout) == (101, True)
    worse = CliRunner().invoke(app, ["good", "short", "--primary", "profit"], env=database)
    assert (worse.exit_code, "Gate closed: profit is worse in B" in worse.stdout) == (exits.GATE_CLOSED, True), (
        worse.output
    )


async def test_what_a_sample_can_show_is_told_before_anything_is_paid(clickhouse_engine: EmbeddedClickHouse) -> None:
    url = f"http://{clickhouse_engine.host}:{clickhouse_engine.port}"
    async with connect(url, database=f"compare{os.getpid()}_{next(_numbers)}") as tables:
        await two_runs(tables)
        assert "no live signals of these cases" in await describe_sample_power(tables, NAMES)
        for n, name in enumerate(NAMES):
            times: dict[str, Any] = dict.fromkeys(
                ("published_at", "knowable_at", "decided_at", "valid_until", "emitted_at"), day(n)
            )
            said = {
                name: SIGNAL[name] for name in ("event_type", "asset", "action", "direction", "horizon_s", "confidence")
            }
            of_case = {"run_id": "live", "signal_id": name, "revision": 1, "stage": "final", "verdict": "confirmed"}
            await fill(tables, "signals", [of_case | said | times | {"first_wins": 1, "case_id": name}])
        every = await describe_sample_power(tables, NAMES)
        assert every.startswith("What this sample can show: its 10 live signals with prices lie in 6 blocks of days.")
        few = await describe_sample_power(tables, NAMES[6:])
        assert "is unknown: untestable: 3 blocks of 2 days, and a test needs 6; " in few


def test_power_is_told_of_the_pair_at_hand(database: dict[str, str]) -> None:
    app = typer.Typer()
    app.command()(power)
    done = CliRunner().invoke(
        app, ["v3", "short", "--primary", "profit", "--difference", "profit=0.01", "--json"], env=database
    )
    (profit,) = (one for one in json.loads(done.stdout)["metrics"] if one["metric"] == "profit")
    assert profit["detectable"] > 0.01 and profit["needed_blocks"] > profit["blocks"] == 8
    with pytest.raises(ConfigError, match="there is no such metric"):
        CliRunner().invoke(app, ["v3", "short", "--difference", "luck=1"], env=database, catch_exceptions=False)


def test_the_primary_metric_is_what_the_run_declared_and_another_one_is_said_to_be_chosen_afterwards(
    database: dict[str, str],
) -> None:
    async def declare() -> None:
        row = {"run_id": "good", "label": "x", "status": "finished", "changes": '{"prompts":{},"primary":"brier@1h"}'}
        row |= {"started_at": AT, "cases_from": AT, "cases_to": AT, "version": 1}
        async with connect(database["CLICKHOUSE_URL"], database=database["CLICKHOUSE_DATABASE"]) as tables:
            await fill(tables, "runs", [row])

    asyncio.run(declare())
    done = run(database, "v3", "good", "--format", "json")
    assert done.exit_code == exits.OK, repr(done.exception)
    told = json.loads(done.stdout)
    assert (told["metrics"][0]["metric"], told["metrics"][0]["role"]) == ("brier", "primary")
    assert not [text for text in told["warnings"] if "afterwards" in text]
    other = json.loads(run(database, "v3", "good", "--primary", "profit", "--format", "json").stdout)
    assert other["metrics"][0]["metric"] == "profit"
    assert [text for text in other["warnings"] if "afterwards" in text] == [
        "profit was made the primary metric afterwards (run good declared brier@1h): a metric chosen after its result proves nothing"
    ]


async def test_what_live_dropped_is_a_case_of_it_without_a_signal(clickhouse_engine: EmbeddedClickHouse) -> None:
    url = f"http://{clickhouse_engine.host}:{clickhouse_engine.port}"
    async with connect(url, database=f"compare{os.getpid()}_{next(_numbers)}") as tables:
        await two_runs(tables)
        usual = {"run_id": "live", "event_time": day(2), "first_wins": 1, "knowable_at": day(2)}
        of_case = [(NAMES[2], "case_dropped"), (NAMES[5], "case_failed")]
        rows = [
            usual
            | {"case_id": name, "event_id": f"{name}-{kind}", "event_type": f"newsproof.{kind}", "outcome": "spam"}
            for name, end in of_case
            for kind in ("event_received", end)
        ]
        await fill(tables, "events", rows)
        live, v3 = await read_run_rows(tables, "live", "v3")
    assert [(row.case_id, row.status, row.has_signal) for row in sorted(live.rows, key=lambda row: row.case_id)] == [
        (NAMES[2], "replayed", 0),
        (NAMES[5], "failed", 0),
    ]
    found = compared(live, v3)
    assert (found.comparability.aligned, found.comparability.only_b, found.comparability.b.acted) == (1, 1, 1)
    assert not found.verdict.startswith("identical"), "v3 acts on what live dropped"


def test_looks_at_the_same_cases_raise_p_values_and_a_candidate_that_came_after_them_claims_nothing(
    clickhouse_engine: EmbeddedClickHouse,
) -> None:
    async def candidates(tables: ClickHouse) -> None:
        await two_runs(tables)
        for name, began in (("short", day(0)), ("v3", datetime(2099, 1, 1, tzinfo=UTC))):
            changes = json.dumps({"prompts": {"plan": {"version": "9", "hash": name}}})
            await fill(
                tables, "runs", [{"run_id": name, "status": "finished", "changes": changes, "started_at": began}]
            )

    database = new_database(clickhouse_engine, candidates)

    def told(b: str, *options: str) -> Any:
        return json.loads(run(database, "good", b, "--primary", "profit", "--format", "json", *options).stdout)

    first, again = (told("short") for _ in range(2))
    assert first == again and (first["metrics"][0]["verdict"], first["metrics"][0]["p"]) == ("worse", 1 / 128)
    assert not [text for text in first["warnings"] if "look" in text]
    capped = told("short", "--cap", "0.24")
    other, warnings = capped["metrics"][0], capped["warnings"]
    assert (other["p"], other["verdict"]) == (3 / 128, "worse")
    said = "look 2 at some of these cases (newsproof backtest trials): p values are multiplied by 3, and intervals are as much wider"
    assert said in warnings
    more = [told("short", "--cap", cap)["metrics"][0] for cap in ("0.23", "0.22")]
    assert [(m["p"], m["verdict"]) for m in more] == [(6 / 128, "worse"), (10 / 128, "not distinguishable")]
    assert told("short") == first, "the first look is the first look whenever it is printed"
    later = told("v3")["metrics"][0]
    assert (later["p"], later["p_holm"], later["verdict"]) == (None, None, "not distinguishable")
    assert later["delta"] == pytest.approx(-0.005) and later["low"] is not None
    app = typer.Typer()
    app.command()(gate)
    passed = CliRunner().invoke(app, ["good", "v3", "--primary", "profit", "--margin", "0.5"], env=database)
    assert passed.exit_code == exits.GATE_UNDECIDED, "that no loss is left would be a claim"
    assert "is not tested: nothing is claimed" in passed.stdout and "run v3 began after 4 looks" in passed.stdout


async def test_a_truth_is_a_label_or_a_retraction_or_what_an_official_page_says_later(
    clickhouse_engine: EmbeddedClickHouse,
) -> None:
    async def known(tables: ClickHouse) -> dict[str, float]:
        return {name: truth for name, truth in (await read_truths(tables)).items() if name in NAMES}

    url = f"http://{clickhouse_engine.host}:{clickhouse_engine.port}"
    async with connect(url, database=f"compare{os.getpid()}_{next(_numbers)}") as tables:
        await two_runs(tables)
        assert await known(tables) == {}
        # case-0, case-1 and case-2 are of one story. Two days after the first an official page denies it.
        official = ("https://x.example", "h", "denies", 1, 1, day(2), None, 1)
        times: dict[str, Any] = dict.fromkeys(
            ("published_at", "knowable_at", "decided_at", "valid_until", "emitted_at"), day(2)
        )
        signal = {"run_id": "live", "signal_id": "s", "revision": 1, "stage": "final", "status": "verified"}
        signal |= {"case_id": NAMES[2], "first_wins": 1, "evidence": [official]}
        await fill(tables, "signals", [signal | times])
        assert await known(tables) == {NAMES[0]: 0.0, NAMES[1]: 0.0}
        await fill(tables, "labels", [{"source": "us", "version": 1, "case_id": NAMES[0], "truth": "true", "note": ""}])
        assert await known(tables) == {NAMES[0]: 1.0, NAMES[1]: 0.0}, "a label goes before"
