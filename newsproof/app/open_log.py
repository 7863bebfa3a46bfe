"""Access to the log for a command: a running server, otherwise one started for the command."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec

from infra.kafka.topics import KafkaAddress
from infra.settings import Settings
from newsproof.app.invocation import Invocation
from newsproof.app.servers import servers, with_data
from schemas.topics import Topics


class LogAccess(msgspec.Struct, frozen=True):
    """The log that a command reads. ``own``: on a server that the command started for itself."""

    settings: Settings
    address: KafkaAddress
    topics: Topics
    own: bool


@asynccontextmanager
async def open_log(invocation: Invocation) -> AsyncIterator[LogAccess]:
    """Yield the log; missing topics are created."""
    from newsproof.app.processes.supervisor import prepare_topics

    settings = await with_data(invocation.settings(), given=invocation.data_dir_given)
    async with servers(settings, clickhouse=False) as found:
        at = found.applied_to(settings)
        address = KafkaAddress.of(at, at.kafka_bootstrap_servers or "")
        if found.embedded_kafka:
            await prepare_topics(at)
        elif address.security_protocol != "PLAINTEXT":
            async with address.admin():  # report a refused login once, in words, before anything is read
                pass
        yield LogAccess(at, address, Topics(at.topic_prefix), bool(found.own))
