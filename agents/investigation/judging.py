"""The judgement of each claim of an investigation, by the same rules as for news."""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from agents.core.answers import cite_only, one_line
from agents.evidence.claim import Claim
from agents.evidence.compiled import compiled
from agents.evidence.findings import assess
from agents.evidence.verdict import Judgement
from agents.evidence.witnesses import MAX_SHOWN, CheckedPage, Reader, check_pages_with, judge_evidence_with
from agents.investigation.investigation import Investigation
from agents.planning.rounds import references_so_far
from agents.text.hosts import host_of
from agents.text.matching import fold_han, units
from schemas.config import Snapshot
from schemas.evidence import PageStance, SearchReference, SearchResult
from schemas.news import News, language_of
from schemas.research_events import ClaimReading, FoundClaim


class ClaimJudgement(msgspec.Struct, frozen=True):
    """A claim with its judgement and its checked pages."""

    claim: FoundClaim
    judgement: Judgement
    pages: tuple[CheckedPage, ...]


def claim_as(case: Investigation, stated: FoundClaim) -> Claim:
    """Return the claim as the rules of evidence judge it: about the subject, as of the investigation's time."""
    about = case.about
    return Claim(
        text=stated.claim,
        language=language_of(News(source="", text=stated.claim, published_at=case.as_of)),
        event_type=stated.event_type,
        asset=about.asset,
        asset_name=about.asset_name,
        subject=case.asked.subject,
        venue="",
        amount=None,
        modality=stated.modality,
        entity=about.entity,
        as_of=case.as_of,
        source_url=None,
        begins_story=False,
    )


def shown(case: Investigation, stated: FoundClaim) -> tuple[SearchReference, ...]:
    """Return the references that the critic reads for one claim: those that state it, then those that share its words."""
    wanted = frozenset(units(fold_han(stated.claim)))

    def order(r: SearchReference) -> tuple[bool, int, int]:
        shared = len(wanted.intersection(units(fold_han(f"{r.title} {r.passage or r.snippet}"))))
        return r.reference_number not in stated.told_by, -shared, r.reference_number

    best = sorted(references_so_far(case), key=order)[:MAX_SHOWN]
    return tuple(sorted(best, key=lambda r: r.reference_number))


def check_claim_pages(
    case: Investigation, stated: FoundClaim, stances: tuple[PageStance, ...] | None
) -> tuple[CheckedPage, ...]:
    """Return each reference with its checked stance on a claim. ``stances``: the critic's reading, None without a critic."""
    claim = claim_as(case, stated)
    if stances is None:
        # Word rules do not know which of a subject's stories a denial is about, so they read only the pages that state this claim.
        stating = tuple(r for r in references_so_far(case) if r.reference_number in stated.told_by)
        pages = _read_by_words(claim, stating, case.config)
        return tuple(CheckedPage(reference=r, stance=r.stance) for r in pages)
    return tuple(case.memo.once(check_pages_with, compiled(case.config.tables), claim, shown(case, stated), stances))


def judge_claim(case: Investigation, reading: ClaimReading) -> ClaimJudgement:
    """Return the judgement of one claim. If a critic should have read the pages and did not, it is at most likely."""
    pages = check_claim_pages(case, reading.claim, reading.stances)
    reader = Reader(
        by_words=reading.stances is None,
        critic=reading.critic if reading.stances is not None else None,
        measured=None,
        partly_refuted=False,
        unread=reading.stances is None and bool(reading.unread),
        threshold=case.config.search_multi_source_threshold,
    )
    judgement = judge_evidence_with(compiled(case.config.tables), claim_as(case, reading.claim), pages, reader)
    return ClaimJudgement(reading.claim, judgement, pages)


def titles_as_claims(case: Investigation) -> tuple[FoundClaim, ...]:
    """Return the titles of the best pages as claims, for an investigation whose pages were not read."""
    best = sorted(references_so_far(case), key=lambda r: (not r.official, not r.independent, r.reference_number))
    titles = ((cite_only(one_line(r.title, 300), None), r.reference_number) for r in best[:MAX_SHOWN])
    return tuple(FoundClaim(claim=title, told_by=(number,)) for title, number in titles if title)


def _read_by_words(
    claim: Claim, references: tuple[SearchReference, ...], snapshot: Snapshot
) -> tuple[SearchReference, ...]:
    # The references were read for the subject. For each claim they are read again, from their stored passages.
    results = [
        SearchResult(
            title=r.title,
            url=r.url,
            domain=host_of(r.url) or r.registrable_domain,
            snippet=r.passage or r.snippet,
            score=r.relevance_score,
            published_at=r.published_at,
            provider=r.source_tool,
            content_complete=r.content_complete,
        )
        for r in references
    ]
    numbers = {r.url: r.reference_number for r in references}
    judged = assess(claim, results, query="", snapshot=snapshot)
    return tuple(replace(r, reference_number=numbers[r.url]) for r in judged.references)
