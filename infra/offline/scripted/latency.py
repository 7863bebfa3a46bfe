"""How long the scripted server takes: drawn from the question, so that a run takes the same time again."""

from __future__ import annotations

import math
from typing import Literal

from infra.offline.scripted.stance import Draws

Profile = Literal["none", "realistic"]

FIRST_TOKEN_S = {"light": 0.35, "heavy": 0.6}
TOKEN_S = {"light": 0.005, "heavy": 0.010}
"""Medians of what hosted models of these tiers take; chosen as plausible figures, not measured on any of them."""
SPREAD = 0.35
"""Of the logarithm: one answer in twenty takes 1.8 times the median or more."""


def model_s(profile: Profile, tier: str, text: str, output_tokens: int, seed: str) -> float:
    """Return the seconds that an answer takes; 0 with ``none``."""
    if profile == "none":
        return 0.0
    return spread(FIRST_TOKEN_S[tier] + output_tokens * TOKEN_S[tier], text, seed)


def spread(median_s: float, text: str, seed: str) -> float:
    """Return a time around a median (seconds), log-normal, drawn from the text."""
    return median_s * math.exp(SPREAD * Draws(seed, text).normal("latency"))
