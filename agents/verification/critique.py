"""Critique: what does the evidence say of each claim, and who contradicts whom?"""

from __future__ import annotations

from agents.case import Case, Replies
from agents.step import Asked, On, only_reply
from agents.verification.answers import ClaimAnswer, CritiqueAnswer, answer, clamped, one_line
from agents.verification.asking import (
    ask_model,
    facts,
    findings_facts,
    memory_parts,
    news_parts,
    page_parts,
    reference_parts,
)
from agents.verification.rounds import findings_so_far
from agents.verification.tool_answers import tool_facts, tool_parts
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


class CritiqueEvidence:
    """The heavy model reads references and pages; with none of either, code says that there is not enough evidence."""

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
        known = facts(**findings_facts(findings), **tool_facts(case))
        memories = memory_parts(case.context.entries if case.context else ())
        evidence = (*reference_parts(findings), *page_parts(case), *tool_parts(case))
        return ask_model(case, "critique", (*news_parts(case), known, *memories, *evidence))

    def tell(self, case: Case, replies: Replies) -> Event:
        said = answer(only_reply(replies), CritiqueAnswer)
        numbers = {r.reference_number for r in findings_so_far(case).references}
        claims = tuple(_claim(c, numbers) for c in said.claims[:MAX_CLAIMS])
        return EvidenceCritiqued(
            claims=claims,
            verdict=said.verdict if said.verdict in {c.verdict for c in claims} else "not_enough_evidence",
            contradictions=tuple(one_line(c, 300) for c in said.contradictions[:MAX_CONTRADICTIONS]),
            timeliness=said.timeliness,
        )


def _claim(said: ClaimAnswer, numbers: set[int]) -> ClaimVerdict:
    # A model may cite a reference that does not exist; a verdict that rests on nothing else is not enough evidence.
    cited = tuple(n for n in dict.fromkeys(said.reference_numbers) if n in numbers)
    return ClaimVerdict(
        claim=one_line(said.claim, 300),
        verdict=said.verdict if cited else "not_enough_evidence",
        reliability=clamped(said.reliability, 0.0, 1.0),
        reference_numbers=cited,
        reason=one_line(said.reason, 400),
    )


STEP = CritiqueEvidence()
