"""``./run eval``: measures the deterministic part of the verification on judged cases, field by field.

A case is a news item with its evidence and a careful person's judgement (one JSON object per line; docs/verification.md
gives the format). It uses no model and no network: quality control, source trust, and the quantified rules with the
middle of each range. Plain source counting is reported beside it as a baseline.
"""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import msgspec

from agents.evidence import Claim
from agents.evidence.measurements import Measurement
from agents.text.amounts import stated as plain_amount
from schemas.errors import ContractError
from schemas.evidence import Findings, SearchResult
from schemas.news import News, language_of
from schemas.signals import NO_ASSET, Draft, Modality

FIELDS = (
    *("independent_sources", "official_confirmed", "denied", "conflict", "stale", "delta", "risk_flags"),
    *("verdict", "supporting_sources"),
)


class CaseNews(msgspec.Struct, frozen=True, kw_only=True):
    """The news of a case. Times are RFC 3339, UTC without an offset."""

    text: str
    language: str | None = None
    source: str | None = None
    url: str | None = None
    published_at: str | None = None


class Preliminary(msgspec.Struct, frozen=True, kw_only=True):
    """The result of triage."""

    event_type: str = "other"
    asset: str | None = None
    confidence: float = 0.5
    action: str = "observe"


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """One search result. A missing score counts as relevant, because its provider did not say otherwise."""

    url: str
    title: str | None = None
    content: str | None = None
    score: float | None = None
    published_at: str | None = None


class CaseAmount(msgspec.Struct, frozen=True, kw_only=True):
    """The claimed figure. The unit may hold a scale, such as “million USD”."""

    value: float
    unit: str | None = None


class CaseClaim(msgspec.Struct, frozen=True, kw_only=True):
    """Triage's claim, in addition to the draft. Only ``subject``, ``modality`` and ``amount`` are used."""

    subject: str | None = None
    modality: Modality = "asserted"
    amount: CaseAmount | None = None
    predicate: str | None = None
    object: str | None = None
    asset: str | None = None
    venue: str | None = None
    attribution: str | None = None


class JudgedCase(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the file. ``expect`` holds the judged fields; null = not judged."""

    id: str | int | None = None
    news: CaseNews
    as_of: str | None = None
    preliminary: Preliminary = Preliminary()
    entity: str | None = None
    evidence: tuple[Evidence, ...] | None = None
    expect: dict[str, Any] | None = None
    why: str | None = None
    claim: CaseClaim | None = None
    measurements: tuple[Measurement, ...] | None = None


class FieldResult(msgspec.Struct, frozen=True, kw_only=True):
    """One judged field of one case. ``plain`` and ``plain_right`` are null for a field that plain counting lacks."""

    expected: Any
    got: Any
    right: bool
    plain: Any = None
    plain_right: bool | None = None


class CaseResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one case.

    ``falsely_raised``: expected down, final above preliminary; ``falsely_lowered``: expected up, final below.
    ``acted_unsupported``: buy or sell with no supporting page and no measurement.
    """

    id: str
    line: int
    all_right: bool
    preliminary: float
    confidence: float
    rule: str
    risk_flags: tuple[str, ...]
    fields: dict[str, FieldResult]
    falsely_raised: bool = False
    falsely_lowered: bool = False
    acted_unsupported: bool = False


class FieldTotal(msgspec.Struct, frozen=True, kw_only=True):
    """How often a field was judged, and right. ``plain_right`` is null if plain counting does not cover the field."""

    right: int
    judged: int
    plain_right: int | None = None


class ModelUse(msgspec.Struct, frozen=True, kw_only=True):
    """The models that judged the cases, and their cost. ``rules`` holds the totals of the rules alone.

    ``mode`` is live or simulated; ``failed`` cases gave no signal and count as wrong. ``cost_usd`` None: a price is
    unknown.
    """

    mode: str
    models: tuple[str, ...]
    calls: int
    input_tokens: int
    output_tokens: int
    cost_usd: Decimal | None
    failed: tuple[str, ...]
    rules: dict[str, FieldTotal]
    rules_all_right: int


class Evaluation(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The result for the whole file. ``all_right`` counts cases with every judged field right; the last counts are cases
    of :class:`CaseResult`'s flags.

    ``model`` is set when models judged, rather than the rules alone.
    """

    cases: int
    fields: dict[str, FieldTotal]
    all_right: int
    per_case: tuple[CaseResult, ...]
    false_raised: int
    true_lowered: int
    actions_without_support: int
    model: ModelUse | None = None


def read_case(line: bytes) -> JudgedCase:
    """Read one line; fields outside the format are ignored.

    Raises:
        ContractError: the line is not a case; the text says what is wrong with it.
    """
    try:
        case = msgspec.json.decode(line, type=JudgedCase)
        _as_of(case)
        for page in case.evidence or ():
            _moment(page.published_at)
    except (msgspec.DecodeError, UnicodeDecodeError, ValueError) as exc:
        raise ContractError(f"not a case: {exc}") from exc
    unknown = sorted(set(case.expect or ()) - set(FIELDS))
    if unknown:
        raise ContractError(f"not a case: expect names {', '.join(unknown)}; known are {', '.join(FIELDS)}")
    return case


def totals(results: tuple[CaseResult, ...]) -> Evaluation:
    """Return the results with their totals."""
    return Evaluation(
        cases=len(results),
        fields={name: _total(name, results) for name in FIELDS},
        all_right=sum(r.all_right for r in results),
        per_case=results,
        false_raised=sum(r.falsely_raised for r in results),
        true_lowered=sum(r.falsely_lowered for r in results),
        actions_without_support=sum(r.acted_unsupported for r in results),
    )


def claim_of_case(case: JudgedCase) -> Claim:
    """Return the claim that the evidence is judged against."""
    first, news, claim = case.preliminary, case.news, case.claim or CaseClaim()
    given = claim.amount
    amount = None if given is None or "%" in (given.unit or "") else plain_amount(given.value, given.unit or "")
    return Claim(
        text=news.text,
        language=language_of(news_of(case)),
        event_type=first.event_type,
        asset=first.asset or "",
        subject=claim.subject or "",
        amount=None if amount is None else amount[0],
        amount_unit="" if amount is None else amount[1],
        modality=claim.modality,
        entity=case.entity or None,
        as_of=_as_of(case),
        source_url=news.url or None,
    )


def news_of(case: JudgedCase) -> News:
    """Return the news of a case as its graph sees it, published at the case's own time."""
    news = case.news
    return News(source=news.source or "", text=news.text, published_at=_as_of(case), language=news.language)


def draft_of(case: JudgedCase) -> Draft:
    """Return the result of triage as a draft."""
    first = case.preliminary
    return Draft(
        summary="", event_type=first.event_type, asset=first.asset or NO_ASSET, asset_name="", action=first.action,  # type: ignore[arg-type]
        direction="neutral", confidence=first.confidence, strength="medium", timeframe="short", entity=case.entity or None,
    )  # fmt: skip


def results_of(case: JudgedCase) -> tuple[SearchResult, ...]:
    """Return the evidence as search results."""
    return tuple(_result(page) for page in case.evidence or ())


def result_of(
    line: int,
    case: JudgedCase,
    findings: Findings,
    got: dict[str, Any],
    *,
    confidence: float,
    rule: str,
    unsupported: bool = False,
) -> CaseResult:
    """Compare a case with its expectations. ``got`` holds every field except ``delta``."""
    before = case.preliminary.confidence
    got = got | {"delta": "up" if confidence > before else "down" if confidence < before else "same"}
    plain = {
        "independent_sources": findings.plain_source_count,
        "official_confirmed": findings.plain_official_confirmed,
    }
    judged = {name: value for name, value in (case.expect or {}).items() if value is not None and name in got}
    fields = {name: _compare(name, judged[name], got[name], plain.get(name)) for name in FIELDS if name in judged}
    return CaseResult(
        id=str(case.id) if case.id is not None else f"line {line}",
        line=line,
        all_right=all(f.right for f in fields.values()),
        preliminary=before,
        confidence=confidence,
        rule=rule,
        risk_flags=tuple(got["risk_flags"]),
        fields=fields,
        falsely_raised=judged.get("delta") == "down" and confidence > before,
        falsely_lowered=judged.get("delta") == "up" and confidence < before,
        acted_unsupported=unsupported,
    )


def _compare(name: str, expected: Any, got: Any, plain: Any) -> FieldResult:
    if name == "risk_flags":
        right = set(expected) <= set(got)
    else:
        right = got == expected or (name == "delta" and (expected == "any" or (expected, got) == ("none", "same")))
    plain_right = None if plain is None else plain == expected
    return FieldResult(expected=expected, got=got, right=right, plain=plain, plain_right=plain_right)


def _total(name: str, results: tuple[CaseResult, ...]) -> FieldTotal:
    judged = [r.fields[name] for r in results if name in r.fields]
    has_plain = name in {"independent_sources", "official_confirmed"}
    return FieldTotal(
        right=sum(f.right for f in judged),
        judged=len(judged),
        plain_right=sum(bool(f.plain_right) for f in judged) if has_plain else None,
    )


def _result(page: Evidence) -> SearchResult:
    return SearchResult(
        title=page.title or "",
        url=page.url,
        domain="",
        snippet=page.content or "",
        score=1.0 if page.score is None else page.score,
        published_at=_moment(page.published_at),
    )


def _as_of(case: JudgedCase) -> datetime:
    moment = _moment(case.as_of) or _moment(case.news.published_at)
    if moment is None:
        raise ValueError("it has neither as_of nor news.published_at, so nothing says which evidence came too late")
    return moment


def _moment(text: str | None) -> datetime | None:
    if not text:
        return None
    moment = datetime.fromisoformat(text)
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
