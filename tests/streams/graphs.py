"""Graphs for tests of the runtime: the plain graph with replaced steps, and one that degrades as the real one does."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, ClassVar

from agents.core.case import Case, Replies
from agents.core.registry import Registry
from agents.core.step import On, Step, StepRequest, needed, only_reply
from agents.graphs import NEWS
from infra.offline.simulated import Simulated
from infra.ports import Answer, Ports
from schemas import events as ev
from schemas.effects import ModelReply
from tests.plain_graph import plain_registry, plain_signal, ports_of


class Gate(Simulated):
    """A provider that answers nothing that ``holds`` is true of before ``opened`` is set.

    ``asked``: how often it was asked such a thing; ``given_up``: how often the answer was not waited for.
    """

    def __init__(self, holds: Callable[[Any], bool] = lambda _effect: True) -> None:
        super().__init__()
        self._holds, self.opened = holds, asyncio.Event()
        self.asked = self.given_up = 0

    async def perform(self, effect: Any) -> Answer:
        if self._holds(effect):
            self.asked += 1
            try:
                await self.opened.wait()
            except asyncio.CancelledError:
                self.given_up += 1
                raise
        return await super().perform(effect)

    def ports(self) -> Ports:
        return ports_of(self)


class Written:
    """A step made of two given functions."""

    name: ClassVar[str] = ""
    takes: ClassVar[tuple[On, ...]] = ()
    emits: ClassVar[tuple[type[ev.Event], ...]] = ()

    def __init__(
        self,
        name: str,
        takes: tuple[On, ...],
        emits: tuple[type[ev.Event], ...],
        ask: Callable[[Case], StepRequest],
        tell: Callable[[Case, Replies], ev.Event] | None = None,
    ) -> None:
        self.name, self.takes, self.emits = name, takes, emits  # type: ignore[misc]
        self._ask, self._tell = ask, tell

    def ask(self, case: Case) -> StepRequest:
        return self._ask(case)

    def tell(self, case: Case, replies: Replies) -> ev.Event:
        assert self._tell is not None, f"{self.name} asked for nothing"
        return self._tell(case, replies)


def degrading(*, asks: bool = False, **exchanged: Any) -> Registry:
    """The plain graph whose failures end as in the real one: CaseDegraded, the single-pass analysis, CaseFailed.

    ``exchanged`` maps a step's name to a function that gets the plain step and returns the one to use instead.
    """
    plain = {name: _failing(step) for name, step in plain_registry(asks=asks).steps.items()}
    finish = plain.pop("finish")
    took = tuple(on for on in finish.takes if on.event is not ev.StepFailed)
    steps: dict[str, Step] = {
        **plain,
        "finish": Written("finish", took, finish.emits, finish.ask),
        "degrade": Written("degrade", (On(ev.StepFailed, outcome="degrade"),), (ev.CaseDegraded,), _degraded),
        "single_pass": Written(
            "single_pass", (On(ev.CaseDegraded),), (ev.SignalSynthesized,), _single_pass, _single_pass
        ),
        "give_up": Written("give_up", (On(ev.StepFailed, outcome="give_up"),), (ev.CaseFailed,), _given_up),
    }
    return Registry((exchanged[name](step) if name in exchanged else step for name, step in steps.items()), NEWS)


def _failing(plain: Any) -> Any:
    # The plain steps accept any reply; here a failed call fails the step, as in the real graph.
    def tell(case: Case, replies: Replies) -> ev.Event:
        needed(only_reply(replies), ModelReply)
        event: ev.Event = plain.tell(case, replies)
        return event

    return Written(plain.name, plain.takes, plain.emits, plain.ask, tell)


def _degraded(case: Case) -> ev.Event:
    return ev.CaseDegraded(reason=case.head.failure.kind, failed_step=case.head.step)


def _single_pass(case: Case, _replies: Replies = Replies()) -> ev.Event:  # noqa: B008 - frozen
    return ev.SignalSynthesized(signal=plain_signal(case), path="degraded")


def _given_up(case: Case) -> ev.Event:
    return ev.CaseFailed(reason=case.head.failure.message, failed_step=case.head.step, attempts=case.head.attempt)


def asking(
    ask: Callable[[Case], StepRequest], tell: Callable[[Case, Replies], ev.Event] | None = None
) -> Callable[[Any], Written]:
    """Replace a plain step with one of these functions. Without ``tell``, the plain step's is kept."""
    return lambda plain: Written(plain.name, plain.takes, plain.emits, ask, tell or _failing(plain).tell)
