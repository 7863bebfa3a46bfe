"""The state of the search rounds of the deep path: findings so far, failed searches, rounds left."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from msgspec.structs import replace

from agents.core.case import Case
from agents.core.inquiry import Inquiry
from agents.core.step import On
from agents.evidence.findings import assess
from agents.evidence.news_claim import claim_of
from agents.evidence.quality import weak_results
from agents.planning.providers import can_search
from agents.text.injection import steers_model
from schemas.events import (
    CaseTriaged,
    KeywordsExpanded,
    PagesScraped,
    ProviderOutcome,
    SearchCompleted,
    ToolPlanned,
)
from schemas.evidence import Findings, Page, SearchReference, SearchResult
from schemas.signals import Draft, StatedClaim

ROUNDS_ENDED = tuple(
    On(event, route="critique") for event in (ToolPlanned, SearchCompleted, PagesScraped, KeywordsExpanded)
)
"""The heads of a step that follows the last round, however that round ended."""
MAX_PAGES = 3
"""Maximum pages opened in one round. The best pages have nearly all the evidence, and each page costs seconds."""


def findings_so_far(case: Inquiry) -> Findings:
    """Return the findings of all rounds, with the texts of opened pages; empty findings before the first search."""
    known = _known(case)
    if known is not None:
        return known
    return assess(claim_of(case), (), query="", snapshot=case.config, memo=case.memo)


def references_so_far(case: Inquiry) -> tuple[SearchReference, ...]:
    """Return the references of :func:`findings_so_far`; none before the first search, without judging anything."""
    known = _known(case)
    return () if known is None else known.references


def _known(case: Inquiry) -> Findings | None:
    if not case.searches:
        return None
    last = case.searches[-1]
    opened = [s.findings for s in case.scrapes if s.round == last.round and s.findings is not None]
    return opened[-1] if opened else last.findings


def rejudge_findings(
    case: Inquiry,
    *,
    query: str,
    answers: Sequence[Sequence[SearchResult]] = (),
    opened: Sequence[Page] = (),
    searched_at: datetime | None = None,
) -> Findings:
    """Return the findings of all rounds with new search results, reply by reply, or new texts of opened pages.

    A stance read from a page's whole text in an earlier round is kept. Dropped pages stay dropped, and their flags stay set.
    """
    earlier = _known(case)
    known = earlier.references if earlier else ()
    judged = assess(
        claim_of(case),
        tuple(hit for answer in answers for hit in answer),
        query=query,
        snapshot=case.config,
        earlier=known,
        opened=opened,
        searched_at=searched_at,
        weak=weak_results(answers, case.config),
        memo=case.memo,
    )
    if earlier is None:
        return judged
    kept = {r.url for r in judged.references}
    dropped = {(d.url, d.reason): d for d in (*earlier.dropped, *judged.dropped) if d.url not in kept}
    flags = tuple(dict.fromkeys((*earlier.risk_flags, *judged.risk_flags)))
    return replace(judged, dropped=tuple(dropped.values()), risk_flags=flags)


def has_enough_evidence(case: Inquiry, findings: Findings) -> bool:
    """Return whether there are enough pages about the claim, none of which contradicts the others."""
    return not case.open_ended and findings.multi_source and not findings.conflict


def rounds_left(case: Inquiry, *, ahead: int = 0) -> bool:
    """Return whether another round of planning and searching fits the limits of the case, ``ahead`` steps from its head."""
    limits = case.limits
    return (
        len(case.plans) < limits.rounds
        and case.steps_done + ahead < limits.steps
        and searches_left(case) > 0
        and can_search(case)
    )


def searches_left(case: Inquiry) -> int:
    """Return the number of searches left within the limits of the case. Denied searches do not count."""
    outcomes = (o for s in case.searches for o in s.outcomes)
    return case.limits.searches - sum(o.failure is None or o.failure.kind != "budget" for o in outcomes)


def may_expand(case: Inquiry, findings: Findings) -> bool:
    """Return whether to look for new keywords: there are references, open questions, and a round left to use them."""
    return (
        case.config.tool_expand_enabled
        and bool(findings.references)
        and not has_enough_evidence(case, findings)
        and rounds_left(case, ahead=2)
    )


def pages_worth_opening(case: Inquiry, findings: Findings) -> tuple[str, ...]:
    """Return the addresses of the best unopened references: official ones first, undated ones before dated ones.

    An undated page cannot confirm alone, and the opened page mostly has a date.
    """
    opened = {p.url for p in case.opened_pages}
    best = sorted(
        findings.references,
        key=lambda r: (
            not r.official,
            r.official and r.published_at is not None,
            not r.independent,
            r.reference_number,
        ),
    )
    return tuple(r.url for r in best if r.url not in opened and is_web(r.url))[:MAX_PAGES]


def is_web(url: str) -> bool:
    """Return whether an address can be opened. A document of the desk's own has none on the web, and its text is there already."""
    return url.startswith(("http://", "https://"))


def skipped_flags(rounds: Iterable[tuple[ProviderOutcome, ...]]) -> tuple[str, ...]:
    """Return ``search_skipped:<kind>`` for each kind of failure that left a whole round without results."""
    kinds = (_why_unanswered(outcomes) for outcomes in rounds)
    return tuple(dict.fromkeys(f"search_skipped:{k}" for k in kinds if k is not None))


def case_with_draft(case: Case, draft: Draft, claim: StatedClaim | None) -> Case:
    """Return the case as if triage had stated this draft and claim. A degraded case may have none of its own."""
    triaged = CaseTriaged(
        draft=draft,
        route="single_pass",
        gate_reason="",
        rollout_bucket=0.0,
        injection_suspected=case.memo.once(steers_model, case.news.text),
        claim=claim,
    )
    return replace(case, triaged=triaged)


def _why_unanswered(outcomes: tuple[ProviderOutcome, ...]) -> str | None:
    sought = [o for o in outcomes if o.topic != "official"]
    failures = [o.failure for o in sought if o.failure is not None]
    return failures[-1].kind if sought and len(failures) == len(sought) else None
