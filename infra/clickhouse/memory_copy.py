"""An in-memory copy of the tables that recall needs: memories, revisions of signals, outcomes. A recall updates it.

An update reads only the parts of the tables that were not read before. A part never changes: rows inserted, merged or
exchanged since the last update are in parts with new names. So no row is missed, whoever wrote it and whenever; rows
that a merge moved are already known. A replacement is built beside the old content and takes its place at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from infra.clickhouse.client import ClickHouse
from infra.clickhouse.memory_entries import Entries, MemoryRow
from schemas.errors import NewsproofError, TransientError

READ_ON_AFTER_S = 1.0
"""A recall updates the copy if the last update is at least this long ago."""
MAX_AGE_S = 30.0
"""While ClickHouse does not respond, the copy remains valid for this long; after that, memory is unavailable."""
PATIENCE_S = 0.2
"""Maximum time that a recall waits for an update while the copy is valid; on a quiet machine an update takes 20 ms."""
LOAD_WITHIN_S = 20.0
"""Seconds after the start of the first read for which recalls wait, if ClickHouse responds."""
ROWS_AT_ONCE = 2_000
"""Rows added to the copy in one turn of the event loop."""

_PARTS = """
SELECT name, toString(uuid), arrayMap(p -> p.2, arrayFilter(p -> p.1 = name,
    (SELECT groupArray((table, name)) FROM system.parts WHERE active AND database = currentDatabase())))
FROM system.tables
WHERE database = currentDatabase() AND name IN ('memories', 'signals', 'outcomes')
"""

_OF_RUN = "(run_id = {run_id:String} OR ({run_id:String} = 'live' AND run_id = 'research'))"
# Memory contains the results of investigations, too.

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
# An outcome is known when its horizon is over, even if the market ended earlier.


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
    """A table and the rows read from it. ``uuid`` distinguishes it from the table that a rebuild puts in its place.

    ``new`` creates the container of its rows, ``take`` adds rows to it. ``whole``: rows may be deleted from the table,
    so it is read completely whenever it changed.
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
        # A missing table is read, too: the engine's error says what to do.
        if there is None or there[0] != self.uuid:
            return True
        return there[1] != self.seen if self.whole else not there[1] <= self.seen


class _News(NamedTuple):
    """New rows of a table, and the container to add them to: the present one, or its replacement."""

    table: _Table
    into: Any
    rows: Sequence[Any]
    uuid: str
    seen: set[str]


class MemoryCopy:
    """The copy for one run. Safe for concurrent use within one event loop."""

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
        """Return this model's entries, at most ``READ_ON_AFTER_S`` old; if ClickHouse is slow, at most ``MAX_AGE_S``.

        Raises:
            TransientError, PermanentError: ClickHouse refuses, or does not respond within ``timeout_s``.
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
        """Return the newest revision emitted before this time, an empty one if all are later; None if there is none."""
        revisions: tuple[Revision, ...] | None = self._revisions.held.get(signal_id or "")
        if revisions is None:
            return None
        out = (r for r in revisions if r.emitted_ms < as_of_ms)
        return max(out, default=Revision(0, 0, "", "", 0.0))

    def outcome_of(self, case_id: str, as_of_ms: int) -> Outcome | None:
        """Return the outcome of the longest horizon that ended before this time, according to the latest import."""
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
                    f"ClickHouse did not respond within {timeout_s:g} s: check that it runs, and its load",
                    kind="timeout",
                )
            reading.result()
            if model in self._read_at:  # otherwise that task read for other models only
                return

    async def _read(self) -> None:
        began, models = self._began, tuple(self._memories)
        parts = {name: (uuid, set(names)) for name, uuid, names in (await self._client.query(_PARTS)).rows}
        self._answering = True
        # Cases are queried before their judgements, so the judgements of every case read are included. Cases are added
        # after them, so no recall sees a case without its judgements.
        tables = (*(self._memories[model] for model in models), self._revisions, self._outcomes)
        news = [await self._news_of(t, parts.get(t.name)) for t in tables if t.is_behind(parts.get(t.name))]
        for update in reversed(news):
            for first in range(0, len(update.rows), ROWS_AT_ONCE):
                update.table.take(update.into, update.rows[first : first + ROWS_AT_ONCE])
                await asyncio.sleep(0)
            update.table.held, update.table.uuid, update.table.seen = update.into, update.uuid, update.seen
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
    memories = [MemoryRow._make(row[1:11]) for row in rows]
    entries.add(memories, [row[11][: entries.dimensions] for row in rows], [row[12] for row in rows])


def _take_revisions(revisions: dict[str, tuple[Revision, ...]], rows: Sequence[Any]) -> None:
    for row in rows:
        held, revision = revisions.get(row[1], ()), Revision._make(row[2:])
        if all(r.revision != revision.revision for r in held):
            revisions[row[1]] = (*held, revision)


def _take_outcomes(outcomes: dict[str, tuple[Outcome, ...]], rows: Sequence[Any]) -> None:
    for row in rows:
        held, outcome = outcomes.get(row[1], ()), Outcome._make(row[2:])
        if outcome not in held:
            outcomes[row[1]] = (*held, outcome)
