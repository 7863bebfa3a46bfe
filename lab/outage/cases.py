"""One worker without a log: admits news, runs the real steps of each case, and keeps retries and deadlines.

The rest of the runtime (appending, folding what was appended, rebalances) does not affect an outage.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from datetime import datetime
from itertools import chain

from agents.core.case import Case, fold, open_case
from agents.core.failures import failed
from agents.core.registry import Registry
from agents.core.step import Step, StepFailure
from agents.core.step_turn import ask, attempt_of, successor_id, tell, with_calls
from agents.graphs import verification
from lab.outage.clock import virtual_now
from schemas import ids
from schemas.calls import Call
from schemas.config import Snapshot
from schemas.effects import Failure
from schemas.events import Event, EventReceived, StepFailed
from schemas.news import News
from streams.effects.host import EffectsHost
from streams.wake import Wake


class Cases:
    """Admits news, also when woken; runs the cases, and passes each ended case to ``on_end``."""

    def __init__(self, host: EffectsHost, config: Snapshot, wake: Wake, on_end: Callable[[Case], None]) -> None:
        self._host, self._config, self._on_end = host, config, on_end
        self._registry: Registry = verification()
        self._queue: deque[News] = deque()
        self._open: dict[str, asyncio.Task[None]] = {}
        self.most_queued = 0
        wake.subscribe(self._admit)

    def publish(self, news: News) -> None:
        """Queue a news item; it waits while nothing can be triaged."""
        self._queue.append(news)
        self._admit()
        self.most_queued = max(self.most_queued, len(self._queue))

    async def finish(self) -> None:
        """Wait until every case has ended. Raises the exception of a case that could not run."""
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
            for event in await self._answered(case, step, case.deadline if last else case.deep_deadline):
                case = fold(case, event, event_id=successor_id(case, event), at=virtual_now())
        del self._open[case.case_id]
        self._on_end(case)
        self._admit()

    async def _answered(self, case: Case, step: Step, limit: datetime) -> list[Event]:
        """Return the step's event, or the replies to all its effects, after which the step is asked again."""
        answers: list[tuple[Call, ...]] = []
        try:
            async with asyncio.timeout((limit - virtual_now()).total_seconds()):
                asked = ask(step, case)
                if isinstance(asked, Event):
                    return [asked]
                attempt = attempt_of(case, step.name)
                calls = (
                    self._host.perform(e, case_id=case.case_id, head_id=case.head_id, attempt=attempt)
                    for e in asked.effects.values()
                )
                answers = await asyncio.gather(*calls)
                return [tell(step, case, asked, *answer) for answer in zip(asked.effects, answers, strict=True)]
        except StepFailure as stop:
            failure = stop.failure
        except TimeoutError:
            failure = Failure(kind="deadline", message="the deadline passed", retryable=False)
        event = failed(case, step.name, failure, now=virtual_now())
        return [with_calls(event, tuple(chain(*answers)))]
