"""Page quality: credibility by domain, timeliness, completeness, total score (VERIFICATION, "Quality control")."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import datetime

from agents.evidence.hosts import registrable_domain
from agents.text.matching import width
from schemas.evidence import Credibility, SearchResult

MIN_WIDTH = 50
"""Minimum width of a page's content, in columns."""
_POINTS: dict[Credibility, float] = {"high": 100.0, "medium": 70.0, "unknown": 60.0, "low": 40.0}
_FIVE_YEARS_H = 5 * 365.25 * 24
_UNDATED_POINTS = 75.0
"""Timeliness of a page without a date: that of a month-old one."""
_FULL_WIDTH = 240
"""Width from which a text counts as complete: about the two sentences that carry a news item."""


class CredibilityTable:
    """The credibility table by domain: exact domains, and patterns such as ``*.gov`` or ``*.gov.*``."""

    def __init__(self, table: Mapping[str, tuple[str, ...]]) -> None:
        self._exact: dict[str, Credibility] = {}
        self._suffixes: list[tuple[str, Credibility]] = []
        self._inner: list[tuple[str, Credibility]] = []
        levels: tuple[Credibility, ...] = ("high", "medium", "low")
        for level in levels:
            for entry in table.get(level, ()):
                if entry.endswith(".*"):
                    self._inner.append((entry[1:-1], level))
                elif entry.startswith("*."):
                    self._suffixes.append((entry[1:], level))
                else:
                    self._exact.setdefault(entry, level)

    def of(self, host: str, official: bool) -> Credibility:
        """Return the credibility of a host. Reserved names (``.example``) match no pattern: nobody vouches for them."""
        domain = registrable_domain(host)
        if official:
            return "high"
        known = self._exact.get(host) or self._exact.get(domain)
        if known or "." not in domain:
            return known or "unknown"
        for suffix, level in self._suffixes:
            if host.endswith(suffix):
                return level
        tail = host.rsplit(".", 1)[-1]
        for inner, level in self._inner:
            if len(tail) == 2 and host.endswith(f"{inner}{tail}"):
                return level
        return "unknown"

    def lists(self, host: str) -> bool:
        """Whether the table names this domain itself."""
        return host in self._exact or registrable_domain(host) in self._exact


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
