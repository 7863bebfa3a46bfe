"""Recall over ClickHouse: past cases with similar text, or past cases of one subject, as of the case's own time.

Similarity is an exact cosine search; a subject's cases come in order of time.

Memory is a projection of the journal (``infra.clickhouse.rows.memory_rows``). A case never waits for it: if ClickHouse
fails in any way, the answer is a ``Failure`` of kind ``unavailable`` within a second, and the step reports it.

Texts are compared by the vectors of one model (``infra.models.embeddings``). A provider's vector costs money, and the
answer states the cost. The answer also carries the vector, because the sink stores the case's memory under it.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any

from msgspec.structs import replace

from infra.clickhouse.client import ClickHouse
from infra.clickhouse.query_slots import Turns
from infra.http import UselessAnswerError
from infra.models.embeddings.hashing import length
from infra.models.embeddings.port import Embedder, Hashing, packed
from infra.ports import Answer
from schemas.calls import ProviderMode
from schemas.effects import Failure, Recall, RecallReply
from schemas.evidence import MemoryEntry
from schemas.ids import LIVE_RUN, normalise_text

SIMILARITY_FLOOR = 0.4
"""Minimum cosine that counts as similar. Of the 861 pairs of the sample's 42 news items, 99 % lie below 0.35; the same
news in other words (zh or en) lies above 0.6."""
SAME_ASSET_FLOOR = 0.3
"""The same for a case about the same asset, or whose news hit the same keyword: a similarity in itself."""
TIMEOUT_S = 0.9
"""Seconds for one search; the time budget of a recall is one second."""
SEARCHES_AT_ONCE = 4
"""Exact search is CPU-bound: more at once would only time out together. A burst queues here instead."""

Entries = tuple[MemoryEntry, ...]
SPARE = 8
"""Candidates beyond those asked for: some may have been decided but not published yet."""

_NEAREST = """
SELECT case_id, summary, event_type, asset, confidence, verdict, decided_at, signal_id,
       dotProduct(embedding, VECTOR) / (embedding_norm * {norm:Float64}) AS similarity
FROM memories
PREWHERE embedding_model = {model:String} AND length(embedding) = {dimensions:UInt16}
WHERE run_id = {run_id:String}
  AND decided_at < fromUnixTimestamp64Milli({as_of_ms:Int64}, 'UTC')
  AND similarity >= if(asset != '' AND asset = {asset:String} OR hasAny(keywords, {keywords:Array(String)}),
                       {same_asset_floor:Float64}, {floor:Float64})
ORDER BY similarity DESC, decided_at DESC, first_wins DESC
LIMIT {limit:UInt32}
"""
# An exact search that reads all vectors and as little else as possible. The engine fetches the text columns and the
# case id only for the rows found, so the case itself and a case's redelivered rows are filtered out in Python. PREWHERE
# removes vectors of another length first, because the engine refuses to multiply them.

_TIMELINE = """
SELECT case_id, summary, event_type, asset, confidence, verdict, decided_at, signal_id,
       if(length(embedding) = {dimensions:UInt16} AND embedding_model = {model:String},
          dotProduct(arrayResize(embedding, {dimensions:UInt16}), VECTOR) / (embedding_norm * {norm:Float64}), 0) AS similarity
FROM memories
WHERE run_id = {run_id:String}
  AND decided_at >= fromUnixTimestamp64Milli({since_ms:Int64}, 'UTC')
  AND decided_at < fromUnixTimestamp64Milli({as_of_ms:Int64}, 'UTC')
  AND case_id != {exclude_case:String}
  AND (asset = {asset:String} AND asset != '' OR match(summary, {named:String}))
ORDER BY decided_at DESC, case_id, embedding_model = {model:String} DESC, first_wins DESC
LIMIT 1 BY case_id
LIMIT {limit:UInt32}
"""

_REVISIONS = """
SELECT signal_id,
       argMaxIf(stage, revision, out) AS stage,
       argMaxIf(verdict, revision, out) AS verdict,
       argMaxIf(confidence, revision, out) AS confidence
FROM
(
    SELECT *, emitted_at < fromUnixTimestamp64Milli({as_of_ms:Int64}, 'UTC') AS out
    FROM signals
    WHERE run_id = {run_id:String} AND signal_id IN {signals:Array(String)}
)
GROUP BY signal_id
"""
# The stage is empty without a revision before that time: the signal was not published yet.

_OUTCOMES = """
SELECT case_id, max(horizon_s) AS horizon, argMax(newest.2, horizon_s) AS gain
FROM
(
    SELECT case_id, horizon_s, argMax((greatest(exit_at, entry_at + toIntervalSecond(horizon_s)), return), version) AS newest
    FROM outcomes
    WHERE case_id IN {cases:Array(String)}
    GROUP BY case_id, horizon_s
)
WHERE newest.1 < fromUnixTimestamp64Milli({as_of_ms:Int64}, 'UTC')
GROUP BY case_id
"""
# Known when the horizon is over, also where the market had ended before. argMax rather than FINAL, which took ten times as long, because it merges before it filters by case.


class ClickHouseMemory:
    """Adapter for ``Recall``. ``mode`` is the mode of the installation.

    Guarantees:

    - Entries were decided, and their signals emitted, strictly before ``as_of``.
    - Outcomes ended before ``as_of``; a withdrawal counts only if it was emitted before it.
    - The case itself is never among the entries.
    - There are at most ``limit`` entries, most similar first. With ``since``: a subject's latest, in order of time.
    - Only vectors of ``embedder``'s own model are compared; if there are none, the answer is empty.
    """

    def __init__(
        self,
        client: ClickHouse,
        *,
        mode: ProviderMode = "offline",
        run_id: str = LIVE_RUN,
        embedder: Embedder | None = None,
        floor: float = SIMILARITY_FLOOR,
        same_asset_floor: float = SAME_ASSET_FLOOR,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        """``embedder`` None = the free hashing vector. ``timeout_s`` bounds ClickHouse's part of one recall."""
        self.mode: ProviderMode = mode
        self._hashing = Hashing()
        self._embedder: Embedder = embedder or self._hashing
        self.provider = "clickhouse" if embedder is None else embedder.provider
        self._client = client
        self._run_id = run_id
        self._floor = floor
        self._same_asset_floor = same_asset_floor
        self._turns = Turns(SEARCHES_AT_ONCE, timeout_s=timeout_s)

    async def perform(self, effect: Recall) -> Answer:
        """Return the similar past cases, or a Failure of kind unavailable, with the cost of the query's vector.

        Raises:
            TransientError, PermanentError: the provider did not return a vector.
        """
        embedder = self._embedder_of(effect)
        if embedder is self._hashing:
            asked, made = await embedder.embed(effect.text), None
        else:
            away = await self._turns.ask(self._reach)
            if isinstance(away, Failure):  # before anything is paid
                return Answer(reply=away, cost_usd=Decimal(0), cost_source="local")
            try:
                asked = await embedder.embed(effect.text)
            except UselessAnswerError as exc:
                return exc.answer
            made = packed(asked.vector, embedder.rows, effect.text)
        found = await self._turns.ask(lambda: self._recall(effect, embedder.rows, asked.vector))
        return Answer(
            reply=found if isinstance(found, Failure) else RecallReply(entries=found, embedding=made),
            cost_usd=asked.cost_usd,
            cost_source=asked.cost_source,
            model=None if embedder is self._hashing else embedder.model,
            usage_input_tokens=asked.input_tokens,
        )

    def worst_case_usd(self, effect: Recall) -> Decimal | None:
        """Return the maximum cost of the query's vector; 0 = free, None = the price is unknown."""
        return self._embedder_of(effect).worst_case_usd(effect.text)

    def quota_units(self, effect: Recall) -> int:
        """Return 0: memory is not a metered tool."""
        return 0

    async def close(self) -> None:
        """Close the client and the embedder. Idempotent."""
        await self._embedder.close()
        await self._client.close()

    def _embedder_of(self, effect: Recall) -> Embedder:
        # A subject's past is selected by words and assets; similarity only accompanies it and is not worth paying for.
        return self._hashing if effect.since or not normalise_text(effect.text) else self._embedder

    async def _reach(self) -> Entries:
        await self._client.query("SELECT 1")
        return ()

    async def _recall(self, effect: Recall, model: str, vector: Sequence[int]) -> Entries:
        if not vector:
            return ()
        asked = {
            "dimensions": len(vector),
            "norm": length(vector),
            "run_id": self._run_id,
            "model": model,
            "as_of_ms": round(effect.as_of.timestamp() * 1000),
            "asset": effect.asset,
            "limit": effect.limit + SPARE,
        }
        rows = await (self._timeline(effect, asked, vector) if effect.since else self._nearest(effect, asked, vector))
        known = (await self.as_known(tuple(map(_entry, rows)), effect.as_of))[: effect.limit]
        return known[::-1] if effect.since else known

    async def _nearest(self, effect: Recall, asked: dict[str, Any], vector: Sequence[int]) -> list[dict[str, Any]]:
        asked |= {"floor": self._floor, "same_asset_floor": self._same_asset_floor}
        asked["keywords"] = [word.lower() for word in effect.keywords]
        while True:
            found = (await self._client.query(_with(_NEAREST, vector), asked)).dicts()
            first: dict[str, dict[str, Any]] = {}
            for row in found:
                first.setdefault(row["case_id"], row)
            first.pop(effect.exclude_case, None)
            if len(first) >= effect.limit or len(found) < asked["limit"]:
                return list(first.values())
            asked["limit"] *= 4  # many rows of few cases crowd out others

    async def _timeline(self, effect: Recall, asked: dict[str, Any], vector: Sequence[int]) -> list[dict[str, Any]]:
        assert effect.since is not None
        asked |= {"since_ms": round(effect.since.timestamp() * 1000), "named": _naming(effect.text)}
        asked["exclude_case"] = effect.exclude_case
        return (await self._client.query(_with(_TIMELINE, vector), asked)).dicts()

    async def as_known(self, entries: Entries, as_of: datetime) -> Entries:
        """Return the entries as they were known at ``as_of``, whatever their current state.

        The judgement is that of the signal's newest revision emitted before ``as_of``, including a withdrawal. The
        outcome is that of the longest horizon that ended before it. Entries whose signal was emitted later are left
        out. If a case's signal is not in the table (yet), the entry keeps its own judgement.
        """
        if not entries:
            return ()
        as_of_ms = round(as_of.timestamp() * 1000)
        revisions, outcomes = await asyncio.gather(
            self._revisions(entries, as_of_ms), self._outcomes(entries, as_of_ms)
        )
        known = []
        for entry in entries:
            of_its_own = ("final", entry.verdict, entry.confidence)
            stage, verdict, confidence = revisions.get(entry.signal_id or "", of_its_own)
            if stage:
                withdrawn = stage if stage in ("retracted", "superseded") else None
                known.append(
                    replace(
                        entry,
                        confidence=confidence,
                        verdict=verdict or None,
                        withdrawn=withdrawn,
                        outcome=outcomes.get(entry.case_id),
                    )
                )
        return tuple(known)

    async def _revisions(self, entries: Sequence[MemoryEntry], as_of_ms: int) -> dict[str, tuple[str, str, float]]:
        signals = [e.signal_id for e in entries if e.signal_id]
        found = await self._client.query(_REVISIONS, {"run_id": self._run_id, "signals": signals, "as_of_ms": as_of_ms})
        return {signal: (stage, verdict, confidence) for signal, stage, verdict, confidence in found.rows}

    async def _outcomes(self, entries: Sequence[MemoryEntry], as_of_ms: int) -> dict[str, str]:
        found = await self._client.query(_OUTCOMES, {"cases": [e.case_id for e in entries], "as_of_ms": as_of_ms})
        return {row["case_id"]: f"{row['gain']:+.1%} after {row['horizon'] / 3600:g} h" for row in found.dicts()}


def _naming(subject: str) -> str:
    # A Latin name must match as a whole word: SEC is not in "seconds". RE2 syntax, as ClickHouse's match requires.
    name = re.escape(subject)
    return f"(?i)(?:^|[^a-z0-9]){name}(?:[^a-z0-9]|$)" if subject.isascii() else f"(?i){name}"


def _entry(row: dict[str, Any]) -> MemoryEntry:
    return MemoryEntry(
        case_id=row["case_id"],
        summary=row["summary"],
        event_type=row["event_type"],
        asset=row["asset"],
        confidence=row["confidence"],
        # Six digits: beyond them the result depends on the machine's vector instructions.
        similarity=round(min(1.0, row["similarity"]), 6),
        decided_at=row["decided_at"],
        signal_id=row["signal_id"],
        verdict=row["verdict"] or None,
    )


def _with(statement: str, vector: Iterable[int]) -> str:
    # Pasted into the text: only numbers, so nothing needs quoting. Float32's 24-bit mantissa holds the sums exactly.
    return statement.replace("VECTOR", f"CAST([{','.join(map(str, vector))}], 'Array(Float32)')")
