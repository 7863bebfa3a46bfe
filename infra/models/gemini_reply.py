"""From a generateContent response to an ``Answer``, or to the reason why there is none.

A response that is of no use was paid for all the same: the error carries what it used and cost.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any

import orjson
from google.genai import types

from infra.http import UselessAnswerError, quoted, storable_text
from infra.models.prices import Prices, TokenUsage
from infra.ports import Answer
from schemas.effects import CallModel, FunctionCall, ModelReply

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
"""Finish reasons of a policy (``types.FinishReason``): the same request would end alike. All others may go better."""
_FENCE = re.compile(r"\A\s*```(?:json)?\s*\n(.*?)\n?\s*```\s*\Z", re.DOTALL | re.IGNORECASE)


def read_reply(
    response: types.GenerateContentResponse, effect: CallModel, *, model: str, prices: Prices, asked_at: datetime
) -> Answer:
    """Return the answer.

    Raises:
        UselessAnswerError: cut short, malformed, empty, not JSON or not the function that was forced (invalid_output);
            the prompt or the answer was blocked (refused).
    """
    spent = _spent(response, model, prices, asked_at)
    candidate = response.candidates[0] if response.candidates else None
    if candidate is None:
        raise _without_candidate(response, spent)
    reason = candidate.finish_reason.value if candidate.finish_reason else "STOP"
    if reason in _REFUSALS:
        raise _refused(
            f"Gemini stopped its answer for {reason} ({candidate.finish_message or 'no further word'})", spent
        )
    parts = (candidate.content.parts if candidate.content else None) or []
    text = storable_text("".join(p.text for p in parts if p.text and not p.thought))
    calls = tuple(_call(p.function_call, spent) for p in parts if p.function_call)
    plain = effect.forced_function is None and effect.response_schema is None
    if reason == "MAX_TOKENS" and not (plain and text):
        raise _invalid(
            f"Gemini's answer to task {effect.task!r} was cut at {effect.max_output_tokens} tokens, "
            "its thinking included; raise max_output_tokens of this task",
            spent,
        )
    if reason not in {"STOP", "MAX_TOKENS", "FINISH_REASON_UNSPECIFIED"}:
        raise _invalid(f"Gemini ended with {reason} ({candidate.finish_message or 'no further word'})", spent)
    reply = _checked(effect, text, calls, reason.lower(), spent)
    return Answer(reply=reply, **spent)


def _checked(
    effect: CallModel, text: str, calls: tuple[FunctionCall, ...], reason: str, spent: dict[str, Any]
) -> ModelReply:
    wanted = {effect.forced_function} if effect.forced_function else {f.name for f in effect.functions}
    strange = [c.name for c in calls if c.name not in wanted]
    if strange:
        raise _invalid(f"Gemini calls {strange[0][:80]!r}, a function that it was not offered", spent)
    if effect.forced_function and not calls:
        raise _invalid(f"Gemini did not call {effect.forced_function!r} although it had to", spent)
    if effect.response_schema is None or calls:
        if not text and not calls:
            raise _invalid("Gemini's answer is empty", spent)
        return ModelReply(text=text, function_calls=calls, finish_reason=reason)
    data, repaired = _parsed(text, spent)
    return ModelReply(text=text, data=data, finish_reason=reason, repaired=repaired)


def _parsed(text: str, spent: dict[str, Any]) -> tuple[Any, bool]:
    fenced = _FENCE.match(text)
    try:
        return orjson.loads(fenced.group(1) if fenced else text), fenced is not None
    except orjson.JSONDecodeError as exc:
        raise _invalid(f"Gemini's answer is not JSON ({exc})", spent) from exc


def _call(call: types.FunctionCall, spent: dict[str, Any]) -> FunctionCall:
    try:
        # There and back, so that nothing stays that the journal could not hold (lone surrogates, huge integers).
        args = orjson.loads(orjson.dumps(call.args or {}))
    except (orjson.JSONEncodeError, orjson.JSONDecodeError) as exc:
        raise _invalid(f"Gemini's function call has arguments that are not valid JSON ({exc})", spent) from exc
    return FunctionCall(name=storable_text(call.name or ""), args=args)


def _without_candidate(response: types.GenerateContentResponse, spent: dict[str, Any]) -> UselessAnswerError:
    feedback = response.prompt_feedback
    if feedback is not None and feedback.block_reason is not None:
        detail = feedback.block_reason_message or "no further word"
        return _refused(f"Gemini blocked the prompt for {feedback.block_reason.value} ({detail})", spent)
    return _invalid("Gemini answered without a candidate", spent)


def _spent(response: types.GenerateContentResponse, model: str, prices: Prices, asked_at: datetime) -> dict[str, Any]:
    """Return the fields of ``Answer`` beside its reply. Without usage the cost is unknown: something was computed."""
    answered_by = storable_text(response.model_version or model)
    used = response.usage_metadata
    if used is None:
        return {"cost_usd": None, "cost_source": "unknown", "model": answered_by}
    usage = TokenUsage(
        input=(used.prompt_token_count or 0) + (used.tool_use_prompt_token_count or 0),
        cached=used.cached_content_token_count or 0,
        output=used.candidates_token_count or 0,
        thinking=used.thoughts_token_count or 0,
    )
    cost = prices.cost(answered_by, usage, asked_at)
    if cost.usd is None and answered_by != model:
        cost = prices.cost(model, usage, asked_at)
    return {
        "cost_usd": cost.usd,
        "cost_source": cost.source,
        "model": answered_by,
        "usage_input_tokens": usage.input,
        "usage_cached_tokens": usage.cached,
        "usage_output_tokens": usage.output,
        "usage_thinking_tokens": usage.thinking,
    }


def _invalid(message: str, spent: dict[str, Any]) -> UselessAnswerError:
    return UselessAnswerError(f"{quoted(message, 400)}; it is asked again", spent=spent)


def _refused(message: str, spent: dict[str, Any]) -> UselessAnswerError:
    text = f"{quoted(message, 400)}; asking again would end alike, read the case's text or use another model"
    return UselessAnswerError(text, kind="refused", retryable=False, spent=spent)
