"""A copy of what recall reads of ClickHouse: memories, revisions of signals, outcomes. Read when a recall asks for it.

Reading on looks at the tables' parts. A part never changes: what was inserted, merged or exchanged since is in parts with
names not read yet, so nothing is missed, whoever wrote it and whenever; rows that a merge moved are known already.
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
"""How long a recall waits while a large memory is read for the first time and ClickHouse does answer."""
ROWS_AT_ONCE = 2_000
"""Rows taken in between two turns of the event loop."""

_PARTS = """
SELECT name, toString(uuid), arrayMap(p -> p.2, arrayFilter(p -> p.1 = name,
    (SELECT groupArray((table, name)) FROM system.parts WHERE active AND database = currentDatabase())))
FROM system.tables
WHERE database = currentDatabase() AND name IN ('memories', 'signals', 'outcomes')
"""

_DIMENSIONS = """
SELECT max(length(embedding)) FROM memories WHERE run_id = {run_id:String} AND embedding_model = {model:String}
"""

_MEMORIES = """
SELECT _part, case_id, summary, event_type, asset, confidence, verdict, toUnixTimestamp64Milli(decided_at), signal_id,
       keywords, journal_offset,
       toFixedString(if(length(embedding) = {dimensions:UInt16}, reinterpretAsString(embedding), ''), DIMENSIONS),
       if(length(embedding) = {dimensions:UInt16}, embedding_norm, 0)
FROM memories
WHERE _part NOT IN {seen:Array(String)} AND run_id = {run_id:String} AND embedding_model = {model:String}
"""

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
    """One table and what was read of it: ``uuid`` tells it from the one that a rebuild puts into its place."""

    def __init__(
        self, name: str, statement: str, take: Callable[[Sequence[Any]], None], clear: Callable[[], None]
    ) -> None:
        self.name, self.statement, self.take, self.clear = name, statement, take, clear
        self.uuid = ""
        self.seen: set[str] = set()

    def is_behind(self, there: tuple[str, set[str]] | None) -> bool:
        # A table that is missing is read nevertheless: the engine's error says what to do.
        return there is None or there[0] != self.uuid or not there[1] <= self.seen


class MemoryCopy:
    """What the tables hold of one run. Safe for concurrent use within one event loop."""

    def __init__(self, client: ClickHouse, run_id: str) -> None:
        self._client = client
        self._run_id = run_id
        self.entries: dict[str, Entries] = {}
        self._revisions: dict[str, tuple[Revision, ...]] = {}
        self._outcomes: dict[str, tuple[Outcome, ...]] = {}
        self._memories: dict[str, _Table] = {}
        self._dimensions: dict[str, int] = {}
        self._beside = (
            _Table("signals", _REVISIONS, self._take_revisions, self._revisions.clear),
            _Table("outcomes", _OUTCOMES, self._take_outcomes, self._outcomes.clear),
        )
        self._read_at: dict[str, float] = {}
        self._answering = False
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
        return self.entries[model]

    def revision_of(self, signal_id: str | None, as_of_ms: int) -> Revision | None:
        """Return the newest revision emitted before this time, an empty one if all came later; None for an unknown signal."""
        revisions = self._revisions.get(signal_id or "")
        if revisions is None:
            return None
        out = (r for r in revisions if r.emitted_ms < as_of_ms)
        return max(out, default=Revision(0, 0, "", "", 0.0))

    def outcome_of(self, case_id: str, as_of_ms: int) -> Outcome | None:
        """Return the outcome of the longest horizon that was over before this time; of several imports the last counts."""
        newest = {o.horizon_s: o for o in sorted(self._outcomes.get(case_id, ()))}
        return max((o for o in newest.values() if o.known_ms < as_of_ms), default=None)

    async def close(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.wait({self._reading})

    async def _read_on(self, model: str, timeout_s: float) -> None:
        while True:
            if self._reading is None or self._reading.done():
                self._answering = False
                if model not in self._memories:
                    self._memories[model] = self._table_of(model)
                self._reading = asyncio.create_task(self._read(), name="memory-copy")
                self._reading.add_done_callback(lambda task: task.cancelled() or task.exception())
            reading, first = self._reading, model not in self._read_at
            await asyncio.wait({reading}, timeout=timeout_s)
            if first and self._answering:
                await asyncio.wait({reading}, timeout=LOAD_WITHIN_S)
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
        began = asyncio.get_running_loop().time()
        models = tuple(self._memories)
        parts = {name: (uuid, set(names)) for name, uuid, names in (await self._client.query(_PARTS)).rows}
        self._answering = True
        # Judgements after the cases: a case that was read has its signal, if that was in the table then.
        for model in models:
            await self._read_memories(model, parts.get("memories"))
        for table in self._beside:
            if table.is_behind(there := parts.get(table.name)):
                await self._read_table(table, there, {})
        self._read_at |= dict.fromkeys(models, began)

    async def _read_memories(self, model: str, there: tuple[str, set[str]] | None) -> None:
        table = self._memories[model]
        if table.is_behind(there):
            asked = {"run_id": self._run_id, "model": model}
            longest = (await self._client.query(_DIMENSIONS, asked)).rows[0][0]
            known, self._dimensions[model] = self._dimensions[model], longest
            await self._read_table(table, there, asked | {"dimensions": longest}, anew=longest != known)

    async def _read_table(
        self, table: _Table, there: tuple[str, set[str]] | None, asked: dict[str, Any], *, anew: bool = False
    ) -> None:
        uuid, active = there or ("", set())
        anew |= uuid != table.uuid
        asked = {"run_id": self._run_id, "seen": [] if anew else sorted(table.seen)} | asked
        statement = table.statement.replace("DIMENSIONS", str(max(1, asked.get("dimensions", 0))))
        rows = (await self._client.query(statement, asked)).rows
        # What replaces rows is taken in within one turn of the event loop: no recall sees a part of a table.
        at_once = len(rows) if anew and table.seen else ROWS_AT_ONCE
        if anew:
            table.clear()
        for first in range(0, len(rows), max(1, at_once)):
            table.take(rows[first : first + at_once])
            await asyncio.sleep(0)
        table.uuid, table.seen = uuid, active | {row[0] for row in rows}

    def _table_of(self, model: str) -> _Table:
        self.entries[model], self._dimensions[model] = Entries(), 0

        def clear() -> None:
            self.entries[model] = Entries(self._dimensions[model])

        def take(rows: Sequence[Any]) -> None:
            entries = self.entries[model]
            said = [MemoryRow._make(row[1:11]) for row in rows]
            entries.add(said, [row[11][: entries.dimensions] for row in rows], [row[12] for row in rows])

        return _Table("memories", _MEMORIES, take, clear)

    def _take_revisions(self, rows: Sequence[Any]) -> None:
        for row in rows:
            held, one = self._revisions.get(row[1], ()), Revision._make(row[2:])
            if all(r.revision != one.revision for r in held):
                self._revisions[row[1]] = (*held, one)

    def _take_outcomes(self, rows: Sequence[Any]) -> None:
        for row in rows:
            held, one = self._outcomes.get(row[1], ()), Outcome._make(row[2:])
            if one not in held:
                self._outcomes[row[1]] = (*held, one)
