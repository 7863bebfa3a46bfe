"""The answer written by code if the writing model fails: the available data and results, and no more."""

from __future__ import annotations

from agents.analysis.blocks import rounded_figure
from agents.analysis.names import display_name
from agents.research.agent_calls import found_cases
from agents.research.answer_calls import agents_missing, bounded_confidence, has_any_data, results_of, without_data
from agents.research.case_answer import WRITER, cases_by_code, half_of_cases
from agents.research.citations import cited_only, sources_of
from agents.research.source_data import CASES
from agents.research.turn import Turn
from schemas.effects import Failure
from schemas.research_events import AgentResult, AnswerGiven, AnswerMetadata, DataCollected

_WORDS = {
    "zh": {
        "summary": "撰写回答的模型未能应答，以下仅列出已有的数据与各智能体的结论。",
        "agents": "各智能体的结论",
        "figures": "数据",
        "signals": "相关信号",
        "missing": "缺失的数据",
        "confidence": "置信度",
    },
    "en": {
        "summary": "The model that writes answers did not respond; here is what was collected and concluded, and no more.",
        "agents": "What the agents concluded",
        "figures": "Figures",
        "signals": "Signals of the news pipeline",
        "missing": "Not available",
        "confidence": "confidence",
    },
}


def answer_by_code(turn: Turn, failure: Failure) -> AnswerGiven | None:
    """Return an answer made of the available data, or None without any. ``failure``: why no model wrote it."""
    if turn.from_cases:
        return cases_by_code(turn, failure)
    results = results_of(turn)
    if not results and (turn.data is None or not has_any_data(turn.data)):
        return None
    text, summary = compose_answer(turn, results, failure)
    return AnswerGiven(
        answer=text,
        summary=summary,
        key_insights=(),
        confidence=bounded_confidence(1.0, turn, results, unsupported=False, by_code=True),
        sources=sources_of(turn.data, zh=turn.language == "zh"),
        metadata=metadata_of(turn, results, (), 0, writer=False),
    )


def metadata_of(
    turn: Turn, results: tuple[AgentResult, ...], unsupported: tuple[str, ...], removed: int, *, writer: bool = True
) -> AnswerMetadata:
    """Return the metadata of an answer.

    ``removed``: number of removed citations of unknown sources. ``writer``: a model wrote the answer.
    """
    lacking = (*agents_missing(turn, results), *(() if writer else (WRITER,)))
    unavailable = turn.data.unavailable if turn.data else ("data: none was collected",)
    away = any(why.startswith(f"{CASES}:") for why in unavailable)
    whole = not (lacking or without_data(turn) or turn.finishing or away)
    return AnswerMetadata(
        path="complete" if whole else "partial",
        provider_mode=turn.config.provider_mode,
        agents=(*(r.agent_name for r in results), *((WRITER,) if writer else ())),
        agents_missing=lacking,
        unavailable=unavailable,
        unsupported_numbers=unsupported,
        citations_removed=removed,
        as_of=turn.as_of,
    )


def compose_answer(turn: Turn, results: tuple[AgentResult, ...], failure: Failure) -> tuple[str, str]:
    """Return answer (Markdown with citations) and summary. ``failure`` is why no model wrote them."""
    words = _WORDS["zh" if turn.language == "zh" else "en"]
    zh = turn.language == "zh"
    verdicts = tuple(
        f"{display_name(r.agent_name, zh=zh)}: {display_name(r.signal, zh=zh)}, {words['confidence']} {r.confidence:.2f}"
        for r in results
    )
    blocks = [f"{words['summary']} ({failure.kind})"]
    blocks += [_list(words["agents"], verdicts)] if verdicts else []
    if turn.data is not None:
        blocks += [_list(words["figures"], lines)] if (lines := _figures(turn.data, zh)) else []
        # A summary cites the references of its own case, which are not those of this answer.
        listed = found_cases(turn)
        signals = tuple(f"{cited_only(s.summary, ())[0]} [{s.number}]" for s in turn.data.signals if s not in listed)
        blocks += [_list(words["signals"], signals)] if signals else []
        blocks += [_list(words["missing"], turn.data.unavailable)] if turn.data.unavailable else []
    blocks += [half] if (half := half_of_cases(turn, None, analysed=bool(results))) else []
    return "\n\n".join(blocks), words["summary"]


def _figures(data: DataCollected, zh: bool) -> tuple[str, ...]:
    number = {s.title: s.number for s in sources_of(data) if s.kind == "market"}
    values = (*data.price, *data.macro, *data.fear_greed, *data.onchain, *data.indicators)
    return tuple(
        f"{display_name(v.name, zh=zh)}: {rounded_figure(v.value):,} {v.unit} [{number[v.source]}]" for v in values
    )


def _list(title: str, lines: tuple[str, ...]) -> str:
    return "\n".join((f"**{title}**", "", *(f"- {line}" for line in lines)))
