"""Independent sources: once per registrable domain, once per text, and never the claimant's own pages."""

from __future__ import annotations

from agents.evidence.pages import Judge, JudgedPage


def mark_independent(judge: Judge, pages: list[JudgedPage]) -> None:
    """Set ``independent`` on the page that counts for its domain. Quality control has removed copies."""
    counted: set[str] = set()
    for page in pages:
        if page.own_page or page.address == judge.source_address or page.domain in counted:
            continue
        counted.add(page.domain)
        page.independent = True
