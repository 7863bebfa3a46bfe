"""From a chat completion to an ``Answer``, or to the reason why there is none.

A response that is of no use was paid for all the same: the error carries what it used and cost.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any

import orjson

from infra.http import UselessAnswerError, quoted, storable_text
from infra.models.prices import Prices, TokenUsage
from infra.ports import Answer
from schemas.effects import CallModel, FunctionCall, ModelReply

_FENCE = re.compile(r"\A\s*```(?:json)?\s*\n(.*?)\n?\s*```\s*\Z", re.DOTALL | re.IGNORECASE)
_THOUGHT = re.compile(r"\A\s*<think>.*?</think>\s*", re.DOTALL)
"""Some servers put the thinking of open models in front of the answer."""
_ENDED_WELL = {"stop", "tool_calls", "function_call", "eos", "length", ""}


def read_reply(body: dict[str, Any], effect: CallModel, *, model: str, prices: Prices, asked_at: datetime) -> Answer:
    """Return the answer.

    Raises:
        UselessAnswerError: cut short, empty, not JSON, not the function that was forced, or no chat completion at all
            (invalid_output); refused by the model or a filter (refused).
    """
    spent = _spent(body, model, prices, asked_at)
    choices = body.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    message = choice.get("message") if isinstance(choice, dict) else None
    if not isinstance(choice, dict) or not isinstance(message, dict):
        raise _invalid("the answer is no chat completion: it has no message", spent)
    reason = str(choice.get("finish_reason") or "")
    if message.get("refusal"):
        raise _refused(f"the model refused: {message['refusal']}", spent)
    if reason == "content_filter":
        raise _refused("the provider's filter stopped the answer", spent)
    text = _THOUGHT.sub("", storable_text(_text(message.get("content"))))
    calls = _calls(message, spent)
    plain = effect.forced_function is None and effect.response_schema is None
    if reason == "length" and not (plain and text):
        raise _invalid(f"the answer to task {effect.task!r} was cut at {effect.max_output_tokens} tokens", spent)
    if reason not in _ENDED_WELL:
        raise _invalid(f"the model ended with {reason}", spent)
    return Answer(reply=_checked(effect, text, calls, reason or "stop", spent), **spent)


def _checked(
    effect: CallModel, text: str, calls: tuple[FunctionCall, ...], reason: str, spent: dict[str, Any]
) -> ModelReply:
    wanted = {effect.forced_function} if effect.forced_function else {f.name for f in effect.functions}
    strange = [c.name for c in calls if c.name not in wanted]
    if strange:
        raise _invalid(f"the model calls {strange[0][:80]!r}, a function that it was not offered", spent)
    if effect.forced_function and not calls:
        raise _invalid(f"the model did not call {effect.forced_function!r} although it had to", spent)
    if effect.response_schema is None or calls:
        if not text and not calls:
            raise _invalid("the answer is empty", spent)
        return ModelReply(text=text, function_calls=calls, finish_reason=reason)
    fenced = _FENCE.match(text)
    try:
        data = orjson.loads(fenced.group(1) if fenced else text)
    except orjson.JSONDecodeError as exc:
        raise _invalid(f"the answer is not JSON ({exc})", spent) from exc
    return ModelReply(text=text, data=data, finish_reason=reason, repaired=fenced is not None)


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "".join(str(p.get("text") or "") for p in parts if isinstance(p, dict) and p.get("type") == "text")


def _calls(message: dict[str, Any], spent: dict[str, Any]) -> tuple[FunctionCall, ...]:
    listed = message.get("tool_calls") or []
    if not isinstance(listed, list):
        raise _invalid("the answer's tool_calls are no list", spent)
    found = []
    for one in listed:
        function = one.get("function") if isinstance(one, dict) else None
        if not isinstance(function, dict) or not isinstance(function.get("name"), str):
            raise _invalid("a tool call names no function", spent)
        given = function.get("arguments") or "{}"
        try:
            # There and back, so that nothing stays that the journal could not hold (lone surrogates, huge integers).
            args = orjson.loads(given if isinstance(given, str) else orjson.dumps(given))
            args = orjson.loads(orjson.dumps(args))
        except (orjson.JSONDecodeError, orjson.JSONEncodeError) as exc:
            raise _invalid(f"a function call has arguments that are not valid JSON ({exc})", spent) from exc
        if not isinstance(args, dict):
            raise _invalid("a function call has arguments that are no object", spent)
        found.append(FunctionCall(name=storable_text(function["name"]), args=args))
    return tuple(found)


def _spent(body: dict[str, Any], model: str, prices: Prices, asked_at: datetime) -> dict[str, Any]:
    """Return the fields of ``Answer`` beside its reply. Without usage the cost is unknown: something was computed."""
    named = body.get("model")
    answered_by = storable_text(named) if isinstance(named, str) and named else model
    used = body.get("usage")
    if not isinstance(used, dict) or not _count(used, "prompt_tokens"):
        return {"cost_usd": None, "cost_source": "unknown", "model": answered_by}
    thinking = _count(used.get("completion_tokens_details"), "reasoning_tokens")
    written = _count(used, "completion_tokens")
    usage = TokenUsage(
        input=_count(used, "prompt_tokens"),
        cached=_count(used.get("prompt_tokens_details"), "cached_tokens") or _count(used, "prompt_cache_hit_tokens"),
        # completion_tokens includes the reasoning ones; a server that says otherwise is believed for the larger sum.
        output=written - thinking if thinking <= written else written,
        thinking=thinking,
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


def _count(of: Any, name: str) -> int:
    value = of.get(name) if isinstance(of, dict) else None
    return value if isinstance(value, int) and 0 < value < 2**31 else 0


def _invalid(message: str, spent: dict[str, Any]) -> UselessAnswerError:
    return UselessAnswerError(f"{quoted(message, 400)}; it is asked again", spent=spent)


def _refused(message: str, spent: dict[str, Any]) -> UselessAnswerError:
    text = f"{quoted(message, 400)}; asking again would end alike, read the case's text or use another model"
    return UselessAnswerError(text, kind="refused", retryable=False, spent=spent)
