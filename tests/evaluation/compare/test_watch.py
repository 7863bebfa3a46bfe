"""Watching a run: what it says before the tenth block, after it, and of what it says nothing."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from evaluation.compare.comparison import growing_warning
from evaluation.compare.run_rows import Returns, RunRows, looks_up_misses
from evaluation.compare.watch import (
    Differences,
    WatchResult,
    describe_watch,
    differences_of,
    parse_metric,
    parse_watch,
    watch_result,
)
from evaluation.declaration import StopWhen, Watch
from evaluation.runs.plan import RunPlan
from infra.clickhouse.client import ClickHouse
from infra.embedded.clickhouse.server import EmbeddedClickHouse
from newsproof.app import exits
from newsproof.cli.main import app
from schemas.errors import ConfigError
from tests.evaluation.compare.compare_samples import case, run
from tests.evaluation.compare.watched_runs import fill
from tests.evaluation.stored import new_database

BEGAN = datetime(2026, 3, 1, 12, tzinfo=UTC)


def runs(changes: list[float], stories: dict[int, str] | None = None) -> tuple[RunRows, RunRows, dict[str, datetime]]:
    """A case a day: live's confidence is 0.6, the candidate's differs by the day's change."""
    name = "case-{}".format
    of = stories or {}
    live = [case(name(n), of.get(n, ""), confidence=0.6) for n in range(len(changes))]
    other = [case(name(n), of.get(n, ""), confidence=0.6 + change) for n, change in enumerate(changes)]
    at = {name(n): BEGAN + timedelta(days=n) for n in range(len(changes))}
    return run("live", live, status=""), run("candidate", other), at


def seen(
    metric: str,
    values: list[float],
    *,
    stop_when: StopWhen = "",
    spread: float = 0.01,
    exposed: bool = False,
    shock: float = 0.0,
    code_change: str = "",
) -> WatchResult:
    """A look at one difference a block; they vary by ``spread``."""
    count, of = len(values), parse_metric(metric)
    varied = np.array(values) + np.where(np.arange(count) % 2, spread, -spread)
    found = Differences(
        least=varied, most=varied, at_s=np.arange(count) * float(of.block_s), open_from=count - 1,
        exposed=np.full(count, exposed), shock=shock,
    )  # fmt: skip
    return watch_result("candidate", Watch(metric=metric, stop_when=stop_when), of, found, code_change=code_change)


def test_before_the_tenth_closed_day_it_is_too_early() -> None:
    early = seen("profit@4h", [0.3] * 8)
    assert (early.verdict, early.blocks, early.low, early.stop) == ("too early", 7, None, False)
    assert describe_watch(early) == "too early: 7 of 10 days"
    assert describe_watch(seen("profit@24h", [0.3] * 8)) == "too early: 7 of 10 blocks of 2 days"


def test_a_higher_profit_is_better_and_a_higher_confidence_is_higher() -> None:
    assert seen("profit@4h", [0.3] * 20).verdict == "better"
    assert seen("profit@4h", [-0.3] * 20).verdict == "worse"
    assert seen("confidence", [-0.3] * 40).verdict == "lower"
    undecided = seen("profit@4h", [0.0] * 20, spread=0.3)
    assert (undecided.verdict, undecided.decided_at) == ("not yet distinguishable", None)
    assert describe_watch(seen("profit@4h", [0.3] * 20)).startswith("better since day 18: +0.29")


def test_days_that_may_depend_on_each_other_are_too_few_for_longer() -> None:
    assert "13 days may depend on each other and count as only 3.7" in describe_watch(seen("profit@4h", [0.3] * 14))
    # A metric of the case has the run's moods in each day, and moods that last for weeks do not show in the first ones.
    assert seen("confidence", [0.3] * 20).verdict == "too early"
    assert seen("confidence", [0.3] * 60).verdict == "higher"


def test_days_that_depend_on_each_other_for_weeks_cannot_be_tested_and_stop_no_run() -> None:
    fortnights = seen("confidence", [0.3 + 0.1 * (n // 14 % 2) for n in range(60)], stop_when="either")
    assert (fortnights.verdict, fortnights.low, fortnights.stop) == ("untestable", None, False)
    assert describe_watch(fortnights).startswith(
        "untestable: 59 days depend on each other too strongly and count as only"
    )
    assert describe_watch(fortnights).endswith("watch a profit in another run, or wait for many more days")


def test_better_is_held_while_one_bad_block_would_reverse_it() -> None:
    pennies = seen("profit@24h", [0.005] * 20, spread=0.001, exposed=True, shock=0.2, stop_when="better")
    assert (pennies.verdict, pennies.held, pennies.stop) == ("not yet distinguishable", True, False)
    assert "not called better: one bad block would reverse it" in describe_watch(pennies)
    assert pennies.sides.startswith(
        "the difference is above 0 in 19 of the 19 blocks that differ (sign test: p <0.001)"
    )
    assert seen("profit@24h", [0.05] * 20, exposed=True, shock=0.2).verdict == "better"
    assert seen("profit@24h", [-0.005] * 20, spread=0.001, exposed=True, shock=0.2).verdict == "worse"


def test_where_other_code_decided_no_stop_rule_holds() -> None:
    assert seen("profit@4h", [0.3] * 20, stop_when="either").stop
    assert not seen("profit@4h", [0.3] * 20, stop_when="either", code_change="other code decided r").stop


@pytest.mark.parametrize(
    ("rule", "change", "stops"),
    [
        ("better", 0.3, True),
        ("better", -0.3, False),
        ("worse", -0.3, True),
        ("either", 0.3, True),
        ("either", -0.3, True),
        ("", 0.3, False),
    ],
)
def test_the_stop_rule_holds_on_its_side_alone(rule: StopWhen, change: float, stops: bool) -> None:
    assert seen("profit@4h", [change] * 20, stop_when=rule).stop is stops
    assert seen("profit@4h", [change] * 8, stop_when=rule).stop is False


def test_differences_are_those_of_the_pairs_in_the_blocks_of_their_time() -> None:
    live, candidate, at = runs([0.1, -0.1, 0.2])
    found = differences_of(live, candidate, Returns(), at, parse_metric("confidence"))
    assert found.at_s.tolist() == [BEGAN.timestamp() + 86_400 * n for n in range(3)]
    assert found.open_from == int(BEGAN.timestamp()) // 86_400 + 2
    assert found.least.tolist() == found.most.tolist() == pytest.approx([0.1, -0.1, 0.2])


def test_a_case_that_was_a_miss_may_be_anything_between_its_ends() -> None:
    live, candidate, at = runs([0.1, 0.1])
    rows = [candidate.rows[0], case("case-1", status="miss", has_signal=0)]
    found = differences_of(live, run("candidate", rows), Returns(), at, parse_metric("confidence"))
    assert (found.least.tolist(), found.most.tolist()) == (pytest.approx([0.1, -0.6]), pytest.approx([0.1, 0.4]))


def test_a_profit_is_zero_where_nobody_acts_and_its_blocks_are_open_until_prices_are_there() -> None:
    _, _, at = runs([0.0] * 8)
    acted = {0: "buy", 1: "sell", 4: "buy", 6: "buy"}
    rows = [case(f"case-{n}", action=acted.get(n, "observe"), horizon_s=3600) for n in range(8)]
    nothing = run("live", [case(f"case-{n}", action="observe") for n in range(8)], status="")
    held = {(f"case-{n}", "BTC", 86_400): 0.03 for n in (0, 1, 4)}  # the price of case-6 is not there yet
    found = differences_of(nothing, run("candidate", rows), Returns(held=held), at, parse_metric("profit@24h"))
    assert found.least.tolist() == pytest.approx([0.028, -0.032, 0.0, 0.0, 0.028, 0.0, -0.252, 0.0])
    assert found.most.tolist() == pytest.approx([0.028, -0.032, 0.0, 0.0, 0.028, 0.0, 0.248, 0.0])
    assert found.open_from == int((BEGAN + timedelta(days=4)).timestamp()) // 172_800
    assert found.exposed is not None and found.exposed.tolist() == [n in acted for n in range(8)]
    assert found.shock == 0.03


def test_each_case_counts_in_the_block_of_its_own_day_whatever_its_story() -> None:
    live, candidate, at = runs([0.1, 0.2, 0.3, 0.4], {0: "hack", 2: "hack"})
    found = differences_of(live, candidate, Returns(), at, parse_metric("confidence"))
    assert found.least.tolist() == pytest.approx([0.1, 0.2, 0.3, 0.4])


@pytest.mark.parametrize("written", ["brier@4h", "full_cost", "confidence@4h", "profit@2h", "action_flips", ""])
def test_a_metric_that_cannot_be_watched_is_refused_with_those_that_can(written: str) -> None:
    with pytest.raises(ConfigError, match=r"--metric .*write one of profit@5m.*confidence, action_rate"):
        parse_metric(written)


def test_a_profit_at_each_signals_own_horizon_would_take_years_and_is_refused() -> None:
    with pytest.raises(ConfigError, match="ten blocks would then take 600 days"):
        parse_metric("profit")


def test_a_metric_without_a_better_side_stops_on_either_alone() -> None:
    with pytest.raises(ConfigError, match="--stop-when either"):
        parse_watch("confidence", "better")
    assert parse_watch("confidence", "either") == Watch(metric="confidence", stop_when="either")


def test_a_backtest_that_looked_up_what_was_missing_is_named() -> None:
    assert looks_up_misses(RunPlan(run_id="r", on_miss="live").changes)
    shadow = RunPlan(run_id="r", on_miss="live", watch=Watch(metric="confidence")).changes
    assert not any(map(looks_up_misses, (shadow, RunPlan(run_id="r").changes, "", "{")))


def test_a_comparison_of_a_growing_run_says_so() -> None:
    assert growing_warning("r", "finished", WATCHED.changes) == growing_warning("live", "", "") == ""
    assert "newsproof backtest watch r" in growing_warning("r", "running", WATCHED.changes)
    for changes in (RunPlan(run_id="r").changes, "", "{"):
        assert "wait for its end" in growing_warning("r", "stopped", changes)


# On the real engine


WATCHED = RunPlan(run_id="shadow-1", watch=Watch(metric="confidence", stop_when="either"))


@pytest.fixture(scope="module")
def database(clickhouse_engine: EmbeddedClickHouse) -> dict[str, str]:
    async def runs(tables: ClickHouse) -> None:
        await fill(tables, WATCHED, [-0.2] * 41)
        await fill(tables, RunPlan(run_id="plain"), [0.1])

    return new_database(clickhouse_engine, runs)


def watch(database: dict[str, str], *arguments: str) -> Any:
    return CliRunner().invoke(app, ["backtest", "watch", *arguments], env=database)


def test_the_command_tells_how_the_run_stands(database: dict[str, str]) -> None:
    done = watch(database, "shadow-1", "--json")
    assert done.exit_code == exits.OK, done.output
    found = json.loads(done.stdout.splitlines()[-1])
    assert (found["verdict"], found["blocks"], found["cases"], found["decided_at"]) == ("lower", 40, 82, 39)
    assert found["delta_low"] == found["delta_high"] == pytest.approx(-0.2) and found["low"] < -0.2 < found["high"] < 0
    assert found["stop"] is True
    shown = watch(database, "shadow-1").stdout
    assert "shadow-1 compared with offline judgements (run id live)" in shown
    assert "Verdict: lower since day 39" in shown and "The stop rule (either) holds" in shown


def test_the_table_of_runs_says_that_avoided_costs_are_dollars(database: dict[str, str]) -> None:
    shown = CliRunner().invoke(app, ["backtest", "show", "plain"], env=database).stdout
    assert "USD ┃ avoided USD ┃" in shown


def test_a_run_without_a_metric_cannot_be_watched_afterwards(database: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match="started without a metric to watch"):
        raise watch(database, "plain").exception
    with pytest.raises(ConfigError, match="there is no run 'none'"):
        raise watch(database, "none").exception
