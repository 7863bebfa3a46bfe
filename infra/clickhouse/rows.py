"""The mapping from journal records to rows. Pure; measured at about 2 µs for an event without calls.

A record that the acceptance rule ignores has no event row, but its calls may have cost money. They become rows with
``accepted = 0``, so that a call that was paid twice is visible as two rows.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

from msgspec.structs import asdict, replace

from infra.clickhouse.call_rows import llm_row, tool_row
from infra.clickhouse.columns import DELIVERIES, FIRST_WINS_TOP, SIGNALS
from infra.clickhouse.record import AcceptedRecord, Row, Rows, epoch_ms
from infra.models.embeddings.hashing import EMBEDDING_MODEL, embed, embed_all
from infra.models.embeddings.port import unpacked
from schemas import events as ev
from schemas.calibration import SignalCalibration
from schemas.deliveries import Attempted, DeliveryRecord, HaltLifted, HaltRequested, Planned, Settled
from schemas.ids import LIVE_RUN
from schemas.news import is_asked, is_live, knowable_at
from schemas.research_events import QuestionRouted
from schemas.signals import NO_ASSET, Signal, SignalEvidence

__all__ = ["AcceptedRecord", "Row", "Rows", "delivery_row", "memory_row", "memory_rows", "rows_of", "signal_row"]


MAX_SUMMARY = 600
"""Maximum number of characters of an investigation's summary in memory."""
Embedded = Callable[[str], Sequence[int]]
"""Returns the hashing vector of a text, or an array that is filled before the row is written."""


def rows_of(record: AcceptedRecord, *, accepted: bool = True, embedded: Embedded = embed) -> Rows:
    """Return the rows of one record by table, each tuple in the order of ``columns.COLUMNS``.

    Live signals come from the ``signals`` topic (:func:`signal_row`). A backtest publishes nothing, so this function
    returns the signals of its runs.
    """
    event = record.event
    rows: Rows = {}
    if accepted:
        rows["events"] = [_event_row(record)]
        if isinstance(event, ev.EventReceived) and event.part is None:  # a message is one row, whatever it claims
            rows["news"] = [_news_row(record, event)]
        if isinstance(event, ev.BriefWritten) and event.claims:
            rows["memories"] = [brief_row(record, event, embedded)]
        if isinstance(event, ev.SignalSynthesized):
            if not record.is_look and not is_asked(
                event.signal.news_source
            ):  # recall takes verdict and confidence from the signal's newest revision
                rows["memories"] = memory_rows(record, embedded)
            if record.run_id != LIVE_RUN:
                signal = replace(event.signal, revision=2, supersedes=1) if record.is_look else event.signal
                rows["signals"] = [_backtest_signal_row(record, signal)]
    for index, call in enumerate(event.calls):
        if call.kind == "model":
            rows.setdefault("llm_calls", []).append(llm_row(record, index, call, accepted))
        else:
            rows.setdefault("tool_calls", []).append(tool_row(record, index, call, accepted))
    return rows


_OUTCOMES: dict[type[ev.Event], str] = {
    ev.CaseTriaged: "route",
    ev.StoryChecked: "route",
    ev.StoryCorroborated: "verdict",
    ev.ContextGathered: "memory",
    ev.ToolPlanned: "route",
    ev.SearchCompleted: "route",
    ev.PagesScraped: "route",
    ev.KeywordsExpanded: "route",
    ev.EvidenceCritiqued: "verdict",
    ev.SignalSynthesized: "path",
    ev.CaseDropped: "reason",
    ev.StepFailed: "outcome",
    ev.RetractionFound: "kind",
    ev.BriefWritten: "path",
    QuestionRouted: "decision",
}
"""The field of each event that states its decision in one word. All are ``Literal``, so the values are enumerable."""


def _named(r: AcceptedRecord) -> Row:
    return r.run_id, r.case_id, r.event_id


def _placed(r: AcceptedRecord) -> Row:
    return r.topic, r.partition, r.offset, FIRST_WINS_TOP - r.offset


def _event_row(r: AcceptedRecord) -> Row:
    event = r.event
    field = _OUTCOMES.get(type(event))
    calls = event.calls
    at = r.time.timestamp()
    opened = datetime.fromtimestamp(r.appended_ms / 1000, UTC)
    news = event.news if isinstance(event, ev.EventReceived) else None
    return (
        *_named(r), r.causation_id or "", r.event_type, r.schema_version, round(at * 1000), r.appended_ms,
        r.step or "", "" if field is None else getattr(event, field),
        None if r.cause_time is None else (at - r.cause_time.timestamp()) * 1000, len(calls),
        r.provider_mode or (calls[0].mode if calls else ""), r.topic, r.partition, r.offset, r.value,
        None if news is None else epoch_ms(knowable_at(news, opened)),
        None if news is None else is_live(news, opened), FIRST_WINS_TOP - r.offset,
    )  # fmt: skip


def _news_row(r: AcceptedRecord, event: ev.EventReceived) -> Row:
    news = event.news
    return (
        *_named(r), news.source, news.external_id or "", news.url or "", news.author or "", event.language,
        news.text, event.text_hash, list(news.keywords_hit), epoch_ms(news.published_at),
        news.received_at and epoch_ms(news.received_at), epoch_ms(r.time), *_placed(r),
    )  # fmt: skip


def memory_rows(record: AcceptedRecord, embedded: Embedded = embed) -> list[Row]:
    """Return the memory rows of a case with a signal: one by the hashing vector, one by a paid vector if any (ADR 17).

    Raises:
        TypeError: the record's event is not ``SignalSynthesized``.
    """
    rows = [memory_row(record, embedded=embedded)]
    if (made := record.embedding) is not None:
        rows.append(memory_row(record, made.model, unpacked(made)))
    return rows


def memory_row(
    record: AcceptedRecord, model: str = EMBEDDING_MODEL, vector: list[int] | None = None, *, embedded: Embedded = embed
) -> Row:
    """Return the memory row of a case that ended in a signal; ``vector`` None = ``embedded`` makes the vector.

    Raises:
        TypeError: the record's event is not ``SignalSynthesized``.
    """
    event = record.event
    if not isinstance(event, ev.SignalSynthesized):
        raise TypeError(f"only SignalSynthesized makes a memory, not {type(event).__name__}")
    signal = event.signal
    return (
        *_named(record), signal.signal_id, signal.verdict or "", signal.event_type, signal.asset, signal.action,
        signal.summary, signal.confidence, signal.language, list(record.keywords), epoch_ms(signal.decided_at),
        model, embedded(record.news_text or signal.summary) if vector is None else vector, *_placed(record),
    )  # fmt: skip


def brief_row(record: AcceptedRecord, brief: ev.BriefWritten, embedded: Embedded = embed) -> Row:
    """Return the memory row of an investigation: its findings, as of its own time.

    It has no signal and no verdict, so recall returns it, but it changes no confidence.
    """
    text = " ".join(s.text for part in (brief.established, brief.disputed, brief.unsettled) for s in part)
    summary = f"{brief.subject}: {text}"[:MAX_SUMMARY]
    about: Row = ("", "", "investigation", NO_ASSET, "observe", summary, 0.0, brief.language, [])
    return (*_named(record), *about, epoch_ms(brief.as_of), EMBEDDING_MODEL, embedded(summary), *_placed(record))


def _backtest_signal_row(r: AcceptedRecord, signal: Signal) -> Row:
    return signal_row(
        signal,
        run_id=r.run_id,
        cause_id=r.event_id,
        journal_topic=r.topic,
        journal_partition=r.partition,
        journal_offset=r.offset,
        emitted_ms=r.appended_ms,
        knowable_at=r.knowable_at,
    )


def signal_row(
    signal: Signal,
    *,
    run_id: str,
    cause_id: str,
    journal_topic: str,
    journal_partition: int,
    journal_offset: int,
    emitted_ms: int,
    knowable_at: datetime | None = None,
) -> Row:
    """Return the row of one revision of a signal.

    ``cause_id`` and ``journal_*`` identify the journal event that the revision was published for (headers of
    ``signals``). ``emitted_ms`` is the append time on ``signals``, milliseconds since 1970. ``knowable_at`` is the
    first time at which anybody could have acted on the news; None = the time of publication.
    """
    published = epoch_ms(signal.published_at)
    calibration = signal.calibration if isinstance(signal.calibration, SignalCalibration) else None
    columns = {
        "run_id": run_id,
        "cause_id": cause_id,
        "horizon_s": signal.horizon,
        "calibration_id": "" if calibration is None else calibration.id,
        "calibrated_low": calibration and calibration.low,
        "calibrated_high": calibration and calibration.high,
        "calibration_stories": calibration and calibration.n_stories,
        "p_true": calibration and calibration.p_true,
        "confidence_delta": signal.confidence - signal.preliminary_confidence,
        "adjustments": [(a.rule, a.amount, a.reason) for a in signal.adjustments],
        "risk_flags": list(signal.risk_flags),
        "evidence": [_evidence(e) for e in signal.evidence],
        "links": list(signal.links),
        "prompt_versions": [(p.name, p.version, p.hash) for p in signal.prompt_versions],
        "published_at": published,
        "knowable_at": published if knowable_at is None else epoch_ms(knowable_at),
        "decided_at": epoch_ms(signal.decided_at),
        "valid_until": epoch_ms(signal.valid_until),
        "emitted_at": emitted_ms,
        "journal_topic": journal_topic,
        "journal_partition": journal_partition,
        "journal_offset": journal_offset,
        "first_wins": FIRST_WINS_TOP - journal_offset,
    }
    return tuple(columns[name] if name in columns else _stored(signal, name) for name in SIGNALS)


def _stored(signal: Signal, name: str) -> Any:
    value = getattr(signal, name)
    return "" if value is None and name not in _NULLABLE else value


def _evidence(e: SignalEvidence) -> Row:
    published = e.published_at and epoch_ms(e.published_at)
    return (e.url, e.hash, e.stance, int(e.official), int(e.independent), published, e.quote, e.reference_number)


_NULLABLE = frozenset({"supersedes", "confidence_calibrated", "reference_price"})
"""The columns of ``signals`` that may be empty; texts are then empty texts."""
_UNSAID: dict[str, Any] = {
    **dict.fromkeys(("planned_at", "valid_until", "price", "seconds")),
    **dict.fromkeys(("revision", "attempt", "fee", "closes"), 0),
}
"""Values of the columns that a record of ``deliveries`` does not have; the others are then empty."""


def delivery_row(
    record: DeliveryRecord, *, appended_ms: int, journal_topic: str, journal_partition: int, journal_offset: int
) -> Row:
    """Return the row of one record of ``deliveries``. ``appended_ms``: its append time, milliseconds since 1970."""
    columns = {name: value for name, value in asdict(record).items() if value is not None}
    match record:
        case Planned():
            columns |= {"delivery_id": record.id, "entry_id": record.entry or ""}
            columns |= {"planned_at": epoch_ms(record.planned_at), "valid_until": epoch_ms(record.valid_until)}
        case Attempted():
            columns |= {"delivery_id": record.delivery, "attempt": record.n}
        case Settled():
            columns |= {"delivery_id": record.delivery}
        case HaltRequested():
            columns |= {"requested_by": record.by, "closes": record.exit}
        case HaltLifted():
            columns |= {"requested_by": record.by}
    columns |= {
        "record": str(record.__struct_config__.tag).rpartition("delivery_")[2],
        "appended_at": appended_ms,
        "journal_topic": journal_topic,
        "journal_partition": journal_partition,
        "journal_offset": journal_offset,
    }
    return tuple(columns.get(name, _UNSAID.get(name, "")) for name in DELIVERIES)


class Vectors:
    """Hands out empty vectors and computes all of them at once in :meth:`fill`."""

    def __init__(self) -> None:
        self._texts: list[str] = []
        self._vectors: list[array[int]] = []

    def of(self, text: str) -> array[int]:
        """Return the vector of a text, one signed byte per component; empty until :meth:`fill`."""
        vector = array("b")
        self._texts.append(text)
        self._vectors.append(vector)
        return vector

    def fill(self) -> None:
        """Compute all vectors handed out since the last call."""
        for vector, computed in zip(self._vectors, embed_all(self._texts), strict=True):
            vector.frombytes(computed.tobytes())
        self._texts, self._vectors = [], []
