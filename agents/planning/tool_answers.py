"""The tool replies of a round, stored beside the evidence and shown to the models that judge it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from agents.core.case import Case
from agents.core.inquiry import Inquiry
from agents.core.model_calls import bounded
from agents.text.injection import steers_model
from schemas.effects import Failure, Part, RecallReply, Reply, SearchReply, Untrusted
from schemas.events import SubTask
from schemas.evidence import Findings, MemoryEntry, Observation, Page, SearchResult

MAX_TEXTS = 3
MAX_TEXT_CHARACTERS = 300
MAX_ENTRIES = 10
MOODS = ("panic", "neutral", "optimistic")
"""Word lists of the lexicon. A text counts once in each list with one of its words."""
_EVEN = (0.33, 0.34, 0.33)
_SENTENCE = re.compile(r"[。!?!?;;\n]+|\.\s+")


def in_time(hits: Iterable[SearchResult], case: Inquiry, task: SubTask) -> tuple[SearchResult, ...]:
    """Return the results within the sub-task's maximum age. A result without a date is always kept."""
    oldest = case.as_of - timedelta(days=task.days) if task.days else None
    return tuple(h for h in hits if oldest is None or h.published_at is None or h.published_at >= oldest)


def observation_of(case: Inquiry, task: SubTask, reply: Reply | None) -> Observation:
    """Return the observation of a tool other than an evidence search. A missing reply never counts as "nothing found"."""
    tool = task.tool.partition(":")[0]
    match reply:
        case RecallReply(entries=entries):
            known = tuple(e for e in entries if e.case_id != case.case_id)[:MAX_ENTRIES]
            figures = _changes(case, known) if task.detail else {}
            return _observation(tool, task, entries=known, figures=figures)
        case SearchReply(results=results):
            known_then = (r for r in results if r.published_at is None or r.published_at <= case.as_of)
            return _observation(tool, task, texts=_quoted(f"{r.title}: {r.snippet}" for r in known_then))
        case Failure(kind=kind):
            return _observation(tool, task, unavailable=kind)
        case _:
            return _observation(tool, task, unavailable="internal")


def sentiment(case: Inquiry, task: SubTask, findings: Findings, pages: Iterable[Page]) -> Observation:
    """Return the share of each mood in the texts that the sub-task names, with opinions if requested."""
    read, texts = task.query.split(), list[str]()
    texts += [case.text] if "news" in read else []
    texts += [f"{r.title} {r.snippet}" for r in findings.references] if "references" in read else []
    texts += [p.text for p in pages] if "pages" in read else []
    words = {mood: tuple(w.casefold() for w in case.config.tables.lexicon.get(mood, ())) for mood in MOODS}
    counts = {m: float(sum(any(w in text.casefold() for w in words[m]) for text in texts)) for m in MOODS}
    total = sum(counts.values())
    shares = {m: round(n / total, 4) for m, n in counts.items()} if total else dict(zip(MOODS, _EVEN, strict=True))
    plain = (text for text in texts if not steers_model(text))
    statements = (
        s for text in plain for s in _SENTENCE.split(text) if any(w in s.casefold() for m in MOODS for w in words[m])
    )
    opinions = _quoted(statements) if task.detail else ()
    return _observation("analyze_sentiment", task, figures=shares | {"texts": float(len(texts))}, texts=opinions)


def tool_facts(case: Inquiry) -> dict[str, Any]:
    """Return the figures that tools read or computed, for :func:`~agents.core.model_calls.facts`; empty without any."""
    market = [
        {"name": v.name, "value": v.value, "unit": v.unit, "source": v.source, "observed_at": v.observed_at.isoformat()}
        for s in case.searches
        for v in s.market
    ]
    seen = [o for s in case.searches for o in s.observations]
    tools = [
        {"tool": o.tool, **({"unavailable": o.unavailable} if o.unavailable else {"answers": _size(o)}), **o.figures}
        for o in seen
    ]
    return {**({"market": market} if market else {}), **({"tools": tools} if tools else {})}


def tool_parts(case: Inquiry) -> tuple[Part, ...]:
    """Return the text of tool answers as untrusted parts: pages, and summaries by models that read outside text."""
    seen = [o for s in case.searches for o in s.observations]
    texts = [(o.tool, text) for o in seen for text in (*o.texts, *map(_memory_text, o.entries))]
    return tuple(
        Untrusted(f"answer {n} of {tool}", bounded(text, 400)) for n, (tool, text) in enumerate(texts, start=1)
    )


def _memory_text(entry: MemoryEntry) -> str:
    when = f"{entry.decided_at:%Y-%m-%d}"
    return f"{when} {entry.asset} {entry.event_type} {entry.confidence:.2f} {entry.outcome or ''}: {entry.summary}"


def _size(seen: Observation) -> int:
    return len(seen.texts) + len(seen.entries)


def _changes(case: Inquiry, entries: tuple[MemoryEntry, ...]) -> dict[str, float]:
    if not entries:
        return {}
    latest = max(entries, key=lambda e: (e.decided_at, e.case_id))
    drafted = (
        {"confidence_change_since_latest": round(case.draft.confidence - latest.confidence, 4)}
        if isinstance(case, Case)
        else {}
    )
    return {
        "same_event_type": float(sum(e.event_type == case.about.event_type for e in entries)),
        **drafted,
        "days_since_latest": round((case.as_of - latest.decided_at).total_seconds() / 86_400, 1),
        "confidence_lowest": min(e.confidence for e in entries),
        "confidence_highest": max(e.confidence for e in entries),
    }


def _quoted(texts: Iterable[str]) -> tuple[str, ...]:
    # Texts that try to steer the model are left out here, as they are from the evidence.
    lines = (" ".join(bounded(text, MAX_TEXT_CHARACTERS).split()) for text in texts if not steers_model(text))
    return tuple(dict.fromkeys(line for line in lines if line))[:MAX_TEXTS]


def _observation(tool: str, task: SubTask, **answer: Any) -> Observation:
    return Observation(tool=tool, query=task.query, claim=task.claim, **answer)
