"""Parsers for model replies. Nothing that a model writes enters an event before these types and functions check it."""

from __future__ import annotations

import math
import re
from typing import Any, Literal, TypeVar

import msgspec

from agents.core.asking import bounded
from agents.core.step import StepFailure, invalid_output, needed
from schemas.effects import ModelReply, Reply
from schemas.evidence import Findings
from schemas.signals import Action, Direction, Draft, EventType, Strength, Timeframe

Verdict = Literal["supported", "refuted", "conflicting", "not_enough_evidence"]
T = TypeVar("T")

_FLAG = re.compile(r"[a-z][a-z0-9_]{1,39}")
_NOT_KEYWORD = re.compile(r"https?://\S+|[^\w\s$%.,\-+&'/]", re.UNICODE)
_LINK = re.compile(r"(?:[a-z][a-z0-9+.\-]{1,20}://|www\.)\S+", re.IGNORECASE)
_MARKDOWN_IMAGE = re.compile(r"!\[[^\]]*\]\([^)]*\)?")
_MARKDOWN_LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)?")
_TICKER = re.compile(r"[A-Z0-9][A-Z0-9.\-]{0,19}")
_CITATION = re.compile(r"\[(\d{1,4})\]")
_FILLER = re.compile(r"\bnews\b|新闻|消息|报道", re.IGNORECASE)
RESERVED_FLAGS = frozenset(
    [
        "data_incomplete",
        "old_news",
        "refuted",
        "confidence_low",
        "spoofed_source",
        "future_evidence",
        "injection_suspected",
        "not_deep_analysed",
        "search_skipped",
        "model_skipped",
        "degraded",
        "offline",
        "verified",
        "official",
        "confirmed",
    ]
)
"""Flags that only code may set, since they tell what was checked, and praise, which is not a risk."""
MAX_KEYWORD_CHARACTERS = 160
MAX_KEYWORD_WORDS = 24


class DraftAnswer(msgspec.Struct):
    """The reply of triage and of the single pass (``draft.v1.schema.json``)."""

    summary: str
    event_type: EventType
    asset: str
    asset_name: str
    action: Action
    direction: Direction
    confidence: float
    strength: Strength
    timeframe: Timeframe
    risk_flags: list[str] = []
    notes: str = ""
    entity: str | None = None
    spam: bool = False

    def draft(self) -> Draft:
        """Return the draft with every field clamped. Links stay empty, so that no model can invent one."""
        return Draft(
            summary=cite_only(one_line(self.summary, 300), None),
            event_type=self.event_type,
            asset=ticker(self.asset),
            asset_name=cite_only(one_line(self.asset_name, 80), None),
            action=self.action,
            direction=self.direction,
            confidence=round(clamped(self.confidence, 0.0, 1.0), 4),
            strength=self.strength,
            timeframe=self.timeframe,
            risk_flags=clean_flags(self.risk_flags),
            notes=cite_only(one_line(self.notes, 600), None),
            entity=cite_only(one_line(self.entity or "", 80), None) or None,
        )


class ClaimAnswer(msgspec.Struct):
    """One claim of the critique's reply."""

    claim: str
    verdict: Verdict
    reliability: float
    reference_numbers: list[int]
    reason: str = ""


class CritiqueAnswer(msgspec.Struct):
    """The reply of the critique (``critique.v2.schema.json``). Version 1 has no ``concerned``."""

    claims: list[ClaimAnswer]
    verdict: Verdict
    contradictions: list[str] = []
    timeliness: Literal["fresh", "stale", "unknown"] = "unknown"
    concerned: list[int] | None = None


class SynthesisAnswer(msgspec.Struct):
    """The reply of the synthesis (``synthesize.v1.schema.json``)."""

    adjustment: float
    summary: str
    action: Action
    direction: Direction
    strength: Strength
    timeframe: Timeframe
    reason: str = ""


class ExpandAnswer(msgspec.Struct):
    """The reply of the expansion (``expand.v1.schema.json``)."""

    keywords: list[str]
    reason: str = ""


def answer(reply: Reply | None, kind: type[T]) -> T:
    """Parse a structured reply.

    Raises:
        StepFailure: the reply's own failure, or invalid_output if it does not match ``kind``; the text names the field.
    """
    data = needed(reply, ModelReply).data
    return checked(data, kind)


def checked(data: Any, kind: type[T]) -> T:
    """Convert the data to ``kind``. Numbers written as text become numbers; nothing else is coerced.

    Raises:
        StepFailure: invalid_output, naming the field.
    """
    try:
        return msgspec.convert(data, kind, strict=False)
    except (msgspec.ValidationError, RecursionError) as exc:
        raise StepFailure(invalid_output(f"the reply is no {kind.__name__}: {exc}")) from exc


def clamped(value: float, low: float, high: float) -> float:
    """Return the value clamped to [low, high]; NaN gives ``low``."""
    return low if math.isnan(value) else min(max(value, low), high)


def ticker(text: str) -> str:
    """Return the first word if it can be a ticker, such as ``BTC`` for ``$btc (Bitcoin)``; otherwise ``UNKNOWN``."""
    found = _TICKER.match(bounded(text, 200).upper().strip().lstrip("$#"))
    return found[0].rstrip(".-") if found else "UNKNOWN"


def one_line(text: str, limit: int) -> str:
    """Return the text on one line, at most ``limit`` characters, without invisible characters, addresses and images.

    A page that shows the text would load an image, and a reader may follow an address: both only come from evidence.
    """
    return " ".join(_unlinked(bounded(text, 4 * limit)).split())[:limit]


def _unlinked(text: str) -> str:
    return _LINK.sub("", _MARKDOWN_LINK.sub(r"\1", _MARKDOWN_IMAGE.sub("", text)))


def clean_flags(flags: list[str]) -> tuple[str, ...]:
    """Return at most 8 well-formed flags, without those that only code may set."""
    slugs = (re.sub(r"[^a-z0-9]+", "_", f.lower()).strip("_") for f in flags)
    return tuple(dict.fromkeys(s for s in slugs if _FLAG.fullmatch(s) and s not in RESERVED_FLAGS))[:8]


def clean_keywords(text: str) -> str:
    """Return keywords safe for a tool argument: bounded, without links, operators, brackets and filler words."""
    plain = _FILLER.sub(" ", _NOT_KEYWORD.sub(" ", bounded(text, 1_000)))
    words = [w.strip("-+'/.,&") for w in plain.split()]
    kept = " ".join([w for w in words if w][:MAX_KEYWORD_WORDS])
    return kept[:MAX_KEYWORD_CHARACTERS].strip()


def cite_only(text: str, findings: Findings | None) -> str:
    """Return the text without addresses and without citations of references that do not exist."""
    numbers = {r.reference_number for r in (findings.references if findings else ())}
    cited = _CITATION.sub(lambda m: m[0] if int(m[1]) in numbers else "", _unlinked(text))
    return " ".join(cited.split())
