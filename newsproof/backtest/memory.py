"""Memory as it was when a case was received: what was decided, published or came out later is refused, and counted."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from msgspec.structs import replace

from agents.case import Case
from infra.clickhouse.client import ClickHouse
from infra.memory import ClickHouseMemory
from schemas.calls import Call, ProviderMode
from schemas.effects import Failure, Recall, RecallReply, request_hash
from schemas.evidence import MemoryEntry
from schemas.ids import LIVE_RUN

FAR = timedelta(days=36_500)
MORE = 4
"""Candidates asked for, in times of the limit: some are refused."""

_WHEN = """
SELECT case_id, min(emitted_at) FROM signals FINAL
WHERE run_id = {run_id:String} AND case_id IN {cases:Array(String)} AND emitted_at > toDateTime64(0, 3, 'UTC') GROUP BY case_id
"""
_OUTCOMES = """
SELECT case_id, horizon_s, exit_at, return FROM outcomes FINAL WHERE case_id IN {cases:Array(String)} ORDER BY horizon_s
"""


class AsOfMemory:
    """Recalls over ClickHouse for a replayed case.

    A memory counts when its case was decided, and its signal emitted, before the replayed case was received; what came of
    it counts when the horizon's end was before that too.
    """

    def __init__(self, client: ClickHouse, *, mode: ProviderMode, timeout_s: float = 30.0) -> None:
        self._client = client
        self._memory = ClickHouseMemory(client, mode=mode, timeout_s=timeout_s)

    async def recall(self, effect: Recall, case: Case) -> tuple[tuple[Call, ...], int]:
        """Return the call, and how many memories and outcomes were refused for being of the future."""
        wide = replace(effect, as_of=datetime.now(UTC) + FAR, limit=effect.limit * MORE)
        answer = await self._memory.perform(wide)
        reply, refused = answer.reply, 0
        if isinstance(reply, RecallReply):
            reply, refused = await self._as_of(reply, effect, case)
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
        return (call,), refused

    async def _as_of(self, reply: RecallReply, effect: Recall, case: Case) -> tuple[RecallReply, int]:
        cases = [e.case_id for e in reply.entries]
        emitted = {row[0]: row[1] for row in await self._rows(_WHEN, cases, run_id=LIVE_RUN)}
        came: dict[str, list[tuple[Any, ...]]] = {}
        for row in await self._rows(_OUTCOMES, cases):
            came.setdefault(row[0], []).append(row)
        kept: list[MemoryEntry] = []
        refused = 0
        for entry in reply.entries:
            if entry.decided_at >= effect.as_of or emitted.get(entry.case_id, entry.decided_at) >= case.opened_at:
                refused += 1
                continue
            known = [row for row in came.get(entry.case_id, ()) if row[2] < effect.as_of]
            refused += len(came.get(entry.case_id, ())) - len(known)
            said = f"{known[-1][3]:+.1%} after {known[-1][1] / 3600:g} h" if known else None
            kept.append(replace(entry, outcome=said))
        chosen = kept[-effect.limit :] if effect.since else kept[: effect.limit]
        return RecallReply(entries=tuple(chosen)), refused

    async def _rows(self, sql: str, cases: list[str], **more: str) -> list[Any]:
        return list((await self._client.query(sql, {"cases": cases, **more})).rows) if cases else []
