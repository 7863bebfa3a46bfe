"""Recall: what did we think of news like this before?"""

from __future__ import annotations

from agents.core.case import Case, Replies
from agents.core.step import Asked, On, needed, only_reply
from schemas.effects import Failure, Recall, RecallReply
from schemas.events import CaseTriaged, ContextGathered, Event

MAX_RECALL_CHARACTERS = 2_000
"""What is compared with past cases; embeddings blur beyond it."""


def recall_of(case: Case) -> Recall:
    """Return the question to memory, as of the case's own time."""
    return Recall(
        text=case.news.text[:MAX_RECALL_CHARACTERS],
        asset=case.draft.asset if case.triaged else "",
        as_of=case.as_of,
        limit=case.config.memory_limit,
        exclude_case=case.case_id,
    )


class RecallMemory:
    """Memory is a help, not a need: without it the case goes on and says so."""

    name = "recall"
    takes = (On(CaseTriaged, route="deep"),)
    emits = (ContextGathered,)

    def ask(self, case: Case) -> Asked:
        return recall_of(case)

    def tell(self, case: Case, replies: Replies) -> Event:
        reply = only_reply(replies)
        if isinstance(reply, Failure):
            return ContextGathered(entries=(), memory="unavailable")
        known = tuple(e for e in needed(reply, RecallReply).entries if e.case_id != case.case_id)
        return ContextGathered(entries=known, memory="found" if known else "no_match")


STEP = RecallMemory()
