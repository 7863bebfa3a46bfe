"""Prometheus metrics of a worker and of the sink, read from the runtime's own counters at each scrape.

Nothing is counted twice, and nothing runs between two scrapes. The dashboard in infra/grafana shows them.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from newsproof.app.data_dir import LastAudit
from newsproof.app.version import VERSION, code_version
from streams.effects.meter import BUCKETS_S, Latencies, Meter

if TYPE_CHECKING:  # a page or a bot loads no worker
    from streams.budget.budget import BudgetLedger
    from streams.intake.intake import Intake
    from streams.listening.listener import Listener
    from streams.publish.publisher import Publisher
    from streams.sink.sink import Sink
    from streams.worker import Worker

BREAKER_STATES = {"closed": 0, "half_open": 1, "open": 2}
SOURCE_STATES = ("waiting", "ok", "stale", "backing_off", "blocked")
PAUSED_BY = ("max_open_cases", "not_caught_up", "budget", "outage")
NANO = 1e-9
"""The books count in billionths of a USD."""

Samples = Mapping[Any, float]
"""Labels, or the only one, → value."""


class WorkerMetrics:
    """The collector of a worker. ``budget`` is None if nothing is paid, ``publisher`` if nothing is published.

    ``audit`` returns the last audit of the log that is known here.
    """

    def __init__(
        self,
        worker: Worker,
        publisher: Publisher | None,
        budget: BudgetLedger | None = None,
        *,
        audit: Callable[[], LastAudit | None] = lambda: None,
    ) -> None:
        self._worker, self._publisher, self._budget, self._audit = worker, publisher, budget, audit

    def collect(self) -> Iterator[Metric]:
        """Yield the present metrics. Runs on the scrape's thread, so collections that change size are copied first."""
        yield build_info()
        yield from self._log()
        yield from self._work()
        if self._worker.gate is not None:
            yield from self._intake(self._worker.gate.intake)
        yield from _results(self._worker.meter)
        if self._publisher is not None:
            yield from self._signals(self._publisher)
        yield from self._providers()
        if self._budget is not None:
            yield from _budget(self._budget)
        yield from _audited(self._audit())

    def _log(self) -> Iterator[Metric]:
        worker = self._worker
        cases = [(n, p.accepted) for n, p in list(worker.projector.partitions.items())]
        ends = {n: worker.highwater(worker.topic, n) for n, _ in cases}
        lag = {(worker.topic, str(n)): max(0, (ends[n] or a.position) - a.position) for n, a in cases}
        for n, safe in [] if worker.gate is None else worker.gate.intake.safe_offsets().items():
            end = worker.highwater(worker.topics.news, n)
            if safe is not None and end is not None:
                lag[worker.topics.news, str(n)] = max(0, end - safe)
        yield gauge("newsproof_consumer_lag", "Records behind the end, per partition", ("topic", "partition"), lag)
        live = {str(n): p.live for n, p in list(worker.projector.partitions.items())}
        yield gauge("newsproof_partition_live", "1 once the fold of a partition is at its end", ("partition",), live)
        stalled = {str(n): s for n, s in worker.stalled_s(time.monotonic()).items()}
        yield gauge(
            "newsproof_partition_stalled_seconds", "Time without a read although records are unread",
            ("partition",), stalled,
        )  # fmt: skip
        tombstones = {str(n): len(a._closed) for n, a in cases}
        yield gauge("newsproof_tombstones", "Closed cases that are remembered", ("partition",), tombstones)

    def _work(self) -> Iterator[Metric]:
        worker = self._worker
        yield GaugeMetricFamily("newsproof_open_cases", "Cases open in this worker", worker.projector.open_cases)
        now = time.time()
        open_for = (
            now - c.opened_at.timestamp()
            for p in list(worker.projector.partitions.values())
            for c in list(p.cases.values())
        )
        yield GaugeMetricFamily(
            "newsproof_oldest_open_case_seconds",
            "Age of the oldest open case; 0: none is open",
            max(open_for, default=0.0),
        )
        yield GaugeMetricFamily("newsproof_calls_in_flight", "Calls to providers in progress", worker.places.used)
        yield GaugeMetricFamily("newsproof_steps_in_flight", "Steps in progress", worker.dispatcher.running)
        yield CounterMetricFamily(
            "newsproof_calls_cut_off", "Calls cut off by rebalances, perhaps paid twice", worker.repaid_at_rebalance
        )
        yield CounterMetricFamily("newsproof_suspects", "Steps found to crash their worker", worker.dispatcher.suspects)
        yield _dead_letters(worker.appender.dead_letters)
        passed_by = Counter[str]()
        for p in list(worker.projector.partitions.values()):
            passed_by.update(dict(p.accepted.ignored))
        text = "Records that the rule of acceptance ignored, in the current fold"
        yield gauge("newsproof_records_passed_by", text, ("why",), passed_by)

    def _intake(self, intake: Intake) -> Iterator[Metric]:
        worker = self._worker
        yield GaugeMetricFamily("newsproof_max_open_cases", "MAX_OPEN_CASES", worker.options.max_open_cases)
        yield GaugeMetricFamily(
            "newsproof_last_news_timestamp_seconds",
            "When the newest news was appended that this process took, or its start; Unix time", intake.newest_ms / 1000,
        )  # fmt: skip
        why = worker.intake_paused
        paused = {reason: why == reason for reason in PAUSED_BY}
        yield gauge("newsproof_intake_paused", "1 while news waits, by reason", ("reason",), paused)
        for name, text, value in (
            ("newsproof_cases_opened", "Cases opened", intake.opened),
            ("newsproof_news_repeated", "News that opened no case because it had one", intake.repeated),
            ("newsproof_news_refused", "News that became dead letters", intake.poison),
            ("newsproof_news_forwarded", "News moved to its right partition", intake.forwarded),
        ):
            yield CounterMetricFamily(name, text, value)

    def _signals(self, publisher: Publisher) -> Iterator[Metric]:
        yield GaugeMetricFamily("newsproof_publisher_active", "1 while this process publishes", publisher.active)
        yield CounterMetricFamily("newsproof_signals_published", "Signal revisions published", publisher.published)

    def _providers(self) -> Iterator[Metric]:
        states = list(self._worker.breakers())
        of_each = {(s.kind, s.provider, s.model): BREAKER_STATES[s.state] for s in states}
        labels = ("kind", "provider", "model")
        yield gauge("newsproof_breaker_state", "0 closed, 1 half open, 2 open", labels, of_each)
        opened = {(s.kind, s.provider, s.model): s.opened for s in states}
        yield counter("newsproof_breaker_opened", "How often a breaker opened", labels, opened)


class SinkMetrics:
    """The collector of the sink."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink

    def collect(self) -> Iterator[Metric]:
        sink = self._sink
        yield build_info()
        lag = {(tp.topic, str(tp.partition)): behind for tp, behind in sink.lag.items()}
        yield gauge("newsproof_sink_lag", "Records that are not in the tables yet", ("topic", "partition"), lag)
        yield GaugeMetricFamily("newsproof_sink_waits", "1 while ClickHouse does not take rows", sink.waits_for_tables)
        yield CounterMetricFamily("newsproof_sink_rows_inserted", "Rows that ClickHouse took", sink.inserted)
        yield CounterMetricFamily("newsproof_sink_retries", "Inserts that were sent again", sink.retries)
        yield _dead_letters(sink.dead_letters)


class ListenerMetrics:
    """The collector of the listener."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener

    def collect(self) -> Iterator[Metric]:
        listener = self._listener
        yield build_info()
        yield GaugeMetricFamily("newsproof_listener_active", "1 while this process listens", listener.active)
        yield CounterMetricFamily(
            "newsproof_listener_parsed", "Responses that had changed and were parsed", listener.parsed
        )
        acknowledged = HistogramMetricFamily(
            "newsproof_listener_ack_seconds", "From a response with news to the broker's acknowledgement of all of it"
        )
        acknowledged.add_metric((), *histogram_of(listener.acknowledged))
        yield acknowledged
        yield from self._sources(datetime.now(UTC))

    def _sources(self, now: datetime) -> Iterator[Metric]:
        of_each = list(self._listener.health.items())
        states = {name: health.state for name, health in of_each}
        cursors = {name: cursor for name, cursor in list(self._listener.cursors.items()) if name in states}
        states |= {name: cursor.state_at(now) for name, cursor in cursors.items() if states[name] == "ok"}
        in_state = {
            (name, known_state): state == known_state for name, state in states.items() for known_state in SOURCE_STATES
        }
        yield gauge(
            "newsproof_listener_source_state", "1 for the state that a source is in", ("source", "state"), in_state
        )
        failures = {(name, health.reason): health.failures for name, health in of_each if health.reason}
        text = "Consecutive failed polls, by the last reason; see docs/sources.md"
        yield gauge("newsproof_listener_source_failures", text, ("source", "reason"), failures)
        silent = {name: (now - health.last_success).total_seconds() for name, health in of_each if health.last_success}
        yield gauge("newsproof_listener_silent_seconds", "Time since a source's last response", ("source",), silent)
        lags = {(name, q): cursor.lag_s(q) for name, cursor in cursors.items() for q in (0.5, 0.95)}
        lag = {(name, str(q)): seconds for (name, q), seconds in lags.items() if seconds is not None}
        text = "From publication, by the publisher's clock, to receipt"
        yield gauge("newsproof_listener_lag_seconds", text, ("source", "quantile"), lag)
        skew = {name: health.skew_s for name, health in of_each if health.skew_s is not None}
        yield gauge("newsproof_listener_skew_seconds", "Lead of a publisher's clock over ours", ("source",), skew)
        items = {(name, of): count for name, health in of_each for of, count in list(health.counts.items())}
        yield counter("newsproof_listener_items", "Items by outcome", ("source", "outcome"), items)


def loop_stalls(late: Latencies) -> Metric:
    """Return the delays of an event loop's beats, in seconds."""
    stalls = HistogramMetricFamily("newsproof_loop_stall_seconds", "Delay of each beat of the event loop")
    stalls.add_metric((), *histogram_of(late))
    return stalls


def _results(meter: Meter) -> Iterator[Metric]:
    steps = HistogramMetricFamily(
        "newsproof_step_seconds", "From a step's start to its result, of accepted results", labels=("step",)
    )
    for step, taken in list(meter.step_seconds.items()):
        steps.add_metric((step,), *histogram_of(taken))
    yield steps
    calls = HistogramMetricFamily(
        "newsproof_call_seconds", "Time of a call at its adapter", labels=("kind", "provider", "model")
    )
    for labels, taken in list(meter.call_seconds.items()):
        calls.add_metric(labels, *histogram_of(taken))
    yield calls
    of_call = ("kind", "provider", "model")
    for name, text, names, counts in (
        ("newsproof_step_failures", "Failures of steps, by kind", ("step", "kind"), meter.failures),
        ("newsproof_calls", "Calls by outcome: ok, cached, or the kind of failure", (*of_call, "outcome"), meter.calls),
        ("newsproof_billed_requests", "Requests that providers bill", ("kind", "provider"), meter.billed),
        ("newsproof_cost_usd", "What calls cost, USD", of_call, meter.cost_usd),
        ("newsproof_calls_unpriced", "Calls whose price is unknown", of_call, meter.unpriced),
        ("newsproof_tokens", "Tokens, by direction", ("provider", "model", "direction"), meter.tokens),
        ("newsproof_captchas", "Pages that required a human", ("strategy", "route"), meter.captchas),
    ):
        yield counter(name, text, names, counts)
    yield CounterMetricFamily("newsproof_calls_denied", "Calls that the budget denied", meter.denied)
    yield counter("newsproof_cases_ended", "Cases that this worker ended, by their last event", ("event",), meter.ended)


def _budget(budget: BudgetLedger) -> Iterator[Metric]:
    state = budget.state
    usd, triage_usd, units = state.left(datetime.now(UTC))
    limits = state.limits  # None until the fold has reached the end: 0 would raise an alarm
    month, reserve, day = (limits.monthly_usd, limits.triage_reserve_usd, limits.daily_units) if limits else (0, 0, 0)
    for name, text, value in (
        ("newsproof_budget_left_usd", "What is left of the month's money, USD", usd * NANO),
        ("newsproof_budget_triage_left_usd", "What is left of triage's reserve, USD", triage_usd * NANO),
        ("newsproof_budget_left_units", "Tool calls that are left today (UTC)", units),
        ("newsproof_budget_limit_usd", "What all calls of a month may cost, USD", month),
        ("newsproof_budget_triage_limit_usd", "What triage may spend beyond it, USD", reserve),
        ("newsproof_budget_limit_units", "Tool calls of a day (UTC)", day),
    ):
        yield gauge(name, text, (), {} if limits is None else {(): float(value)})
    yield GaugeMetricFamily("newsproof_budget_grants_held", "Grants that are not settled yet", len(state.held))
    yield CounterMetricFamily("newsproof_budget_alerts", "Alerts of the budget since its topic began", state.alerted)
    yield CounterMetricFamily("newsproof_budget_denials", "Reservations of this worker that were denied", budget.denied)


def _audited(audit: LastAudit | None) -> Iterator[Metric]:
    at = {} if audit is None else {(): audit.at.timestamp()}
    yield gauge("newsproof_audit_timestamp_seconds", "When the last audit of the log ended, Unix time", (), at)
    broken = {} if audit is None else audit.broken
    yield gauge("newsproof_audit_broken", "How often the last audit found this promise broken", ("promise",), broken)


def histogram_of(taken: Latencies) -> tuple[list[tuple[str, float]], float]:
    buckets: list[tuple[str, float]] = []
    total = 0
    for bound, count in zip((*map(str, BUCKETS_S), "+Inf"), list(taken.counts), strict=True):
        total += count
        buckets.append((bound, total))
    return buckets, taken.total_s


def _dead_letters(letters: Mapping[str, int]) -> Metric:
    return counter("newsproof_dead_letters", "Dead letters that this process wrote", ("reason",), letters)


def build_info() -> Metric:
    return gauge("newsproof_build_info", "1", ("version", "code"), {(VERSION, code_version()): 1.0})


def gauge(name: str, text: str, labels: tuple[str, ...], samples: Samples) -> Metric:
    return _filled(GaugeMetricFamily(name, text, labels=labels), samples)


def counter(name: str, text: str, labels: tuple[str, ...], samples: Samples) -> Metric:
    return _filled(CounterMetricFamily(name, text, labels=labels), samples)


def _filled(metric: GaugeMetricFamily | CounterMetricFamily, samples: Samples) -> Metric:
    for labels, value in list(samples.items()):
        metric.add_metric((labels,) if isinstance(labels, str) else labels, float(value))
    return metric
