"""The news that an investigation of a watch opens: what is new and can be tested, to be verified as all news are. Pure."""

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
"""News of one investigation: each is a case of its own, with searches of its own."""


def announced(case: Investigation, draft: Draft) -> tuple[PublishNews, ...]:
    """Return a news item for each claim that the previous brief did not have and that a page tells in checked words.

    None where no watch asked, and none of a watch's first investigation, which has nothing to compare with. The pages that
    tell the claim are its ``origins``, so that what is verified rests on others.
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
