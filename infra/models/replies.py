"""What every model's adapter does with an answer once its wire shape is read: check it, price it, say why it is of no use.

A response that is of no use was paid for all the same: the error carries what it used and cost.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any

import orjson

from infra.http import UselessAnswerError, quoted
from infra.models.prices import Prices, TokenUsage
from schemas.effects import CallModel, FunctionCall, ModelReply

_FENCE = re.compile(r"\A\s*```(?:json)?[^\S\n]*+\n(.*)```\s*\Z", re.DOTALL | re.IGNORECASE)


def checked_reply(
    effect: CallModel,
    text: str,
    calls: tuple[FunctionCall, ...],
    reason: str,
    spent: dict[str, Any],
    *,
    who: str,
    answer: str,
) -> ModelReply:
    """Return the reply if it is what the effect asked for. ``who`` and ``answer`` name the model and its answer in errors.

    Raises:
        UselessAnswerError: a function that was not offered or not called, nothing at all, or no JSON (invalid_output).
    """
    wanted = {effect.forced_function} if effect.forced_function else {f.name for f in effect.functions}
    strange = [c.name for c in calls if c.name not in wanted]
    if strange:
        raise invalid(f"{who} calls {strange[0][:80]!r}, a function that it was not offered", spent)
    if effect.forced_function and not calls:
        raise invalid(f"{who} did not call {effect.forced_function!r} although it had to", spent)
    if effect.response_schema is None or calls:
        if not text and not calls:
            raise invalid(f"{answer} is empty", spent)
        return ModelReply(text=text, function_calls=calls, finish_reason=reason)
    fenced = _FENCE.match(text)
    try:
        data = orjson.loads(fenced.group(1) if fenced else text)
    except orjson.JSONDecodeError as exc:
        raise invalid(f"{answer} is not JSON ({exc})", spent) from exc
    return ModelReply(text=text, data=data, finish_reason=reason, repaired=fenced is not None)


def priced(usage: TokenUsage, answered_by: str, model: str, prices: Prices, asked_at: datetime) -> dict[str, Any]:
    """Return the fields of ``Answer`` beside its reply; by the price of ``model`` where who answered has no known one."""
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


def unpriced(answered_by: str) -> dict[str, Any]:
    """Return the same for an answer without usage: something was computed, nobody knows for how much."""
    return {"cost_usd": None, "cost_source": "unknown", "model": answered_by}


def invalid(message: str, spent: dict[str, Any]) -> UselessAnswerError:
    """Return the error of an answer that is worth asking for again."""
    return UselessAnswerError(f"{quoted(message, 400)}; it is asked again", spent=spent)


def refused(message: str, spent: dict[str, Any]) -> UselessAnswerError:
    """Return the error of an answer that a policy stopped."""
    text = f"{quoted(message, 400)}; asking again would end alike, read the case's text or use another model"
    return UselessAnswerError(text, kind="refused", retryable=False, spent=spent)
