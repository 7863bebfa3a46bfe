"""The upper bound of an answer's confidence. The writer states its confidence; missing inputs limit it.

    complete                                    at most 0.90
    each planned agent without a result         0.15 less
    each block that they read without a figure  0.05 less   (price, macro, fear_greed, candles, onchain)
    a number in the answer that nothing supports 0.10 less
    no agent has a result                       at most 0.30
    neither a figure nor a signal is there      at most 0.20
    the answer was put together by code alone   at most 0.25

The bound is never below 0.05, since an answer that is given has some content.
"""

from __future__ import annotations

from agents.analysis.blocks import blocks_of, has
from agents.core.answers import clamped
from agents.research.turn import Turn
from schemas.research_events import AgentResult, DataCollected

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
    high = min(high, NOTHING) if turn.data is None or not anything(turn.data) else high
    return max(min(high, BY_CODE) if by_code else high, LEAST)


def bounded_confidence(
    said: float, turn: Turn, results: tuple[AgentResult, ...], *, unsupported: bool, by_code: bool = False
) -> float:
    """Return the stated confidence clamped to its bounds, with four decimals."""
    high = ceiling(turn, results, unsupported=unsupported, by_code=by_code)
    return round(clamped(said, LEAST, high), 4)


def without_data(turn: Turn) -> tuple[str, ...]:
    """Return the blocks without a figure that the planned agents read; without a plan, of all that count."""
    read = {b for task in turn.plan.task_breakdown for b in blocks_of(task)} if turn.plan else set(COUNTED)
    return tuple(b for b in COUNTED if b in read and (turn.data is None or not has(turn.data, b)))


def anything(data: DataCollected) -> bool:
    """Whether any source gave any data."""
    return any(has(data, block) for block in (*COUNTED, "signals"))
