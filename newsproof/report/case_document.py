"""One case as a document: what ``newsproof case`` prints, as JSON and for a person, and what the page shows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from agents.text.wording import Text
from newsproof.report import narrative
from newsproof.report.case_sentence import case_sentence
from newsproof.report.timeline import Line, lines_of
from schemas.events import EventReceived, EvidenceCritiqued
from schemas.evidence import Findings
from schemas.news import News
from schemas.signals import Signal, Stage
from streams.journal.case_reading import JournalRecord


class CaseDocument(msgspec.Struct, frozen=True, kw_only=True):
    """What is told of one case. None: the case did not come to it. ``sentence``: what became of it, in both languages.

    ``pages``: the references as they count, in their order. ``confidence``: how the first confidence became the final one. ``revisions``: those of the signal, as published.
    ``passed_by``: records that the rule of acceptance ignored; their calls were paid for, and are among ``calls``.
    """

    case_id: str
    news: News | None
    config_hash: str
    sentence: Text
    timeline: list[Line]
    findings: Findings | None
    critique: EvidenceCritiqued | None
    pages: list[narrative.ReadPage]
    confidence: list[narrative.WaterfallStep] | None
    signal: Signal | None
    revisions: Sequence[Any]
    calls: list[narrative.CaseCall]
    passed_by: list[JournalRecord]


def document_of(records: Sequence[JournalRecord], revisions: Sequence[Any] = ()) -> CaseDocument:
    """Return the document of a case's records, of which there must be one, in log order.

    Those of second looks at the case are among them; the one that changed the signal decides the document.
    ``revisions``: oldest first, as signals or as rows of theirs.
    """
    deciding = narrative.deciding(records)
    found = narrative.signal_of(deciding)
    findings, critique = narrative.last_findings(deciding), narrative.critique_of(deciding)
    opening = next((r.event for r in records if isinstance(r.event, EventReceived)), None)
    return CaseDocument(
        case_id=records[0].envelope.case_id,
        news=None if opening is None else opening.news,
        config_hash="" if opening is None else opening.config_hash,
        sentence=case_sentence(deciding, *_newest(revisions)),
        timeline=lines_of(records),
        findings=findings,
        critique=critique,
        pages=narrative.pages_read(findings, critique, () if found is None else found[0].evidence),
        confidence=None if found is None else narrative.waterfall(*found),
        signal=None if found is None else found[0],
        revisions=revisions,
        calls=narrative.calls_of(records),
        passed_by=[r for r in records if not r.accepted],
    )


def _newest(revisions: Sequence[Any]) -> tuple[Text, Stage | None]:
    """Return summary and stage of the newest revision. One that older code published has no sentence for its summary."""
    if not revisions:
        return Text(), None
    newest: Any = revisions[-1]
    row: dict[str, Any] = msgspec.structs.asdict(newest) if isinstance(newest, Signal) else newest
    return Text(row.get("summary_en") or "", row.get("summary_zh") or ""), row.get("stage")
