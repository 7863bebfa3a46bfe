"""The ports of a run without a log, such as that of judged cases: memory and duplicate check, both empty."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from infra.ports import Answer, Free, Port
from schemas.calls import ProviderMode
from schemas.effects import EarlierReply, FindEarlier, Recall, RecallReply


class EmptyJournal(Free, Port):
    """Port for ``Recall`` and ``FindEarlier``: no memories, no duplicates."""

    provider = "journal"
    mode: ProviderMode = "offline"

    async def perform(self, effect: Any) -> Answer:
        nothing = EarlierReply(first_case=None) if isinstance(effect, FindEarlier) else RecallReply(entries=())
        assert isinstance(effect, FindEarlier | Recall)
        return Answer(reply=nothing, cost_usd=Decimal(0))

    async def close(self) -> None: ...
