"""Collect: every source is asked at once for what it knows of the asset; one that does not answer is named, with why."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Literal

from msgspec.structs import replace

from agents.case_core import Replies
from agents.failures import failed
from agents.research.blocks import sound
from agents.research.bounds import anything
from agents.research.indicators import INDICATORS, indicators
from agents.research.turn import Turn
from agents.step import Asked, On, StepFailure
from agents.verification.answers import one_line
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
from schemas.events import Event
from schemas.research_events import AnalysisPlanned, DataCollected

INTERVAL: Literal["1d"] = "1d"
BARS = 240
"""Enough daily bars for the longest average, of 200, and for the EMAs to have forgotten how they began."""
SIGNALS_SINCE = timedelta(days=14)
MAX_SIGNALS = 8
_KINDS: dict[str, Literal["price", "economy", "sentiment", "network"]] = {
    "price": "price",
    "macro": "economy",
    "fear_greed": "sentiment",
    "onchain": "network",
}
"""Block of :class:`DataCollected` → kind of :class:`FetchMarket`."""


class Collect:
    """Never fails while any source gave anything. When none did, it is retried as long as it may help, then says so."""

    name = "collect"
    takes = (On(AnalysisPlanned),)
    emits = (DataCollected,)

    def ask(self, turn: Turn) -> Asked:
        return tuple(_effects(turn).values())

    def tell(self, turn: Turn, replies: Replies) -> Event:
        answered = {block: replies.of(effect) for block, effect in _effects(turn).items()}
        data = _collected(turn, answered)
        worth = [r for r in answered.values() if isinstance(r, Failure) and r.retryable]
        if worth and not anything(data):
            failure = max(worth, key=lambda f: f.retry_after_s or 0.0)
            if failed(turn, self.name, failure, now=replies.at or turn.head_at).outcome == "retry":
                raise StepFailure(failure)
        return data


def _effects(turn: Turn) -> dict[str, Effect]:
    assert turn.plan is not None
    asset, as_of = turn.plan.asset, turn.as_of
    return {
        **{block: FetchMarket(kind=kind, asset=asset, as_of=as_of) for block, kind in _KINDS.items()},
        "candles": FetchCandles(asset=asset, interval=INTERVAL, limit=BARS, as_of=as_of),
        "signals": FindSignals(asset=asset, since=as_of - SIGNALS_SINCE, as_of=as_of, limit=MAX_SIGNALS),
    }


def _collected(turn: Turn, answered: dict[str, Reply | None]) -> DataCollected:
    assert turn.plan is not None
    found: dict[str, Any] = {}
    unavailable: list[str] = []
    for block, reply in answered.items():
        match reply:
            case MarketReply() if block in _KINDS:
                found[block] = sound(reply.values)
                unavailable += [f"{block}: {one_line(said, 200)}" for said in reply.unknown]
            case CandlesReply() if block == "candles" and reply.candles:
                found |= _bars(reply)
                unavailable += _too_few(found["indicators"])
            case CandlesReply() if block == "candles":
                unavailable.append(f"{block}: no bars of {turn.plan.asset}")
            case SignalsReply() if block == "signals":
                found[block] = tuple(replace(s, number=n) for n, s in enumerate(reply.signals[:MAX_SIGNALS], start=1))
            case Failure():
                unavailable.append(f"{block}: {reply.kind} ({one_line(reply.message, 200)})")
            case _:
                unavailable.append(f"{block}: an answer of another kind")
    return DataCollected(asset=turn.plan.asset, **found, unavailable=tuple(unavailable))


def _bars(reply: CandlesReply) -> dict[str, Any]:
    return {
        "candles": reply.candles,
        "candle_interval": reply.interval,
        "candle_source": reply.source,
        "indicators": sound(indicators(reply.candles, unit=reply.unit, source=reply.source)),
    }


def _too_few(found: Any) -> list[str]:
    names = {v.name for v in found}
    absent = [name for name in INDICATORS if name not in names]
    return [f"candles: too few bars for {', '.join(absent)}"] if absent else []


STEP = Collect()
