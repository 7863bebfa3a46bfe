"""The plan of a run, what a model may know from its training, and the cost limit."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from types import SimpleNamespace
from typing import Any, cast

import pytest

from evaluation.declaration import parse_declaration
from evaluation.replay.cutoffs import cutoff_of, cutoffs, known_to_training
from evaluation.replay.verify import Difference, VerifyResult
from evaluation.runs.backtest import RunResult
from evaluation.runs.performer import CostLimit, CostLimitReached
from evaluation.runs.plan import RunPlan, run_id_of
from evaluation.runs.run_tables import RunTotals
from infra.settings import Settings
from newsproof.app.invocation import parse_time
from newsproof.cli.measure.backtest import _print_ran, show_verified
from newsproof.cli.read.case import _print_replay
from schemas.errors import ConfigError
from streams.replay import Change, ReplayResult
from tests.evaluation.runs.run_samples import CountingModel, prompt

AT = datetime(2024, 6, 1, tzinfo=UTC)


@pytest.mark.parametrize("run_id", ["live", "Upper", "a/b", "", "x" * 61, "-a"])
def test_a_run_id_that_cannot_name_a_topic_is_refused(run_id: str) -> None:
    with pytest.raises(ConfigError, match="--run-id"):
        run_id_of(run_id, Change(), AT)


def test_a_run_without_a_name_is_named_after_its_change() -> None:
    assert run_id_of(None, Change(prompts={"plan": prompt("plan")}), AT) == "plan-v4-20240601-000000"
    assert run_id_of(None, Change(), AT).startswith("aa-")


def test_a_plan_names_the_log_that_it_replays_and_the_option_that_chose_it() -> None:
    options = {"journal": "", "sample": "--sample-log ", "my logs/one.gz": "--file 'my logs/one.gz' "}
    for log, option in options.items():
        plan = RunPlan(run_id="r", log=log)
        assert plan.range_options == option
        assert parse_declaration(plan.changes).log == ("" if log == "journal" else log)


@pytest.mark.parametrize(
    ("plan", "note"),
    [
        (
            RunPlan(run_id="baseline"),
            "This run is not a baseline: other models than the recorded ones answered 41 calls.",
        ),
        (RunPlan(run_id="mini", models={"plan": "openai:mini"}), ""),
    ],
)
def test_an_unchanged_run_by_other_models_says_that_it_is_no_baseline(
    plan: RunPlan, note: str, capsys: pytest.CaptureFixture[str]
) -> None:
    _print_ran(plan, RunResult(status="finished", totals=RunTotals(other_model=41)), as_json=False)
    said = capsys.readouterr().out
    assert ("not a baseline" in said) == bool(note) and note in said


def test_a_replayed_case_counts_one_call_as_one(capsys: pytest.CaptureFixture[str]) -> None:
    called = SimpleNamespace(execution="executed", step="synthesize", calls=())
    reused = SimpleNamespace(execution="reused", step="plan", calls=())
    recording = SimpleNamespace(case_id="a", received=SimpleNamespace(news=SimpleNamespace(text="news")))
    for replies, said in ((1, "1 reply reused"), (2, "2 replies reused")):
        replayed = ReplayResult(status="miss", case=None, end=None, used=cast(Any, (called, *[reused] * replies)))
        _print_replay(cast(Any, recording), replayed)
        out = capsys.readouterr().out
        assert "Called again: synthesize (1 call, " in out and said in out


def test_a_log_of_other_rules_is_not_said_to_differ(capsys: pytest.CaptureFixture[str]) -> None:
    refused = Difference(case_id="a", status="refused", diverged_at="", reason="recorded by rules 1")
    show_verified(VerifyResult(cases=2, identical=1, other_rules=1, differences=[refused]))
    said = capsys.readouterr().out
    assert "Cases that were not repeated exactly (at most 20)" in said
    assert "1 of 2 cases were repeated byte for byte: 0 calls" in said
    assert "1 case followed other judgement rules" in said


def test_times_are_utc_and_what_is_none_is_refused() -> None:
    assert parse_time("--from", "2024-06-01") == AT
    assert parse_time("--from", "2024-06-01T02:00:00+02:00") == AT
    with pytest.raises(ConfigError, match="--to 'soon' is not a time"):
        parse_time("--to", "soon")


def test_what_a_model_may_have_read_in_its_training_is_flagged() -> None:
    assert all(c.as_of >= c.cutoff for c in cutoffs())
    end = cutoff_of("models/gemini-2.5-pro")
    assert end is not None
    assert known_to_training([None, "gemini-2.5-pro"], end)
    assert not known_to_training(["gemini-2.5-pro"], end + timedelta(seconds=1))
    assert not known_to_training(["a-model-nobody-knows"], AT)
    assert cutoff_of("gpt-5-mini-2025") != cutoff_of("gpt-5")
    defaults = [Settings.model_fields[name].default for name in ("model_light", "model_heavy")]
    assert all(cutoff_of(name) is not None for name in defaults), "whose news would all pass for unread"


def test_the_cost_limit_holds_the_worst_case_of_what_is_under_way() -> None:
    model = CountingModel(cost=Decimal("0.4"))
    cost_limit = CostLimit(Decimal(1))
    held = [cost_limit.take(None, [model]) for _ in range(2)]  # type: ignore[arg-type]
    with pytest.raises(CostLimitReached):
        cost_limit.take(None, [model])  # type: ignore[arg-type]
    cost_limit.give_back(held[0])
    cost_limit.settle(held[1], ())
    assert cost_limit.take(None, [model]) == Decimal("0.4")  # type: ignore[arg-type]


async def test_a_call_waits_for_those_under_way_before_the_run_is_stopped() -> None:
    model = CountingModel(cost=Decimal("0.6"))
    cost_limit = CostLimit(Decimal(1))
    held = cost_limit.take(None, [model])  # type: ignore[arg-type]
    waiting = asyncio.create_task(cost_limit.taken(None, [model]))  # type: ignore[arg-type]
    await asyncio.sleep(0)
    assert not waiting.done()
    cost_limit.settle(held, ())
    assert await waiting == Decimal("0.6")
    cost_limit.spent += Decimal("0.6")
    cost_limit.give_back(Decimal("0.6"))
    with pytest.raises(CostLimitReached):
        await cost_limit.taken(None, [model])  # type: ignore[arg-type]
