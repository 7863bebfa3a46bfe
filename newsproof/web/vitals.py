"""Metrics of the whole pipeline for the line at the top of the page: incoming and waiting news, and the budget left.

They are read on request, so that a page that nobody has open costs nothing.
"""

from __future__ import annotations

import asyncio
import time
from datetime import timedelta
from decimal import Decimal

import msgspec
import structlog
from aiokafka import TopicPartition
from aiokafka.errors import KafkaError

from infra.kafka.topics import KafkaAddress, committed_by, partitions_of
from schemas.errors import NewsproofError
from schemas.topics import NewerRecordError, Topics
from streams.budget.reading import fold_budget
from streams.budget.rule import BudgetState
from streams.journal.clock import utc_now

log = structlog.get_logger(__name__)

READ_FOR_S = 10.0
"""Time for which a reading is reused."""
WAIT_S = 1.5
"""Maximum wait of a response for a running reading. After it, the previous reading is returned."""
_NANO_USD = Decimal(10) ** -9


class BudgetLeft(msgspec.Struct, frozen=True, kw_only=True):
    """The budget left: USD of this UTC month and tool calls of this UTC day, each with its limit."""

    usd: Decimal
    of_usd: Decimal
    calls: int
    of_calls: int


class Vitals(msgspec.Struct, frozen=True, kw_only=True):
    """None: unknown. ``news_last_hour``: records of ``news`` by append time. ``news_waiting``: those that intake has
    not finished. ``budget`` is also None if no worker has written limits."""

    news_last_hour: int | None = None
    news_waiting: int | None = None
    budget: BudgetLeft | None = None


class VitalsReader:
    """Reads the metrics of one installation. The budget is folded once, and then from the end of the last reading."""

    def __init__(self, address: KafkaAddress, topics: Topics) -> None:
        self._address, self._topics = address, topics
        self._budget, self._next = BudgetState(), 0
        self._known, self._read_at = Vitals(), float("-inf")
        self._reading: asyncio.Task[None] | None = None

    async def read(self) -> Vitals:
        """Return the metrics, at most ``READ_FOR_S`` old if Kafka responds in time."""
        if time.monotonic() - self._read_at > READ_FOR_S and (self._reading is None or self._reading.done()):
            self._reading = asyncio.create_task(self._read(), name="vitals")
        if self._reading is not None:
            await asyncio.wait({self._reading}, timeout=WAIT_S)
        return self._known

    def stop(self) -> None:
        """End a running reading."""
        if self._reading is not None:
            self._reading.cancel()

    async def _read(self) -> None:
        try:
            came, waits = await self._news()
            self._known = Vitals(news_last_hour=came, news_waiting=waits, budget=await self._left())
        except (NewsproofError, KafkaError, OSError) as exc:
            log.info("the metrics of the pipeline are not known", why=repr(exc)[:300])
            self._known = Vitals()
        self._read_at = time.monotonic()

    async def _news(self) -> tuple[int | None, int | None]:
        since = int((utc_now() - timedelta(hours=1)).timestamp() * 1000)
        async with self._address.reading() as consumer:
            tps = [TopicPartition(self._topics.news, n) for n in await partitions_of(consumer, self._topics.news)]
            if not tps:
                return None, None
            then = await consumer.offsets_for_times(dict.fromkeys(tps, since))
            first, ends = await consumer.beginning_offsets(tps), await consumer.end_offsets(tps)
        done = await committed_by(self._address, self._topics.group("worker"))
        came = sum(ends[tp] - then[tp].offset for tp in tps if then[tp] is not None)
        return came, sum(ends[tp] - (done[tp].offset if tp in done else first[tp]) for tp in tps)

    async def _left(self) -> BudgetLeft | None:
        # An interrupted fold is restarted, because folding a record twice would book it twice.
        state, first = self._budget, self._next
        self._budget, self._next = BudgetState(), 0
        try:
            after = await fold_budget(self._address, self._topics, state, first)
        except NewerRecordError as exc:
            log.warning("the budget is not known here", why=str(exc))
            return None
        self._budget, self._next = state, after
        if (limits := state.limits) is None:
            return None
        nano, _, calls = state.left(utc_now())
        return BudgetLeft(usd=nano * _NANO_USD, of_usd=limits.monthly_usd, calls=calls, of_calls=limits.daily_units)
