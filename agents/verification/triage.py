"""The triage step: detects duplicates and spam, drafts the claim, and chooses the path."""

from __future__ import annotations

from typing import Literal

from msgspec.structs import replace

from agents.core.answers import DraftAnswer, answer
from agents.core.asking import ask_model, news_parts
from agents.core.case import Case, Replies
from agents.core.step import Asked, On
from agents.signal import first_signal
from agents.text.injection import steers_model
from schemas.config import Snapshot
from schemas.effects import CallModel, EarlierReply, Failure, FindEarlier
from schemas.events import CaseDropped, CaseTriaged, Event, EventReceived
from schemas.ids import content_hash, normalise_text
from schemas.signals import Draft

ALWAYS_DEEP = frozenset({"depeg", "liquidation", "hack"})
"""Event types that take the deep path at any confidence."""
NEVER_DEEP = frozenset({"macro", "other", "airdrop", "governance", "celebrity", "scam_alert"})
Route = Literal["deep", "single_pass", "preliminary"]


class Triage:
    """Check first, at no cost, whether another case has this text; only then pay for a model call."""

    name = "triage"
    takes = (On(EventReceived),)
    emits = (CaseTriaged, CaseDropped)

    def ask(self, case: Case) -> Asked:
        if not normalise_text(case.news.text):
            return CaseDropped(reason="empty", detail="the text holds no word: there is nothing to judge")
        earlier = case.replies.of(_check(case))
        if earlier is None or _first_case(earlier) is not None:
            return (_check(case),)
        return (_check(case), _judgement(case))

    def tell(self, case: Case, replies: Replies) -> Event:
        earlier = replies.of(_check(case))
        first = _first_case(earlier)
        if first is not None:
            return CaseDropped(reason="duplicate", detail="another case has the same text", duplicate_of=first)
        judged = answer(replies.of(_judgement(case)), DraftAnswer)
        if judged.spam:
            return CaseDropped(reason="spam", detail=judged.draft().notes or "advertising, or no claim at all")
        draft, bucket = judged.draft(), rollout_bucket(case.case_id)
        route, reason = gate(draft, bucket, case.config)
        if isinstance(earlier, Failure):
            reason += f"; duplicates were not checked ({earlier.kind})"
        triaged = CaseTriaged(
            draft=draft,
            route=route,
            gate_reason=reason,
            rollout_bucket=bucket,
            injection_suspected=steers_model(case.news.text),
        )
        if route == "preliminary" or not case.config.publish_preliminary:
            return triaged
        return replace(triaged, preliminary_signal=first_signal(replace(case, triaged=triaged), replies))


def gate(draft: Draft, bucket: float, config: Snapshot) -> tuple[Route, str]:
    """Return the route of the case and the reason. ``bucket`` is 0 ≤ b < 1.

    Of deep value are the types of ``ALWAYS_DEEP``, and others but ``NEVER_DEEP`` from the threshold of confidence. These
    take the deep path where it is switched on and the bucket lies in the rollout, else the single pass.
    """
    kind, confidence = draft.event_type, draft.confidence
    threshold = config.high_value_confidence_threshold
    if kind in NEVER_DEEP:
        return "preliminary", f"{kind} is never analysed deeply"
    if kind not in ALWAYS_DEEP and confidence < threshold:
        return "preliminary", f"confidence {confidence:.2f} is below {threshold:.2f} and {kind} is no forced type"
    why = f"{kind} is always of value" if kind in ALWAYS_DEEP else f"confidence {confidence:.2f} ≥ {threshold:.2f}"
    if not config.deep_analysis_tools_enabled:
        return "single_pass", f"{why}, but the deep path is switched off"
    if bucket >= config.phase1_rollout_percentage:
        return (
            "single_pass",
            f"{why}, but bucket {bucket:.4f} is outside the rollout {config.phase1_rollout_percentage:g}",
        )
    return "deep", why


def rollout_bucket(case_id: str) -> float:
    """Return the stable bucket of a case, 0 ≤ b < 1, uniform over cases; the same in every run and backtest."""
    return int(content_hash(("rollout", case_id))[:12], 16) / 16**12


def _check(case: Case) -> FindEarlier:
    # A later attempt uses the id of the first one, which owns the text.
    first = case.case_id if case.received.retries is None else case.news.case_id
    return FindEarlier(text_hash=case.received.text_hash, case_id=first)


def _judgement(case: Case) -> CallModel:
    return ask_model(case, "triage", news_parts(case))


def _first_case(reply: object) -> str | None:
    # A failed duplicate check does not stop the case: a second signal on one text is less harmful than none.
    return reply.first_case if isinstance(reply, EarlierReply) else None


STEP = Triage()
