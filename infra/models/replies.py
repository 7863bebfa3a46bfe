"""Shared handling of parsed model responses: validation, pricing, and the errors for unusable responses.

An unusable response is billed, too, so the error contains its usage and cost.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any

import orjson

from infra.http import UselessAnswerError, quoted
from infra.models.call_costs import Prices, TokenUsage
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
    """Return the reply if it matches the effect. ``who`` and ``answer`` name the model and its response in errors.

    Raises:
        UselessAnswerError: invalid_output (a function was not offered, the forced function was not called, or the
            response is empty or not JSON).
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
    """Return the fields of ``Answer`` other than its reply, with the price of ``answered_by``, else of ``model``."""
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
    """Return the fields of :func:`priced` for a response without usage: its cost is unknown."""
    return {"cost_usd": None, "cost_source": "unknown", "model": answered_by}


def invalid(message: str, spent: dict[str, Any]) -> UselessAnswerError:
    """Return the error for an unusable response that is worth a retry."""
    return UselessAnswerError(quoted(message, 400), spent=spent)


def cut(effect: CallModel, beside: str, spent: dict[str, Any]) -> UselessAnswerError:
    """Return the error for a response that ended at its token limit. ``beside`` says what else the limit includes."""
    text = (
        f"the response to task {effect.task!r} was cut at {effect.max_output_tokens} tokens{beside}; a step asks once more with "
        f"twice as many: set MODEL_OPTIONS={effect.task}=max_output_tokens:… if that is too few, or happens often"
    )
    return UselessAnswerError(text, kind="cut", retryable=False, spent=spent)


def refused(message: str, spent: dict[str, Any]) -> UselessAnswerError:
    """Return the error for a response that a policy stopped; not retryable."""
    text = f"{quoted(message, 400)}; asking again would end alike, read the case's text or use another model"
    return UselessAnswerError(text, kind="refused", retryable=False, spent=spent)
