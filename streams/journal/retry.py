"""Retries of work that needs a server (Kafka or ClickHouse) while it is unavailable."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TypeVar

from aiokafka.errors import KafkaError

from infra.late_log import log_of
from schemas.errors import TransientError

T = TypeVar("T")
AWAY = (KafkaError, TransientError, OSError)
"""Client errors while the server is unavailable. They include final Kafka errors, such as a missing permission."""
PAUSES_S = (0.1, 0.3, 1.0, 2.0)
"""Pauses after the first failures in a row; the last one repeats."""
STEADY_S = 60.0
"""An attempt that ran this long had reached its server, so its failure starts a new outage."""


def is_transient(exc: Exception) -> bool:
    """Return whether a retry may resolve the error."""
    return bool(exc.retriable) if isinstance(exc, KafkaError) else isinstance(exc, AWAY)


def is_away(exc: Exception) -> bool:
    """Return whether it is an error of :data:`AWAY`, for work that also retries after final errors."""
    return isinstance(exc, AWAY)


async def retry_while_unavailable(
    work: Callable[[], Awaitable[T]],
    what: str,
    *,
    unavailable: Callable[[Exception], bool] = is_transient,
    on_wait: Callable[[Exception], None] | None = None,
    until: asyncio.Event | None = None,
) -> T:
    """Return the result of ``work()``; repeat it, after growing pauses, while a server is unavailable.

    ``work`` must be repeatable; its duration is not limited. An outage is logged once, with ``what``. ``on_wait`` is
    called before each pause; an error that it raises ends the retries. Once ``until`` is set, the next failure ends
    them, too.

    Raises:
        Exception: an error other than ``unavailable``, at once; any failure once ``until`` is set or the task is
        cancelled.
    """
    loop, failures = asyncio.get_running_loop(), 0
    cancelled = _cancellations()
    while True:
        began = loop.time()
        try:
            return await work()
        except Exception as exc:
            # A client that fails while closing hides the cancellation that made it close.
            if not unavailable(exc) or _cancellations() > cancelled:
                raise
            if on_wait is not None:
                on_wait(exc)
            failures = 0 if loop.time() - began > STEADY_S else failures
            if failures == 0:
                log_of(__name__).warning("unavailable; retrying until it is back", what=what, error=repr(exc)[:300])
            over = until or asyncio.Event()
            with suppress(TimeoutError):
                async with asyncio.timeout(PAUSES_S[min(failures, len(PAUSES_S) - 1)]):
                    await over.wait()
            if over.is_set():
                raise
            failures += 1


def _cancellations() -> int:
    task = asyncio.current_task()
    return 0 if task is None else task.cancelling()
