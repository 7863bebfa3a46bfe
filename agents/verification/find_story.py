"""The story steps: a re-telling of an event that an earlier case tells ends here, before anything dear is asked.

A telling that bears the first one out is not lost: it becomes the next revision of that one's signal.
"""

from __future__ import annotations

from agents.core.case import Case, Replies
from agents.core.step import Asked, On, only_reply
from agents.verification.corroboration import corroboration
from schemas.effects import FindStory, StoryReply
from schemas.events import CaseDropped, CaseTriaged, Event, StoryChecked, StoryCorroborated


class FindTheStory:
    """Free: answered from the log. A check that failed does not stop the case; its signal says so."""

    name = "find_story"
    takes = (On(CaseTriaged, route="story"),)
    emits = (StoryChecked, StoryCorroborated, CaseDropped)

    def ask(self, case: Case) -> Asked:
        return FindStory(case_id=case.case_id, hours=case.config.story_window_hours)

    def tell(self, case: Case, replies: Replies) -> Event:
        reply = only_reply(replies)
        route = case.triaged.then if case.triaged is not None and case.triaged.then is not None else "deep"
        if not isinstance(reply, StoryReply):
            return StoryChecked(route=route, checked=False)
        if not reply.tellings:
            return StoryChecked(route=route)
        borne_out = None if reply.own is None else corroboration(case, reply.tellings, reply.own)
        return borne_out or _told_before(reply.tellings[0].case_id)


class CloseTelling:
    """Ends a case whose telling went into the first one's signal."""

    name = "close_telling"
    takes = (On(StoryCorroborated),)
    emits = (CaseDropped,)

    def ask(self, case: Case) -> Asked:
        return self.tell(case, case.replies)

    def tell(self, case: Case, replies: Replies) -> Event:
        return _told_before(case.corroborated.of_case if case.corroborated else "")


def _told_before(first: str) -> CaseDropped:
    return CaseDropped(reason="same_story", detail="an earlier case tells the same event", duplicate_of=first)


STEPS = (FindTheStory(), CloseTelling())
