"""The newest brief of a subject, read from ClickHouse, for the investigation that goes on from it.

An outage of ClickHouse becomes a ``Failure`` of kind ``unavailable``, and the investigation says so and goes on. The tables keep what a brief says for 90 days.
"""

from __future__ import annotations

from decimal import Decimal

import msgspec

from infra.clickhouse.client import ClickHouse
from infra.clickhouse.query_slots import Turns
from infra.clickhouse.record import epoch_ms
from infra.ports import Answer, Free
from schemas.calls import ProviderMode
from schemas.effects import BriefReply, Failure, FindBrief
from schemas.evidence import PreviousBrief, PreviousClaim
from schemas.ids import RESEARCH_RUN
from schemas.investigation_events import BriefWritten

WITHIN_S = 10.0
"""Timeout in seconds. An investigation takes minutes; what is new in it depends on this one answer."""
_NEWEST = """
SELECT case_id, payload
FROM events
WHERE run_id = {run_id:String} AND event_type = 'newsproof.brief_written' AND case_id != {exclude:String}
  AND if({wanted:String} != '', case_id = {wanted:String},
         JSONExtractString(payload, 'subject_key') = {subject:String}
         AND JSONExtractString(payload, 'language') = {language:String}
         AND parseDateTime64BestEffortOrZero(JSONExtractString(payload, 'as_of'), 3, 'UTC')
             <= fromUnixTimestamp64Milli({as_of_ms:Int64}, 'UTC'))
ORDER BY parseDateTime64BestEffortOrZero(JSONExtractString(payload, 'as_of'), 3, 'UTC') DESC, event_time DESC
LIMIT 1
"""


class FoundBriefs(Free):
    """Port for ``FindBrief``. Free of charge. ``mode`` is the provider mode of the installation it reads from."""

    provider = "clickhouse"

    def __init__(self, client: ClickHouse, *, mode: ProviderMode = "offline", timeout_s: float = WITHIN_S) -> None:
        self.mode: ProviderMode = mode
        self._client = client
        self._turns = Turns(2, timeout_s=timeout_s)

    async def perform(self, effect: FindBrief) -> Answer:
        """Return the brief, or a ``Failure`` of kind ``unavailable``. Raises no ``NewsproofError``."""
        found = await self._turns.ask(lambda: self._find(effect))
        reply = found if isinstance(found, Failure) else BriefReply(brief=found[0] if found else None)
        return Answer(reply=reply, cost_usd=Decimal(0), cost_source="local")

    async def close(self) -> None:
        await self._client.close()

    async def _find(self, effect: FindBrief) -> tuple[PreviousBrief, ...]:
        asked = {
            "run_id": RESEARCH_RUN,
            "exclude": effect.exclude_case,
            "wanted": effect.investigation or "",
            "subject": effect.subject,
            "language": effect.language,
            "as_of_ms": epoch_ms(effect.as_of),
        }
        rows = (await self._client.query(_NEWEST, asked)).rows
        return tuple(_previous(case_id, msgspec.json.decode(payload, type=BriefWritten)) for case_id, payload in rows)


def _previous(case_id: str, brief: BriefWritten) -> PreviousBrief:
    urls = {r.number: r.url for r in brief.references}
    return PreviousBrief(
        investigation_id=case_id,
        as_of=brief.as_of,
        claims=tuple(
            PreviousClaim(
                claim=c.claim, verdict=c.verdict, urls=tuple(urls[e.number] for e in c.evidence if e.number in urls)
            )
            for c in brief.claims
        ),
        urls=tuple(urls.values()),
    )
