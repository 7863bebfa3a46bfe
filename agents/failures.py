"""What a failure leads to: retry, degrade, or give up. Decided once, by the worker that saw it, and logged."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Literal

from agents.case import Case
from schemas.effects import Failure
from schemas.events import StepFailed

SINGLE_PASS = "single_pass"
MAX_INVALID_OUTPUT_ATTEMPTS = 2
"""A reply that breaks its schema is asked for once more (VERIFICATION, "Synthesis")."""
MAX_BACKOFF_S = 60.0


def failed(case: Case, step: str, failure: Failure, *, now: datetime) -> StepFailed:
    """Return the event that logs this failure; ``now`` is when it happened (UTC).

    Transient failures are retried with exponential backoff, no earlier than the provider asked for and never past the
    deadline of the path; everything else degrades the case, and a degraded case that fails gives up.
    """
    attempt = 1 + sum(1 for f in case.failures if f.step == step)
    most = MAX_INVALID_OUTPUT_ATTEMPTS if failure.kind == "invalid_output" else case.config.step_max_attempts
    last_resort = case.degraded is not None or step == SINGLE_PASS
    limit = case.deadline if last_resort else case.deep_deadline
    if failure.retryable and attempt < most:
        backoff = min(case.config.retry_base_seconds * 2 ** (attempt - 1), MAX_BACKOFF_S)
        retry_at = now + timedelta(seconds=max(backoff, failure.retry_after_s or 0.0))
        if retry_at < limit:
            return StepFailed(step=step, failure=failure, attempt=attempt, outcome="retry", retry_at=retry_at)
    outcome: Literal["degrade", "give_up"] = "give_up" if last_resort else "degrade"
    return StepFailed(step=step, failure=failure, attempt=attempt, outcome=outcome)
