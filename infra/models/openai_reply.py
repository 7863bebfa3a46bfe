"""Parsing of a chat completion into an ``Answer``, or into an error that says why it is unusable.

An unusable response is billed, too, so the error contains its usage and cost.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any

import orjson

from infra.models.call_costs import LOCAL, Prices, TokenUsage
from infra.models.replies import checked_reply, cut, invalid, priced, refused, unpriced
from infra.ports import Answer
from infra.texts import storable_text
from schemas.effects import CallModel, FunctionCall

_THOUGHT = re.compile(r"<(think|thinking|thought)>.*?(</\1>|\Z)", re.DOTALL)
_REST_OF_A_THOUGHT = re.compile(r"\A.*</(think|thinking|thought)>", re.DOTALL)
"""The templates of some models open the tag in the prompt."""
_ENDED_WELL = {"stop", "tool_calls", "function_call", "eos", "length", ""}


def read_reply(body: dict[str, Any], effect: CallModel, *, model: str, prices: Prices, asked_at: datetime) -> Answer:
    """Return the ``Answer``.

    Raises:
        UselessAnswerError: cut (the response ended at its token limit), invalid_output (empty, not JSON, not the forced
            function, or not a chat completion), or refused (by the model or a filter).
    """
    spent = _spent(body, model, prices, asked_at)
    choices = body.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    message = choice.get("message") if isinstance(choice, dict) else None
    if not isinstance(choice, dict) or not isinstance(message, dict):
        raise invalid("the response is not a chat completion: it has no message", spent)
    reason = str(choice.get("finish_reason") or "")
    if message.get("refusal"):
        raise refused(f"the model refused: {message['refusal']}", spent)
    if reason == "content_filter":
        raise refused("the provider's filter stopped the response", spent)
    text = without_thoughts(storable_text(_text(message.get("content"))))
    calls = _calls(message, spent)
    plain = effect.forced_function is None and effect.response_schema is None
    if reason == "length" and not (plain and text):
        raise cut(effect, "", spent)
    if reason not in _ENDED_WELL:
        raise invalid(f"the model ended with {reason}", spent)
    reply = checked_reply(effect, text, calls, reason or "stop", spent, who="the model", answer="the response")
    return Answer(reply=reply, **spent)


def without_thoughts(text: str) -> str:
    """Return the text without thinking that servers of open models leave in it, closed or not. JSON is not changed."""
    for thought in (_THOUGHT, _REST_OF_A_THOUGHT):
        try:
            orjson.loads(text)
        except orjson.JSONDecodeError:
            text = thought.sub("", text).strip() if thought.search(text) else text
    return text


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "".join(str(p.get("text") or "") for p in parts if isinstance(p, dict) and p.get("type") == "text")


def _calls(message: dict[str, Any], spent: dict[str, Any]) -> tuple[FunctionCall, ...]:
    listed = message.get("tool_calls") or []
    if not isinstance(listed, list):
        raise invalid("the response's tool_calls are not a list", spent)
    calls = []
    for call in listed:
        function = call.get("function") if isinstance(call, dict) else None
        if not isinstance(function, dict) or not isinstance(function.get("name"), str):
            raise invalid("a tool call names no function", spent)
        given = function.get("arguments") or "{}"
        try:
            # A round trip removes what the journal cannot store (lone surrogates, huge integers).
            args = orjson.loads(given if isinstance(given, str) else orjson.dumps(given))
            args = orjson.loads(orjson.dumps(args))
        except (orjson.JSONDecodeError, orjson.JSONEncodeError) as exc:
            raise invalid(f"a function call has arguments that are not valid JSON ({exc})", spent) from exc
        if not isinstance(args, dict):
            raise invalid("a function call has arguments that are no object", spent)
        calls.append(FunctionCall(name=storable_text(function["name"]), args=args))
    return tuple(calls)


def _spent(body: dict[str, Any], model: str, prices: Prices, asked_at: datetime) -> dict[str, Any]:
    """Return the fields of ``Answer`` other than its reply. Without usage the cost is unknown, not 0."""
    named = body.get("model")
    answered_by = storable_text(named) if isinstance(named, str) and named else model
    used = body.get("usage")
    if not isinstance(used, dict) or not _count(used, "prompt_tokens"):
        free = prices.free and prices.cost(model, TokenUsage(), asked_at).source == LOCAL
        return priced(TokenUsage(), answered_by, model, prices, asked_at) if free else unpriced(answered_by)
    thinking = _count(used.get("completion_tokens_details"), "reasoning_tokens")
    read, written = _count(used, "prompt_tokens"), _count(used, "completion_tokens")
    # completion_tokens includes the reasoning tokens, unless the numbers show that the server counts them separately.
    apart = thinking > written or _count(used, "total_tokens") >= read + written + thinking
    usage = TokenUsage(
        input=read,
        cached=_count(used.get("prompt_tokens_details"), "cached_tokens") or _count(used, "prompt_cache_hit_tokens"),
        output=written if apart else written - thinking,
        thinking=thinking,
    )
    return priced(usage, answered_by, model, prices, asked_at)


def _count(of: Any, name: str) -> int:
    value = of.get(name) if isinstance(of, dict) else None
    return value if isinstance(value, int) and 0 < value < 2**31 else 0
