"""Retry of reads while the broker restarts, so that an unavailable broker does not end the worker."""

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
    """Return the result of ``read()``; retry once a second while the broker is unavailable.

    ``read`` must be repeatable.

    Otherwise a rebalance during a broker's restart would end the worker (found by the chaos run). Errors that a retry
    does not resolve (no permission to read, a moved log) propagate.
    """
    while True:
        try:
            return await read()
        except (KafkaError, TransientError, OSError) as exc:
            if isinstance(exc, KafkaError) and not exc.retriable:
                raise
            log.warning("the broker is away: reading again", what=what, error=repr(exc), in_s=AGAIN_S)
            await asyncio.sleep(AGAIN_S)
