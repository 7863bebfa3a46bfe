"""What makes a text's vector: the free hashing one, or a provider's model. One text, one request, tried once."""

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
    """A vector (:func:`infra.models.embeddings.hashing.quantised`) and what it cost; ``cost_usd`` None = price unknown, 0 = free."""

    vector: list[int]
    cost_usd: Decimal | None
    cost_source: str
    input_tokens: int = 0


class Embedder(Protocol):
    """One embedding model. ``rows`` names it beside every vector in memory: vectors of two names are never compared."""

    provider: str
    model: str
    rows: str

    async def embed(self, text: str) -> Embedded:
        """Return the text's vector; empty for a text without letters or digits.

        Raises:
            TransientError: worth another try; PermanentError: not. Nothing of a vendor passes untranslated.
        """
        ...

    def worst_case_usd(self, text: str) -> Decimal | None:
        """Return the most that :meth:`embed` may cost; 0 = free, None = the price is unknown."""
        ...

    async def close(self) -> None:
        """Let go of connections. Idempotent."""
        ...


class Hashing:
    """The offline vector: free, at hand, the same on every machine."""

    provider = "offline"
    model = EMBEDDING_MODEL
    rows = EMBEDDING_MODEL

    async def embed(self, text: str) -> Embedded:
        """Return the vector."""
        return Embedded(vector=embed(text), cost_usd=Decimal(0), cost_source="local")

    def worst_case_usd(self, text: str) -> Decimal | None:
        """Return 0."""
        return Decimal(0)

    async def close(self) -> None:
        """Nothing to let go of."""


def packed(vector: Sequence[int], rows: str, text: str) -> TextEmbedding | None:
    """Return the vector as the journal keeps it; None for an empty one."""
    if not vector:
        return None
    return TextEmbedding(model=rows, text_hash=content_hash(text), vector=np.array(vector, dtype=np.int8).tobytes())


def unpacked(made: TextEmbedding) -> list[int]:
    """Return the vector of :func:`packed`."""
    whole: list[int] = np.frombuffer(made.vector, dtype=np.int8).tolist()
    return whole
