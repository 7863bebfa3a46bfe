"""The brokers under test: one, or several in one quorum, where three hold each partition and two must have a record."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import Counter
from pathlib import Path
from typing import Any

from aiokafka.errors import KafkaError

from infra.embedded.child import free_ports
from infra.embedded.kafka.server import PASSWORD_FILE, EmbeddedKafka
from infra.kafka.topics import KafkaAddress
from infra.owner_only import write_owner_only
from newsproof.app.servers import Say
from schemas.errors import TransientError
from schemas.topics import Topics

COPIES = 3
"""Copies of a partition, if there are that many brokers."""
IN_SYNC_WITHIN_S = 120.0
"""Time for a killed broker to have all records again."""
AWAY_S = 8.0
"""Time for which a killed broker of several stays down, longer than the others wait before they lead its partitions."""
_GROUP, _TRANSACTION = 0, 1
_OF_SEVERAL = """\
node.id={node}
listeners=BROKER://127.0.0.1:{{port}},CONTROLLER://127.0.0.1:{controller}
controller.quorum.voters={voters}
# A busy machine does not mean a dead broker.
broker.session.timeout.ms=6000
broker.heartbeat.interval.ms=1000
controller.quorum.fetch.timeout.ms=5000
default.replication.factor={copies}
min.insync.replicas={least}
offsets.topic.replication.factor={copies}
transaction.state.log.replication.factor={copies}
transaction.state.log.min.isr={least}
share.coordinator.state.topic.replication.factor={copies}
share.coordinator.state.topic.min.isr={least}
"""


class Brokers:
    """``count`` brokers in a directory, on free ports. ``coordinator_kills``: coordinated thing → number of kills."""

    def __init__(self, directory: Path, count: int, say: Say) -> None:
        self.copies = min(count, COPIES)
        self.return_s: list[float] = []
        """Seconds from each SIGKILL until the broker served again and had all records."""
        self.coordinator_kills: Counter[str] = Counter()
        self._say = say
        if count == 1:
            self.brokers = [EmbeddedKafka(directory / "kafka", progress=say)]
            return
        controllers, password, cluster_id = free_ports(count), secrets.token_urlsafe(32), "A" + secrets.token_hex(8)
        voters = ",".join(f"{node}@127.0.0.1:{port}" for node, port in enumerate(controllers, 1))
        self.brokers = []
        for node, controller in enumerate(controllers, 1):
            data_dir = directory / f"kafka-{node}"
            data_dir.mkdir(parents=True)
            write_owner_only(data_dir / PASSWORD_FILE, password)
            more = _OF_SEVERAL.format(
                node=node, controller=controller, voters=voters, copies=self.copies, least=max(1, self.copies - 1)
            )
            self.brokers.append(EmbeddedKafka(data_dir, cluster_id=cluster_id, more_properties=more, progress=say))

    @property
    def bootstrap(self) -> str:
        return ",".join(broker.bootstrap for broker in self.brokers)

    @property
    def password_file(self) -> Path:
        return self.brokers[0].data_dir / PASSWORD_FILE

    async def start(self) -> None:
        """Start all brokers.

        Raises:
            ConfigError: a broker does not start.
        """
        await asyncio.gather(*(broker.start() for broker in self.brokers))

    async def stop(self) -> None:
        await asyncio.gather(*(broker.stop() for broker in self.brokers))

    async def kill_one(self, address: KafkaAddress, topics: Topics) -> None:
        """SIGKILL the only broker, or the coordinator of a group or of the publisher's transactions, and restart it.

        Raises:
            TransientError: no broker names the coordinator, or the records are not replicated again in time.
        """
        if len(self.brokers) == 1:
            (broker,) = self.brokers
            began = time.monotonic()
            broker.kill()
            await broker.start()
            self.return_s.append(time.monotonic() - began)
            return
        what, node = await self._next_coordinator(address, topics)
        self._say(f"killing broker {node}, which coordinates {what}")
        began, broker = time.monotonic(), self.brokers[node - 1]
        broker.kill()
        self.coordinator_kills[what] += 1
        await asyncio.sleep(AWAY_S)  # the injected outage
        await broker.start()
        await self._in_sync(address)
        self.return_s.append(time.monotonic() - began)

    async def _next_coordinator(self, address: KafkaAddress, topics: Topics) -> tuple[str, int]:
        targets = [
            *((f"the group {name}", topics.group(name), _GROUP) for name in ("worker", "publisher-lease", "sink")),
            ("the publisher's transactions", topics.transactional_id("publisher"), _TRANSACTION),
        ]
        what, name, kind = targets[self.coordinator_kills.total() % len(targets)]

        async def node() -> int:
            async with address.admin() as admin:
                return int(await admin.find_coordinator(name, kind))

        return what, await _answered(node, f"who coordinates {what}")

    async def _in_sync(self, address: KafkaAddress) -> None:
        async def behind() -> None:
            async with address.admin() as admin:
                described: list[dict[str, Any]] = await admin.describe_topics()
            if late := [t["topic"] for t in described for p in t["partitions"] if len(p["isr"]) < self.copies]:
                raise TransientError(f"{len(late)} partitions have fewer than {self.copies} copies", kind="unavailable")

        await _answered(behind, "that every record is everywhere again")


async def _answered(ask: Any, what: str) -> Any:
    give_up = time.monotonic() + IN_SYNC_WITHIN_S
    while True:
        try:
            return await ask()
        except (KafkaError, TransientError, OSError) as exc:
            if time.monotonic() > give_up:
                raise TransientError(f"no broker says {what}: {exc!r}", kind="internal") from exc
        await asyncio.sleep(0.5)
