"""News that watches fire on: reads the journal of news cases to its end while any watch is on news."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Any

from agents.investigation.subject import SubjectMatcher
from schemas import envelope as wire
from schemas.config import Tables
from schemas.errors import ContractError
from schemas.events import OPENING_NAME, TERMINAL_NAMES, WIRE_NAMES, CaseTriaged, EventReceived
from schemas.news import News
from schemas.watches import SOURCE_PREFIX
from streams.journal.clock import append_ms
from streams.journal.fold import JournalFold
from streams.journal.log import Cursor, Log, starts_since
from streams.journal.reader import JournalReader
from streams.watches.rule import Watch

LOOK_BACK_MS = 3600 * 1000
"""A start reads this far back: news triaged while no worker ran fires a watch if it is no older."""
_TRIAGED = WIRE_NAMES[CaseTriaged]


class NewsMatches:
    """The latest match of each watch on news. Reads nothing while there is no such watch.

    A case counts from its triage on, because its asset and entity are unknown before. News published by a watch never
    matches.
    """

    def __init__(self, log: Log, topic: str, tables: Tables) -> None:
        """``topic``: the journal of news cases."""
        self._log, self._topic, self._tables = log, topic, tables
        self._concerns: dict[str, SubjectMatcher] = {}
        self._newest: dict[str, tuple[int, str]] = {}
        self._untriaged: dict[str, News] = {}
        self._folds: dict[Any, JournalFold] = {}
        self._cursor: Cursor | None = None
        self._open = AsyncExitStack()

    async def newest(self, watches: Sequence[Watch], now_ms: int) -> dict[str, tuple[int, str]]:
        """Return watch → triage time (ms) and case of its latest match, as far as the journal was read.

        Raises:
            KafkaError: the broker does not respond.
        """
        if not watches:
            await self.close()
            return {}
        self._concerns = {
            w.set.id: self._concerns.get(w.set.id) or SubjectMatcher(w.set.subject, self._tables) for w in watches
        }
        cursor = self._cursor or await self._begin(now_ms - LOOK_BACK_MS)
        while batches := await cursor.next(0.0):
            for tp, records in batches.items():
                for env, record in self._folds[tp].accept(records):
                    self._take(env, record)
        return self._newest

    async def close(self) -> None:
        """Forget everything read, and close the connection."""
        await self._open.aclose()
        self._cursor = None
        for kept in (self._concerns, self._newest, self._untriaged, self._folds):
            kept.clear()

    async def _begin(self, since_ms: int) -> Cursor:
        reader = JournalReader(self._log, self._topic)
        self._folds = await reader.begin(await starts_since(self._log, self._topic, since_ms))
        starts = {tp: fold.position for tp, fold in self._folds.items()}
        self._cursor = await self._open.enter_async_context(self._log.follow(starts))
        return self._cursor

    def _take(self, env: wire.Envelope, record: Any) -> None:
        if env.type == OPENING_NAME:
            event = _decoded(env, record)
            # A further claim of a message is no news of its own: the first case matches by the whole text.
            if (
                isinstance(event, EventReceived)
                and event.part is None
                and not event.news.is_asked
                and not event.news.source.startswith(SOURCE_PREFIX)
            ):
                self._untriaged[env.case_id] = event.news
        elif env.type == _TRIAGED and (news := self._untriaged.pop(env.case_id, None)) is not None:
            event = _decoded(env, record)
            for id, concern in self._concerns.items():
                if isinstance(event, CaseTriaged) and concern.matches(news.text, event.draft):
                    self._newest[id] = max(self._newest.get(id, (0, "")), (int(append_ms(record)), env.case_id))
        elif env.type in TERMINAL_NAMES:
            self._untriaged.pop(env.case_id, None)


def _decoded(env: wire.Envelope, record: Any) -> object:
    try:
        return wire.decode(env.type, env.version, record.value)
    except ContractError:
        return None  # the runtime quarantines its case and reports it
