"""Sanitised text of agents and sources for display: no links, images or invisible characters, bounded length."""

from __future__ import annotations

import re

from agents.core.answers import one_line
from agents.core.model_calls import bounded

_BLANKS = re.compile(r"\n{3,}")
_SIGNS = re.compile(r"\[\d{1,4}\]|[\W_]+")
SAID = 0.8
"""Share of a line's runs of three letters from which :func:`is_repeated_in` takes it as repeated."""


def paragraphs(text: str, limit: int) -> str:
    """Return at most ``limit`` characters with line breaks, without addresses, images and invisible characters."""
    lines = (one_line(line, limit) for line in bounded(text, 2 * limit).splitlines())
    return _BLANKS.sub("\n\n", "\n".join(lines)).strip()[:limit].rstrip()


def distinct_lines(texts: list[str], most: int, limit: int) -> tuple[str, ...]:
    """Return at most ``most`` distinct non-empty lines, each at most ``limit`` characters."""
    return tuple(dict.fromkeys(line for text in texts if (line := one_line(text, limit))))[:most]


def is_repeated_in(line: str, text: str) -> bool:
    """Return whether a line of the text repeats ``line``: it has nearly all its runs of three letters, without marks."""
    wanted = _threes(line)
    return any(len(wanted & _threes(other)) >= SAID * len(wanted) for other in text.splitlines())


def _threes(text: str) -> set[str]:
    letters = _SIGNS.sub("", text.lower())
    return {letters[at : at + 3] for at in range(max(len(letters) - 2, 1))}
