"""The recent past of the live stream, in memory: one ring buffer that all open streams read from, each at its own pace.

A stream holds no queue, only the number of the next item to read, so a slow client costs nothing. When the ring has
dropped that item, the stream is cut off and resumes from its last position (:class:`Place`), in this process or
another.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Mapping
from typing import Literal

import msgspec
from aiokafka import TopicPartition

from schemas.errors import ContractError
from streams.feed.case_items import Facts

Kind = Literal["signal", "case"]
KINDS: tuple[Kind, ...] = ("signal", "case")
_WRITTEN = re.compile(r"s([0-9.]*)-c([0-9.]*)").fullmatch
_LONGEST = 12_000
"""Enough for 512 partitions of two topics, with more digits than their offsets will have."""
WINDOW_ITEMS, WINDOW_BYTES = 20_000, 32 * 1024 * 1024
WRITE_BYTES = 32 * 1024
TICK_S = 0.02
"""Streams are woken once for all items that arrive within this time, so that one write sends many."""


class Place(msgspec.Struct, frozen=True):
    """Position of a stream: the next offset of every partition, by kind. Its text is the stream's opaque ``id``."""

    signal: tuple[int, ...] = ()
    case: tuple[int, ...] = ()

    def __str__(self) -> str:
        return f"s{'.'.join(map(str, self.signal))}-c{'.'.join(map(str, self.case))}"

    @classmethod
    def read(cls, text: str) -> Place:
        """Parse the position that a client sent back.

        Raises:
            ContractError: it is not a position (reason ``bad_place``).
        """
        match = _WRITTEN(text) if len(text) <= _LONGEST else None
        try:
            if match is None:
                raise ValueError
            signal, case = (tuple(int(n) for n in part.split(".") if part) for part in match.groups())
        except ValueError as exc:
            raise ContractError(
                "the Last-Event-ID does not belong to this stream: open the stream without it, and read the lists again",
                reason="bad_place",
            ) from exc
        return cls(signal=signal, case=case)


class Item(msgspec.Struct, frozen=True, kw_only=True):
    """One item of the stream. ``data`` is the SSE event's JSON, on one line.

    ``earlier``: facts under which it was shown before; clients that received those must receive the update too.
    ``for_all``: no filter applies, because the earlier facts are not known, or because the item ends something.
    """

    kind: Kind
    partition: int
    offset: int
    facts: Facts
    data: bytes
    earlier: tuple[Facts, ...] = ()
    for_all: bool = False

    def shown_by(self) -> tuple[Facts, ...]:
        """Return its present facts and its earlier ones."""
        return self.facts, *self.earlier


class Window:
    """The newest items, at most ``items`` of them and at most ``max_bytes``. Item numbers only grow."""

    def __init__(self, *, items: int = WINDOW_ITEMS, max_bytes: int = WINDOW_BYTES) -> None:
        self._items: list[Item] = []
        self._limit, self._max_bytes, self._bytes = items, max_bytes, 0
        self.first = 0
        self._next: dict[Kind, list[int]] = {kind: [] for kind in KINDS}
        self._floor: dict[Kind, list[int]] = {kind: [] for kind in KINDS}
        self._moved = asyncio.Event()
        self._waking: asyncio.TimerHandle | None = None

    @property
    def end(self) -> int:
        """The number of the next item."""
        return self.first + len(self._items)

    @property
    def place(self) -> Place:
        """The position after everything that has been read."""
        return Place(signal=tuple(self._next["signal"]), case=tuple(self._next["case"]))

    def start(self, kind: Kind, offsets: Mapping[TopicPartition, int]) -> None:
        """Set the first offset of each partition."""
        by_partition = [offsets[tp] for tp in sorted(offsets, key=lambda tp: tp.partition)]
        self._next[kind], self._floor[kind] = list(by_partition), list(by_partition)

    def add(self, kind: Kind, partition: int, through: int, items: Iterable[Item]) -> None:
        """Add items of one partition, in order, and record that it was read up to and including ``through``."""
        for item in items:
            self._next[kind][partition] = item.offset + 1
            self._items.append(item)
            self._bytes += len(item.data)
        self._next[kind][partition] = max(self._next[kind][partition], through + 1)
        gone = 0
        while gone < len(self._items) and (len(self._items) - gone > self._limit or self._bytes > self._max_bytes):
            old = self._items[gone]
            gone += 1
            self._bytes -= len(old.data)
            self._floor[old.kind][old.partition] = old.offset + 1
        del self._items[:gone]
        self.first += gone
        self._wake_soon()

    def holds(self, place: Place) -> bool:
        """Whether everything after this position is in the window or still to come."""
        known = len(place.signal), len(place.case)
        return known == (len(self._floor["signal"]), len(self._floor["case"])) and all(
            offset >= floor
            for offsets, floors in ((place.signal, self._floor["signal"]), (place.case, self._floor["case"]))
            for offset, floor in zip(offsets, floors, strict=True)
        )

    def has_reached(self, place: Place) -> bool:
        """Whether this position was already read. A position of another log may never be reached."""
        return all(
            offset <= end
            for offsets, ends in ((place.signal, self._next["signal"]), (place.case, self._next["case"]))
            for offset, end in zip(offsets, ends, strict=False)
        )

    def behind(self, place: Place) -> Place:
        """Return the position, advanced to the oldest that the window still holds if it is before that."""
        floors = self._floor["signal"], self._floor["case"]
        moved = [
            tuple(max(floor, offsets[n] if n < len(offsets) else 0) for n, floor in enumerate(floors_of))
            for offsets, floors_of in zip((place.signal, place.case), floors, strict=True)
        ]
        return Place(signal=moved[0], case=moved[1])

    def read(self, at: int) -> list[Item]:
        """Return items from this number on, as many as fit one write: all that a stream holds for a slow client.

        Raises:
            LookupError: the ring has dropped it.
        """
        if at < self.first:
            raise LookupError(at)
        items: list[Item] = []
        size = 0
        for n in range(at - self.first, len(self._items)):
            size += len(self._items[n].data)
            if items and size > WRITE_BYTES:
                break
            items.append(self._items[n])
        return items

    async def moved(self, at: int, within_s: float) -> bool:
        """Wait until the item of this number exists; False on timeout, after ``within_s``."""
        try:
            async with asyncio.timeout(within_s):
                while self.end <= at:
                    await self._moved.wait()
        except TimeoutError:
            return False
        return True

    def _wake_soon(self) -> None:
        if self._waking is None:
            self._waking = asyncio.get_running_loop().call_later(TICK_S, self._wake)

    def _wake(self) -> None:
        self._waking = None
        moved, self._moved = self._moved, asyncio.Event()
        moved.set()
