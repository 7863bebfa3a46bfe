"""The installation that a command uses: the one that runs on the data directory, else one that it starts and stops."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from infra.kafka.topics import members_of
from infra.settings import Settings
from newsproof.app.composition import address_of, topics_of
from newsproof.app.processes.supervisor import pipeline, watched
from newsproof.app.servers import running_kafka, say_on_stderr, servers

T = TypeVar("T")


async def with_installation(
    settings: Settings, group: str, work: Callable[[Settings], Coroutine[Any, Any, T]], *, starting: str, workers: int
) -> T:
    """Do the work on the installation whose consumer group (without the prefix) has a member, else on one of its own.

    ``work`` gets the settings with the addresses in use; ``starting`` is said before an installation of ``workers`` starts.

    Raises:
        ConfigError, TransientError: as for :func:`newsproof.app.processes.supervisor.pipeline`.
    """
    if settings.kafka_bootstrap_servers or await running_kafka(settings.newsproof_data_dir / "kafka"):
        async with servers(settings, clickhouse=False) as found:
            at = found.applied_to(settings)
            if await members_of(address_of(at), topics_of(at).group(group)):
                return await work(at)
    say_on_stderr(starting)
    own = settings.model_copy(update=settings.defaults_of_up)
    async with pipeline(own, workers=workers) as running:
        return await watched(running, work(running.settings))
