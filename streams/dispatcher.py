"""The dispatcher: what a head leads to is started here, once, and its result appended.

Everything is keyed by (case, head, request): dispatching a case again, after a rebalance or a redelivery, starts nothing
that runs already. A result is appended at the head that it was computed for; whether it is accepted is the log's to say.
"""

from __future__ import annotations

import asyncio
import heapq
from collections import Counter
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import msgspec
import structlog
from msgspec.structs import replace

from agents.case import Case, Replies
from agents.failures import SINGLE_PASS, failed
from agents.registry import Registry
from agents.step import Step, StepFailure
from schemas import envelope as wire
from schemas import events as ev
from schemas.calls import Call
from schemas.effects import Effect, Failure, request_hash
from schemas.errors import ContractError
from schemas.ids import effect_id, event_id
from schemas.topics import partition_of
from streams.append import Appender
from streams.bulkhead import Places
from streams.effects import EffectsHost
from streams.projector import utc_now
from streams.slot_file import SlotFile

log = structlog.get_logger(__name__)

Key = tuple[str, str, str]
"""(case id, head id, request hash or empty): what is running."""

LIVE_GRACE = timedelta(seconds=30)
"""A case whose deadline passed while no worker was there still gets this long after a worker went live."""


class Dispatcher:
    """Starts steps and appends their results. ``put`` hands (step, case) to the step's channel without waiting."""

    def __init__(
        self,
        registry: Registry,
        host: EffectsHost,
        appender: Appender,
        places: Places,
        slot: SlotFile,
        *,
        topic: str,
        partitions: int,
        dead_letters: str,
        suspect_after: int,
    ) -> None:
        self._registry = registry
        self._host = host
        self._appender = appender
        self._places = places
        self._slot = slot
        self._topic = topic
        self._partitions = partitions
        self._dead_letters = dead_letters
        self._suspect_after = suspect_after
        self.put: Callable[[Step, Case], None] = self.start
        self.case_of: Callable[[int, str], Case | None] = lambda _partition, _case_id: None
        self.open_of: Callable[[int], list[Case]] = lambda _partition: []
        self._running: dict[Key, asyncio.Task[None]] = {}
        self._queued: set[tuple[str, str, int]] = set()
        self._appended: dict[str, tuple[str, set[str]]] = {}
        self._per_head: Counter[str] = Counter()
        self._live_since: dict[int, datetime] = {}
        self._deadlines: list[tuple[datetime, int, str, bool]] = []
        self._asides: set[asyncio.Task[Any]] = set()
        self._our_suspects: set[str] = set()
        self._suspects: dict[str, tuple[int, str]] = {}
        self._alone: str | None = None
        self._deferred: dict[str, int] = {}
        self.steps_started = 0
        self.suspects = 0

    @property
    def running(self) -> int:
        """Steps and effects that are under way."""
        return len(self._running)

    # What the log says

    def on_folded(self, partition: int, case: Case) -> None:
        """A case moved on, or got one more reply."""
        if case.seq == 0:
            self._watch_deadline(partition, case)
        if (appended := self._appended.get(case.case_id)) is not None and appended[0] != case.head_id:
            del self._appended[case.case_id]
        if case.case_id == self._alone and not isinstance(case.head, ev.StepStarted):
            self._alone = None
            self._next_suspect()
        if partition in self._live_since:
            self.dispatch(partition, case)

    def on_closed(self, partition: int, case: Case) -> None:
        """A case ended; nothing is left to start."""
        self._appended.pop(case.case_id, None)
        if case.case_id == self._alone:
            self._alone = None
            self._next_suspect()

    def on_live(self, partition: int) -> None:
        """A partition caught up: everything that is open goes on, nearest to its end first."""
        self._live_since[partition] = utc_now()
        depth = self._registry.depth

        def nearest(case: Case) -> int:
            step = self._registry.next_step(case)
            return depth[step.name] if step else 0

        cases = self.open_of(partition)
        for case in cases:
            self._watch_deadline(partition, case)
        for case in sorted(cases, key=nearest):
            if isinstance(case.head, ev.StepStarted) and case.head_id not in self._our_suspects:
                # Whoever ran it alone is gone, and it was all that ran: the step is found.
                self._fail(
                    case, case.head.step, Failure(kind="crash", message="the step killed its worker", retryable=False)
                )
                continue
            self.dispatch(partition, case)

    def on_poison(self, record: Any, case: Case | None, reason: str, why: str) -> None:
        """A journal record that cannot be read: kept as a dead letter; its case, where it has one, is closed as failed."""
        log.error("poison record in the journal", partition=record.partition, offset=record.offset, why=why)
        self._aside(self._put_aside(record, case, reason, why))

    async def _put_aside(self, record: Any, case: Case | None, reason: str, why: str) -> None:
        await self._appender.dead_letter(self._dead_letters, record, reason=reason, why=why, consumer="projector")
        if case is not None:
            event = ev.CaseFailed(reason=f"quarantined: {why}"[:1000], failed_step="journal", attempts=0)
            await self._append(case, event, letter=False)

    # Routing

    def dispatch(self, partition: int, case: Case) -> None:
        """Hand the case to the step that its head leads to, unless that is under way already."""
        if case.pinned is None:
            return
        step = self._registry.next_step(case)
        if step is None:
            return
        head = case.head
        if isinstance(head, ev.StepFailed) and head.retry_at is not None:
            wait = (head.retry_at - utc_now()).total_seconds()
            if wait > 0:
                asyncio.get_running_loop().call_later(wait, self._due, partition, case.case_id, case.head_id)
                return
        if self._slot.crashes.get(case.head_id, 0) >= self._suspect_after:
            self._suspects.setdefault(case.case_id, (partition, case.head_id))
            self._next_suspect()
            return
        if isinstance(head, ev.StepStarted) and self._alone is None:
            self._alone = case.case_id
        mark = (case.case_id, case.head_id, len(case.replies.calls))
        if mark not in self._queued:
            self._queued.add(mark)
            self.put(step, case)

    def start(self, step: Step, case: Case) -> None:
        """Ask the step and start what it asks for. Called by the step's agent."""
        self._queued.discard((case.case_id, case.head_id, len(case.replies.calls)))
        partition = self._partition_of(case)
        if partition not in self._live_since or self.case_of(partition, case.case_id) is not case:
            return  # revoked, or moved on while it was queued: its newer state is dispatched on its own
        if (self._suspects or self._alone is not None) and case.case_id != self._alone:
            self._deferred[case.case_id] = partition
            return
        self.steps_started += 1
        try:
            with self._slot.executing(case.head_id):
                asked = step.ask(case)
            if isinstance(asked, tuple):
                answered = {c.request_hash for c in case.replies.calls}
                missing = {h: e for e in asked if (h := request_hash(e)) not in answered}
                if not missing:
                    self._settle(step, case, case.replies, ())
                for wanted, effect in missing.items():
                    self._spawn((case.case_id, case.head_id, wanted), self._one_of_several(step, case, effect))
            elif isinstance(asked, ev.Event):
                self._spawn((case.case_id, case.head_id, ""), self._append(case, _declared(step, asked)))
            else:
                self._spawn((case.case_id, case.head_id, ""), self._only_one(step, case, asked))
        except StepFailure as exc:
            self._fail(case, step.name, exc.failure)
        except Exception as exc:
            log.exception("a step raised", step=step.name, case=case.case_id)
            self._fail(
                case, step.name, Failure(kind="internal", message=f"{type(exc).__name__}: {exc}", retryable=False)
            )

    async def drain(self, timeout_s: float) -> int:
        """Stop starting; give what runs up to ``timeout_s``; return how many effects are still under way."""
        self._live_since.clear()
        self._queued.clear()
        self._suspects.clear()  # all of it comes again when the partitions are live again
        self._deferred.clear()
        self._alone = None
        tasks = list(self._running.values())
        if tasks:
            await asyncio.wait(tasks, timeout=timeout_s)
        return len(self._running)

    def let_go(self, partitions: list[int]) -> None:
        """Cancel what runs for partitions that another worker has now."""
        gone = set(partitions)
        for key, task in list(self._running.items()):
            if partition_of(key[0], self._partitions) in gone:
                task.cancel()
        for case_id in [c for c in self._appended if partition_of(c, self._partitions) in gone]:
            del self._appended[case_id]

    async def stop(self) -> None:
        """Cancel everything that still runs."""
        tasks = [*self._running.values(), *self._asides]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # Deadlines

    def sweep(self, now: datetime) -> None:
        """End what is past its deadline: the deep path first, the case at last. Called about once a second."""
        while self._deadlines and self._deadlines[0][0] <= now:
            _, partition, case_id, last = heapq.heappop(self._deadlines)
            case = self.case_of(partition, case_id)
            live = self._live_since.get(partition)
            if case is None or live is None or case.pinned is None:
                continue
            grace = live + (LIVE_GRACE if last else LIVE_GRACE / 2)
            if grace > now and case.opened_at < live:
                heapq.heappush(self._deadlines, (grace, partition, case_id, last))
                continue
            self._overdue(case, last)

    def _overdue(self, case: Case, last: bool) -> None:
        step = self._registry.next_step(case)
        if step is None or (not last and (case.degraded is not None or step.name == SINGLE_PASS)):
            return
        for key, task in list(self._running.items()):
            if key[0] == case.case_id:
                task.cancel()
        limit = "the case" if last else "the deep path"
        failure = Failure(kind="deadline", message=f"the deadline of {limit} passed at {step.name}", retryable=False)
        event = failed(case, step.name, failure, now=utc_now())
        if last:
            event = ev.StepFailed(step=step.name, failure=failure, attempt=event.attempt, outcome="give_up")
        self._aside(self._append(case, event))

    def _watch_deadline(self, partition: int, case: Case) -> None:
        if case.pinned is not None:
            heapq.heappush(self._deadlines, (case.deep_deadline, partition, case.case_id, False))
            heapq.heappush(self._deadlines, (case.deadline, partition, case.case_id, True))

    def oldest_overdue_s(self, now: datetime) -> float:
        """Seconds by which the worst open case is past its deadline and its grace; 0 when none is. For the watchdog."""
        late = [
            (now - max(c.deadline, live)).total_seconds()
            for partition, live in self._live_since.items()
            for c in self.open_of(partition)
            if c.pinned is not None
        ]
        return max(late, default=0.0)

    # Running

    async def _only_one(self, step: Step, case: Case, effect: Effect) -> None:
        call = await self._perform(step, case, effect)
        replies = Replies((call,))
        try:
            event = _with_calls(self._told(step, case, replies), (call,))
        except StepFailure as exc:
            event = _with_calls(failed(case, step.name, exc.failure, now=utc_now()), (call,))
        await self._append(case, event)

    async def _one_of_several(self, step: Step, case: Case, effect: Effect) -> None:
        call = await self._perform(step, case, effect)
        event = ev.EffectCompleted(step=step.name, request_hash=call.request_hash, calls=(call,))
        await self._append(case, event)

    async def _perform(self, step: Step, case: Case, effect: Effect) -> Call:
        attempt = 1 + sum(1 for f in case.failures if f.step == step.name)
        suspect = isinstance(case.head, ev.StepStarted)
        place = self._places.alone() if suspect else self._places.one(step.name, self._registry.depth[step.name])
        async with place:
            return await self._host.perform(effect, attempt=attempt)

    def _settle(self, step: Step, case: Case, replies: Replies, calls: tuple[Call, ...]) -> None:
        event = _with_calls(self._told(step, case, replies), calls)
        self._spawn((case.case_id, case.head_id, ""), self._append(case, event))

    def _told(self, step: Step, case: Case, replies: Replies) -> ev.Event:
        try:
            with self._slot.executing(case.head_id):
                event = step.tell(case, replies)
        except StepFailure:
            raise
        except Exception as exc:
            log.exception("a step raised", step=step.name, case=case.case_id)
            raise StepFailure(
                Failure(kind="internal", message=f"{type(exc).__name__}: {exc}", retryable=False)
            ) from exc
        return _declared(step, event)

    def _fail(self, case: Case, step: str, failure: Failure) -> None:
        event = failed(case, step, failure, now=utc_now())
        self._spawn((case.case_id, case.head_id, ""), self._append(case, event))

    def _spawn(self, key: Key, work: Any) -> None:
        head_id, appended = self._appended.get(key[0], ("", frozenset()))
        if key in self._running or (head_id == key[1] and key[2] in appended):
            work.close()
            return
        self._per_head[key[1]] += 1
        self._slot.started(key[1])
        task = self._running[key] = asyncio.create_task(work)
        task.add_done_callback(lambda done: self._ended(key, done))

    def _ended(self, key: Key, task: asyncio.Task[None]) -> None:
        self._running.pop(key, None)
        self._per_head[key[1]] -= 1
        if not self._per_head[key[1]]:
            del self._per_head[key[1]]
            self._slot.ended(key[1])
            self._slot.forget(key[1])
        if not self._running and (self._suspects or self._deferred):
            self._next_suspect()
        if task.cancelled():
            return
        if (exc := task.exception()) is not None:
            log.error("a result could not be appended", case=key[0], error=repr(exc))
            return
        case = self.case_of(partition_of(key[0], self._partitions), key[0])
        if case is not None and case.head_id == key[1]:
            # In the log but not folded yet: asked again in between, by another reply's fold, it would be paid twice.
            if (known := self._appended.get(key[0])) is None or known[0] != key[1]:
                known = self._appended[key[0]] = (key[1], set())
            known[1].add(key[2])

    def _due(self, partition: int, case_id: str, head_id: str) -> None:
        case = self.case_of(partition, case_id)
        if case is not None and case.head_id == head_id and partition in self._live_since:
            self.dispatch(partition, case)

    def _next_suspect(self) -> None:
        # One at a time and nothing beside it, so that a StepStarted whose process died names the step that killed it.
        if self._alone is not None or (self._suspects and self._running):
            return
        while self._suspects:
            case_id = next(iter(self._suspects))
            partition, head_id = self._suspects.pop(case_id)
            case = self.case_of(partition, case_id)
            step = None if case is None or case.head_id != head_id else self._registry.next_step(case)
            if case is not None and step is not None and partition in self._live_since:
                self._alone = case_id
                self._suspect(case, step)
                return
        deferred, self._deferred = self._deferred, {}
        for case_id, partition in deferred.items():
            if (case := self.case_of(partition, case_id)) is not None and partition in self._live_since:
                self.dispatch(partition, case)

    def _suspect(self, case: Case, step: Step) -> None:
        self.suspects += 1
        crashes = self._slot.crashes[case.head_id]
        self._slot.forget(case.head_id)
        log.warning("a step crashed its worker again and again; it runs alone now", step=step.name, crashes=crashes)

        self._our_suspects.add(event_id(case.run_id, case.case_id, case.head_id))
        self._aside(self._append(case, ev.StepStarted(step=step.name, crashes=crashes)))

    # Appending

    async def _append(self, case: Case, event: ev.Event, *, letter: bool = True) -> None:
        if isinstance(event, ev.EffectCompleted):
            new_id = effect_id(case.run_id, case.case_id, case.head_id, event.request_hash)
        else:
            new_id = event_id(case.run_id, case.case_id, case.head_id)
        if letter and isinstance(event, ev.CaseFailed):
            await self._failed_case_letter(case, event)  # first: a crash in between repeats it rather than loses it
        key, value, headers = wire.encode(
            event, id=new_id, case_id=case.case_id, causation_id=case.head_id, run_id=case.run_id, time=utc_now()
        )
        try:
            await self._appender.append(
                self._topic, value, key=key, partition=self._partition_of(case), headers=headers
            )
        except ContractError as exc:
            failure = Failure(kind="too_large", message=str(exc), retryable=False)
            step = self._registry.next_step(case)
            await self._append(case, failed(case, step.name if step else "journal", failure, now=utc_now()))

    async def _failed_case_letter(self, case: Case, end: ev.CaseFailed) -> None:
        headers = [
            ("dl_reason", b"case_failed"),
            ("dl_why", f"{end.failed_step}: {end.reason}".encode()[:2000]),
            ("dl_consumer", b"worker"),
            ("dl_case", case.case_id.encode()),
        ]
        await self._appender.append(
            self._dead_letters, msgspec.json.encode(case.news), key=case.news.key, partition=None, headers=headers
        )

    def _partition_of(self, case: Case) -> int:
        return partition_of(case.case_id, self._partitions)

    def _aside(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._asides.add(task)
        task.add_done_callback(self._asides.discard)


def _declared(step: Step, event: ev.Event) -> ev.Event:
    if type(event) in step.emits:
        return event
    message = f"step {step.name} gave {type(event).__name__}, which it does not declare: add it to emits"
    raise StepFailure(Failure(kind="internal", message=message, retryable=False))


def _with_calls(event: ev.Event, calls: tuple[Call, ...]) -> ev.Event:
    return replace(event, calls=(*event.calls, *calls)) if calls else event
