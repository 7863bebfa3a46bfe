"""A scripted model server with OpenAI's wire format, whose rules read the prompt. For trying prompts without a key.

Its answers are not a model's judgement and must never be taken for one. Every reply carries :data:`MARK`, and an
adapter in live mode rejects replies that do. Whatever is judged with it is ``simulated`` in every call, signal and
report.
"""

from __future__ import annotations

from infra.models.openai_compatible import SCRIPTED_HEADER

MARK = "newsproof-scripted"
"""``system_fingerprint`` of every reply, and the value of the header :data:`SCRIPTED_HEADER`."""
LIGHT, HEAVY = "scripted-light", "scripted-heavy"
MODELS = (LIGHT, HEAVY)

__all__ = ["HEAVY", "LIGHT", "MARK", "MODELS", "SCRIPTED_HEADER"]
