"""The index of texts: the first case of every text, exact across workers, read from the journal's opening records.

A request is answered only after the index has read to the journal's ends as they were when it was asked, so every opening
that was appended before this case's own is seen. "Earlier" is (append time at the broker, partition, offset): the same
for every worker, whenever it asks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import timedelta
from decimal import Decimal
from typing import Any

from aiokafka import TopicPartition

from infra.kafka import KafkaAddress, partitions_of
from infra.ports import Answer, Free, Port
from schemas import envelope as wire
from schemas.calls import ProviderMode
from schemas.effects import EarlierReply, FindEarlier
from schemas.envelope import TEXT_HASH_HEADER
from schemas.errors import ContractError, TransientError
from schemas.events import OPENING_NAME, EventReceived
from schemas.topics import Topics
from streams.clock import utc_now
from streams.following import readable

Place = tuple[int, int, int, str]
"""(append time in ms, partition, offset, case id): the order of openings."""

_OPENING = OPENING_NAME.encode()
ANSWER_WITHIN_S = 5.0


class TextIndex(Free, Port):
    """Answers ``FindEarlier``. Free of charge; holds one entry per distinct text of the window."""

    provider = "journal"
    mode: ProviderMode = "live"

    def __init__(
        self,
        address: KafkaAddress,
        topics: Topics,
        *,
        window_days: int = 30,
        also: Sequence[Callable[[Any], None]] = (),
    ) -> None:
        """``also`` are shown every record that is read here: the journal is fetched once for all who follow it."""
        self._also = also
        self._topic = topics.cases
        self._window = timedelta(days=window_days)
        self._consumer = address.consumer(fetch_max_wait_ms=100)
        self._tps: list[TopicPartition] = []
        self._first: dict[str, Place] = {}
        self._moved = asyncio.Condition()
        self._reading: asyncio.Task[None] | None = None
        self._asking: asyncio.Task[dict[TopicPartition, int]] | None = None

    async def start(self) -> None:
        """Start reading the window's openings; requests wait until they are in."""
        await self._consumer.start()
        self._tps = [TopicPartition(self._topic, p) for p in await partitions_of(self._consumer, self._topic)]
        self._consumer.assign(self._tps)
        since = int((utc_now() - self._window).timestamp() * 1000)
        starts = await self._consumer.offsets_for_times(dict.fromkeys(self._tps, since))
        for tp, found in starts.items():
            if found is not None:
                self._consumer.seek(tp, found.offset)
        self._reading = asyncio.create_task(self._read(), name="text-index")

    async def close(self) -> None:
        """Stop reading."""
        if self._reading is not None:
            self._reading.cancel()
        await self._consumer.stop()

    async def perform(self, effect: FindEarlier) -> Answer:
        """Return the first case with this text, None when the asking case is the first.

        Raises:
            TransientError: when the journal could not be read in time.
        """
        try:
            async with asyncio.timeout(ANSWER_WITHIN_S):
                await self._reach(await self._ends())
        except TimeoutError as exc:
            raise TransientError(
                "the journal was not read in time for the duplicate check; it is tried again", kind="timeout"
            ) from exc
        first = self._first.get(effect.text_hash)
        known = first is not None and first[3] != effect.case_id
        return Answer(reply=EarlierReply(first_case=first[3] if first and known else None), cost_usd=Decimal(0))

    async def _ends(self) -> dict[TopicPartition, int]:
        # One look at the ends serves every request that came before it was sent.
        if self._asking is None or self._asking.done():
            self._asking = asyncio.ensure_future(self._look())
        return await asyncio.shield(self._asking)

    async def _look(self) -> dict[TopicPartition, int]:
        await asyncio.sleep(0)
        self._asking = None  # whoever asks from now on may know of an opening that this look is too early for
        ends: dict[TopicPartition, int] = await self._consumer.end_offsets(self._tps)
        return ends

    async def _reach(self, ends: dict[TopicPartition, int]) -> None:
        async with self._moved:
            while True:
                behind = [tp for tp, end in ends.items() if await self._consumer.position(tp) < end]
                if not behind:
                    return
                await self._moved.wait()

    async def _read(self) -> None:
        while True:
            got = await self._consumer.getmany(timeout_ms=1000)
            for tp, records in got.items():
                for record in records:
                    self._take(tp.partition, record)
                    for shown in self._also:
                        shown(record)
            async with self._moved:
                self._moved.notify_all()

    def _take(self, partition: int, record: Any) -> None:
        headers = dict(record.headers)
        if headers.get("ce_type") != _OPENING or TEXT_HASH_HEADER not in headers:
            return
        text = self._text_of(record, headers[TEXT_HASH_HEADER])
        if text is None:
            return
        place = (record.timestamp, partition, record.offset, headers["ce_subject"].decode())
        known = self._first.get(text)
        if known is None or place < known:
            self._first[text] = place

    def _text_of(self, record: Any, said: bytes | None) -> str | None:
        """Return the hash of an opening's text, None where the record opens nothing that may claim it."""
        # A text that is claimed here closes every later case with it as a duplicate: nobody gets it by a header alone.
        try:
            env = readable(record, len(self._tps))
            event = wire.decode(env.type, env.version, record.value)
        except ContractError:
            return None
        assert isinstance(event, EventReceived)
        return event.text_hash if said == event.text_hash.encode() else None
