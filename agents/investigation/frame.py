"""The frame step: what was known before, and three to five sub-questions."""

from __future__ import annotations

import msgspec

from agents.core.answers import answer, clean_keywords, one_line
from agents.core.case_core import Replies
from agents.core.model_calls import ask_model, memory_parts
from agents.core.step import On, StepRequest
from agents.investigation.investigation import Investigation
from agents.investigation.prompt_parts import previous_parts, subject_parts
from agents.investigation.subject import subject_key
from agents.planning.tools import offered_tools
from schemas.effects import BriefReply, CallModel, Failure, FindBrief, Recall, RecallReply
from schemas.events import Event
from schemas.evidence import MemoryEntry, PreviousBrief
from schemas.research_events import InvestigationAsked, InvestigationFramed, SubQuestion

MAX_QUESTIONS = 5


class QuestionAnswer(msgspec.Struct):
    question: str
    query: str
    platforms: bool = False


class FrameAnswer(msgspec.Struct):
    """The reply of the frame (``investigate_frame.v1.schema.json``). The step checks and bounds every field."""

    questions: list[QuestionAnswer]


class FrameSubject:
    """Finds memories and the earlier brief (both optional) and frames the sub-questions; without any, the subject is the question."""

    name = "frame"
    takes = (On(InvestigationAsked),)
    emits = (InvestigationFramed,)

    def ask(self, case: Investigation) -> StepRequest:
        before = (_earlier(case), _recall(case))
        if any(case.replies.of(effect) is None for effect in before):
            return before
        return (*before, _question(case, case.replies))

    def tell(self, case: Investigation, replies: Replies) -> Event:
        response = answer(replies.of(_question(case, replies)), FrameAnswer)
        previous, recalled = replies.of(_earlier(case)), replies.of(_recall(case))
        unread = [
            f"{name}: {reply.kind}"
            for name, reply in (("briefs", previous), ("memory", recalled))
            if isinstance(reply, Failure)
        ]
        questions = dict.fromkeys(_cleaned(q.question, q.query, platforms=q.platforms) for q in response.questions)
        kept = tuple(q for q in questions if q.question and q.query)[:MAX_QUESTIONS]
        return InvestigationFramed(
            questions=kept or (SubQuestion(question=case.asked.subject, query=clean_keywords(case.asked.subject)),),
            previous=_brief(previous),
            memories=_memories(case, replies),
            unread=tuple(unread),
        )


def _earlier(case: Investigation) -> FindBrief:
    return FindBrief(
        subject=subject_key(case.asked.subject),
        language=case.language,
        as_of=case.as_of,
        exclude_case=case.case_id,
        investigation=case.asked.previous,
    )


def _recall(case: Investigation) -> Recall:
    return Recall(
        text=case.asked.subject,
        asset=case.about.asset,
        as_of=case.as_of,
        limit=case.config.memory_limit,
        exclude_case=case.case_id,
    )


def _question(case: Investigation, replies: Replies) -> CallModel:
    parts = (
        *subject_parts(case),
        *memory_parts(_memories(case, replies)),
        *previous_parts(_brief(replies.of(_earlier(case)))),
    )
    platforms = "yes" if "platform_search" in offered_tools(case) else "no"
    return ask_model(case, "investigate_frame", parts, platforms=platforms)


def _brief(reply: object) -> PreviousBrief | None:
    return reply.brief if isinstance(reply, BriefReply) else None


def _memories(case: Investigation, replies: Replies) -> tuple[MemoryEntry, ...]:
    reply = replies.of(_recall(case))
    return tuple(e for e in reply.entries if e.case_id != case.case_id) if isinstance(reply, RecallReply) else ()


def _cleaned(question: str, query: str, *, platforms: bool) -> SubQuestion:
    return SubQuestion(question=one_line(question, 200), query=clean_keywords(query), platforms=platforms)


STEP = FrameSubject()
