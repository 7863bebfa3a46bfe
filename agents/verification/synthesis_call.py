"""The call of the synthesis: the settled verdict with its range, and the quotes behind it, without the pages."""

from __future__ import annotations

from agents.core.case import Case
from agents.core.model_calls import ask_model, bounded, facts, keyword_parts, memory_parts, news_parts, stated_claim
from agents.evidence.witnesses import CheckedPage
from agents.judging import CaseJudgement
from agents.planning.tool_answers import tool_facts
from schemas.effects import CallModel, Part, Untrusted
from schemas.evidence import Findings
from schemas.signals import Draft

MAX_QUOTED = 400
"""Characters of one quote that the model is shown."""


def synthesis_call(case: Case, judged: CaseJudgement) -> CallModel:
    """Return the call for a case whose evidence was judged."""
    judgement = judged.judgement
    known = facts(
        verdict=judgement.verdict,
        lowest=judgement.low,
        highest=judgement.high,
        cap=judgement.cap,
        supporting_sources=judgement.supporting_sources,
        independent_sources=judgement.independent_sources,
        sentiment=_moods(judged.findings),
        draft=_figures(case.draft),
        **tool_facts(case),
    )
    memories = memory_parts(case.context.entries if case.context else ())
    return ask_model(
        case,
        "synthesize",
        (*news_parts(case), *stated_claim(case), *keyword_parts(case), known, *memories, *_quotes(judged.pages)),
        lowest=f"{judgement.low:+.2f}",
        highest=f"{judgement.high:+.2f}",
    )


def _quotes(pages: tuple[CheckedPage, ...]) -> tuple[Part, ...]:
    """Return the words of each page: the checked quote, or the title if there is none."""
    related = [page for page in pages if page.stance != "unrelated"]
    return tuple(
        Untrusted(
            f"quote {page.reference.reference_number}, {page.stance}",
            bounded((page.reading.quote if page.quoted and page.reading else None) or page.reference.title, MAX_QUOTED),
        )
        for page in related
    )


def _moods(findings: Findings | None) -> dict[str, float]:
    if findings is None:
        return {}
    mood = findings.sentiment
    return {"panic": mood.panic, "neutral": mood.neutral, "optimistic": mood.optimistic}


def _figures(draft: Draft) -> dict[str, str | float]:
    return {
        "action": draft.action,
        "direction": draft.direction,
        "strength": draft.strength,
        "timeframe": draft.timeframe,
        "confidence": draft.confidence,
    }
