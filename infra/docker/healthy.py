"""Health check of a container: ``python -P healthy.py worker|research-worker|sink|listener|web``.

Exit status 0 = healthy, else the reason is on stderr. A worker is healthy while the broker counts it as a member of its group: a stuck one stops its heartbeats, or its own
watchdog ends it. The sink assigns partitions by hand and is no member of anything: it is healthy while Kafka and
ClickHouse both answer it.
"""

from __future__ import annotations

import asyncio
import re
import sys

import httpx
from aiokafka.errors import KafkaError

from infra.clickhouse.client import connect
from infra.kafka.topics import KafkaAddress, offsets_of
from infra.settings import Settings, load_settings
from schemas.errors import ConfigError, NewsproofError, TransientError
from schemas.printable import printable_line
from schemas.topics import Topics

WITHIN_S = 8.0
"""Less than the ``timeout`` of the health checks in docker-compose.yml, so that the reason gets out."""


async def worker(settings: Settings, address: KafkaAddress, topics: Topics) -> None:
    """Raise unless this slot's worker is a member of the workers' group."""
    await _member(address, topics.group("worker"), settings.worker_slot)


async def research_worker(settings: Settings, address: KafkaAddress, topics: Topics) -> None:
    """Raise unless this slot's worker is a member of the chat's group."""
    await _member(address, topics.group("research"), f"research-{settings.worker_slot}")


async def web(settings: Settings, _address: KafkaAddress, _topics: Topics) -> None:
    """Raise unless the page answers."""
    scheme = "http" if settings.web_tls_cert_file is None else "https"
    await _alive(f"{scheme}://127.0.0.1:{settings.web_port}", "web service")


async def listener(settings: Settings, _address: KafkaAddress, _topics: Topics) -> None:
    """Raise unless the listener's event loop turns; one that stands by for another listener is healthy."""
    await _alive(f"http://127.0.0.1:{settings.metrics_port}", "listener")


async def _alive(address: str, who: str) -> None:
    # A certificate is of another name than the loopback's; nothing is told here that is worth a check.
    async with httpx.AsyncClient(timeout=WITHIN_S, trust_env=False, verify=False) as client:
        answer = await client.get(f"{address}/healthz")
    if answer.status_code != 200:
        raise TransientError(f"the {who} returned {answer.status_code}: read its log")


async def _member(address: KafkaAddress, group: str, of_slot: str) -> None:
    async with address.admin() as admin:
        described = await admin.describe_consumer_groups([group])
    slot = f"{group}-{of_slot}"
    # The broker names a static member after its instance id: "<instance id>-<UUID>".
    member = re.compile(re.escape(f"{slot}-") + "[0-9a-f-]{36}")
    if not any(
        member.fullmatch(m[0])
        for response in described
        for described_group in response.groups
        for m in described_group[5]
    ):
        raise TransientError(f"{slot} is no member of the group {group}: look at the worker's log")


async def sink(settings: Settings, address: KafkaAddress, topics: Topics) -> None:
    """Raise unless Kafka and ClickHouse answer."""
    if not await offsets_of(address, topics.cases):
        raise TransientError(f"the topic {topics.cases} does not exist yet")
    async with connect(settings.clickhouse_url or "", database=settings.clickhouse_database) as tables:
        await tables.query("SELECT count() FROM migrations")


async def main(service: str) -> int:
    """Check, and return the exit status."""
    checks = {"worker": worker, "research-worker": research_worker, "sink": sink, "listener": listener, "web": web}
    try:
        if service not in checks:
            raise ConfigError(f"there is no check of {service!r}: write one of {', '.join(checks)}")
        settings = load_settings()
        address = KafkaAddress.of(settings, settings.kafka_bootstrap_servers or "")
        async with asyncio.timeout(WITHIN_S):
            await checks[service](settings, address, Topics(settings.topic_prefix))
    except (NewsproofError, KafkaError, httpx.HTTPError, OSError) as exc:
        print(printable_line(f"unhealthy: {exc or type(exc).__name__}"), file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "")))
