"""The gate: decides which triaged cases take the deep path, and states why."""

from __future__ import annotations

from agents.core.case import ALWAYS_DEEP
from schemas.config import Snapshot
from schemas.events import Gated
from schemas.ids import content_hash
from schemas.signals import Draft, StatedClaim

NEVER_DEEP = frozenset({"macro", "other", "airdrop", "governance", "celebrity", "scam_alert"})


def gate(
    draft: Draft, claim: StatedClaim, bucket: float, config: Snapshot, *, listed: bool = True
) -> tuple[Gated, str]:
    """Return the route of the case and the reason. ``bucket`` is 0 ≤ b < 1. ``listed``: its source is listed.

    News that denies or corrects is of value, whatever its type. So are, except for ``NEVER_DEEP``: the types of
    ``ALWAYS_DEEP`` from listed sources, news that reaches the confidence threshold, and doubtful news that would matter.
    Such news takes the deep path if it is switched on and the bucket is in the rollout, else the single pass.
    """
    kind, threshold = draft.event_type, config.high_value_confidence_threshold
    denies = claim.modality in {"denied", "corrected"}
    if kind in NEVER_DEEP and not denies:
        return "preliminary", f"{kind} is never analysed deeply"
    reached = draft.confidence >= threshold
    held = [
        f"news with a claim {claim.modality} is always of value" if denies else "",
        f"{kind} is always of value" if kind in ALWAYS_DEEP and listed else "",
        f"confidence {draft.confidence:.2f} ≥ {threshold:.2f}" if reached else "",
        _doubtful(draft, claim) if config.gate_doubtful else "",
    ]
    why = ", ".join(filter(None, held))
    if not why:
        return "preliminary", (
            f"confidence {draft.confidence:.2f} is below {threshold:.2f}, {_why_not_forced(kind)}, "
            f"and strength {draft.strength} with action {draft.action} gives no reason to doubt it"
        )
    if not config.deep_analysis_tools_enabled:
        return "single_pass", f"{why}, but the deep path is switched off"
    if bucket >= config.phase1_rollout_percentage:
        return (
            "single_pass",
            f"{why}, but bucket {bucket:.4f} is outside the rollout {config.phase1_rollout_percentage:g}",
        )
    return "deep", why


def _why_not_forced(kind: str) -> str:
    return f"{kind} is forced for listed sources alone" if kind in ALWAYS_DEEP else f"{kind} is no forced type"


def rollout_bucket(case_id: str) -> float:
    """Return the stable bucket of a case, 0 ≤ b < 1, uniform over cases; the same in every run and backtest."""
    return int(content_hash(("rollout", case_id))[:12], 16) / 16**12


def _doubtful(draft: Draft, claim: StatedClaim) -> str:
    """Return the reasons to doubt a claim that matters if true; "" without any."""
    reasons = [
        f"action {draft.action}" if draft.action != "observe" else "",
        claim.modality if claim.modality in {"rumoured", "planned"} else "",
        "an unnamed source" if claim.attribution == "unnamed" else "",
    ]
    why = " and ".join(filter(None, reasons))
    return f"strength {draft.strength} with {why}" if why and draft.strength != "low" else ""
