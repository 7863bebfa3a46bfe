"""The recall step: finds similar earlier cases in memory."""

from __future__ import annotations

from agents.core.case import Case, Replies
from agents.core.step import On, StepRequest, needed, only_reply
from schemas.effects import Failure, Recall, RecallReply
from schemas.events import CaseTriaged, ContextGathered, Event, StoryChecked

MAX_RECALL_CHARACTERS = 2_000
"""Characters compared with past cases; embeddings lose precision on longer texts."""


def recall_of(case: Case) -> Recall:
    """Return the memory query, as of the case's own time."""
    return Recall(
        text=case.news.text[:MAX_RECALL_CHARACTERS],
        asset=case.draft.asset if case.triaged else "",
        as_of=case.as_of,
        limit=case.config.memory_limit,
        exclude_case=case.signal_case,
        keywords=case.news.keywords_hit[:20],
    )


class RecallMemory:
    """An optional step: without memory the case continues and records that memory was unavailable."""

    name = "recall"
    takes = (On(CaseTriaged, route="deep"), On(StoryChecked, route="deep"))
    emits = (ContextGathered,)

    def ask(self, case: Case) -> StepRequest:
        return recall_of(case)

    def tell(self, case: Case, replies: Replies) -> Event:
        reply = only_reply(replies)
        if isinstance(reply, Failure):
            return ContextGathered(entries=(), memory="unavailable")
        entries, least = needed(reply, RecallReply).entries, case.config.memory_min_confidence
        known = tuple(e for e in entries if e.case_id != case.signal_case and e.confidence >= least)
        return ContextGathered(entries=known, memory="found" if known else "no_match")


STEP = RecallMemory()
