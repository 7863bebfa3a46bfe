"""The fold: from openings and ends of cases and from published signals to each source's metrics. Pure.

A story is a case together with all cases that ended as its duplicates, edit it or retry it, through chains. It counts
once per source and language, by the first case that they opened on it. At most ``MOST_A_DAY`` stories count per UTC
day. Days are those of the journal's append times. Only our own clock is used: a publisher's clock affects only
``lag_s``, which is only displayed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from statistics import median
from typing import NamedTuple

import msgspec

from agents.text.hosts import host_of, registrable_domain
from schemas.events import CaseDropped, Event, EventReceived, RetractionFound
from schemas.news import is_live
from schemas.signals import WITHDRAWN, Signal, Stage
from streams.reputation.intervals import median_interval, rare, wilson

WINDOW = timedelta(days=90)
RATED_FROM = 20
"""Minimum number of stories of a rated source. With fewer, its metrics mean nothing."""
MOST_A_DAY = 20
"""Maximum stories of a source that count per day: those with the smallest ids, hashes that nobody can choose."""
_LONGEST_CHAIN = 100


class Share(msgspec.Struct, frozen=True):
    """``count`` of ``of``, with its 95 % interval. ``share``: None if ``of`` is 0; for retractions a posterior mean."""

    count: int
    of: int
    share: float | None
    low: float
    high: float


class Lead(msgspec.Struct, frozen=True):
    """A median in seconds, with its 95 % interval; None for too few stories."""

    median: float
    low: float | None
    high: float | None


class Reputation(msgspec.Struct, frozen=True, kw_only=True):
    """Metrics of a source in one language over 90 days. ``as_of``: their end (UTC). Every count is a number of stories.

    ``owner``: its group, or itself without one. ``first``: of the stories that another owner reported too, those that
    it certainly had before all of them; ``tied`` of them cannot be ordered. ``lead_s``: its lead over the next;
    negative: its delay after the first; 0 for a tie. ``copies``: stories that ended as duplicates. ``confirmed`` and
    ``refuted``: of the stories whose own signal was searched for. ``retracted``: of its signals, those retracted or
    superseded. ``edited``: stories that it changed. ``lag_s``: median time from publication (by the publisher's clock)
    to receipt.
    """

    source: str
    language: str
    owner: str
    as_of: datetime
    stories: int
    rated: bool
    first: Share
    tied: int
    lead_s: Lead | None
    copies: Share
    confirmed: Share
    refuted: Share
    retracted: Share
    edited: int
    lag_s: float | None


class _Case(NamedTuple):
    case_id: str
    source: str
    language: str
    group: str
    domain: str
    opened_at: datetime
    received_at: datetime | None
    looked_before: datetime | None
    published_at: datetime
    edits: bool

    @property
    def owner(self) -> str:
        return self.group or self.source

    @property
    def place(self) -> tuple[datetime, str]:
        return self.opened_at, self.case_id


class _Judgement(NamedTuple):
    revision: int
    verdict: str | None
    supported_by: frozenset[str]


class _SourceStory(NamedTuple):
    """One story of a source. ``order``: first, tied or late; empty without another owner's report or a known time."""

    story: str
    first: _Case
    copied: bool
    edited: bool
    order: str
    lead_s: float
    judged: _Judgement | None
    confirmed: bool
    withdrawn: bool
    lag_s: float | None


class ReputationFold:
    """Takes the accepted events of the live journal, and the revisions on ``signals``. Either may come first."""

    def __init__(self) -> None:
        self._cases: dict[str, _Case] = {}
        self._follows: dict[str, str] = {}
        self._duplicates: set[str] = set()
        self._judged: dict[str, _Judgement] = {}
        self._withdrawn: dict[str, Stage] = {}
        self._outdone: set[str] = set()

    def take(self, case_id: str, event: Event, appended_at: datetime) -> None:
        """Take one accepted event of a case, in log order per partition. Only openings, drops and retractions count."""
        match event:
            case EventReceived(part=part) if part is not None or event.news.is_asked:
                pass  # its message counts with the first case, and a question is no report
            case EventReceived(edits=edits, retries=retries):
                self._cases[case_id] = _case(case_id, event, appended_at)
                if (before := edits or retries) is not None:
                    self._follows[case_id] = before
            case CaseDropped(duplicate_of=str(first)):
                self._follows[case_id] = first
                self._duplicates.add(case_id)
            case RetractionFound(of_case=earlier, rival=rival) if rival is not None:
                # Both report one event, and the superseded one was not wrong.
                self._follows.setdefault(case_id, earlier)
                self._outdone |= {case_id, earlier}
            case _:
                pass

    def publish(self, signal: Signal) -> None:
        """Take one published revision. The latest final one holds the result, even if it was withdrawn later."""
        if signal.stage in WITHDRAWN:
            self._withdrawn[signal.case_id] = signal.stage
        known = self._judged.get(signal.case_id)
        if signal.stage == "final" and (known is None or known.revision < signal.revision):
            support = frozenset(_domain(e.url) for e in signal.evidence if e.stance == "supports")
            self._judged[signal.case_id] = _Judgement(signal.revision, signal.verdict, support)

    def reputations(self, as_of: datetime) -> list[Reputation]:
        """Return a row for each source and language with a report in the ``WINDOW`` before, sorted by these names.

        A story counts if its first case is inside the window. Cases that follow one from before it are left out.
        """
        inside = {member.case_id: member for member in self._cases.values() if member.opened_at > as_of - WINDOW}
        stories: dict[str, list[_Case]] = defaultdict(list)
        domains: dict[str, set[str]] = defaultdict(set)
        for case in inside.values():
            domains[case.group].add(case.domain)
            if (story := self._story_of(case.case_id)) in inside:
                stories[story].append(case)
        by_source: dict[tuple[str, str], list[_SourceStory]] = defaultdict(list)
        for story, cases in stories.items():
            by: dict[tuple[str, str], list[_Case]] = defaultdict(list)
            for case in sorted(cases, key=lambda c: c.place):
                by[case.source, case.language].append(case)
            for key, own in by.items():
                by_source[key].append(self._source_story(story, own, cases, domains))
        return [
            _reputation(source, language, as_of, capped(by_source[source, language]))
            for source, language in sorted(by_source)
        ]

    def _story_of(self, case_id: str) -> str:
        for _ in range(_LONGEST_CHAIN):  # longer chains and circles are never written
            if (before := self._follows.get(case_id)) is None:
                break
            case_id = before
        return case_id

    def _source_story(
        self, story: str, own: list[_Case], all_: list[_Case], domains: dict[str, set[str]]
    ) -> _SourceStory:
        heard = min((case for case in own if case.received_at), key=lambda c: (c.received_at, c.case_id), default=None)
        order, lead_s = _order(heard, [c for c in all_ if c.owner != own[0].owner and c.received_at is not None])
        signal = next((c for c in own if c.case_id in self._judged), None)
        judged = None if signal is None else self._judged[signal.case_id]
        confirmed = False
        if signal is not None and judged is not None and judged.verdict == "confirmed":
            # Its own page corroborates nothing. Without a group it may link to anybody's pages, so only this case's
            # domain is its own.
            confirmed = bool(judged.supported_by - (domains[signal.group] if signal.group else {signal.domain}))
        return _SourceStory(
            story=story,
            first=own[0],
            copied=own[0].case_id in self._duplicates,
            edited=any(case.edits for case in own),
            order=order,
            lead_s=lead_s,
            judged=judged,
            confirmed=confirmed,
            withdrawn=signal is not None and self._is_withdrawn(signal.case_id),
            lag_s=None if heard is None else _seconds(heard.published_at, heard.received_at),
        )

    def _is_withdrawn(self, case_id: str) -> bool:
        stage = self._withdrawn.get(case_id)
        return stage is not None and not (stage == "superseded" and case_id in self._outdone)


def _case(case_id: str, opening: EventReceived, opened_at: datetime) -> _Case:
    news, group = opening.news, opening.news.extra.get("group")
    return _Case(
        case_id=case_id,
        source=news.source,
        language=opening.language,
        group=group if opening.authenticated and isinstance(group, str) else "",
        domain=_domain(news.url or ""),
        opened_at=opened_at,
        received_at=news.received_at if is_live(news, opened_at) else None,
        looked_before=_time(news.extra.get("previous_look_at")),
        published_at=news.published_at,
        edits=opening.edits is not None,
    )


def _order(own: _Case | None, others: Sequence[_Case]) -> tuple[str, float]:
    """Return the order of a report among those of other owners, and its lead in seconds.

    One report was received before another only if it came before the last poll that did not show the other. Otherwise
    they are tied, also if that poll is unknown.
    """
    if own is None or not others:
        return "", 0.0
    earliest = min(_seconds(own.received_at, rival.received_at) for rival in others)
    if all(_before(own, other) for other in others):
        return "first", earliest
    return ("late", earliest) if any(_before(other, own) for other in others) else ("tied", 0.0)


def _before(case: _Case, other: _Case) -> bool:
    return other.looked_before is not None and case.received_at is not None and case.received_at < other.looked_before


def capped(stories: Iterable[_SourceStory]) -> list[_SourceStory]:
    """Return the stories of a source that count."""
    by_day: dict[object, list[_SourceStory]] = defaultdict(list)
    for story in stories:
        by_day[story.first.opened_at.date()].append(story)
    return [story for day in by_day.values() for story in sorted(day, key=lambda t: t.story)[:MOST_A_DAY]]


def _reputation(source: str, language: str, as_of: datetime, stories: list[_SourceStory]) -> Reputation:
    compared = [story for story in stories if story.order]
    judged = [story for story in stories if story.judged is not None]
    searched = [story for story in judged if story.judged and story.judged.verdict not in (None, "unchecked")]
    withdrawn = sum(story.withdrawn for story in judged)
    leads, lags = [story.lead_s for story in compared], [story.lag_s for story in stories if story.lag_s is not None]
    low, high = median_interval(leads) or (None, None)
    return Reputation(
        source=source,
        language=language,
        owner=max(stories, key=lambda t: t.first.place).first.owner,
        as_of=as_of,
        stories=len(stories),
        rated=len(stories) >= RATED_FROM,
        first=_share(sum(story.order == "first" for story in compared), len(compared)),
        tied=sum(story.order == "tied" for story in compared),
        lead_s=Lead(median(leads), low, high) if leads else None,
        copies=_share(sum(story.copied for story in stories), len(stories)),
        confirmed=_share(sum(story.confirmed for story in searched), len(searched)),
        refuted=_share(
            sum(story.judged is not None and story.judged.verdict == "refuted" for story in searched), len(searched)
        ),
        retracted=Share(withdrawn, len(judged), *rare(withdrawn, len(judged))),
        edited=sum(story.edited for story in stories),
        lag_s=median(lags) if lags else None,
    )


def _share(count: int, of: int) -> Share:
    return Share(count, of, count / of if of else None, *wilson(count, of))


def _domain(url: str) -> str:
    return registrable_domain(host_of(url))


def _seconds(since: datetime | None, until: datetime | None) -> float:
    return 0.0 if since is None or until is None else (until - since).total_seconds()


def _time(written: object) -> datetime | None:
    try:
        at = datetime.fromisoformat(str(written))
    except ValueError:
        return None
    return at if at.tzinfo is not None else None
