"""Parsing of a generateContent response into an ``Answer``, or into an error that says why it is unusable.

An unusable response is billed, too, so the error contains its usage and cost.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

import orjson
from google.genai import types

from infra.http import UselessAnswerError
from infra.models.call_costs import Prices, TokenUsage
from infra.models.replies import checked_reply, cut, invalid, priced, refused, unpriced
from infra.ports import Answer
from infra.texts import storable_text
from schemas.effects import CallModel, FunctionCall

_REFUSALS = {
    "SAFETY",
    "RECITATION",
    "LANGUAGE",
    "BLOCKLIST",
    "PROHIBITED_CONTENT",
    "SPII",
    "IMAGE_SAFETY",
    "IMAGE_PROHIBITED_CONTENT",
    "IMAGE_RECITATION",
    "ESCALATION",
    "PUP_LIMITED_DISABLED",
    "MODEL_ARMOR",
}
"""Finish reasons of a policy (``types.FinishReason``), which a retry would repeat. With others, a retry may succeed."""


def read_reply(
    response: types.GenerateContentResponse, effect: CallModel, *, model: str, prices: Prices, asked_at: datetime
) -> Answer:
    """Return the ``Answer``.

    Raises:
        UselessAnswerError: cut (the response ended at its token limit), invalid_output (malformed, empty, not JSON, or
            not the forced function), or refused (the prompt or the response was blocked).
    """
    spent = _spent(response, model, prices, asked_at)
    candidate = response.candidates[0] if response.candidates else None
    if candidate is None:
        raise _without_candidate(response, spent)
    reason = candidate.finish_reason.value if candidate.finish_reason else "STOP"
    if reason in _REFUSALS:
        raise refused(
            f"Gemini stopped its answer for {reason} ({candidate.finish_message or 'no further word'})", spent
        )
    parts = (candidate.content.parts if candidate.content else None) or []
    text = storable_text("".join(p.text for p in parts if p.text and not p.thought))
    calls = tuple(_call(p.function_call, spent) for p in parts if p.function_call)
    plain = effect.forced_function is None and effect.response_schema is None
    if reason == "MAX_TOKENS" and not (plain and text):
        raise cut(effect, " and what it may think", spent)
    if reason not in {"STOP", "MAX_TOKENS", "FINISH_REASON_UNSPECIFIED"}:
        raise invalid(f"Gemini ended with {reason} ({candidate.finish_message or 'no further word'})", spent)
    reply = checked_reply(effect, text, calls, reason.lower(), spent, who="Gemini", answer="Gemini's answer")
    return Answer(reply=reply, **spent)


def _call(call: types.FunctionCall, spent: dict[str, Any]) -> FunctionCall:
    try:
        # A round trip removes what the journal cannot store (lone surrogates, huge integers).
        args = orjson.loads(orjson.dumps(call.args or {}))
    except (orjson.JSONEncodeError, orjson.JSONDecodeError) as exc:
        raise invalid(f"Gemini's function call has arguments that are not valid JSON ({exc})", spent) from exc
    return FunctionCall(name=storable_text(call.name or ""), args=args)


def _without_candidate(response: types.GenerateContentResponse, spent: dict[str, Any]) -> UselessAnswerError:
    feedback = response.prompt_feedback
    if feedback is not None and feedback.block_reason is not None:
        detail = feedback.block_reason_message or "no further word"
        return refused(f"Gemini blocked the prompt for {feedback.block_reason.value} ({detail})", spent)
    return invalid("Gemini answered without a candidate", spent)


def _spent(response: types.GenerateContentResponse, model: str, prices: Prices, asked_at: datetime) -> dict[str, Any]:
    """Return the fields of ``Answer`` other than its reply. Without usage the cost is unknown, not 0."""
    answered_by = storable_text(response.model_version or model)
    used = response.usage_metadata
    if used is None or used.prompt_token_count is None:
        return unpriced(answered_by)
    usage = TokenUsage(
        input=(used.prompt_token_count or 0) + (used.tool_use_prompt_token_count or 0),
        cached=used.cached_content_token_count or 0,
        output=used.candidates_token_count or 0,
        thinking=used.thoughts_token_count or 0,
    )
    return priced(usage, answered_by, model, prices, asked_at)
