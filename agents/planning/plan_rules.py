"""The planning rules, in the order in which they apply, and the count of claims in a news text. If no rule applies, a model decides."""

from __future__ import annotations

import re
from typing import Literal

from agents.core.inquiry import Inquiry
from agents.core.model_calls import bounded
from agents.evidence.compiled import entities_in
from agents.evidence.news_claim import claim_of
from agents.planning.rounds import findings_so_far, has_enough_evidence, rounds_left
from agents.planning.tools import TOOLS, offered_tools
from agents.text.matching import units
from schemas.config import Tables

NEVER_SEARCH = frozenset({"macro", "governance", "airdrop", "celebrity"})
FORCE_SEARCH = frozenset({"hack", "regulation", "partnership"})
NUMERIC = frozenset({"depeg", "liquidation"})
"""Events that figures show sooner than news. The first round reads price and on-chain data, if switched on."""
NUMERIC_TOOLS = ("price_check", "onchain_check")
DecidedBy = Literal["never_search", "force_search", "evidence_there", "rounds_used", "disabled", "second_look", "model"]
KeywordsFrom = Literal["model", "query_builder", "fallback", "none"]
WHY_NOTHING: dict[DecidedBy, str] = {
    "disabled": "every tool that could bring evidence is switched off",
    "rounds_used": "the rounds of this case are used up",
    "never_search": "news of this type is never searched for",
    "evidence_there": "independent sources agree already",
}


def decided_by(case: Inquiry) -> DecidedBy:
    """Return the first rule that applies, or ``model``."""
    tools, kind = offered_tools(case), case.about.event_type
    if not any(TOOLS[name].reads in ("evidence", "page", "figures") for name in tools):
        return "disabled"
    if not rounds_left(case):
        return "rounds_used"
    if kind in NEVER_SEARCH and not _denies(case):
        return "never_search"
    if _is_forced(case) and not case.plans and "search" in tools:
        return "force_search"
    return "evidence_there" if case.searches and has_enough_evidence(case, findings_so_far(case)) else "model"


def needed_tools(case: Inquiry) -> tuple[str, ...]:
    """Return the offered tools that this plan always uses, whatever a model chooses."""
    first = not case.plans
    forced = ("search",) if first and _is_forced(case) else ()
    numbers = NUMERIC_TOOLS if first and case.about.event_type in NUMERIC else ()
    return tuple(name for name in offered_tools(case) if name in forced or name in numbers)


def _is_forced(case: Inquiry) -> bool:
    # A hack reported by an unlisted source is searched for only if the model decides so: anybody can invent such news.
    return (case.has_listed_source and case.about.event_type in FORCE_SEARCH) or _denies(case)


def _denies(case: Inquiry) -> bool:
    """Return whether the news denies or corrects. It is searched for whatever its type, since earlier signals may depend on it."""
    return claim_of(case).modality in {"denied", "corrected"}


COMPLEX_FROM = 3
"""Claims from which a case is complex. Two are mostly a fact and its circumstance, which one query covers."""
MAX_CLAIMS = 5
_READ = 3_000
"""Characters of the news in which claims are counted."""
_LEAST_UNITS = 6
"""Minimum words, or Chinese characters, of a sentence that can be true or false on its own."""
_END = re.compile(r"[。!?!?;;\n]+|(?<=[\w)%\"'”])\.\s+(?=[A-Z\"'“$])")


def claims_in(text: str, tables: Tables) -> tuple[str, ...]:
    """Return the checkable sentences: those with a figure or a name from the tables.

    At most ``MAX_CLAIMS``, in the text's order, each once.
    """
    sentences = (" ".join(part.split()).rstrip(".") for part in _END.split(bounded(text, _READ)))
    claims = (s for s in sentences if len(units(s)) >= _LEAST_UNITS and (_has_figure(s) or entities_in(s, tables)))
    return tuple(dict.fromkeys(claims))[:MAX_CLAIMS]


def claim_count(case: Inquiry) -> int:
    """Return the number of claims in the case's news, at least 1."""
    return max(1, len(claims_in(case.text, case.config.tables)))


def is_complex(case: Inquiry) -> bool:
    """Return whether a plan may search claim by claim."""
    return claim_count(case) >= COMPLEX_FROM


def _has_figure(sentence: str) -> bool:
    return any(c.isdigit() for c in sentence)
