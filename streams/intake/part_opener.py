"""Opens the cases of a message's further claims, when its first case asks for it. No news item opens them, and no slot is
waited for: the first case holds one while it waits, and two that wait for each other would end neither. An open one holds a
slot like any case, so news waits longer.
"""

from __future__ import annotations

import asyncio
from decimal import Decimal

from infra.kafka.topics import KafkaAddress
from infra.ports import Answer, Free, Port
from schemas import envelope as wire
from schemas.calls import ProviderMode
from schemas.effects import OpenPart, PublishedReply
from schemas.events import EventReceived
from schemas.ids import LIVE_RUN, part_id, uuid5
from schemas.topics import Topics, partition_of
from streams.journal.appender import Appender
from streams.journal.clock import utc_now


class PartOpener(Free, Port):
    """Answers ``OpenPart``, free of charge. An id follows from the first case and the asset, so the journal opens it once."""

    provider = "journal"
    mode: ProviderMode = "live"

    def __init__(self, address: KafkaAddress, topics: Topics, *, partitions: int) -> None:
        """``partitions``: the journal's count."""
        self._address, self._topic, self._partitions = address, topics.cases, partitions
        self._appender: Appender | None = None
        self._starting = asyncio.Lock()

    async def perform(self, effect: OpenPart) -> Answer:
        """Return once the opening is durable, however long it takes.

        Raises:
            ContractError: it is larger than Kafka accepts (reason ``too_large``).
        """
        case = part_id(effect.part.first_case, effect.part.asset)
        event = EventReceived(
            news=effect.news,
            config_hash=effect.config_hash,
            text_hash=effect.text_hash,
            language=effect.language,
            authenticated=effect.authenticated,
            part=effect.part,
        )
        key, value, headers = wire.encode(
            event, id=uuid5("opening", LIVE_RUN, case), case_id=case, causation_id=None, run_id=LIVE_RUN, time=utc_now()
        )
        where = partition_of(case, self._partitions)
        await (await self._started()).append(self._topic, value, key=key, partition=where, headers=headers)
        return Answer(reply=PublishedReply(case_id=case), cost_usd=Decimal(0))

    async def _started(self) -> Appender:
        async with self._starting:
            if self._appender is None:
                appender = Appender(self._address, client_id="newsproof-parts")
                await appender.start()
                self._appender = appender
        return self._appender

    async def close(self) -> None:
        appender, self._appender = self._appender, None
        if appender is not None:
            await appender.stop()
