"""The judgement of a news case: its evidence, who read it, and the verdict, or why nothing was checked.

Every step that ends a case uses this module, so all paths judge alike.
"""

from __future__ import annotations

import msgspec

from agents.core.case import Case
from agents.evidence.claim import Claim
from agents.evidence.compiled import compiled
from agents.evidence.measurements import measured, measurements_of
from agents.evidence.news_claim import claim_of
from agents.evidence.owners import owner_of, speaker_of
from agents.evidence.pages import SNIPPET
from agents.evidence.verdict import Judgement, Measured, unchecked
from agents.evidence.witnesses import CheckedPage, Reader, check_pages_with, judge_evidence_with
from agents.planning.providers import AT_HOME
from agents.planning.rounds import findings_so_far
from agents.text.hosts import host_of, registrable_domain
from schemas.events import EvidenceCritiqued, ProviderOutcome
from schemas.evidence import Findings, PageStance, SearchReference


class CaseJudgement(msgspec.Struct, frozen=True, kw_only=True):
    """A judgement with its evidence. ``why``: reason for the verdict ``unchecked``, else None. ``measured``: whether market
    figures confirm or contradict the claim."""

    judgement: Judgement
    findings: Findings | None = None
    pages: tuple[CheckedPage, ...] = ()
    why: str | None = None
    measured: Measured | None = None


def unchecked_case(why: str) -> CaseJudgement:
    """Return the judgement ``unchecked`` with its reason."""
    return CaseJudgement(judgement=unchecked(), why=why)


def check_case_pages(
    case: Case, references: tuple[SearchReference, ...], stances: tuple[PageStance, ...] | None
) -> tuple[CheckedPage, ...]:
    """Return each reference with its checked stance; ``stances`` as in :func:`agents.evidence.witnesses.check_pages`."""
    once, tables = case.memo.once, compiled(case.config.tables)
    return tuple(once(check_pages_with, tables, claim_of(case), references, stances))


def judge_case(
    case: Case,
    *,
    findings: Findings | None = None,
    outcomes: tuple[ProviderOutcome, ...] = (),
    critique: EvidenceCritiqued | None = None,
    unread: bool = False,
) -> CaseJudgement:
    """Return the judgement of a triaged case by all its evidence, or by ``findings`` if given.

    ``outcomes`` and ``critique``: searches and a critique that the case does not contain yet. ``unread``: the path has no
    critic, so the confidence is not raised.
    """
    evidence = findings if findings is not None else findings_so_far(case)
    critique = critique or case.critique
    claim = claim_of(case)
    figures = _measured(case, claim)
    stances = critique.stances if critique is not None else None
    own = _own_word(case, claim, evidence)
    pages = (*check_case_pages(case, evidence.references, stances), *own)
    asked = (*(o for s in case.searches for o in s.outcomes), *outcomes)
    why = None if figures or own else _why_unchecked(case, asked, evidence)
    judgement = case.memo.once(
        judge_evidence_with,
        compiled(case.config.tables),
        claim,
        pages,
        Reader(
            by_words=stances is None,
            critic=critique.verdict if critique is not None and stances is not None else None,
            measured=figures,
            partly_refuted=critique is not None and _is_partly_refuted(critique, pages),
            unread=unread and stances is None,
            threshold=case.config.search_multi_source_threshold,
        ),
    )
    if why is None and judgement.verdict == "unconfirmed" and _is_half_searched(case, asked):
        why = "language"
    if why is not None:
        judgement = unchecked(judgement.independent_sources)
    return CaseJudgement(judgement=judgement, findings=evidence, pages=pages, why=why, measured=figures)


def _own_word(case: Case, claim: Claim, findings: Findings) -> tuple[CheckedPage, ...]:
    """Return the news as a page of the party or authority that published it; empty if that is not certain.

    It needs no critic: its claim is what triage stated. A rumour that it mentions is not its claim.
    """
    url, tables = case.story.own_page if case.story else None, compiled(case.config.tables)
    speaker = speaker_of(url, claim, tables) if url else None
    if url is None or speaker is None:
        return ()
    title, _, rest = case.news.text.strip().partition("\n")
    reference = SearchReference(
        reference_number=max((r.reference_number for r in findings.references), default=0) + 1,
        source_tool="listener",
        title=title[:SNIPPET],
        url=url,
        snippet=(rest.strip() or title)[:SNIPPET],
        relevance_score=1.0,
        quality_score=100.0,
        content_complete=False,
        source_credibility="high",
        query="",
        published_at=case.news.published_at,
        registrable_domain=registrable_domain(host_of(url)),
        independent=False,
        official=True,
        stance="hedges" if claim.modality == "rumoured" else "supports",
        carries=True,
        owner=owner_of(url, tables.directory),
        speaker=speaker,
    )
    return (CheckedPage(reference=reference, stance=reference.stance, own_word=True),)


def _measured(case: Case, claim: Claim) -> Measured | None:
    values = tuple(v for s in case.searches for v in s.market)
    return measured(claim, measurements_of(values, claim)) if values else None


def _is_partly_refuted(critique: EvidenceCritiqued, pages: tuple[CheckedPage, ...]) -> bool:
    quoted = {page.reference.reference_number for page in pages if page.quoted}
    return any(c.verdict == "refuted" and not quoted.isdisjoint(c.reference_numbers) for c in critique.claims[1:])


def _why_unchecked(case: Case, asked: tuple[ProviderOutcome, ...], findings: Findings) -> str | None:
    """Return the reason that nothing was checked; None if at least one search returned or a page was read.

    An empty search of the parties' own domains does not count while the search for news failed.
    """
    if any(o.failure is None and o.topic != "official" for o in asked) or findings.references:
        return None
    kinds = [o.failure.kind for o in asked if o.failure is not None]
    if "search" in case.denied or "budget" in kinds:
        return "budget"
    if kinds:
        return f"search_failed:{kinds[-1]}"
    if not case.config.tool_search_enabled or (case.plans and case.plans[0].decided_by == "disabled"):
        return "disabled"
    return "not_planned"


def _is_half_searched(case: Case, asked: tuple[ProviderOutcome, ...]) -> bool:
    """Return whether the provider of the news' language was called and always failed: others may not know the news."""
    at_home = [o for o in asked if o.provider == AT_HOME.get(case.language) and o.topic != "official"]
    return bool(at_home) and all(o.failure is not None for o in at_home)
