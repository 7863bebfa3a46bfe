"""Access to the log and the tables for a command: on a running server, or else on one started for the command."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from infra.kafka.topics import KafkaAddress, ensure_topics
from newsproof.app.invocation import Invocation
from newsproof.app.servers import (
    DEMO,
    any_listens,
    password_file,
    reading_demo,
    running_kafka,
    say_on_stderr,
    servers,
    telling_full_disk,
    with_data,
)
from schemas.topics import Topics

if TYPE_CHECKING:
    from infra.clickhouse.client import ClickHouse
    from infra.client_settings import ClientSettings
    from infra.settings import Settings


class LogAccess(msgspec.Struct, frozen=True):
    """The log that a command reads. ``settings``: all settings. ``own``: the command started the server itself."""

    settings: Settings
    address: KafkaAddress
    topics: Topics
    own: bool


class LogToRead(msgspec.Struct, frozen=True):
    """The log for a command that needs no other settings. ``own``: the command started the server itself."""

    address: KafkaAddress
    topics: Topics
    own: bool = False


@asynccontextmanager
async def open_log(invocation: Invocation, *, clickhouse: bool = False) -> AsyncIterator[LogAccess]:
    """Yield the log. Missing topics are created. ``clickhouse``: also connect to ClickHouse, or start it."""
    settings = await with_data(invocation.settings(), given=invocation.data_dir_given)
    async with servers(settings, clickhouse=clickhouse) as running:
        at = running.applied_to(settings)
        address, topics = KafkaAddress.of(at, at.kafka_bootstrap_servers or ""), Topics(at.topic_prefix)
        await _prepared(address, topics, at, embedded=running.embedded_kafka)
        yield LogAccess(at, address, topics, bool(running.own))


@asynccontextmanager
async def log_to_read(invocation: Invocation) -> AsyncIterator[LogToRead]:
    """Yield the log as :func:`open_log` does. If a server already serves it, all settings are read only if needed."""
    settings = invocation.reader_settings()
    if settings is None or (served := await _served(settings, given=invocation.data_dir_given)) is None:
        async with open_log(invocation) as log:
            yield LogToRead(log.address, log.topics, log.own)
        return
    address, directory = served
    topics = Topics(settings.newsproof_topic_prefix)
    with telling_full_disk(directory):
        await _prepared(address, topics, settings, embedded=directory is not None)
        yield LogToRead(address, topics)


async def _served(settings: ClientSettings, *, given: bool) -> tuple[KafkaAddress, Path | None] | None:
    """Return the configured or running Kafka, and its data directory if embedded; None if neither responds."""
    if settings.kafka_bootstrap_servers:
        if not await any_listens(settings.kafka_bootstrap_servers):
            return None
        return KafkaAddress.of(settings, settings.kafka_bootstrap_servers), None
    for directory in (settings.data_dir,) if given else (settings.data_dir, settings.data_dir / DEMO):
        if (bootstrap := await running_kafka(directory / "kafka")) is not None:
            if directory != settings.data_dir:
                say_on_stderr(reading_demo(directory))
            return KafkaAddress.embedded(bootstrap, password_file(directory / "kafka")), directory
    return None


async def _prepared(
    address: KafkaAddress, topics: Topics, settings: Settings | ClientSettings, *, embedded: bool
) -> None:
    if embedded:
        await ensure_topics(
            address, topics, partitions=settings.topic_partitions, replication=settings.topic_replication
        )
    elif address.security_protocol != "PLAINTEXT":
        async with address.admin():  # report a refused login once, in words, before anything is read
            pass


@asynccontextmanager
async def database(invocation: Invocation, *, admin: bool) -> AsyncIterator[ClickHouse]:
    """Yield a client of this command's database; the embedded engine is started if none runs."""
    # Most commands that read the log need none of these, and importing them takes longer than such a command's work.
    from newsproof.app.analysts import analyst_client
    from newsproof.app.composition import clickhouse_of
    from newsproof.app.processes.supervisor import prepare_tables

    settings = await with_data(invocation.settings(), given=invocation.data_dir_given)
    async with servers(settings, kafka=False) as running:
        at = running.applied_to(settings)
        if "clickhouse" in running.own:
            await prepare_tables(at)
        client = clickhouse_of(at) if admin else analyst_client(at, embedded=settings.clickhouse_url is None)
        async with client:
            yield client
