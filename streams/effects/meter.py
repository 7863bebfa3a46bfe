"""Meter of time and cost of the results that this worker appended, counted and logged when the log accepts them.

Each case that ends here is one log line at INFO: ``case``, ``outcome`` (its last event and that event's route) and
``latency_ms`` since its opening. ``steps``, ``tokens`` and ``cost_usd`` (null: a price is unknown) cover this worker's
share.

Each step's result is one log line at DEBUG: ``step``, ``case``, ``outcome``, ``latency_ms`` since the head that it
follows, and the ``tokens`` and ``cost_usd`` of the replies that it used. A reply that a failed attempt left behind
counts in that attempt's line and in the line of the step that uses it. A step of a search round also logs its
``round``, ``keywords`` and ``reason``. After a search or opened pages, it also counts the case's evidence:
``references``, and how many of them are ``new``, ``independent`` and ``official``. The line of a signal has its
``confidence``, and its change since triage (``delta``).

Replayed results (appended by an earlier process) and ignored results are not counted, so the counters of all workers
add up to what the log accepted while they ran.
"""

from __future__ import annotations

import logging
from bisect import bisect_left
from collections import Counter, OrderedDict
from collections.abc import Iterable
from datetime import datetime
from decimal import Decimal

import msgspec
import structlog

from agents.core.case_core import CaseCore
from agents.core.inquiry import Inquiry
from agents.core.registry import Registry
from agents.planning.rounds import references_so_far
from schemas import events as ev
from schemas.calls import Call
from schemas.ids import effect_id

log = structlog.get_logger(__name__)

BUCKETS_S = (0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)
"""Upper bounds of the histogram, from a step without calls to the whole time of a case."""
MAX_CASES = 20_000
"""Maximum number of open cases with results of this worker. Older ones are in partitions that others own now."""

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
    event: ev.Event
    replies: tuple[Call, ...]
    known: frozenset[str] = frozenset()
    """Addresses of the case's references before this result."""

    def tell(self, case_id: str, seconds: float) -> None:
        """Log the line of a step that took this many seconds."""
        rests_on = (*self.replies, *self.event.calls)
        log.debug(
            "step",
            step=self.step,
            case=case_id,
            outcome=_outcome(self.event),
            latency_ms=round(seconds * 1000, 1),
            tokens=_tokens(rests_on),
            cost_usd=_as_number(_cost(rests_on)),
            **_of_round(self.event, self.known),
        )


def _of_round(event: ev.Event, known: frozenset[str]) -> dict[str, object]:
    match event:
        case ev.ToolPlanned(round=number, search_keywords=keywords, reason=reason):
            return {"round": number, "keywords": keywords, "reason": reason}
        case ev.KeywordsExpanded(round=number, keywords=found, reason=reason):
            return {"round": number, "keywords": ", ".join(found), "reason": reason}
        case ev.SearchCompleted(round=number, findings=findings) | ev.PagesScraped(round=number, findings=findings):
            if findings is None:
                return {"round": number}
            references = findings.references
            return {
                "round": number,
                "references": len(references),
                "new": sum(reference.url not in known for reference in references),
                "independent": findings.independent_sources,
                "official": sum(reference.official for reference in references),
            }
        case ev.SignalSynthesized(signal=signal):
            return {
                "confidence": signal.confidence,
                "delta": round(signal.confidence - signal.preliminary_confidence, 4),
            }
        case _:
            return {}


class _Case(msgspec.Struct):
    """This worker's work on an open case. ``pending``: its results that are not folded yet, by event id."""

    pending: dict[str, _Result] = msgspec.field(default_factory=dict)
    steps: int = 0
    tokens: int = 0
    cost_usd: Decimal | None = Decimal(0)


class Meter:
    """Counters of accepted results; the metrics read them at each scrape."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._cases: OrderedDict[str, _Case] = OrderedDict()
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
        seconds = None if isinstance(event, ev.EffectCompleted) else _seconds(case, now)
        known = references_so_far(case) if isinstance(case, Inquiry) and log.is_enabled_for(logging.DEBUG) else ()
        urls = frozenset(reference.url for reference in known)
        result = _Result(_step_of(self._registry, case, event), seconds, event, case.replies.calls, urls)
        if (ours := self._cases.get(case.case_id)) is None:
            ours = self._cases[case.case_id] = _Case()
            if len(self._cases) > MAX_CASES:
                self._cases.popitem(last=False)
        ours.pending[event_id] = result

    def folded(self, case: CaseCore) -> None:
        """Count the accepted result if it is this worker's. ``case`` is the state after its event."""
        if (ours := self._cases.get(case.case_id)) is None or not ours.pending:
            return
        if (result := ours.pending.pop(case.head_id, None)) is not None:
            self._count(result, case.case_id, ours)
        elif case.replies.calls:
            last = case.replies.calls[-1]
            asked = effect_id(case.run_id, case.case_id, case.head_id, last.request_hash)
            if (result := ours.pending.pop(asked, None)) is not None:
                self._count(result, case.case_id, ours)

    def closed(self, case: CaseCore) -> None:
        """Count the end of a case, and log it if it is this worker's. Its remaining results were ignored."""
        ours = self._cases.get(case.case_id)
        ended_here = ours is not None and case.head_id in ours.pending
        self.folded(case)
        self._cases.pop(case.case_id, None)
        if ours is None or not ended_here:
            return
        self.ended[type(case.head).__name__] += 1
        log.info(
            "case",
            case=case.case_id,
            outcome=_outcome(case.head),
            latency_ms=round(max(0.0, (case.head_at - case.opened_at).total_seconds()) * 1000, 1),
            steps=ours.steps,
            tokens=ours.tokens,
            cost_usd=_as_number(ours.cost_usd),
        )

    def _count(self, result: _Result, case_id: str, ours: _Case) -> None:
        event = result.event
        if result.seconds is not None:
            ours.steps += 1
            if log.is_enabled_for(logging.DEBUG):
                result.tell(case_id, result.seconds)
            if (latencies := self.step_seconds.get(result.step)) is None:
                latencies = self.step_seconds[result.step] = Latencies()
            latencies.add(result.seconds)
        if isinstance(event, ev.StepFailed):
            self.failures[result.step, event.failure.kind] += 1
        if calls := event.calls:
            ours.tokens += _tokens(calls)
            cost = _cost(calls)
            ours.cost_usd = None if cost is None or ours.cost_usd is None else ours.cost_usd + cost
            for call in calls:
                self._count_call(call)

    def _count_call(self, call: Call) -> None:
        labels = (call.kind, call.provider, call.model or "")
        self.calls[(*labels, "cached" if call.cached else call.error or "ok")] += 1
        if call.cached:
            return
        if call.units:
            self.billed[call.kind, call.provider] += call.units
        self.captchas.update(
            (refusal.strategy, refusal.route) for refusal in call.refusals if refusal.kind == "captcha"
        )
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


def _tokens(calls: Iterable[Call]) -> int:
    return sum(c.usage_input_tokens + c.usage_output_tokens + c.usage_thinking_tokens for c in calls)


def _cost(calls: Iterable[Call]) -> Decimal | None:
    costs = [c.cost_usd for c in calls]
    return None if None in costs else sum((c for c in costs if c), Decimal(0))


def _as_number(cost_usd: Decimal | None) -> float | None:
    return None if cost_usd is None else float(cost_usd)


def _step_of(registry: Registry, case: CaseCore, event: ev.Event) -> str:
    if isinstance(event, ev.StepFailed | ev.StepStarted | ev.EffectCompleted):
        return event.step
    if isinstance(event, ev.CaseFailed) and event.failed_step == "journal":
        return event.failed_step  # of a quarantined case, whose head may lead to no step
    step = registry.next_step(case)
    return "deadline" if step is None else step.name


def _seconds(case: CaseCore, now: datetime) -> float:
    # Since the head that the step was started for, or since its retry was due.
    since = case.head_at
    if isinstance(case.head, ev.StepFailed) and case.head.retry_at is not None:
        since = max(since, case.head.retry_at)
    return max(0.0, (now - since).total_seconds())
