"""Which rule of planning applies, in the order of the design; only where none does, a model decides."""

from __future__ import annotations

from typing import Literal

from agents.case import Case
from agents.verification.plan_tools import enabled_tools
from agents.verification.rounds import evidence_is_there, findings_so_far, rounds_left

NEVER_SEARCH = frozenset({"macro", "governance", "airdrop", "celebrity"})
FORCE_SEARCH = frozenset({"hack", "regulation", "partnership"})
DecidedBy = Literal["never_search", "force_search", "evidence_there", "rounds_used", "disabled", "model"]
KeywordsFrom = Literal["model", "query_builder", "fallback", "none"]
WHY_NOTHING: dict[DecidedBy, str] = {
    "disabled": "every tool is switched off",
    "rounds_used": "the rounds of this case are used up",
    "never_search": "news of this type is never searched for",
    "evidence_there": "independent sources agree already",
}


def decided_by(case: Case) -> DecidedBy:
    """Return the first rule that applies; ``model`` where none does."""
    tools, kind = enabled_tools(case.config), case.draft.event_type
    if not tools:
        return "disabled"
    if not rounds_left(case):
        return "rounds_used"
    if kind in NEVER_SEARCH:
        return "never_search"
    if kind in FORCE_SEARCH and not case.plans and "search" in tools:
        return "force_search"
    return "evidence_there" if evidence_is_there(findings_so_far(case)) else "model"
