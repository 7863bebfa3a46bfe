"""Which failures of a round's searches are worth another attempt, within the time of the path."""

from __future__ import annotations

from datetime import datetime, timedelta

from msgspec.structs import replace

from agents.core.failures import failed
from agents.core.inquiry import Inquiry
from agents.planning.providers import ENOUGH, may_ask_again
from schemas.effects import Failure
from schemas.events import ProviderOutcome

SEARCH = "search"


def why_ask_again(case: Inquiry, outcomes: tuple[ProviderOutcome, ...], *, now: datetime) -> Failure | None:
    """Return the failure for which the search step is tried again; None: it goes on with what it has. ``now`` is UTC.

    The step asks again only for what failed, and not before the first of the providers is back.
    """
    passing, why = _passing(case, outcomes)
    if not passing:
        return None
    soonest = min(passing, key=lambda f: f.retry_after_s or 0.0)
    retry_at = failed(case, SEARCH, soonest, now=now).retry_at
    # A search that took too long may do so again, and that has to end before the path does.
    took = now - case.head_at if soonest.kind == "timeout" and case.config.search_retries is not None else timedelta()
    if retry_at is None or retry_at + took >= case.deep_deadline:
        return None
    return replace(soonest, message=f"{why}: {soonest.message}")


def _passing(case: Inquiry, outcomes: tuple[ProviderOutcome, ...]) -> tuple[list[Failure], str]:
    again = may_ask_again(case)
    sought = [o for o in outcomes if o.topic != "official"]
    failures = [o.failure for o in sought if o.failure is not None]
    if failures and len(failures) == len(sought):
        passing = [f for f in failures if f.retryable and (f.kind != "timeout" or again)]
        return passing, "every search provider failed"
    if case.config.search_retries is None or not again:
        return [], ""
    # Others answered. What took too long is asked again where they gave little, and on the parties' own domains.
    few = sum(o.hits for o in outcomes) < ENOUGH
    late = [o.failure for o in outcomes if o.failure is not None and (few or o.topic == "official")]
    return [f for f in late if f.kind == "timeout"], "a search took too long"
