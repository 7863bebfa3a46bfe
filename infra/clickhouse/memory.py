"""Recall over ClickHouse: past cases whose text is like this one's, as of the case's own time, by exact cosine search,
or those of one subject in the order of time.

Memory is a projection of the journal (``infra.clickhouse.rows.memory_rows``). A case never waits for it: whatever is
wrong with ClickHouse, the answer is a ``Failure`` of kind ``unavailable`` within a second, and the step says so.

Texts are compared by the vectors of one model (``infra.models.embeddings``). A provider's costs money, and the answer says how
much; it also carries the vector, for that is what the sink will remember the case by.
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
from infra.clickhouse.turns import Turns
from infra.http import UselessAnswerError
from infra.models.embeddings.hashing import length
from infra.models.embeddings.port import Embedder, Hashing, packed
from infra.ports import Answer
from schemas.calls import ProviderMode
from schemas.effects import Failure, Recall, RecallReply
from schemas.evidence import MemoryEntry
from schemas.ids import LIVE_RUN, normalise_text

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

Entries = tuple[MemoryEntry, ...]
SPARE = 8
"""Candidates beyond those asked for: some may have been decided and not been published yet."""

_NEAREST = """
SELECT case_id, summary, event_type, asset, confidence, decided_at, signal_id,
       dotProduct(embedding, VECTOR) / (embedding_norm * {norm:Float64}) AS similarity
FROM memories
PREWHERE embedding_model = {model:String} AND length(embedding) = {dimensions:UInt16}
WHERE run_id = {run_id:String}
  AND decided_at < fromUnixTimestamp64Milli({as_of_ms:Int64}, 'UTC')
  AND similarity >= if(asset != '' AND asset = {asset:String}, {same_asset_floor:Float64}, {floor:Float64})
ORDER BY similarity DESC, decided_at DESC, first_wins DESC
LIMIT {limit:UInt32}
"""
# Exact, and narrow: all vectors are read, of everything else the least. What an entry says, its case's id included, the
# engine fetches for those found; so the case itself and redelivered rows of a case are sorted out here. PREWHERE: vectors of
# another length must be gone before they are multiplied, which the engine refuses.

_TIMELINE = """
SELECT case_id, summary, event_type, asset, confidence, decided_at, signal_id,
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
       argMaxIf(status, revision, emitted_at < fromUnixTimestamp64Milli({as_of_ms:Int64}, 'UTC')) AS status,
       argMaxIf(confidence, revision, emitted_at < fromUnixTimestamp64Milli({as_of_ms:Int64}, 'UTC')) AS confidence
FROM signals
WHERE run_id = {run_id:String} AND signal_id IN {signals:Array(String)}
GROUP BY signal_id
"""
# Without a revision before that time the status is empty: the signal was not out yet.

_OUTCOMES = """
SELECT case_id, max(horizon_s) AS horizon, argMax(newest.2, horizon_s) AS gain
FROM
(
    SELECT case_id, horizon_s, argMax((exit_at, return), version) AS newest
    FROM outcomes
    WHERE case_id IN {cases:Array(String)}
    GROUP BY case_id, horizon_s
)
WHERE newest.1 < fromUnixTimestamp64Milli({as_of_ms:Int64}, 'UTC')
GROUP BY case_id
"""
# The newest version by hand: FINAL took ten times as long, for it merges before it looks at the case.


class ClickHouseMemory:
    """The port for ``Recall``. ``mode`` is that of the installation it remembers for.

    Guarantees: entries were decided, and their signals emitted, strictly before ``as_of``; outcomes ended before it; a
    withdrawal counts when it was emitted before it; the case itself is never among them; at most ``limit`` of them, most
    similar first. With ``since``: the latest of a subject, in the order of time. Only vectors of ``embedder``'s own
    model are compared; without any the answer is empty.
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
        """``embedder`` None = the hashing vector, which is free. ``timeout_s`` bounds what ClickHouse does of one recall."""
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
        """Return the similar past cases, or a Failure of kind unavailable, with what the question's vector cost.

        Raises:
            TransientError, PermanentError: a provider did not make the vector.
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
        """Return the most that the question's vector may cost; 0 where it is free, None = the price is unknown."""
        return self._embedder_of(effect).worst_case_usd(effect.text)

    def quota_units(self, effect: Recall) -> int:
        """Return 0: memory is no metered tool."""
        return 0

    async def close(self) -> None:
        """Close the client and the embedder. Idempotent."""
        await self._embedder.close()
        await self._client.close()

    def _embedder_of(self, effect: Recall) -> Embedder:
        # What a subject's past is, words and assets say; likeness only goes along, and is not worth a cent.
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
        while True:
            found = (await self._client.query(_with(_NEAREST, vector), asked)).dicts()
            first: dict[str, dict[str, Any]] = {}
            for row in found:
                first.setdefault(row["case_id"], row)
            first.pop(effect.exclude_case, None)
            if len(first) >= effect.limit or len(found) < asked["limit"]:
                return list(first.values())
            asked["limit"] *= 4  # many rows of few cases crowd others out

    async def _timeline(self, effect: Recall, asked: dict[str, Any], vector: Sequence[int]) -> list[dict[str, Any]]:
        assert effect.since is not None
        asked |= {"since_ms": round(effect.since.timestamp() * 1000), "named": _naming(effect.text)}
        asked["exclude_case"] = effect.exclude_case
        return (await self._client.query(_with(_TIMELINE, vector), asked)).dicts()

    async def as_known(self, entries: Entries, as_of: datetime) -> Entries:
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


def _with(statement: str, vector: Iterable[int]) -> str:
    # In the statement's text: only numbers, so nothing in it needs quoting. Floats of 24 bits hold the sums exactly.
    return statement.replace("VECTOR", f"CAST([{','.join(map(str, vector))}], 'Array(Float32)')")
