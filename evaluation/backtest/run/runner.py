"""Runs every chosen case through the engine concurrently, and writes the results to the run's topic and tables."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from datetime import UTC, datetime

import msgspec

from evaluation.backtest.deciding import Deciding
from evaluation.backtest.journal import Source, Survey, drawn, recordings
from evaluation.backtest.run.cost_limit import CostLimitReached
from evaluation.backtest.run.performer import Performer, replay_one
from evaluation.backtest.run.plan import RunPlan
from evaluation.backtest.run.rows import RunCaseRow, call_rows, case_row, unreplayable
from evaluation.backtest.run.tables import RunTables, Totals
from evaluation.backtest.run.topic import CaseReplayed, Held, RunTopic
from evaluation.compare.code_identity import RunCode
from streams.journal.gc_thresholds import rarely_collected
from streams.replay import Recording, Replayed

AT_ONCE = 16
"""Concurrent cases, and so the maximum of concurrent calls."""


class Ran(msgspec.Struct, kw_only=True):
    """Result of a run. ``status``: finished, or stopped by ``--max-cost``. ``held`` counts cases already on the topic."""

    status: str
    totals: Totals
    held: int = 0
    left: int = 0
    about: RunCode = RunCode(run_id="", code=())


class Runner:
    """Runs one plan once. ``on_case`` is called with each row."""

    def __init__(
        self,
        plan: RunPlan,
        source: Source,
        surveyed: Survey,
        deciding: Deciding,
        performer: Performer,
        topic: RunTopic | None,
        tables: RunTables | None,
        *,
        held: Held | None = None,
        entries: Mapping[str, list[datetime]] | None = None,
        on_case: Callable[[RunCaseRow], None] = lambda _row: None,
    ) -> None:
        self._plan, self._source, self._surveyed = plan, source, surveyed
        self._deciding, self._performer = deciding, performer
        self._topic, self._tables = topic, tables
        self._held = held or Held()
        self._entries = entries or {}
        self._on_case = on_case
        self._started = self._held.started_at or datetime.now(UTC)
        self._ran = Ran(status="finished", totals=Totals())

    async def run(self, *, at_once: int = AT_ONCE) -> Ran:
        """Replay all chosen cases and return the result.

        Raises:
            ConfigError: no call can succeed until a setting is repaired. Calls already paid for are on the topic.
        """
        chosen = frozenset(drawn(self._surveyed.ended, self._plan.sample))
        queue: asyncio.Queue[tuple[Recording, int] | None] = asyncio.Queue(maxsize=2 * at_once)
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(at_once):
                    group.create_task(self._work(queue))
                await self._fill(queue, chosen)
                for _ in range(at_once):
                    await queue.put(None)
        except BaseExceptionGroup as failed:
            raise failed.exceptions[0] from None
        self._ran.left = len(chosen) * self._plan.repeat - self._ran.totals.cases - self._ran.totals.left_out
        if self._tables is not None:
            await self._tables.flush()
        return self._ran

    async def _fill(self, queue: asyncio.Queue[tuple[Recording, int] | None], chosen: frozenset[str]) -> None:
        with rarely_collected():
            async for recording in recordings(self._source, chosen.__contains__):
                for repeat in range(self._plan.repeat):
                    await queue.put((recording, repeat))
                if self._ran.status != "finished":
                    return

    async def _work(self, queue: asyncio.Queue[tuple[Recording, int] | None]) -> None:
        while (item := await queue.get()) is not None:
            if self._ran.status != "finished":
                continue  # drain the queue, so that the producer does not block
            try:
                await self._case(*item)
            except CostLimitReached:
                self._ran.status = "stopped"

    async def _case(self, recording: Recording, repeat: int) -> None:
        now = datetime.now(UTC)
        story = self._surveyed.stories.of(recording.case_id)
        if recording.unreadable:
            row = unreplayable(recording, run_id=self._plan.run_id, repeat=repeat, at=now, story_id=story)
            return await self._ended(row, None)
        replayed = await replay_one(self._deciding, recording, self._performer, repeat=repeat)
        if replayed.status == "miss" and self._plan.on_miss == "skip":
            self._ran.totals.left_out += 1
            if self._tables is not None:  # a comparison has to know: what a run could not do may be what it does badly
                row = case_row(replayed, run_id=self._plan.run_id, repeat=repeat, at=now, story_id=story)
                await self._tables.add(row, [], [])
            return None
        self._ran.totals.other_model += sum(
            1
            for used in replayed.used
            if used.execution == "executed" and used.stand_in and used.calls[-1].model != used.stand_in[-1].model
        )
        early = sum(1 for at in self._entries.get(recording.case_id, ()) if at < replayed.case.as_of)
        seen = replayed.look_ahead
        refused = self._performer.refused_memories.pop(recording.case_id, 0)
        if refused:
            replayed = msgspec.structs.replace(replayed, look_ahead=seen + type(seen)(memory=refused))
        row = case_row(replayed, run_id=self._plan.run_id, repeat=repeat, at=now, story_id=story, refused_prices=early)
        return await self._ended(row, replayed)

    async def _ended(self, row: RunCaseRow, replayed: Replayed | None) -> None:
        held = (row.case_id, row.repeat) in self._held.done
        self._ran.held += held
        # A case that failed because a provider was unavailable is not final: a resumed run retries it.
        if self._topic is not None and not held and row.status != "failed":
            await self._topic.write(CaseReplayed(row), key=row.case_id)
        if self._tables is not None:
            rows = ([], []) if replayed is None else call_rows(
                replayed, run_id=row.run_id, repeat=row.repeat, started_at=self._started
            )  # fmt: skip
            await self._tables.add(row, *rows)
        self._ran.totals.add(row)
        self._on_case(row)
