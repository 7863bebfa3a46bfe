"""Counts independent sources: one per owner, one per text, and never the claimant's own pages."""

from __future__ import annotations

from agents.evidence.pages import Judge, JudgedPage


def mark_independent(judge: Judge, pages: list[JudgedPage]) -> None:
    """Set ``independent`` on the first counted page of each owner. Quality control has already removed duplicates."""
    counted: set[str] = set()
    for page in pages:
        of_the_news = page.address in judge.source_addresses or page.owner in judge.source_owners
        if page.own_page or of_the_news or page.owner in counted:
            continue
        counted.add(page.owner)
        page.independent = True
