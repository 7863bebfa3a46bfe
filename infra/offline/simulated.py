"""A simulated provider: an empty reply to everything after a set latency. For benchmarks and chaos runs.

Its mode is ``simulated`` in every call record, so that its figures are never mistaken for a real provider's.
"""

from __future__ import annotations

import asyncio
from decimal import Decimal
from typing import Any

from infra.ports import Answer, Port
from schemas.calls import ProviderMode
from schemas.effects import (
    CallModel,
    ConcernedReply,
    EarlierReply,
    FindConcerned,
    FindEarlier,
    FindStory,
    ModelReply,
    Recall,
    RecallReply,
    Reply,
    Search,
    SearchReply,
    StoryReply,
)


class Simulated(Port):
    """Returns an empty reply after ``latency_s``. ``cost_usd`` is the booked cost of each model or search call.

    With ``metered``, calls reserve budget as paid ones do, and searches count in the daily tool quota.
    """

    provider = "simulated"
    mode: ProviderMode = "simulated"

    def __init__(self, latency_s: float = 0.0, *, cost_usd: Decimal = Decimal("0.001"), metered: bool = False) -> None:
        self.latency_s = latency_s
        self.metered = metered
        self._cost = cost_usd

    async def perform(self, effect: Any) -> Answer:
        if self.latency_s:
            await asyncio.sleep(self.latency_s)
        paid = isinstance(effect, CallModel | Search)
        return Answer(reply=_reply(effect), cost_usd=self._cost if paid else Decimal(0), model="simulated")

    def worst_case_usd(self, effect: Any) -> Decimal | None:
        """Return ``cost_usd`` for a model or search call if ``metered``, else 0."""
        return self._cost if self.metered and isinstance(effect, CallModel | Search) else Decimal(0)

    def quota_units(self, effect: Any) -> int:
        """Return 1 for a search if ``metered``, else 0."""
        return int(self.metered and isinstance(effect, Search))

    async def close(self) -> None: ...


def _reply(effect: Any) -> Reply:
    match effect:
        case Search(provider=provider, query=query):
            return SearchReply(provider=provider, query=query, results=())
        case Recall():
            return RecallReply(entries=())
        case FindEarlier():
            return EarlierReply(first_case=None)
        case FindConcerned():
            return ConcernedReply(claims=())
        case FindStory():
            return StoryReply()
        case _:
            return ModelReply(text="simulated")
