"""The sink's view of one journal partition: the inserted range, and the rows of the next records."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from agents.core.registry import Registry
from agents.verification.recall import MAX_RECALL_CHARACTERS
from infra.clickhouse.rows import AcceptedRecord, Rows, Vectors, rows_of
from schemas import envelope as wire
from schemas.effects import RecallReply, TextEmbedding
from schemas.errors import ContractError
from schemas.events import (
    COMMANDS,
    TERMINAL,
    EffectCompleted,
    Event,
    EventReceived,
    InvestigationAsked,
    QuestionAsked,
    SecondLookOpened,
)
from schemas.ids import content_hash
from schemas.news import knowable_at
from streams.journal.fold import JournalFold

Bad = tuple[Any, ContractError]
"""A record without rows, and the reason."""


class Head(msgspec.Struct):
    """State of a case that the rows of its next event need. ``step``: the one that its head leads to.

    ``opening``: the type of its opening event, which determines its graph. ``of_case``: for a second look, the first
    case, under which its rows are stored.
    """

    step: str | None
    at: datetime
    news_text: str
    knowable_at: datetime
    keywords: tuple[str, ...] = ()
    embedding: TextEmbedding | None = None
    opening: type[Event] | None = None
    of_case: str | None = None


class Progress(msgspec.Struct):
    """Commit metadata of one partition: inserted up to ``through``; the range up to ``pending`` may be inserted."""

    through: int = -1
    pending: int = -1

    @classmethod
    def of(cls, metadata: str) -> Progress:
        try:
            return msgspec.json.decode(metadata or "{}", type=cls)
        except msgspec.DecodeError:
            return cls()


class SinkJournal:
    """One journal partition: acceptance, open heads, and the rows of its records."""

    def __init__(self, fold: JournalFold, registry: Registry, progress: Progress) -> None:
        self.fold = fold
        self.progress = progress
        self._registry = registry
        self._heads: dict[str, Head] = {}

    @property
    def watermark(self) -> int:
        return self.fold.accepted.watermark

    def rows(self, records: Sequence[Any]) -> tuple[Rows, list[Bad]]:
        """Return the rows of records (in order, contiguous), and the records that do not decode."""
        rows: Rows = {}
        bad: list[Bad] = []
        vectors = Vectors()
        for record in records:
            env, accepted = self.fold.judge(record)
            if env is None:
                continue  # not a record of this journal: the runtime writes its dead letter
            try:
                event = wire.decode(env.type, env.version, record.value)
                self._registry.flow.refuse_foreign(event)
            except wire.NewerSchemaError:
                if accepted:
                    raise
                continue  # any writer can claim a version; only an accepted record is a reason to stop
            except ContractError as exc:
                bad.append((record, exc))
                continue
            fresh = record.offset > self.progress.through
            try:
                placed = self._placed(env, event, record) if fresh else None
                made = {} if placed is None else rows_of(placed, accepted=accepted, embedded=vectors.of)
            except Exception as exc:  # any error in the mapping that a decodable record's values cause
                bad.append((record, ContractError(f"the record cannot become rows: {exc!r:.300}", reason="bad_row")))
                made = {}
            if accepted:
                self._move(env, event, record.timestamp)
            for table, of_table in made.items():
                rows.setdefault(table, []).extend(of_table)
        vectors.fill()
        return rows, bad

    def _placed(self, env: wire.Envelope, event: Event, record: Any) -> AcceptedRecord:
        head = self._heads.get(env.case_id)
        look = event.of_case if isinstance(event, SecondLookOpened) else head and head.of_case
        return AcceptedRecord(
            event_id=env.id,
            event_type=env.type,
            case_id=look or env.case_id,
            is_look=look is not None,
            run_id=env.run_id,
            time=env.time,
            topic=record.topic,
            partition=record.partition,
            offset=record.offset,
            appended_ms=record.timestamp,
            event=event,
            value=record.value,
            causation_id=env.causation_id,
            schema_version=env.version,
            step=None if head is None or isinstance(event, COMMANDS) else head.step,
            cause_time=None if head is None else head.at,
            news_text=None if head is None else head.news_text,
            knowable_at=None if head is None else head.knowable_at,
            keywords=() if head is None else head.keywords,
            embedding=None if head is None else head.embedding,
        )

    def _move(self, env: wire.Envelope, event: Event, appended_ms: int) -> None:
        if isinstance(event, QuestionAsked):
            self._heads[env.case_id] = Head(self._after(event), env.time, event.message, env.time)
        elif isinstance(event, InvestigationAsked):
            step, at = self._after(event, InvestigationAsked), event.as_of
            self._heads[env.case_id] = Head(step, env.time, event.subject, at, opening=InvestigationAsked)
        elif isinstance(event, EventReceived | SecondLookOpened):
            news = event.news
            keywords = tuple(dict.fromkeys(word.lower() for word in news.keywords_hit))
            known = knowable_at(news, datetime.fromtimestamp(appended_ms / 1000, UTC))
            of_case = event.of_case if isinstance(event, SecondLookOpened) else None
            text = news.text if event.part is None else event.part.text
            self._heads[env.case_id] = Head(self._after(event), env.time, text, known, keywords, of_case=of_case)
        elif isinstance(event, TERMINAL):
            self._heads.pop(env.case_id, None)
        elif (head := self._heads.get(env.case_id)) is not None:
            head.embedding = _embedding(event, head.news_text) or head.embedding
            if not isinstance(event, EffectCompleted):
                head.step, head.at = self._after(event, head.opening), env.time

    def _after(self, head: Event, opening: type[Event] | None = None) -> str | None:
        try:
            step = self._registry.step_after(head, opening)
        except ContractError:  # any writer can name a step that does not exist
            return None
        return None if step is None else step.name


def _embedding(event: Event, news_text: str) -> TextEmbedding | None:
    """Return the vector of the news in this event's recall reply, if a provider made one."""
    for call in event.calls:
        made = call.reply.embedding if isinstance(call.reply, RecallReply) else None
        if made is not None and made.text_hash == content_hash(news_text[:MAX_RECALL_CHARACTERS]):
            return made
    return None
