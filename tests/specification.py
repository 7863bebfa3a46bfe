"""A test kit for steps: specify one step, or run a case in memory.

    given(opened("Bybit 冷钱包遭攻击")).ask_gives(FindEarlier(...))
    given(opened("…"), triaged).told(RecallReply(entries=())).emits(ContextGathered(entries=(), memory="no_match"))
    given(opened("…"), triaged).told(Failure(kind="timeout", …)).fails_with("timeout")
    given(question("Is BTC bullish?"), routed).told(ModelReply(data=…)).emits(AnalysisPlanned(…))

The step is the one that the registry finds for the last event, or the one that ``.step(name)`` names. Each call to a
step is made twice and must give equal results, so a step that is not pure fails every specification.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import lru_cache, partial
from typing import Any

import msgspec
from msgspec.structs import replace

from agents.core.failures import failed
from agents.core.registry import Registry
from agents.core.step import Step, StepFailure, StepRequest
from agents.core.step_turn import ask, successor_id, tell, with_calls
from agents.graphs import research, verification
from schemas import ids
from schemas.calls import KIND_OF, Call
from schemas.config import Snapshot
from schemas.effects import CallModel, Effect, Failure, Reply, request_hash
from schemas.events import EffectCompleted, Event, EventReceived, SecondLookOpened, StepFailed
from schemas.news import News
from schemas.research_events import ChatMessage, InvestigationAsked, QuestionAsked

START = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
"""Opening time of a specified case. Each further event is one second later."""
TICK = timedelta(seconds=1)


Opening = EventReceived | SecondLookOpened | QuestionAsked | InvestigationAsked


def opened(
    text: str, *, source: str = "test", language: str = "en", at: datetime = START, external_id: str | None = None
) -> EventReceived:
    """Return the opening event of a news item published at ``at`` (UTC)."""
    news = News(source=source, text=text, published_at=at, external_id=external_id, language=language)
    return EventReceived(news=news, config_hash="", text_hash=ids.text_hash(text), language=language)


def question(message: str, *history: ChatMessage, language: str = "en") -> QuestionAsked:
    """Return the opening event of a chat turn."""
    return QuestionAsked(message=message, config_hash="", language=language, chat_id="chat", history=history)


def case_after(*events: Event, config: Snapshot | None = None) -> Any:
    """Fold these events, one second apart. The first must open a case or a turn."""
    first, *rest = events
    assert isinstance(first, Opening), "begin with what opens a case: opened(...), question(...) or asked(...)"
    case_id = ids.uuid5("asked", ids.content_hash(first))
    if isinstance(first, EventReceived):
        part = first.part
        case_id = first.news.case_id if part is None else ids.part_id(part.first_case, part.asset)
    head_id = ids.event_id(ids.LIVE_RUN, case_id, "")
    flow = _registry(type(first)).flow
    case = flow.kind_of(type(first)).open(
        first, case_id=case_id, event_id=head_id, run_id=ids.LIVE_RUN, at=START, config=config or Snapshot()
    )
    for number, event in enumerate(rest, start=1):
        case = flow.fold(case, event, event_id=successor_id(case, event), at=START + number * TICK)
    return case


def given(*events: Event, config: Snapshot | None = None) -> Given:
    """Start a specification: a case with these events under this configuration."""
    return Given(case_after(*events, config=config), _registry(type(events[0])))


class Given:
    """A case and the step that its head leads to."""

    def __init__(self, case: Any, registry: Registry, step: Step | None = None) -> None:
        self.case = case
        self._registry = registry
        self._step = step

    def step(self, name: str) -> Given:
        """Specify this step instead of the one that the registry finds."""
        return Given(self.case, self._registry, self._registry.steps[name])

    @property
    def asked(self) -> StepRequest:
        """The step's request. The step is called twice, to check that it is pure."""
        step = self._step or self._registry.next_step(self.case)
        assert step is not None, f"{type(self.case.head).__name__} leads to no step"
        asked: StepRequest = _twice(lambda: step.ask(self.case))
        return asked

    def ask_gives(self, *expected: Effect | Event) -> Given:
        """Assert the step's request: effects in order, or one event."""
        asked = self.asked
        assert (asked if isinstance(asked, tuple) else (asked,)) == expected
        return self

    def told(self, *replies: Reply) -> StepOutcome:
        """Reply to the step's effects in this order, then call ``tell``."""
        step = self._step or self._registry.next_step(self.case)
        assert step is not None, f"{type(self.case.head).__name__} leads to no step"
        waiting = list(replies)

        def perform(effect: Effect) -> Reply:
            assert waiting, f"the step also asks for {effect!r}"
            return waiting.pop(0)

        case = self.case
        while isinstance(event := _next_event(case, step, perform, lambda: START + TICK * 60), EffectCompleted):
            case = self._registry.flow.fold(case, event, event_id="", at=case.head_at)
        assert not waiting, f"the step did not ask for what {waiting!r} answers"
        return StepOutcome(event.failure if isinstance(event, StepFailed) else event)

    def emits(self, event: Event) -> None:
        """Assert the event of a step that needs no effect."""
        self.told().emits(event)


class StepOutcome:
    """The outcome of a step after its replies."""

    def __init__(self, outcome: Event | Failure) -> None:
        self.outcome = outcome

    @property
    def event(self) -> Any:
        """The event, without its calls."""
        assert isinstance(self.outcome, Event), f"the step failed: {self.outcome}"
        return replace(self.outcome, calls=())

    def emits(self, event: Event) -> None:
        """Assert the whole event, without its calls."""
        assert self.event == event

    def emits_like(self, kind: type[Event], **fields: Any) -> StepOutcome:
        assert isinstance(self.event, kind)
        assert {name: getattr(self.event, name) for name in fields} == fields
        return self

    def fails_with(self, kind: str, *, retryable: bool | None = None) -> None:
        """Assert that the step failed with this kind of failure."""
        assert isinstance(self.outcome, Failure), f"the step went on: {self.outcome}"
        assert self.outcome.kind == kind
        assert retryable is None or self.outcome.retryable == retryable


class Run(msgspec.Struct, frozen=True):
    """A finished case: its last state, and every event in log order, including ``EffectCompleted``."""

    case: Any
    events: tuple[Event, ...]


def run_case(
    event: Opening,
    perform: Callable[[Effect], Reply],
    *,
    config: Snapshot,
    registry: Registry | None = None,
    start: datetime = START,
) -> Run:
    """Run one case in memory as the runtime would, with ``perform`` answering its effects. Pure if ``perform`` is.

    Retries happen at once, at the logical time that they were due. Several effects are answered one after the other.

    Raises:
        AssertionError: the case does not end within 200 events.
    """
    graph = registry or _registry(type(event))
    case = replace(case_after(event, config=config), opened_at=start, head_at=start)
    clock, log = [start], list[Event]([event])

    def now() -> datetime:
        clock[0] += TICK
        return clock[0]

    while (step := graph.next_step(case)) is not None:
        assert len(log) < 200, f"the case does not end: {[type(e).__name__ for e in log[-9:]]}"
        log.append(one := _next_event(case, step, perform, now))
        if isinstance(one, StepFailed):
            clock[0] = one.retry_at or clock[0]
        at = clock[0] if isinstance(one, EffectCompleted) else now()
        case = graph.flow.fold(case, one, event_id=successor_id(case, one), at=at)
    return Run(case, tuple(log))


def call_of(effect: Effect, reply: Reply, *, at: datetime = START, mode: Any = "offline") -> Call:
    """Return the record of one call that costs nothing."""
    prompt = effect if isinstance(effect, CallModel) else None
    return Call(
        kind=KIND_OF[type(effect)],
        provider=mode,
        mode=mode,
        request_hash=request_hash(effect),
        reply=reply,
        latency_ms=0.0,
        replied_at=at,
        cost_usd=Decimal(0),
        model=f"{mode}-model" if prompt else None,
        prompt_name=prompt.prompt_name if prompt else None,
        prompt_version=prompt.prompt_version if prompt else None,
        prompt_hash=prompt.prompt_hash if prompt else None,
        error=reply.kind if isinstance(reply, Failure) else None,
    )


def _next_event(case: Any, step: Step, perform: Callable[[Effect], Reply], now: Callable[[], datetime]) -> Event:
    # One effect at a time, as if each reply of several came before the next was requested.
    calls: tuple[Call, ...] = ()
    try:
        asked = _twice(partial(ask, step, case))
        if isinstance(asked, Event):
            return asked
        wanted, effect = next(iter(asked.effects.items()))
        calls = (call_of(effect, perform(effect), at=now(), mode=case.config.provider_mode),)
        event: Event = _twice(partial(tell, step, case, asked, wanted, calls))
        return event
    except StepFailure as stop:
        return with_calls(failed(case, step.name, stop.failure, now=now()), calls)


def _twice(question: Callable[[], Any]) -> Any:
    first, second = question(), question()
    assert first == second, f"the step is not pure: {first!r} and then {second!r}"
    return first


@lru_cache(maxsize=3)
def _registry(opening: type[Event]) -> Registry:
    return verification() if opening in (EventReceived, SecondLookOpened) else research()
