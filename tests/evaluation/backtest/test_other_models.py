"""Another model for a task: the options that name one, and which recorded replies it reuses."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from evaluation.replay.candidates import candidate_models, with_models
from evaluation.replay.journal import recordings
from evaluation.runs.plan import RunPlan
from infra.settings import Settings, load_settings
from schemas.errors import ConfigError
from tests.evaluation.backtest.samples import Backtest, prompt


def live(**more: Any) -> Settings:
    return load_settings(newsproof_mode="live", gemini_api_key="g", openai_api_key="o", **more)


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
