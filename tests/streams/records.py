"""Journal records as the runtime would write them, for tests that write the log by hand."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import msgspec

from infra.kafka.topics import topic_specs
from schemas import envelope as wire
from schemas import events as ev
from schemas.calls import Call
from schemas.effects import ModelReply
from schemas.ids import LIVE_RUN, event_id, text_hash, uuid5
from schemas.news import News
from schemas.topics import Topics, partition_of
from streams.journal.clock import utc_now
from tests.plain_graph import DRAFT
from tests.streams.memory_log import MemoryLog, MemoryRecord
from tests.streams.world import QUICK, World, news, news_record

Headers = list[tuple[str, bytes]]
TRIAGED = ev.CaseTriaged(draft=DRAFT, route="deep", gate_reason="test", rollout_bucket=0.0)
DROPPED = ev.CaseDropped(reason="spam", detail="by hand")


def opening(number: int, *, authenticated: bool = False, **changes: str) -> tuple[str, str, bytes, Headers]:
    """(case id, event id, value, headers) of the opening that intake would write for ``news(number)``."""
    item = msgspec.convert(news(number, **changes), News)
    event = ev.EventReceived(
        news=item, config_hash=QUICK.config_hash, text_hash=text_hash(item.text), language="en", news_offset=number,
        authenticated=authenticated,
    )  # fmt: skip
    opened = uuid5("opening", LIVE_RUN, item.case_id)
    _, value, headers = wire.encode(
        event, id=opened, case_id=item.case_id, causation_id=None, run_id=LIVE_RUN, time=utc_now()
    )
    return item.case_id, opened, value, headers


def after(case: str, head: str, event: ev.Event) -> tuple[str, bytes, Headers]:
    """(event id, value, headers) of the successor of a head."""
    new = event_id(LIVE_RUN, case, head)
    _, value, headers = wire.encode(event, id=new, case_id=case, causation_id=head, run_id=LIVE_RUN, time=utc_now())
    return new, value, headers


def paid_call(request: str) -> Call:
    """A model call with a cost."""
    return Call(
        kind="model",
        provider="test",
        mode="simulated",
        request_hash=request,
        reply=ModelReply(text="answer"),
        latency_ms=1.0,
        replied_at=datetime(2026, 1, 1, tzinfo=UTC),
        cost_usd=Decimal("0.001"),
    )


class MemoryWorld:
    """The topics of an installation in memory: what a test writes to a :class:`World` by hand it can write here."""

    def __init__(self, partitions: int = 2) -> None:
        self.topics, self.partitions = Topics("m."), partitions
        self.log = MemoryLog(
            {topic: count for topic, (count, _) in topic_specs(self.topics, partitions=partitions).items()}
        )
        self.producer = self

    async def publish(self, *items: Any) -> None:
        for item in items:
            key, value = news_record(item)
            self.log.append(self.topics.news, 0, key=key, value=value)

    async def send_and_wait(self, topic: str, value: bytes | None = None, **more: Any) -> MemoryRecord:
        """Append a record to this partition, by default the first one."""
        at = self.log.append(topic, number := more.pop("partition", 0), value=value, **more)
        return MemoryRecord(topic, number, at, 0, more.get("key"), value, more.get("headers") or ())


async def write(world: World | MemoryWorld, case: str, value: bytes | None, headers: Headers) -> int:
    """Append a record to the case's journal partition; return its offset."""
    number = partition_of(case, world.partitions)
    sent = await world.producer.send_and_wait(
        world.topics.cases, value, key=case.encode(), partition=number, headers=headers
    )
    return int(sent.offset)
