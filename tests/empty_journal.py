"""The ports of a run without a log, such as that of judged cases: memory, duplicate check and stories, all empty."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from infra.ports import Answer, Free, Port
from schemas.calls import ProviderMode
from schemas.effects import EarlierReply, FindEarlier, FindStory, Recall, RecallReply, Reply, StoryReply


class EmptyJournal(Free, Port):
    """Port for ``Recall``, ``FindEarlier`` and ``FindStory``: no memories, no duplicates, no other tellings."""

    provider = "journal"
    mode: ProviderMode = "offline"

    async def perform(self, effect: Any) -> Answer:
        return Answer(reply=_NOTHING[type(effect)], cost_usd=Decimal(0))

    async def close(self) -> None: ...


_NOTHING: dict[type[Any], Reply] = {
    FindEarlier: EarlierReply(first_case=None),
    FindStory: StoryReply(),
    Recall: RecallReply(entries=()),
}
