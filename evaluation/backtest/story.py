"""Stories: groups of cases about the same news, so that statistics do not count ten copies of one rumour as ten proofs.

Two cases belong to one story when one repeats, denies, corrects or retries the other, or when their texts are nearly
the same: at least :data:`ALIKE` of the words (character pairs in Chinese) in common, within :data:`WINDOW`. MinHash
selects the texts to compare (Broder, "On the resemblance and containment of documents", 1997).
"""

from __future__ import annotations

import zlib
from collections import deque
from collections.abc import Iterable
from datetime import datetime, timedelta

import numpy as np

from schemas import events as ev
from schemas.ids import normalise_text

ALIKE = 0.7
WINDOW = timedelta(days=14)
HASHES, BANDS = 24, 8
"""Texts that share 70 % of their words meet in one of 8 bands of 3 with a probability of 0.97."""
MAX_WORDS = 400
_PRIME = np.uint64((1 << 31) - 1)
_DRAW = np.random.Generator(np.random.PCG64(20240601))
_A = _DRAW.integers(1, int(_PRIME), HASHES, dtype=np.uint64)
_B = _DRAW.integers(0, int(_PRIME), HASHES, dtype=np.uint64)


class Stories:
    """Maps cases to stories. Feed every accepted event in log order, then query."""

    def __init__(self) -> None:
        self._parent: dict[str, str] = {}
        self._bands: dict[tuple[int, bytes], deque[tuple[datetime, str, frozenset[int]]]] = {}

    def add(self, case_id: str, event: ev.Event) -> None:
        """Add one accepted event of a case."""
        match event:
            case ev.EventReceived(news=news, edits=edits, retries=retries):
                self._parent.setdefault(case_id, case_id)
                self._join(case_id, (edits, retries))
                self._compare(case_id, news.text, news.as_of)
            case ev.SecondLookOpened(of_case=first):
                self._join(case_id, (first,))
            case ev.CaseDropped(duplicate_of=first):
                self._join(case_id, (first,))
            case ev.RetractionFound(of_case=of_case):
                self._join(case_id, (of_case,))
            case _:
                pass

    def of(self, case_id: str) -> str:
        """Return the story's id: the id of its first case."""
        root = case_id
        while (above := self._parent.get(root, root)) != root:
            root = above
        while (above := self._parent.get(case_id, root)) != root:
            self._parent[case_id], case_id = root, above
        return root

    def _join(self, case_id: str, others: Iterable[str | None]) -> None:
        for other in others:
            if other is not None:
                ours, theirs = self.of(case_id), self.of(other)
                if ours != theirs:
                    self._parent[ours] = theirs

    def _compare(self, case_id: str, text: str, at: datetime) -> None:
        words = _words(text)
        if not words:
            return
        for band, key in enumerate(_signature(words)):
            met = self._bands.setdefault((band, key), deque(maxlen=16))
            for when, other, theirs in met:
                if abs(at - when) <= WINDOW and len(words & theirs) >= ALIKE * len(words | theirs):
                    self._join(case_id, (other,))
                    break
            met.append((at, case_id, words))


def _words(text: str) -> frozenset[int]:
    found: list[str] = []
    for word in normalise_text(text[:4000]).split()[:MAX_WORDS]:
        found += [word] if word.isascii() else [word[i : i + 2] for i in range(max(1, len(word) - 1))]
    return frozenset(zlib.crc32(word.encode()) & 0x7FFFFFFF for word in found)


def _signature(words: frozenset[int]) -> list[bytes]:
    hashed = np.fromiter(words, dtype=np.uint64, count=len(words))
    least = ((hashed[:, None] * _A + _B) % _PRIME).min(axis=0)
    return [row.tobytes() for row in least.reshape(BANDS, HASHES // BANDS)]
