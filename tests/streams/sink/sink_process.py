"""A sink that is killed, in a process of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import streams.sink.sink
from infra.clickhouse.client import Address, ClickHouse, connect
from infra.kafka.topics import KafkaAddress
from schemas.topics import Topics
from streams.failpoints import FAILPOINTS, arm, kill_this_process
from streams.sink.sink import Sink, SinkReading
from tests.plain_graph import plain_registry

BLOCK, COMMITTED = "block", "committed"


async def sink_until(
    kafka: KafkaAddress, topics: Topics, clickhouse: Address, database: str, where: str, times: int, pieces: int
) -> None:
    """Die on reaching ``where`` for the ``times``-th time.

    That is a failpoint's name, ``block`` (one block of a range is in its table, the others are not) or ``committed`` (a
    range's end is committed, batches prepared ahead are not). ``pieces``: records per batch.
    """
    strike = _at_the(times)
    if where in FAILPOINTS:
        arm(where, strike)
    _strike_after(ClickHouse, "insert_block", strike if where == BLOCK else _nothing)
    _strike_after(SinkReading, "commit", strike if where == COMMITTED else _nothing)
    streams.sink.sink.MAX_BATCH = pieces
    async with connect(clickhouse, database=database) as client:
        await Sink(kafka, topics, client, registry=plain_registry(asks=True)).run()


def _nothing() -> None:
    return None


def _at_the(times: int) -> Callable[[], None]:
    left = times

    def strike() -> None:
        nonlocal left
        left -= 1
        if left == 0:
            kill_this_process()

    return strike


def _strike_after(of: type[Any], method: str, strike: Callable[[], None]) -> None:
    original = getattr(of, method)

    async def struck(*args: Any, **kwargs: Any) -> Any:
        done = await original(*args, **kwargs)
        strike()
        return done

    setattr(of, method, struck)
