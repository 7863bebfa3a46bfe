"""Vectors of the configured provider for past cases that paid for none (``newsproof memory rebuild --max-cost``).

No case pays for them, so they are in no case's calls and not in the budget of cases: ``--max-cost`` is their limit
(ADR 17). Each batch is stored before the next is requested, so an interrupted run continues where it stopped.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import msgspec

from agents.verification.recall import MAX_RECALL_CHARACTERS
from infra.clickhouse.client import ClickHouse
from infra.clickhouse.columns import MEMORY
from infra.http import UselessAnswerError
from infra.kafka.topics import KafkaAddress, offsets_of, read_range
from infra.models.embeddings import embedder_of
from infra.models.embeddings.hashing import EMBEDDING_MODEL
from infra.models.embeddings.port import Embedded, Embedder
from infra.redaction import redacted
from infra.settings import Settings
from schemas import envelope as wire
from schemas.errors import ConfigError, NewsproofError
from schemas.events import EventReceived
from schemas.ids import normalise_text
from schemas.topics import Topics

TABLE = "memories"
AT_ONCE = 8
"""Concurrent requests, and vectors written together."""

_ROW = ", ".join(MEMORY)
_MISSING = f"""
SELECT DISTINCT case_id FROM {TABLE}
WHERE run_id = 'live' AND embedding_model = '{EMBEDDING_MODEL}' AND notEmpty(embedding)
  AND case_id NOT IN (SELECT case_id FROM {TABLE} WHERE run_id = 'live' AND embedding_model = {{model:String}})
"""
_HASHED = f"""
SELECT {_ROW} FROM {TABLE} FINAL
WHERE run_id = 'live' AND embedding_model = '{EMBEDDING_MODEL}' AND case_id IN {{cases:Array(String)}}
"""


class Vectors(msgspec.Struct, frozen=True, kw_only=True):
    """Vectors made and still missing. ``cost_usd``: None if the price is unknown; ``why``: what ended it early."""

    model: str
    made: int
    missing: int
    cost_usd: Decimal | None
    why: str = ""


def provider_of(settings: Settings) -> Embedder:
    """Return the configured embedding provider.

    Raises:
        ConfigError: none is configured, or its price is unknown.
    """
    embedder = embedder_of(settings)
    if embedder is None:
        raise ConfigError(
            "--max-cost pays for vectors of a provider, and none is configured: set EMBEDDING_PROVIDER (and live mode), "
            "or leave --max-cost away"
        )
    if embedder.worst_case_usd("") is None and not settings.allow_unpriced:
        raise ConfigError(
            f"the price of {embedder.provider}:{embedder.model} is unknown, so --max-cost would be no limit: add it to "
            "infra/models/price_overrides.json, or set ALLOW_UNPRICED=true"
        )
    return embedder


async def add_vectors(
    address: KafkaAddress, topics: Topics, client: ClickHouse, embedder: Embedder, *, max_cost: Decimal
) -> Vectors:
    """Make a vector for every case that has none of this model, in log order. Each case is tried once.

    A refusal by the provider, or reaching ``max_cost``, ends the run; another run makes the missing vectors.
    """
    missing = {case for (case,) in (await client.query(_MISSING, {"model": embedder.rows})).rows}
    paying = _Paying(client, embedder, max_cost)
    if missing:
        await paying.through(address, topics, set(missing))
    return Vectors(
        model=embedder.rows,
        made=paying.made,
        missing=len(missing) - paying.made,
        cost_usd=paying.spent if paying.priced else None,
        why=f" {paying.why}" if paying.why else "",
    )


class _Paying:
    def __init__(self, client: ClickHouse, embedder: Embedder, max_cost: Decimal) -> None:
        self._client, self._embedder, self._max_cost = client, embedder, max_cost
        self.made = 0
        self.spent = Decimal(0)
        self.priced = True
        self.why = ""

    async def through(self, address: KafkaAddress, topics: Topics, missing: set[str]) -> None:
        texts: dict[str, str] = {}
        async for _, records in read_range(address, await offsets_of(address, topics.cases)):
            for record in records:
                if (case := _text_of(record, missing)) is not None and case[0] not in texts:
                    texts[case[0]] = case[1]
                if len(texts) == AT_ONCE:
                    missing.difference_update(texts)
                    await self._batch(texts)
                    texts = {}
                if self.why:
                    return
        await self._batch(texts)

    async def _batch(self, texts: Mapping[str, str]) -> None:
        affordable: dict[str, str] = {}
        worst = self.spent
        for case, text in texts.items():
            worst += self._embedder.worst_case_usd(text) or 0
            if worst > self._max_cost:
                self.why = f"--max-cost {self._max_cost} does not cover more."
                break
            affordable[case] = text
        made = await asyncio.gather(*(self._one(text) for text in affordable.values()))
        await self._write({case: one.vector for case, one in zip(affordable, made, strict=True) if one and one.vector})

    async def _one(self, text: str) -> Embedded | None:
        try:
            made = await self._embedder.embed(text)
        except NewsproofError as exc:
            cost = exc.answer.cost_usd if isinstance(exc, UselessAnswerError) else None
            # The cost of a lost answer is unknown, so the worst case is counted.
            self.spent += (self._embedder.worst_case_usd(text) or Decimal(0)) if cost is None else cost
            self.why = f"Stopped: {redacted(str(exc))}"
            return None
        self.priced = self.priced and made.cost_usd is not None
        self.spent += made.cost_usd or 0
        return made

    async def _write(self, vectors: Mapping[str, list[int]]) -> None:
        if not vectors:
            return
        hashed = (await self._client.query(_HASHED, {"cases": list(vectors)})).dicts()
        rows: list[tuple[Any, ...]] = []
        for row in hashed:
            row |= {"embedding_model": self._embedder.rows, "embedding": vectors[row["case_id"]]}
            row["decided_at"] = round(row["decided_at"].timestamp() * 1000)
            rows.append(tuple(row[name] for name in MEMORY))
        await self._client.insert(TABLE, MEMORY, rows)
        self.made += len(rows)


def _text_of(record: Any, missing: set[str]) -> tuple[str, str] | None:
    """Return (case id, text) if this record opens one of the missing cases; the text is what its recall would embed."""
    case = (record.key or b"").decode("utf-8", "replace")
    if case not in missing or dict(record.headers).get("ce_type") != b"newsproof.event_received":
        return None
    try:
        env = wire.read_envelope(record.headers)
        event = wire.decode(env.type, env.version, record.value)
    except NewsproofError:
        return None  # a dead letter of the sink
    if not isinstance(event, EventReceived) or not normalise_text(event.news.text):
        return None
    return env.case_id, event.news.text[:MAX_RECALL_CHARACTERS]
