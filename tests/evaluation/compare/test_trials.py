"""The ledger of trials: who looked at what, and what may be claimed."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from typer.testing import CliRunner

from agents.prompts import load_prompts
from evaluation.compare.run_records import Trial, claim_of, read_trials, write_trial
from evaluation.runs.plan import RunPlan, candidate_of
from infra.clickhouse.client import ClickHouse
from infra.embedded.clickhouse.server import EmbeddedClickHouse
from infra.embedded.kafka.server import EmbeddedKafka
from newsproof.app import exits
from newsproof.cli.main import app
from schemas.errors import ConfigError
from schemas.topics import Topics
from tests.evaluation.runs.run_samples import prompt

MARCH, APRIL, MAY = (datetime(2026, month, 1, tzinfo=UTC) for month in (3, 4, 5))
STRICT, TERSE = ({"synthesize": prompt("synthesize", text=text)} for text in ("Be strict.\n", "Be terse.\n"))


def trial(run_id: str, *, began: int, **changes: Any) -> Trial:
    """A trial of `synthesize` on the cases of March."""
    usual: dict[str, Any] = {
        "candidate": run_id,
        "label": "",
        "changed": ("synthesize",),
        "log": "journal",
    }
    usual |= {"cases": 10, "cases_from": MARCH, "cases_to": APRIL - timedelta(days=1)}
    usual |= {"started_at": MAY + timedelta(hours=began)}
    return Trial(**usual | {"run_id": run_id} | changes)


# What may be claimed


def test_the_first_look_at_a_period_may_be_claimed_and_the_second_was_tuned_on_it() -> None:
    trials = [trial("a", began=0), trial("b", began=1)]
    assert (claim_of(trials, "a").allowed, claim_of(trials, "a").note) == (True, "")
    second = claim_of(trials, "b")
    assert (second.earlier, second.allowed, second.factor) == (1, False, 1)
    assert "tuned on this period: 1 earlier trials used it" in second.note


@pytest.mark.parametrize(
    "other",
    [
        {"cases_from": APRIL, "cases_to": MAY},
        {"changed": ("triage",)},
        {"candidate": ""},
        {"log": "sample"},
        {"started_at": MAY + timedelta(days=9)},
    ],
)
def test_a_trial_of_other_cases_another_prompt_none_at_all_another_log_or_later_takes_no_claim(
    other: dict[str, Any],
) -> None:
    assert claim_of([trial("a", began=0, **other), trial("b", began=1)], "b").allowed


def test_one_case_in_common_is_enough_to_have_looked() -> None:
    touching = trial("a", began=0, cases_from=MARCH - timedelta(days=9), cases_to=MARCH)
    assert not claim_of([touching, trial("b", began=1)], "b").allowed


def test_the_same_candidate_again_may_be_claimed_and_every_earlier_look_raises_the_p_value() -> None:
    trials = [trial(name, began=n, candidate="same") for n, name in enumerate("abc")]
    assert [claim_of(trials, name).factor for name in "abc"] == [1, 2, 3]
    third = claim_of(trials, "c")
    assert third.allowed and "repeats a candidate: p values are multiplied by 3" in third.note
    assert (third.corrected(0.01), third.corrected(0.5)) == (pytest.approx(0.03), 1.0)


def test_live_an_unchanged_run_and_one_before_the_ledger_have_nothing_to_claim() -> None:
    trials = [trial("a", began=0), trial("aa", began=1, candidate="")]
    assert all(claim_of(trials, name).allowed for name in ("live", "aa", "older"))


def test_a_candidate_is_known_by_its_prompts_and_models_whatever_its_run_is_called() -> None:
    one, same = (RunPlan(run_id=run_id, prompts=STRICT) for run_id in ("a", "b"))
    assert candidate_of(one) == candidate_of(same) != candidate_of(RunPlan(run_id="c", prompts=TERSE))
    assert candidate_of(one) != candidate_of(replace(one, models={"synthesize": "openai:m"}))
    assert candidate_of(RunPlan(run_id="aa")) == ""


# On the real engine and the real log


@pytest.fixture
def tables(clickhouse: ClickHouse) -> ClickHouse:
    return clickhouse


async def test_a_row_comes_back_as_it_was_written_and_the_latest_wins(tables: ClickHouse) -> None:
    first = trial("a", began=0, label="synthesize v4")
    for one in (first, trial("b", began=1), replace(first, cases=12)):
        await write_trial(tables, one)
    assert await read_trials(tables) == [replace(first, cases=12), trial("b", began=1)]


@pytest.mark.slow
def test_runs_of_the_command_are_listed_with_what_they_may_claim(
    kafka: EmbeddedKafka, clickhouse_engine: EmbeddedClickHouse, topics: Topics, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    env = {
        **kafka.address.as_environment(),
        "CLICKHOUSE_URL": f"http://{clickhouse_engine.host}:{clickhouse_engine.port}",
        "CLICKHOUSE_DATABASE": topics.prefix.replace("-", "_").replace(".", "_") + "trial",
        "NEWSPROOF_TOPIC_PREFIX": topics.prefix,
        "NEWSPROOF_MODE": "offline",
        "NEWSPROOF_DATA_DIR": str(tmp_path),
    }
    monkeypatch.chdir(tmp_path)
    now = load_prompts()["critique"]
    for name in "ab":
        head = f"---\nname: critique\nversion: 9\ntier: {now.tier}\n---\n"
        (tmp_path / f"{name}.md").write_text(f"{head}Be strict: {name}.", "utf-8")

    def command(*arguments: str) -> list[dict[str, Any]]:
        done = CliRunner().invoke(app, ["backtest", *arguments, "--json"], env=env)
        assert done.exit_code == exits.OK, (done.output, done.exception)
        return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]

    few = ("run", "--sample-log", "--sample", "8")
    command(*few, "--run-id", "base")
    (estimate,) = command(*few, "--prompt", "critique=a.md", "--dry-run")
    assert estimate["executed"] > 0
    refused = CliRunner().invoke(app, ["backtest", *few, "--prompt", "critique=a.md"], env=env).exception
    assert isinstance(refused, ConfigError) and "rules that read no prompt" in str(refused)
    monkeypatch.setattr("evaluation.runs.show._reads_no_prompt", lambda *_: False)
    for name in "ab":
        (ran,) = command(*few, "--prompt", f"critique={name}.md", "--run-id", name)
        assert (ran["status"], ran["cases"]) == ("finished", 8)
    listed = [(t["run_id"], t["earlier"], t["allowed"]) for t in command("trials")]
    assert listed == [("base", 0, True), ("a", 0, True), ("b", 1, False)]
