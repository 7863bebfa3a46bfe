"""The story steps: a report that adds nothing to a confirmed or likely signal ends here; any other is analysed itself.

A report that corroborates the earlier signal is not lost: it becomes the next revision of that signal. A party's own page,
brought by the listener, never ends here.
"""

from __future__ import annotations

from agents.core.case import Case, Replies
from agents.core.step import Asked, On, only_reply
from agents.evidence.compiled import compiled
from agents.evidence.owners import is_partys_page
from agents.evidence.story import adds_nothing, names_nothing_else
from agents.verification.corroboration import corroboration
from schemas.effects import FindStory, StoryReply, Telling
from schemas.events import (
    CaseDropped,
    CaseTriaged,
    EarlierReport,
    Event,
    EvidenceCritiqued,
    StoryChecked,
    StoryCorroborated,
)
from schemas.signals import ACTED_ON, Story


class FindTheStory:
    """Free: answered from the log. A check that failed does not stop the case; its signal says so."""

    name = "find_story"
    takes = (On(CaseTriaged, route="story"),)
    emits = (StoryChecked, StoryCorroborated, CaseDropped)

    def ask(self, case: Case) -> Asked:
        return FindStory(case_id=case.case_id, hours=case.config.story_window_hours)

    def tell(self, case: Case, replies: Replies) -> Event:
        reply = only_reply(replies)
        triaged = case.triaged
        route = triaged.then if triaged is not None and triaged.then is not None else "deep"
        if not isinstance(reply, StoryReply):
            return StoryChecked(route=route, checked=False)
        story, own_page = (triaged.story if triaged is not None else None), _own_page(case, reply.own)
        first = None if story is None or own_page is not None else _to_join(story, reply.tellings)
        if first is None:
            return StoryChecked(route=route, earlier=_earlier(story, reply.tellings), own_page=own_page)
        corroborates = None if reply.own is None else corroboration(case, first, reply.tellings, reply.own)
        return corroborates or _reported_before(first.case_id)


class CloseTelling:
    """Ends a case whose report went into an earlier signal, or whose own analysis found no more than that one's did."""

    name = "close_telling"
    takes = (On(StoryCorroborated), On(EvidenceCritiqued, route="same_story"))
    emits = (CaseDropped,)

    def ask(self, case: Case) -> Asked:
        return self.tell(case, case.replies)

    def tell(self, case: Case, replies: Replies) -> Event:
        if case.critique is not None and case.critique.same_story_as is not None:
            return _reported_before(case.critique.same_story_as)
        return _reported_before(case.corroborated.of_case if case.corroborated else "")


def _own_page(case: Case, own: Telling | None) -> str | None:
    """Return the address of the news if the listener read it on the site or account of a listed party or authority."""
    if own is None or own.url is None or not case.received.authenticated:
        return None
    return own.url if is_partys_page(own.url, compiled(case.config.tables)) else None


def _to_join(story: Story, reports: tuple[Telling, ...]) -> Telling | None:
    return next(
        (r for r in reports if r.verdict in ACTED_ON and r.story is not None and adds_nothing(story, r.story)), None
    )


def _earlier(story: Story | None, reports: tuple[Telling, ...]) -> tuple[EarlierReport, ...]:
    """Return the reports with a signal, now or soon, that this case's result may supersede."""
    return tuple(
        EarlierReport(
            case_id=r.case_id,
            language=r.language,
            verdict=r.verdict,
            same_slots=adds_nothing(story, r.story),
        )
        for r in reports
        if story is not None and r.story is not None and not r.joined and names_nothing_else(r.story, story)
    )


def _reported_before(case_id: str) -> CaseDropped:
    return CaseDropped(reason="same_story", detail="an earlier case tells the same event", duplicate_of=case_id)


STEPS = (FindTheStory(), CloseTelling())
