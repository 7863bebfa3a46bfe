"""The port for text vectors: the hashing embedding or a provider's model. Each text is one request, without retries."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from typing import Protocol

import msgspec
import numpy as np

from infra.models.call_costs import Prices, TokenUsage
from infra.models.embeddings.hashing import EMBEDDING_MODEL, embed, quantised
from schemas.effects import TextEmbedding
from schemas.ids import content_hash


class Embedded(msgspec.Struct, frozen=True, kw_only=True):
    """A vector (:func:`~infra.models.embeddings.hashing.quantised`) and its cost: None = unknown, 0 = free."""

    vector: list[int]
    cost_usd: Decimal | None
    cost_source: str
    input_tokens: int = 0


class Embedder(Protocol):
    """An embedding model. ``rows`` is stored with each vector; vectors with different ``rows`` are never compared."""

    provider: str
    model: str
    rows: str

    async def embed(self, text: str) -> Embedded:
        """Return the text's vector; empty for a text without letters or digits.

        Raises:
            TransientError: a retry may succeed.
            PermanentError: a retry cannot succeed. Vendor exceptions are always translated.
        """
        ...

    def worst_case_usd(self, text: str) -> Decimal | None:
        """Return the maximum cost of :meth:`embed`; 0 = free, None = the price is unknown."""
        ...

    async def close(self) -> None:
        """Close the connections. Idempotent."""
        ...


class Hashing:
    """The offline embedding: free, local, the same on every machine."""

    provider = "offline"
    model = EMBEDDING_MODEL
    rows = EMBEDDING_MODEL

    async def embed(self, text: str) -> Embedded:
        return Embedded(vector=embed(text), cost_usd=Decimal(0), cost_source="local")

    def worst_case_usd(self, text: str) -> Decimal | None:
        return Decimal(0)

    async def close(self) -> None: ...


def packed(vector: Sequence[int], rows: str, text: str) -> TextEmbedding | None:
    """Return the vector in the journal's format; None for an empty vector."""
    if not vector:
        return None
    return TextEmbedding(model=rows, text_hash=content_hash(text), vector=np.array(vector, dtype=np.int8).tobytes())


def unpacked(made: TextEmbedding) -> list[int]:
    """Return the vector from the journal's format."""
    whole: list[int] = np.frombuffer(made.vector, dtype=np.int8).tolist()
    return whole


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
    is_reported = isinstance(tokens, int) and not isinstance(tokens, bool) and tokens > 0
    counted = tokens if is_reported and tokens is not None else most_tokens(text)
    cost = prices.cost(model, TokenUsage(input=counted), asked_at)
    source = cost.source if is_reported else f"{cost.source}, tokens not said: at most"
    return Embedded(vector=vector, cost_usd=cost.usd, cost_source=source, input_tokens=counted)
