"""Quality control of search results: relevance, content, duplicates and a total score select the pages used as evidence."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime

from agents.evidence.pages import JudgedPage
from agents.text.matching import width
from schemas.config import Snapshot
from schemas.evidence import Credibility, DroppedResult, SearchResult

MIN_WIDTH = 50
"""Minimum width of a page's content, in columns, where the snapshot gives none."""
_POINTS: dict[Credibility, float] = {"high": 100.0, "medium": 70.0, "unknown": 60.0, "low": 40.0}
_FIVE_YEARS_H = 5 * 365.25 * 24
_UNDATED_POINTS = 75.0
"""Timeliness of a page without a date: that of a month-old one."""
_FULL_WIDTH = 240
"""Width from which a text counts as complete: about the two sentences that carry a news item."""


def weak_results(answers: Iterable[Sequence[SearchResult]], snapshot: Snapshot) -> frozenset[SearchResult]:
    """Return the results below the floor in ``quality_floors``: a share of the best score in the same reply.

    A provider's scores have no fixed scale across queries; within one reply they can be compared.
    """
    weak, strong = set[SearchResult](), set[SearchResult]()
    for answer in answers:
        best = max((r.score for r in answer), default=0.0)
        for result in answer:
            floor = snapshot.quality_floors.get(result.provider, 0.0) * best
            is_weak = result.provider in snapshot.quality_floors and (result.score < floor or result.score <= 0)
            (weak if is_weak else strong).add(result)
    return frozenset(weak - strong)


def control_quality(
    pages: list[JudgedPage],
    snapshot: Snapshot,
    dropped: list[DroppedResult],
    weak: Collection[SearchResult] = (),
) -> list[JudgedPage]:
    """Return the best pages with their scores, best first. The others are added to ``dropped`` with the reason.

    A page must not be ``weak`` (:func:`weak_results`) or, for a provider without a floor, below ``quality_min_relevance``.
    Its content must have the minimum width and must not duplicate a better page. The ``quality_keep`` best are kept.
    """

    def drop(page: JudgedPage, reason: str) -> None:
        dropped.append(DroppedResult(url=page.result.url, title=page.result.title, reason=reason))

    good: list[JudgedPage] = []
    for page in pages:
        provider, least = page.result.provider, snapshot.quality_widths.get(page.result.provider, MIN_WIDTH)
        below = provider not in snapshot.quality_floors and page.result.score < snapshot.quality_min_relevance
        if below or page.result in weak:
            drop(page, "low_relevance")
        elif width(page.result.snippet.strip()[: 2 * least]) < least:
            drop(page, "too_short")
        else:
            good.append(page)
    kept: list[JudgedPage] = []
    # Of duplicates, keep the official page, then that of the more trusted publisher, then the one of an earlier round, whose
    # whole text was read, then the first.
    for page in sorted(
        good, key=lambda p: (not p.official_host, p.own_page, -p.trust, p.earlier is None, -p.result.score, p.order)
    ):
        if any(_same_page(page, other, snapshot.quality_same_text) for other in kept):
            drop(page, "duplicate")
        else:
            kept.append(page)
    for page in kept:
        page.quality = quality_score(page.result, page.credibility, page.published, page.as_of)
    kept.sort(key=lambda p: (-p.quality, p.order))
    for page in kept[snapshot.quality_keep :]:
        drop(page, "beyond_best")
    return kept[: snapshot.quality_keep]


def _same_page(page: JudgedPage, other: JudgedPage, same: float) -> bool:
    if page.address == other.address:
        return True
    # A text and its negation share nearly all words but are never duplicates.
    if page.shape.singles != other.shape.singles and (page.stance == "denies") != (other.stance == "denies"):
        return False
    if page.looks_like(other, same):
        return True
    return page.title == other.title and page.domain == other.domain


def timeliness(published_at: datetime | None, as_of: datetime) -> float:
    """Return 60-100: 100 within the hour, falling with the logarithm of the age to 60 at five years (a day: 88)."""
    if published_at is None:
        return _UNDATED_POINTS
    hours = max(0.0, (as_of - published_at).total_seconds() / 3600)
    return max(60.0, 100.0 - 40.0 * math.log1p(hours) / math.log1p(_FIVE_YEARS_H))


def completeness(result: SearchResult) -> float:
    """Return 0-100: a full text with a title; a text that the provider cut loses a third."""
    points = (
        40.0
        + 50.0 * min(1.0, width(result.snippet.strip()[: 2 * _FULL_WIDTH]) / _FULL_WIDTH)
        + (10.0 if result.title.strip() else 0.0)
    )
    return points if result.content_complete else points * 2 / 3


def quality_score(
    result: SearchResult, credibility: Credibility, published_at: datetime | None, as_of: datetime
) -> float:
    """Return 30-100: 40 % relevance, 20 % timeliness, 20 % credibility, 20 % completeness, to 1 decimal."""
    raw = (
        40.0 * min(1.0, max(0.0, result.score))
        + 0.2 * timeliness(published_at, as_of)
        + 0.2 * _POINTS[credibility]
        + 0.2 * completeness(result)
    )
    return round(min(100.0, max(30.0, raw)), 1)
