"""The answer from the pipeline's cases: a model says what they mean for the question, code lists them.

The model chooses the relevant cases and writes one to three sentences. Below them, code writes verdict, confidence, time and
quotes as recorded, in the reader's language, so no model can change them. Without a model, or without a case, code writes
the whole answer. Texts from outside (summaries, quotes) are one line without links and without brackets that would read
as citations.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Sequence

from agents.analysis.names import field_word, signal_facts
from agents.analysis.numbers import unsupported_numbers
from agents.analysis.words import paragraphs
from agents.core.answers import clamped, one_line
from agents.core.model_calls import facts
from agents.core.step import StepRequest
from agents.research.agent_calls import (
    ask_agent,
    case_facts,
    case_parts,
    clipped_history,
    found_cases,
    host_of,
    question_parts,
    searched_text,
)
from agents.research.answer_calls import BY_CODE, LEAST, MOST, NOTHING, UNSUPPORTED
from agents.research.answers import CasesAnswer
from agents.research.citations import cited_only, sources_of
from agents.research.source_data import CASES
from agents.research.turn import Turn
from schemas.effects import Failure
from schemas.evidence import FoundPage, FoundSignal
from schemas.research_events import AnswerGiven, AnswerMetadata

WRITER = "GeneralAnalysisAgent"


def answer_from_cases(turn: Turn) -> StepRequest:
    """Return the writer's call, or the answer itself if there is no case."""
    signals = found_cases(turn)
    if not signals:
        return cases_by_code(turn, None)
    asked = (*clipped_history(turn), *question_parts(turn), facts(**case_facts(turn, signals)), *case_parts(signals))
    return ask_agent(turn, "research_cases", asked)


def cases_written(turn: Turn, response: CasesAnswer) -> AnswerGiven:
    """Return the answer from a model's words and the cases that it chose. Unknown numbers and citations are left out."""
    signals, zh = found_cases(turn), turn.language == "zh"
    about = [s for s in signals if s.number in {n for n in response.relevant if isinstance(n, int)}]
    if not about:
        return _given(turn, no_case_text(turn, zh=zh), (), confidence=min(response.confidence, MOST))
    words, removed = cited_only(paragraphs(response.answer, 2_000), sources_of(turn.data))
    texts = (turn.asked.message, *map(searched_text, signals), *(case_item(s, zh=zh) for s in signals))
    unsupported = unsupported_numbers(words, [s.confidence for s in signals], texts=texts, scales=(0, 1, 100))
    high = MOST - (UNSUPPORTED if unsupported else 0.0)
    lead = words or lead_of(turn, about, zh=zh)
    return _given(
        turn, lead, about, confidence=min(response.confidence, high), unsupported=unsupported, removed=removed
    )


def cases_by_code(turn: Turn, failure: Failure | None) -> AnswerGiven:
    """Return the answer without a model. ``failure``: why no model wrote it; None: there was no case."""
    signals, zh = found_cases(turn), turn.language == "zh"
    if turn.data is None or turn.data.unavailable:
        why = turn.data.unavailable[0] if turn.data else failure.kind if failure else ""
        return _given(
            turn, lookup_failed_text(why, zh=zh), (), confidence=LEAST, missing=() if failure is None else (WRITER,)
        )
    if not signals:
        return _given(turn, no_case_text(turn, zh=zh), (), confidence=NOTHING)
    lead = lead_of(turn, signals, zh=zh)
    return _given(turn, lead, signals, confidence=BY_CODE, missing=(WRITER,))


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
    text = "\n\n".join((lead, "\n".join(case_item(s, zh=zh) for s in cases))).strip()
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


def half_of_cases(turn: Turn, cited: Container[int] | None, *, analysed: bool) -> str:
    """Return the half of facts as Markdown: the cases as recorded, or that none says anything; empty without such a half.

    ``cited``: numbers of the cases that the written half cites; None if no model wrote it, so that every case is listed.
    ``analysed``: some agent has a result. If none has, the text says that the other half is not answered.
    """
    if not turn.has_two_halves:
        return ""
    zh = turn.language == "zh"
    unread = [why for why in turn.data.unavailable if why.startswith(f"{CASES}:")] if turn.data else [""]
    if unread:
        text = lookup_failed_text(unread[0], zh=zh)
    else:
        about = [s for s in found_cases(turn) if cited is None or s.number in cited]
        text = "\n".join(case_item(s, zh=zh) for s in about) or no_case_text(turn, zh=zh)
    unanswered = () if analysed else (_NOT_ANALYSED[zh],)
    return "\n\n".join((_HALF[zh], text, *unanswered))


_HALF = ("**What the cases of this pipeline say**", "**本系统的案例**")
_NOT_ANALYSED = (
    "The other half of the question is not answered: no agent has a result.",
    "问题的另一半未能回答：没有智能体给出结论。",
)
MAX_TOLD_QUOTES = 3
MAX_NEAR = 3


def summary_in(signal: FoundSignal, *, zh: bool) -> str:
    """Return the summary in the reader's language if there is one, else in the language of the news."""
    text = (signal.summary_zh if zh else signal.summary_en) or signal.summary
    return cited_only(one_line(text, 300), ())[0]


def case_item(signal: FoundSignal, *, zh: bool) -> str:
    """Return a case as a list item of Markdown that cites it: summary, verdict, order, confidence, time, and its pages."""
    head = f"- {summary_in(signal, zh=zh)} [{signal.number}]"
    quoted = [f"> {_quoted(p.quote, zh)} – {_said_by(p, zh)}" for p in signal.pages if p.quote][:MAX_TOLD_QUOTES]
    others = ("、" if zh else ", ").join(_said_by(p, zh) for p in signal.pages if not p.quote)
    facts = f"{field_word(signal.verdict or '', zh=zh)} · {signal_facts(signal, zh=zh)} · {signal.decided_at:%Y-%m-%d %H:%M} UTC"
    blocks = (facts, *quoted, *([f"{field_word('pages', zh=zh)}{others}"] if others else []))
    return "\n\n".join((head, *(f"  {block}" for block in blocks)))


def lead_of(turn: Turn, cases: Sequence[FoundSignal], *, zh: bool) -> str:
    """Return the sentence before the cases if no model wrote one: the number of matches and their verdicts."""
    count = len(cases)
    verdict_counts = [
        (n, field_word(verdict, zh=zh)) for verdict, n in Counter(s.verdict or "" for s in cases).most_common()
    ]
    sought = _sought(turn, zh)
    if zh:
        return (
            f"本系统有 {count} 个案例符合（{sought}）："
            + "、".join(f"{n} 个{word}" for n, word in verdict_counts)
            + "。"
        )
    match = "1 case of this pipeline matches" if count == 1 else f"{count} cases of this pipeline match"
    return f"{match} ({sought}): " + ", ".join(f"{n} {word}" if count > 1 else word for n, word in verdict_counts) + "."


def no_case_text(turn: Turn, *, zh: bool) -> str:
    """Return the text for no relevant case, with the search terms; partial matches are cited."""
    near = "".join(f"[{s.number}]" for s in found_cases(turn)[:MAX_NEAR])
    if zh:
        return f"本系统没有案例说到这一点（{_sought(turn, zh)}）。" + (
            f"下列案例只提到其中一部分：{near}" if near else ""
        )
    more = f" Cases that name only a part of it: {near}" if near else ""
    return f"No case of this pipeline says anything on that ({_sought(turn, zh)}).{more}"


def lookup_failed_text(why: str, *, zh: bool) -> str:
    """Return the text for a failed look-up, with the reason."""
    reason = one_line(why, 200)
    if zh:
        return f"未能查到本系统的案例，因此无法据此作答{f'（{reason}）' if reason else ''}。请稍后再问。"
    return f"The cases of this pipeline could not be looked up{f' ({reason})' if reason else ''}. Ask again in a while."


def _sought(turn: Turn, zh: bool) -> str:
    assert turn.routed is not None and turn.routed.cases is not None
    query = turn.routed.cases
    names = [next((n for n in spelled if n.isascii() is not zh), spelled[0]) for spelled in query.names]
    named = [*(names or filter(None, [query.asset])), *(field_word(v, zh=zh) for v in query.verdicts)]
    days = max(query.hours // 24, 1)
    if zh:
        return f"过去 {days} 天，查找：{'、'.join(named) or '所有信号'}"
    return f"the last {'day' if days == 1 else f'{days} days'}, looked for: {', '.join(named) or 'any signal'}"


def _quoted(quote: str, zh: bool) -> str:
    text = cited_only(one_line(quote, 300), ())[0]
    return f"「{text}」" if zh else f"“{text}”"


def _said_by(page: FoundPage, zh: bool) -> str:
    kinds = (field_word(page.stance, zh=zh), *([field_word("official", zh=zh)] if page.official else []))
    return f"{host_of(page.url)}（{'，'.join(kinds)}）" if zh else f"{host_of(page.url)} ({', '.join(kinds)})"
