"""The offline embedding: character n-grams hashed into a vector. No model, no network, the same on every machine.

Chinese has no spaces and English inflects, so both are cut into character n-grams: single Han characters and pairs of
them, triples of the other letters. Each n-gram is hashed to one of 256 components and a sign (the hashing trick:
Weinberger et al. 2009, "Feature Hashing for Large Scale Multitask Learning", arXiv:0902.2206). Counts are damped by a
square root, so that a word repeated ten times does not dominate.

Vectors of every model are stored as integers from -127 to 127 (ADR 17). That is a fourth of the bytes to read, and an
integer dot product is the same on every machine.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from schemas.ids import normalise_text

EMBEDDING_MODEL = "char-ngram-256-v2"
"""Stored with every vector; any change in this file needs a new name."""
DIMENSIONS = 256
LARGEST = 127
"""Largest absolute value of a component: the symmetric range of one byte."""
MAX_CHARACTERS = 4096
"""Maximum number of characters read from a text: the start of a news item states its subject."""

AT_ONCE = 200
"""Texts per batch of :func:`embed_all`: about ten thousand characters, which fit the processor's cache with all
intermediate arrays. Six times faster than one by one, measured on news items.
"""
_LETTER = np.uint64(21)
"""Bits of a character in an n-gram."""
_HAN_FIRST, _HAN_LAST = 0x3400, 0x9FFF
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX = np.uint64(0xBF58476D1CE4E5B9)


def embed(text: str) -> list[int]:
    """Return the text's vector: 256 components from -127 to 127, or empty without letters or digits.

    The cosine of two of them is 1 for texts equal up to layout and near 0 for unrelated ones.
    """
    components: list[int] = embed_all([text])[0].tolist()
    return components


def embed_all(texts: Sequence[str]) -> list[npt.NDArray[np.int8]]:
    """Return the vector of each text, empty for a text without letters or digits."""
    vectors: list[npt.NDArray[np.int8]] = []
    for first in range(0, len(texts), AT_ONCE):
        vectors += _embedded([normalise_text(text)[:MAX_CHARACTERS] for text in texts[first : first + AT_ONCE]])
    return vectors


def _embedded(folded: Sequence[str]) -> list[npt.NDArray[np.int8]]:
    codes = np.frombuffer("".join(f" {text} " for text in folded).encode("utf-32-le", "replace"), dtype=np.uint32)
    lengths = np.array([len(text) + 2 for text in folded])
    of = np.repeat(np.arange(len(folded)), lengths)
    han = (codes >= _HAN_FIRST) & (codes <= _HAN_LAST)
    # An n-gram that extends into the next text belongs to neither.
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


def quantised(vector: Sequence[float] | npt.NDArray[np.float64]) -> list[int]:
    """Scale a vector to integers with the largest component at 127; empty for a zero or non-finite vector.

    The cosine of two such vectors is off by less than 0.01 with 256 components or more.
    """
    values = np.asarray(vector, dtype=np.float64)
    largest = float(np.abs(values).max(initial=0.0))
    if largest == 0.0 or not math.isfinite(largest):
        return []
    whole: list[int] = np.rint(values * (LARGEST / largest)).astype(np.int8).tolist()
    return whole


def length(vector: Sequence[int]) -> float:
    """Return the Euclidean norm."""
    return math.sqrt(sum(x * x for x in vector))


def _hash(grams: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Mix 64 bits (the finaliser of SplitMix64, Steele et al. 2014); unsigned overflow is intended."""
    mixed = grams + _GOLDEN
    mixed = (mixed ^ (mixed >> np.uint64(30))) * _MIX
    return mixed ^ (mixed >> np.uint64(31))
