"""Meter of time and cost of the results that this worker appended, counted and logged when the log accepts them.

Each step's result is one log line at INFO: ``step``, ``case``, ``outcome`` (the event and its route), ``latency_ms`` from
the head that it follows, and the ``tokens`` and ``cost_usd`` of the answers that it rests on (null: a price is unknown).
An answer that a failed attempt left behind counts in that attempt's line and in the one that uses it.

Replayed results (appended by an earlier process) and ignored results are not counted, so the counters of all workers
add up to what the log accepted while they ran.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, OrderedDict
from datetime import datetime

import msgspec
import structlog

from agents.core.case_core import CaseCore
from agents.core.registry import Registry
from schemas import events as ev
from schemas.calls import Call
from schemas.ids import effect_id

log = structlog.get_logger(__name__)

BUCKETS_S = (0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)
"""Upper bounds of the histogram: from a step without calls to the whole time of a case."""
MAX_CASES = 20_000
"""Cases with results that are not folded yet. Older ones belong to partitions that another worker owns now."""

CallLabels = tuple[str, str, str]
"""(kind, provider, model)."""


class Latencies(msgspec.Struct):
    """A histogram of seconds: one count per bucket of :data:`BUCKETS_S`, one beyond, and the sum."""

    counts: list[int] = msgspec.field(default_factory=lambda: [0] * (len(BUCKETS_S) + 1))
    total_s: float = 0.0

    def add(self, seconds: float) -> None:
        self.counts[bisect_left(BUCKETS_S, seconds)] += 1
        self.total_s += seconds


class _Result(msgspec.Struct, frozen=True):
    step: str
    seconds: float | None
    failure: str | None
    calls: tuple[Call, ...]
    outcome: str
    rests_on: tuple[Call, ...]

    def tell(self, case_id: str, seconds: float) -> None:
        """Log the line of a step that ended after so long."""
        costs = [c.cost_usd for c in self.rests_on]
        log.info(
            "step",
            step=self.step,
            case=case_id,
            outcome=self.outcome,
            latency_ms=round(seconds * 1000, 1),
            tokens=sum(c.usage_input_tokens + c.usage_output_tokens + c.usage_thinking_tokens for c in self.rests_on),
            cost_usd=None if None in costs else float(sum(c for c in costs if c)),
        )


class Meter:
    """Counters of accepted results; the metrics read them at each scrape."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._pending: OrderedDict[str, dict[str, _Result]] = OrderedDict()
        self.step_seconds: dict[str, Latencies] = {}
        self.failures: Counter[tuple[str, str]] = Counter()
        self.calls: Counter[tuple[str, str, str, str]] = Counter()
        self.call_seconds: dict[CallLabels, Latencies] = {}
        self.cost_usd: Counter[CallLabels] = Counter()
        self.unpriced: Counter[CallLabels] = Counter()
        self.tokens: Counter[tuple[str, str, str]] = Counter()
        self.billed: Counter[tuple[str, str]] = Counter()
        """(kind, provider) → requests that the provider bills."""
        self.denied = 0
        self.captchas: Counter[tuple[str, str]] = Counter()
        """(strategy, route) → pages that asked for a human."""
        self.ended: Counter[str] = Counter()

    def appending(self, case: CaseCore, event: ev.Event, event_id: str, now: datetime) -> None:
        """Remember a result that is about to be appended at the case's head. ``now`` is UTC."""
        result = _Result(
            step=_step_of(self._registry, case, event),
            seconds=None if isinstance(event, ev.EffectCompleted) else _seconds(case, now),
            failure=event.failure.kind if isinstance(event, ev.StepFailed) else None,
            calls=event.calls,
            outcome=_outcome(event),
            rests_on=(*case.replies.calls, *event.calls),
        )
        self._pending.setdefault(case.case_id, {})[event_id] = result
        if len(self._pending) > MAX_CASES:
            self._pending.popitem(last=False)

    def folded(self, case: CaseCore) -> None:
        """Count the result if it is ours. The log accepted an event of this case; ``case`` is the state after it."""
        pending = self._pending.get(case.case_id)
        if pending is None:
            return
        if (result := pending.pop(case.head_id, None)) is not None:
            self._count(result, case.case_id)
        elif case.replies.calls:
            last = case.replies.calls[-1]
            asked = effect_id(case.run_id, case.case_id, case.head_id, last.request_hash)
            if (result := pending.pop(asked, None)) is not None:
                self._count(result, case.case_id)
        if not pending:
            del self._pending[case.case_id]

    def closed(self, case: CaseCore) -> None:
        """Count the end of a case; its remaining results were ignored."""
        if case.head_id in self._pending.get(case.case_id, {}):
            self.ended[type(case.head).__name__] += 1
        self.folded(case)
        self._pending.pop(case.case_id, None)

    def _count(self, result: _Result, case_id: str) -> None:
        if result.seconds is not None:
            result.tell(case_id, result.seconds)
            self.step_seconds.setdefault(result.step, Latencies()).add(result.seconds)
        if result.failure is not None:
            self.failures[result.step, result.failure] += 1
        for call in result.calls:
            self._count_call(call)

    def _count_call(self, call: Call) -> None:
        labels = (call.kind, call.provider, call.model or "")
        self.calls[(*labels, "cached" if call.cached else call.error or "ok")] += 1
        if call.cached:
            return
        if call.units:
            self.billed[call.kind, call.provider] += call.units
        self.captchas.update((one.strategy, one.route) for one in call.refusals if one.kind == "captcha")
        self.call_seconds.setdefault(labels, Latencies()).add(call.latency_ms / 1000)
        self.denied += call.error == "budget"
        if call.cost_usd is None:
            self.unpriced[labels] += 1
        else:
            self.cost_usd[labels] += float(call.cost_usd)  # type: ignore[assignment]
        for direction, count in (
            ("input", call.usage_input_tokens),
            ("cached", call.usage_cached_tokens),
            ("output", call.usage_output_tokens),
            ("thinking", call.usage_thinking_tokens),
        ):
            if count:
                self.tokens[call.provider, call.model or "", direction] += count


def _outcome(event: ev.Event) -> str:
    route = getattr(event, "outcome" if isinstance(event, ev.StepFailed) else "route", None)
    return type(event).__name__ if route is None else f"{type(event).__name__} · {route}"


def _step_of(registry: Registry, case: CaseCore, event: ev.Event) -> str:
    if isinstance(event, ev.StepFailed | ev.StepStarted | ev.EffectCompleted):
        return event.step
    if isinstance(event, ev.CaseFailed) and event.failed_step == "journal":
        return event.failed_step  # of a quarantined case, whose head may lead to no step
    step = registry.next_step(case)
    return "deadline" if step is None else step.name


def _seconds(case: CaseCore, now: datetime) -> float:
    # From the head that the step was started for, or from the time its retry was due.
    since = case.head_at
    if isinstance(case.head, ev.StepFailed) and case.head.retry_at is not None:
        since = max(since, case.head.retry_at)
    return max(0.0, (now - since).total_seconds())
