"""``newsproof topics``: creates and describes the topics."""

from __future__ import annotations

from typing import Any

from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

from infra.kafka.topics import offsets_of, topic_specs
from newsproof.app.composition import address_of, topics_of
from newsproof.app.data_access import open_log
from newsproof.app.invocation import Invocation, json_line, say_result, table
from newsproof.app.processes.supervisor import prepare_topics
from newsproof.app.servers import servers

SHOWN = ("cleanup.policy", "retention.ms", "max.message.bytes", "message.timestamp.type")


async def create_topics(invocation: Invocation, *, as_json: bool) -> None:
    """Create the missing topics.

    Raises:
        ConfigError: a topic exists with another partition count.
    """
    settings = invocation.settings()
    async with servers(settings, clickhouse=False) as found:
        created = await prepare_topics(found.applied_to(settings))
    if as_json:
        json_line({"created": created})
    elif created:
        table(("created", "partitions"), created.items(), right=("partitions",))
    else:
        say_result("All topics already exist.")


async def describe_topics(invocation: Invocation, *, as_json: bool) -> None:
    """Print partitions, number of offsets and configuration of each topic."""
    rows: list[dict[str, Any]] = []
    async with open_log(invocation) as log:
        names = list(topic_specs(topics_of(log.settings), partitions=log.settings.topic_partitions))
        async with address_of(log.settings).admin() as admin:
            existing = set(await admin.list_topics())
            found = [name for name in names if name in existing]
            configs = await _configs(admin, found)
        for name in names:
            bounds = await offsets_of(log.address, name) if name in existing else {}
            rows.append(
                {
                    "topic": name,
                    "exists": name in existing,
                    "partitions": len(bounds),
                    "offsets": sum(end - first for first, end in bounds.values()),
                    **{key: configs.get(name, {}).get(key, "") for key in SHOWN},
                }
            )
    if as_json:
        for row in rows:
            json_line(row)
        return
    table(list(rows[0]), [list(row.values()) for row in rows], right=("partitions", "offsets"))


async def _configs(admin: Any, names: list[str]) -> dict[str, dict[str, str]]:
    wanted = [ConfigResource(ConfigResourceType.TOPIC, name) for name in names]
    described: dict[str, dict[str, str]] = {}
    for response in await admin.describe_configs(wanted) if wanted else ():
        for _code, _message, _kind, name, entries in response.resources:
            described[name] = {entry[0]: entry[1] for entry in entries}
    return described
