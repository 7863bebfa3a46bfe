"""The news that an investigation of a watch publishes: new, testable claims, verified like all news. Pure."""

from __future__ import annotations

from agents.investigation.changes import detect_changes
from agents.investigation.investigation import Investigation
from agents.investigation.writing import Draft
from schemas.effects import PublishNews
from schemas.ids import normalise_text, uuid5
from schemas.news import News
from schemas.research_events import BriefClaim
from schemas.watches import source_of

MAX_ANNOUNCED = 3
"""Maximum news items of one investigation. Each is a case with searches of its own."""


def announced(case: Investigation, draft: Draft) -> tuple[PublishNews, ...]:
    """Return a news item for each claim that is not in the previous brief and that a page states in checked words.

    None without a watch, and none for a watch's first investigation, which has no previous brief. The pages that state the
    claim are its ``origins``, so other pages must verify it.
    """
    previous = case.framed.previous if case.framed else None
    if case.asked.watch is None or previous is None:
        return ()
    changes = detect_changes(draft.claims, draft.references, previous)
    new = [draft.claims[c.claim] for c in changes if c.kind == "new_claim" and c.testable]
    urls = {r.number: r.url for r in draft.references}
    return tuple(PublishNews(news=_news(case, case.asked.watch, claim, urls)) for claim in new[:MAX_ANNOUNCED])


def _news(case: Investigation, watch: str, claim: BriefClaim, urls: dict[int, str]) -> News:
    return News(
        source=source_of(case.asked.subject),
        external_id=uuid5("watch_claim", watch, normalise_text(claim.claim)),
        text=claim.claim,
        published_at=case.as_of,
        received_at=case.as_of,
        origins=tuple(urls[e.number] for e in claim.evidence),
        extra={"watch": watch, "investigation": case.case_id},
    )
