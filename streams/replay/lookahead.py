"""Look-ahead guard: steps do not see information from after the case, and it is counted.

The evidence rules themselves refuse later evidence (``future_evidence``), so it is only counted here. Memories, earlier
claims and market figures from after the case are removed from the reply. The ports of the live pipeline return none of
them, so an honest recording passes through unchanged.
"""

from __future__ import annotations

from datetime import datetime

import msgspec
from msgspec.structs import replace

from schemas.calls import Call
from schemas.effects import ConcernedReply, MarketReply, PageReply, RecallReply, SearchReply
from schemas.signals import Signal


class LookAhead(msgspec.Struct, frozen=True):
    """Number of refused pieces from after the case: a lower bound. ``undated`` results and pages may be from after it, and are used."""

    evidence: int = 0
    memory: int = 0
    prices: int = 0
    undated: int = 0

    def __add__(self, other: LookAhead) -> LookAhead:
        return LookAhead(
            self.evidence + other.evidence,
            self.memory + other.memory,
            self.prices + other.prices,
            self.undated + other.undated,
        )


NOTHING = LookAhead()


def guarded(calls: tuple[Call, ...], as_of: datetime) -> tuple[tuple[Call, ...], LookAhead]:
    """Return the calls without information later than ``as_of``, and the number removed; the same tuple if none was."""
    seen = [_guarded(call, as_of) for call in calls]
    evidence = sum((more for _, more in seen if more is not NOTHING), NOTHING)
    untouched = all(known is call for (known, _), call in zip(seen, calls, strict=True))
    return calls if untouched else tuple(known for known, _ in seen), evidence


def _guarded(call: Call, as_of: datetime) -> tuple[Call, LookAhead]:
    match call.reply:
        case SearchReply(results=results):
            late = sum(1 for r in results if r.published_at is not None and r.published_at > as_of)
            undated = sum(1 for r in results if r.published_at is None)
            return call, LookAhead(evidence=late, undated=undated) if late or undated else NOTHING
        case PageReply(page=page):
            if page.published_at is None:
                return call, LookAhead(undated=1)
            return call, LookAhead(evidence=1) if page.published_at > as_of else NOTHING
        case RecallReply(entries=entries) as recalled:
            known = tuple(e for e in entries if e.decided_at < as_of)
            if len(known) < len(entries):
                return replace(call, reply=replace(recalled, entries=known)), LookAhead(
                    memory=len(entries) - len(known)
                )
        case ConcernedReply(claims=claims) as concerned:
            then = tuple(c for c in claims if c.as_of <= as_of)
            if len(then) < len(claims):
                return replace(call, reply=replace(concerned, claims=then)), LookAhead(memory=len(claims) - len(then))
        case MarketReply(values=values) as market:
            seen = tuple(v for v in values if v.observed_at <= as_of)
            if len(seen) < len(values):
                return replace(call, reply=replace(market, values=seen)), LookAhead(prices=len(values) - len(seen))
        case _:
            pass
    return call, NOTHING


def future_evidence(signal: Signal | None, as_of: datetime) -> tuple[str, ...]:
    """Return the addresses of evidence that the signal uses although it was published after the case."""
    if signal is None:
        return ()
    return tuple(e.url for e in signal.evidence if e.published_at is not None and e.published_at > as_of)
