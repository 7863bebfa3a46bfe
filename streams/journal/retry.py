"""Patience with the broker: what is read while it restarts is read again, rather than ending the worker."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import structlog
from aiokafka.errors import KafkaError

from schemas.errors import TransientError

log = structlog.get_logger(__name__)

T = TypeVar("T")
AGAIN_S = 1.0


async def retry_while_unavailable(read: Callable[[], Awaitable[T]], what: str) -> T:
    """Return what ``read()`` gives, asking once a second again while the broker is away; ``read`` is repeatable.

    A rebalance that falls into a broker's restart would else end the worker (the chaos run found it). What another
    try would not mend (no right to read, a moved log) is raised as it comes.
    """
    while True:
        try:
            return await read()
        except (KafkaError, TransientError, OSError) as exc:
            if isinstance(exc, KafkaError) and not exc.retriable:
                raise
            log.warning("the broker is away: reading again", what=what, error=repr(exc), in_s=AGAIN_S)
            await asyncio.sleep(AGAIN_S)
