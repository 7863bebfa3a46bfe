"""Answers the needs of a replay: from the run's own topic, the models, memory as of the case, or not at all (a miss).

Calls stay within the cost limit: a call is refused when its worst case might exceed ``--max-cost``.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal

from msgspec.structs import replace

from agents.core.case import Case
from evaluation.replay.candidates import ReplayBuilder
from evaluation.runs.plan import OnMiss
from evaluation.runs.topic import CallMade, RunProgress, RunTopic
from infra.clickhouse.client import ClickHouse
from infra.clickhouse.memory import ClickHouseMemory
from infra.ports import Port, Ports
from schemas.calls import Call, ProviderMode
from schemas.effects import (
    CallModel,
    Effect,
    Failure,
    FindConcerned,
    FindEarlier,
    FindStory,
    OpenPart,
    Recall,
    RecallReply,
    Reply,
    request_hash,
)
from schemas.errors import ConfigError, FailureKind
from schemas.evidence import MemoryEntry
from streams.effects.host import EffectsHost
from streams.replay import Miss, Need, Recording, ReplayResult


class CostLimitReached(Exception):  # noqa: N818 - the run stops in order
    """The remaining amount does not cover the worst case of the next call."""


class CostLimit:
    """Tracks the cost of a run in USD against a limit; None means no limit.

    ``spent`` is the cost of the calls made. A call of unknown price counts with its worst case.
    """

    def __init__(self, limit: Decimal | None, *, spent: Decimal = Decimal(0)) -> None:
        self.limit = limit
        self.spent = spent
        self._held = Decimal(0)
        self._moved = asyncio.Event()

    async def taken(self, effect: Effect, chain: Sequence[Port]) -> Decimal:
        """Like :meth:`take`, but wait for pending calls to settle when their reservations might free enough."""
        while True:
            try:
                return self.take(effect, chain)
            except CostLimitReached:
                if not self._held:
                    raise
                self._moved.clear()
            await self._moved.wait()

    def take(self, effect: Effect, chain: Sequence[Port]) -> Decimal:
        """Reserve the worst case of performing the effect once; return the amount for :meth:`settle`.

        Raises:
            CostLimitReached: the remaining amount is too small.
            ConfigError: there is a limit, and the price of a provider is unknown.
        """
        worst = [port.worst_case_usd(effect) for port in chain]
        if None in worst and self.limit is not None:
            names = ", ".join(
                f"{p.provider} {getattr(p, 'model', '')}".strip()
                for p, w in zip(chain, worst, strict=True)
                if w is None
            )
            raise ConfigError(
                f"the price of {names} is unknown, so --max-cost cannot be enforced: add it to infra/models/price_overrides.json"
            )
        # A fallback is asked after the previous provider failed, and the failed call may be billed too.
        held = sum((w for w in worst if w is not None), Decimal(0))
        if self.limit is not None and self.spent + self._held + held > self.limit:
            raise CostLimitReached
        self._held += held
        return held

    def settle(self, held: Decimal, calls: Sequence[Call]) -> None:
        """Replace the reservation by the actual cost."""
        self.give_back(held)
        known = [c.cost_usd for c in calls]
        self.spent += held if None in known else sum((c for c in known if c is not None), Decimal(0))

    def give_back(self, held: Decimal) -> None:
        """Release the reservation of a call that was not made."""
        self._held -= held
        self._moved.set()


FAR = timedelta(days=36_500)
MORE = 4
"""Candidates to read, as a multiple of the requested number."""


class AsOfMemory:
    """Answers the recalls of a replayed case from ClickHouse.

    A memory counts when its case was decided, and its signal emitted, before the replayed case was received. Its
    outcome counts when the horizon also ended before then. ``ClickHouseMemory`` enforces this; this class counts what
    it refuses.
    """

    def __init__(self, client: ClickHouse, *, mode: ProviderMode, timeout_s: float = 30.0) -> None:
        self._memory = ClickHouseMemory(client, mode=mode, timeout_s=timeout_s)

    async def recall(self, effect: Recall, case: Case) -> tuple[tuple[Call, ...], int]:
        """Return the call, and the number of memories and outcomes refused as later than the case."""
        wide = replace(effect, limit=effect.limit * MORE)
        known = await self._entries(wide)
        later = await self._entries(replace(wide, as_of=datetime.now(UTC) + FAR))
        reply = (await self._memory.perform(effect)).reply
        call = Call(
            kind="recall",
            provider=self._memory.provider,
            mode=self._memory.mode,
            request_hash=request_hash(effect),
            reply=reply,
            latency_ms=0.0,
            replied_at=case.head_at,
            cost_usd=Decimal(0),
            cost_source="local",
            error=reply.kind if isinstance(reply, Failure) else None,
        )
        return (call,), _refused(known, later)

    async def _entries(self, effect: Recall) -> dict[str, MemoryEntry]:
        reply: Reply = (await self._memory.perform(effect)).reply
        return {e.case_id: e for e in reply.entries} if isinstance(reply, RecallReply) else {}


def _refused(known: dict[str, MemoryEntry], later: dict[str, MemoryEntry]) -> int:
    unknown = sum(1 for case_id in later if case_id not in known)
    outcomes = sum(1 for c, e in later.items() if c in known and e.outcome not in (None, known[c].outcome))
    return unknown + outcomes


TRANSIENT_KINDS: frozenset[FailureKind] = frozenset({"timeout", "network", "rate_limit", "unavailable", "breaker_open"})
"""Transient provider failures. They say nothing about the prompt, so they are retried, not replayed."""
LASTING_KINDS: frozenset[FailureKind] = frozenset({"auth", "plan_limit", "not_open", "not_configured"})
"""Failures that every further call would meet too, until somebody repairs the cause."""
JOURNAL_QUERIES = (FindEarlier, FindConcerned)
"""Queries against the journal of the case's time. Today's answers would be about other cases, so they are never
repeated.
"""
ATTEMPTS = 5
FIRST_WAIT_S = 1.0
EFFECT_NAMES = {"Search": "search", "Scrape": "page", "FetchMarket": "market figure", "FindConcerned": "search for earlier claims",
         "FindEarlier": "check for copies", "FindStory": "check for other reports", "Recall": "memory", "CallModel": "model call"}  # fmt: skip


class Performer:
    """Answers the needs of one run. ``executed`` counts the effects performed now, by type of effect."""

    def __init__(
        self,
        ports: Ports,
        cost_limit: CostLimit,
        progress: RunProgress,
        topic: RunTopic | None,
        *,
        on_miss: OnMiss,
        memory: AsOfMemory | None = None,
        first_wait_s: float = FIRST_WAIT_S,
    ) -> None:
        self._ports = ports
        self._host = EffectsHost(ports)
        self._cost_limit = cost_limit
        self._progress = progress
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
        if (made := self._progress.calls.get(asked)) is not None:
            return made
        effect = need.effect
        if isinstance(effect, Recall) and self._memory is not None and not self._live:
            calls, refused = await self._memory.recall(effect, need.case)
            self.refused_memories[need.case.case_id] += refused
        elif isinstance(effect, CallModel | FindStory | OpenPart) or (
            self._live and not isinstance(effect, JOURNAL_QUERIES)
        ):
            done = await self._performed(need)
            if isinstance(done, Miss):
                return done
            calls = done
        else:
            return Miss(f"{need.step} requests an unrecorded {EFFECT_NAMES[type(effect).__name__]}: {_asked(effect)}")
        self.executed[type(effect).__name__] += 1
        if self._topic is not None:
            await self._topic.write(CallMade(*asked, calls), key=need.case.case_id)
        return calls

    async def _performed(self, need: Need) -> tuple[Call, ...] | Miss:
        chain = self._ports.chain(need.effect)
        tried: tuple[Call, ...] = ()
        message, wait_s = "", 0.0
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
            if not isinstance(reply, Failure) or reply.kind not in TRANSIENT_KINDS | LASTING_KINDS:
                return tried
            if reply.kind in LASTING_KINDS:
                raise ConfigError(f"no model can be called ({reply.kind}): {reply.message}")
            message = f"{calls[-1].provider} did not return a response in {ATTEMPTS} attempts: {reply.message}"
            wait_s = max(self._first_wait_s * 2**attempt, reply.retry_after_s or 0.0)
        return Miss(message, status="failed")

    @property
    def spent(self) -> Decimal:
        """USD that this run has spent, including before a restart."""
        return self._cost_limit.spent


async def replay_one(
    builder: ReplayBuilder, recording: Recording, performer: Performer, from_step: str | None = None, repeat: int = 0
) -> ReplayResult:
    """Drive one replay to its end; the performer answers its needs."""
    asking = builder.build(recording, from_step=from_step).run()
    occurrences: Counter[str] = Counter()
    try:
        need = next(asking)
        while True:
            occurrence = occurrences[need.request_hash]
            occurrences[need.request_hash] += 1
            need = asking.send(await performer.answer(need, repeat, occurrence))
    except StopIteration as stop:
        replayed: ReplayResult = stop.value
        return replayed


def _asked(effect: Effect) -> str:
    return repr(getattr(effect, "query", None) or getattr(effect, "url", None) or getattr(effect, "asset", ""))[:160]
