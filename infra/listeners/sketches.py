"""Sketches of texts, which distinguish an edit from a re-rendering."""

from __future__ import annotations

import hashlib
import re
import struct

from schemas.ids import normalise_text

HASHES = 64
"""Number of MinHashes in a sketch, one byte each. A text of 200 words may end with a counter that every poll changes.
With 16, it would count as edited at one of a hundred polls; with 64, not within a day."""
SHINGLE_WORDS = 3
_ASIAN = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af"
_WORD = re.compile(f"[{_ASIAN}]|[^\\s{_ASIAN}]+")
_LANES = struct.Struct(f"<{HASHES}I")


def sketch(text: str) -> bytes:
    """Return the MinHashes of a text's shingles of 3 words (characters, in Chinese, Japanese and Korean), 64 bytes."""
    words = _WORD.findall(normalise_text(text))
    shingles = {" ".join(words[at : at + SHINGLE_WORDS]) for at in range(max(1, len(words) - SHINGLE_WORDS + 1))}
    lanes = [
        _LANES.unpack(hashlib.shake_256(shingle.encode("utf-8", "replace")).digest(_LANES.size)) for shingle in shingles
    ]
    return bytes(min(lane) & 0xFF for lane in zip(*lanes, strict=True))


def changed(before: bytes, after: bytes) -> float:
    """Return the share of two texts' shingles that only one of them has, 0–1, estimated from their sketches."""
    return sum(a != b for a, b in zip(before, after, strict=True)) / HASHES
