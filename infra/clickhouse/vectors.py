"""The vectors of a batch's rows of memory, computed all at once: numpy costs as much for one text as for a hundred."""

from __future__ import annotations

from array import array

from infra.models.embeddings.hashing import embed_all


class Vectors:
    """Hands out vectors that are computed later, all at once: empty until :meth:`fill`."""

    def __init__(self) -> None:
        self._texts: list[str] = []
        self._vectors: list[array[int]] = []

    def of(self, text: str) -> array[int]:
        """Return the vector of a text, of one byte a component, which :meth:`fill` is going to fill."""
        vector = array("b")
        self._texts.append(text)
        self._vectors.append(vector)
        return vector

    def fill(self) -> None:
        """Compute what was handed out."""
        for vector, computed in zip(self._vectors, embed_all(self._texts), strict=True):
            vector.frombytes(computed.tobytes())
        self._texts, self._vectors = [], []
