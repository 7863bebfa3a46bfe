"""The installation that a command uses: the one that runs on the data directory, else one that it starts and stops."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

from infra.kafka.topics import members_of
from infra.settings import Settings
from newsproof.app.composition import address_of, topics_of
from newsproof.app.processes.supervisor import pipeline
from newsproof.app.servers import running_kafka, say_on_stderr, servers


@contextlib.asynccontextmanager
async def installation(
    settings: Settings, group: str, *, starting: str, workers: int, research: bool = False
) -> AsyncIterator[tuple[Settings, bool]]:
    """Yield the settings of an installation whose consumer group has a member, and whether this command started it.

    ``group``: without the prefix. ``starting`` is said before an installation of ``workers`` starts.

    Raises:
        ConfigError, TransientError: as for :func:`newsproof.app.processes.supervisor.pipeline`.
    """
    if settings.kafka_bootstrap_servers or await running_kafka(settings.newsproof_data_dir / "kafka"):
        async with servers(settings, clickhouse=False) as found:
            at = found.applied_to(settings)
            if await members_of(address_of(at), topics_of(at).group(group)):
                yield at, False
                return
    say_on_stderr(starting)
    async with pipeline(settings, workers=workers, research=research) as own, running(own.watch()):
        yield own.settings, True


@contextlib.asynccontextmanager
async def running(*work: Any) -> AsyncIterator[None]:
    """Run these tasks during the block. The first that fails ends the block with its error."""
    tasks = [asyncio.ensure_future(one) for one in work]
    here = asyncio.current_task()
    failed: list[BaseException] = []

    def ended(task: asyncio.Future[Any]) -> None:
        if not task.cancelled() and (exc := task.exception()) is not None and here is not None:
            failed.append(exc)
            here.cancel()

    for task in tasks:
        task.add_done_callback(ended)
    try:
        yield
    except asyncio.CancelledError:
        if failed:
            raise failed[0] from None
        raise
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
