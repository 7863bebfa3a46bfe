"""Messages of the live stream on a case's progress: the sentence of the case view, and the next step."""

from __future__ import annotations

from functools import cache
from typing import Any

from agents.core.registry import Registry
from agents.graphs import verification
from newsproof.report.timeline import sentence_of
from schemas import envelope as wire
from schemas.events import EffectCompleted
from streams.feed.case_items import FeedCase


def case_progress(case: FeedCase, env: wire.Envelope, event: Any) -> dict[str, Any]:
    """Return the ``data`` of one ``case`` event. ``step`` is the next step; it is empty if the case has ended."""
    phase, text, why = sentence_of(event)
    following = _graph().step_after(event) if not isinstance(event, EffectCompleted) else None
    said = {
        "case_id": case.case_id,
        "status": case.status,
        "step": event.step if isinstance(event, EffectCompleted) else ("" if following is None else following.name),
        "phase": phase,
        "text": text.en,
        "text_zh": text.zh,
        "why": why.en[:500],
        "why_zh": why.zh[:500],
        "at": env.time,
    }
    if case.is_whole:
        said |= {"news": case.text, "source": case.source, "language": case.language, "asset": case.asset,
                 "event_type": case.event_type, "confidence": case.confidence}  # fmt: skip
    return said


@cache
def _graph() -> Registry:
    return verification()
