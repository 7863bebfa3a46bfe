"""Candidates: from the options of the command to one plan each, and another model for a task."""

from __future__ import annotations

import json
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from agents.prompts import load_prompts
from infra.embedded.clickhouse.server import EmbeddedClickHouse
from infra.embedded.kafka.server import EmbeddedKafka
from infra.settings import Settings, load_settings
from newsproof.app import exits
from newsproof.cli.main import app
from newsproof.evaluation.backtest.journal import recordings
from newsproof.evaluation.backtest.models import candidate_models, with_models
from newsproof.evaluation.backtest.run.candidates import plans_of
from newsproof.evaluation.backtest.run.plan import RunPlan
from schemas.errors import ConfigError
from schemas.topics import Topics
from tests.newsproof.evaluation.backtest.samples import Backtest, prompt

NOW = datetime(2026, 5, 1, tzinfo=UTC)
SHARED = RunPlan(run_id="", sample=6)


def live(**more: Any) -> Settings:
    return load_settings(newsproof_mode="live", gemini_api_key="g", openai_api_key="o", **more)


def written(path: Path, text: str, name: str = "synthesize") -> str:
    """A prompt file with other words than the newest one."""
    now = load_prompts()[name]
    head = f"---\nname: {name}\nversion: 9\ntier: {now.tier}\n---\n"
    path.write_text(head + text, "utf-8")
    return str(path)


def plans(settings: Settings | None = None, **options: Any) -> list[RunPlan]:
    usual: dict[str, Any] = {"prompts": (), "models": (), "candidates": (), "run_id": None, "trial": None}
    return plans_of(settings or load_settings(newsproof_mode="offline"), SHARED, **usual | options, now=NOW)


def test_each_candidate_has_a_run_of_its_own_under_the_name_of_the_trial(tmp_path: Path) -> None:
    one, two = written(tmp_path / "a.md", "Be strict."), written(tmp_path / "b.md", "Be terse.")
    found = plans(candidates=(one, f"synthesize={two}", "triage=v1,plan=v3"), trial="spring")
    assert [sorted(p.prompts) for p in found] == [["synthesize"], ["synthesize"], ["plan", "triage"]]
    assert {(p.trial, p.sample) for p in found} == {("spring", 6)}
    assert len({p.run_id for p in found}) == 3 and all(p.run_id.startswith("spring-") for p in found)
    again = plans(candidates=(one, f"synthesize={two}", "triage=v1,plan=v3"), trial="spring")
    assert [p.run_id for p in again] == [p.run_id for p in found]


def test_what_all_candidates_share_is_changed_in_each() -> None:
    found = plans(live(), candidates=("synthesize=openai:gpt-5-mini", "synthesize=v1"), models=("plan=gemini:g-1",))
    assert [p.models for p in found] == [
        {"plan": "gemini:g-1", "synthesize": "openai:gpt-5-mini"},
        {"plan": "gemini:g-1"},
    ]
    assert found[0].label == "plan by gemini:g-1, synthesize by openai:gpt-5-mini"
    assert json.loads(found[0].changes)["models"] == found[0].models


def test_without_candidates_it_is_one_run_named_by_its_change() -> None:
    assert [p.run_id for p in plans(prompts=("synthesize=v1",))] == ["synthesize-v1-20260501-000000"]
    assert plans(live(), models=("synthesize=openai:gpt-5",))[0].run_id == "synthesize-openai-gpt-5-20260501-000000"
    assert plans(run_id="mine")[0].run_id == "mine"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"trial": "t"}, "give them with --candidate"),
        ({"candidates": ("synthesize=v1",), "run_id": "r"}, "write --trial NAME"),
        ({"candidates": ("synthesize=v1",), "trial": "No Name"}, "--trial 'No Name'"),
        ({"candidates": ("synthesize=v1", "synthesize=v1")}, "changes what another candidate changes"),
        ({"candidates": ("nothing.md",)}, "--candidate nothing.md: the file cannot be read"),
        ({"candidates": ("synthesize=openai:m",)}, "models are chosen in live mode alone"),
    ],
)
def test_options_that_do_not_go_together_are_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        plans(**options)


@pytest.mark.parametrize(
    "option", ["synthesize", "nonsense=openai:m", "synthesize=nobody:m", "synthesize=openai:a|openai:b", "synthesize="]
)
def test_a_model_that_cannot_be_asked_is_refused_by_the_name_of_the_option(option: str) -> None:
    with pytest.raises(ConfigError, match=f"--model '{option.replace('|', '.')}'"):
        candidate_models(live(), [option])


def test_another_model_replaces_the_settings_route_of_its_task_alone() -> None:
    settings = live(model_tasks="synthesize=gemini:a|gemini:b, plan=gemini:c")
    assert with_models(settings, {"synthesize": "openai:m"}).model_tasks == " plan=gemini:c,synthesize=openai:m"
    assert with_models(settings, {}) is settings


# Another model, the same question


async def test_replies_of_another_model_are_asked_for_again_and_of_no_other_task() -> None:
    backtest, recorded = Backtest(), Counter[str]()
    async for recording in recordings(backtest.source, lambda _id: True):
        recorded.update(c.prompt_name for c in recording.calls if c.prompt_name)
    for every in (False, True):
        backtest = Backtest()
        ran = await backtest.run(RunPlan(run_id="m", models={"synthesize": "openai:gpt-5-mini"}), every=every)
        assert backtest.model.asked == {"synthesize": recorded["synthesize"]}
        assert (ran.status, ran.totals.missed, ran.totals.replayed) == ("finished", 0, 42)


async def test_a_reply_that_this_model_gave_is_reused() -> None:
    backtest, names = Backtest(), Counter[str]()
    async for recording in recordings(backtest.source, lambda _id: True):
        names.update(f"{c.provider}:{c.model}" for c in recording.calls if c.prompt_name == "synthesize")
    ((given, many),) = names.most_common()
    assert many > 30
    ran = await backtest.run(RunPlan(run_id="m", models={"synthesize": given}))
    assert (ran.totals.executed, backtest.model.asked.total()) == (0, 0)


async def test_another_prompt_by_another_model_is_asked_once() -> None:
    backtest = Backtest()
    plan = RunPlan(run_id="m", prompts={"synthesize": prompt("synthesize")}, models={"synthesize": "openai:gpt-5"})
    ran = await backtest.run(plan)
    assert ran.totals.executed == backtest.model.asked.total() == backtest.model.asked["synthesize"]


# The command


@pytest.mark.slow
def test_a_trial_is_run_and_listed(
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
    one, two = (written(tmp_path / f"{n}.md", f"Be strict: {n}.", "critique") for n in "ab")

    def command(*arguments: str) -> list[dict[str, Any]]:
        done = CliRunner().invoke(app, ["backtest", *arguments, "--json"], env=env)
        assert done.exit_code == exits.OK, (done.output, done.exception)
        return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]

    few = ("--sample-log", "--sample", "8")
    command("run", *few, "--run-id", "base")
    estimates = command("run", *few, "--candidate", one, "--candidate", two, "--dry-run")
    assert len(estimates) == 2 and all(e["executed"] > 0 for e in estimates)
    ran = command("run", *few, "--candidate", one, "--candidate", two, "--trial", "t")
    assert [(r["status"], r["cases"]) for r in ran] == [("finished", 8)] * 2
    listed = command("trials")
    assert [(t["trial"], t["earlier"], t["allowed"]) for t in listed] == [
        ("", 0, True),
        ("t", 0, True),
        ("t", 1, False),
    ]
