"""The offline embedding: character n-grams hashed into a vector. No model, no network, the same on every machine.

Chinese has no spaces and English inflects, so both are cut into runs of characters: Han characters alone and in pairs,
triples of the other letters. Each n-gram is hashed to one of 256 places and a sign (the hashing trick: Weinberger et
al. 2009, "Feature Hashing for Large Scale Multitask Learning", arXiv:0902.2206); counts are damped by a square root, so
that a word said ten times does not drown the rest.

Vectors of every model are kept as whole numbers from -127 to 127 (ADR 17): a fourth of the bytes to read, and a dot product
of whole numbers is the same on every machine.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from schemas.ids import normalise_text

EMBEDDING_MODEL = "char-ngram-256-v2"
"""Written beside every vector; a change of anything in this file is a new name."""
DIMENSIONS = 256
LARGEST = 127
"""Of a component: what one byte holds on both sides of zero."""
MAX_CHARACTERS = 4096
"""Characters read of a text. A news item's start says what it is about."""

_HAN_FIRST, _HAN_LAST = 0x3400, 0x9FFF
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX = np.uint64(0xBF58476D1CE4E5B9)


def embed(text: str) -> list[int]:
    """Return the 256 components of the text's vector, each from -127 to 127; empty for a text without letters or digits.

    The :func:`cosine` of two of them is 1 for texts equal up to layout and near 0 for unrelated ones.
    """
    folded = normalise_text(text)[:MAX_CHARACTERS]
    if not folded:
        return []
    codes = np.frombuffer(f" {folded} ".encode("utf-32-le", "replace"), dtype=np.uint32).astype(np.uint64)
    han = (codes >= _HAN_FIRST) & (codes <= _HAN_LAST)
    grams = np.concatenate([codes[han], _grams(codes, 2, han), _grams(codes, 3, ~han)])
    hashes = _hash(grams)
    places = (hashes >> np.uint64(8)) % np.uint64(DIMENSIONS)
    signs = np.where(hashes & np.uint64(1), 1.0, -1.0)
    counts = np.bincount(places.astype(np.int64), weights=signs, minlength=DIMENSIONS)
    return quantised(np.sign(counts) * np.sqrt(np.abs(counts)))


def quantised(vector: Sequence[float] | npt.NDArray[np.float64]) -> list[int]:
    """Return the vector's direction in whole numbers, the largest component being 127; empty for one without a direction.

    The cosine of two such vectors is off by less than 0.01 with 256 components or more.
    """
    values = np.asarray(vector, dtype=np.float64)
    largest = float(np.abs(values).max(initial=0.0))
    if largest == 0.0 or not math.isfinite(largest):
        return []
    whole: list[int] = np.rint(values * (LARGEST / largest)).astype(np.int8).tolist()
    return whole


def cosine(a: Sequence[int], b: Sequence[int]) -> float:
    """Return the cosine similarity of two vectors of one model; 0 where one of them is empty."""
    if not a or not b:
        return 0.0
    product = sum(x * y for x, y in zip(a, b, strict=True))
    return product / (length(a) * length(b))


def length(vector: Sequence[int]) -> float:
    """Return the length of a vector."""
    return math.sqrt(sum(x * x for x in vector))


def _grams(codes: npt.NDArray[np.uint64], n: int, wanted: npt.NDArray[np.bool_]) -> npt.NDArray[np.uint64]:
    """Return every run of n characters that begins with a wanted one, packed into 21 bits a character."""
    count = len(codes) - n + 1
    if count < 1:
        return np.empty(0, dtype=np.uint64)
    packed = np.zeros(count, dtype=np.uint64)
    for k in range(n):
        packed = (packed << np.uint64(21)) | codes[k : k + count]
    return packed[wanted[:count]]


def _hash(grams: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Mix 64 bits (the finaliser of SplitMix64, Steele et al. 2014); unsigned overflow is meant."""
    mixed = grams + _GOLDEN
    mixed = (mixed ^ (mixed >> np.uint64(30))) * _MIX
    return mixed ^ (mixed >> np.uint64(31))
