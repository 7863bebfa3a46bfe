"""The port for text vectors: the hashing embedding or a provider's model. Each text is one request, without retries."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Protocol

import msgspec
import numpy as np

from infra.models.embeddings.hashing import EMBEDDING_MODEL, embed
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
