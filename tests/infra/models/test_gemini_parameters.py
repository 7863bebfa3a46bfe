"""What goes to which Gemini: a budget or a level and never both, room for it in the limit, sampling where it counts."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from infra.models.gemini_parameters import output_limit, takes_sampling, thinking_config
from schemas.effects import MOST_OUTPUT_TOKENS, Thinking
from tests.infra.fakes import gemini as fake
from tests.infra.fakes.gemini import ASK, gemini

LEVELS: tuple[Thinking, ...] = ("off", "low", "medium", "high")
BUDGETS = ("gemini-2.5-pro", "gemini-2.5-flash", "gemini-2.5-flash-lite", "models/gemini-2.5-flash-lite")
ON_LEVELS = (
    ("gemini-3.8-flash", "LOW"),
    ("gemini-3.7-flash", "LOW"),
    ("gemini-3.6-flash", "MINIMAL"),
    ("gemini-3.5-flash", "MINIMAL"),
    ("gemini-3-flash-preview", "MINIMAL"),
    ("gemini-3.5-flash-lite", "MINIMAL"),
    ("models/Gemini-3.1-flash-lite", "MINIMAL"),
    ("gemini-3.1-pro-preview", "LOW"),
    ("gemini-flash-latest", "LOW"),
    ("gemini-4-flash", "LOW"),
    ("gemini-10.5-pro", "LOW"),
)


@pytest.mark.parametrize(("model", "least"), ON_LEVELS)
def test_from_version_3_on_a_level_goes_out_and_off_is_the_lowest_that_the_model_takes(model: str, least: str) -> None:
    sent = [thinking_config(model, thinking) for thinking in LEVELS]
    assert [c and c.thinking_level and c.thinking_level.value for c in sent] == [least, "LOW", "MEDIUM", "HIGH"]
    assert all(c is not None and c.thinking_budget is None for c in sent)
    assert not takes_sampling(model)


@pytest.mark.parametrize("model", BUDGETS)
def test_version_2_5_takes_a_budget_which_only_pro_cannot_set_to_nothing(model: str) -> None:
    sent = [thinking_config(model, thinking) for thinking in LEVELS]
    assert [c and c.thinking_budget for c in sent] == [128 if "pro" in model else 0, 1_024, 8_192, 24_576]
    assert all(c is not None and c.thinking_level is None for c in sent)
    assert takes_sampling(model)


@pytest.mark.parametrize("model", ["gemini-2.0-flash", "gemini-1.5-pro", "gemma-3-27b-it", "m"])
def test_what_does_not_think_is_sent_nothing_of_it_and_needs_no_room(model: str) -> None:
    assert {thinking_config(model, thinking) for thinking in LEVELS} == {None}
    assert {output_limit(model, 800, thinking) for thinking in LEVELS} == {800}
    assert takes_sampling(model)


@pytest.mark.parametrize(
    ("model", "limits"),
    [
        ("gemini-2.5-flash-lite", [800, 1_824, 8_992, 25_376]),
        ("gemini-2.5-pro", [1_824, 1_824, 8_992, 25_376]),
        ("gemini-3.5-flash-lite", [1_824, 4_896, 8_992, 25_376]),
        ("gemini-3.8-flash", [4_896, 4_896, 8_992, 25_376]),
    ],
)
def test_the_answers_limit_and_the_room_for_thinking_are_one_limit_and_within_the_models_own(
    model: str, limits: list[int]
) -> None:
    assert [output_limit(model, 800, thinking) for thinking in LEVELS] == limits
    assert output_limit(model, 60_000, "high") == MOST_OUTPUT_TOKENS


@pytest.mark.parametrize(
    ("model", "sent"),
    [
        (
            "gemini-3.8-flash",
            {"maxOutputTokens": 500 + 8_192, "thinkingConfig": {"thinking_level": "MEDIUM"}},
        ),
        (
            "gemini-2.5-flash-lite",
            {
                "maxOutputTokens": 500 + 8_192,
                "thinkingConfig": {"thinking_budget": 8_192},
                "temperature": 0.2,
                "candidateCount": 1,
            },
        ),
        ("gemini-2.0-flash", {"maxOutputTokens": 500, "temperature": 0.2, "candidateCount": 1}),
    ],
)
async def test_each_family_is_sent_what_it_takes_and_nothing_else(model: str, sent: dict[str, Any]) -> None:
    async with gemini(fake.text("ok"), model=model) as (port, server):
        await port.perform(replace(ASK, thinking="medium"))
    assert server.requests[0].json["generationConfig"] == sent
