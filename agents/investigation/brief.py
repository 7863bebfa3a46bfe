"""The brief step: writes the judged claims in sentences with references. A model chooses the words; code does the rest."""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from agents.core.answers import answer
from agents.core.case_core import Replies
from agents.core.failures import raise_to_retry
from agents.core.model_calls import ask_model, bounded, facts
from agents.core.step import AskOnly, On, StepFailure, StepRequest, needed
from agents.investigation.investigation import BRIEF, Investigation
from agents.investigation.prompt_parts import subject_parts
from agents.investigation.writing import Draft, announced, draft_of, written
from schemas.effects import CallModel, PublishedReply, Untrusted
from schemas.events import CaseFailed, Event, StepFailed
from schemas.research_events import AnswerStopped, BriefWritten, ClaimsCritiqued, FinishRequested

MAX_QUOTED = 400


class SentenceAnswer(msgspec.Struct):
    claim: int
    text: str


class BriefAnswer(msgspec.Struct):
    """The sentences of a brief, each about one claim by its number (``investigate_brief.v1.schema.json``)."""

    sentences: list[SentenceAnswer]


class WriteBrief:
    """The last resort of an investigation. If the model fails, the brief has the claims as they were stated.

    An investigation that failed before any search ends with the reason.
    """

    name = BRIEF
    takes = (On(ClaimsCritiqued), On(FinishRequested), On(StepFailed, outcome="degrade"))
    emits = (BriefWritten, AnswerStopped, CaseFailed)

    def ask(self, case: Investigation) -> StepRequest:
        if case.stopped is not None:  # stopped, then asked to finish: the stop wins
            return AnswerStopped(requested_by=case.stopped.requested_by, reason=case.stopped.reason)
        if case.failed is not None and not case.searches:
            return _failed(case.failed)
        draft = draft_of(case)
        if not draft.claims:
            return written(case, draft, ())
        news = announced(case, draft)
        return (_call(case, draft), *news) if news else _call(case, draft)

    def tell(self, case: Investigation, replies: Replies) -> Event:
        draft = draft_of(case)
        try:
            published = tuple(needed(replies.of(news), PublishedReply).case_id for news in announced(case, draft))
            response = answer(replies.of(_call(case, draft)), BriefAnswer)
        except StepFailure as stop:
            raise_to_retry(case, BRIEF, (stop.failure,), now=replies.at)
            return written(case, draft, (), unwritten=stop.failure.kind)
        brief = written(case, draft, tuple((s.claim, s.text) for s in response.sentences))
        return replace(brief, published=published)


class GiveUp(AskOnly):
    """The end at the deadline: code writes the brief from what there is. Without any page, the investigation fails."""

    name = "give_up_brief"
    takes = (On(StepFailed, outcome="give_up"),)
    emits = (BriefWritten, CaseFailed)

    def ask(self, case: Investigation) -> StepRequest:
        last: StepFailed = case.head
        draft = draft_of(case)
        return written(case, draft, (), unwritten=last.failure.kind) if draft.claims else _failed(last)


def _failed(last: StepFailed) -> CaseFailed:
    reason = f"{last.failure.kind}: {last.failure.message}"
    return CaseFailed(reason=reason, failed_step=last.step, attempts=last.attempt)


def _call(case: Investigation, draft: Draft) -> CallModel:
    known = facts(
        claims=[
            {
                "number": n,
                "verdict": c.verdict,
                "supporting_sources": c.supporting_sources,
                "references": [e.number for e in c.evidence],
            }
            for n, c in enumerate(draft.claims, start=1)
        ]
    )
    claims = [Untrusted(f"claim {n}", bounded(c.claim, 300)) for n, c in enumerate(draft.claims, start=1)]
    by_number = {r.number: r for r in draft.references}
    quotes = [
        Untrusted(f"quote {e.number}, {e.stance}", bounded(e.quote or by_number[e.number].title, MAX_QUOTED))
        for c in draft.claims
        for e in c.evidence
    ]
    return ask_model(case, "investigate_brief", (*subject_parts(case), known, *claims, *quotes))


STEPS = (WriteBrief(), GiveUp())
