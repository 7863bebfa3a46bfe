"""The story index: the earlier reports of every story and what became of them, read from the journal.

It reads no topic of its own: the text index passes it every journal record. A query is answered once the journal was
read to its ends as of the query; which of several is the first, :mod:`streams.intake.first_of_text` decides. A report
whose earlier ones have no signal yet waits for it a bounded time.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import lru_cache
from typing import Any

import msgspec
import structlog
from aiokafka.errors import KafkaError
from msgspec.structs import replace

from agents.evidence.compiled import compiled
from agents.evidence.story import adds_nothing, belongs_to, compared, hooks_of, looked_up
from agents.evidence.verdict import better_founded
from agents.tables import load_tables
from infra.listeners.source import Source
from infra.ports import Answer, Free, Port
from schemas import envelope as wire
from schemas.calls import ProviderMode
from schemas.effects import FindStory, StoryReply, StoryReport
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
from schemas.news import is_backlog
from schemas.signals import ACTED_ON, Story, Verdict
from streams.intake.claim_index import HEAD, READ_WITHIN_S, Journal, in_us
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
"""Maximum number of reports held on disk, the newest: about 3 KB each."""
_OPENING, _RETRACTED = OPENING_NAME.encode(), WIRE_NAMES[RetractionFound].encode()
_SIGNAL = WIRE_NAMES[SignalSynthesized].encode()
_TELLS = {WIRE_NAMES[t].encode()
          for t in (CaseTriaged, StoryChecked, StoryCorroborated, CaseDropped, CaseFailed, CaseDegraded, SignalSynthesized)}  # fmt: skip


_REPORT = "r.number, r.case_id, r.as_of, r.story, r.partition, r.at, r.verdict, r.joined, r.signal"
_BY_CASE = f"SELECT {_REPORT} FROM reports r WHERE r.case_id = ?"
_MEMBERS = f"SELECT {_REPORT} FROM reports r WHERE r.member_of = ?"
_NEAR = """
SELECT r.as_of, r.story, coalesce(f.number, r.number), coalesce(f.case_id, r.case_id)
FROM reports r LEFT JOIN reports f ON r.joined != '' AND f.case_id = r.joined AND f.story IS NOT NULL
WHERE r.number IN (SELECT number FROM hooks WHERE hook IN (SELECT value FROM json_each(?)))
"""
"""Reports that share a hook, with the first report of each one's story: that whose signal it ended in, else itself."""
_RIVALS = """
SELECT rival, later, earlier, l.signal, e.signal FROM rivals
JOIN reports l ON l.case_id = later JOIN reports e ON e.case_id = earlier WHERE later = ?1 OR earlier = ?1
"""
_JOINED = """
UPDATE reports SET verdict = ?, joined = ?,
    member_of = coalesce((SELECT number FROM reports WHERE case_id = ? AND story IS NOT NULL), member_of)
WHERE case_id = ? AND story IS NOT NULL AND joined = ''
"""
_OLDEST = "SELECT number, case_id, at_ms, (SELECT max(number) FROM reports) FROM reports ORDER BY number LIMIT 1"
_telling = msgspec.msgpack.Decoder(StoryReport).decode
_rival = msgspec.msgpack.Decoder(Rival).decode
_story = lru_cache(maxsize=4096)(msgspec.msgpack.Decoder(Story).decode)


class _Report(Claim):
    """A report whose story is looked for. ``joined``: the case whose signal it ended in, empty for one with its own analysis.

    ``signal``: the verdict of its own signal, None while it has none. ``as_of``: in microseconds since 1970.
    """

    __slots__ = ("as_of", "joined", "number", "signal", "story")

    def __init__(
        self, number: int, case_id: str, as_of: int, story: bytes, partition: int, at: int, verdict: int, joined: str,
        signal: Verdict | None,
    ) -> None:  # fmt: skip
        super().__init__(case_id, (partition, at), "", LoggedVerdict(verdict))
        self.number, self.story, self.as_of, self.joined, self.signal = number, _story(story), as_of, joined, signal


class StoryIndex(Free, Port):
    """Answers ``FindStory``, free of charge, from the reports of the last ``window_hours`` by append time."""

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
        self._rows = journal.rows
        self._changes = 0
        journal.subscribe(self.on_record)

    def __len__(self) -> int:
        return int(self._rows.row("SELECT count(*) FROM reports WHERE story IS NOT NULL")[0])

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
                f"the journal was not read in time for earlier reports ({exc!r}): check the broker", kind="timeout"
            ) from exc
        async with self._journal.moved:
            own, opened = self._report(effect.case_id), self._story_report(effect.case_id)
        reply = StoryReply(own=opened) if own is None else await self._answer(own, effect)
        return Answer(reply=reply, cost_usd=Decimal(0))

    async def close(self) -> None:
        pass

    async def _answer(self, own: _Report, effect: FindStory) -> StoryReply:
        hours = effect.hours
        async with self._journal.moved:
            telling = self._story_report(own.case_id)
        if not effect.again:
            async with self._journal.moved:
                decision = self._decision(own, hours)
            if rivals := decision.waits_for:
                # Any case triaged from now on sees this one, so nobody else need be waited for.
                await self._until(lambda: not self._decision(own, hours, only=rivals).waits_for, RIVALS_WITHIN_S)
                async with self._journal.moved:
                    decision = self._decision(own, hours)
            if decision.first_case is None:
                return StoryReply(own=telling)
            if telling is not None and not self._is_own_page(telling):
                await self._until(lambda: self._is_decided(own, hours), self._signal_within_s)
        async with self._journal.moved:
            of_story = [r for group in self._stories(own, hours).values() for r in group]
            joined = sorted((r for r in of_story if r.joined), key=lambda r: (r.as_of, r.case_id), reverse=True)
            chosen = (*sorted(_earlier(own, of_story), key=_best_first), *joined)[:MOST]
            tellings = tuple(
                replace(report, verdict=r.signal, joined=bool(r.joined))
                for r in chosen
                if (report := self._story_report(r.case_id))
            )
        return StoryReply(tellings=tellings, own=telling)

    async def _until(self, ready: Callable[[], bool], within_s: float) -> None:
        # A comparison takes 1 ms, and every case's end is a change, so the interval grows with the waiting time.
        pause_s = 0.01
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                while True:
                    async with self._journal.moved:
                        if ready():
                            return
                        changes = self._changes
                        while changes == self._changes:
                            await self._journal.moved.wait()
                    await asyncio.sleep(pause_s)
                    pause_s = min(2 * pause_s, 1.0)

    def _is_own_page(self, telling: StoryReport) -> bool:
        return telling.url is not None and bool(self._directory.speakers_of(telling.url))

    def _is_decided(self, own: _Report, hours: float) -> bool:
        """Whether one of the reports that this one adds nothing to has a signal that it may join, or all have a signal.

        A fresh report does not wait for reports of the backlog, whose cases may take long.
        """
        of_story = [r for group in self._stories(own, hours).values() for r in group]
        awaited = [r for r in _earlier(own, of_story) if adds_nothing(own.story, r.story)]
        if not self._is_backlog(own):
            awaited = [r for r in awaited if r.signal is not None or not self._is_backlog(r)]
        signals = [r.signal for r in awaited]
        return not ACTED_ON.isdisjoint(signals) or None not in signals

    def _is_backlog(self, report: _Report) -> bool:
        opened = "SELECT telling, at_ms FROM reports JOIN tellings USING (number) WHERE number = ?"
        telling, at_ms = self._rows.row(opened, report.number)
        return is_backlog(_telling(telling).published_at, datetime.fromtimestamp(at_ms / 1000, UTC))

    def _decision(self, own: _Report, hours: float, only: frozenset[str] | None = None) -> Decision:
        own = self._report(own.case_id) or own
        firsts = (self._report(first) for first in self._stories(own, hours))
        return decided(own, [first for first in firsts if first is not None], only)

    def _stories(self, own: _Report, hours: float) -> dict[str, list[_Report]]:
        """Return first case → reports of each story that the asking case reports too; undecided ones stand for themselves."""
        within = timedelta(hours=hours)
        hooks = json.dumps([_number(hook) for hook in looked_up(own.story)])
        near = self._rows.rows.execute(_NEAR, (hooks,)).fetchall()
        # Who is like none of a story's reports does not report it.
        firsts = {
            number: case
            for as_of, story, number, case in near
            if case != own.case_id and compared(own.story, _story(story), _apart(own.as_of, as_of)) == "same"
        }
        of_first = {}
        for number, first in firsts.items():
            members = (_Report(*row) for row in self._rows.rows.execute(_MEMBERS, (number,)).fetchall())
            group = [r for r in members if r.number != own.number and -AHEAD <= _apart(own.as_of, r.as_of) <= within]
            if group and belongs_to(own.story, [(r.story, _apart(own.as_of, r.as_of)) for r in group]):
                of_first[first] = group
        return of_first

    def _report(self, case: str) -> _Report | None:
        row = self._rows.row(_BY_CASE, case)
        return None if row is None or row[3] is None else _Report(*row)

    def _story_report(self, case: str) -> StoryReport | None:
        row = self._rows.row("SELECT telling, story FROM reports JOIN tellings USING (number) WHERE case_id = ?", case)
        if row is None:
            return None
        return replace(_telling(row[0]), story=None if row[1] is None else _story(row[1]))

    # What is read

    def on_record(self, record: Any) -> None:
        """Process one journal record, in log order; ignore foreign ones."""
        headers = dict(record.headers)
        kind, case = headers.get("ce_type"), (headers.get("ce_subject") or b"").decode("utf-8", "replace")
        # A second look is a case of its own, and its signal is the first case's.
        if kind not in (_OPENING, _RETRACTED, _SIGNAL) and not (kind in _TELLS and self._is_open(case)):
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
                self._open(case, event, at_ms)
            case CaseTriaged(story=story, draft=draft, claim=claim, part=part) if story is not None:
                if (telling := self._story_report(case)) is not None and telling.story is None:
                    text = telling.text if part is None else part.text[:HEAD]
                    self._add(case, replace(telling, text=text, draft=draft, claim=claim), story, place)
            case RetractionFound(of_case=of, rival=rival):
                self._oppose(case, rival, of)
            case StoryCorroborated(of_case=first, verdict=verdict):
                self._join(case, first)
                if verdict == "confirmed":
                    self._change(
                        "UPDATE reports SET signal = ? WHERE case_id = ? AND story IS NOT NULL", verdict, first
                    )
            case CaseDropped(reason="same_story", duplicate_of=first):
                self._join(case, first or "")
            case SignalSynthesized(signal=signal):
                of = signal.case_id if self._holds(signal.case_id) else case
                self._settle(of)
                self._change(
                    "UPDATE reports SET signal = ? WHERE case_id = ? AND story IS NOT NULL", signal.verdict, of
                )
                self._weigh(of)
            case StoryChecked() | CaseDegraded():
                self._settle(case)
            case CaseDropped() | CaseFailed():  # no signal tells the story
                self._drop(case)
            case _:
                pass

    def _open(self, case: str, event: EventReceived, at_ms: float) -> None:
        self._forget(at_ms - self._window_ms)
        if event.news.is_asked or self._is_open(case):
            return
        values = (case, at_ms, in_us(event.news.as_of))
        self._rows.write("INSERT INTO reports (case_id, at_ms, as_of) VALUES (?, ?, ?)", *values)
        opened = msgspec.msgpack.encode(self._telling(case, event))
        self._rows.write("INSERT INTO tellings VALUES (last_insert_rowid(), ?)", opened)

    def _change(self, sql: str, *values: Any) -> None:
        self._changes += 1
        self._rows.write(sql, *values)

    def _is_open(self, case: str) -> bool:
        return self._rows.row("SELECT 1 FROM reports WHERE case_id = ?", case) is not None

    def _holds(self, case: str) -> bool:
        return self._rows.row("SELECT 1 FROM reports WHERE case_id = ? AND story IS NOT NULL", case) is not None

    def _telling(self, case: str, event: EventReceived) -> StoryReport:
        news, sources = event.news, self._list()
        return StoryReport(
            case_id=case,
            source=news.source,
            language=event.language,
            text=event.text[:HEAD],
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
                    "the list of sources cannot be read; reports count by the last list that was read", why=str(exc)
                )
            self._listed = (now, listed)
        return listed

    def _add(self, case: str, telling: StoryReport, story: Story, place: tuple[int, int]) -> None:
        (number,) = self._rows.row("SELECT number FROM reports WHERE case_id = ?", case)
        changed = "UPDATE reports SET story = ?, partition = ?, at = ?, member_of = number WHERE number = ?"
        self._change(changed, msgspec.msgpack.encode(story), *place, number)
        self._rows.write("UPDATE tellings SET telling = ? WHERE number = ?", msgspec.msgpack.encode(telling), number)
        for hook in hooks_of(story):
            self._rows.write("INSERT OR IGNORE INTO hooks VALUES (?, ?)", _number(hook), number)

    def _settle(self, case: str) -> None:
        changed = "UPDATE reports SET verdict = ? WHERE case_id = ? AND story IS NOT NULL AND verdict = 0"
        self._change(changed, LoggedVerdict.FIRST.value, case)

    def _oppose(self, later: str, rival: Rival | None, earlier: str) -> None:
        if rival is None:  # whoever claims it anew claims something else
            self._drop(earlier)
        elif self._holds(later) and self._holds(earlier):
            self._rows.write("INSERT INTO rivals VALUES (?, ?, ?)", later, earlier, msgspec.msgpack.encode(rival))
            self._weigh(later)

    def _weigh(self, case: str) -> None:
        """Forget whom a better founded signal of the same event supersedes. Until both have a signal nobody is."""
        for kept, later, earlier, signal, other in self._rows.rows.execute(_RIVALS, (case,)).fetchall():
            rival = _rival(kept)
            if signal is None or other is None or not (self._holds(later) and self._holds(earlier)):
                continue
            if better_founded(rival.verdict, other, own_page=rival.own_page) == "later":
                self._drop(earlier)

    def _join(self, case: str, first: str) -> None:
        # A case that was analysed itself may join afterwards, when it turned out no better founded.
        self._change(_JOINED, LoggedVerdict.NOT_FIRST.value, first, first, case)

    def _drop(self, case: str) -> None:
        row = self._rows.row("SELECT number, story FROM reports WHERE case_id = ?", case)
        if row is None:
            return
        number, story = row
        self._change("DELETE FROM reports WHERE number = ?", number)
        self._rows.write("DELETE FROM tellings WHERE number = ?", number)
        if story is None:
            return
        self._rows.write("UPDATE reports SET member_of = number WHERE member_of = ?", number)
        for hook in hooks_of(_story(story)):
            self._rows.write("DELETE FROM hooks WHERE hook = ? AND number = ?", _number(hook), number)
        self._rows.write("DELETE FROM rivals WHERE later = ? OR earlier = ?", case, case)

    def _forget(self, before_ms: float) -> None:
        while (oldest := self._rows.row(_OLDEST)) is not None:
            number, case, at_ms, newest = oldest
            if at_ms >= before_ms and newest - number + 1 < MAX_HELD:
                return
            self._drop(case)


def _earlier(own: _Report, of_story: list[_Report]) -> list[_Report]:
    """Return the story's earlier reports that are analysed themselves."""
    return [r for r in of_story if not r.joined and (r.verdict is LoggedVerdict.FIRST or r.place < own.place)]


def _best_first(report: _Report) -> tuple[bool, bool, tuple[int, int]]:
    return report.signal not in ACTED_ON, report.signal != "confirmed", report.place


def _apart(one_us: int, other_us: int) -> timedelta:
    return timedelta(microseconds=one_us - other_us)


def _number(hook: str) -> int:
    return int.from_bytes(hashlib.blake2b(hook.encode(), digest_size=8).digest(), signed=True)
