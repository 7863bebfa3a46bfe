"""The state_claims step: the claims of the pages about the subject, in sentences that can be true or false on their own."""

from __future__ import annotations

import msgspec

from agents.core.answers import answer, cite_only, one_line
from agents.core.case_core import Replies
from agents.core.model_calls import ask_model, facts, reference_facts, reference_parts
from agents.core.step import StepRequest, only_reply
from agents.investigation.investigation import Investigation
from agents.investigation.prompt_parts import previous_parts, subject_parts
from agents.planning.rounds import ROUNDS_ENDED, references_so_far
from schemas.effects import Untrusted
from schemas.events import Event
from schemas.research_events import ClaimsStated, FoundClaim
from schemas.signals import EventType, Modality

MAX_CLAIMS = 6


class StatedAnswer(msgspec.Struct):
    claim: str
    event_type: EventType
    modality: Modality
    told_by: list[int]
    question: int | None = None


class ClaimsAnswer(msgspec.Struct):
    """The claims that the pages state (``investigate_claims.v1.schema.json``). The step checks and bounds every field."""

    claims: list[StatedAnswer]


class StateClaims:
    """Calls a model for the claims. Without a page there is no call. A claim without a page is left out."""

    name = "state_claims"
    takes = ROUNDS_ENDED
    emits = (ClaimsStated,)

    def ask(self, case: Investigation) -> StepRequest:
        pages = references_so_far(case)
        if not pages:
            return ClaimsStated(claims=())
        asked = tuple(Untrusted(f"sub-question {n}", q) for n, q in enumerate(_questions(case), start=1))
        parts = (
            *subject_parts(case),
            *asked,
            *previous_parts(case.framed.previous if case.framed else None),
            facts(references=reference_facts(pages)),
            *reference_parts(pages, passages=True),
        )
        return ask_model(case, "investigate_claims", parts, claims=str(MAX_CLAIMS))

    def tell(self, case: Investigation, replies: Replies) -> Event:
        response = answer(only_reply(replies), ClaimsAnswer)
        numbers = {r.reference_number for r in references_so_far(case)}
        claims = (
            FoundClaim(
                claim=cite_only(one_line(c.claim, 300), None),
                event_type=c.event_type,
                modality=c.modality,
                told_by=tuple(n for n in dict.fromkeys(c.told_by) if n in numbers),
                question=c.question if c.question in range(1, len(_questions(case)) + 1) else None,
            )
            for c in response.claims
        )
        kept = {c.claim.casefold(): c for c in claims if c.claim and c.told_by}
        return ClaimsStated(claims=tuple(kept.values())[:MAX_CLAIMS])


def _questions(case: Investigation) -> tuple[str, ...]:
    return tuple(q.question for q in case.framed.questions) if case.framed else ()


STEP = StateClaims()
