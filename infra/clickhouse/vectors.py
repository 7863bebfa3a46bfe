"""The vectors of many texts at once, for the rows of memory: the same as ``infra.embedding.embed`` gives for each alone.

numpy costs as much for one text as for a hundred; six times faster than one by one, measured on news items.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from infra.embedding import _HAN_FIRST, _HAN_LAST, DIMENSIONS, LARGEST, MAX_CHARACTERS, _hash
from schemas.ids import normalise_text

AT_ONCE = 200
"""Texts: some ten thousand characters, which fit the processor's cache with everything that is computed of them."""
_LETTER = np.uint64(21)
"""Bits of a character, as in ``infra.embedding``."""


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


def embed_all(texts: Sequence[str]) -> list[npt.NDArray[np.int8]]:
    """Return the vector of each text; an empty one for a text without letters or digits."""
    vectors: list[npt.NDArray[np.int8]] = []
    for first in range(0, len(texts), AT_ONCE):
        vectors += _embedded([normalise_text(text)[:MAX_CHARACTERS] for text in texts[first : first + AT_ONCE]])
    return vectors


def _embedded(folded: Sequence[str]) -> list[npt.NDArray[np.int8]]:
    codes = np.frombuffer("".join(f" {text} " for text in folded).encode("utf-32-le", "replace"), dtype=np.uint32)
    lengths = np.array([len(text) + 2 for text in folded])
    of = np.repeat(np.arange(len(folded)), lengths)
    han = (codes >= _HAN_FIRST) & (codes <= _HAN_LAST)
    # A run of letters that reaches into the next text is of neither.
    two, three = han[:-1] & (of[:-1] == of[1:]), ~han[:-2] & (of[:-2] == of[2:])
    wide = codes.astype(np.uint64)
    pairs = (wide[:-1] << _LETTER) | wide[1:]
    triples = (pairs[:-1] << _LETTER) | wide[2:]
    hashes = _hash(np.concatenate([wide[han], pairs[two], triples[three]]))
    text_of = np.concatenate([of[han], of[:-1][two], of[:-2][three]])
    places = ((hashes >> np.uint64(8)) % np.uint64(DIMENSIONS)).astype(np.int64) + text_of * DIMENSIONS
    signs = np.where(hashes & np.uint64(1), 1.0, -1.0)
    counts = np.bincount(places, weights=signs, minlength=DIMENSIONS * len(folded)).reshape(-1, DIMENSIONS)
    damped = np.sign(counts) * np.sqrt(np.abs(counts))
    largest = np.abs(damped).max(axis=1, keepdims=True, initial=0.0)
    whole = np.rint(damped * (LARGEST / np.where(largest == 0.0, 1.0, largest))).astype(np.int8)
    return [vector if some else vector[:0] for vector, some in zip(whole, largest[:, 0] > 0.0, strict=True)]
