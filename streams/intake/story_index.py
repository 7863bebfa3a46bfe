"""The story index: the earlier reports of every story and what became of them, read from the journal.

It reads no topic of its own: the text index passes it every journal record. A query is answered once the journal was
read to its ends as of the query; which of several is the first, :mod:`streams.intake.first_of_text` decides. A report
whose earlier ones have no signal yet waits for it a bounded time.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import structlog
from aiokafka.errors import KafkaError
from msgspec.structs import replace

from agents.evidence.compiled import compiled
from agents.evidence.story import adds_nothing, compared, hooks_of, looked_up, tells
from agents.evidence.verdict import better_founded
from agents.tables import load_tables
from infra.listeners.source import Source
from infra.ports import Answer, Free, Port
from schemas import envelope as wire
from schemas.calls import ProviderMode
from schemas.effects import FindStory, StoryReply, Telling
from schemas.errors import ConfigError, ContractError, TransientError
from schemas.events import (
    OPENING_NAME,
    WIRE_NAMES,
    CaseDegraded,
    CaseDropped,
    CaseFailed,
    CaseTriaged,
    EventReceived,
    RetractionFound,
    Rival,
    SignalSynthesized,
    StoryChecked,
    StoryCorroborated,
)
from schemas.signals import ACTED_ON, Story, Verdict
from streams.intake.claim_index import HEAD, READ_WITHIN_S, Journal
from streams.intake.feed_search import own_page
from streams.intake.first_of_text import Claim, LoggedVerdict, decided
from streams.intake.first_of_text import Verdict as Decision
from streams.intake.text_index import RIVALS_WITHIN_S
from streams.journal.clock import append_ms
from streams.journal.fold import parse_record

log = structlog.get_logger(__name__)

MOST = 12
"""Maximum number of reports in one answer: an answer is a record of the journal."""
SIGNAL_WITHIN_S = 20.0
"""How long a report waits for the signal of an earlier one: a live case takes 10 to 20 s, and a second one would pay for it again.
Then it is analysed itself. The news of a party's own page waits for nobody."""
AHEAD = timedelta(minutes=10)
"""How much later, by its own time, an earlier report may be: sources' clocks differ, and nobody repeats what is reported later."""
LISTED_FOR_S = 10.0
MAX_HELD = 100_000
"""Maximum number of reports held, the newest: about 3 KB each."""
_OPENING, _RETRACTED = OPENING_NAME.encode(), WIRE_NAMES[RetractionFound].encode()
_SIGNAL = WIRE_NAMES[SignalSynthesized].encode()
_TELLS = {WIRE_NAMES[t].encode()
          for t in (CaseTriaged, StoryChecked, StoryCorroborated, CaseDropped, CaseFailed, CaseDegraded, SignalSynthesized)}  # fmt: skip


class _Report(Claim):
    """A report whose story is looked for. ``joined``: the case whose signal it ended in, empty for one with its own analysis.

    ``signal``: the verdict of its own signal, None while it has none. ``rivals``: later case, how that is judged, and the
    earlier case whose signal it speaks against; at both of them.
    """

    __slots__ = ("as_of", "joined", "rivals", "signal", "story", "telling")

    def __init__(self, telling: Telling, story: Story, as_of: datetime, place: tuple[int, int]) -> None:
        super().__init__(telling.case_id, place)
        self.telling, self.story, self.as_of, self.joined = telling, story, as_of, ""
        self.signal: Verdict | None = None
        self.rivals: list[tuple[str, Rival, str]] = []


class StoryIndex(Free, Port):
    """Answers ``FindStory``, free of charge. Holds the reports of the last ``window_hours`` by append time."""

    provider = "journal"
    mode: ProviderMode = "live"

    def __init__(
        self,
        journal: Journal,
        sources: Callable[[], Mapping[str, Source]],
        *,
        partitions: int,
        window_hours: float,
        signal_within_s: float = SIGNAL_WITHIN_S,
    ) -> None:
        """``sources``: id → source of the list, asked every few seconds: it reads a file."""
        self._journal, self._partitions, self._sources = journal, partitions, sources
        self._signal_within_s = signal_within_s
        self._directory = compiled(load_tables(demo=False)).directory
        self._listed: tuple[float, Mapping[str, Source]] = (-LISTED_FOR_S, {})
        self._window_ms = window_hours * 3_600_000
        self._opened: dict[str, tuple[Telling, datetime]] = {}
        self._reports: dict[str, _Report] = {}
        self._hooked: dict[str, dict[str, None]] = {}
        self._members: dict[str, dict[str, None]] = {}
        self._by_age: deque[tuple[float, str]] = deque()
        journal.subscribe(self.on_record)

    def __len__(self) -> int:
        return len(self._reports)

    async def perform(self, effect: FindStory) -> Answer:
        """Return the story's earlier reports, none if the asking case is the first or tells no story.

        Raises:
            TransientError: the journal could not be read in time.
        """
        try:
            async with asyncio.timeout(READ_WITHIN_S):
                await self._journal.read_to_the_ends()
        except (TimeoutError, KafkaError) as exc:
            raise TransientError(
                f"the journal was not read in time for earlier tellings ({exc!r}): check the broker", kind="timeout"
            ) from exc
        own, opened = self._reports.get(effect.case_id), self._opened.get(effect.case_id)
        if own is not None:
            reply = await self._story(own, effect)
        else:
            reply = StoryReply(own=opened[0] if opened else None)
        return Answer(reply=reply, cost_usd=Decimal(0))

    async def close(self) -> None:
        pass

    async def _story(self, own: _Report, effect: FindStory) -> StoryReply:
        hours = effect.hours
        if not effect.again:
            if rivals := self._decision(own, hours).waits_for:
                # Any case triaged from now on sees this one, so nobody else need be waited for.
                await self._until(lambda: not self._decision(own, hours, only=rivals).waits_for, RIVALS_WITHIN_S)
            if self._decision(own, hours).first_case is None:
                return StoryReply(own=own.telling)
            if not self._is_own_page(own.telling):
                await self._until(lambda: self._is_decided(own, hours), self._signal_within_s)
        of_story = [r for group in self._stories(own, hours).values() for r in group]
        joined = sorted((r for r in of_story if r.joined), key=lambda r: (r.as_of, r.case_id), reverse=True)
        chosen = (*sorted(_earlier(own, of_story), key=_best_first), *joined)[:MOST]
        return StoryReply(
            tellings=tuple(replace(r.telling, verdict=r.signal, joined=bool(r.joined)) for r in chosen), own=own.telling
        )

    async def _until(self, ready: Callable[[], bool], within_s: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within_s), self._journal.moved:
                while not ready():
                    await self._journal.moved.wait()

    def _is_own_page(self, telling: Telling) -> bool:
        return telling.url is not None and bool(self._directory.speakers_of(telling.url))

    def _is_decided(self, own: _Report, hours: float) -> bool:
        """Whether one of the reports that this one adds nothing to has a signal that it may join, or all have a signal."""
        of_story = [r for group in self._stories(own, hours).values() for r in group]
        signals = [r.signal for r in _earlier(own, of_story) if adds_nothing(own.story, r.story)]
        return not ACTED_ON.isdisjoint(signals) or None not in signals

    def _decision(self, own: _Report, hours: float, only: frozenset[str] | None = None) -> Decision:
        return decided(own, [self._reports[first] for first in self._stories(own, hours)], only)

    def _stories(self, own: _Report, hours: float) -> dict[str, list[_Report]]:
        """Return first case → reports of each story that the asking case reports too; undecided ones stand for themselves."""
        within = timedelta(hours=hours)
        near = {case: None for hook in sorted(looked_up(own.story)) for case in self._hooked.get(hook, ())}
        # Who is like none of a story's reports does not report it.
        like = (r for case in near if compared(own.story, (r := self._reports[case]).story, _apart(own, r)) == "same")
        firsts = {self._first_of(r): None for r in like}
        of_first = {}
        for first in firsts:
            members = (self._reports[case] for case in self._members[first])
            group = [r for r in members if r is not own and -AHEAD <= _apart(own, r) <= within]
            if first != own.case_id and group and tells(own.story, [(r.story, _apart(own, r)) for r in group]):
                of_first[first] = group
        return of_first

    def _first_of(self, report: _Report) -> str:
        return report.joined if report.joined in self._reports else report.case_id

    # What is read

    def on_record(self, record: Any) -> None:
        """Process one journal record, in log order; ignore foreign ones."""
        headers = dict(record.headers)
        kind, case = headers.get("ce_type"), (headers.get("ce_subject") or b"").decode("utf-8", "replace")
        # A second look is a case of its own, and its signal is the first case's.
        if kind not in (_OPENING, _RETRACTED, _SIGNAL) and not (kind in _TELLS and case in self._opened):
            return
        try:
            env = parse_record(record, self._partitions)
            event = wire.decode(env.type, env.version, record.value)
        except ContractError:
            return
        self.take(case, event, (record.partition, record.offset), append_ms(record))

    def take(self, case: str, event: Any, place: tuple[int, int], at_ms: float) -> None:
        """Take one event of a case, which lies at this (partition, offset) and was appended at ``at_ms``."""
        match event:
            case EventReceived():
                self._forget(at_ms - self._window_ms)
                if case not in self._opened:
                    self._opened[case] = (self._telling(case, event), event.news.as_of)
                    self._by_age.append((at_ms, case))
            case CaseTriaged(story=story, draft=draft, claim=claim) if story is not None and case not in self._reports:
                telling, as_of = self._opened[case]
                telling = replace(telling, draft=draft, claim=claim, story=story)
                self._add(_Report(telling, story, as_of, place))
            case RetractionFound(of_case=of, rival=rival):
                self._oppose(case, rival, of)
            case StoryCorroborated(of_case=first, verdict=verdict):
                self._join(case, first)
                if first in self._reports and verdict == "confirmed":
                    self._reports[first].signal = verdict
            case CaseDropped(reason="same_story", duplicate_of=first):
                self._join(case, first or "")
            case SignalSynthesized(signal=signal):
                of = signal.case_id if signal.case_id in self._reports else case
                self._settle(of)
                if of in self._reports:
                    self._reports[of].signal = signal.verdict
                    self._weigh(of)
            case StoryChecked() | CaseDegraded():
                self._settle(case)
            case CaseDropped() | CaseFailed():  # no signal tells the story
                self._drop(case)
            case _:
                pass

    def _telling(self, case: str, event: EventReceived) -> Telling:
        news, sources = event.news, self._list()
        return Telling(
            case_id=case,
            source=news.source,
            language=event.language,
            text=news.text[:HEAD],
            published_at=news.published_at,
            url=own_page(news, sources, self._directory, authenticated=event.authenticated),
            group=sources[news.source].group if event.authenticated and news.source in sources else "",
        )

    def _list(self) -> Mapping[str, Source]:
        read_at, listed = self._listed
        if (now := time.monotonic()) - read_at >= LISTED_FOR_S:
            try:
                listed = self._sources()
            except ConfigError as exc:
                log.warning(
                    "the list of sources is not read: reports count by the last one that was read", why=str(exc)
                )
            self._listed = (now, listed)
        return listed

    def _add(self, report: _Report) -> None:
        case = report.case_id
        self._reports[case] = report
        self._members.setdefault(case, {})[case] = None
        for hook in hooks_of(report.story):
            self._hooked.setdefault(hook, {})[case] = None

    def _settle(self, case: str) -> None:
        if (report := self._reports.get(case)) is not None:
            report.settle(first=True)

    def _oppose(self, later: str, rival: Rival | None, earlier: str) -> None:
        if rival is None:  # whoever claims it anew claims something else
            self._drop(earlier)
        elif later in self._reports and earlier in self._reports:
            for case in (later, earlier):
                self._reports[case].rivals.append((later, rival, earlier))
            self._weigh(later)

    def _weigh(self, case: str) -> None:
        """Forget whom a better founded signal of the same event supersedes. Until both have a signal nobody is."""
        for later, rival, earlier in self._reports[case].rivals if case in self._reports else ():
            one, other = self._reports.get(later), self._reports.get(earlier)
            if one is None or other is None or one.signal is None or other.signal is None:
                continue
            if better_founded(rival.verdict, other.signal, own_page=rival.own_page) == "later":
                self._drop(earlier)

    def _join(self, case: str, first: str) -> None:
        report = self._reports.get(case)
        if report is None or report.joined:
            return
        # A case that was analysed itself may join afterwards, when it turned out no better founded.
        report.verdict, report.joined = LoggedVerdict.NOT_FIRST, first
        if first in self._reports:
            self._members[case].pop(case)
            self._members[first][case] = None

    def _drop(self, case: str) -> None:
        self._opened.pop(case, None)
        report = self._reports.pop(case, None)
        if report is None:
            return
        self._members[report.joined if case not in self._members.get(case, ()) else case].pop(case, None)
        for orphan in self._members.pop(case, {}):
            self._members.setdefault(orphan, {})[orphan] = None
        for hook in hooks_of(report.story):
            held = self._hooked[hook]
            del held[case]
            if not held:
                del self._hooked[hook]

    def _forget(self, before_ms: float) -> None:
        while self._by_age and (self._by_age[0][0] < before_ms or len(self._by_age) >= MAX_HELD):
            self._drop(self._by_age.popleft()[1])


def _earlier(own: _Report, of_story: list[_Report]) -> list[_Report]:
    """Return the story's earlier reports that are analysed themselves."""
    return [r for r in of_story if not r.joined and (r.verdict is LoggedVerdict.FIRST or r.place < own.place)]


def _best_first(report: _Report) -> tuple[bool, bool, tuple[int, int]]:
    return report.signal not in ACTED_ON, report.signal != "confirmed", report.place


def _apart(one: _Report, other: _Report) -> timedelta:
    return one.as_of - other.as_of
