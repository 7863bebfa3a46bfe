"""Hashing vectors of a batch's memory rows, computed all at once: numpy costs as much for one text as for a hundred."""

from __future__ import annotations

from array import array

from infra.models.embeddings.hashing import embed_all


class Vectors:
    """Hands out empty vectors, and computes them all at once in :meth:`fill`."""

    def __init__(self) -> None:
        self._texts: list[str] = []
        self._vectors: list[array[int]] = []

    def of(self, text: str) -> array[int]:
        """Return the vector of a text, one signed byte per component; empty until :meth:`fill`."""
        vector = array("b")
        self._texts.append(text)
        self._vectors.append(vector)
        return vector

    def fill(self) -> None:
        """Compute all vectors handed out since the last call."""
        for vector, computed in zip(self._vectors, embed_all(self._texts), strict=True):
            vector.frombytes(computed.tobytes())
        self._texts, self._vectors = [], []
