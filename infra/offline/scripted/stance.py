"""Draws of the scripted server, seeded by the text: effect of a prompt's strict and bold words, and latency."""

from __future__ import annotations

import hashlib
import math
import re
from statistics import NormalDist
from typing import Literal

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


# Latency of the scripted server, drawn from the question, so that a repeated run takes the same time.

Profile = Literal["none", "realistic"]

FIRST_TOKEN_S = {"light": 0.35, "heavy": 0.6}
TOKEN_S = {"light": 0.005, "heavy": 0.010}
"""Medians for hosted models of these tiers, in seconds: plausible figures, not measured on any of them."""
SPREAD = 0.35
"""Standard deviation of the log latency: one answer in twenty takes 1.8 times the median or more."""


def model_s(profile: Profile, tier: str, text: str, output_tokens: int, seed: str) -> float:
    """Return the latency of an answer in seconds; 0 with ``none``."""
    if profile == "none":
        return 0.0
    return spread(FIRST_TOKEN_S[tier] + output_tokens * TOKEN_S[tier], text, seed)


def spread(median_s: float, text: str, seed: str) -> float:
    """Return a log-normal time around a median (seconds), drawn from the text."""
    return median_s * math.exp(SPREAD * Draws(seed, text).normal("latency"))
