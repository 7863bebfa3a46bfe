"""Parsers of model replies. These types and functions check everything that a model writes before it enters an event."""

from __future__ import annotations

import math
import re
from typing import Any, Literal, TypeVar

import msgspec

from agents.core.model_calls import bounded
from agents.core.step import StepFailure, invalid_output, needed
from schemas.effects import ModelReply, Reply
from schemas.evidence import Findings, PageSays, PageStance, ReadStance, Slot
from schemas.signals import (
    NO_ASSET,
    Action,
    Attribution,
    ClaimAmount,
    Direction,
    Draft,
    EventType,
    Modality,
    StatedClaim,
    Strength,
    Timeframe,
)

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
        "expired",
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
        "weak_denial",
        "stance_disputed",
        "amount_differs",
        "quotes_failed",
        "titles_only",
        "partly_refuted",
        "undated_evidence",
        "compromised_account",
        "below_selling_rule",
    ]
)
"""Flags that a model may not set: those that say what code checked, and praise, which is no risk."""
MAX_AMOUNT = 1e24
"""More than the supply of any currency or coin."""
SYNTHESIS_FLAGS = frozenset(
    [
        "already_priced",
        "thin_market",
        "partial_scope",
        "conditional",
        "date_unclear",
        "promotional",
        "legal_risk",
        "counterparty_risk",
    ]
)
"""Flags that the synthesis may add. Any other word in its ``risk_flags`` is ignored."""
MAX_KEYWORD_CHARACTERS = 160
MAX_KEYWORD_WORDS = 24


class StatedAnswer(msgspec.Struct):
    """The claim inside a draft's reply. Only the two closed lists must be valid; any other invalid part is dropped."""

    modality: Modality
    attribution: Attribution = "none"
    subject: Any = ""
    predicate: Any = ""
    object: Any = ""
    amount: Any = None
    asset: Any = ""
    venue: Any = ""

    def stated(self) -> StatedClaim:
        """Return the claim with every part bounded. ``predicate`` may still be any word, and the unit may contain a scale."""
        return StatedClaim(
            subject=_part(self.subject, 80),
            predicate=_part(self.predicate, 40).lower().replace(" ", "_") or "other",
            object=_part(self.object, 160),
            amount=_amount(self.amount),
            asset=_part(self.asset, 40),
            venue=_part(self.venue, 80),
            modality=self.modality,
            attribution=self.attribution,
        )


class DraftAnswer(msgspec.Struct):
    """The reply of triage and of the single pass (``draft.v4.schema.json``).

    Version 1 has no ``claim``; before version 4 there are no ``summary_zh`` and ``summary_en``.
    """

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
    claim: StatedAnswer | None = None
    summary_zh: str | None = None
    summary_en: str | None = None

    def draft(self) -> Draft:
        """Return the draft with every field bounded. Links stay empty, so no model can invent one."""
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
            summary_zh=cite_only(one_line(self.summary_zh or "", 300), None) or None,
            summary_en=cite_only(one_line(self.summary_en or "", 300), None) or None,
        )


class ClaimAnswer(msgspec.Struct):
    """One claim of the critique's reply."""

    claim: str
    verdict: Verdict
    reliability: float
    reference_numbers: list[int]
    reason: str = ""


class ReferenceAnswer(msgspec.Struct):
    """One reference of a critique's reply, version 3. An unrelated page may have ``number`` and ``stance`` alone."""

    number: int
    stance: ReadStance
    quote: str | None = None
    reason: str | None = None
    same_subject: bool | None = None
    same_event: bool | None = None
    amount: Literal["agrees", "differs", "silent"] | None = None
    speaks_for: Literal["party", "authority", "other"] | None = None
    cites: str | None = None

    def page_stance(self) -> PageStance:
        """Return the reading with every text bounded. Neither the quote nor the reference number is checked here."""
        # The schema requires neither mark, since unrelated pages have none. Support needs both explicitly; a denial must
        # not be lost because they are missing.
        presumed = self.stance != "supports"
        return PageStance(
            reference_number=self.number,
            stance=self.stance,
            quote=one_line(self.quote or "", 600) or None,
            reason=cite_only(one_line(self.reason or "", 200), None),
            same_subject=presumed if self.same_subject is None else self.same_subject,
            same_event=presumed if self.same_event is None else self.same_event,
            amount=self.amount or "silent",
            speaks_for=self.speaks_for or "other",
            cites=one_line(self.cites or "", 80) or None,
        )


class SlotsAnswer(msgspec.Struct):
    """One reference of the critique's reply, by slots. An entry that lacks a slot is invalid; there are no defaults."""

    number: int
    quote: str | None
    says: PageSays
    subject: Slot
    act: Slot
    stage: Slot
    place: Slot
    amount: Slot
    date: Slot
    speaks_for: Literal["party", "authority", "other"]
    cites: str | None
    reason: str | None = None

    def page_stance(self) -> PageStance:
        """Return the reading with every text bounded and without a stance, which code derives from the slots."""
        return PageStance(
            reference_number=self.number,
            stance="unrelated",
            quote=one_line(self.quote or "", 600) or None,
            reason=cite_only(one_line(self.reason or "", 200), None),
            amount=self.amount,
            speaks_for=self.speaks_for,
            cites=one_line(self.cites or "", 80) or None,
            says=self.says,
            subject=self.subject,
            act=self.act,
            stage=self.stage,
            place=self.place,
            date=self.date,
        )


class CritiqueAnswer(msgspec.Struct):
    """The reply of the critique (``critique.v4.schema.json``).

    :func:`agents.planning.critic_reading.critique_answer` parses ``references`` into :class:`SlotsAnswer` (version 3:
    :class:`ReferenceAnswer`). Versions 1 and 2 have no ``references``, and offline mode returns None: no critic read the
    pages. ``concerned`` is None in version 1 and offline: code alone decides which earlier claims are the same.
    """

    claims: list[ClaimAnswer]
    verdict: Verdict
    contradictions: list[str] = []
    timeliness: Literal["fresh", "stale", "unknown"] = "unknown"
    concerned: list[int] | None = None
    references: list[Any] | None = None


class SynthesisAnswer(msgspec.Struct):
    """The reply of the synthesis (``synthesize.v3.schema.json``).

    ``adjustment`` is None if there was nothing to choose. Version 1 has no ``summary_zh``, ``summary_en`` and
    ``risk_flags``. Of the flags only :data:`SYNTHESIS_FLAGS` count.
    """

    summary: str
    action: Action
    direction: Direction
    strength: Strength
    timeframe: Timeframe
    adjustment: float | None = None
    reason: str = ""
    summary_zh: str | None = None
    summary_en: str | None = None
    risk_flags: list[str] = []


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
    match = _TICKER.match(bounded(text, 200).upper().strip().lstrip("$#"))
    return match[0].rstrip(".-") if match else NO_ASSET


def one_line(text: str, limit: int) -> str:
    """Return the text on one line, at most ``limit`` characters, without invisible characters, addresses and images.

    A page that shows the text would load an image, and a reader may open an address. Both may come only from evidence.
    """
    return " ".join(_unlinked(bounded(text, 4 * limit)).split())[:limit]


def _unlinked(text: str) -> str:
    if "[" not in text and "://" not in text and "www." not in text.lower():
        return text  # fast path for most texts
    return _LINK.sub("", _MARKDOWN_LINK.sub(r"\1", _MARKDOWN_IMAGE.sub("", text)))


def _part(value: Any, limit: int) -> str:
    return cite_only(one_line(value, limit), None) if isinstance(value, str) else ""


def _amount(amount: Any) -> ClaimAmount | None:
    value: Any = amount.get("value") if isinstance(amount, dict) else amount
    unit = amount.get("unit") if isinstance(amount, dict) else ""
    try:
        figure = float(value.replace(",", "") if isinstance(value, str) else value)
    except (TypeError, ValueError, OverflowError):
        return None
    return ClaimAmount(value=figure, unit=_part(unit, 24)) if abs(figure) <= MAX_AMOUNT else None


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
