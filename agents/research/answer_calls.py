"""The call of GeneralAnalysisAgent, and the upper bound of an answer's confidence.

The call has the question, the figures, the agents' conclusions, and the citable sources. The writer states its confidence;
missing inputs limit it:

    complete                                    at most 0.90
    each planned agent without a result         0.15 less
    each block that they read without a figure  0.05 less   (price, macro, fear_greed, candles, onchain)
    a number in the answer that nothing supports 0.10 less
    no agent has a result                       at most 0.30
    there is neither a figure nor a signal      at most 0.20
    code alone composed the answer              at most 0.25

The bound is never below 0.05, since an answer that is given has some content.
"""

from __future__ import annotations

from agents.analysis.blocks import BLOCKS, as_facts, blocks_of, figures_in, has_data
from agents.analysis.names import display_name
from agents.core.answers import clamped
from agents.core.model_calls import facts
from agents.research.agent_calls import (
    ask_agent,
    case_facts,
    case_parts,
    clipped_history,
    found_cases,
    question_parts,
    report_parts,
    signal_parts,
    unavailable_parts,
)
from agents.research.citations import sources_of
from agents.research.results import results_so_far
from agents.research.turn import Turn
from schemas.effects import CallModel, Trusted
from schemas.research_events import AgentResult, DataCollected

FINISH = (
    "The user asked for an answer now, or a part of the analysis failed: write from what is here, say plainly what is "
    "missing, and do not fill it in."
)


def results_of(turn: Turn) -> tuple[AgentResult, ...]:
    """Return the agents' results: the reported ones, or those that had arrived when the turn was cut short."""
    return turn.reported.results if turn.reported else results_so_far(turn)


def answer_call(turn: Turn) -> CallModel:
    """Return the call that writes the answer, with any amount of data, including none."""
    results, data, zh = results_of(turn), turn.data, turn.language == "zh"
    figures, absent, lacking = (
        figures_in(data, BLOCKS) if data else {},
        agents_missing(turn, results),
        without_data(turn),
    )
    asked, cases = tuple(r.agent_name for r in results), found_cases(turn) if turn.has_two_halves else ()
    others = tuple(s for s in data.signals if s not in cases) if data else ()
    known = facts(
        asset=data.asset if data else (turn.plan.asset if turn.plan else ""),
        figures=as_facts(figures),
        agents=[{"agent": r.agent_name, "signal": r.signal, "confidence": r.confidence} for r in results],
        agents_missing=list(absent),
        blocks_without_data=list(lacking),
        called={name: display_name(name, zh=zh) for name in (*figures, *asked, *absent, *lacking)},
        signals=[s.number for s in others],
        **(case_facts(turn, cases) if turn.has_two_halves else {}),
        # Signal titles are outside text; they come as untrusted parts with the signals.
        sources=[{"number": s.number, "of": s.title} for s in sources_of(data) if s.kind == "market"],
        highest_confidence=ceiling(turn, results, unsupported=False, by_code=False),
    )
    return ask_agent(
        turn,
        "research_answer",
        (
            *clipped_history(turn),
            *question_parts(turn),
            known,
            *report_parts(results),
            *signal_parts(others),
            *case_parts(cases),
            *(unavailable_parts(data) if data else ()),
            *([Trusted(FINISH)] if turn.finishing else []),
        ),
    )


def agents_missing(turn: Turn, results: tuple[AgentResult, ...]) -> tuple[str, ...]:
    """Return the agents without a result: planned ones, or the agent that failed before there was a plan."""
    done = {r.agent_name for r in results}
    planned = tuple(t.agent for t in turn.plan.task_breakdown if t.agent not in done) if turn.plan else ()
    early = ("SuperAgent",) if turn.routed is None else ("PlanningAgent",) if turn.plan is None else ()
    return (*early, *planned)


MOST, LEAST = 0.90, 0.05
AN_AGENT, A_BLOCK, UNSUPPORTED = 0.15, 0.05, 0.10
NO_AGENT, NOTHING, BY_CODE = 0.30, 0.20, 0.25
COUNTED = ("price", "macro", "fear_greed", "candles", "onchain")


def ceiling(turn: Turn, results: tuple[AgentResult, ...], *, unsupported: bool, by_code: bool) -> float:
    """Return the upper bound of the confidence of this turn's answer, 0.05–0.9."""
    planned = turn.plan.task_breakdown if turn.plan else ()
    lacking = without_data(turn)
    high = MOST - AN_AGENT * max(len(planned) - len(results), 0) - A_BLOCK * len(lacking)
    high -= UNSUPPORTED if unsupported else 0.0
    high = high if results else min(high, NO_AGENT)
    high = min(high, NOTHING) if turn.data is None or not has_any_data(turn.data) else high
    return max(min(high, BY_CODE) if by_code else high, LEAST)


def bounded_confidence(
    confidence: float, turn: Turn, results: tuple[AgentResult, ...], *, unsupported: bool, by_code: bool = False
) -> float:
    """Return the stated confidence clamped to its bounds, with four decimals."""
    high = ceiling(turn, results, unsupported=unsupported, by_code=by_code)
    return round(clamped(confidence, LEAST, high), 4)


def without_data(turn: Turn) -> tuple[str, ...]:
    """Return the blocks without a figure among those that the planned agents read; without a plan, among all counted blocks."""
    read = {b for task in turn.plan.task_breakdown for b in blocks_of(task)} if turn.plan else set(COUNTED)
    return tuple(b for b in COUNTED if b in read and (turn.data is None or not has_data(turn.data, b)))


def has_any_data(data: DataCollected) -> bool:
    """Return whether any source gave any data."""
    return any(has_data(data, block) for block in (*COUNTED, "signals"))
