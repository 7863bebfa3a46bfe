"""A sink that is killed: ``python -m tests.streams.sink.sink_process BOOTSTRAP PREFIX CLICKHOUSE_URL DATABASE WHERE TIMES PIECES``.

It is killed when it reaches WHERE for the TIMES-th time: a failpoint's name, ``block`` (one block of a range is in its
table, the others are not) or ``committed`` (a range's end is committed, batches prepared ahead are not). PIECES:
records per batch.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from typing import Any

import streams.sink.sink
from infra.clickhouse.client import ClickHouse, connect
from infra.kafka.topics import KafkaAddress
from schemas.topics import Topics
from streams.failpoints import FAILPOINTS, arm, kill_this_process
from streams.sink.sink import Sink, SinkReading
from tests.plain_graph import plain_registry

BLOCK, COMMITTED = "block", "committed"


async def _main(
    bootstrap: str, password_file: str, prefix: str, url: str, database: str, where: str, times: str, pieces: str
) -> None:
    strike = _at_the(int(times))
    if where in FAILPOINTS:
        arm(where, strike)
    _strike_after(ClickHouse, "insert_block", strike if where == BLOCK else _nothing)
    _strike_after(SinkReading, "commit", strike if where == COMMITTED else _nothing)
    streams.sink.sink.MAX_BATCH = int(pieces)
    async with connect(url, database=database) as client:
        registry = plain_registry(asks=True)
        await Sink(KafkaAddress.embedded(bootstrap, password_file), Topics(prefix), client, registry=registry).run()


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


if __name__ == "__main__":
    asyncio.run(_main(*sys.argv[1:]))
