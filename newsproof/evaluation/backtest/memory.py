"""Memory as it was when a case was received: what was decided, published or came out later is refused, and counted."""

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
"""Candidates that are looked at, in times of those asked for."""


class AsOfMemory:
    """Recalls over ClickHouse for a replayed case.

    A memory counts when its case was decided, and its signal emitted, before the replayed case was received; what came of
    it counts when the horizon's end was before that too: memory itself sees to it. Here the others are counted.
    """

    def __init__(self, client: ClickHouse, *, mode: ProviderMode, timeout_s: float = 30.0) -> None:
        self._memory = ClickHouseMemory(client, mode=mode, timeout_s=timeout_s)

    async def recall(self, effect: Recall, case: Case) -> tuple[tuple[Call, ...], int]:
        """Return the call, and how many memories and outcomes were refused for being of the future."""
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
