"""Publishing of the news that an investigation finds: a record on the topic ``news``, as any listener writes it."""

from __future__ import annotations

import asyncio
from decimal import Decimal
from typing import Any

import msgspec
from aiokafka.errors import KafkaError

from infra.kafka.address import KafkaAddress
from infra.ports import Answer, Free, Port
from schemas.calls import ProviderMode
from schemas.effects import PublishedReply, PublishNews
from schemas.errors import TransientError
from schemas.topics import Topics


class NewsPublisher(Free, Port):
    """Adapter for ``PublishNews``. Publishing the same item twice is harmless: intake opens one case for it."""

    provider = "news"

    def __init__(self, address: KafkaAddress, topics: Topics, *, mode: ProviderMode) -> None:
        self.mode = mode
        self._address, self._topic = address, topics.news
        self._producer: Any = None
        self._opening = asyncio.Lock()

    async def perform(self, effect: PublishNews) -> Answer:
        """Return once the item is durable.

        Raises:
            TransientError: Kafka does not accept it now.
        """
        news = effect.news
        try:
            producer = await self._opened()
            await producer.send_and_wait(self._topic, msgspec.json.encode(news), key=news.key)
        except (KafkaError, OSError) as exc:
            raise TransientError(
                f"Kafka did not take the news ({exc!r}): check the broker", kind="unavailable"
            ) from exc
        return Answer(reply=PublishedReply(case_id=news.case_id), cost_usd=Decimal(0))

    async def _opened(self) -> Any:
        async with self._opening:
            if self._producer is None:
                producer = self._address.producer(client_id="newsproof-watch-news")
                await producer.start()
                self._producer = producer
        return self._producer

    async def close(self) -> None:
        producer, self._producer = self._producer, None
        if producer is not None:
            await producer.stop()
