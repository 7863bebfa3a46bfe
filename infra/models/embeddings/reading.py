"""Validation of a provider's embedding response: a vector of the requested dimensions, and its cost."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import datetime

from infra.models.call_costs import Prices, TokenUsage
from infra.models.embeddings.hashing import quantised
from infra.models.embeddings.port import Embedded

AROUND_A_TEXT = 64
"""Maximum number of tokens that a model adds to a text."""


def most_tokens(text: str) -> int:
    """Return the maximum number of a text's tokens for any tokenizer: a token has at least one byte of UTF-8."""
    return len(text.encode("utf-8", "surrogatepass")) + AROUND_A_TEXT


def embedded(
    values: Sequence[float] | None,
    text: str,
    *,
    dimensions: int,
    tokens: int | None,
    prices: Prices,
    model: str,
    asked_at: datetime,
) -> Embedded:
    """Return the vector with its cost. ``tokens`` None = not reported; the cost is then that of :func:`most_tokens`.

    Raises:
        ValueError, TypeError: ``values`` are not ``dimensions`` finite numbers, or all of them are 0.
    """
    if values is None or len(values) != dimensions:
        raise ValueError(f"{0 if values is None else len(values)} numbers instead of {dimensions}")
    if not all(isinstance(v, int | float) and not isinstance(v, bool) and math.isfinite(v) for v in values):
        raise TypeError("something in it is not a number")
    vector = quantised(values)
    if not vector:
        raise ValueError("a vector without a direction")
    said = isinstance(tokens, int) and not isinstance(tokens, bool) and tokens > 0
    counted = tokens if said and tokens is not None else most_tokens(text)
    cost = prices.cost(model, TokenUsage(input=counted), asked_at)
    source = cost.source if said else f"{cost.source}, tokens not said: at most"
    return Embedded(vector=vector, cost_usd=cost.usd, cost_source=source, input_tokens=counted)
