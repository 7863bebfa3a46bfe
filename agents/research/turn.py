"""The state of a chat turn (a case of the research flow), and the fold that builds it from events."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Unpack

from agents.core.case_core import Apply, CaseCore, Opening, moved, opened
from schemas import research_events as rev
from schemas.calls import Call
from schemas.effects import Failure
from schemas.events import CancelRequested, EffectCompleted, Event, StepFailed

ANSWER = "answer"
"""The step that writes the answer: a turn's last resort."""
ANALYZE = "analyze"
COLLECT = "collect"


class Turn(CaseCore, frozen=True, kw_only=True):
    """The state of one question.

    ``source_calls`` and ``agent_calls`` are the calls with a reply so far. The answer uses them if a person asks to finish or
    the time is up. ``finishing``: that happened before every agent had reported. ``stopped`` is the request of the person
    who stopped the turn.
    """

    asked: rev.QuestionAsked
    routed: rev.QuestionRouted | None = None
    plan: rev.AnalysisPlanned | None = None
    data: rev.DataCollected | None = None
    reported: rev.AgentsReported | None = None
    source_calls: tuple[Call, ...] = ()
    agent_calls: tuple[Call, ...] = ()
    stopped: CancelRequested | None = None
    finishing: bool = False

    @property
    def as_of(self) -> datetime:
        """The turn's own time (UTC). Only information known by then may be used."""
        return self.opened_at

    @property
    def language(self) -> str:
        """zh, en or other: the language of the question."""
        return self.asked.language

    @property
    def from_cases(self) -> bool:
        """Return whether the answer is written from the pipeline's cases alone."""
        return self.routed is not None and self.routed.route == "cases"

    @property
    def has_two_halves(self) -> bool:
        """Return whether the question asks for facts beside an analysis, so that cases are looked up for it, too."""
        return self.routed is not None and self.routed.route == "plan" and self.routed.cases is not None

    def is_last_resort(self, step: str) -> bool:
        """True for the answer step, and for every step of a turn that is finishing."""
        return self.finishing or step == ANSWER


def open_turn(event: rev.QuestionAsked, **by: Unpack[Opening]) -> Turn:
    return Turn(asked=event, **opened(event, by))


def fold_turn(turn: Turn, event: Event, *, event_id: str, at: datetime) -> Turn:
    return moved(turn, event, event_id=event_id, at=at, apply=_APPLY)


def _replied(turn: Turn, event: EffectCompleted) -> dict[str, Any]:
    if event.step == COLLECT:
        return {"source_calls": turn.source_calls + event.calls}
    if event.step != ANALYZE:
        return {}
    answered = tuple(c for c in event.calls if not isinstance(c.reply, Failure))
    return {"agent_calls": turn.agent_calls + answered}


def _failed(turn: Turn, event: StepFailed) -> dict[str, Any]:
    return {} if event.outcome == "retry" else _finishing(turn)


def _finishing(turn: Turn) -> dict[str, Any]:
    return {"finishing": turn.finishing or turn.reported is None}


_APPLY: Apply = {
    EffectCompleted: _replied,
    StepFailed: _failed,
    rev.FinishRequested: lambda t, _e: _finishing(t),
    CancelRequested: lambda _t, e: {"stopped": e},
    rev.QuestionRouted: lambda _t, e: {"routed": e},
    rev.AnalysisPlanned: lambda _t, e: {"plan": e},
    rev.DataCollected: lambda _t, e: {"data": e, "source_calls": ()},
    rev.CasesFound: lambda _t, e: {"data": rev.DataCollected(asset="", signals=e.signals, unavailable=e.unavailable)},
    rev.AgentsReported: lambda _t, e: {"reported": e},
}
