"""Comparing runs that are in ClickHouse, by the command as a user gives it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from evaluation.compare.compare_runs import describe_sample_power
from evaluation.compare.comparison import compare as compared
from evaluation.compare.inputs import HOW, read_returns, read_run_rows, read_truths
from infra.clickhouse.client import ClickHouse, connect
from infra.clickhouse.record import epoch_ms
from infra.embedded.clickhouse.server import EmbeddedClickHouse
from newsproof.app import exits
from newsproof.cli.measure.runs import compare, gate, power
from schemas.errors import ConfigError
from schemas.prices import PriceSeries
from tests.evaluation.stored import new_database, store_prices

AT = datetime(2026, 3, 1, 12, tzinfo=UTC)
SAID: dict[str, Any] = {
    "event_type": "listing", "asset": "BTC", "action": "buy", "direction": "long", "horizon_s": 3600, "confidence": 0.6,
    "preliminary_confidence": 0.5,
}  # fmt: skip
"""The same columns of a signal, in a run and live."""
CASE: dict[str, Any] = SAID | {
    "language": "en", "source": "wire", "has_signal": 1, "status": "replayed", "executed": 1, "reused": 3, "missed": 0,
    "cost_usd": Decimal("0.001"), "unpriced_calls": 0, "avoided_cost_usd": Decimal("0.002"),
    "would_have_cost_usd": Decimal("0.003"), "latency_ms": 120.0,
    "signal": '{"verdict":"likely","action":"buy","decided_at":"%s","model":null,"prompt_versions":[{"name":"x"}],"z":1}',
    "notes": "Confirmed by the exchange.", "started_at": datetime.now(UTC),
}  # fmt: skip
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
    rows = []
    for run_id, confidence in (("v3", 0.6), ("v4", 0.8)):
        for n, name in enumerate(NAMES):
            row = CASE | {"run_id": run_id, "case_id": name, "repeat": 0, "story_id": f"s{max(n - 2, 0)}", "version": 1}
            row |= {"reason": "", "received_at": day(n), "knowable_at": day(n), "published_at": day(n)}
            row |= {"confidence": confidence, "signal": CASE["signal"].replace("%s", run_id)}
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
    models = [
        ("v3", "critique", "flash"),
        ("v4", "critique", "pro"),
        ("v3", "triage", "flash"),
        ("v4", "triage", "flash"),
    ]
    judged = [
        call | {"run_id": run_id, "event_id": step, "step": step, "request_model": model}
        for run_id, step, model in models
    ]
    await fill(tables, "llm_calls", judged)
    # What good reused: three calls of case-0, of which live's took 0.5 s each, and two of case-1, of which one is not known.
    reused = [("case-0", "h"), ("case-0", "i"), ("case-0", "j"), ("case-1", "h"), ("case-1", "x")]
    calls = [("good", "reused", None, *one) for one in reused] + [
        ("live", "executed", 500.0, *one) for one in reused[:-1]
    ]
    columns = ("run_id", "execution", "latency_ms", "case_id", "event_id")
    rows = [
        dict(zip(columns, one, strict=True)) | {"request_hash": one[-1], "accepted": 1, "as_of": AT} for one in calls
    ]
    await fill(tables, "tool_calls", rows)


async def with_live(tables: ClickHouse) -> None:
    """The same runs, beside what was judged live: case-6 was dropped, case-5 failed, of the others there are signals.

    case-0, case-1 and case-2 are of one story, of which an official page denies it two days after the first.
    """
    await two_runs(tables)
    signals = []
    for n, name in enumerate(NAMES):
        if n not in (5, 6):
            official = [("https://x.example", "h", "denies", 1, 1, day(2), None, 1)] if n == 2 else []
            times = dict.fromkeys(("published_at", "knowable_at", "decided_at", "valid_until", "emitted_at"), day(n))
            row = {
                "run_id": "live",
                "signal_id": name,
                "case_id": name,
                "revision": 1,
                "stage": "final",
                "first_wins": 1,
            }
            row |= {"verdict": "confirmed", "status": "verified", "provider_mode": "offline", "notes": "Live."}
            signals.append(row | SAID | times | {"evidence": official})
    await fill(tables, "signals", signals)
    ends = [(6, "case_dropped"), (5, "case_failed")]
    events = [
        {"run_id": "live", "event_time": day(n), "first_wins": 1, "knowable_at": day(n), "outcome": "spam", "case_id": NAMES[n],
         "event_id": f"{n}-{kind}", "event_type": f"newsproof.{kind}"}
        for n, end in ends for kind in ("event_received", end)
    ]  # fmt: skip
    await fill(tables, "events", events)


@pytest.fixture(scope="module")
def database(clickhouse_engine: EmbeddedClickHouse) -> dict[str, str]:
    """The settings of a database with these runs."""
    return new_database(clickhouse_engine, two_runs)


@pytest.fixture(scope="module")
def beside_live(clickhouse_engine: EmbeddedClickHouse) -> dict[str, str]:
    """The settings of a database with these runs and what was judged live."""
    return new_database(clickhouse_engine, with_live)


def run(database: dict[str, str], *arguments: str, command: Callable[..., None] = compare) -> Any:
    """Give the command as the group mounts it."""
    app = typer.Typer()
    app.command()(command)
    return CliRunner().invoke(app, list(arguments), env=database)


def tables_of(database: dict[str, str]) -> Any:
    return connect(database["CLICKHOUSE_URL"], database=database["CLICKHOUSE_DATABASE"])


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
    async with tables_of(database) as tables:
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
    async with tables_of(database) as tables:
        v3, v4 = await read_run_rows(tables, "v3", "v4")
        assert len({row.signal_hash for row in [*v3.rows, *v4.rows] if row.verdict == "likely"}) == 1
        kept = f"SELECT DISTINCT replaceRegexpAll(signal, '{HOW}', '') FROM run_cases ORDER BY 1"
        assert (await tables.query(kept)).rows == [
            ('{"verdict":"likely","action":"buy",,,,"z":1}',),
            ('{"verdict":"refuted","action":"buy",,,,"z":1}',),
        ]


async def test_what_was_judged_live_is_a_run_beside_others(beside_live: dict[str, str]) -> None:
    async with tables_of(beside_live) as tables:
        live, v3 = await read_run_rows(tables, "live", "v3")
        returns = await read_returns(tables, [live, v3])
    assert (live.cases, v3.cases) == (10, 10)
    assert (live.name, v3.name) == ("offline judgements (run id live)", "v3")
    found = {row.case_id: (row.status, row.has_signal, row.story_id, row.confidence) for row in live.rows}
    assert found[NAMES[3]] == ("replayed", 1, "s1", 0.6)
    assert (found[NAMES[6]][:2], found[NAMES[5]][:2]) == (("replayed", 0), ("failed", 0)), (
        "dropped is a case without a signal"
    )
    assert returns.held[NAMES[3], "BTC", 3600] == returns.moved[NAMES[3], "BTC", 3600] == pytest.approx(0.02)
    assert (NAMES[3], "BTC", 14400) not in returns.moved, "the bars stop before"
    counts = compared(live, v3).comparability
    assert (counts.aligned, counts.only_b, counts.a.acted, counts.b.acted) == (9, 1, 8, 9)


def test_a_gate_closes_on_a_loss_of_the_primary_metric_and_when_it_cannot_see(database: dict[str, str]) -> None:
    for arguments, status, says in (
        (("v3", "v3"), exits.OK, "Gate open: B says the same as A in every case"),
        (("v3", "v4", "--primary", "profit@7d"), 101, "a loss of profit@7d of more than 0.005 is not excluded"),
        (("v3", "v4", "--primary", "profit", "--margin", "0"), 101, "a loss of profit of more than 0 is not excluded"),
        (("good", "short", "--primary", "profit"), exits.GATE_CLOSED, "Gate closed: profit is worse in B"),
    ):
        done = run(database, *arguments, command=gate)
        assert (done.exit_code, says in done.stdout) == (status, True), done.output


async def test_what_a_sample_can_show_is_told_before_anything_is_paid(
    database: dict[str, str], beside_live: dict[str, str]
) -> None:
    async with tables_of(database) as tables:
        assert "no live signals of these cases" in await describe_sample_power(tables, NAMES)
    async with tables_of(beside_live) as tables:
        every = await describe_sample_power(tables, [name for name in NAMES if name != NAMES[5]])
        few = await describe_sample_power(tables, NAMES[7:])
    assert every.startswith("9 cases with live judgements and prices, in 6 blocks of days."), every
    assert "is unknown: too few for a test: 2 blocks of 2 days; 6 are needed; " in few, few


def test_power_is_told_of_the_pair_at_hand(database: dict[str, str]) -> None:
    asked = ("v3", "short", "--primary", "profit", "--difference", "profit=0.01", "--json")
    (profit,) = (
        one for one in json.loads(run(database, *asked, command=power).stdout)["metrics"] if one["metric"] == "profit"
    )
    assert profit["detectable"] > 0.01 and profit["needed_blocks"] > profit["blocks"] == 8
    unknown = run(database, "v3", "short", "--difference", "luck=1", command=power).exception
    assert isinstance(unknown, ConfigError) and "there is no such metric" in str(unknown)


def test_the_primary_metric_is_what_the_run_declared_and_another_one_is_said_to_be_chosen_afterwards(
    database: dict[str, str],
) -> None:
    async def declare() -> None:
        row = {"run_id": "good", "label": "x", "status": "finished", "changes": '{"prompts":{},"primary":"brier@1h"}'}
        row |= {"started_at": AT, "cases_from": AT, "cases_to": AT, "version": 1}
        async with tables_of(database) as tables:
            await fill(tables, "runs", [row])

    asyncio.run(declare())
    done = run(database, "v3", "good", "--format", "json")
    assert done.exit_code == exits.OK, repr(done.exception)
    told = json.loads(done.stdout)
    assert (told["metrics"][0]["metric"], told["metrics"][0]["role"]) == ("brier", "primary")
    assert not [text for text in told["warnings"] if "after the run" in text]
    other = json.loads(run(database, "v3", "good", "--primary", "profit", "--format", "json").stdout)
    assert other["metrics"][0]["metric"] == "profit"
    assert [text for text in other["warnings"] if "after the run" in text] == [
        "profit was made the primary metric after the run (run good declared brier@1h): a metric chosen by its result proves nothing"
    ]


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
    said = "look 2 at some of these cases (newsproof backtest trials): p-values are multiplied by 3, and intervals are widened to match"
    assert said in warnings
    more = [told("short", "--cap", cap)["metrics"][0] for cap in ("0.23", "0.22")]
    assert [(m["p"], m["verdict"]) for m in more] == [(6 / 128, "worse"), (10 / 128, "not distinguishable")]
    assert told("short") == first, "the first look is the first look whenever it is printed"
    later = told("v3")["metrics"][0]
    assert (later["p"], later["p_holm"], later["verdict"]) == (None, None, "not distinguishable")
    assert later["delta"] == pytest.approx(-0.005) and later["low"] is not None
    passed = run(database, "good", "v3", "--primary", "profit", "--margin", "0.5", command=gate)
    assert passed.exit_code == exits.GATE_UNDECIDED, "that no loss is left would be a claim"
    assert (
        "is not tested: another candidate was looked at" in passed.stdout
        and "run v3 began after 4 looks" in passed.stdout
    )


async def test_a_truth_is_a_label_or_what_an_official_page_says_later(beside_live: dict[str, str]) -> None:
    async with tables_of(beside_live) as tables:
        assert await read_truths(tables) == {NAMES[0]: 0.0, NAMES[1]: 0.0}
        await fill(tables, "labels", [{"source": "us", "version": 1, "case_id": NAMES[0], "truth": "true", "note": ""}])
        assert await read_truths(tables) == {NAMES[0]: 1.0, NAMES[1]: 0.0}, "a label goes before"
