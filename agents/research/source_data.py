"""The queries to a turn's data sources, and their replies block by block, including the sources that failed."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Literal

from msgspec.structs import replace

from agents.analysis.blocks import usable_figures
from agents.analysis.indicators import INDICATORS, indicators
from agents.core.answers import one_line
from agents.core.case_core import Replies
from agents.research.answers import MAX_SIGNALS as MAX_CASES
from agents.research.answers import case_lookup
from agents.research.turn import Turn
from schemas.effects import (
    CandlesReply,
    Effect,
    Failure,
    FetchCandles,
    FetchMarket,
    FindSignals,
    MarketReply,
    Reply,
    SignalsReply,
)
from schemas.evidence import FoundSignal, MarketValue
from schemas.research_events import DataCollected

INTERVAL: Literal["1d"] = "1d"
BARS = 240
"""Daily bars: enough for the longest average (200), and for the EMAs to lose the influence of their first value."""
SIGNALS_SINCE = timedelta(days=14)
MAX_SIGNALS = 8
CASES = "cases"
"""The look-up for the half of facts. Its signals come first among those of :class:`DataCollected`."""
_KINDS: dict[str, Literal["price", "economy", "sentiment", "network"]] = {
    "price": "price",
    "macro": "economy",
    "fear_greed": "sentiment",
    "onchain": "network",
}
"""Block of :class:`DataCollected` → kind of :class:`FetchMarket`."""


def source_queries(turn: Turn) -> dict[str, Effect]:
    """Return block → the query to its source."""
    assert turn.plan is not None
    asset, as_of = turn.plan.asset, turn.as_of
    return {
        **{block: FetchMarket(kind=kind, asset=asset, as_of=as_of) for block, kind in _KINDS.items()},
        "candles": FetchCandles(asset=asset, interval=INTERVAL, limit=BARS, as_of=as_of),
        "signals": FindSignals(asset=asset, since=as_of - SIGNALS_SINCE, as_of=as_of, limit=MAX_SIGNALS),
        **({CASES: case_lookup(turn)} if turn.has_two_halves else {}),
    }


def source_replies(turn: Turn, replies: Replies) -> dict[str, Reply | None]:
    """Return block → the reply of its source, or None if there is none yet."""
    return {block: replies.of(effect) for block, effect in source_queries(turn).items()}


def with_data_so_far(turn: Turn) -> Turn:
    """Return the turn with the replies so far as its data, if it ended before all sources had replied."""
    if turn.data is not None or turn.plan is None or not turn.source_calls:
        return turn
    return replace(turn, data=collect_data(turn, source_replies(turn, Replies(turn.source_calls))))


def collect_data(turn: Turn, answered: dict[str, Reply | None]) -> DataCollected:
    """Return the replies as one event. A source that failed or has not replied is listed with the reason."""
    assert turn.plan is not None
    blocks: dict[str, Any] = {}
    signals: dict[str, tuple[FoundSignal, ...]] = {}
    unavailable: list[str] = []
    for block, reply in answered.items():
        match reply:
            case MarketReply() if block in _KINDS:
                blocks[block] = usable_figures(reply.values)
                unavailable += [f"{block}: {one_line(reason, 200)}" for reason in reply.unknown]
            case CandlesReply() if block == "candles" and reply.candles:
                blocks |= _bars(reply, blocks.get("price", ()))
                unavailable += _too_few(blocks["indicators"])
            case CandlesReply() if block == "candles":
                unavailable.append(f"{block}: no bars of {turn.plan.asset}")
            case SignalsReply() if block in ("signals", CASES):
                signals[block] = reply.signals[: MAX_SIGNALS if block == "signals" else MAX_CASES]
            case Failure():
                unavailable.append(f"{block}: {reply.kind} ({one_line(reply.message, 200)})")
            case None:
                unavailable.append(f"{block}: no answer had come when the answer was wanted")
            case _:
                unavailable.append(f"{block}: an answer of another kind")
    known = {s.signal_id for s in signals.get(CASES, ())}
    others = (s for s in signals.get("signals", ()) if s.signal_id not in known)
    numbered = tuple(replace(s, number=n) for n, s in enumerate((*signals.get(CASES, ()), *others), start=1))
    return DataCollected(asset=turn.plan.asset, **blocks, signals=numbered, unavailable=tuple(unavailable))


def _bars(reply: CandlesReply, quoted: tuple[MarketValue, ...]) -> dict[str, Any]:
    price = next((v.value for v in quoted if v.name == "price"), None)
    return {
        "candles": reply.candles,
        "candle_interval": reply.interval,
        "candle_source": reply.source,
        "indicators": usable_figures(indicators(reply.candles, unit=reply.unit, source=reply.source, price=price)),
    }


def _too_few(values: Any) -> list[str]:
    names = {v.name for v in values}
    levels = {"support": "below", "resistance": "above"}
    absent = [name for name in INDICATORS if name not in names and name not in levels]
    # A price beyond every turning point has no level on that side, however many bars there are.
    missing_levels = [f"candles: no {name} {side} the price" for name, side in levels.items() if name not in names]
    return [f"candles: too few bars for {', '.join(absent)}", *missing_levels] if absent else missing_levels
