"""The story index: the first telling of every story, exact across workers, read from the journal's triages.

It reads no topic of its own: the text index passes it every journal record. A query is answered once the journal was
read to its ends as of the query; which of several is the first, :mod:`streams.intake.first_of_text` decides.
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

from agents.evidence.compiled import compiled
from agents.evidence.story import key_of, tells
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
    SignalSynthesized,
    StoryChecked,
    StoryCorroborated,
)
from schemas.signals import Story
from streams.intake.claim_index import HEAD, READ_WITHIN_S, Journal
from streams.intake.feed_search import own_page
from streams.intake.first_of_text import Claim, Verdict, decided
from streams.intake.text_index import RIVALS_WITHIN_S
from streams.journal.clock import append_ms
from streams.journal.fold import parse_record

log = structlog.get_logger(__name__)

MOST = 12
"""Maximum number of tellings in one answer: an answer is a record of the journal."""
REPEATED_WITHIN = timedelta(hours=2)
"""A claim that was found refuted, disputed or stale is a repetition within so long; told again later, it may be true by now."""
AHEAD = timedelta(minutes=10)
"""How much later, by its own time, an earlier telling may be: sources' clocks differ, and nobody repeats what is told later."""
LISTED_FOR_S = 10.0
MAX_HELD = 100_000
"""Maximum number of tellings held, the newest: about 2 KB each."""
DOUBTED = frozenset({"refuted", "disputed", "stale"})
_OPENING, _RETRACTED = OPENING_NAME.encode(), WIRE_NAMES[RetractionFound].encode()
_TELLS = {WIRE_NAMES[t].encode()
          for t in (CaseTriaged, StoryChecked, StoryCorroborated, CaseDropped, CaseFailed, CaseDegraded, SignalSynthesized)}  # fmt: skip


class _Told(Claim):
    """A telling whose story is looked for. ``root``: the first one's case, where the log shows that it is not the first.

    ``doubted``: its signal's verdict speaks against the claim.
    """

    __slots__ = ("as_of", "doubted", "root", "story", "telling")

    def __init__(self, telling: Telling, story: Story, as_of: datetime, place: tuple[int, int]) -> None:
        super().__init__(telling.case_id, place)
        self.telling, self.story, self.as_of, self.root, self.doubted = telling, story, as_of, "", False


class StoryIndex(Free, Port):
    """Answers ``FindStory``, free of charge. Holds the tellings of the last ``window_hours`` by append time."""

    provider = "journal"
    mode: ProviderMode = "live"

    def __init__(
        self,
        journal: Journal,
        sources: Callable[[], Mapping[str, Source]],
        *,
        partitions: int,
        window_hours: float,
    ) -> None:
        """``sources``: id → source of the list, asked every few seconds: it reads a file."""
        self._journal, self._partitions, self._sources = journal, partitions, sources
        self._directory = compiled(load_tables(demo=False)).directory
        self._listed: tuple[float, Mapping[str, Source]] = (-LISTED_FOR_S, {})
        self._window_ms = window_hours * 3_600_000
        self._opened: dict[str, tuple[Telling, datetime]] = {}
        self._told: dict[str, _Told] = {}
        self._of_key: dict[str, list[_Told]] = {}
        self._by_age: deque[tuple[float, str]] = deque()
        journal.subscribe(self.on_record)

    def __len__(self) -> int:
        return len(self._told)

    async def perform(self, effect: FindStory) -> Answer:
        """Return the story's earlier tellings, none if the asking case is the first or tells no story.

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
        own = self._told.get(effect.case_id)
        return Answer(reply=StoryReply() if own is None else await self._story(own, effect.hours), cost_usd=Decimal(0))

    async def close(self) -> None:
        pass

    async def _story(self, own: _Told, hours: float) -> StoryReply:
        verdict = self._verdict(own, hours)
        if rivals := verdict.waits_for:
            # Any case triaged from now on sees this one, so nobody else need be waited for.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(RIVALS_WITHIN_S), self._journal.moved:
                    while (verdict := self._verdict(own, hours, only=rivals)).waits_for:
                        await self._journal.moved.wait()
        first = self._told.get(verdict.first_case or "")
        if first is None:
            return StoryReply()
        told = self._stories(own, hours).get(first.case_id, [])
        newest = sorted((t for t in told if t is not first), key=lambda t: (t.as_of, t.case_id), reverse=True)
        return StoryReply(tellings=(first.telling, *(t.telling for t in newest[: MOST - 1])), own=own.telling)

    def _verdict(self, own: _Told, hours: float, only: frozenset[str] | None = None) -> Verdict:
        return decided(own, [self._told[first] for first in self._stories(own, hours)], only)

    def _stories(self, own: _Told, hours: float) -> dict[str, list[_Told]]:
        """Return first case → tellings of each story that the asking case tells too; undecided ones stand for themselves."""
        of_first: dict[str, list[_Told]] = {}
        for told in self._of_key.get(key_of(own.story), ()):
            first = told.root if told.root in self._told else told.case_id
            if told is not own and first != own.case_id and -AHEAD <= _apart(own, told) <= self._reach(first, hours):
                of_first.setdefault(first, []).append(told)
        return {
            first: all_
            for first, all_ in of_first.items()
            if first in self._told and tells(own.story, [(t.story, _apart(own, t)) for t in all_])
        }

    def _reach(self, first: str, hours: float) -> timedelta:
        doubted = first in self._told and self._told[first].doubted
        return REPEATED_WITHIN if doubted else timedelta(hours=hours)

    # What is read

    def on_record(self, record: Any) -> None:
        """Process one journal record, in log order; ignore foreign ones."""
        headers = dict(record.headers)
        kind, case = headers.get("ce_type"), (headers.get("ce_subject") or b"").decode("utf-8", "replace")
        if kind not in (_OPENING, _RETRACTED) and not (kind in _TELLS and case in self._opened):
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
            case CaseTriaged(story=story) if story is not None and case not in self._told:
                telling, as_of = self._opened[case]
                self._add(_Told(telling, story, as_of, place))
            case RetractionFound(of_case=denied):  # whoever claims it anew claims something else
                self._drop(denied)
            case StoryCorroborated(of_case=first):
                self._settle(case, first=first)
            case CaseDropped(reason="same_story", duplicate_of=root):
                self._settle(case, first=root or "")
            case SignalSynthesized(signal=signal):
                self._settle(case, first=None)
                if case in self._told:
                    self._told[case].doubted = signal.verdict in DOUBTED
            case StoryChecked() | CaseDegraded():
                self._settle(case, first=None)
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
                log.warning("the list of sources is not read: tellings count by the one of before", why=str(exc))
            self._listed = (now, listed)
        return listed

    def _add(self, told: _Told) -> None:
        self._told[told.case_id] = told
        self._of_key.setdefault(key_of(told.story), []).append(told)

    def _settle(self, case: str, *, first: str | None) -> None:
        if (told := self._told.get(case)) is not None and told.settle(first=first is None):
            told.root = first or ""

    def _drop(self, case: str) -> None:
        self._opened.pop(case, None)
        if (told := self._told.pop(case, None)) is not None:
            left = self._of_key[key_of(told.story)]
            left.remove(told)
            if not left:
                del self._of_key[key_of(told.story)]

    def _forget(self, before_ms: float) -> None:
        while self._by_age and (self._by_age[0][0] < before_ms or len(self._by_age) >= MAX_HELD):
            self._drop(self._by_age.popleft()[1])


def _apart(one: _Told, other: _Told) -> timedelta:
    return one.as_of - other.as_of
