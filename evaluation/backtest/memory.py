"""Memory as of the time a case was received: later decisions, signals and outcomes are refused and counted."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal

from msgspec.structs import replace

from agents.core.case import Case
from infra.clickhouse.client import ClickHouse
from infra.clickhouse.memory import ClickHouseMemory
from schemas.calls import Call, ProviderMode
from schemas.effects import Failure, Recall, RecallReply, Reply, request_hash
from schemas.evidence import MemoryEntry

FAR = timedelta(days=36_500)
MORE = 4
"""Candidates to look at, as a multiple of the number asked for."""


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
