"""Recall: past cases with similar text, or past cases of one subject, as of the case's own time.

Similar cases are found by an exact cosine search. A subject's cases are sorted by time.

Memory is a projection of the journal (``infra.clickhouse.rows.memory_rows``). Recall searches a copy of it in its own
process (``infra.clickhouse.memory_copy``). The copy is updated from the tables at most once a second, so a burst of
recalls queries ClickHouse once, not once each. A case never waits long for memory. While ClickHouse does not respond,
the copy remains valid for 30 s. After that, recall returns a ``Failure`` of kind ``unavailable`` within a second, and
the step reports it. A recall may wait longer only during the first read of a large memory: up to 20 s after that read
began.

Texts are compared by the vectors of one model (``infra.models.embeddings``). A provider's vector costs money, and the
``Answer`` states the cost. The reply also contains the vector, because the sink stores the case's memory under it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Literal

from infra.clickhouse.client import ClickHouse
from infra.clickhouse.memory_copy import MemoryCopy
from infra.clickhouse.memory_entries import Entries, MemoryRow
from infra.clickhouse.record import epoch_ms
from infra.http import UselessAnswerError
from infra.models.embeddings.port import Embedder, Hashing, packed
from infra.ports import Answer
from schemas.calls import ProviderMode
from schemas.effects import Failure, Recall, RecallReply
from schemas.errors import NewsproofError, TransientError
from schemas.evidence import MemoryEntry
from schemas.ids import LIVE_RUN, normalise_text

SIMILARITY_FLOOR = 0.4
"""Minimum cosine that counts as similar. In the sample, 99 % of the 861 pairs of its 42 news items are below 0.35; the
same news in other words (zh or en) is above 0.6."""
SAME_ASSET_FLOOR = 0.3
"""Minimum cosine for a case about the same asset, or whose news matched the same keyword: a similarity in itself."""
TIMEOUT_S = 0.9
"""Seconds within which ClickHouse must respond; the time budget of a recall is one second."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_WITHDRAWN: dict[str, Literal["retracted", "superseded"]] = {"retracted": "retracted", "superseded": "superseded"}


class ClickHouseMemory:
    """Adapter for ``Recall``. ``mode`` is the mode of the installation.

    Guarantees:

    - Entries were decided, and their signals emitted, strictly before ``as_of``.
    - Outcomes ended before ``as_of``. A signal is marked as retracted or superseded only if that revision was emitted
      before ``as_of``.
    - The case itself is never among the entries.
    - There are at most ``limit`` entries, most similar first. With ``since``: a subject's latest, in order of time.
    - Only vectors of ``embedder``'s own model are compared; if there are none, the reply is empty.
    - The search covers everything that was in the tables a second ago; while ClickHouse is slow or does not respond, at
      most ``MAX_AGE_S`` ago.
    """

    def __init__(
        self,
        client: ClickHouse,
        *,
        mode: ProviderMode = "offline",
        embedder: Embedder | None = None,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        """``embedder`` None = the free hashing vector. ``timeout_s``: maximum wait of a recall for ClickHouse."""
        self.mode: ProviderMode = mode
        self.timeout_s = timeout_s
        self._hashing = Hashing()
        self._embedder: Embedder = embedder or self._hashing
        self.provider = "clickhouse" if embedder is None else embedder.provider
        self._client = client
        self._copy = MemoryCopy(client, LIVE_RUN)

    async def perform(self, effect: Recall) -> Answer:
        """Return the past cases, or a Failure of kind unavailable, with the cost of the query's vector.

        Raises:
            TransientError, PermanentError: the provider did not return a vector.
        """
        embedder = self._embedder_of(effect)
        try:  # before the call that costs money
            entries = await self._copy.fresh(embedder.rows, timeout_s=self.timeout_s)
        except NewsproofError as exc:
            away = Failure(kind="unavailable", message=str(exc), retryable=isinstance(exc, TransientError))
            return Answer(reply=away, cost_usd=Decimal(0), cost_source="local")
        try:
            asked = await embedder.embed(effect.text)
        except UselessAnswerError as exc:
            return exc.answer
        free = embedder is self._hashing
        made = None if free else packed(asked.vector, embedder.rows, effect.text)
        return Answer(
            reply=RecallReply(entries=self._recalled(effect, entries, asked.vector), embedding=made),
            cost_usd=asked.cost_usd,
            cost_source=asked.cost_source,
            model=None if free else embedder.model,
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
        await self._copy.close()
        await self._client.close()

    def _embedder_of(self, effect: Recall) -> Embedder:
        # A subject's past is selected by words and assets; its similarity is extra information, not worth paying for.
        return self._hashing if effect.since or not normalise_text(effect.text) else self._embedder

    def _recalled(self, effect: Recall, entries: Entries, vector: Sequence[int]) -> tuple[MemoryEntry, ...]:
        as_of_ms, known = epoch_ms(effect.as_of), list[MemoryEntry]()
        for row, similarity in self._found(effect, entries, vector, as_of_ms) if vector else ():
            if len(known) == effect.limit:
                break
            if row.case_id != effect.exclude_case and (entry := self._as_known(row, similarity, as_of_ms)) is not None:
                known.append(entry)
        return tuple(reversed(known) if effect.since else known)

    def _found(
        self, effect: Recall, entries: Entries, vector: Sequence[int], as_of_ms: int
    ) -> Iterator[tuple[MemoryRow, float]]:
        if effect.since:
            since_ms, named = epoch_ms(effect.since), _naming(effect.text)
            return entries.timeline(vector, since_ms, as_of_ms, asset=effect.asset, named=named)
        keywords = {word.lower() for word in effect.keywords}
        return entries.nearest(
            vector, as_of_ms, floor=SIMILARITY_FLOOR, near=SAME_ASSET_FLOOR, asset=effect.asset, keywords=keywords
        )

    def _as_known(self, row: MemoryRow, similarity: float, as_of_ms: int) -> MemoryEntry | None:
        """Return the entry as known at that time, whatever its current state; None if its signal was emitted later.

        The judgement is that of the signal's newest revision emitted before that time, which may be a retraction. If
        the signal is not in the table (yet), the entry keeps its own judgement. The outcome is that of the longest
        horizon that had ended.
        """
        revision, outcome = (
            self._copy.revision_of(row.signal_id, as_of_ms),
            self._copy.outcome_of(row.case_id, as_of_ms),
        )
        if revision is not None and not revision.stage:
            return None
        verdict, confidence = (
            (row.verdict, row.confidence) if revision is None else (revision.verdict, revision.confidence)
        )
        return MemoryEntry(
            case_id=row.case_id,
            summary=row.summary,
            event_type=row.event_type,
            asset=row.asset,
            confidence=confidence,
            # Six digits: beyond them the result depends on the machine's vector instructions.
            similarity=round(min(1.0, similarity), 6),
            decided_at=_EPOCH + timedelta(milliseconds=row.decided_ms),
            signal_id=row.signal_id,
            verdict=verdict or None,
            withdrawn=None if revision is None else _WITHDRAWN.get(revision.stage),
            outcome=None if outcome is None else f"{outcome.gain:+.1%} after {outcome.horizon_s / 3600:g} h",
        )


def _naming(subject: str) -> re.Pattern[str]:
    # A Latin name must match as a whole word: SEC is not in "seconds".
    name = re.escape(subject)
    return re.compile(f"(?i)(?:^|[^a-z0-9]){name}(?:[^a-z0-9]|$)" if subject.isascii() else f"(?i){name}")
