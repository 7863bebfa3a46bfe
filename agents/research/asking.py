"""Builders of the chat's model calls: our own words are trusted parts, the question and all other text untrusted.

The amount of history is part of an agent's contract. The two agents that decide what to do see the last five messages
whole; the three that read data see none; the one that writes the answer sees the beginnings of the last three.
"""

from __future__ import annotations

from collections.abc import Iterable

from agents.core.asking import bounded, call_of
from agents.core.step import StepFailure
from agents.prompts import render
from agents.research.turn import Turn
from schemas.effects import CallModel, Failure, Part, Trusted, Untrusted

MAX_QUESTION_CHARACTERS = 8_000
"""Characters of one question that an agent reads. The log keeps the whole text."""
WHOLE_MESSAGES = 5
"""Messages before the question that SuperAgent and PlanningAgent see, whole."""
CLIPPED_MESSAGES = 3
"""Messages before the question that GeneralAnalysisAgent sees, clipped."""
CLIPPED_CHARACTERS = 80
"""Characters of each clipped message."""
_LANGUAGES = {"zh": "Chinese (中文)", "en": "English"}


def ask_agent(turn: Turn, prompt_name: str, parts: Iterable[Part], **values: str) -> CallModel:
    """Build the call of one prompt, in the version that the turn's snapshot pins.

    ``values`` fill the prompt's fields and must be our own words.

    Raises:
        StepFailure: (not retryable) when the snapshot holds no such prompt.
    """
    prompt = turn.config.prompts.get(prompt_name)
    if prompt is None:
        message = f"the turn's snapshot has no prompt {prompt_name!r}: build it with load_prompts('research')"
        raise StepFailure(Failure(kind="not_configured", message=message, retryable=False))
    language = _LANGUAGES.get(turn.language, "the language of the question")
    return call_of(prompt, render(prompt, language=language, **values), parts)


def question_parts(turn: Turn) -> tuple[Part, ...]:
    """Return the question as an untrusted part, and the time it was asked as a trusted one."""
    return (
        Trusted(f"The question, asked at {turn.as_of:%Y-%m-%d %H:%M} UTC:"),
        Untrusted("question", bounded(turn.asked.message, MAX_QUESTION_CHARACTERS)),
    )


def whole_history(turn: Turn) -> tuple[Part, ...]:
    """Return the last five messages before the question, each whole."""
    return _history(turn, WHOLE_MESSAGES, None)


def clipped_history(turn: Turn) -> tuple[Part, ...]:
    """Return the first 80 characters of each of the last three messages before the question."""
    return _history(turn, CLIPPED_MESSAGES, CLIPPED_CHARACTERS)


def sent(call: CallModel) -> str:
    """Return the call as readable text, without the random delimiters."""
    parts = (p.text if isinstance(p, Trusted) else f"<{p.label}>\n{p.text}\n</{p.label}>" for p in call.parts)
    return "\n\n".join((call.system.strip(), *parts))


def _history(turn: Turn, messages: int, characters: int | None) -> tuple[Part, ...]:
    # Clip first, then clean: the limit applies to the characters as they were sent.
    return tuple(
        Untrusted(f"history, {m.role}", bounded(m.content[:characters], len(m.content)))
        for m in turn.asked.history[-messages:]
    )
