"""The watches, read from their topic, and the results of their last investigations."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

import msgspec

from schemas import envelope as wire
from schemas.events import TERMINAL_NAMES, BriefWritten, CaseFailed
from schemas.topics import Topics
from schemas.watches import known
from streams.journal.clock import append_ms, appended_at
from streams.journal.log import Log, starts_since
from streams.journal.reader import JournalReader
from streams.watches.rule import Watch, WatchState


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """State of an investigation. ``new``: number of changes in its brief since the one before; None without a brief."""

    investigation_id: str
    state: str
    ended_at: datetime | None = None
    new: int | None = None


async def read_watches(log: Log, topics: Topics) -> WatchState:
    """Return the fold of the whole topic up to its present end.

    Raises:
        NewerRecordError: the topic holds a record of a newer version.
    """
    state = WatchState()
    async for _, records in log.replay(await log.bounds(topics.watches)):
        for record in records:
            if (change := known(record.value)) is not None:  # the watchers log others
                state.fold(int(append_ms(record)), change)
    return state


async def last_results(log: Log, topics: Topics, watches: Iterable[Watch]) -> dict[str, Result]:
    """Return watch → state of its last opened investigation: ``running``, ``brief``, ``stopped`` or ``failed``."""
    opened = {w.investigation: w for w in watches if w.investigation is not None}
    if not opened:
        return {}
    results = {w.set.id: Result(investigation_id=id, state="running") for id, w in opened.items()}
    reader = JournalReader(log, topics.research)
    # Each was opened after its watch fired, so every opening lies after these offsets.
    folds = await reader.begin(await starts_since(log, topics.research, min(w.fired_at_ms for w in opened.values())))
    async for tp, records in reader.replay(folds):
        for env, record in folds[tp].accept(records):
            if env.type in TERMINAL_NAMES and (watch := opened.get(env.case_id)) is not None:
                event = wire.decode(env.type, env.version, record.value)
                brief = isinstance(event, BriefWritten)
                results[watch.set.id] = Result(
                    investigation_id=env.case_id,
                    state="brief" if brief else "failed" if isinstance(event, CaseFailed) else "stopped",
                    ended_at=appended_at(record),
                    new=len(event.new_since) if isinstance(event, BriefWritten) else None,
                )
    return results
