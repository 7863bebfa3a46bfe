"""The words of agents and sources, made fit to be shown: no links, no images, no invisible characters, bounded."""

from __future__ import annotations

import re

from agents.core.answers import one_line
from agents.core.asking import bounded

_BLANKS = re.compile(r"\n{3,}")


def paragraphs(text: str, limit: int) -> str:
    """Return the text with its lines kept, each without addresses, images and invisible characters; at most ``limit``."""
    lines = (one_line(line, limit) for line in bounded(text, 2 * limit).splitlines())
    return _BLANKS.sub("\n\n", "\n".join(lines)).strip()[:limit].rstrip()


def several(texts: list[str], most: int, limit: int) -> tuple[str, ...]:
    """Return at most ``most`` lines that say something, each once."""
    return tuple(dict.fromkeys(line for text in texts if (line := one_line(text, limit))))[:most]
