"""A scripted model server: OpenAI's wire, answers by rules that read the prompt. For trying prompts without a key.

What it says is no model's judgement, and it is never to be taken for one: every reply carries :data:`MARK`, an adapter in
live mode refuses replies that do, and what is judged with it is ``simulated`` in every call, signal and report.
"""

from __future__ import annotations

from infra.models.openai_compatible import SCRIPTED_HEADER

MARK = "newsproof-scripted"
"""``system_fingerprint`` of every reply, and the value of the header :data:`SCRIPTED_HEADER`."""
LIGHT, HEAVY = "scripted-light", "scripted-heavy"
MODELS = (LIGHT, HEAVY)

__all__ = ["HEAVY", "LIGHT", "MARK", "MODELS", "SCRIPTED_HEADER"]
