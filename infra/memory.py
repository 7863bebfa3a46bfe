"""Recall over ClickHouse: past cases whose text is like this one's, as of the case's own time, by exact cosine search,
or those of one subject in the order of time.

Memory is a projection of the journal (``infra.clickhouse.rows.memory_row``). A case never waits for it: whatever is
wrong with ClickHouse, the answer is a ``Failure`` of kind ``unavailable`` within a second, and the step says so.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any

from msgspec.structs import replace

from infra.clickhouse.client import ClickHouse, Result
from infra.embedding import DIMENSIONS, EMBEDDING_MODEL, embed
from infra.ports import Answer, Free
from schemas.calls import ProviderMode
from schemas.effects import Failure, Recall, RecallReply
from schemas.errors import NewsproofError, TransientError
from schemas.evidence import MemoryEntry
from schemas.ids import LIVE_RUN

__all__ = ["SAME_ASSET_FLOOR", "SIMILARITY_FLOOR", "ClickHouseMemory"]

SIMILARITY_FLOOR = 0.4
"""Least cosine that counts as similar. Of the 861 pairs of the sample's 42 news items, 99 % lie below 0.35; the same
news in other words (zh or en) lies above 0.6."""
SAME_ASSET_FLOOR = 0.3
"""The same for a case about the same asset, which is likeness of its own."""
TIMEOUT_S = 0.9
"""Seconds for one search; the design gives recall one second."""
SEARCHES_AT_ONCE = 4
"""Exact search is bound by the processor: more at once would only time out together. A burst queues here instead."""

SPARE = 8
"""Candidates beyond those asked for: some may have been decided and not been published yet."""

_NEAREST = """
SELECT case_id, max(dotProduct(embedding, VECTOR)) AS similarity, any(decided_at) AS at
FROM memory
PREWHERE embedding_model = {model:String} AND length(embedding) = {dimensions:UInt16}
WHERE run_id = {run_id:String}
  AND decided_at < fromUnixTimestamp64Milli({as_of_ms:Int64}, 'UTC')
  AND case_id != {exclude_case:String}
  AND dotProduct(embedding, VECTOR) >= if(asset != '' AND asset = {asset:String}, {same_asset_floor:Float64}, {floor:Float64})
GROUP BY case_id
ORDER BY similarity DESC, at DESC, case_id
LIMIT {limit:UInt32}
"""
# Exact, and narrow: all vectors are read, of everything else the least; what an entry says is fetched for those found.
# They are normalised, so the dot product is the cosine. PREWHERE: vectors of another length must be gone before it, for
# the engine refuses to multiply them. No FINAL: redelivered rows of a case are alike, and grouping leaves one.

_SAID = """
SELECT case_id, summary, event_type, asset, confidence, decided_at, signal_id
FROM memory
WHERE run_id = {run_id:String} AND case_id IN {cases:Array(String)}
ORDER BY first_wins DESC
LIMIT 1 BY case_id
"""

_TIMELINE = """
SELECT case_id, summary, event_type, asset, confidence, decided_at, signal_id,
       if(length(embedding) = {dimensions:UInt16} AND embedding_model = {model:String},
          1 - cosineDistance(arrayResize(embedding, {dimensions:UInt16}), VECTOR), 0) AS similarity
FROM memory
WHERE run_id = {run_id:String}
  AND decided_at >= fromUnixTimestamp64Milli({since_ms:Int64}, 'UTC')
  AND decided_at < fromUnixTimestamp64Milli({as_of_ms:Int64}, 'UTC')
  AND case_id != {exclude_case:String}
  AND (asset = {asset:String} AND asset != '' OR match(summary, {named:String}))
ORDER BY decided_at DESC, case_id
LIMIT 1 BY case_id
LIMIT {limit:UInt32}
"""

_REVISIONS = """
SELECT signal_id,
       argMaxIf(status, revision, emitted_at < fromUnixTimestamp64Milli({as_of_ms:Int64}, 'UTC')) AS status,
       argMaxIf(confidence, revision, emitted_at < fromUnixTimestamp64Milli({as_of_ms:Int64}, 'UTC')) AS confidence
FROM signals
WHERE run_id = {run_id:String} AND signal_id IN {signals:Array(String)}
GROUP BY signal_id
"""
# Without a revision before that time the status is empty: the signal was not out yet.

_OUTCOMES = """
SELECT case_id, max(horizon_s) AS horizon, argMax(return, horizon_s) AS gain
FROM outcomes FINAL
WHERE case_id IN {cases:Array(String)} AND exit_at < fromUnixTimestamp64Milli({as_of_ms:Int64}, 'UTC')
GROUP BY case_id
"""


class ClickHouseMemory(Free):
    """The port for ``Recall``. Free of charge; ``mode`` is that of the installation it remembers for.

    Guarantees: entries were decided, and their signals emitted, strictly before ``as_of``; outcomes ended before it; a
    withdrawal counts when it was emitted before it; the case itself is never among them; at most ``limit`` of them, most
    similar first. With ``since``: the latest of a subject, in the order of time.
    """

    provider = "clickhouse"

    def __init__(
        self,
        client: ClickHouse,
        *,
        mode: ProviderMode = "offline",
        run_id: str = LIVE_RUN,
        floor: float = SIMILARITY_FLOOR,
        same_asset_floor: float = SAME_ASSET_FLOOR,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        self.mode: ProviderMode = mode
        self._client = client
        self._run_id = run_id
        self._floor = floor
        self._same_asset_floor = same_asset_floor
        self._timeout_s = timeout_s
        self._searches = asyncio.Semaphore(SEARCHES_AT_ONCE)
        self._failed_at = float("-inf")
        self._failure = _unavailable("", retryable=True)

    async def perform(self, effect: Recall) -> Answer:
        """Return the similar past cases, or a Failure of kind unavailable. Raises nothing of ours."""
        now = asyncio.get_running_loop().time
        asked_at = now()
        async with self._searches:
            if self._failed_at >= asked_at:
                # ClickHouse turned out to be away while this one waited: trying again would take it another second.
                return self._failure
            try:
                async with asyncio.timeout(self._timeout_s):
                    entries = await self._recall(effect)
            except TimeoutError:
                why = f"ClickHouse did not answer within {self._timeout_s:g} s: check that it runs, and its load"
                self._failure = _unavailable(why, retryable=True)
            except NewsproofError as exc:
                self._failure = _unavailable(str(exc), retryable=isinstance(exc, TransientError))
            else:
                return Answer(reply=RecallReply(entries=entries), cost_usd=Decimal(0), cost_source="local")
            self._failed_at = now()
            return self._failure

    async def close(self) -> None:
        """Close the client. Idempotent."""
        await self._client.close()

    async def _recall(self, effect: Recall) -> tuple[MemoryEntry, ...]:
        vector = embed(effect.text)
        if not vector:
            return ()
        as_of_ms = round(effect.as_of.timestamp() * 1000)
        since_ms = round(effect.since.timestamp() * 1000) if effect.since else 0
        statement = (_TIMELINE if effect.since else _NEAREST).replace(
            "VECTOR", f"CAST({_literal_vector(vector)}, 'Array(Float32)')"
        )
        found = await self._client.query(
            statement,
            {
                "dimensions": DIMENSIONS,
                "run_id": self._run_id,
                "model": EMBEDDING_MODEL,
                "as_of_ms": as_of_ms,
                "since_ms": since_ms,
                "named": _naming(effect.text),
                "exclude_case": effect.exclude_case,
                "asset": effect.asset,
                "floor": self._floor,
                "same_asset_floor": self._same_asset_floor,
                "limit": effect.limit + SPARE,
            },
        )
        rows = found.dicts() if effect.since else await self._said(found)
        entries = tuple(map(_entry, rows))
        known = (await self.as_known(entries, effect.as_of))[: effect.limit]
        return known[::-1] if effect.since else known

    async def _said(self, nearest: Result) -> list[dict[str, Any]]:
        if not nearest.rows:
            return []
        cases = [case for case, *_ in nearest.rows]
        said = (await self._client.query(_SAID, {"run_id": self._run_id, "cases": cases})).dicts()
        by_case = {row["case_id"]: row for row in said}
        return [{**by_case[case], "similarity": similarity} for case, similarity, _ in nearest.rows if case in by_case]

    async def as_known(self, entries: tuple[MemoryEntry, ...], as_of: datetime) -> tuple[MemoryEntry, ...]:
        """Return the entries as one knew them at a time, whatever they say now.

        A judgement is that of the signal's newest revision emitted before ``as_of``, a withdrawal included; an outcome is
        that of the longest horizon ended before it. A signal that came out later is left out. Of a case whose
        signal is not in the table (yet) the entry's own judgement stays.
        """
        if not entries:
            return ()
        as_of_ms = round(as_of.timestamp() * 1000)
        revisions, outcomes = await asyncio.gather(
            self._revisions(entries, as_of_ms), self._outcomes(entries, as_of_ms)
        )
        known = []
        for entry in entries:
            status, confidence = revisions.get(entry.signal_id or "", ("verified", entry.confidence))
            if status:
                withdrawn = status if status in ("retracted", "superseded") else None
                outcome = outcomes.get(entry.case_id)
                known.append(replace(entry, confidence=confidence, withdrawn=withdrawn, outcome=outcome))
        return tuple(known)

    async def _revisions(self, entries: Sequence[MemoryEntry], as_of_ms: int) -> dict[str, tuple[str, float]]:
        signals = [e.signal_id for e in entries if e.signal_id]
        found = await self._client.query(_REVISIONS, {"run_id": self._run_id, "signals": signals, "as_of_ms": as_of_ms})
        return {signal: (status, confidence) for signal, status, confidence in found.rows}

    async def _outcomes(self, entries: Sequence[MemoryEntry], as_of_ms: int) -> dict[str, str]:
        found = await self._client.query(_OUTCOMES, {"cases": [e.case_id for e in entries], "as_of_ms": as_of_ms})
        return {row["case_id"]: f"{row['gain']:+.1%} after {row['horizon'] / 3600:g} h" for row in found.dicts()}


def _naming(subject: str) -> str:
    # A Latin name stands between other characters: SEC is not in "seconds". RE2, as ClickHouse's match has it.
    name = re.escape(subject)
    return f"(?i)(?:^|[^a-z0-9]){name}(?:[^a-z0-9]|$)" if subject.isascii() else f"(?i){name}"


def _entry(row: dict[str, Any]) -> MemoryEntry:
    return MemoryEntry(
        case_id=row["case_id"],
        summary=row["summary"],
        event_type=row["event_type"],
        asset=row["asset"],
        confidence=row["confidence"],
        # Six digits: the engine's vector instructions differ from machine to machine further down.
        similarity=round(min(1.0, row["similarity"]), 6),
        decided_at=row["decided_at"],
        signal_id=row["signal_id"],
    )


def _unavailable(message: str, *, retryable: bool) -> Answer:
    failure = Failure(kind="unavailable", message=message, retryable=retryable)
    return Answer(reply=failure, cost_usd=Decimal(0), cost_source="local")


def _literal_vector(values: Iterable[float]) -> str:
    # In the statement's text: only numbers, so nothing in it needs quoting.
    return "[" + ",".join(f"{float(v):.6g}" for v in values) + "]"
