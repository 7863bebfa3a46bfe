"""Latency of the scripted server, drawn from the question, so that a repeated run takes the same time."""

from __future__ import annotations

import math
from typing import Literal

from infra.offline.scripted.stance import Draws

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
