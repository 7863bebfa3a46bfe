"""Second looks: an unconfirmed case of high impact is looked at again, when the log says that it is due.

    journal ─► fold ─► due? ─► admission ─► SecondLookOpened ─► journal

Every worker follows the whole journal from a few hours back, and opens the looks at cases of its own partitions. A look has
one id for ever, and lies on its first case's partition: whoever is killed at any point is followed by any other, and the
journal opens the look once. What was due while no worker ran is opened if it is no older than ``LAPSES``.

Another report settles a case only with an answer: it denies or corroborates the first one's signal, ends in a verdict that is
acted on, or is looked at again itself. The look at a stranger's report does not stand for that at a listed source's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any, Protocol

import structlog
from msgspec.structs import replace

from agents.core.case import LOOKED_AT_AGAIN
from infra.clickhouse.record import epoch_ms
from schemas import envelope as wire
from schemas.config import Snapshot
from schemas.errors import ContractError
from schemas.events import (
    WIRE_NAMES,
    CaseDropped,
    CaseFailed,
    CaseTriaged,
    EventReceived,
    RetractionFound,
    SecondLookOpened,
    SignalSynthesized,
    StoryChecked,
    StoryCorroborated,
    ToolPlanned,
)
from schemas.ids import LIVE_RUN, uuid5
from schemas.news import MOST_LOOKS, NOT_LIVE_FLAGS, flags_of, look_id
from schemas.signals import ACTED_ON, Signal
from streams.journal.log import Log, starts_since
from streams.journal.reader import JournalReader
from streams.journal.retry import is_away, retry_while_unavailable

log = structlog.get_logger(__name__)

LAPSES = timedelta(hours=1)
"""A look that could not be opened within so long after it was due is not opened any more."""
LIVE_WITHIN = timedelta(hours=1)
"""News whose case was decided longer than this after its own time was not live: a search as of then finds nothing new."""
ADMITTED_WITHIN_S = 1.0
"""How long a look waits for a slot before it is tried again: news waits behind it."""
FOLLOW_S = 2.0
"""New records are read at once; this bounds how late the clock is noticed."""
_AT_ONCE = 100
"""Records taken in before others of the worker's loop get their turn: about 10 ms."""
_ANSWERS = ACTED_ON | {"refuted"}
NO_NEWS = -1
"""The partition of ``news`` that looks are admitted for: that of an opening that no news item made."""
_READ = frozenset(
    WIRE_NAMES[t]
    for t in (EventReceived, SecondLookOpened, CaseTriaged, ToolPlanned, SignalSynthesized, CaseDropped, CaseFailed,
              RetractionFound, StoryChecked, StoryCorroborated)
)  # fmt: skip


class Room(Protocol):
    """The slots for open cases (:class:`streams.intake.admission.Admission`)."""

    async def enter(self, news_partition: int, case_id: str) -> None: ...

    def appended(self, case_id: str, offset: int) -> None: ...

    def give_up(self, case_id: str) -> None: ...


class Writes(Protocol):
    """Where an opening is appended (:class:`streams.journal.appender.Appender`)."""

    async def append(
        self, topic: str, value: Any, *, key: Any, partition: Any, headers: Any = None
    ) -> tuple[int, int]: ...


class _Open:
    """A case that has not ended, as far as its look needs it."""

    __slots__ = ("earlier", "keywords", "opening", "triaged")

    def __init__(self, opening: EventReceived | SecondLookOpened) -> None:
        self.opening = opening
        self.triaged: CaseTriaged | None = None
        self.keywords: str | None = None
        self.earlier: tuple[str, ...] = ()


class SecondLooks:
    """One worker's part in the looks. ``due`` are those still to be opened, by their id."""

    def __init__(
        self,
        log: Log,
        topic: str,
        appender: Writes,
        room: Room,
        *,
        config_of: Callable[[str], Snapshot | None],
        is_own: Callable[[int], bool],
        clock: Callable[[], datetime],
        partitions: int,
        reach_s: float,
    ) -> None:
        """``topic``: the journal, of ``partitions``. ``is_own``: whether a partition is live here. ``clock``: UTC.

        ``reach_s``: how long after its first decision the last look is due; 0: there are none, and nothing is read.
        """
        self._log, self._topic, self._appender, self._room = log, topic, appender, room
        self._config_of, self._is_own, self._clock = config_of, is_own, clock
        self._partitions, self._reach = partitions, timedelta(seconds=reach_s)
        self._open: dict[str, _Open] = {}
        # By case, and whether its news is a listed source's.
        self._settled: dict[tuple[str, bool], datetime] = {}
        self.due: dict[str, tuple[int, SecondLookOpened]] = {}

    async def run(self) -> None:
        """Follow the journal and open what is due, until cancelled; also through times when Kafka is away.

        Begins once a partition is live here: until then no look can be opened, and the worker's start needs the processor.
        """
        while not any(map(self._is_own, range(self._partitions))):  # noqa: ASYNC110 - once, at a start
            await asyncio.sleep(FOLLOW_S / 4)
        if self._reach:
            await retry_while_unavailable(self._follow, "second looks", unavailable=is_away)

    async def _follow(self) -> None:
        for held in (self._open, self._settled, self.due):
            held.clear()
        reader = JournalReader(self._log, self._topic)
        since = self._clock() - self._reach - LAPSES - LIVE_WITHIN
        folds = await reader.begin(await starts_since(self._log, self._topic, epoch_ms(since)))
        behind = {tp: end for tp, (_, end) in reader.bounds.items()}
        starts = {tp: fold.position for tp, fold in folds.items()}
        async with self._log.follow(starts, max_records=_AT_ONCE, wait_ms=500) as cursor:
            while True:
                for tp, records in (await cursor.next(FOLLOW_S)).items():
                    for env, record in folds[tp].accept(records):
                        self._take(tp.partition, env, record)
                behind = {tp: end for tp, end in behind.items() if await cursor.position(tp) < end}
                if not behind:  # else a look that is due may have been opened by another worker
                    await self.act()

    async def act(self) -> None:
        """Open what is due at cases of own partitions, the longest due first."""
        now = self._clock()
        self._settled = {case: at for case, at in self._settled.items() if at > now - self._reach - LAPSES}
        for id, (partition, look) in sorted(self.due.items(), key=lambda entry: entry[1][1].due_at):
            if look.due_at > now:
                return
            if look.due_at < now - LAPSES:
                del self.due[id]
                log.warning("a second look is not opened: it was due too long ago", case=look.of_case, due=look.due_at)
            elif self._is_own(partition):
                with suppress(TimeoutError):  # no slot: tried again
                    await self._append(id, partition, look)

    async def _append(self, id: str, partition: int, look: SecondLookOpened) -> None:
        async with asyncio.timeout(ADMITTED_WITHIN_S):
            await self._room.enter(NO_NEWS, id)
        try:
            key, value, headers = wire.encode(
                look, id=uuid5("opening", LIVE_RUN, id), case_id=id, causation_id=None, run_id=LIVE_RUN,
                time=self._clock(),
            )  # fmt: skip
            _, offset = await self._appender.append(self._topic, value, key=key, partition=partition, headers=headers)
        except BaseException:
            self._room.give_up(id)
            raise
        self._room.appended(id, offset)
        self.due.pop(id, None)

    # The fold

    def _take(self, partition: int, env: wire.Envelope, record: Any) -> None:
        if env.type not in _READ:
            return
        case = self._open.get(env.case_id)
        if case is None and env.type in _OF_A_CASE:
            return
        try:
            event = wire.decode(env.type, env.version, record.value)
        except ContractError:
            return  # its case is quarantined by the runtime, which says so
        match event:
            case EventReceived() if event.news.is_asked:
                pass
            case EventReceived() if not NOT_LIVE_FLAGS.intersection(flags_of(event.news)):
                self._open[env.case_id] = _Open(event)
            case SecondLookOpened():
                self._open[env.case_id] = _Open(event)
                self.due.pop(env.case_id, None)
            case RetractionFound(rival=rival) if rival is not None and rival.verdict not in _ANSWERS:
                pass
            case RetractionFound(of_case=of) | StoryCorroborated(of_case=of):
                self._settle(of, env.time)
            case _ if case is not None:
                self._move(partition, env, case, event)
            case _:
                pass

    def _move(self, partition: int, env: wire.Envelope, case: _Open, event: object) -> None:
        match event:
            case CaseTriaged(draft=draft) if draft.event_type not in LOOKED_AT_AGAIN:
                del self._open[env.case_id]
            case CaseTriaged():
                case.triaged = event
            case ToolPlanned(search_keywords=keywords):
                case.keywords = keywords if case.keywords is None else case.keywords
            case StoryChecked(earlier=earlier):
                case.earlier = tuple(report.case_id for report in earlier)
            case SignalSynthesized(signal=signal):
                del self._open[env.case_id]
                self._judged(partition, env, case, signal)
            case CaseDropped() | CaseFailed():
                del self._open[env.case_id]
                if isinstance(case.opening, SecondLookOpened) and (look := self._next(case.opening)) is not None:
                    self._plan(partition, look)

    def _judged(self, partition: int, env: wire.Envelope, case: _Open, signal: Signal) -> None:
        look = self._first(env.case_id, case, signal)
        if look is not None:
            self._plan(partition, look)
        if look is not None or signal.verdict in ACTED_ON:
            for earlier in case.earlier:
                self._settle(earlier, env.time, listed_too=look is None or look.authenticated)

    def _first(self, case_id: str, case: _Open, signal: Signal) -> SecondLookOpened | None:
        opening, triaged = case.opening, case.triaged
        if isinstance(opening, SecondLookOpened):
            return None
        after = self._after(opening.config_hash)
        if not after or triaged is None or not _is_open_question(signal):
            return None
        if signal.decided_at - opening.news.as_of > LIVE_WITHIN:
            return None
        return SecondLookOpened(
            of_case=case_id,
            number=1,
            due_at=signal.decided_at + timedelta(seconds=after[0]),
            after_s=after[0],
            verdict=signal.verdict or "unconfirmed",
            draft=triaged.draft,
            news=opening.news,
            config_hash=opening.config_hash,
            text_hash=opening.text_hash,
            language=opening.language,
            claim=triaged.claim,
            keywords=case.keywords or "",
            known=tuple(e.url for e in signal.evidence),
            authenticated=opening.authenticated,
            part=None if (part := opening.part or triaged.part) is None else replace(part, draft=None, claim=None),
        )

    def _next(self, look: SecondLookOpened) -> SecondLookOpened | None:
        after = self._after(look.config_hash)
        if look.number >= len(after):
            return None
        later = timedelta(seconds=after[look.number] - look.after_s)
        return replace(look, number=look.number + 1, due_at=look.due_at + later, after_s=after[look.number])

    def _after(self, config_hash: str) -> tuple[float, ...]:
        config = self._config_of(config_hash)
        return () if config is None else config.second_looks_after_seconds[:MOST_LOOKS]

    def _plan(self, partition: int, look: SecondLookOpened) -> None:
        if (look.of_case, look.authenticated) not in self._settled:
            self.due[look_id(look.of_case, look.number, self._partitions)] = (partition, look)

    def _settle(self, case: str, at: datetime, *, listed_too: bool = True) -> None:
        for listed in {False, listed_too}:
            self._settled[case, listed] = at
        self.due = {
            id: entry
            for id, entry in self.due.items()
            if (entry[1].of_case, entry[1].authenticated) not in self._settled
        }


_OF_A_CASE = _READ - {WIRE_NAMES[t] for t in (EventReceived, SecondLookOpened, RetractionFound, StoryCorroborated)}


def _is_open_question(signal: Signal) -> bool:
    """Whether a search may yet tell: nothing confirms the claim, or the search failed."""
    failed = ("search_failed:", "degraded:", "language")
    return signal.verdict == "unconfirmed" or (
        signal.verdict == "unchecked" and (signal.unchecked_reason or "").startswith(failed)
    )
