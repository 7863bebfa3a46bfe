"""Answers the needs of a replay: from the run's own topic, the models, memory as of the case, or not at all (a miss)."""

from __future__ import annotations

import asyncio
from collections import Counter
from decimal import Decimal

from evaluation.backtest.deciding import Deciding
from evaluation.backtest.memory import AsOfMemory
from evaluation.backtest.run.cost_limit import CostLimit
from evaluation.backtest.run.plan import OnMiss
from evaluation.backtest.run.topic import CallMade, Held, RunTopic
from infra.ports import Ports
from schemas.calls import Call
from schemas.effects import CallModel, Effect, Failure, FindConcerned, FindEarlier, FindStory, Recall
from schemas.errors import ConfigError, FailureKind
from streams.effects.host import EffectsHost
from streams.replay import Miss, Need, Recording, Replayed

WEATHER: frozenset[FailureKind] = frozenset({"timeout", "network", "rate_limit", "unavailable", "breaker_open"})
"""Transient provider failures. They say nothing about the prompt, so they are retried, not replayed."""
MENDED: frozenset[FailureKind] = frozenset({"auth", "plan_limit", "not_open", "not_configured"})
"""Failures that every further call would meet too, until somebody repairs the cause."""
OF_THE_JOURNAL = (FindEarlier, FindConcerned)
"""Queries against the journal of the case's time. Today's answers would be about other cases, so they are never
repeated.
"""
ATTEMPTS = 5
FIRST_WAIT_S = 1.0
NAMES = {"Search": "search", "Scrape": "page", "FetchMarket": "market figure", "FindConcerned": "question for earlier claims",
         "FindEarlier": "check for copies", "FindStory": "check for other tellings", "Recall": "memory", "CallModel": "model call"}  # fmt: skip


class Performer:
    """Answers the needs of one run. ``executed`` counts the effects performed now, by type of effect."""

    def __init__(
        self,
        ports: Ports,
        cost_limit: CostLimit,
        held: Held,
        topic: RunTopic | None,
        *,
        on_miss: OnMiss,
        memory: AsOfMemory | None = None,
        first_wait_s: float = FIRST_WAIT_S,
    ) -> None:
        self._ports = ports
        self._host = EffectsHost(ports)
        self._cost_limit = cost_limit
        self._held = held
        self._topic = topic
        self._live = on_miss == "live"
        self._memory = memory
        self._first_wait_s = first_wait_s
        self.executed: Counter[str] = Counter()
        self.refused_memories: Counter[str] = Counter()

    async def answer(self, need: Need, repeat: int, occurrence: int) -> tuple[Call, ...] | Miss:
        """Return the calls that answer the need.

        Raises:
            CostLimitReached: ``--max-cost`` does not cover the call.
            ConfigError: no call can succeed until a setting is repaired; the text says which.
        """
        asked = (need.case.case_id, repeat, need.request_hash, occurrence)
        if (made := self._held.calls.get(asked)) is not None:
            return made
        effect = need.effect
        if isinstance(effect, Recall) and self._memory is not None and not self._live:
            calls, refused = await self._memory.recall(effect, need.case)
            self.refused_memories[need.case.case_id] += refused
        elif isinstance(effect, CallModel | FindStory) or (self._live and not isinstance(effect, OF_THE_JOURNAL)):
            done = await self._performed(need)
            if isinstance(done, Miss):
                return done
            calls = done
        else:
            return Miss(f"{need.step} asks a {NAMES[type(effect).__name__]} that was not recorded: {_asked(effect)}")
        self.executed[type(effect).__name__] += 1
        if self._topic is not None:
            await self._topic.write(CallMade(*asked, calls), key=need.case.case_id)
        return calls

    async def _performed(self, need: Need) -> tuple[Call, ...] | Miss:
        chain = self._ports.chain(need.effect)
        tried: tuple[Call, ...] = ()
        said, wait_s = "", 0.0
        for attempt in range(ATTEMPTS):
            if attempt:
                await asyncio.sleep(wait_s)
            held = await self._cost_limit.taken(need.effect, chain)
            calls: tuple[Call, ...] = ()
            try:
                calls = await self._host.perform(
                    need.effect, case_id=need.case.case_id, head_id=need.case.head_id, attempt=need.attempt
                )
            finally:
                self._cost_limit.settle(held, calls) if calls else self._cost_limit.give_back(held)
            tried += calls
            reply = calls[-1].reply
            if not isinstance(reply, Failure) or reply.kind not in WEATHER | MENDED:
                return tried
            if reply.kind in MENDED:
                raise ConfigError(f"no model can be asked ({reply.kind}): {reply.message}")
            said = f"{calls[-1].provider} did not answer in {ATTEMPTS} attempts: {reply.message}"
            wait_s = max(self._first_wait_s * 2**attempt, reply.retry_after_s or 0.0)
        return Miss(said, status="failed")

    @property
    def spent(self) -> Decimal:
        """USD that this run has spent, including before a restart."""
        return self._cost_limit.spent


async def replay_one(
    deciding: Deciding, recording: Recording, performer: Performer, from_step: str | None = None, repeat: int = 0
) -> Replayed:
    """Drive one replay to its end; the performer answers its needs."""
    asking = deciding.replay(recording, from_step=from_step).run()
    occurrences: Counter[str] = Counter()
    try:
        need = next(asking)
        while True:
            occurrence = occurrences[need.request_hash]
            occurrences[need.request_hash] += 1
            need = asking.send(await performer.answer(need, repeat, occurrence))
    except StopIteration as stop:
        replayed: Replayed = stop.value
        return replayed


def _asked(effect: Effect) -> str:
    return repr(getattr(effect, "query", None) or getattr(effect, "url", None) or getattr(effect, "asset", ""))[:160]
