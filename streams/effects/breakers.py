"""Circuit breakers: one per kind of call, provider and model. While one is open, its provider gets no requests.

    closed ──(failures in a row, or a failing share; 429, a refused key or plan: at once)──► open
    open ──(its time has passed)──► half-open ──(the one probe succeeded)──► closed, or (it failed) ──► open for longer

Only provider failures count: an invalid reply from a model says nothing about whether the model can be reached. Each
worker has its own breakers, so an outage costs at most one probe per worker and interval (docs/adr/0010).
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Literal

import msgspec
import structlog

from schemas.calls import CallKind
from schemas.effects import Failure, Reply
from schemas.errors import FailureKind
from streams.wake import Wake

log = structlog.get_logger(__name__)

State = Literal["closed", "open", "half_open"]

UNREACHABLE: frozenset[FailureKind] = frozenset({"timeout", "network", "unavailable"})
"""Several of these open the breaker, because a single one may be an accident."""
REFUSED: frozenset[FailureKind] = frozenset({"auth", "plan_limit", "not_open"})
"""One of these opens the breaker at once and for long: only a person, or the next billing period, can resolve it."""
PROVIDER_FAILURES = UNREACHABLE | REFUSED | {"rate_limit"}
"""Failures of the provider. Another provider may succeed."""
MAX_RETRY_AFTER_S = 86_400.0
"""Maximum Retry-After. A longer one counts as the provider's mistake: the provider is called again after a day."""


class BreakerPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """When a breaker opens, and for how long. Times in seconds. Each consecutive opening lasts twice as long.

    ``jitter`` is the largest share by which a time is lengthened at random, so that workers do not probe at the same
    moment. It applies to at most ``refused_max_s`` of the time, because a day's quota may be half a day away. It never
    shortens a time, because a provider's Retry-After must have passed.
    """

    failures_in_a_row: int = 5
    window_s: float = 60.0
    window_calls: int = 20
    failing_share: float = 0.5
    open_s: float = 5.0
    open_max_s: float = 30.0
    rate_limit_s: float = 1.0
    refused_s: float = 300.0
    refused_max_s: float = 3600.0
    jitter: float = 0.2


class BreakerState(msgspec.Struct, frozen=True, kw_only=True):
    """Snapshot of one breaker. Times are UTC. ``failures`` counts consecutive failures, ``opened`` all openings."""

    kind: CallKind
    provider: str
    model: str
    state: State
    since: datetime
    failures: int
    opened: int
    next_probe: datetime | None = None
    reason: FailureKind | None = None


class Permit(msgspec.Struct, frozen=True):
    """Permission for one call. End it with ``record_result`` or ``abandoned``; nothing else ends a probe."""

    generation: int
    probe: bool


class Breaker:
    """The breaker of one provider. ``clock`` is monotonic, in seconds; ``draw`` returns 0 ≤ x < 1."""

    def __init__(
        self,
        kind: CallKind,
        provider: str,
        model: str,
        policy: BreakerPolicy,
        *,
        clock: Callable[[], float],
        now: Callable[[], datetime],
        draw: Callable[[], float],
        on_change: Callable[[], None],
    ) -> None:
        self.kind, self.provider, self.model = kind, provider, model
        self._policy, self._clock, self._now, self._draw, self._on_change = policy, clock, now, draw, on_change
        self._state: State = "closed"
        self._since = now()
        self._reason: FailureKind | None = None
        self._said = ""
        self._until = 0.0
        self._generation = 0
        self._failures = 0
        self._in_a_row = 0
        self._opened = 0
        self._recent: deque[tuple[float, bool]] = deque()
        self._probe_over: asyncio.Event | None = None

    def view(self) -> BreakerState:
        """Return a snapshot for people and metrics."""
        wait = max(0.0, self._until - self._clock())
        return BreakerState(
            kind=self.kind,
            provider=self.provider,
            model=self.model,
            state=self._state,
            since=self._since,
            failures=self._failures,
            opened=self._opened,
            next_probe=None if self._state == "closed" else self._now() + timedelta(seconds=wait),
            reason=self._reason,
        )

    @property
    def wait_s(self) -> float:
        """Seconds until the next probe is due; 0 if it is due now or not needed."""
        return max(0.0, self._until - self._clock()) if self._state == "open" else 0.0

    async def enter(self, *, wait: bool) -> Permit | Failure:
        """Return a permit for one call, or a failure of kind ``breaker_open``.

        ``wait``: if a probe is running, wait for its outcome, which decides for all callers that arrive meanwhile.
        """
        while True:
            if self._state == "closed":
                return Permit(self._generation, probe=False)
            if self._state == "open":
                if self._clock() < self._until:
                    return self._refusal()
                self._become("half_open")
            if self._probe_over is None:
                self._probe_over = asyncio.Event()
                return Permit(self._generation, probe=True)
            if not wait:
                return self._refusal()
            await self._probe_over.wait()

    def record_result(self, permit: Permit, reply: Reply) -> None:
        """Update the breaker with the result of the permitted call."""
        failure = reply if isinstance(reply, Failure) and reply.kind in PROVIDER_FAILURES else None
        if permit.generation != self._generation:
            # It began before the last change, so its outcome is outdated; but a Retry-After still counts.
            if failure is not None and failure.kind == "rate_limit" and self._state == "open":
                self._until = max(self._until, self._clock() + _retry_after(failure))
            return
        if failure is not None:
            self._failed(failure, permit)
        elif permit.probe:
            self._in_a_row = 0
            self._failures = 0
            self._recent.clear()
            self._become("closed")
        else:
            self._failures = 0
            self._note(ok=True)

    def abandoned(self, permit: Permit) -> None:
        """Release a permit whose call was not made, or whose result nobody awaits.

        Another call may then be the probe.
        """
        if permit.probe and permit.generation == self._generation and self._probe_over is not None:
            self._probe_over.set()
            self._probe_over = None

    def _failed(self, failure: Failure, permit: Permit) -> None:
        self._failures += 1
        self._note(ok=False)
        if permit.probe or failure.kind not in UNREACHABLE or self._failures >= self._policy.failures_in_a_row:
            self._open(failure)
        elif len(self._recent) >= self._policy.window_calls:
            failing = sum(1 for _, ok in self._recent if not ok)
            if failing >= self._policy.failing_share * len(self._recent):
                self._open(failure)

    def _open(self, failure: Failure) -> None:
        policy = self._policy
        first, most = policy.open_s, policy.open_max_s
        if failure.kind in REFUSED:
            first, most = policy.refused_s, policy.refused_max_s
        elif failure.kind == "rate_limit":
            first = policy.rate_limit_s
        closed_for_s = max(min(first * 2 ** min(self._in_a_row, 16), most), _retry_after(failure))
        self._in_a_row += 1
        self._opened += 1
        spread_s = policy.jitter * min(closed_for_s, policy.refused_max_s)
        self._until = self._clock() + closed_for_s + spread_s * self._draw()
        self._reason, self._said = failure.kind, failure.message
        self._become("open")

    def _note(self, *, ok: bool) -> None:
        now = self._clock()
        self._recent.append((now, ok))
        while self._recent and (
            self._recent[0][0] < now - self._policy.window_s or len(self._recent) > 5 * self._policy.window_calls
        ):
            self._recent.popleft()

    def _become(self, state: State) -> None:
        before, self._state = self._state, state
        self._generation += 1
        self._since = self._now()
        if state == "closed":
            self._reason = None
        if self._probe_over is not None:
            self._probe_over.set()
            self._probe_over = None
        (log.warning if state == "open" else log.info)(
            "breaker changed",
            kind=self.kind,
            provider=self.provider,
            model=self.model,
            was=before,
            state=state,
            reason=self._reason,
            next_probe_s=round(self.wait_s, 3),
        )
        self._on_change()

    def _refusal(self) -> Failure:
        what = f"{self.provider} {self.model}".rstrip()
        return Failure(
            kind="breaker_open",
            message=f"{what} is paused after failures; its last error: {self._said}"[:600],
            retryable=True,
            retry_after_s=round(self.wait_s, 3),
        )


class Breakers:
    """The breakers of one worker, each created at the first call of its provider. ``wake`` is called at each change."""

    def __init__(
        self,
        policy: BreakerPolicy | None = None,
        *,
        wake: Callable[[], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        draw: Callable[[], float] = random.random,
    ) -> None:
        self._wake = wake or Wake()
        self.policy = policy or BreakerPolicy()
        self._clock, self._now, self._draw = clock, now, draw
        self._breakers: dict[tuple[CallKind, str, str], Breaker] = {}

    def of(self, kind: CallKind, provider: str, model: str = "") -> Breaker:
        """Return the breaker of this provider and model. (One model may be overloaded while others respond.)"""
        key = (kind, provider, model)
        if key not in self._breakers:
            self._breakers[key] = Breaker(
                kind,
                provider,
                model,
                self.policy,
                clock=self._clock,
                now=self._now,
                draw=self._draw,
                on_change=self._wake,
            )
        return self._breakers[key]

    def states(self) -> list[BreakerState]:
        """Return snapshots of all breakers, in order of creation."""
        return [b.view() for b in self._breakers.values()]


def _retry_after(failure: Failure) -> float:
    return min(failure.retry_after_s or 0.0, MAX_RETRY_AFTER_S)
