"""The failure policy: retry, degrade or fail (``give_up``). The worker that saw the failure decides once and logs it."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Literal

from agents.core.case_core import CaseCore
from agents.core.step import StepFailure
from agents.core.step_turn import attempt_of
from schemas.effects import Failure
from schemas.events import StepFailed
from schemas.ids import content_hash

MAX_INVALID_OUTPUT_ATTEMPTS = 2
"""A reply that breaks its schema is requested once more, then the case degrades."""
MAX_BACKOFF_S = 60.0
JITTER = 0.2
"""Each backoff grows by up to this share, so that cases which failed together do not retry together."""


def failed(case: CaseCore, step: str, failure: Failure, *, now: datetime) -> StepFailed:
    """Return the event that logs this failure and its outcome. ``now`` is the time of the failure (UTC).

    Transient failures are retried with exponential backoff, not before the provider's ``retry_after_s`` and never past
    the deadline of the path. Any other failure degrades the case; a failed last resort fails it. A case without a
    fallback waits for an open breaker as long as its deadline allows.
    """
    attempt = attempt_of(case, step)
    # An open breaker sends no request, so it does not count as an attempt for a case that has to wait for it.
    free = set[str]() if case.has_fallback else {"breaker_open"}
    tried = sum(1 for f in case.failures if f.step == step and f.failure.kind not in free)
    most = MAX_INVALID_OUTPUT_ATTEMPTS if failure.kind == "invalid_output" else case.config.step_max_attempts
    last_resort = case.is_last_resort(step)
    limit = case.deadline if last_resort else case.deep_deadline
    if failure.retryable and (failure.kind in free or 1 + tried < most):
        backoff = min(case.config.retry_base_seconds * 2**tried, MAX_BACKOFF_S)
        wait = max(backoff, failure.retry_after_s or 0.0) * (1.0 + JITTER * _lot(case.case_id, step, attempt))
        retry_at = now + timedelta(seconds=wait)
        if retry_at < limit:
            return StepFailed(step=step, failure=failure, attempt=attempt, outcome="retry", retry_at=retry_at)
    outcome: Literal["degrade", "give_up"] = "give_up" if last_resort else "degrade"
    return StepFailed(step=step, failure=failure, attempt=attempt, outcome=outcome)


def raise_to_retry(case: CaseCore, step: str, seen: Iterable[object], *, now: datetime | None) -> None:
    """Raise the failure among these replies that asks for the longest wait, if the step is to be retried for it.

    Permanent failures are not worth a retry. ``now``: the time of the last reply (UTC); None counts as that of the head.

    Raises:
        StepFailure: a retry is worth it, and left by :func:`failed`.
    """
    worth = [reply for reply in seen if isinstance(reply, Failure) and reply.retryable]
    if not worth:
        return
    failure = max(worth, key=lambda f: f.retry_after_s or 0.0)
    if failed(case, step, failure, now=now or case.head_at).outcome == "retry":
        raise StepFailure(failure)


def _lot(case_id: str, step: str, attempt: int) -> float:
    # 0 ≤ x < 1, derived from the case and not random, so every run decides the same failure in the same way.
    return int(content_hash(("retry", case_id, step, attempt))[:12], 16) / 16**12
