"""The Faust app of a worker: its settings, an agent on each topic, and an agent per step on an in-memory channel."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import faust
from faust.types import TP

from agents.core.case_core import CaseCore
from agents.core.registry import Registry
from agents.core.step import Step
from infra.kafka.topics import KafkaAddress
from schemas.topics import Topics
from streams.faust.ledger import LedgerApp
from streams.intake.intake import Intake
from streams.runtime.dispatcher import Dispatcher
from streams.runtime.options import GRACE_ON_REVOKE_S, WorkerOptions
from streams.runtime.projector import Projector

_RAW = {"key_type": bytes, "value_type": bytes, "key_serializer": "raw", "value_serializer": "raw", "acks": False}


def faust_app(group: str, address: KafkaAddress, options: WorkerOptions, monitor: type) -> LedgerApp:
    """Return the app, without agents. Each setting was checked against Faust 0.15.3's source (docs/adr/0003)."""
    o = options
    return LedgerApp(
        group,
        # Its own variables have plain names (WEB_PORT, TOPIC_PARTITIONS, PROCESSING_GUARANTEE) and would win over these.
        env={},
        broker=f"kafka://{address.bootstrap.replace(',', ';kafka://')}",
        broker_credentials=_credentials(address),
        key_serializer="raw",
        value_serializer="raw",
        store="memory://",
        datadir=str(o.slot_dir / f"faust-{o.slot}"),
        Monitor=monitor,
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


def add_agents(
    app: LedgerApp,
    topics: Topics,
    registry: Registry,
    projector: Projector,
    dispatcher: Dispatcher,
    intake: Intake | None,
) -> None:
    """Add the agents on the journal and, for an intake, on news, and one per step; connect dispatcher and intake to them."""
    _add_reader(app, projector.topic, "projector", projector.on_record)
    if intake is not None:
        _add_reader(app, topics.news, "intake", intake.on_record)
        intake.hold = lambda n: app.consumer.on_buffer_full(TP(topics.news, n))
        intake.release = lambda n: app.consumer.on_buffer_drop(TP(topics.news, n))
    channels = {name: _add_step_agent(app, step, dispatcher) for name, step in registry.steps.items()}
    ready: dict[str, list[CaseCore]] = {}

    def put(step: Step, case: CaseCore) -> None:
        # What one turn of the event loop makes ready goes as one item; without waiting, for ``put`` hangs while the
        # flow is suspended.
        if step.name in ready:
            ready[step.name].append(case)
        else:
            ready[step.name] = [case]
            asyncio.get_running_loop().call_soon(hand_over, step.name)

    def hand_over(name: str) -> None:
        cases = ready.pop(name)
        for subscriber in channels[name]._subscribers:
            subscriber.queue.put_nowait(cases)

    dispatcher.put = put


def _add_reader(app: LedgerApp, topic: str, name: str, on_record: Callable[[Any], None]) -> None:
    async def read(stream: Any) -> None:
        async for records in stream.noack():
            for record in records:
                on_record(record)

    app.agent(app.topic(topic, **_RAW), name=name)(read)


def _add_step_agent(app: LedgerApp, step: Step, dispatcher: Dispatcher) -> Any:
    channel = app.channel(maxsize=0)

    async def run_step(stream: Any) -> None:
        start = dispatcher.start
        async for cases in stream.noack():
            for case in cases:
                start(step, case)

    app.agent(channel, name=f"step-{step.name}")(run_step)
    return channel


def _credentials(address: KafkaAddress) -> Any:
    if address.security_protocol == "PLAINTEXT":
        return None
    context = address.client_args().get("ssl_context")  # none to an embedded broker: SASL, and no TLS
    if not address.sasl_mechanism:
        return faust.SSLCredentials(context)
    return faust.SASLCredentials(
        mechanism=address.sasl_mechanism, username=address.username, password=address.password, ssl_context=context
    )
