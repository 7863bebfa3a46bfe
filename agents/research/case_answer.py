"""The answer from the pipeline's cases: a model says what they mean for the question, code tells them.

The model chooses the cases that are about the question and writes a sentence or three. Verdict, confidence, time and quotes
stand below as they were recorded, in the reader's language, so no model can change them. Without a model, or without a case,
code writes all of it.
"""

from __future__ import annotations

from agents.analysis.numbers import unsupported_numbers
from agents.analysis.words import paragraphs
from agents.core.answers import clamped, one_line
from agents.core.asking import bounded, facts
from agents.core.step import Asked
from agents.research.answers import CasesAnswer
from agents.research.asking import ask_agent, clipped_history, question_parts
from agents.research.bounds import BY_CODE, LEAST, MOST, NOTHING, UNSUPPORTED
from agents.research.case_words import case_told, lead_of, none_told, not_looked_up, searched_text
from agents.research.citations import cited_only, sources_of
from agents.research.turn import Turn
from schemas.effects import Failure, Untrusted
from schemas.evidence import FoundSignal
from schemas.research_events import AnswerGiven, AnswerMetadata

WRITER = "GeneralAnalysisAgent"
MAX_CASE_CHARACTERS = 2_500


def answer_from_cases(turn: Turn) -> Asked:
    """Return the writer's call, or the answer itself where there is no case to write of."""
    found = _found(turn)
    if not found:
        return cases_by_code(turn, None)
    known = facts(
        cases=[
            {
                "number": s.number,
                "verdict": s.verdict,
                "stage": s.stage,
                "asset": s.asset,
                "action": s.action,
                "confidence": s.confidence,
                "decided_at": f"{s.decided_at:%Y-%m-%d %H:%M}",
                "supporting_sources": s.supporting_sources,
                "names_matched": len(s.matched),
                "provider_mode": s.provider_mode,
                "pages": [{"stance": p.stance, "official": p.official} for p in s.pages],
            }
            for s in found
        ],
        names_asked_for=len(turn.routed.cases.names) if turn.routed and turn.routed.cases else 0,
    )
    told = (Untrusted(f"case {s.number}", bounded(searched_text(s), MAX_CASE_CHARACTERS)) for s in found)
    return ask_agent(turn, "research_cases", (*clipped_history(turn), *question_parts(turn), known, *told))


def cases_written(turn: Turn, said: CasesAnswer) -> AnswerGiven:
    """Return the answer of a model's words and the cases that it chose. Unknown numbers and citations are left out."""
    found, zh = _found(turn), turn.language == "zh"
    about = [s for s in found if s.number in {n for n in said.relevant if isinstance(n, int)}]
    if not about:
        return _given(turn, none_told(turn, zh=zh), (), confidence=min(said.confidence, MOST))
    words, removed = cited_only(paragraphs(said.answer, 2_000), sources_of(turn.data))
    texts = (turn.asked.message, *map(searched_text, found), *(case_told(s, zh=zh) for s in found))
    unsupported = unsupported_numbers(words, [s.confidence for s in found], texts=texts, scales=(0, 1, 100))
    high = MOST - (UNSUPPORTED if unsupported else 0.0)
    lead = words or lead_of(turn, about, zh=zh)
    return _given(turn, lead, about, confidence=min(said.confidence, high), unsupported=unsupported, removed=removed)


def cases_by_code(turn: Turn, failure: Failure | None) -> AnswerGiven:
    """Return the answer without a model. ``failure``: why none wrote it; None: there was nothing to write of."""
    found, zh = _found(turn), turn.language == "zh"
    if turn.data is None or turn.data.unavailable:
        why = turn.data.unavailable[0] if turn.data else failure.kind if failure else ""
        return _given(
            turn, not_looked_up(why, zh=zh), (), confidence=LEAST, missing=() if failure is None else (WRITER,)
        )
    if not found:
        return _given(turn, none_told(turn, zh=zh), (), confidence=NOTHING)
    lead = lead_of(turn, found, zh=zh)
    return _given(turn, lead, found, confidence=BY_CODE, missing=(WRITER,))


def _found(turn: Turn) -> tuple[FoundSignal, ...]:
    return turn.data.signals if turn.data else ()


def _given(
    turn: Turn,
    lead: str,
    cases: list[FoundSignal] | tuple[FoundSignal, ...],
    *,
    confidence: float,
    missing: tuple[str, ...] = (),
    unsupported: tuple[str, ...] = (),
    removed: int = 0,
) -> AnswerGiven:
    zh = turn.language == "zh"
    text = "\n\n".join((lead, "\n".join(case_told(s, zh=zh) for s in cases))).strip()
    known = tuple(s for s in sources_of(turn.data, zh=zh) if f"[{s.number}]" in text)
    unavailable = turn.data.unavailable if turn.data else ("signals: not looked up",)
    return AnswerGiven(
        answer=text,
        summary=one_line(lead, 400),
        key_insights=(),
        confidence=round(clamped(confidence, LEAST, MOST), 4),
        sources=known,
        metadata=AnswerMetadata(
            path="partial" if missing or unavailable or turn.finishing else "complete",
            provider_mode=turn.config.provider_mode,
            agents=(WRITER,) if cases and not missing else (),
            agents_missing=missing,
            unavailable=unavailable,
            unsupported_numbers=unsupported,
            citations_removed=removed,
            as_of=turn.as_of,
        ),
    )
