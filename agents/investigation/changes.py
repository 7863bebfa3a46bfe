"""Changes since the previous brief of a subject, computed from both. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from agents.text.matching import fold_han, units
from schemas.evidence import PreviousBrief, PreviousClaim
from schemas.research_events import BriefClaim, BriefReference, Change

SAME_WORDS = 0.6
"""Shared words of two claims, as a share of all words of both, from which they are the same claim."""
SAME_PAGES_WORDS = 0.25
"""The same if both have a page in common: statements of one page need less similarity."""


def detect_changes(
    claims: Sequence[BriefClaim], references: Iterable[BriefReference], previous: PreviousBrief | None
) -> tuple[Change, ...]:
    """Return the changes since ``previous``, in the order of the claims; none without one.

    A change is a new claim, another verdict, or new pages about a known claim.
    """
    if previous is None:
        return ()
    urls = {r.number: r.url for r in references}
    known = frozenset(previous.urls)
    found = (_change(n, claim, urls, previous.claims, known) for n, claim in enumerate(claims))
    return tuple(change for change in found if change is not None)


def _change(
    place: int, claim: BriefClaim, urls: dict[int, str], earlier: tuple[PreviousClaim, ...], known: frozenset[str]
) -> Change | None:
    numbers = tuple(e.number for e in claim.evidence if e.number in urls)
    fresh = tuple(n for n in numbers if urls[n] not in known)
    before = _same(claim.claim, {urls[n] for n in numbers}, earlier)
    testable = any(e.quote for e in claim.evidence if e.stance in ("supports", "denies"))
    if before is None:
        return Change(kind="new_claim", claim=place, references=numbers, testable=testable) if numbers else None
    if before.verdict != claim.verdict:
        why = fresh or numbers
        return Change(
            kind="verdict_changed",
            claim=place,
            references=why,
            before=before.verdict,
            testable=testable and bool(fresh),
        )
    return Change(kind="new_page", claim=place, references=fresh, testable=False) if fresh else None


def _same(claim: str, urls: set[str], earlier: tuple[PreviousClaim, ...]) -> PreviousClaim | None:
    alike = [(_likeness(claim, e.claim), e) for e in earlier]
    close = [(share, e) for share, e in alike if share >= (SAME_WORDS if urls.isdisjoint(e.urls) else SAME_PAGES_WORDS)]
    return max(close, key=lambda one: one[0])[1] if close else None


def _likeness(one: str, other: str) -> float:
    a, b = frozenset(units(fold_han(one).casefold())), frozenset(units(fold_han(other).casefold()))
    return len(a & b) / len(a | b) if a and b else 0.0
