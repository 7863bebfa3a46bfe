"""Which effort an OpenAI-compatible model is asked for by its name, and how many tokens its thinking may take."""

from __future__ import annotations

import pytest

from infra.models.openai_thinking import effort_of
from schemas.effects import Thinking

ROWS: list[tuple[str, Thinking, bool, tuple[str | None, int]]] = [
    ("gpt-4o", "high", False, (None, 0)),
    ("gpt-5-chat-latest", "low", False, (None, 0)),
    ("gpt-5-mini", "off", False, ("minimal", 512)),
    ("openai/gpt-5-mini", "medium", False, ("medium", 4096)),
    ("gpt-5-pro", "low", False, ("high", 16_384)),
    ("gpt-5.1", "off", False, ("none", 0)),
    ("gpt-5.4-mini", "low", False, ("low", 1024)),
    ("gpt-5.2-pro", "off", False, ("medium", 4096)),
    ("gpt-5.1-codex-mini", "off", False, ("low", 1024)),
    ("gpt-6-astra", "off", False, ("none", 0)),
    ("o4-mini", "off", False, ("low", 1024)),
    ("google/gemini-3.8-flash", "off", False, ("low", 4096)),
    ("x-ai/grok-4", "off", False, (None, 16_384)),
    ("moonshotai/kimi-k2.5", "off", False, (None, 16_384)),
    ("google/gemini-2.5-pro", "off", False, ("low", 1024)),
    ("google/gemini-2.5-flash-lite", "off", False, ("none", 0)),
    ("claude-sonnet-4-6", "off", False, (None, 0)),
    ("claude-sonnet-4-6", "high", False, ("high", 16_384)),
    ("claude-sonnet-4-5-thinking", "off", False, (None, 16_384)),
    ("claude-sonnet-4-5-thinking", "low", False, ("low", 16_384)),
    ("deepseek-reasoner", "off", False, (None, 16_384)),
    ("x-ai/grok-4-fast-non-reasoning", "off", False, (None, 0)),
    ("qwen3:8b", "off", True, ("none", 0)),
    ("qwen3:8b", "medium", True, ("medium", 4096)),
    ("gpt-oss:20b", "off", True, ("low", 1024)),
    ("deepseek-r1:14b", "off", True, ("none", 16_384)),
]


@pytest.mark.parametrize(("model", "thinking", "local", "expected"), ROWS, ids=[f"{r[0]}-{r[1]}" for r in ROWS])
def test_the_effort_is_the_least_that_the_model_takes_and_its_allowance_goes_with_it(
    model: str, thinking: Thinking, local: bool, expected: tuple[str | None, int]
) -> None:
    assert effort_of(model, thinking, local=local) == expected
