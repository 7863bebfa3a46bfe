"""The replay cursor: the position of a replay in its recording, and the remaining recorded replies."""

from __future__ import annotations

from collections.abc import Container

from schemas import events as ev
from schemas.calls import Call
from schemas.effects import CallModel, Effect
from streams.replay.recording import RecordedEvent, Recording

FROM_OUTSIDE = frozenset({"deadline", "crash", "too_large"})
"""Failures that the runtime logs itself, without a reply that reports them."""


class ReplayCursor:
    """Position in one recording.

    ``next`` is the next recorded event; None once the replay has left the recorded path.
    """

    def __init__(self, recording: Recording) -> None:
        self._replies: dict[str, list[tuple[Call, ...]]] = {}
        self._taken: dict[str, int] = {}
        self._path: list[RecordedEvent] = []
        self._completed: list[list[RecordedEvent]] = []
        self._calls: list[list[tuple[Call, ...]]] = []
        for record in recording.records:
            self._add(record)
        self._at = 0
        self._played = 0
        self._left = False

    def _add(self, record: RecordedEvent) -> None:
        event = record.event
        groups = _grouped(event.calls)
        for wanted, calls in groups.items():
            self._replies.setdefault(wanted, []).append(calls)
        if isinstance(event, ev.EffectCompleted):
            self._completed[-1].append(record)
            self._calls[-1].extend(groups.values())
            return
        if self._calls:
            self._calls[-1].extend(groups.values())
        self._path.append(record)
        self._completed.append([])
        self._calls.append([])

    @property
    def next(self) -> RecordedEvent | None:
        """The recorded path event after the replay's head."""
        if self._left or self._at + 1 >= len(self._path):
            return None
        return self._path[self._at + 1]

    @property
    def unused(self) -> int:
        """Number of recorded replies that were not requested."""
        return sum(len(groups) - self._taken.get(wanted, 0) for wanted, groups in self._replies.items())

    def from_outside(self) -> RecordedEvent | None:
        """Return the next recorded event if no step produced it. Such an event recurs whatever the steps decide."""
        if (recorded := self.next) is None:
            return None
        match recorded.event:
            case ev.CancelRequested() | ev.FinishRequested() | ev.StepStarted():
                return recorded
            case ev.StepFailed(failure=failure, calls=()) if failure.kind in FROM_OUTSIDE:
                return recorded
            case ev.CaseFailed(failed_step="journal"):
                return recorded
            case _:
                return None

    @property
    def calls_here(self) -> list[tuple[Call, ...]]:
        """The recorded calls at this head, including those of the event that follows it."""
        return self._calls[self._at]

    @property
    def completed_here(self) -> list[RecordedEvent]:
        """The recorded ``EffectCompleted`` at this head, in log order."""
        return self._completed[self._at]

    def follow(self, event: ev.Event) -> bool:
        """Advance by one event. Returns False, from then on always, if its kind differs from the recorded event's."""
        recorded = self.next
        self._left = recorded is None or not _same_kind(recorded.event, event)
        if not self._left:
            self._at += 1
            self._played = 0
        return not self._left

    def completed_next(self, missing: Container[str]) -> list[str]:
        """Return the next consecutive group of these requests whose replies were logged at this head."""
        if self._left:
            return []
        completed = self._completed[self._at]
        causes: list[str] = []
        while self._played < len(completed):
            wanted = request_of(completed[self._played])
            if wanted in missing and wanted not in causes:
                causes.append(wanted)
            elif causes:
                break  # it may be requested once the step has these replies
            self._played += 1
        return causes

    def reply(self, wanted: str) -> tuple[Call, ...] | None:
        """Return the recorded calls of the next occurrence of this request; None if none is left."""
        groups = self._replies.get(wanted)
        taken = self._taken.get(wanted, 0)
        if groups is None or taken >= len(groups):
            return None
        self._taken[wanted] = taken + 1
        return groups[taken]

    def stand_in(self, effect: Effect) -> tuple[Call, ...]:
        """Return the recorded calls that an effect with another hash replaces: same prompt, at this head."""
        if self._left or not isinstance(effect, CallModel):
            return ()
        for calls in self._calls[self._at]:
            # A call that was cut was repeated, and its reply follows.
            if calls[-1].kind == "model" and calls[-1].prompt_name == effect.prompt_name and calls[-1].error != "cut":
                return calls
        return ()


def request_of(record: RecordedEvent) -> str:
    """Return the request that an ``EffectCompleted`` completes."""
    assert isinstance(record.event, ev.EffectCompleted)
    return record.event.request_hash


def _grouped(calls: tuple[Call, ...]) -> dict[str, tuple[Call, ...]]:
    if len(calls) == 1:
        return {calls[0].request_hash: calls}
    groups: dict[str, tuple[Call, ...]] = {}
    for call in calls:
        groups[call.request_hash] = (*groups.get(call.request_hash, ()), call)
    return groups


def _same_kind(recorded: ev.Event, event: ev.Event) -> bool:
    if type(recorded) is not type(event):
        return False
    if isinstance(recorded, ev.StepFailed) and isinstance(event, ev.StepFailed):
        return recorded.step == event.step and recorded.outcome == event.outcome
    return getattr(recorded, "route", None) == getattr(event, "route", None)
