"""One worker without a log: it admits news, runs the real steps of each case, and keeps retries and deadlines.

What the runtime does besides (appending, folding what was appended, rebalances) takes no part in how an outage goes.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from datetime import datetime

from msgspec.structs import replace

from agents.core.case import Case, Replies, fold, open_case
from agents.core.failures import failed
from agents.core.registry import Registry
from agents.core.step import Step, StepFailure
from agents.graphs import verification
from lab.outage.clock import virtual_now
from schemas import ids
from schemas.config import Snapshot
from schemas.effects import Effect, Failure, request_hash
from schemas.events import EffectCompleted, Event, EventReceived, StepFailed
from schemas.news import News
from streams.effects.host import EffectsHost
from streams.wake import Wake


class Cases:
    """Admits, also when woken; works, and hands each case that ended to ``on_end``."""

    def __init__(self, host: EffectsHost, config: Snapshot, wake: Wake, on_end: Callable[[Case], None]) -> None:
        self._host, self._config, self._on_end = host, config, on_end
        self._registry: Registry = verification()
        self._queue: deque[News] = deque()
        self._open: dict[str, asyncio.Task[None]] = {}
        self.most_queued = 0
        wake.heed(self._admit)

    def publish(self, news: News) -> None:
        """Take a news item; it waits in the queue while nothing can be triaged."""
        self._queue.append(news)
        self._admit()
        self.most_queued = max(self.most_queued, len(self._queue))

    async def finish(self) -> None:
        """Wait until every case has ended. Raises what a case could not be run for."""
        while self._open:
            await asyncio.gather(*self._open.values())

    def _admit(self) -> None:
        while self._queue and self._host.may_admit(len(self._open)) is None:
            case = self._opened(self._queue.popleft())
            self._open[case.case_id] = asyncio.get_running_loop().create_task(self._live(case))

    def _opened(self, news: News) -> Case:
        event = EventReceived(news=news, config_hash="", text_hash=news.text_hash, language=news.language or "en")
        head = ids.event_id(ids.LIVE_RUN, news.case_id, "")
        return open_case(
            event, case_id=news.case_id, event_id=head, run_id=ids.LIVE_RUN, at=virtual_now(), config=self._config
        )

    async def _live(self, case: Case) -> None:
        while (step := self._registry.next_step(case)) is not None:
            last = case.is_last_resort(step.name)
            if isinstance(case.head, StepFailed) and case.head.retry_at is not None:
                await asyncio.sleep((case.head.retry_at - virtual_now()).total_seconds())
            case, event = await self._worked(case, step, case.deadline if last else case.deep_deadline)
            head = ids.event_id(case.run_id, case.case_id, case.head_id)
            case = fold(case, event, event_id=head, at=virtual_now())
        del self._open[case.case_id]
        self._on_end(case)
        self._admit()

    async def _worked(self, case: Case, step: Step, limit: datetime) -> tuple[Case, Event]:
        try:
            async with asyncio.timeout((limit - virtual_now()).total_seconds()):
                return await self._asked(case, step)
        except StepFailure as stop:
            return case, failed(case, step.name, stop.failure, now=virtual_now())
        except TimeoutError:
            late = Failure(kind="deadline", message="the deadline passed", retryable=False)
            return case, failed(case, step.name, late, now=virtual_now())

    async def _asked(self, case: Case, step: Step) -> tuple[Case, Event]:
        attempt = 1 + sum(1 for f in case.failures if f.step == step.name)
        while True:
            asked = step.ask(case)
            if isinstance(asked, Event):
                return case, asked
            if not isinstance(asked, tuple):
                calls = await self._host.perform(asked, case_id=case.case_id, head_id=case.head_id, attempt=attempt)
                try:
                    told = step.tell(case, Replies(calls))
                except StepFailure as stop:
                    told = failed(case, step.name, stop.failure, now=virtual_now())
                return case, replace(told, calls=(*told.calls, *calls))
            known = {c.request_hash for c in case.replies.calls}
            missing = {h: e for e in asked if (h := request_hash(e)) not in known}
            if not missing:
                return case, step.tell(case, case.replies)
            for one in await asyncio.gather(*(self._completed(case, step, e, attempt) for e in missing.values())):
                case = fold(case, one, event_id="", at=virtual_now())

    async def _completed(self, case: Case, step: Step, effect: Effect, attempt: int) -> EffectCompleted:
        calls = await self._host.perform(effect, case_id=case.case_id, head_id=case.head_id, attempt=attempt)
        return EffectCompleted(step=step.name, request_hash=request_hash(effect), calls=calls)
