"""The ``reasoning_effort`` for an OpenAI-compatible model, chosen by its name, because providers do not list it."""

from __future__ import annotations

import re
from typing import Literal

from infra.models.gemini_parameters import room_for
from schemas.effects import Thinking

Effort = Literal["none", "minimal", "low", "medium", "high"]

ALLOWANCE: dict[Effort, int] = {"none": 0, "minimal": 512, "low": 1024, "medium": 4096, "high": 16_384}
"""Tokens by level, added to a call's limit and to its maximum cost. Our own choice: no provider states a number."""
EFFORTS: tuple[Effort, ...] = tuple(ALLOWANCE)
"""In ascending order."""

_ALWAYS = re.compile(
    r"(?<!non-)(think|reason)|(^|[-/])r1\b|qwq|magistral"
    r"|grok-[4-9](?!.*non-reasoning)|kimi-k2\.[5-9]|glm-(4\.[5-9]|[5-9])|minimax-m|deepseek-v[4-9]"
)
"""Models that always think: their name says so (claude-…-thinking, deepseek-reasoner, deepseek-r1:14b), or only a
parameter of their own turns thinking off (https://github.com/BerriAI/litellm-docs/pull/559).
"""
_OPENAI = re.compile(r"gpt-(\d+)(?:\.(\d+))?")
_GEMINI = re.compile(r"gemini-(\d+)(?:\.\d+)?(-pro)?")


def effort_of(model: str, thinking: Thinking, *, local: bool) -> tuple[Effort | None, int]:
    """Return the effort to request (None = omit it), and the number of tokens to add for thinking.

    ``off`` requests the lowest effort that the model accepts. Nothing is requested from a model that is known not to
    think. ``local``: a server of open models, where "none" turns thinking off, and models without thinking ignore it
    (https://github.com/ggml-org/llama.cpp/pull/26045, https://docs.ollama.com/api/openai-compatibility).
    """
    name = model.lower().rpartition("/")[2]
    always = _ALWAYS.search(name) is not None
    if _never(name):
        return None, 0
    least = _least(name) or ("none" if local else None)
    wanted: Effort = "none" if thinking == "off" else thinking
    asked = (least or "none", wanted)
    effort = None if least is None and thinking == "off" else max(asked, key=EFFORTS.index)
    if effort is not None and "gemini" in name:
        return effort, room_for(name, thinking)
    return effort, ALLOWANCE["high"] if always else ALLOWANCE[effort or "none"]


def _least(name: str) -> Effort | None:
    """Return the lowest effort of a model that is known to think; None for any other.

    https://learn.microsoft.com/en-us/javascript/api/@azure/ai-projects/reasoningeffort (OpenAI: before 5.1 no model
    accepts none; gpt-5-pro accepts only high), https://ai.google.dev/gemini-api/docs/openai (3.x and 2.5-pro cannot be
    off).
    """
    if re.match(r"o\d|gpt-oss", name):
        return "low"
    if (gemini := _GEMINI.match(name)) is not None:
        return None if int(gemini[1]) < 2 else "low" if int(gemini[1]) > 2 or gemini[2] else "none"
    if (openai := _OPENAI.match(name)) is None:
        return None
    version = (int(openai[1]), int(openai[2] or 0))
    if "-pro" in name:
        return "high" if version == (5, 0) else "medium"
    if "codex" in name:
        return "low"
    return "minimal" if version == (5, 0) else "none"


def _never(name: str) -> bool:
    openai = _OPENAI.match(name)
    return openai is not None and (int(openai[1]) < 5 or "-chat" in name)
