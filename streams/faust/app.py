"""The Faust app of a worker: its settings, an agent per topic, and an agent per step on an in-memory channel."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import faust
from faust.types import TP

from agents.core.case_core import CaseCore
from agents.core.step import Step
from infra.kafka.topics import KafkaAddress
from streams.faust.ledger import LedgerApp, NoTables, Reader
from streams.runtime.options import GRACE_ON_REVOKE_S, WorkerOptions

_RAW = {"key_type": bytes, "value_type": bytes, "key_serializer": "raw", "value_serializer": "raw", "acks": False}


def faust_app(group: str, address: KafkaAddress, options: WorkerOptions, monitor: type) -> LedgerApp:
    """Return the app, without agents. Each setting was checked against Faust 0.15.3's source (docs/adr/0003)."""
    o = options
    return LedgerApp(
        group,
        # Faust's own environment variables (WEB_PORT, TOPIC_PARTITIONS, PROCESSING_GUARANTEE) would override these
        # settings.
        env={},
        broker=f"kafka://{address.bootstrap.replace(',', ';kafka://')}",
        broker_credentials=_credentials(address),
        key_serializer="raw",
        value_serializer="raw",
        store="memory://",
        datadir=str(o.slot_dir / f"faust-{o.slot}"),
        Monitor=monitor,
        TableManager=NoTables,
        web_enabled=False,
        web_bind="127.0.0.1",
        processing_guarantee="at_least_once",
        topic_disable_leader=True,
        topic_allow_declare=False,
        stream_wait_empty=False,
        stream_buffer_maxsize=16_384,
        broker_max_poll_records=3000,
        broker_session_timeout=o.session_timeout_s,
        broker_heartbeat_interval=min(o.heartbeat_s, o.session_timeout_s / 4),
        broker_rebalance_timeout=max(15.0, GRACE_ON_REVOKE_S + o.session_timeout_s),
        broker_commit_interval=o.commit_interval_s,
        consumer_group_instance_id=f"{group}-{o.slot}",
        consumer_auto_offset_reset="earliest",
        consumer_max_fetch_size=8 * 1024 * 1024,
        producer_linger=0,
        producer_compression_type="lz4",
    )


class StepChannels:
    """One in-memory channel per step, from the dispatcher to the step's agent."""

    def __init__(self, app: LedgerApp, steps: Mapping[str, Step]) -> None:
        self._steps = steps
        self._channels = {name: app.channel(maxsize=0) for name in steps}
        self._ready: dict[str, list[CaseCore]] = {}

    def put(self, step: Step, case: CaseCore) -> None:
        """Send the case to the step's agent; never waits."""
        # One item holds every case that one turn of the event loop makes ready. Not ``put``, which hangs while the flow
        # is suspended.
        # is suspended.
        if step.name in self._ready:
            self._ready[step.name].append(case)
        else:
            self._ready[step.name] = [case]
            asyncio.get_running_loop().call_soon(self._hand_over, step.name)

    def _hand_over(self, name: str) -> None:
        cases = self._ready.pop(name)
        for subscriber in self._channels[name]._subscribers:
            subscriber.queue.put_nowait(cases)

    def add_agents(self, app: LedgerApp, start: Callable[[Step, CaseCore], None]) -> None:
        """Add an agent per step, which calls ``start`` for each case."""
        for name, channel in self._channels.items():
            app.agent(channel, name=f"step-{name}")(_starting(self._steps[name], start))


def _starting(step: Step, start: Callable[[Step, CaseCore], None]) -> Callable[[Any], Awaitable[None]]:
    async def run_step(stream: Any) -> None:
        async for cases in stream.noack():
            for case in cases:
                start(step, case)

    return run_step


class TopicFetching:
    """Pauses and resumes fetching of single partitions of a topic."""

    def __init__(self, app: LedgerApp, topic: str) -> None:
        self._app, self._topic = app, topic

    def hold(self, partition: int) -> None:
        """Pause fetching of the partition."""
        self._app.consumer.on_buffer_full(TP(self._topic, partition))

    def release(self, partition: int) -> None:
        """Resume fetching of the partition."""
        self._app.consumer.on_buffer_drop(TP(self._topic, partition))


def add_reader(app: LedgerApp, topic: str, name: str, reader: Reader) -> None:
    """Add the agent that passes the topic's records to ``reader``, which also decides which offset is committed."""
    app.readers[topic] = reader
    on_record = reader.on_record

    async def read(stream: Any) -> None:
        async for records in stream.noack():
            for record in records:
                on_record(record)

    app.agent(app.topic(topic, **_RAW), name=name)(read)


def _credentials(address: KafkaAddress) -> Any:
    if address.security_protocol == "PLAINTEXT":
        return None
    context = address.client_args().get("ssl_context")  # None for an embedded broker, which has SASL and no TLS
    if not address.sasl_mechanism:
        return faust.SSLCredentials(context)
    return faust.SASLCredentials(
        mechanism=address.sasl_mechanism, username=address.username, password=address.password, ssl_context=context
    )
