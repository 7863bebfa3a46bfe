"""Admission: the slots for open cases, and the order in which news gets them. Only here is back-pressure applied.

A case holds a slot of the worker that owns its journal partition, from before its opening is appended until its end is
folded. Nothing is admitted before all own partitions are live, because until then the number of open cases is unknown.

Slots are shared fairly. An own news partition with fewer than its guaranteed slots always gets one. Otherwise fresh
news goes before backlog, and then the partition with the fewest slots, so that a busy partition cannot take all. Some
slots are reserved for fresh news. A case's partition follows from its id, so intake opens cases for other workers, too:
each news partition has a fixed slice of every other worker's journal partition, which the owner keeps free for it. A
slice has at least one slot: several workers cannot keep a limit below the square of the partition count exactly.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Protocol

from schemas.topics import partition_of
from streams.runtime.partition import Partitions
from streams.wake import Wake

GUARANTEED = 4
"""One slot in this many is reserved, in equal parts, for own news partitions that hold less than their part."""
KEPT_FOR_FRESH = 50
"""One slot in this many is reserved for fresh news, whose cases open at once instead of when another case ends."""


class Others(Protocol):
    """View of other workers' journal partitions. ``slice_of_news`` is None while nothing is known."""

    @property
    def slice_of_news(self) -> int | None: ...

    def open_in(self, partition: int, news_partition: int) -> int | None: ...

    def position_of(self, partition: int) -> int: ...


class Admission:
    """At most ``limit`` cases admitted by this worker are open here.

    ``parts`` is the fold of the own journal partitions. ``may_admit`` returns why no case should be opened beside this
    many; None if one may. ``wake`` signals that a slot may be free.
    """

    def __init__(
        self,
        limit: int,
        partitions: int,
        others: Others,
        parts: Partitions,
        *,
        may_admit: Callable[[int], str | None],
        wake: Wake,
    ) -> None:
        self.limit = limit
        self._partitions = partitions
        self._others, self._parts, self._may_admit = others, parts, may_admit
        self._own: set[int] = set()
        self._live: set[int] = set()
        self._news: set[int] = set()
        self._held: dict[str, int] = {}
        self._per_news: Counter[int] = Counter()
        self._under_way: dict[int, dict[str, int | None]] = {n: {} for n in range(partitions)}
        self._far: dict[str, tuple[int, int]] = {}
        self._per_slice: Counter[tuple[int, int]] = Counter()
        self._waiting: dict[tuple[int, bool], tuple[str, bool, asyncio.Future[None]]] = {}
        self.most_held = 0
        wake.subscribe(self.wake)

    @property
    def held(self) -> int:
        """Number of slots in use: cases that are open or being opened here."""
        return len(self._held)

    @property
    def full(self) -> bool:
        """True if news waits for a slot."""
        return bool(self._waiting)

    @property
    def all_live(self) -> bool:
        """True if every own partition is live. Nothing is admitted before."""
        return self._live == self._own

    @property
    def unaffordable(self) -> str | None:
        """Reason why the budget has no room for another case; None if it has, or if no news waits."""
        return self._may_admit(len(self._held)) if self._waiting else None

    # Called by intake

    async def enter(
        self, news_partition: int, case_id: str, *, is_backlog: bool = False, overtakes: bool = False
    ) -> None:
        """Wait for a slot and take it. The caller appends the opening next.

        At most two cases wait for a partition: that of the next news, and one that ``overtakes`` it.
        """
        if not self._waiting and self._may(news_partition, case_id, is_backlog):
            self._take(news_partition, case_id)
            return
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waits = (news_partition, overtakes)
        self._waiting[waits] = (case_id, is_backlog, place)
        self.wake()
        try:
            await place
        except asyncio.CancelledError:
            if waits in self._waiting and self._waiting[waits][2] is place:
                del self._waiting[waits]
            if place.done() and not place.cancelled():
                self.give_up(case_id)
            raise

    def appended(self, case_id: str, offset: int) -> None:
        """Record that the opening is in the log, at this offset of its partition."""
        under_way = self._under_way[self._target(case_id)]
        if case_id in under_way:
            under_way[case_id] = offset

    def give_up(self, case_id: str) -> None:
        """Return the slot of an opening that will not be appended."""
        self._landed(self._target(case_id), case_id)
        self._release(case_id)

    # Called with what the log says

    def on_opened(self, partition: int, case_id: str, news_partition: int) -> None:
        """Count the slot of a folded opening, from this worker or another."""
        self._landed(partition, case_id)
        self._hold(case_id, news_partition)

    def on_closed(self, case_id: str) -> None:
        """Free the slot of a case that ended."""
        self._release(case_id)

    def on_live(self, partition: int, open_cases: Iterable[tuple[str, int]]) -> None:
        """Recount a partition that has caught up; ``open_cases`` are its (case id, news partition)."""
        for case_id in [c for c in self._held if self._target(c) == partition]:
            if case_id not in self._under_way[partition] and not self._parts.is_open(partition, case_id):
                self._drop(case_id)
        for case_id, news_partition in open_cases:
            self._hold(case_id, news_partition)
        self._live.add(partition)
        self.wake()

    def assign(self, cases: set[int], news: set[int]) -> None:
        """Set the own partitions. None is live yet."""
        self._own, self._news = set(cases), set(news)
        self._live.clear()
        for case_id in [c for c in self._held if self._target(c) not in self._own]:
            self._drop(case_id)
        for partition in self._own:
            for case_id in self._under_way[partition]:
                self._hold(case_id, -1)

    def pause(self) -> None:
        """Admit nothing until the own partitions are live again."""
        self._live.clear()

    def wake(self) -> None:
        """Admit waiting news if slots are free: fresh news first, then the partition with the fewest slots."""
        for partition in range(self._partitions):
            self._forget_passed_by(partition)
        for waits in sorted(self._waiting, key=lambda w: (self._waiting[w][1], self._per_news[w[0]])):
            case_id, is_backlog, place = self._waiting[waits]
            if place.done():
                del self._waiting[waits]
            elif self._may(waits[0], case_id, is_backlog):
                del self._waiting[waits]
                self._take(waits[0], case_id)
                place.set_result(None)

    # Slots

    def _may(self, number: int, case_id: str, is_backlog: bool) -> bool:
        if self._may_admit(len(self._held)) is not None:
            return False
        target = self._target(case_id)
        if target not in self._own:
            slice_, there = self._others.slice_of_news, self._others.open_in(target, number)
            return slice_ is not None and there is not None and there + self._per_slice[target, number] < slice_
        kept = self._reserved_for_others()
        limit = self.limit - self.limit // KEPT_FOR_FRESH * is_backlog
        if not self.all_live or kept is None or len(self._held) + kept >= limit:
            return False
        guaranteed = self.limit // (GUARANTEED * max(len(self._news), 1))
        if self._per_news[number] < guaranteed:
            return True
        kept += sum(max(0, guaranteed - self._per_news[n]) for n in self._news if n != number)
        return len(self._held) + kept < limit

    def _reserved_for_others(self) -> int | None:
        # Never all slots: with fewer slots than slices, the own news still gets one at a time.
        strangers = [n for n in range(self._partitions) if n not in self._news]
        if not strangers:
            return 0
        if (slice_ := self._others.slice_of_news) is None:
            return None
        whole = slice_ * len(self._own)
        kept = sum(max(0, whole - self._per_news[n]) for n in strangers)
        own = sum(self._per_news[n] for n in self._news)
        return kept if own else min(kept, self.limit - 1)

    def _take(self, number: int, case_id: str) -> None:
        target = self._target(case_id)
        self._under_way[target][case_id] = None
        if target in self._own:
            self._hold(case_id, number)
        else:
            self._far[case_id] = (target, number)
            self._per_slice[target, number] += 1

    def _landed(self, partition: int, case_id: str) -> None:
        self._under_way[partition].pop(case_id, None)
        if (far := self._far.pop(case_id, None)) is not None:
            self._per_slice[far] -= 1

    def _hold(self, case_id: str, number: int) -> None:
        if case_id not in self._held:
            self._held[case_id] = number
            self._per_news[number] += 1
            self.most_held = max(self.most_held, len(self._held))

    def _drop(self, case_id: str) -> None:
        number = self._held.pop(case_id, None)
        if number is not None:
            self._per_news[number] -= 1

    def _release(self, case_id: str) -> None:
        self._drop(case_id)
        if self._waiting:
            self.wake()

    def _forget_passed_by(self, partition: int) -> None:
        # An opening that the acceptance rule ignored opens nothing and sends no event, so free its slot here.
        under_way = self._under_way[partition]
        own = partition in self._own
        position = self._parts.position_of(partition) if own else self._others.position_of(partition)
        while under_way:
            case_id, offset = next(iter(under_way.items()))
            if offset is None or offset >= position:
                return
            self._landed(partition, case_id)
            if own and not self._parts.is_open(partition, case_id):
                self._drop(case_id)

    def _target(self, case_id: str) -> int:
        return partition_of(case_id, self._partitions)
