"""Builds the findings from search results: usable pages, independent and official sources, and stances.

The order is: drop unusable pages (from after the case, imitated hosts, prompt injection), quality control,
independence, official pages. The plain counts (how many results, does any hold an official word) are kept beside these,
for comparison.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from agents.evidence.claim import Claim
from agents.evidence.compiled import compiled
from agents.evidence.hosts import canonical_url, host_of
from agents.evidence.independence import mark_independent
from agents.evidence.pages import SNIPPET, Judge, JudgedPage, Material, utc
from agents.evidence.quality import controlled
from agents.text.injection import steers_model
from schemas.config import Snapshot
from schemas.evidence import DroppedResult, Findings, Page, SearchReference, SearchResult, Sentiment

STALE_AFTER = timedelta(days=30)
_MULTI_BONUS, _OFFICIAL_BONUS = 0.10, 0.15
_DROP_FLAGS = ("future_evidence", "spoofed_source", "injection_suspected")


def assess(
    claim: Claim,
    results: Sequence[SearchResult],
    *,
    query: str,
    snapshot: Snapshot,
    earlier: Sequence[SearchReference] = (),
    opened: Sequence[Page] = (),
) -> Findings:
    """Judge the results of all searches so far as evidence for or against the claim.

    ``earlier`` are the references of earlier rounds; they keep the stance that was read from their whole texts.
    ``opened`` are the main texts of pages among them, which are read in place of the snippets.

    References are numbered from 1, best first. ``independent_sources`` counts usable pages of any stance.
    ``multi_source`` compares with the snapshot's threshold: with an official confirmation it counts all independent
    pages, without one only those that support, since a hedge gives no support. A hedged page that still tells the story
    conflicts with a denial (``conflict``).
    """
    judge = Judge(claim, compiled(snapshot.tables), rules=snapshot.rules)
    dropped: list[DroppedResult] = []
    flags: set[str] = set()
    materials = [*_earlier(earlier, opened), *(Material(r) for r in results)]
    pages = _allowed(judge, claim, materials, dropped, flags)
    if judge.rules > 1:
        flags |= judge.void_compromised(pages)
    pages = controlled(pages, snapshot, dropped)
    mark_independent(judge, pages)
    if steers_model(claim.text):
        flags.add("injection_suspected")
    return _findings(
        claim,
        [m.result for m in materials],
        pages,
        dropped=tuple(dropped),
        flags=tuple(f for f in _DROP_FLAGS if f in flags),
        query=query,
        threshold=snapshot.search_multi_source_threshold,
        judge=judge,
    )


def _earlier(references: Sequence[SearchReference], opened: Sequence[Page]) -> list[Material]:
    texts = {canonical_url(p.url): p for p in opened if p.text.strip()}
    return [
        Material(
            SearchResult(
                title=r.title,
                url=r.url,
                domain=host_of(r.url) or r.registrable_domain,
                snippet=r.snippet,
                score=r.relevance_score,
                published_at=r.published_at,
                provider=r.source_tool,
                content_complete=r.content_complete,
            ),
            r,
            texts.get(canonical_url(r.url)),
        )
        for r in references
    ]


def _allowed(
    judge: Judge, claim: Claim, materials: Sequence[Material], dropped: list[DroppedResult], flags: set[str]
) -> list[JudgedPage]:
    pages = []
    for material in materials:
        result, published = material.result, material.published
        # An established outlet that quotes an attack reports it; any other page that steers is one.
        established = judge.rules > 1 and judge.is_established(result.url)
        reasons = {
            "future_evidence": published is not None and published > utc(claim.as_of),
            "spoofed_source": judge.imitates(result.url),
            "injection_suspected": not established and steers_model(f"{result.title}\n{material.text}"),
        }
        broken = [name for name in _DROP_FLAGS if reasons[name]]
        flags.update(broken)
        if broken:
            dropped.append(DroppedResult(url=result.url, title=result.title, reason=broken[0]))
        else:
            pages.append(judge.page(material))
    return pages


def _findings(
    claim: Claim,
    results: Sequence[SearchResult],
    pages: list[JudgedPage],
    *,
    dropped: tuple[DroppedResult, ...],
    flags: tuple[str, ...],
    query: str,
    threshold: int,
    judge: Judge,
) -> Findings:
    supporting = [p for p in pages if p.reading.stance == "supports"]
    independent = sum(p.independent for p in pages)
    official = any(p.official for p in supporting)
    backing = independent if official else sum(p.independent for p in supporting)
    multi = backing >= threshold
    denied = any(p.reading.stance == "denies" for p in pages)
    relevance = sum(min(1.0, max(0.0, p.result.score)) for p in pages) / len(pages) if pages else 0.0
    bonus = (_MULTI_BONUS if multi else 0.0) + (_OFFICIAL_BONUS if official else 0.0)
    texts = (f"{r.title} {r.snippet}".casefold() for r in results)
    return Findings(
        keyword=query,
        references=tuple(_reference(n, p, claim, query, judge) for n, p in enumerate(pages, start=1)),
        dropped=dropped,
        independent_sources=independent,
        multi_source=multi,
        official_confirmed=official,
        denied=denied,
        conflict=denied and any(p.reading.carries for p in pages if p.reading.stance in {"supports", "hedges"}),
        stale=bool(supporting) and all(p.age is not None and p.age > STALE_AFTER for p in supporting),
        sentiment=_sentiment([p.text.casefold() for p in pages], judge.moods),
        source_count=len(pages),
        confidence=round(min(1.0, relevance + bonus), 4) if pages else 0.0,
        triggered=multi and official,
        risk_flags=flags,
        plain_source_count=len(results),
        plain_official_confirmed=any(w in t for t in texts for w in judge.official_words),
        quality_controlled=True,
        precise_query=query,
    )


def _reference(number: int, page: JudgedPage, claim: Claim, query: str, judge: Judge) -> SearchReference:
    result = page.result
    return SearchReference(
        reference_number=number,
        source_tool=result.provider or "search",
        title=result.title,
        url=result.url,
        snippet=result.snippet[:SNIPPET],
        relevance_score=round(min(1.0, max(0.0, result.score)), 4),
        quality_score=page.quality,
        content_complete=result.content_complete,
        source_credibility=page.credibility,
        query=query,
        published_at=result.published_at,
        registrable_domain=page.domain,
        independent=page.independent,
        official=page.official,
        stance=page.reading.stance,
        carries=page.reading.carries,
        passage=page.passage,
        owner=page.owner,
        speaker=page.speaker,
        own_page=page.own_page and judge.rules > 1,
        timestamp=claim.as_of,
    )


def _sentiment(texts: list[str], moods: tuple[tuple[str, ...], ...]) -> Sentiment:
    counts = [sum(any(w in t for w in words) for t in texts) for words in moods]
    total = sum(counts)
    if total == 0:
        return Sentiment(panic=0.33, neutral=0.34, optimistic=0.33)
    panic, optimistic = round(counts[0] / total, 4), round(counts[2] / total, 4)
    return Sentiment(panic=panic, neutral=round(1.0 - panic - optimistic, 4), optimistic=optimistic)
