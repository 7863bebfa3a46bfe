"""Writer of the web service's records: questions, investigations and commands for the journal ``research``; news."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import Any, TypeVar

from aiokafka.errors import KafkaError
from msgspec.structs import replace

from infra.kafka.topics import KafkaAddress, offsets_of
from newsproof.sdk.client import NewsItem
from schemas import envelope as wire
from schemas.config import Snapshot
from schemas.errors import TransientError
from schemas.events import CancelRequested, Event
from schemas.ids import RESEARCH_RUN, investigation_id, uuid5
from schemas.news import News, language_of
from schemas.research_events import ChatMessage, FinishRequested, InvestigationAsked, QuestionAsked
from schemas.topics import Topics, partition_of
from streams.feed.turns import TurnItem, investigation_item
from streams.journal.appender import Appender
from streams.journal.clock import utc_now
from streams.journal.configs import ConfigStore
from streams.journal.retry import is_away, retry_while_unavailable

WITHIN_S = 15.0
_AGAIN_S = 1.0
_BY = "web"
T = TypeVar("T")


class Unconfirmed(TransientError):  # noqa: N818 - it may have worked
    """Kafka has not confirmed a question in time: it may be in the log, or arrive there later."""

    def __init__(self, chat_id: str) -> None:
        super().__init__("Kafka has not confirmed the question in time: it may still be answered", kind="timeout")
        self.chat_id = chat_id


class Questions:
    """Writer of ``research`` and ``news``. :meth:`run` first connects and publishes the snapshots that questions pin.

    ``snapshot`` is for turns, ``investigating`` for investigations.
    """

    def __init__(self, address: KafkaAddress, topics: Topics, snapshot: Snapshot, investigating: Snapshot) -> None:
        self._address, self._topic, self._snapshot = address, topics.research, snapshot
        self._news = topics.news
        self._investigating = investigating
        self._partitions = 0
        self._clients: Callable[[], tuple[Appender, ConfigStore]] = lambda: (
            Appender(address, client_id="newsproof-web"),
            ConfigStore(address, topics),
        )
        self._appender: Appender | None = None
        self._configs: ConfigStore | None = None
        self._ready = asyncio.Event()

    async def run(self) -> None:
        """Connect, also to a broker that becomes available later, and stay ready until cancelled."""
        await retry_while_unavailable(self._stay_ready, "the writer of questions", unavailable=is_away)

    async def _stay_ready(self) -> None:
        appender, configs = self._clients()
        try:
            await appender.start()
            await configs.start()
            self._configs = configs
            for snapshot in (self._snapshot, self._investigating):
                await configs.publish(snapshot, appender)
            # The topics may not exist yet, and nothing announces their creation.
            while not (partitions := len(await offsets_of(self._address, self._topic))):  # noqa: ASYNC110
                await asyncio.sleep(_AGAIN_S)
            self._partitions, self._appender = partitions, appender
            self._ready.set()
            await asyncio.Event().wait()
        finally:
            await configs.stop()
            await appender.stop()

    def config_of(self, config_hash: str) -> Snapshot | None:
        """Return a snapshot that a turn pins; None until it has been read from its topic."""
        return None if self._configs is None else self._configs.get(config_hash)

    async def ask(
        self, message: str, history: tuple[ChatMessage, ...], *, conversation: str | None, previous: str | None
    ) -> TurnItem:
        """Append a question; return its turn once it is in the log.

        Raises:
            TransientError: Kafka is unavailable, and nothing was asked.
            Unconfirmed: it may have been asked.
        """
        await self._writer("Kafka is not responding, so the question was not asked: try again when it is back")
        chat_id, at = str(uuid.uuid4()), utc_now()
        event = QuestionAsked(
            message=message,
            config_hash=self._snapshot.config_hash,
            language=language_of(News(source="", text=message, published_at=at)),
            chat_id=conversation or chat_id,
            history=history,
            previous=previous,
        )
        try:
            partition, offset = await self._append(chat_id, event, event_id=uuid5("question", chat_id), at=at)
        except TransientError as exc:
            raise Unconfirmed(chat_id) from exc
        return TurnItem(
            chat_id=chat_id,
            conversation=event.chat_id,
            message=message,
            asked_at=at,
            previous=previous,
            language=event.language,
            config_hash=event.config_hash,
            first_offset=offset,
            partition=partition,
        )

    async def investigate(self, key: str, event: InvestigationAsked) -> TurnItem:
        """Append the opening of an investigation; return it once it is in the log. One ``key`` opens one investigation.

        Its configuration is added here.

        Raises:
            TransientError: Kafka is unavailable, and nothing was asked.
            Unconfirmed: it may have been asked.
        """
        await self._writer("Kafka is not responding, so no investigation was started: try again when it is back")
        case_id, at = investigation_id(key), utc_now()
        event = replace(event, config_hash=self._investigating.config_hash)
        try:
            partition, offset = await self._append(case_id, event, event_id=uuid5("opened", case_id), at=at)
        except TransientError as exc:
            raise Unconfirmed(case_id) from exc
        return investigation_item(case_id, event, at, offset, partition)

    async def stop(self, chat_id: str) -> None:
        """Request the turn to end. Idempotent.

        Raises:
            TransientError: Kafka is unavailable.
        """
        await self._command(chat_id, "stop", CancelRequested(requested_by=_BY, reason="stopped by its user"))

    async def finish(self, chat_id: str) -> None:
        """Request the turn to answer from the results so far. Idempotent.

        Raises:
            TransientError: Kafka is unavailable.
        """
        await self._command(chat_id, "finish", FinishRequested(requested_by=_BY))

    async def publish(self, items: Sequence[NewsItem]) -> None:
        """Append checked news; return once all of it is in the log.

        Raises:
            TransientError: Kafka has not confirmed it in time.
        """
        away = "Kafka has not confirmed the news: publish it again when Kafka is back; an item that arrives twice counts once"
        append = (await self._writer(away)).append
        await _in_time(asyncio.gather(*(append(self._news, i.value, key=i.key, partition=None) for i in items)), away)

    async def send(self, topic: str, value: bytes, **record: Any) -> None:
        """Append one record to a topic; return once it is in the log.

        Raises:
            TransientError: Kafka has not confirmed it in time.
        """
        away = "Kafka has not confirmed it: send it again when Kafka is back"
        writer = await self._writer(away)
        await _in_time(writer.append(topic, value, **{"partition": None, **record}), away)

    async def _writer(self, away: str) -> Appender:
        """Return the appender once it is connected. ``away``: what to say if it is not in time."""
        await _in_time(self._ready.wait(), away)
        assert self._appender is not None
        return self._appender

    async def _command(self, chat_id: str, name: str, event: Event) -> None:
        await self._append(chat_id, event, event_id=uuid5("command", chat_id, name), at=utc_now())

    async def _append(self, chat_id: str, event: Event, *, event_id: str, at: datetime) -> tuple[int, int]:
        key, value, headers = wire.encode(
            event, id=event_id, case_id=chat_id, causation_id=None, run_id=RESEARCH_RUN, time=at, source="newsproof-web"
        )
        away = "Kafka is not responding: try again when it is back; a repeated request counts once"
        writer, partition = await self._writer(away), partition_of(chat_id, self._partitions)
        appending = writer.append(self._topic, value, key=key, partition=partition, headers=headers)
        return await _in_time(appending, away)


async def _in_time(work: Awaitable[T], away: str) -> T:
    try:
        async with asyncio.timeout(WITHIN_S):
            return await work
    except (TimeoutError, KafkaError) as exc:
        raise TransientError(away, kind="unavailable") from exc
