"""Past cases for recall: each case's row and its vector of one model, held in this process. Pure.

A lookup multiplies every vector, so it is exact. The vectors stay one-byte integers and are widened a block at a time
inside the processor's cache. 100,000 vectors of 256 components take 26 MB and 4 ms; a matrix of floats would take four
times the memory and as much time. ``numpy.vecdot`` runs on one thread. A matrix product of BLAS would start more
threads, which busy-wait while other work has the cores (88 ms instead of 4 at load 8).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from infra.models.embeddings.hashing import length

BLOCK = 1 << 20
"""Components multiplied at a time: 4 MiB as floats. Measured to be the fastest between 65,536 and 1,048,576."""


class MemoryRow(NamedTuple):
    """A remembered case. ``decided_ms``: milliseconds since 1970. ``offset``: the journal offset of the case's end."""

    case_id: str
    summary: str
    event_type: str
    asset: str
    confidence: float
    verdict: str
    decided_ms: int
    signal_id: str
    keywords: Sequence[str]
    offset: int


class Entries:
    """The entries of one model, each case once. ``dimensions``: components of a vector; 0 while none is known."""

    def __init__(self, dimensions: int = 0) -> None:
        self.dimensions = dimensions
        self.rows: list[MemoryRow] = []
        self._place: dict[str, int] = {}
        self._held = np.zeros(0, self._columns)

    def add(self, rows: Sequence[MemoryRow], vectors: Sequence[bytes], norms: Sequence[float]) -> None:
        """Add rows with their vectors (int8, zeros for none) and norms. Of a case's rows, the log's first one stays."""
        places = [self._placed(row) for row in rows]
        kept = [n for n, place in enumerate(places) if place >= 0]
        if not kept:
            return
        if len(self.rows) > len(self._held):
            grown = np.zeros(max(len(self.rows), len(self._held) * 3 // 2), self._columns)
            grown[: len(self._held)] = self._held
            self._held = grown
        at = [places[n] for n in kept]
        bytes_ = b"".join([vectors[n] for n in kept])
        self._held["vector"][at] = np.frombuffer(bytes_, np.int8).reshape(len(at), -1)
        self._held["norm"][at] = [norms[n] for n in kept]
        self._held["decided"][at] = [rows[n].decided_ms for n in kept]
        self._held["offset"][at] = [rows[n].offset for n in kept]
        self._held["id"][at] = [rows[n].case_id.encode() for n in kept]

    def nearest(
        self, vector: Sequence[int], before_ms: int, *, floor: float, near: float, asset: str, keywords: Collection[str]
    ) -> Iterator[tuple[MemoryRow, float]]:
        """Yield the entries decided before a time with their cosine, most similar first, then newest first.

        The cosine is at least ``floor``, or ``near`` for an entry about ``asset`` or with one of ``keywords``.
        """
        held = self._held[: len(self.rows)]
        if len(vector) != self.dimensions or not len(held):
            return
        similarity = self._cosines(held, vector)
        near_rows = np.flatnonzero((similarity >= min(floor, near)) & (held["decided"] < before_ms))
        some, like = held[near_rows], similarity[near_rows]
        for n in np.lexsort((some["id"], some["offset"], -some["decided"], -like)):
            row = self.rows[near_rows[n]]
            same = (row.asset == asset and asset != "") or not set(keywords).isdisjoint(row.keywords)
            if like[n] >= (near if same else floor):
                yield row, float(like[n])

    def timeline(
        self, vector: Sequence[int], since_ms: int, before_ms: int, *, asset: str, named: re.Pattern[str]
    ) -> Iterator[tuple[MemoryRow, float]]:
        """Yield the entries of this time about ``asset``, or whose summary matches, with their cosine; newest first."""
        held = self._held[: len(self.rows)]
        matching = np.flatnonzero((held["decided"] >= since_ms) & (held["decided"] < before_ms))
        for n in matching[np.lexsort((held["id"][matching], -held["decided"][matching]))]:
            row = self.rows[n]
            if (row.asset == asset and asset != "") or named.search(row.summary):
                like = self._cosines(held[n : n + 1], vector)[0] if len(vector) == self.dimensions else 0.0
                yield row, float(like)

    @property
    def _columns(self) -> np.dtype[np.void]:
        return np.dtype(
            [("vector", "i1", (self.dimensions,)), ("norm", "f4"), ("decided", "i8"), ("offset", "i8"), ("id", "S36")]
        )

    def _placed(self, row: MemoryRow) -> int:
        place = self._place.setdefault(row.case_id, len(self.rows))
        if place == len(self.rows):
            self.rows.append(row)
        elif row.offset < self.rows[place].offset:
            self.rows[place] = row
        else:
            return -1
        return place

    def _cosines(self, held: npt.NDArray[np.void], vector: Sequence[int]) -> npt.NDArray[np.float64]:
        # Sums of integers are exact in float32 up to 2^24, which two vectors of up to 1,040 components cannot exceed.
        asked, whole = np.array(vector, np.float32), held["vector"]
        block = max(1, BLOCK // self.dimensions)
        wide = np.empty((min(block, len(held)), self.dimensions), np.float32)
        dots = np.empty(len(held), np.float32)
        for first in range(0, len(held), block):
            part = wide[: len(held) - first]
            np.copyto(part, whole[first : first + block])
            np.vecdot(part, asked, out=dots[first : first + block])
        lengths = held["norm"].astype(np.float64) * length(vector)
        return np.divide(dots, lengths, out=np.zeros(len(held)), where=lengths > 0)
