"""JSON document of one case: the content of ``newsproof case``, in the fields that the page shows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from newsproof.report import narrative
from schemas import events as ev
from schemas.calls import Call
from schemas.evidence import Findings
from streams.feed.case_items import CaseItem
from streams.journal.case_reading import JournalRecord


def document_of(records: Sequence[JournalRecord]) -> dict[str, Any]:
    """Return the document of a case's records, in log order; at least one of them must be accepted."""
    item = CaseItem(case_id=records[0].envelope.case_id, opened_at=records[0].envelope.time)
    for record in records:
        if record.accepted:
            item.take(record.envelope, record.event)
    opening = next((r.event for r in records if isinstance(r.event, ev.EventReceived)), None)
    critique, found = narrative.critique_of(records), narrative.signal_of(records)
    findings = narrative.last_findings(records)
    return {
        "case": item,
        "news": None if opening is None else opening.news,
        "thought_steps": _thought_steps(records),
        "searches": _searches(records),
        "findings": "" if findings is None else narrative.findings_in_words(findings),
        "evidence": [] if findings is None else _evidence(findings),
        "dropped_evidence": [] if findings is None else findings.dropped,
        "claims": [] if critique is None else [msgspec.to_builtins(claim) for claim in critique.claims],
        "waterfall": [] if found is None else _waterfall(narrative.waterfall(*found)),
        "signal": None if found is None else found[0],
        "calls": [_call(event, call, accepted) for event, call, accepted in narrative.calls_of(records)],
        "prompts": [] if found is None else found[0].prompt_versions,
        "events": [_raw(record) for record in records],
        "config_hash": "" if opening is None else opening.config_hash,
    }


def _thought_steps(records: Sequence[JournalRecord]) -> list[dict[str, Any]]:
    accepted = [r for r in records if r.accepted]
    return [
        {
            "phase": line.phase,
            "title": line.what,
            "text": line.thought,
            "at": record.envelope.time,
            "seconds": round(line.after_s, 3),
        }
        for record, line in zip(accepted, narrative.lines_of(accepted), strict=True)
    ]


def _searches(records: Sequence[JournalRecord]) -> list[dict[str, Any]]:
    made = []
    for record in records:
        if not (record.accepted and isinstance(record.event, ev.SearchCompleted)):
            continue
        for one in record.event.outcomes:
            failed = one.failure is not None
            made.append(
                {
                    "round": record.event.round,
                    "provider": one.provider,
                    "query": one.query,
                    "hits": one.hits,
                    "cached": one.cached,
                    "error": f"{one.failure.kind}: {one.failure.message}" if failed and one.failure else "",
                    "at": record.envelope.time,
                }
            )
    return made


def _evidence(found: Findings) -> list[dict[str, Any]]:
    return [
        {
            "number": r.reference_number,
            "title": r.title,
            "url": r.url,
            "domain": r.registrable_domain,
            "snippet": r.snippet,
            "stance": r.stance,
            "official": r.official,
            "independent": r.independent,
            "quality": r.quality_score,
            "credibility": r.source_credibility,
            "published_at": r.published_at,
        }
        for r in found.references
    ]


def _waterfall(steps: Sequence[narrative.WaterfallStep]) -> list[dict[str, Any]]:
    return [{"label": s.rule, "amount": s.amount, "total": s.confidence, "reason": s.reason} for s in steps]


def _call(event: str, call: Call, accepted: bool) -> dict[str, Any]:
    return {
        "step": event,
        "kind": call.kind,
        "provider": call.provider,
        "mode": call.mode,
        "model": call.model,
        "prompt": f"{call.prompt_name} v{call.prompt_version}" if call.prompt_name else "",
        "latency_ms": call.latency_ms,
        "cost_usd": call.cost_usd,
        "tokens": call.usage_input_tokens + call.usage_output_tokens,
        "cached": call.cached,
        "error": call.error,
        "accepted": accepted,
        "at": call.replied_at,
    }


def _raw(record: JournalRecord) -> dict[str, Any]:
    return {
        "offset": record.offset,
        "type": record.envelope.type,
        "at": record.appended_at,
        "accepted": record.accepted,
        "json": record.event,
    }
