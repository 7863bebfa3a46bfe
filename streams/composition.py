"""Composition of a worker's runtime: builds each component once, from finished components.

Components share an object that is built before them: :class:`Ending`, :class:`Wake`, the journal partitions, or the
Faust app. Readers and steps are added to the app last.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from agents.core.registry import Registry
from agents.graphs import NEWS
from infra.kafka.topics import KafkaAddress
from infra.ports import Ports
from schemas.config import Snapshot
from schemas.news import News
from schemas.topics import Topics
from streams.effects.breakers import Breakers
from streams.effects.bulkhead import EffectSlots
from streams.effects.host import EffectsHost
from streams.effects.meter import Meter
from streams.effects.search_cache import SearchCache
from streams.effects.spending import Budget
from streams.ending import Ending
from streams.faust.app import StepChannels, TopicFetching, add_reader, faust_app
from streams.faust.ledger import LedgerApp, QuietMonitor
from streams.intake.admission import Admission
from streams.intake.gate import Gate
from streams.intake.intake import Intake
from streams.intake.remote_partitions import RemotePartitions
from streams.intake.second_looks import SecondLooks
from streams.journal.appender import Appender
from streams.journal.configs import ConfigStore
from streams.journal.log import KafkaLog
from streams.journal.tombstones import Tombstones
from streams.runtime.dispatcher import Dispatcher
from streams.runtime.options import WorkerOptions
from streams.runtime.partition import Partitions
from streams.runtime.projector import Projector
from streams.runtime.results import Results
from streams.runtime.watchdog import Watchdog
from streams.runtime.worker_slot import WorkerSlot
from streams.wake import Wake
from streams.worker import Listeners, Parts, Worker


def worker_of(
    address: KafkaAddress,
    topics: Topics,
    registry: Registry,
    ports: Ports,
    snapshot: Snapshot,
    options: WorkerOptions,
    *,
    ending: Ending,
    wake: Wake,
    budget: Budget,
    searches: SearchCache | None = None,
    authenticate: Callable[[News], bool] = lambda _news: False,
) -> Worker:
    """Return a worker for this registry's flow, not started. Needs a running event loop.

    ``authenticate``: see :class:`Intake`; by default nothing is authenticated. ``ending`` and ``wake``: the objects
    that ``budget`` was built with.
    """
    flow = registry.flow
    group = topics.group("worker" if flow is NEWS else flow.name)
    s = _Shared(
        address, topics, group, options, ending, wake, Appender(address), ConfigStore(address, topics),
        Partitions(), Tombstones(KafkaLog(address), options.fold_directory(topics)),
        faust_app(group, address, options, QuietMonitor),
    )  # fmt: skip
    breakers = Breakers(options.breakers, wake=wake)
    effects = EffectsHost(ports, spending=budget, breakers=breakers, searches=searches)
    places = EffectSlots(options.effects_in_flight, options.step_concurrency)
    meter, slot = Meter(registry), WorkerSlot(options.slot_dir, options.slot)
    results = Results(registry, s.appender, topics, meter, options.partitions)
    channels = StepChannels(s.app, registry.steps)
    dispatcher = Dispatcher(
        registry, effects, results, places, slot, s.partitions, channels.put, suspect_after=options.crash_suspect_after
    )
    gate = _gate_of(s, effects, budget, snapshot, authenticate) if flow is NEWS else None
    projector = _projector_of(s, registry, Listeners(gate, meter, dispatcher), budget)
    s.appender.tell(projector.topic, projector)
    _add_agents(s, projector, gate, channels, dispatcher)
    watchdog = Watchdog(projector, lambda n: s.app.highwater(projector.topic, n) or 0)
    parts = Parts(
        app=s.app, ending=ending, slot=slot, appender=s.appender, configs=s.configs, budget=budget, effects=effects,
        places=places, meter=meter, dispatcher=dispatcher, projector=projector, watchdog=watchdog, gate=gate,
    )  # fmt: skip
    return Worker(topics, group, snapshot, options, parts)


class _Shared(NamedTuple):
    address: KafkaAddress
    topics: Topics
    group: str
    options: WorkerOptions
    ending: Ending
    wake: Wake
    appender: Appender
    configs: ConfigStore
    partitions: Partitions
    tombstones: Tombstones
    app: LedgerApp


def _gate_of(
    s: _Shared, effects: EffectsHost, budget: Budget, snapshot: Snapshot, authenticate: Callable[[News], bool]
) -> Gate:
    limit, count = s.options.max_open_cases, s.options.partitions
    remote = RemotePartitions(
        s.address, s.topics.cases, s.group, s.tombstones, s.wake, s.ending, limit=limit, partitions=count
    )
    admission = Admission(
        limit, count, remote, s.partitions, wake=s.wake,
        may_admit=lambda cases: effects.may_admit(cases) or budget.may_admit(cases),
    )  # fmt: skip
    intake = Intake(
        s.address, s.topics, s.group, s.appender, admission, s.configs, TopicFetching(s.app, s.topics.news), s.ending,
        partitions=count, dedup_days=s.options.dedup_days, authenticate=authenticate,
        directory=s.options.fold_directory(s.topics),
    )  # fmt: skip
    looks = SecondLooks(
        KafkaLog(s.address), s.topics.cases, s.appender, admission, config_of=s.configs.get, is_own=s.partitions.is_live,
        clock=s.options.clock, partitions=count, reach_s=max(snapshot.second_looks_after_seconds, default=0.0),
    )  # fmt: skip
    return Gate(admission, remote, intake, looks, s.partitions, count)


def _projector_of(s: _Shared, registry: Registry, listeners: Listeners, budget: Budget) -> Projector:
    flow, topic = registry.flow, s.topics.journal(registry.flow.name)
    return Projector(
        s.address, topic, s.group, flow, s.configs, listeners, s.partitions, s.tombstones, budget, s.ending,
        lambda number, offset: s.app.skip_to(topic, number, offset),
    )  # fmt: skip


def _add_agents(
    s: _Shared, projector: Projector, gate: Gate | None, channels: StepChannels, dispatcher: Dispatcher
) -> None:
    add_reader(s.app, projector.topic, "projector", projector)
    if gate is not None:
        add_reader(s.app, s.topics.news, "intake", gate.intake)
    channels.add_agents(s.app, dispatcher.start)
    s.app.finalize()
