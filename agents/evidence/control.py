"""Quality control: relevance, content, duplicates, score, the best ten (VERIFICATION, "Quality control")."""

from __future__ import annotations

from agents.evidence.pages import JudgedPage
from agents.evidence.quality import MIN_WIDTH, quality_score
from agents.text.matching import width
from schemas.config import Snapshot
from schemas.evidence import DroppedResult


def controlled(pages: list[JudgedPage], snapshot: Snapshot, dropped: list[DroppedResult]) -> list[JudgedPage]:
    """Return the best pages with their scores, best first. Other pages are added to ``dropped`` with the reason."""

    def drop(page: JudgedPage, reason: str) -> None:
        dropped.append(DroppedResult(url=page.result.url, title=page.result.title, reason=reason))

    good: list[JudgedPage] = []
    for page in pages:
        if page.result.score < snapshot.quality_min_relevance:
            drop(page, "low_relevance")
        elif width(page.result.snippet.strip()[: 2 * MIN_WIDTH]) < MIN_WIDTH:
            drop(page, "too_short")
        else:
            good.append(page)
    kept: list[JudgedPage] = []
    # Of duplicates, keep the official page, then the page of the more trusted publisher, then the first.
    for page in sorted(good, key=lambda p: (not p.official_host, p.own_page, -p.trust, -p.result.score, p.order)):
        if any(_same_page(page, other) for other in kept):
            drop(page, "duplicate")
        else:
            kept.append(page)
    for page in kept:
        page.quality = quality_score(page.result, page.credibility, page.published, page.as_of)
    kept.sort(key=lambda p: (-p.quality, p.order))
    for page in kept[snapshot.quality_keep :]:
        drop(page, "beyond_best")
    return kept[: snapshot.quality_keep]


def _same_page(page: JudgedPage, other: JudgedPage) -> bool:
    if page.address == other.address:
        return True
    # A text and its negation share nearly all words but are never duplicates.
    if page.shape.singles != other.shape.singles and (page.reading.stance == "denies") != (
        other.reading.stance == "denies"
    ):
        return False
    if page.looks_like(other):
        return True
    return page.title == other.title and page.domain == other.domain
