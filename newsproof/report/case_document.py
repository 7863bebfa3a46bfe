"""One case as a document, which ``newsproof case`` prints and the page shows."""

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
    """The content of one case. None: the case did not reach this step. ``sentence``: its result, in both languages.

    ``pages``: the references in order, each with the stance that counts. ``confidence``: the steps from the first confidence
    to the final one. ``revisions``: the signal's, as published. ``passed_by``: records that acceptance ignored. Their calls
    were paid for, so ``calls`` includes them. ``claims``: asset → case of every claim of a message that makes several.
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
    claims: dict[str, str]


def document_of(records: Sequence[JournalRecord], revisions: Sequence[Any] = ()) -> CaseDocument:
    """Return the document of a case from its records (at least one, in log order).

    They include the records of second looks. The second look that changed the signal decides the document.
    ``revisions``: oldest first, as signals or as their rows.
    """
    deciding = narrative.deciding(records)
    decided = narrative.signal_of(deciding)
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
        pages=narrative.pages_read(findings, critique, () if decided is None else decided[0].evidence),
        confidence=None if decided is None else narrative.waterfall(*decided),
        signal=None if decided is None else decided[0],
        revisions=revisions,
        calls=narrative.calls_of(records),
        passed_by=[r for r in records if not r.accepted],
        claims=next((part.cases for r in records if r.accepted and (part := getattr(r.event, "part", None))), {}),
    )


def _newest(revisions: Sequence[Any]) -> tuple[Text, Stage | None]:
    """Return summary and stage of the latest revision. A revision of older code has no summary sentence."""
    if not revisions:
        return Text(), None
    newest: Any = revisions[-1]
    row: dict[str, Any] = msgspec.structs.asdict(newest) if isinstance(newest, Signal) else newest
    return Text(row.get("summary_en") or "", row.get("summary_zh") or ""), row.get("stage")
