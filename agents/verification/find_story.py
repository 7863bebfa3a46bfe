"""The story steps: a report that adds nothing to a confirmed or likely signal ends; any other is analysed.

A report that corroborates the earlier signal becomes the next revision of that signal. A party's own page, read by the
listener, never ends here.
"""

from __future__ import annotations

from agents.core.case import Case, Replies
from agents.core.step import AskOnly, On, StepRequest, only_reply
from agents.evidence.compiled import Compiled, compiled
from agents.evidence.owners import is_partys_page
from agents.evidence.story import adds_nothing, names_nothing_else
from agents.evidence.story_text import adds_words
from agents.verification.story_reports import corroborate
from schemas.effects import FindStory, StoryReply, StoryReport
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
    """Searches the log for earlier reports, at no cost. A failed check does not stop the case; its signal says so."""

    name = "find_story"
    takes = (On(CaseTriaged, route="story"),)
    emits = (StoryChecked, StoryCorroborated, CaseDropped)

    def ask(self, case: Case) -> StepRequest:
        return FindStory(case_id=case.case_id, hours=case.config.story_window_hours)

    def tell(self, case: Case, replies: Replies) -> Event:
        reply = only_reply(replies)
        triaged = case.triaged
        route = triaged.then if triaged is not None and triaged.then is not None else "deep"
        if not isinstance(reply, StoryReply):
            return StoryChecked(route=route, checked=False)
        story, own_page = (triaged.story if triaged is not None else None), _own_page(case, reply.own)
        known = compiled(case.config.tables)
        joins = story is not None and own_page is None
        first = to_join(story, case.news.text, reply.tellings, known) if joins else None
        if first is None:
            return StoryChecked(route=route, earlier=_earlier(case, reply.tellings), own_page=own_page)
        corroborates = None if reply.own is None else corroborate(case, first, reply.tellings, reply.own)
        return corroborates or _reported_before(first.case_id)


class CloseReport(AskOnly):
    """Ends a case whose report joined an earlier signal, or whose own analysis adds nothing to that signal."""

    name = "close_telling"
    takes = (On(StoryCorroborated), On(EvidenceCritiqued, route="same_story"))
    emits = (CaseDropped,)

    def ask(self, case: Case) -> Event:
        if case.critique is not None and case.critique.same_story_as is not None:
            return _reported_before(case.critique.same_story_as)
        return _reported_before(case.corroborated.of_case if case.corroborated else "")


def _own_page(case: Case, own: StoryReport | None) -> str | None:
    """Return the address of the news if the listener read it on the site or account of a listed party or authority."""
    if own is None or own.url is None or not case.received.authenticated:
        return None
    return own.url if is_partys_page(own.url, compiled(case.config.tables)) else None


def to_join(story: Story | None, text: str, reports: tuple[StoryReport, ...], known: Compiled) -> StoryReport | None:
    """Return the report whose confirmed or likely signal covers all that this one states; None without one."""
    acted_on = (r for r in reports if r.verdict in ACTED_ON and not r.joined)
    return next((r for r in acted_on if _same_slots(story, text, r, known)), None)


def _same_slots(story: Story | None, text: str, earlier: StoryReport, known: Compiled) -> bool:
    if story is None or earlier.story is None or not adds_nothing(story, earlier.story):
        return False
    return not _adds_words(story, text, earlier.text, known)


def _adds_words(story: Story, text: str, other: str, known: Compiled) -> bool:
    return adds_words(text, (story.subject, story.venue, *story.names, *story.assets), other, known)


def _earlier(case: Case, reports: tuple[StoryReport, ...]) -> tuple[EarlierReport, ...]:
    """Return the reports whose signal, present or pending, this case's result may supersede."""
    story, known = case.triaged.story if case.triaged else None, compiled(case.config.tables)
    return tuple(
        EarlierReport(
            case_id=r.case_id,
            language=r.language,
            verdict=r.verdict,
            same_slots=_same_slots(story, case.news.text, r, known),
        )
        for r in reports
        if story is not None and r.story is not None and not r.joined and names_nothing_else(r.story, story)
        # If each names somebody whom the other does not, neither supersedes the other.
        if not _adds_words(story, case.news.text, r.text, known)
        and not _adds_words(r.story, r.text, case.news.text, known)
    )


def _reported_before(case_id: str) -> CaseDropped:
    return CaseDropped(reason="same_story", detail="an earlier case tells the same event", duplicate_of=case_id)


STEPS = (FindTheStory(), CloseReport())
