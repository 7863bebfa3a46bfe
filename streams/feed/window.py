"""The recent past of the live stream, in memory: one ring that all open streams read from, each at its own pace.

A stream holds no queue, only the number of the item that it reads next. So a slow client costs nothing; when the ring has
passed it, it is cut off and comes back with the place that it last saw (:class:`Place`), from this process or another.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Mapping
from typing import Literal

import msgspec
from aiokafka import TopicPartition

from schemas.errors import ContractError

Kind = Literal["signal", "case"]
KINDS: tuple[Kind, ...] = ("signal", "case")
_WRITTEN = re.compile(r"s([0-9.]*)-c([0-9.]*)").fullmatch
_LONGEST = 12_000
"""512 partitions of two topics, and more digits than they will have."""
WINDOW_ITEMS, WINDOW_BYTES = 20_000, 32 * 1024 * 1024
WRITE_BYTES = 32 * 1024
TICK_S = 0.02
"""Streams are woken once for what comes within this time: a write each for many items."""


class Place(msgspec.Struct, frozen=True):
    """How far a stream has read: the next offset of every partition, by kind. Its text is the stream's opaque ``id``."""

    signal: tuple[int, ...] = ()
    case: tuple[int, ...] = ()

    def __str__(self) -> str:
        return f"s{'.'.join(map(str, self.signal))}-c{'.'.join(map(str, self.case))}"

    @classmethod
    def read(cls, text: str) -> Place:
        """Return the place that a client sent back.

        Raises:
            ContractError: the text is none (reason ``bad_place``).
        """
        found = _WRITTEN(text) if len(text) <= _LONGEST else None
        try:
            if found is None:
                raise ValueError
            signal, case = (tuple(int(n) for n in part.split(".") if part) for part in found.groups())
        except ValueError as exc:
            raise ContractError(
                "the Last-Event-ID is none of this stream's: open the stream without one, and read the lists again",
                reason="bad_place",
            ) from exc
        return cls(signal=signal, case=case)


Facts = tuple[str, str, float | None]
"""Asset, type of event and confidence: what streams are filtered by."""


class Item(msgspec.Struct, frozen=True, kw_only=True):
    """One thing to show. ``data`` is the SSE event's JSON, on one line.

    ``earlier`` are the facts that it was shown by before: whoever was sent those must hear what became of it. ``for_all``:
    no filter holds it back, since what was shown before is not known, or it ends something.
    """

    kind: Kind
    partition: int
    offset: int
    asset: str
    event_type: str
    confidence: float | None
    data: bytes
    earlier: tuple[Facts, ...] = ()
    for_all: bool = False

    def shown_by(self) -> tuple[Facts, ...]:
        """Return the facts that it is, and was, shown by."""
        return (self.asset, self.event_type, self.confidence), *self.earlier


class Window:
    """The newest items, at most ``items`` and ``max_bytes`` of them. Numbers of items only grow."""

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
        """The number that the next item will have."""
        return self.first + len(self._items)

    @property
    def place(self) -> Place:
        """The place behind everything that has been read."""
        return Place(signal=tuple(self._next["signal"]), case=tuple(self._next["case"]))

    def start(self, kind: Kind, offsets: Mapping[TopicPartition, int]) -> None:
        """Say from which offset on each partition's items come here."""
        by_partition = [offsets[tp] for tp in sorted(offsets, key=lambda tp: tp.partition)]
        self._next[kind], self._floor[kind] = list(by_partition), list(by_partition)

    def add(self, kind: Kind, partition: int, through: int, items: Iterable[Item]) -> None:
        """Add the items of one partition (in order) and note that it was read through this offset."""
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
        """Whether everything behind this place is here, or still to come."""
        known = len(place.signal), len(place.case)
        return known == (len(self._floor["signal"]), len(self._floor["case"])) and all(
            offset >= floor
            for offsets, floors in ((place.signal, self._floor["signal"]), (place.case, self._floor["case"]))
            for offset, floor in zip(offsets, floors, strict=True)
        )

    def has_reached(self, place: Place) -> bool:
        """Whether this place lies no farther than what has been read; one of another log may never be reached."""
        return all(
            offset <= end
            for offsets, ends in ((place.signal, self._next["signal"]), (place.case, self._next["case"]))
            for offset, end in zip(offsets, ends, strict=False)
        )

    def behind(self, place: Place) -> Place:
        """Return the place, moved to what is still here where it lies before that."""
        floors = self._floor["signal"], self._floor["case"]
        moved = [
            tuple(max(floor, offsets[n] if n < len(offsets) else 0) for n, floor in enumerate(floors_of))
            for offsets, floors_of in zip((place.signal, place.case), floors, strict=True)
        ]
        return Place(signal=moved[0], case=moved[1])

    def read(self, at: int) -> list[Item]:
        """Return items from this number on, as many as make one write: all that a stream holds while its client is slow.

        Raises:
            LookupError: the ring has passed it.
        """
        if at < self.first:
            raise LookupError(at)
        found: list[Item] = []
        size = 0
        for n in range(at - self.first, len(self._items)):
            size += len(self._items[n].data)
            if found and size > WRITE_BYTES:
                break
            found.append(self._items[n])
        return found

    async def moved(self, at: int, within_s: float) -> bool:
        """Wait until there is an item of this number; False when ``within_s`` passed first."""
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
