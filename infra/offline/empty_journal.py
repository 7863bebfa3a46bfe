"""Memory and duplicate check without a log behind them."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from infra.ports import Answer, Free, Port
from schemas.calls import ProviderMode
from schemas.effects import EarlierReply, FindEarlier, Recall, RecallReply


class EmptyJournal(Free, Port):
    """Memory and duplicate check of a run without a log: nothing is remembered, nothing is a copy."""

    provider = "journal"
    mode: ProviderMode = "offline"

    async def perform(self, effect: Any) -> Answer:
        """Answer that there is nothing."""
        nothing = EarlierReply(first_case=None) if isinstance(effect, FindEarlier) else RecallReply(entries=())
        assert isinstance(effect, FindEarlier | Recall)
        return Answer(reply=nothing, cost_usd=Decimal(0))

    async def close(self) -> None:
        """Nothing to let go of."""
