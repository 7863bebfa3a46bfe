"""``lab bench watches``: several watchers on one log, killed repeatedly, with a clock that skips every wait.

The watchers, their fold and the acceptance of the journal are the product's; the log is in memory. A kill hits at any
point where a watcher waits, and just before or after one of its appends. Investigations end after a while, and their
tombstones expire, so that only ``WatchOpened`` prevents a second opening of a firing.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from random import Random

import msgspec

from infra.clickhouse.record import epoch_ms
from lab.bench.measures import Figure
from schemas import envelope as wire
from schemas.events import WIRE_NAMES, InvestigationAsked
from schemas.ids import RESEARCH_RUN, event_id, uuid5
from schemas.research_events import AnswerStopped
from schemas.watches import MIN_EVERY_S, WatchFired, WatchSet, decode
from streams.journal.acceptance import TOMBSTONE_OFFSETS
from streams.journal.fold import JournalFold
from streams.watches.rule import Watch, WatchState
from streams.watches.watcher import Watcher
from streams.watches.writer import WatchWriter, append_record
from tests.streams.memory_log import MemoryLog
from tests.streams.watches.in_memory import TOPICS, MemoryAppender, asked_by, pinned
from tests.virtual_time import run_virtually, virtual_now

WATCHES, TICKS, KILLS, WORKERS = 100, 10, 50, 3
LASTS_S = 600.0
"""Maximum duration of an investigation."""
SET_WITHIN_S, SETTLES_S = 0.9 * MIN_EVERY_S, 120.0


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """Result of a run. ``missed``, ``twice``: due times with no firing, or several. ``late_s``: the latest firing.

    ``reopened``, ``unopened``: firings whose investigation was opened more than once, or never. ``passed_by``: records
    of watchers that came second.
    """

    seed: int
    due: int
    kills: int
    fired: int
    missed: int
    twice: int
    opened: int
    reopened: int
    unopened: int
    passed_by: int
    late_s: float

    @property
    def held(self) -> bool:
        """True if each due time fired once and opened one investigation."""
        return (
            not (self.missed or self.twice or self.reopened or self.unopened) and self.fired == self.opened == self.due
        )


def simulate(seed: int, *, watches: int = WATCHES, ticks: int = TICKS, kills: int = KILLS) -> Outcome:
    """Run ``watches`` of ``ticks`` due times each, and kill workers ``kills`` times."""
    return run_virtually(_Run(Random(seed), watches, ticks, kills).outcome(seed))


class _NoNews:
    async def newest(self, watches: Sequence[Watch], now_ms: int) -> dict[str, tuple[int, str]]:
        return {}

    async def close(self) -> None:
        pass


class _Run:
    def __init__(self, random: Random, watches: int, ticks: int, kills: int) -> None:
        self._random, self._watches, self._ticks, self._kills = random, watches, ticks, kills
        self._log = MemoryLog({TOPICS.watches: 1, TOPICS.research: 1})
        self._appenders: list[MemoryAppender] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._killed = 0

    async def outcome(self, seed: int) -> Outcome:
        self._appenders = [MemoryAppender(self._log) for _ in range(WORKERS)]
        self._tasks = [asyncio.create_task(self._worker(n)) for n in range(WORKERS)]
        others = [asyncio.create_task(work) for work in (self._set(), self._strike(), self._end())]
        await asyncio.sleep((self._ticks - 1) * MIN_EVERY_S + SET_WITHIN_S + SETTLES_S)
        for task in (*self._tasks, *others):
            task.cancel()
        await asyncio.gather(*self._tasks, *others, return_exceptions=True)
        return await self._counted(seed)

    async def _worker(self, n: int) -> None:
        appender = self._appenders[n]
        writer = WatchWriter(appender, TOPICS, partitions=1, ask=asked_by, pin=pinned)
        watcher = Watcher(self._log, TOPICS.watches, writer, _NoNews(), virtual_now, daily_limit=10**6)
        await watcher.run()

    async def _set(self) -> None:
        for n in range(self._watches):
            await asyncio.sleep(self._random.uniform(0, SET_WITHIN_S / self._watches))
            watch = WatchSet(
                id=uuid5("w", str(n)), subject=f"Subject {n}", every_s=MIN_EVERY_S, language="en", by="lab"
            )
            await append_record(MemoryAppender(self._log), TOPICS, watch)

    async def _strike(self) -> None:
        between = self._ticks * MIN_EVERY_S / 2 / max(self._kills, 1)
        while self._killed < self._kills:
            await asyncio.sleep(self._random.uniform(0, between))
            struck = self._random.sample(
                range(WORKERS), min(self._random.choice((1, 1, 2, 3)), self._kills - self._killed)
            )
            for n in struck:
                self._appenders[n].dies = self._random.choice(("before", "after", ""))
                if not self._appenders[n].dies:
                    self._tasks[n].cancel()
            await asyncio.gather(*(self._tasks[n] for n in struck), return_exceptions=True)
            self._killed += len(struck)
            await asyncio.sleep(self._random.uniform(0, 20))
            for n in struck:
                self._appenders[n] = MemoryAppender(self._log)
                self._tasks[n] = asyncio.create_task(self._worker(n))

    async def _end(self) -> None:
        """End every investigation after a while, then append so many other records that its tombstone expires."""
        fold, at = JournalFold(partitions=1), 0
        while True:
            await asyncio.sleep(LASTS_S)
            ((tp, (_, end)),) = (await self._log.bounds(TOPICS.research)).items()
            async for _, records in self._log.replay({tp: (at, end)}):
                list(fold.accept(records))
            at = end
            young = (await self._log.offsets_at([tp], epoch_ms(virtual_now()) - round(SETTLES_S * 1000)))[tp] or 0
            for case, state in list(fold.accepted.open.items()):
                if state.first_offset < young:
                    self._stop(case, state.head_id)
            self._log.skip(TOPICS.research, 0, TOMBSTONE_OFFSETS + 1)

    def _stop(self, case: str, head: str) -> None:
        key, value, headers = wire.encode(
            AnswerStopped(requested_by="lab", reason="over"), id=event_id(RESEARCH_RUN, case, head), case_id=case,
            causation_id=head, run_id=RESEARCH_RUN, time=virtual_now(), source="lab",
        )  # fmt: skip
        now = epoch_ms(virtual_now())
        self._log.append(TOPICS.research, 0, value=value, key=key, headers=headers, timestamp=now)

    async def _counted(self, seed: int) -> Outcome:
        state, fired = WatchState(), []
        async for _, records in self._log.replay(await self._log.bounds(TOPICS.watches)):
            for record in records:
                change = decode(record.value)
                if state.fold(record.timestamp, change) and isinstance(change, WatchFired):
                    fired.append((change, record.timestamp))
        journal, opened = JournalFold(partitions=1), Counter[str]()
        async for _, records in self._log.replay(await self._log.bounds(TOPICS.research)):
            opened.update(env.case_id for env, _ in journal.accept(records) if env.type == OPENING)
        times = Counter((firing.watch, epoch_ms(firing.due_at)) for firing, _ in fired)
        due = {
            (w.set.id, w.set_ms + k * MIN_EVERY_S * 1000) for w in state.watches.values() for k in range(self._ticks)
        }
        return Outcome(
            seed=seed,
            due=len(due),
            kills=self._killed,
            fired=len(fired),
            missed=len(due - times.keys()),
            twice=sum(n > 1 for n in times.values()),
            opened=sum(opened.values()),
            reopened=sum(n > 1 for n in opened.values()),
            unopened=sum(firing.investigation not in opened for firing, _ in fired),
            passed_by=state.passed_by,
            late_s=max(at - epoch_ms(firing.due_at) for firing, at in fired) / 1000,
        )


OPENING = WIRE_NAMES[InvestigationAsked]


async def watches(seed: int = 1) -> list[Figure]:
    """Return the results of a run with this seed.

    Raises:
        RuntimeError: a guarantee did not hold.
    """
    done = await asyncio.to_thread(simulate, seed)
    if not done.held:
        raise RuntimeError(f"a due watch was not fired or opened exactly once: {done}; repeat it with --seed {seed}")
    return [
        Figure(name="watches: fired and opened exactly once", value=done.fired, unit="times", target=f"{done.due}"),
        Figure(name="watches: kills of a watcher", value=done.kills, unit="kills", target=f"{KILLS}"),
        Figure(name="watches: latest firing after it was due", value=done.late_s, unit="s", target="< 30"),
    ]
