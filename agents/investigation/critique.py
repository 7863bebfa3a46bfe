"""The critique step: the stance of each page on each claim, with a quote. All claims are read concurrently."""

from __future__ import annotations

from agents.core.answers import CritiqueAnswer
from agents.core.case_core import Replies
from agents.core.failures import raise_to_retry
from agents.core.model_calls import ask_model, facts, reference_facts
from agents.core.step import On, StepFailure, StepRequest
from agents.evidence.witnesses import too_many_unquoted
from agents.investigation.investigation import Investigation
from agents.investigation.judging import check_claim_pages, shown
from agents.investigation.prompt_parts import claim_parts
from agents.planning.critic_reading import critique_answer, pages_to_judge, stances_of, unquoted_in
from schemas.effects import CallModel, Failure, ModelReply, Reply
from schemas.events import Event
from schemas.research_events import ClaimReading, ClaimsCritiqued, ClaimsStated, FoundClaim


class CritiqueClaims:
    """Makes one heavy call per claim, and a second if over a third of its quotes fail.

    A claim whose call failed is judged without a critic, and the event says why. The others keep their reading.
    """

    name = "critique"
    takes = (On(ClaimsStated),)
    emits = (ClaimsCritiqued,)

    def ask(self, case: Investigation) -> StepRequest:
        calls = tuple(call for claim in _claims(case) for call in _calls(case, claim, case.replies))
        return calls or ClaimsCritiqued(readings=())

    def tell(self, case: Investigation, replies: Replies) -> Event:
        last = [_reply(case, claim, replies) for claim in _claims(case)]
        raise_to_retry(case, self.name, last, now=replies.at)
        readings = zip(_claims(case), last, strict=True)
        return ClaimsCritiqued(readings=tuple(_reading(case, claim, reply) for claim, reply in readings))


def _claims(case: Investigation) -> tuple[FoundClaim, ...]:
    return case.found.claims if case.found else ()


def _call(case: Investigation, claim: FoundClaim, unquoted: tuple[int, ...] = ()) -> CallModel:
    pages = shown(case, claim)
    known = facts(references=reference_facts(pages))
    return ask_model(case, "critique", (*claim_parts(case, claim), known, *pages_to_judge(pages, unquoted)))


def _calls(case: Investigation, claim: FoundClaim, replies: Replies) -> tuple[CallModel, ...]:
    first = _call(case, claim)
    response = _answer(case, replies.of(first))
    stances = None if response is None else stances_of(response, shown(case, claim), None)
    pages = () if stances is None else check_claim_pages(case, claim, stances)
    return (first, _call(case, claim, unquoted_in(pages))) if too_many_unquoted(pages) else (first,)


def _reply(case: Investigation, claim: FoundClaim, replies: Replies) -> Reply | None:
    answered = [replies.of(call) for call in _calls(case, claim, replies)]
    # If the second call failed, the first reply counts, with its failed quotes.
    return answered[-1] if isinstance(answered[-1], ModelReply) else answered[0]


def _answer(case: Investigation, reply: Reply | None) -> CritiqueAnswer | None:
    try:
        return critique_answer(reply, case.config.prompts.get("critique"))
    except StepFailure:
        return None


def _reading(case: Investigation, claim: FoundClaim, reply: Reply | None) -> ClaimReading:
    response = _answer(case, reply)
    if response is None:
        return ClaimReading(claim=claim, unread=reply.kind if isinstance(reply, Failure) else "invalid_output")
    stances = stances_of(response, shown(case, claim), None)
    return ClaimReading(
        claim=claim,
        stances=stances,
        critic=response.verdict if stances is not None else None,
        unquoted=unquoted_in(check_claim_pages(case, claim, stances)) if stances is not None else (),
    )


STEP = CritiqueClaims()
