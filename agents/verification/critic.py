"""The calls of the critic for a case, and the reading of its replies."""

from __future__ import annotations

from agents.core.answers import ClaimAnswer, CritiqueAnswer, clamped, one_line
from agents.core.case import Case, Replies
from agents.core.model_calls import (
    ask_model,
    claim_parts,
    facts,
    memory_parts,
    news_parts,
    reference_facts,
    stated_claim,
)
from agents.core.step import StepFailure
from agents.evidence.witnesses import shown_to_critic, too_many_unquoted
from agents.judging import check_case_pages
from agents.planning.critic_reading import critique_answer, pages_to_judge, stances_of, unquoted_in
from agents.planning.rounds import references_so_far
from agents.planning.tool_answers import tool_facts, tool_parts
from agents.retraction import Candidate, find_candidates
from schemas.effects import CallModel, ConcernedReply, ModelReply, Part, Reply
from schemas.events import ClaimVerdict
from schemas.evidence import PageStance, SearchReference


def shown_references(case: Case) -> tuple[SearchReference, ...]:
    """Return the references that the critic reads."""
    return shown_to_critic(references_so_far(case))


def critique_call(case: Case, earlier: tuple[Candidate, ...], *, unquoted: tuple[int, ...] = ()) -> CallModel:
    """Return the call: the claim, the known facts of each page without a stance, and the passages.

    ``unquoted``: references whose quote was not on the page the first time.
    """
    pages = shown_references(case)
    same = {"earlier_claims": [{"number": n, "same": c.same_claim} for n, c in enumerate(earlier, start=1)]}
    known = facts(references=reference_facts(pages), **tool_facts(case), **(same if earlier else {}))
    parts: list[Part] = [
        *news_parts(case),
        *stated_claim(case),
        known,
        *claim_parts(c.claim for c in earlier),
        *memory_parts(case.context.entries if case.context else ()),
        *tool_parts(case),
        *pages_to_judge(pages, unquoted),
    ]
    return ask_model(case, "critique", parts)


def critique_in(case: Case, reply: Reply | None) -> tuple[CritiqueAnswer, tuple[PageStance, ...] | None]:
    """Return the critic's reply, and its reading of each page that it was shown.

    Raises:
        StepFailure: the reply's own failure, or invalid_output.
    """
    response = critique_answer(reply, case.config.prompts.get("critique"))
    return response, stances_of(response, shown_references(case), case.as_of)


def second_critique_call(
    case: Case, earlier: tuple[Candidate, ...], first: CallModel, replies: Replies
) -> CallModel | None:
    """Return the second call if more than a third of the ``first`` call's quotes are not on their pages; else None."""
    reply = replies.of(first)
    if not isinstance(reply, ModelReply):
        return None
    try:
        _, stances = critique_in(case, reply)
    except StepFailure:
        return None  # ``tell`` raises the failure
    pages = check_case_pages(case, references_so_far(case), stances)
    if not too_many_unquoted(pages):
        return None
    return critique_call(case, earlier, unquoted=unquoted_in(pages))


def candidates_of(case: Case, replies: Replies) -> tuple[Candidate, ...]:
    """Return the earlier claims that this news may deny or correct."""
    # If the journal cannot be read in time, nothing is retracted. The case's own signal is still useful.
    return tuple(c for reply in replies.all(ConcernedReply) for c in find_candidates(case, reply.claims))


def claim_verdict(response: ClaimAnswer, numbers: set[int]) -> ClaimVerdict:
    """Return the critic's verdict on one claim, bounded."""
    # A model may cite a reference that does not exist. A verdict without a valid citation is not enough evidence.
    cited = tuple(n for n in dict.fromkeys(response.reference_numbers) if n in numbers)
    return ClaimVerdict(
        claim=one_line(response.claim, 300),
        verdict=response.verdict if cited else "not_enough_evidence",
        reliability=clamped(response.reliability, 0.0, 1.0),
        reference_numbers=cited,
        reason=one_line(response.reason, 400),
    )
