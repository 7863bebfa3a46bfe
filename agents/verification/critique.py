"""The critique step: a verdict for each claim, contradictions between sources, and the earlier signals to retract."""

from __future__ import annotations

from agents.core.answers import ClaimAnswer, CritiqueAnswer, answer, clamped, one_line
from agents.core.asking import (
    ask_model,
    claim_parts,
    facts,
    findings_facts,
    memory_parts,
    news_parts,
    page_parts,
    reference_parts,
)
from agents.core.case import Case, Replies
from agents.core.step import Asked, On
from agents.evidence.policy import bounds
from agents.planning.rounds import findings_so_far
from agents.planning.tool_answers import tool_facts, tool_parts
from agents.retraction import Candidate, candidates, chosen, question
from schemas.effects import CallModel, ConcernedReply
from schemas.events import (
    ClaimVerdict,
    Event,
    EvidenceCritiqued,
    KeywordsExpanded,
    PagesScraped,
    SearchCompleted,
    ToolPlanned,
)

MAX_CLAIMS = 5
MAX_CONTRADICTIONS = 5
BELIEVED = frozenset({"multi_source_official", "multi_source", "official_alone"})
"""Base rules under which a denial is believed. A denial that is not believed retracts nothing."""


class CritiqueEvidence:
    """Ask the heavy model to judge references and pages; without either, return ``not_enough_evidence`` without a call.

    News that denies or corrects, and is believed, is first compared with earlier cases' claims (a free journal read).
    """

    name = "critique"
    takes = (
        On(ToolPlanned, route="critique"),
        On(SearchCompleted, route="critique"),
        On(PagesScraped, route="critique"),
        On(KeywordsExpanded, route="critique"),
    )
    emits = (EvidenceCritiqued,)

    def ask(self, case: Case) -> Asked:
        findings = findings_so_far(case)
        if not findings.references and not case.opened_pages:
            return EvidenceCritiqued(claims=(), verdict="not_enough_evidence")
        asked = question(case) if bounds(findings, None)[0] in BELIEVED else None
        if asked is None:
            return _critique(case, ())
        if case.replies.of(asked) is None:
            return (asked,)
        return (asked, _critique(case, _candidates(case, case.replies)))

    def tell(self, case: Case, replies: Replies) -> Event:
        earlier = _candidates(case, replies)
        said = answer(replies.of(_critique(case, earlier)), CritiqueAnswer)
        numbers = {r.reference_number for r in findings_so_far(case).references}
        claims = tuple(_claim(c, numbers) for c in said.claims[:MAX_CLAIMS])
        verdict = said.verdict if said.verdict in {c.verdict for c in claims} else "not_enough_evidence"
        believed = bounds(findings_so_far(case), verdict)[0] in BELIEVED
        concerned = chosen(case, earlier, said.concerned) if believed else ()
        return EvidenceCritiqued(
            claims=claims,
            verdict=verdict,
            contradictions=tuple(one_line(c, 300) for c in said.contradictions[:MAX_CONTRADICTIONS]),
            timeliness=said.timeliness,
            concerned=concerned,
            route="retract" if concerned else "synthesize",
        )


def _critique(case: Case, earlier: tuple[Candidate, ...]) -> CallModel:
    findings = findings_so_far(case)
    same = {"earlier_claims": [{"number": n, "same": c.same_claim} for n, c in enumerate(earlier, start=1)]}
    known = facts(**findings_facts(findings), **tool_facts(case), **(same if earlier else {}))
    memories = memory_parts(case.context.entries if case.context else ())
    claims = claim_parts(c.claim for c in earlier)
    evidence = (*reference_parts(findings), *page_parts(case), *tool_parts(case))
    return ask_model(case, "critique", (*news_parts(case), known, *claims, *memories, *evidence))


def _candidates(case: Case, replies: Replies) -> tuple[Candidate, ...]:
    # If the journal cannot be read in time, nothing is retracted: the case's own signal is still useful.
    return tuple(c for reply in replies.all(ConcernedReply) for c in candidates(case, reply.claims))


def _claim(said: ClaimAnswer, numbers: set[int]) -> ClaimVerdict:
    # A model may cite a reference that does not exist. A verdict without a valid citation is not enough evidence.
    cited = tuple(n for n in dict.fromkeys(said.reference_numbers) if n in numbers)
    return ClaimVerdict(
        claim=one_line(said.claim, 300),
        verdict=said.verdict if cited else "not_enough_evidence",
        reliability=clamped(said.reliability, 0.0, 1.0),
        reference_numbers=cited,
        reason=one_line(said.reason, 400),
    )


STEP = CritiqueEvidence()
