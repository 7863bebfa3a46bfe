"""The parameters that each Gemini model accepts: thinking, sampling, and the output limit.

Sources, as of 2026-11-23. Levels: the "Supported thinking levels" of Google's developer guides,
https://docs.cloud.google.com/gemini-enterprise-agent-platform/models/guides/gemini-3-8-flash (likewise 3-5-flash,
3-6-flash, 3-7-flash). Budgets: https://ai.google.dev/gemini-api/docs/generate-content/thinking. Gemini refuses a
request with both, or with a level that the model does not have. Sampling:
https://ai.google.dev/gemini-api/docs/generate-content/whats-new-gemini-3.7.
"""

from __future__ import annotations

import re

from google.genai import types

from schemas.effects import MOST_OUTPUT_TOKENS, Thinking

_VERSION = re.compile(r"gemini-(\d+)(?:\.(\d+))?\b")
_WITH_MINIMAL = re.compile(r"gemini-3(\.[56])?-flash\b|gemini-[\d.]+-flash-lite\b")
"""Models of version 3 whose lowest level is minimal. For other and unknown models it is low."""
_LEVELS: dict[Thinking, types.ThinkingLevel] = {
    "off": types.ThinkingLevel.LOW,
    "low": types.ThinkingLevel.LOW,
    "medium": types.ThinkingLevel.MEDIUM,
    "high": types.ThinkingLevel.HIGH,
}
_BUDGETS: dict[Thinking, int] = {"off": 0, "low": 1_024, "medium": 8_192, "high": 24_576}
"""Thinking tokens for 2.5, according to Google's mapping from effort (https://ai.google.dev/gemini-api/docs/openai)."""
_LEAST_OF_PRO = 128
"""Minimum budget of 2.5 Pro, whose thinking cannot be turned off."""
_ALLOWANCES = {
    types.ThinkingLevel.MINIMAL: 1_024,
    types.ThinkingLevel.LOW: 4_096,
    types.ThinkingLevel.MEDIUM: 8_192,
    types.ThinkingLevel.HIGH: 24_576,
}
"""Tokens added for each level. Google states no numbers: ``max_output_tokens`` counts thinking, and so bounds it."""
_LEAST_ROOM = 1_024
"""Minimum tokens added for a budget above 0, because a model may exceed its budget."""


def thinking_config(model: str, thinking: Thinking) -> types.ThinkingConfig | None:
    """Return a budget for 2.5, a level from 3 on (and for names without a version), None for other models."""
    version = _version(model)
    if version is None or version < (2, 5):
        return None
    if version < (3, 0):
        pro = "pro" in model and thinking == "off"
        return types.ThinkingConfig(thinking_budget=_LEAST_OF_PRO if pro else _BUDGETS[thinking])
    minimal = thinking == "off" and _WITH_MINIMAL.search(model.lower()) is not None
    return types.ThinkingConfig(thinking_level=types.ThinkingLevel.MINIMAL if minimal else _LEVELS[thinking])


def output_limit(model: str, answer_tokens: int, thinking: Thinking) -> int:
    """Return the request's ``max_output_tokens``: the answer's tokens plus tokens for thinking, at most 65,536.

    It limits both together (googleapis/python-genai issues 811 and 2062), so it also limits the cost.
    """
    return min(answer_tokens + room_for(model, thinking), MOST_OUTPUT_TOKENS)


def room_for(model: str, thinking: Thinking) -> int:
    """Return the number of tokens to add for thinking."""
    config = thinking_config(model, thinking)
    if config is not None and config.thinking_level is not None:
        return _ALLOWANCES[config.thinking_level]
    return max(config.thinking_budget, _LEAST_ROOM) if config is not None and config.thinking_budget else 0


def takes_sampling(model: str) -> bool:
    """Return whether ``temperature`` and ``candidate_count`` have an effect: from 3 on they are ignored or refused."""
    version = _version(model)
    return version is None or version < (3, 0)


def _version(model: str) -> tuple[int, int] | None:
    """Return (major, minor); (3, 0) for a Gemini without a version (``gemini-flash-latest``), None for other models."""
    name = model.lower()
    if (match := _VERSION.search(name)) is not None:
        return int(match[1]), int(match[2] or 0)
    return (3, 0) if "gemini" in name else None
