"""The replay engine: calls every step of a recorded case again, in the runtime's order.

While the path follows the recorded one, the recording supplies ids, times, and events that happened *to* the
case rather than in a step (a deadline, a crash, a restart, a person's command). Replies are found by (request hash,
occurrence), whatever the path. A request without a recorded reply is yielded as a :class:`Need`.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from datetime import datetime
from typing import cast

from msgspec.structs import replace

from agents.core.case import Case
from agents.core.failures import failed
from agents.core.inquiry import Inquiry
from agents.core.registry import Registry
from agents.core.step import Step
from agents.core.step_turn import ask, attempt_of, failure_of, successor_id, tell, with_calls
from schemas import events as ev
from schemas.calls import KIND_OF, Call, CallKind
from schemas.config import Snapshot
from schemas.effects import Effect, Failure
from streams.replay.cursor import ReplayCursor
from streams.replay.lookahead import NOTHING, future_evidence, guarded
from streams.replay.outcome import Answer, Asking, Execution, Miss, Need, ReplayResult, Status, UsedCall
from streams.replay.recording import Recording

MAX_EVENTS = 200
"""Maximum events before a replay counts as endless. The longest path of the graph has about 30."""


class _Stopped(Exception):  # noqa: N818 - it stops one case, which is no error of the run
    def __init__(self, status: Status, reason: str) -> None:
        super().__init__(reason)
        self.status: Status = status
        self.reason = reason


class Replay:
    """Replays one recording under one snapshot.

    ``run`` is a generator of :class:`Need` that returns :class:`ReplayResult`.
    """

    def __init__(
        self,
        recording: Recording,
        snapshot: Snapshot | None,
        registry: Registry,
        *,
        changed: frozenset[str] | None = None,
        from_step: str | None = None,
        models: Mapping[str, str] | None = None,
    ) -> None:
        """Prepare a replay. ``snapshot``: the configuration to use; None if the case's own is not available.

        ``changed`` names the prompts that differ from the recorded ones, and asserts that nothing else does, including
        code. Then recorded results are reused up to the first request with such a prompt, because a step is a pure
        function and would return the same again. None: every step is called again. ``from_step``: everything before the
        case first reaches this step is reused, whatever has changed. ``models``: per task, the only ``provider:model``
        whose replies are reused.
        """
        self._models = models or {}
        self._from_step = from_step
        self._changed = changed
        self._recording = recording
        self._snapshot = snapshot
        self._registry = registry
        self._cursor = ReplayCursor(recording)
        self._used: list[UsedCall] = []
        self._look_ahead = NOTHING
        self._diverged_at = ""

    def run(self) -> Asking:
        """Replay to the end of the case.

        Raises:
            ContractError: the recording does not start with an opening of this flow; check ``Recording.unreadable``
            first.
        """
        opening = self._recording.records[0]
        case: Inquiry = self._registry.flow.kind_of(type(opening.event)).open(
            opening.event,
            case_id=self._recording.case_id,
            event_id=opening.id,
            run_id=self._recording.run_id,
            at=opening.at,
            config=self._snapshot,
        )
        if self._snapshot is None and self._cursor.from_outside() is None:
            return self._end(case, "failed", f"its configuration {case.config_hash} is not on the configs topic")
        try:
            while not case.closed:
                if case.seq > MAX_EVENTS:
                    raise _Stopped("failed", f"the case does not end within {MAX_EVENTS} events")
                case = yield from self._moved(case)
        except _Stopped as stop:
            return self._end(case, stop.status, stop.reason)
        if late := future_evidence(getattr(case.head, "signal", None), case.as_of):
            return self._end(case, "refused", f"its signal uses evidence from after the case: {', '.join(late)}")
        return self._end(case, "replayed", "")

    def _end(self, case: Inquiry, status: Status, reason: str) -> ReplayResult:
        return ReplayResult(
            status=status,
            case=case,
            end=case.head if case.closed else None,
            reason=reason,
            of_others=case.of_others if isinstance(case, Case) else (),
            used=tuple(self._used),
            diverged_at=self._diverged_at,
            unused=self._cursor.unused,
            look_ahead=self._look_ahead,
        )

    def _fold(self, case: Inquiry, event: ev.Event, *, event_id: str, at: datetime) -> Inquiry:
        return cast(Inquiry, self._registry.flow.fold(case, event, event_id=event_id, at=at))

    # One event

    def _moved(self, case: Inquiry) -> Generator[Need, Answer, Inquiry]:
        """Return the case after its next event."""
        step = self._registry.next_step(case)
        outside = self._cursor.from_outside()
        if outside is not None:
            if step is not None and isinstance(outside.event, ev.StepFailed):
                case = self._fold_replies(case, step)
            self._cursor.follow(outside.event)
            return self._fold(case, outside.event, event_id=outside.id, at=outside.at)
        if step is None:
            raise _Stopped("failed", f"{type(case.head).__name__} leads to no step of today's code")
        self._from_step = None if step.name == self._from_step else self._from_step
        if self._changed is not None or self._from_step is not None:
            changed = frozenset[str]() if self._from_step is not None else self._changed or frozenset()
            if (known := self._as_recorded(case, step, changed)) is not None:
                return known
        case, event = yield from self._step_event(case, step)
        recorded = self._cursor.next
        same = self._cursor.follow(event)
        if not self._diverged_at and not (same and recorded is not None and _alike(recorded.event, event)):
            self._diverged_at = step.name
        if same and recorded is not None:
            return self._fold(case, event, event_id=recorded.id, at=recorded.at)
        at = max((c.replied_at for c in event.calls), default=case.replies.at or case.head_at)
        return self._fold(case, event, event_id=successor_id(case), at=max(at, case.head_at))

    def _as_recorded(self, case: Inquiry, step: Step, changed: frozenset[str]) -> Inquiry | None:
        """Return the case after its recorded event, if nothing up to and including it differs from the recording."""
        recorded = None if self._diverged_at else self._cursor.next
        if recorded is None:
            return None
        groups, late = self._cursor.calls_here, NOTHING
        for calls in groups:
            kept, more = guarded(calls, case.as_of)
            if calls[-1].prompt_name in changed or kept is not calls or not self._of_its_model(calls):
                return None
            late = late if more is NOTHING else late + more
        self._look_ahead = self._look_ahead if late is NOTHING else self._look_ahead + late
        for calls in groups:
            self._cursor.reply(calls[-1].request_hash)
            self._used.append(_used(case, step, calls[-1].kind, calls[-1].request_hash, "reused", calls))
        if completed := self._cursor.completed_here:  # all at once: the same result as folding each of them
            calls = tuple(c for record in completed for c in record.event.calls)
            case = self._fold(case, replace(completed[0].event, calls=calls), event_id="", at=completed[-1].at)
        self._cursor.follow(recorded.event)
        return self._fold(case, recorded.event, event_id=recorded.id, at=recorded.at)

    def _step_event(self, case: Inquiry, step: Step) -> Generator[Need, Answer, tuple[Inquiry, ev.Event]]:
        """Call the step until it needs nothing more; return the case with its replies, and the event."""
        calls: tuple[Call, ...] = ()
        try:
            while not isinstance(asked := ask(step, case), ev.Event):
                # In the order of the replies: their first group, or all new ones.
                for wanted in self._cursor.completed_next(asked.effects) or asked.effects:
                    calls = yield from self._answer(case, step, asked.effects[wanted], wanted)
                    event = tell(step, case, asked, wanted, calls)
                    if not isinstance(event, ev.EffectCompleted):
                        return case, event
                    case, calls = self._fold(case, event, event_id="", at=case.head_at), ()
            return case, asked
        except _Stopped:
            raise
        except Exception as exc:
            return case, with_calls(self._failed(case, step, failure_of(exc), calls), calls)

    def _fold_replies(self, case: Inquiry, step: Step) -> Inquiry:
        """Fold the replies that arrived before something outside ended the step, without new requests."""
        try:
            while not isinstance(asked := ask(step, case), ev.Event):
                hashes = self._cursor.completed_next(asked.effects)
                if not hashes:
                    return case
                for wanted in hashes:
                    calls = self._reused(case, step, asked.effects[wanted], wanted) or ()
                    case = self._fold(case, tell(step, case, asked, wanted, calls), event_id="", at=case.head_at)
        except Exception:  # the step was ended, so its own result does not matter
            return case
        return case

    # One effect

    def _answer(
        self, case: Inquiry, step: Step, effect: Effect, wanted: str
    ) -> Generator[Need, Answer, tuple[Call, ...]]:
        reused = self._reused(case, step, effect, wanted)
        if reused is not None:
            return reused
        stand_in = self._cursor.stand_in(effect)
        answer = yield Need(effect, step.name, case, wanted, stand_in, attempt_of(case, step.name))
        if isinstance(answer, Miss):
            self._used.append(_used(case, step, KIND_OF[type(effect)], wanted, "miss"))
            raise _Stopped(answer.status, answer.reason)
        at = stand_in[-1].replied_at if stand_in else (case.replies.at or case.head_at)
        # A dry run's stand-in answered another request. A step that needs several replies looks for its own.
        made = tuple(replace(call, replied_at=at, request_hash=wanted) for call in answer)
        calls, late = guarded(made, case.as_of)
        self._look_ahead += late
        self._used.append(_used(case, step, KIND_OF[type(effect)], wanted, "executed", calls, stand_in))
        return calls

    def _reused(self, case: Inquiry, step: Step, effect: Effect, wanted: str) -> tuple[Call, ...] | None:
        recorded = self._cursor.reply(wanted)
        if recorded is None or not self._of_its_model(recorded):
            return None
        calls, late = guarded(recorded, case.as_of)
        if late is not NOTHING:
            self._look_ahead += late
        self._used.append(_used(case, step, KIND_OF[type(effect)], wanted, "reused", calls))
        return calls

    def _of_its_model(self, calls: tuple[Call, ...]) -> bool:
        wanted = self._models.get(calls[-1].prompt_name or "")
        return wanted is None or wanted == f"{calls[-1].provider}:{calls[-1].model}"

    def _failed(self, case: Inquiry, step: Step, failure: Failure, calls: tuple[Call, ...]) -> ev.StepFailed:
        recorded = self._cursor.next
        if (
            recorded is not None
            and isinstance(recorded.event, ev.StepFailed)
            and recorded.event.step == step.name
            and recorded.event.failure == failure
        ):
            return replace(recorded.event, calls=())  # the retry time was decided then, by the clock at that time
        now: datetime = max((c.replied_at for c in calls), default=case.replies.at or case.head_at)
        return failed(case, step.name, failure, now=max(now, case.head_at))


def _used(
    case: Inquiry,
    step: Step,
    kind: CallKind,
    wanted: str,
    execution: Execution,
    calls: tuple[Call, ...] = (),
    stand_in: tuple[Call, ...] = (),
) -> UsedCall:
    return UsedCall(
        step=step.name,
        position=case.seq,
        head_id=case.head_id,
        kind=kind,
        request_hash=wanted,
        execution=execution,
        calls=calls,
        stand_in=stand_in,
    )


def _alike(recorded: ev.Event, event: ev.Event) -> bool:
    if recorded.calls or event.calls:
        return replace(recorded, calls=()) == replace(event, calls=())
    return recorded == event
