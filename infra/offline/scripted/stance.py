"""Effect of a prompt's words on the answers: a count of strict and bold words, and draws seeded by the text."""

from __future__ import annotations

import hashlib
import re
from statistics import NormalDist

STRICT = re.compile(
    r"\b(?:strict\w*|cautious\w*|conservative\w*|sceptic\w*|skeptic\w*|doubt\w*|prudent\w*|wary|demanding)\b"
    r"|严格|谨慎|保守|怀疑|审慎",
    re.IGNORECASE,
)
BOLD = re.compile(
    r"\b(?:bold\w*|generous\w*|aggressive\w*|optimistic\w*|lenient\w*|trusting|eager\w*)\b|大胆|激进|宽松|乐观|积极",
    re.IGNORECASE,
)
MOST = 3
"""Limit of the stance; more words in one direction change nothing."""
_NORMAL = NormalDist()


def stance_of(prompt: str) -> int:
    """Return how strict (> 0) or bold (< 0) the prompt's own words are, −3 to 3. The shipped prompts are at 0."""
    strict, bold = len(STRICT.findall(prompt)), len(BOLD.findall(prompt))
    return max(-MOST, min(MOST, strict - bold))


class Draws:
    """Pseudo-random numbers that depend on a text alone: equal for equal texts, different after any change."""

    def __init__(self, *texts: str) -> None:
        self._seed = hashlib.sha256("\x00".join(texts).encode("utf-8", "surrogatepass")).digest()

    def uniform(self, name: str) -> float:
        """Return a number in (0, 1)."""
        drawn = hashlib.sha256(self._seed + name.encode()).digest()
        return (int.from_bytes(drawn[:8]) + 0.5) / 2**64

    def around(self, name: str, most: float) -> float:
        """Return a number within ±``most``."""
        return (2 * self.uniform(name) - 1) * most

    def normal(self, name: str) -> float:
        """Return a standard normal number."""
        return _NORMAL.inv_cdf(self.uniform(name))
