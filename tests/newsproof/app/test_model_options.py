"""MODEL_OPTIONS: a task's own temperature and length, in place of its prompt's front matter, and pinned by cases."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from agents.core.case import Replies
from agents.prompts import load_prompts
from agents.verification.triage import STEP as TRIAGE
from infra.settings import Settings
from newsproof.app.composition import refuse_unusable, snapshot_of
from newsproof.app.model_options import ignored_options, tuned_prompts
from schemas.effects import CallModel, EarlierReply
from schemas.errors import ConfigError
from tests.specification import call_of, given, opened


def settings(options: str) -> Settings:
    return Settings(_env_file=None, newsproof_mode="offline", model_options=options)  # type: ignore[call-arg]


def test_without_options_every_prompt_is_as_its_file_has_it() -> None:
    assert snapshot_of(settings("")).prompts == load_prompts()


def test_an_option_is_in_the_snapshot_and_in_what_the_model_is_asked() -> None:
    plain = snapshot_of(settings(""))
    warm = snapshot_of(settings("triage = temperature:0.4|max_output_tokens:1234, critique=temperature:1"))
    assert warm.config_hash != plain.config_hash
    assert warm.prompts["triage"].hash != plain.prompts["triage"].hash
    assert warm.prompts["critique"].max_output_tokens == plain.prompts["critique"].max_output_tokens
    assert warm.prompts["synthesize"] == plain.prompts["synthesize"]
    case = given(opened("SEC approves a spot Bitcoin ETF"), config=warm).case
    (check,) = TRIAGE.ask(case)  # type: ignore[misc]
    checked = replace(case, replies=Replies((call_of(check, EarlierReply(first_case=None)),)))
    _, judgement = TRIAGE.ask(checked)  # type: ignore[misc]
    assert isinstance(judgement, CallModel)
    assert (judgement.temperature, judgement.max_output_tokens) == (0.4, 1234)


def test_the_same_options_give_the_same_hash_and_an_option_equal_to_the_file_changes_nothing() -> None:
    one, two = (tuned_prompts(settings("plan=temperature:0.3"), load_prompts()) for _ in range(2))
    assert one == two
    own = load_prompts()["plan"]
    same = tuned_prompts(settings(f"plan=temperature:{own.temperature}"), load_prompts())
    assert same["plan"] == own


def test_a_temperature_that_a_model_ignores_is_said_to_be_ignored() -> None:
    def notes(options: str, **models: str) -> tuple[str, ...]:
        live = {"newsproof_mode": "live", "gemini_api_key": "g", "openai_api_key": "o", **models}
        return ignored_options(Settings(_env_file=None, model_options=options, **live))  # type: ignore[call-arg, arg-type]

    ignored = "triage: temperature is ignored by gemini-3.8-flash, as by every Gemini from version 3 on"
    assert notes("triage=temperature:0.4,critique=thinking:high") == (ignored,), "long news is read by the heavy model"
    assert notes("triage=temperature:0.4", model_tasks="triage=gemini-2.5-flash-lite") == ()
    assert notes("research_route=temperature:0.4", model_light="openai:gpt-5") == ()
    assert notes("triage=thinking:low", model_light="gemini-3.5-flash-lite") == ()
    assert notes("triage=thinking:high,expand=thinking:off", model_light="openai:gpt-4.1-mini", openai_api_key="k") == (
        "triage: thinking is ignored by gpt-4.1-mini, of which none is known",
    )
    assert ignored_options(settings("triage=temperature:0.4")) == (), "nothing is asked of Gemini offline"


def test_thinking_is_an_option_of_a_task() -> None:
    tuned = tuned_prompts(settings("triage=thinking:high"), load_prompts())
    assert (tuned["triage"].thinking, tuned["critique"].thinking, tuned["plan"].thinking) == ("high", "low", "off")


@pytest.mark.parametrize(
    "options",
    [
        "triage", "triage=", "triage=temperature", "triage=warmth:1", "nobody=temperature:1", "triage=temperature:hot",
        "triage=temperature:3", "triage=temperature:nan", "triage=max_output_tokens:0", "triage=max_output_tokens:1.5",
        "triage=max_output_tokens:99999999", "triage=temperature:null", "triage=thinking:deep", "triage=temperature:0,triage=temperature:1",
    ],
)  # fmt: skip
def test_what_cannot_be_an_option_is_refused_before_anything_starts(options: str) -> None:
    with pytest.raises(ConfigError, match="MODEL_OPTIONS"):
        refuse_unusable(settings(options))
