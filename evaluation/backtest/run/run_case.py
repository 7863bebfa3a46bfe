"""What a run found out about a case, as runs are stored and compared by."""

from __future__ import annotations

from decimal import Decimal

import msgspec


class RunCase(msgspec.Struct, frozen=True):
    """One repeat of one case in one run; the fields are columns of ``run_cases`` and of ``v_run_cases``.

    Costs in USD, None when no price is known; ``latency_ms`` None when no call was executed.
    """

    case_id: str
    repeat: int
    story_id: str
    status: str
    has_signal: int = 0
    event_type: str = ""
    asset: str = ""
    action: str = ""
    direction: str = ""
    preliminary_confidence: float = 0.0
    confidence: float = 0.0
    executed: int = 0
    reused: int = 0
    missed: int = 0
    cost_usd: Decimal | None = Decimal(0)
    unpriced_calls: int = 0
    avoided_cost_usd: Decimal | None = Decimal(0)
    would_have_cost_usd: Decimal | None = Decimal(0)
    latency_ms: float | None = None
    after_training_cutoff: int = 0
