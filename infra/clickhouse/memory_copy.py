"""A copy of what recall reads of ClickHouse: memories, revisions of signals, outcomes. Read when a recall asks for it.

Reading on looks at the tables' parts. A part never changes: what was inserted, merged or exchanged since is in parts with
names not read yet, so nothing is missed, whoever wrote it and whenever; rows that a merge moved are known already. What
replaces something is built beside it, and takes its place at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from infra.clickhouse.client import ClickHouse
from infra.clickhouse.memory_entries import Entries, MemoryRow
from schemas.errors import NewsproofError, TransientError

READ_ON_AFTER_S = 1.0
"""A recall later than this after the last look at the tables looks again; those in between share it."""
MAX_AGE_S = 30.0
"""While ClickHouse does not answer, what was read counts for this long; after that a recall says that memory is unavailable."""
PATIENCE_S = 0.2
"""How long a recall waits for what is new while what was read still counts; on a quiet machine that takes 20 ms."""
LOAD_WITHIN_S = 20.0
"""How long recalls wait, from the start of it, while memory is read for the first time and ClickHouse does answer."""
ROWS_AT_ONCE = 2_000
"""Rows taken in between two turns of the event loop."""

_PARTS = """
SELECT name, toString(uuid), arrayMap(p -> p.2, arrayFilter(p -> p.1 = name,
    (SELECT groupArray((table, name)) FROM system.parts WHERE active AND database = currentDatabase())))
FROM system.tables
WHERE database = currentDatabase() AND name IN ('memories', 'signals', 'outcomes')
"""

_OF_RUN = "(run_id = {run_id:String} OR ({run_id:String} = 'live' AND run_id = 'research'))"
# What investigations found is remembered beside the cases of the news.

_DIMENSIONS = f"""
SELECT max(length(embedding)) FROM memories WHERE {_OF_RUN} AND embedding_model = {{model:String}}
"""

_MEMORIES = (
    """
SELECT _part, case_id, summary, event_type, asset, confidence, verdict, toUnixTimestamp64Milli(decided_at), signal_id,
       keywords, journal_offset,
       toFixedString(if(length(embedding) = {dimensions:UInt16}, reinterpretAsString(embedding), ''), DIMENSIONS),
       if(length(embedding) = {dimensions:UInt16}, embedding_norm, 0)
FROM memories
WHERE _part NOT IN {seen:Array(String)} AND embedding_model = {model:String} AND """
    + _OF_RUN
)

_REVISIONS = """
SELECT _part, signal_id, revision, toUnixTimestamp64Milli(emitted_at), stage, verdict, confidence
FROM signals
WHERE _part NOT IN {seen:Array(String)} AND run_id = {run_id:String}
"""

_OUTCOMES = """
SELECT _part, case_id, horizon_s, version,
       toUnixTimestamp64Milli(greatest(exit_at, entry_at + toIntervalSecond(horizon_s))), return
FROM outcomes
WHERE _part NOT IN {seen:Array(String)}
"""
# Known when the horizon is over, also where the market had ended before.


class Revision(NamedTuple):
    revision: int
    emitted_ms: int
    stage: str
    verdict: str
    confidence: float


class Outcome(NamedTuple):
    horizon_s: int
    version: int
    known_ms: int
    gain: float


class _Table:
    """One table and what was read of it: ``uuid`` tells it from the one that a rebuild puts into its place.

    ``new`` makes what its rows are held in, ``take`` takes rows into that. ``whole``: rows may be deleted from it, so it is
    read whole whenever it changed.
    """

    def __init__(
        self,
        name: str,
        statement: str,
        new: Callable[[], Any],
        take: Callable[[Any, Sequence[Any]], None],
        *,
        whole: bool = False,
        **asked: Any,
    ) -> None:
        self.name, self.statement, self.new, self.take, self.whole, self.asked = (
            name,
            statement,
            new,
            take,
            whole,
            asked,
        )
        self.held = new()
        self.uuid = ""
        self.seen: set[str] = set()

    def is_behind(self, there: tuple[str, set[str]] | None) -> bool:
        # A table that is missing is read nevertheless: the engine's error says what to do.
        if there is None or there[0] != self.uuid:
            return True
        return there[1] != self.seen if self.whole else not there[1] <= self.seen


class _News(NamedTuple):
    """Rows of a table that were not held, and what they are taken into: what is held, or what will replace it."""

    table: _Table
    into: Any
    rows: Sequence[Any]
    uuid: str
    seen: set[str]


class MemoryCopy:
    """What the tables hold of one run. Safe for concurrent use within one event loop."""

    def __init__(self, client: ClickHouse, run_id: str) -> None:
        self._client = client
        self._run_id = run_id
        self._memories: dict[str, _Table] = {}
        self._revisions = _Table("signals", _REVISIONS, dict, _take_revisions)
        self._outcomes = _Table("outcomes", _OUTCOMES, dict, _take_outcomes, whole=True)
        self._read_at: dict[str, float] = {}
        self._answering = False
        self._began = 0.0
        self._reading: asyncio.Task[None] | None = None

    async def fresh(self, model: str, *, timeout_s: float) -> Entries:
        """Return this model's entries as the tables hold them now, or held them at most ``MAX_AGE_S`` ago.

        Raises:
            TransientError, PermanentError: ClickHouse refuses, or does not answer within ``timeout_s``.
        """
        now = asyncio.get_running_loop().time
        age = now() - self._read_at.get(model, float("-inf"))
        if age >= READ_ON_AFTER_S:
            try:
                await self._read_on(model, timeout_s if age >= MAX_AGE_S else min(timeout_s, PATIENCE_S))
            except NewsproofError:
                if now() - self._read_at.get(model, float("-inf")) >= MAX_AGE_S:
                    raise
        entries: Entries = self._memories[model].held
        return entries

    def revision_of(self, signal_id: str | None, as_of_ms: int) -> Revision | None:
        """Return the newest revision emitted before this time, an empty one if all came later; None for an unknown signal."""
        revisions: tuple[Revision, ...] | None = self._revisions.held.get(signal_id or "")
        if revisions is None:
            return None
        out = (r for r in revisions if r.emitted_ms < as_of_ms)
        return max(out, default=Revision(0, 0, "", "", 0.0))

    def outcome_of(self, case_id: str, as_of_ms: int) -> Outcome | None:
        """Return the outcome of the longest horizon that was over before this time; of several imports the last counts."""
        held: tuple[Outcome, ...] = self._outcomes.held.get(case_id, ())
        newest = {o.horizon_s: o for o in sorted(held)}
        return max((o for o in newest.values() if o.known_ms < as_of_ms), default=None)

    async def close(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.wait({self._reading})

    async def _read_on(self, model: str, timeout_s: float) -> None:
        now = asyncio.get_running_loop().time
        while True:
            if self._reading is None or self._reading.done():
                self._answering, self._began = False, now()
                if model not in self._memories:
                    self._memories[model] = _Table("memories", _MEMORIES, Entries, _take_memories, model=model)
                self._reading = asyncio.create_task(self._read(), name="memory-copy")
                self._reading.add_done_callback(lambda task: task.cancelled() or task.exception())
            reading, first = self._reading, model not in self._read_at
            await asyncio.wait({reading}, timeout=timeout_s)
            if first and self._answering and (left := self._began + LOAD_WITHIN_S - now()) > 0:
                await asyncio.wait({reading}, timeout=left)
            if not reading.done():
                if self._answering:
                    raise TransientError(
                        "ClickHouse did not send all of memory in time: check its load", kind="timeout"
                    )
                raise TransientError(
                    f"ClickHouse did not answer within {timeout_s:g} s: check that it runs, and its load",
                    kind="timeout",
                )
            reading.result()
            if model in self._read_at:  # else another model's reading was under way
                return

    async def _read(self) -> None:
        began, models = self._began, tuple(self._memories)
        parts = {name: (uuid, set(names)) for name, uuid, names in (await self._client.query(_PARTS)).rows}
        self._answering = True
        # Cases are asked for before their judgements, so each that was read has those that were there then; and they are
        # taken in after them, so no recall sees one without.
        tables = (*(self._memories[model] for model in models), self._revisions, self._outcomes)
        news = [await self._news_of(t, parts.get(t.name)) for t in tables if t.is_behind(parts.get(t.name))]
        for one in reversed(news):
            for first in range(0, len(one.rows), ROWS_AT_ONCE):
                one.table.take(one.into, one.rows[first : first + ROWS_AT_ONCE])
                await asyncio.sleep(0)
            one.table.held, one.table.uuid, one.table.seen = one.into, one.uuid, one.seen
        self._read_at |= dict.fromkeys(models, began)

    async def _news_of(self, table: _Table, there: tuple[str, set[str]] | None) -> _News:
        uuid, active = there or ("", set[str]())
        asked = {"run_id": self._run_id, **table.asked}
        into = table.new() if table.whole or uuid != table.uuid else table.held
        if isinstance(into, Entries):
            longest = (await self._client.query(_DIMENSIONS, asked)).rows[0][0]
            asked["dimensions"] = longest
            into = into if into.dimensions == longest else Entries(longest)
        asked["seen"] = sorted(table.seen) if into is table.held else []
        statement = table.statement.replace("DIMENSIONS", str(max(1, asked.get("dimensions", 0))))
        rows = (await self._client.query(statement, asked)).rows
        return _News(table, into, rows, uuid, active | {row[0] for row in rows})


def _take_memories(entries: Entries, rows: Sequence[Any]) -> None:
    said = [MemoryRow._make(row[1:11]) for row in rows]
    entries.add(said, [row[11][: entries.dimensions] for row in rows], [row[12] for row in rows])


def _take_revisions(revisions: dict[str, tuple[Revision, ...]], rows: Sequence[Any]) -> None:
    for row in rows:
        held, one = revisions.get(row[1], ()), Revision._make(row[2:])
        if all(r.revision != one.revision for r in held):
            revisions[row[1]] = (*held, one)


def _take_outcomes(outcomes: dict[str, tuple[Outcome, ...]], rows: Sequence[Any]) -> None:
    for row in rows:
        held, one = outcomes.get(row[1], ()), Outcome._make(row[2:])
        if one not in held:
            outcomes[row[1]] = (*held, one)
