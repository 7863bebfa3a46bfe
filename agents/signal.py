"""The construction of signals. No other module turns a case into a signal."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from msgspec import UNSET
from msgspec.structs import replace

from agents.calibration import calibrated
from agents.core.case import Case, Replies, denied_kinds
from agents.evidence.compiled import compiled
from agents.evidence.findings import DROP_FLAGS, dated_later
from agents.evidence.news_claim import claim_of
from agents.evidence.policy import Conclusion, conclude, is_thin, is_title_only, notes
from agents.evidence.summary import NO_CONTEXT, SummaryContext, claim_text, with_summary
from agents.evidence.witnesses import CheckedPage, speakers_of
from agents.judging import CaseJudgement, unchecked_case
from agents.text.wording import Text
from schemas.effects import Failure
from schemas.evidence import MemoryEntry
from schemas.ids import content_hash, signal_id
from schemas.news import NOT_LIVE_FLAGS, flags_of
from schemas.signals import (
    ACTED_ON,
    BELOW_SELLING_RULE,
    EXPIRED,
    NO_ASSET,
    SECOND_LOOK,
    SIGNAL_SCHEMA_VERSION,
    Action,
    Adjustment,
    Draft,
    PromptUse,
    Signal,
    SignalEvidence,
    Stage,
    Timeframe,
)

HORIZON_S: dict[Timeframe, int] = {"short": 24 * 3600, "medium": 7 * 24 * 3600, "long": 30 * 24 * 3600}
"""Seconds in each timeframe: a day, a week, a month (30 days). The backtest measures returns over them."""


def preliminary_signal(case: Case) -> Signal:
    """Return the signal of a case that the gate kept off the deep path: triage's unchecked draft."""
    return _drafted(case, case.replies, stage="final", why="gate", at=case.head_at)


def first_signal(case: Case, replies: Replies) -> Signal:
    """Return the preliminary signal of a case that continues: triage's unverified draft. ``replies`` are triage's."""
    return _drafted(case, replies, stage="preliminary", why="preliminary", at=replies.at or case.head_at)


def _drafted(case: Case, replies: Replies, *, stage: Stage, why: str, at: datetime) -> Signal:
    flags = ("not_deep_analysed", *case_flags(case), *budget_flags(case, replies))
    judged = unchecked_case(why)
    # Nothing was searched for, so no data is missing.
    end = conclude(case.draft, judged.judgement, extra_flags=flags)
    return _signal(case, case.draft, judged, end, stage=stage, text=case.draft.notes, at=at, replies=replies)


def judged_signal(
    case: Case,
    replies: Replies,
    draft: Draft,
    judged: CaseJudgement,
    *,
    chosen: float | None = None,
    memory: tuple[MemoryEntry, ...] = (),
    extra_flags: tuple[str, ...] = (),
    reason: str = "",
) -> Signal:
    """Return the final signal of a judged case, bounded by the rules of :mod:`agents.evidence.policy`.

    ``draft`` is the starting point of the rules. A confirmed claim uses its words; any other stays as triage stated it.
    ``chosen``: the change of confidence that the model chose; ``reason``: the model's own words.
    """
    draft, order_note = _without_second_order(case, draft)
    # Flags of dropped pages say nothing about the news.
    of_evidence = judged.findings.risk_flags if judged.findings else ()
    flags = (
        *extra_flags,
        *case_flags(case),
        *budget_flags(case, replies),
        *(f for f in of_evidence if f not in DROP_FLAGS),
        *(("titles_only",) if _rests_on_titles(judged.pages) else ()),
    )
    thin = is_thin(judged.judgement, judged.pages)
    later = dated_later(judged.findings)
    end = conclude(draft, judged.judgement, memory=memory, chosen=chosen, extra_flags=flags, thin=thin)
    text = notes(case.language, draft.confidence, end, judged.judgement, judged.pages, judged.why, dated_later=later)
    if judged.why == "budget" and (denial := _denial(case, replies)):
        text = f"{text}{'：' if case.language == 'zh' else ': '}{denial}"
    at = replies.at or case.head_at
    end, expiry_note = _with_expiry(case, end, _valid_until(case, draft), at)
    end, rule_note = _by_selling_rule(case, end)
    text += order_note + expiry_note + rule_note
    return _signal(
        case,
        draft,
        judged,
        end,
        stage="final",
        text=f"{text}{'。' if case.language == 'zh' else '. '}{reason}" if reason else text,
        at=at,
        replies=replies,
        context=SummaryContext(
            measured=judged.measured,
            dated_later=later,
            worded=_claim_text(case, draft, end) if judged.judgement.verdict == "confirmed" else Text(),
        ),
    )


def _without_second_order(case: Case, draft: Draft) -> tuple[Draft, str]:
    """Return the draft without its order, and a note, if an earlier signal of the same event already has the order.

    After a critique, the case supersedes that signal or joins it. The other paths only leave the order to it.
    """
    earlier = case.story.earlier if case.story is not None and case.critique is None else ()
    acting = next((e.case_id for e in earlier if e.same_slots and e.verdict in ACTED_ON), None)
    if acting is None or draft.action == "observe":
        return draft, ""
    zh, en = (
        f"；同一事件的较早信号已给出操作（案例 {acting}）",
        f"; an earlier signal of the event has the order (case {acting})",
    )
    return replace(draft, action="observe"), zh if case.language == "zh" else en


def _valid_until(case: Case, draft: Draft) -> datetime:
    """Return the end of the horizon. It counts from the publication: the market knows the news from then on."""
    return case.news.published_at + timedelta(seconds=HORIZON_S[draft.timeframe])


def _with_expiry(case: Case, end: Conclusion, valid_until: datetime, at: datetime) -> tuple[Conclusion, str]:
    """Return the conclusion of a decision at ``at``, and a note: an order that has already expired is flagged.

    A case of the past, which is judged as of a time when the order was valid, keeps it: backtests measure it. No one could
    ever follow an order that had expired when its news was received, so there is none.
    """
    if end.action == "observe" or at < valid_until:
        return end, ""
    action: Action = "observe" if valid_until <= case.as_of else end.action
    zh, en = (
        f"；新闻发布于 {case.news.published_at:%Y-%m-%d %H:%M} UTC，操作建议已于 {valid_until:%Y-%m-%d %H:%M} UTC 过期",
        f"; the news is of {case.news.published_at:%Y-%m-%d %H:%M} UTC, so its order expired at {valid_until:%Y-%m-%d %H:%M} UTC",
    )
    flagged = replace(end, action=action, risk_flags=(*end.risk_flags, EXPIRED))
    return flagged, zh if case.language == "zh" else en


def _by_selling_rule(case: Case, end: Conclusion) -> tuple[Conclusion, str]:
    """Return the conclusion without its order, and a note, if the selling rule of the case's map removes the order."""
    sell_from = case.config.sell_from
    if end.action == "observe" or sell_from is None or end.confidence >= sell_from:
        return end, ""
    flagged = replace(end, action="observe", risk_flags=(*end.risk_flags, BELOW_SELLING_RULE))
    return (
        flagged,
        f"{'；' if case.language == 'zh' else '; '}{selling_rule_note(case.language, end.confidence, sell_from)}",
    )


def selling_rule_note(language: str, confidence: float, sell_from: float) -> str:
    """Return the sentence, in the language of the news, on why the selling rule removed an order."""
    if sell_from > 1.0:
        zh, en = (
            "任何置信度的消息失实比例都过高，不给出操作",
            "at any confidence too many claims were false, so there is no order",
        )
    else:
        zh = f"置信度 {confidence:g} 低于操作门槛 {sell_from:g}，此类消息失实过多，不给出操作"
        en = f"confidence {confidence:g} is below the selling rule's {sell_from:g}, so there is no order"
    return zh if language == "zh" else en


def _rests_on_titles(pages: Sequence[CheckedPage]) -> bool:
    """Return whether only the titles of all supporting pages are known, because none was opened."""
    supporting = [page.reference for page in pages if page.stance == "supports" and page.quoted]
    return bool(supporting) and all(map(is_title_only, supporting))


def case_flags(case: Case) -> tuple[str, ...]:
    """Return the flags that follow from the events of the case, not from its evidence."""
    flags = []
    if case.triaged is not None and case.triaged.injection_suspected:
        flags.append("injection_suspected")
    if case.story is not None and not case.story.checked:
        flags.append("story_unchecked")
    if case.context is not None and case.context.memory == "unavailable":
        flags.append("memory_unavailable")
    if case.degraded is not None:
        flags.append(f"degraded:{case.degraded.reason}")
    if case.config.provider_mode != "live":
        flags.append("offline")
    flags += [flag for flag in sorted(NOT_LIVE_FLAGS) if flag in flags_of(case.news)]
    return tuple(flags)


def budget_flags(case: Case, replies: Replies) -> tuple[str, ...]:
    """Return one flag for each kind of call that the budget denied. ``replies`` are not folded yet."""
    denied = dict.fromkeys((*case.denied, *denied_kinds(replies.calls)))
    return tuple(dict.fromkeys("model_skipped:budget" if k == "model" else "search_skipped:budget" for k in denied))


def _denial(case: Case, replies: Replies) -> str:
    """Return the budget's message on the first denied call: the limit that was reached, and when it ends."""
    searched = (o.failure for s in case.searches for o in s.outcomes)
    known_replies = (*searched, *(c.reply for c in (*case.replies.calls, *replies.calls)))
    return next((r.message for r in known_replies if isinstance(r, Failure) and r.kind == "budget"), "")


def _signal(
    case: Case, draft: Draft, judged: CaseJudgement, end: Conclusion, *, stage: Stage, text: str, at: datetime, replies: Replies,
    context: SummaryContext = NO_CONTEXT,
) -> Signal:  # fmt: skip
    evidence, horizon = evidence_of(case, judged.pages), HORIZON_S[draft.timeframe]
    prompts, model = _made_with(case, replies)
    made = Signal(
        schema_version=SIGNAL_SCHEMA_VERSION,
        signal_id=signal_id(case.run_id, case.signal_case),
        revision=1,
        supersedes=None,
        stage=stage,
        verdict=judged.judgement.verdict,
        unchecked_reason=judged.why,
        case_id=case.signal_case,
        symbol=None,
        venue=None,
        action=end.action,
        confidence=end.confidence,
        preliminary_confidence=draft.confidence,
        horizon=horizon,
        valid_until=_valid_until(case, draft),
        decided_at=at,
        published_at=case.news.published_at,
        reference_price=_reference_price(case),
        notes=text,
        links=tuple(dict.fromkeys(e.url for e in evidence if e.stance != "unrelated")),
        evidence=evidence,
        independent_sources=judged.judgement.independent_sources,
        supporting_sources=judged.judgement.supporting_sources,
        risk_flags=end.risk_flags,
        adjustments=(*end.adjustments, *_of_look(case)),
        prompt_versions=prompts,
        model=model,
        provider_mode=case.config.provider_mode,
        news_source=case.news.source,
        language=case.language,
        **_claimed(case, end),
        **_calibrated(case, draft, end, stage),
        **{name: getattr(draft, name) for name in _OF_DRAFT},
    )
    return with_summary(made, context)


def _claimed(case: Case, end: Conclusion) -> dict[str, Any]:
    """Return the claim as triage stated it, and empty summaries, which :func:`with_summary` fills."""
    claim = _claim_text(case, case.draft, end)
    return {"claim_zh": claim.zh, "claim_en": claim.en, "summary": "", "summary_zh": None, "summary_en": None}


def _calibrated(case: Case, draft: Draft, end: Conclusion, stage: Stage) -> dict[str, Any]:
    """Return what the case's map says. It is fitted on final confidences, so it says nothing of a preliminary one."""
    if case.config.calibration is UNSET:
        return {"confidence_calibrated": None}
    has_market = draft.direction != "neutral" and draft.asset != NO_ASSET
    mapped = None
    if case.config.calibration is not None and has_market and stage == "final":
        mapped = calibrated(
            case.config.calibration,
            confidence=end.confidence,
            event_type=draft.event_type,
            language=case.language,
            horizon_s=HORIZON_S[draft.timeframe],
        )
    at, calibration = mapped or (None, None)
    return {"confidence_calibrated": at, "calibration": calibration}


def _claim_text(case: Case, draft: Draft, end: Conclusion) -> Text:
    steers = "injection_suspected" in end.risk_flags
    return claim_text(draft, case.stated, case.language, compiled(case.config.tables), steers=steers)


def _of_look(case: Case) -> tuple[Adjustment, ...]:
    if (look := case.look) is None:
        return ()
    why = f"looked again {round(look.after_s / 60)} min after the first decision, which was {look.verdict}"
    return (Adjustment(rule=SECOND_LOOK, amount=0.0, reason=why),)


_OF_DRAFT = ("event_type", "asset", "asset_name", "direction", "strength", "timeframe")
"""Fields that a signal copies from its draft."""


def evidence_of(case: Case, pages: Sequence[CheckedPage]) -> tuple[SignalEvidence, ...]:
    """Return the evidence of a signal: its pages with checked stances, quotes and speakers."""
    speakers = speakers_of(claim_of(case), pages, compiled(case.config.tables))
    return tuple(
        SignalEvidence(
            url=page.reference.url,
            hash=content_hash((page.reference.title, page.reference.snippet)),
            stance=page.stance,
            reference_number=page.reference.reference_number,
            official=page.reference.official,
            independent=page.reference.independent,
            published_at=page.reference.published_at,
            quote=page.reading.quote
            if page.quoted and page.reading is not None and page.stance != "unrelated"
            else None,
            figure=figure,
            claimed=claimed,
            speaker=speaker,
            speaker_zh=speaker_zh,
        )
        for page, (speaker, speaker_zh) in zip(pages, speakers, strict=True)
        for figure, claimed in [_figures(page)]
    )


def _figures(page: CheckedPage) -> tuple[float, float] | tuple[None, None]:
    # Cases read by critique version 3 have no figures, so that their replay gives the same signal.
    by_slots = page.reading is not None and page.reading.says is not None
    return page.figures if by_slots and page.figures else (None, None)


def _made_with(case: Case, replies: Replies) -> tuple[tuple[PromptUse, ...], str | None]:
    # The calls of the closing event are not folded yet, so they are added to those of the case.
    calls = [c for c in replies.calls if c.kind == "model" and c.prompt_name is not None]
    now = (PromptUse(name=c.prompt_name or "", version=c.prompt_version or "", hash=c.prompt_hash or "") for c in calls)
    models = [c.model for c in calls if c.model]
    return tuple(dict.fromkeys((*case.prompts, *now))), models[-1] if models else case.model


def _reference_price(case: Case) -> float | None:
    prices = [v for s in case.searches for v in s.market if v.name == "price" and v.unit.upper() == "USD"]
    return prices[-1].value if prices else None
