"""Signals of the news pipeline for the research chat, read from ClickHouse as of a time.

A chat never waits for ClickHouse. Any failure of it becomes a ``Failure`` of kind ``unavailable`` within a second.
"""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from infra.clickhouse.client import ClickHouse
from infra.clickhouse.query_slots import Turns
from infra.ports import Answer, Free
from schemas.calls import ProviderMode
from schemas.effects import Failure, FindSignals, SignalsReply
from schemas.evidence import FoundSignal
from schemas.ids import LIVE_RUN

TIMEOUT_S = 0.9
"""Timeout in seconds of both queries together."""
AT_ONCE = 4
"""Limit of concurrent requests. More would only time out together, so a burst queues here instead."""
MAX_SIGNALS = 50
"""Upper limit of signals, whatever the effect asks for."""
MAX_SOURCES = 5

REVISIONS = 4
"""Rows read per requested signal: a signal may have several revisions, or redelivered rows. When they yield too few
signals, the query is repeated with ten times as many.
"""

_KNOWN = """
FROM signals
WHERE run_id = {run_id:String}
  AND decided_at >= fromUnixTimestamp64Milli({since_ms:Int64}, 'UTC')
  AND decided_at < fromUnixTimestamp64Milli({as_of_ms:Int64}, 'UTC')
  AND emitted_at < fromUnixTimestamp64Milli({as_of_ms:Int64}, 'UTC')
"""
# Months before `since` are not read at all: the table is partitioned by decided_at.

_NEWEST = f"""
SELECT signal_id
{_KNOWN}
  AND ({{asset:String}} = '' OR upper(asset) = {{asset:String}})
ORDER BY decided_at DESC, signal_id
LIMIT {{rows:UInt32}}
"""
# The newest rows, not the newest signals: ClickHouse finds those with a heap, while grouping would hold all of them in
# memory.

_SAID = f"""
SELECT signal_id, case_id, asset, event_type, action, direction, confidence, stage, verdict, summary,
       decided_at, risk_flags, arrayMap(e -> tupleElement(e, 'url'), evidence) AS evidence_urls, links, provider_mode
{_KNOWN}
  AND signal_id IN {{signals:Array(String)}}
ORDER BY revision DESC, first_wins DESC
LIMIT 1 BY signal_id
"""


class FoundSignals(Free):
    """Port for ``FindSignals``. Free of charge. ``mode`` is the provider mode of the installation it reads from.

    For each signal it returns the newest revision emitted strictly before ``as_of``. Signals were decided within the
    requested time, come newest first, at most ``limit``, numbered from 1. Withdrawn ones are included, marked by
    ``stage``.
    """

    provider = "clickhouse"

    def __init__(
        self,
        client: ClickHouse,
        *,
        mode: ProviderMode = "offline",
        run_id: str = LIVE_RUN,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        self.mode: ProviderMode = mode
        self._client = client
        self._run_id = run_id
        self._turns = Turns(AT_ONCE, timeout_s=timeout_s)

    async def perform(self, effect: FindSignals) -> Answer:
        """Return the signals, or a ``Failure`` of kind ``unavailable``. Raises no ``NewsproofError``."""
        found = await self._turns.ask(lambda: self._find(effect))
        reply = found if isinstance(found, Failure) else SignalsReply(signals=found)
        return Answer(reply=reply, cost_usd=Decimal(0), cost_source="local")

    async def close(self) -> None:
        await self._client.close()

    async def _find(self, effect: FindSignals) -> tuple[FoundSignal, ...]:
        limit = min(effect.limit, MAX_SIGNALS)
        if limit < 1:
            return ()
        asked: dict[str, Any] = {
            "run_id": self._run_id,
            "since_ms": round(effect.since.timestamp() * 1000),
            "as_of_ms": round(effect.as_of.timestamp() * 1000),
            "asset": effect.asset.strip().upper().lstrip("$"),
        }
        signals = await self._newest(asked, limit)
        if not signals:
            return ()
        rows = (await self._client.query(_SAID, {**asked, "signals": signals})).dicts()
        rows.sort(key=lambda row: row["signal_id"])
        rows.sort(key=lambda row: row["decided_at"], reverse=True)
        return tuple(_signal(number, row) for number, row in enumerate(rows, start=1))

    async def _newest(self, asked: dict[str, Any], limit: int) -> list[str]:
        rows = limit * REVISIONS
        while True:
            found = (await self._client.query(_NEWEST, {**asked, "rows": rows})).rows
            signals = list(dict.fromkeys(row[0] for row in found))
            if len(signals) >= limit or len(found) < rows:
                return signals[:limit]
            rows *= 10


def _signal(number: int, row: dict[str, Any]) -> FoundSignal:
    urls = dict.fromkeys(url for url in (*row["evidence_urls"], *row["links"]) if url)
    decided: datetime = row["decided_at"]
    return FoundSignal(
        number=number,
        case_id=row["case_id"],
        signal_id=row["signal_id"],
        asset=row["asset"],
        event_type=row["event_type"],
        action=row["action"],
        direction=row["direction"],
        confidence=row["confidence"],
        stage=row["stage"],
        verdict=row["verdict"] or None,
        summary=row["summary"],
        decided_at=decided if decided.tzinfo else decided.replace(tzinfo=UTC),
        risk_flags=tuple(row["risk_flags"]),
        sources=tuple(urls)[:MAX_SOURCES],
        provider_mode=row["provider_mode"],
    )
