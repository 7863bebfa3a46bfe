"""A graph of plain steps for tests, benchmarks and chaos runs: the real runtime with minimal steps."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from agents.core.case import Case, Replies
from agents.core.registry import Registry
from agents.core.step import On, StepRequest
from agents.graphs import NEWS
from agents.verification.second_look import STEP as LOOK_AGAIN
from infra.offline.simulated import Simulated
from infra.ports import Port, Ports
from schemas import events as ev
from schemas.effects import Trusted
from schemas.ids import signal_id
from schemas.signals import Signal
from tests import builders

JUDGED: dict[str, Any] = {
    **{"summary": "simulated", "event_type": "other", "asset": "BTC", "asset_name": "Bitcoin", "action": "observe"},
    **{"direction": "neutral", "confidence": 0.5, "strength": "low", "timeframe": "short"},
}
DRAFT = builders.draft(**JUDGED)


class Plain:
    """A step that makes one model call (none if not ``asks``) and emits a fixed small event."""

    name: str
    takes: tuple[On, ...]
    emits: tuple[type[ev.Event], ...]

    def __init__(self, name: str, takes: tuple[On, ...], event: ev.Event, *, asks: bool) -> None:
        self.name, self.takes, self._event, self._asks = name, takes, event, asks
        self.emits = (type(event),)

    def ask(self, case: Case) -> StepRequest:
        if not self._asks:
            return self._event
        return builders.call_model(self.name, Trusted(case.case_id))

    def tell(self, case: Case, replies: Replies) -> ev.Event:
        return self._event


class Finish:
    """Ends a case with a signal."""

    name, emits = "finish", (ev.SignalSynthesized,)

    def __init__(self, takes: tuple[On, ...], *, asks: bool) -> None:
        self.takes, self._asks = takes, asks

    def ask(self, case: Case) -> StepRequest:
        if not self._asks:
            return self.tell(case, Replies())
        return builders.call_model("finish", Trusted(case.case_id))

    def tell(self, case: Case, replies: Replies) -> ev.Event:
        return ev.SignalSynthesized(signal=plain_signal(case), path="deep")


def plain_signal(case: Case) -> Signal:
    """Return a valid signal without content."""
    return builders.signal(
        signal_id=signal_id(case.run_id, case.case_id),
        case_id=case.case_id,
        verdict="unchecked",
        unchecked_reason="disabled",
        **JUDGED,
        preliminary_confidence=DRAFT.confidence,
        valid_until=case.head_at + timedelta(days=1),
        decided_at=case.head_at,
        published_at=case.news.published_at,
        independent_sources=0,
        supporting_sources=0,
        provider_mode="simulated",
        news_source=case.news.source,
        language=case.language,
    )


def plain_registry(*, asks: bool) -> Registry:
    """Return four consecutive steps and an end: EventReceived, four waits, SignalSynthesized."""
    other = (
        On(ev.CaseTriaged, route="single_pass"),
        On(ev.CaseTriaged, route="preliminary"),
        On(ev.CaseTriaged, route="story"),
        On(ev.EvidenceCritiqued),
        On(ev.ToolPlanned, route="search"),
        On(ev.StepFailed, outcome="degrade"),
        On(ev.StepFailed, outcome="give_up"),
        On(ev.CancelRequested),
    )
    triaged = ev.CaseTriaged(draft=DRAFT, route="deep", gate_reason="simulated", rollout_bucket=0.0)
    context = ev.ContextGathered(entries=(), memory="no_match")
    planned = ev.ToolPlanned(
        round=1,
        tools=(),
        search_keywords="",
        keywords_from="none",
        decided_by="disabled",
        reason="simulated",
        tasks=(),
        route="critique",
    )
    critiqued = ev.EvidenceCritiqued(claims=(), verdict="not_enough_evidence")
    return Registry(
        [
            Plain("triage", (On(ev.EventReceived),), triaged, asks=asks),
            Plain("recall", (On(ev.CaseTriaged, route="deep"),), context, asks=asks),
            Plain("plan", (On(ev.ContextGathered),), planned, asks=asks),
            Plain("critique", (On(ev.ToolPlanned, route="critique"),), critiqued, asks=asks),
            Finish(other, asks=False),
            LOOK_AGAIN,
        ],
        NEWS,
    )


def simulated_ports(latency_s: float = 0.0, *, metered: bool = False) -> Ports:
    """Return ports that serve every effect from one simulated provider."""
    return ports_of(Simulated(latency_s, metered=metered))


def ports_of(port: Port) -> Ports:
    """Return ports that serve every effect from this provider."""
    return Ports(
        models={"light": port, "heavy": port},
        search={"simulated": port},
        recall=port,
        earlier=port,
        concerned=port,
        story=port,
    )
