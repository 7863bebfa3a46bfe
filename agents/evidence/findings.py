"""The findings from search results: usable pages, independent and official sources, and stances by the word rules.

The order is: drop unusable pages (dated after the case, imitated hosts, prompt injection), quality control,
independence, official pages. Plain counts (number of results, any official word) are kept for comparison.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime

from agents.core.memo import Memo
from agents.evidence.claim import Claim
from agents.evidence.compiled import Compiled, compiled
from agents.evidence.pages import SNIPPET, Judge, JudgedPage, Material, utc
from agents.evidence.quality import control_quality
from agents.evidence.verdict import STALE_AFTER
from agents.text.hosts import canonical_url, host_of
from agents.text.injection import steers_model
from schemas.config import Snapshot
from schemas.evidence import DroppedResult, Findings, Page, SearchReference, SearchResult, Sentiment

_MULTI_BONUS, _OFFICIAL_BONUS = 0.10, 0.15
DROP_FLAGS = ("future_evidence", "spoofed_source", "injection_suspected")
"""Flags of dropped results. They say nothing about the news itself."""


def assess(
    claim: Claim,
    results: Sequence[SearchResult],
    *,
    query: str,
    snapshot: Snapshot,
    earlier: Sequence[SearchReference] = (),
    opened: Sequence[Page] = (),
    searched_at: datetime | None = None,
    weak: Collection[SearchResult] = (),
    memo: Memo | None = None,
) -> Findings:
    """Judge the results of all searches so far as evidence for or against the claim.

    ``earlier`` are the references of earlier rounds; they keep the stance that was read from their whole texts.
    ``opened`` are the main texts of pages among them, read instead of the snippets. ``searched_at`` (UTC): when the results
    were found. ``weak``: results too far below the best score of their reply. ``memo``: the case's memo; its rounds share
    the parsed claim and recurring texts.

    References are numbered from 1, best first. Stances are those of the word rules, for planning and for cases without a
    critic; :mod:`agents.evidence.witnesses` decides what the signal says. ``multi_source``: the number of independent pages
    about the claim (``related_sources``), whatever their stance, reaches the snapshot's threshold.
    """
    tables = compiled(snapshot.tables)
    dropped: list[DroppedResult] = []
    flags: set[str] = set()
    pages: list[JudgedPage] = []
    materials = [*_earlier(earlier, opened), *(Material(r) for r in results)]
    known = Memo() if memo is None else memo
    if materials:  # parsing the claim is only worth it if there are pages
        judge = known.once(Judge, claim, tables)
        pages = _allowed(judge, claim, materials, dropped, flags, known)
        flags |= judge.void_compromised(pages)
        pages = control_quality(pages, snapshot, dropped, weak)
        mark_independent(judge, pages)
    if known.once(steers_model, claim.text):
        flags.add("injection_suspected")
    return _findings(
        [m.result for m in materials],
        pages,
        dropped=tuple(dropped),
        flags=tuple(f for f in (*DROP_FLAGS, "compromised_account") if f in flags),
        query=query,
        threshold=snapshot.search_multi_source_threshold,
        tables=tables,
        searched_at=searched_at,
    )


def dated_later(findings: Findings | None) -> int:
    """Return the number of pages dropped because they are dated after the news. They may well report it."""
    return sum(d.reason == "future_evidence" for d in findings.dropped) if findings is not None else 0


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
    judge: Judge,
    claim: Claim,
    materials: Sequence[Material],
    dropped: list[DroppedResult],
    flags: set[str],
    memo: Memo,
) -> list[JudgedPage]:
    pages: list[JudgedPage] = []
    for material in materials:
        result, published = material.result, material.published
        # An established outlet that quotes a prompt injection reports it; on any other page it is an attack.
        steers = memo.once(steers_model, f"{result.title}\n{material.text}")
        flags |= {"injection_suspected"} if steers else set()
        reasons = {
            "future_evidence": published is not None and published > utc(claim.as_of),
            "spoofed_source": judge.imitates(result.url),
            "injection_suspected": steers and not judge.is_established(result.url),
        }
        broken = [name for name in DROP_FLAGS if reasons[name]]
        flags.update(broken)
        if broken:
            dropped.append(DroppedResult(url=result.url, title=result.title, reason=broken[0]))
        else:
            pages.append(judge.page(material, len(pages)))
    return pages


def _findings(
    results: Sequence[SearchResult],
    pages: list[JudgedPage],
    *,
    dropped: tuple[DroppedResult, ...],
    flags: tuple[str, ...],
    query: str,
    threshold: int,
    tables: Compiled,
    searched_at: datetime | None,
) -> Findings:
    supporting = [p for p in pages if p.stance == "supports"]
    related = sum(p.independent and p.related for p in pages)
    official = any(p.official for p in supporting)
    multi = related >= threshold
    denied = any(p.stance == "denies" for p in pages)
    relevance = sum(min(1.0, max(0.0, p.result.score)) for p in pages) / len(pages) if pages else 0.0
    bonus = (_MULTI_BONUS if multi else 0.0) + (_OFFICIAL_BONUS if official else 0.0)
    texts = (f"{r.title} {r.snippet}".casefold() for r in results)
    return Findings(
        keyword=query,
        references=tuple(_reference(n, p, query, searched_at) for n, p in enumerate(pages, start=1)),
        dropped=dropped,
        independent_sources=sum(p.independent for p in pages),
        related_sources=related,
        multi_source=multi,
        official_confirmed=official,
        denied=denied,
        conflict=denied and any(p.related and p.stance != "denies" for p in pages),
        stale=bool(supporting) and all(p.age is not None and p.age > STALE_AFTER for p in supporting),
        sentiment=_sentiment([p.text.casefold() for p in pages], tables.moods),
        source_count=len(pages),
        confidence=round(min(1.0, relevance + bonus), 4) if pages else 0.0,
        triggered=multi and official,
        risk_flags=flags,
        plain_source_count=len(results),
        plain_official_confirmed=any(w in t for t in texts for w in tables.official_words),
        quality_controlled=True,
        precise_query=query,
    )


def _reference(number: int, page: JudgedPage, query: str, searched_at: datetime | None) -> SearchReference:
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
        published_at=page.published,
        registrable_domain=page.domain,
        independent=page.independent,
        official=page.official,
        stance=page.stance,
        carries=page.related,
        passage=page.passage,
        owner=page.owner,
        speaker=page.speaker,
        own_page=page.own_page,
        timestamp=searched_at if page.earlier is None else page.earlier.timestamp,
    )


def _sentiment(texts: list[str], moods: tuple[tuple[str, ...], ...]) -> Sentiment:
    counts = [sum(any(w in t for w in words) for t in texts) for words in moods]
    total = sum(counts)
    if total == 0:
        return Sentiment(panic=0.33, neutral=0.34, optimistic=0.33)
    panic, optimistic = round(counts[0] / total, 4), round(counts[2] / total, 4)
    return Sentiment(panic=panic, neutral=round(1.0 - panic - optimistic, 4), optimistic=optimistic)


def mark_independent(judge: Judge, pages: list[JudgedPage]) -> None:
    """Set ``independent`` on the first counted page of each owner. Quality control has already removed duplicates."""
    counted: set[str] = set()
    for page in pages:
        of_the_news = page.address in judge.source_addresses or page.owner in judge.source_owners
        if page.own_page or of_the_news or page.owner in counted:
            continue
        counted.add(page.owner)
        page.independent = True
