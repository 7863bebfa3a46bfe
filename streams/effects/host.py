"""The effects host: executes and records the effects that steps request. The only place where effects see the clock.

    search cache ─► for each provider of the chain: breaker ─► grant ─► call ─► settle ─► breaker ─► the next, if it failed

Every outcome becomes a record with a reply, one for each provider tried; only cancellation propagates. A cancelled call
keeps its grant unsettled: it may be billed, so it counts in full.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from decimal import Decimal
from functools import partial
from typing import Any

import structlog
from msgspec.structs import replace

from infra.ports import Answer, Port, Ports
from infra.redaction import redacted
from schemas.budget import ClaimKind
from schemas.calls import KIND_OF, Call, CallKind, ProviderMode
from schemas.effects import CallModel, Effect, Failure, Reply, Search, SearchReply, request_hash
from schemas.errors import BudgetExceeded, ConfigError, PermanentError, TransientError
from streams.effects.breakers import PROVIDER_FAILURES, Breaker, Breakers, BreakerState
from streams.effects.search_cache import SearchCache, search_key
from streams.effects.spending import Budget, Grant, UnlimitedBudget

log = structlog.get_logger(__name__)

GUARDED: frozenset[CallKind] = frozenset({"model", "search", "market"})
"""Kinds of calls with breakers: calls to a paid service. (A page that does not open says nothing about the next page.)

Memory and the journal are local, and respond within seconds.
"""
TRIAGE = "triage"
"""The task that a case needs for its preliminary signal."""
GOES_ON = PROVIDER_FAILURES | {"breaker_open"}
"""Failures after which the next provider of the chain is called."""
Reserve = Callable[[Effect, Port], Awaitable[Grant | Failure | None]]

UNWANTED = "unwanted"
"""Cancellation message that lets a running call finish, so that it is paid and recorded, but allows no other call."""


class EffectsHost:
    """Executes effects and returns call records. ``clock`` is monotonic, in seconds; ``now`` is UTC."""

    def __init__(
        self,
        ports: Ports,
        *,
        spending: Budget | None = None,
        breakers: Breakers | None = None,
        searches: SearchCache | None = None,
        clock: Callable[[], float] = time.perf_counter,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._ports = ports
        self._spending = spending or UnlimitedBudget()
        self.breakers = breakers or Breakers()
        self._searches = searches
        self._clock, self._now = clock, now

    async def perform(
        self,
        effect: Effect,
        *,
        case_id: str,
        head_id: str,
        attempt: int,
        claim_kinds: tuple[ClaimKind, ...] = (),
        source_group: str = "",
    ) -> tuple[Call, ...]:
        """Execute the effect; return the records, one for each provider tried, at least one.

        The last record's reply is the result. ``claim_kinds`` and ``source_group`` determine which shares of the budget
        the effect counts in.

        If a provider fails, the next one of its chain is called. If all fail, the failure that is most worth a retry is
        the last record, whichever provider it came from.
        """
        try:
            chain = self._ports.chain(effect)
        except ConfigError as exc:
            return (self._record(effect, _failed(exc, effect), "none", "live", attempt, self._clock(), None),)
        reserve = partial(
            self._spending.reserve, case_id=case_id, head_id=head_id, claim_kinds=claim_kinds, source_group=source_group
        )
        if isinstance(effect, Search) and self._searches is not None:
            return await self._searched(effect, chain, self._searches, reserve, attempt)
        return await self._through(effect, chain, reserve, attempt)

    async def _searched(
        self, effect: Search, chain: tuple[Port, ...], cache: SearchCache, reserve: Reserve, attempt: int
    ) -> tuple[Call, ...]:
        began, port = self._clock(), chain[0]
        key = search_key(effect, port.mode)
        reply: Reply | None
        while (reply := cache.get(key)) is None:
            got = await cache.share(key, lambda: self._through(effect, chain, reserve, attempt))
            if got is not None and not got[1]:
                return got[0]
            if got is not None and got[0][-1].error != "budget":  # a denial may apply to the caller's claim only
                reply = got[0][-1].reply
                break
        if isinstance(reply, SearchReply):
            reply = replace(reply, cached=True)
        answer = Answer(reply=reply, cost_usd=Decimal(0), cost_source="search cache", cached=True)
        return (self._record(effect, answer, port.provider, port.mode, attempt, began, None),)

    async def _through(
        self, effect: Effect, chain: tuple[Port, ...], reserve: Reserve, attempt: int
    ) -> tuple[Call, ...]:
        calls: list[Call] = []
        for port in chain:
            call = await self._one(effect, port, reserve, attempt, last=port is chain[-1])
            calls.append(call)
            if call.error not in GOES_ON:
                return tuple(calls)
        return tuple(sorted(calls, key=_retry_priority))

    def states(self) -> list[BreakerState]:
        """Return snapshots of the breakers of every provider called so far."""
        return self.breakers.states()

    def outage(self) -> str | None:
        """Return why no case can be triaged now: the breaker of every triage model is open. None if one is closed."""
        views = [breaker.view() for breaker in self._of_triage()]
        if not views or any(v.state == "closed" for v in views):
            return None
        return "no model answers: " + ", ".join(f"{v.provider} {v.model}".rstrip() + f" ({v.reason})" for v in views)

    def may_admit(self, cases: int) -> str | None:
        """Return why no case should be opened beside this many open ones; None if one may.

        During an outage of triage, one case at a time is admitted, and only once a probe is due: its probe detects the
        end of the outage. Before that a case could only fail, because a day's quota is renewed long after its deadline.
        """
        why = self.outage()
        if why is not None and not cases and any(breaker.wait_s <= 0.0 for breaker in self._of_triage()):
            return None  # a probe is due
        return why

    def _of_triage(self) -> list[Breaker]:
        chain = self._ports.asked_for(TRIAGE, "light")
        return [self.breakers.of("model", p.provider, getattr(p, "model", "")) for p in chain]

    async def close(self) -> None:
        await self._ports.close()

    async def _one(self, effect: Effect, port: Port, reserve: Reserve, attempt: int, *, last: bool) -> Call:
        kind = KIND_OF[type(effect)]
        if kind not in GUARDED:
            return (await self._granted(effect, port, reserve, attempt))[0]
        breaker = self.breakers.of(kind, port.provider, getattr(port, "model", ""))
        permit = await breaker.enter(wait=last)
        if isinstance(permit, Failure):
            return self._record(effect, _unpaid(permit), port.provider, port.mode, attempt, self._clock(), None)
        try:
            call, asked = await self._granted(effect, port, reserve, attempt)
        except BaseException:
            breaker.abandoned(permit)
            raise
        if asked:
            breaker.record_result(permit, call.reply)
        else:
            breaker.abandoned(permit)
        return call

    async def _granted(self, effect: Effect, port: Port, reserve: Reserve, attempt: int) -> tuple[Call, bool]:
        """Return the record, and whether the provider was called."""
        try:
            grant = await reserve(effect, port)
        except Exception as exc:
            grant = _failed(exc, effect).reply  # type: ignore[assignment]
        if isinstance(grant, Failure):
            denied = _unpaid(grant)
            return self._record(effect, denied, port.provider, port.mode, attempt, self._clock(), None), False
        began, unwanted = self._clock(), False
        asking = asyncio.ensure_future(port.perform(effect))
        try:
            try:
                answer = await asyncio.shield(asking)
            except asyncio.CancelledError as exc:
                if exc.args != (UNWANTED,):
                    asking.cancel()
                    raise
                unwanted = True  # it is sent and will be billed, so record it although nobody waits for it
                answer = await asking
        except Exception as exc:
            answer = _failed(exc, effect)
            if grant is None and port.worst_case_usd(effect) == 0:
                answer = replace(answer, cost_usd=Decimal(0))
        call = self._record(
            effect, answer, port.provider, port.mode, attempt, began, grant, units=port.quota_units(effect)
        )
        if grant is not None:
            self._spending.settle(grant, call)
        if unwanted and call.error in GOES_ON:
            raise asyncio.CancelledError  # without calling the fallback
        return call, True

    def _record(
        self,
        effect: Effect,
        answer: Answer,
        provider: str,
        mode: ProviderMode,
        attempt: int,
        began: float,
        grant: Grant | None,
        *,
        units: int = 0,
    ) -> Call:
        prompt: dict[str, Any] = (
            {
                "prompt_name": effect.prompt_name,
                "prompt_version": effect.prompt_version,
                "prompt_hash": effect.prompt_hash,
            }
            if isinstance(effect, CallModel)
            else {}
        )
        return Call(
            kind=KIND_OF[type(effect)],
            provider=provider,
            mode=mode,
            request_hash=request_hash(effect),
            reply=answer.reply,
            latency_ms=round((self._clock() - began) * 1000, 3),
            replied_at=self._now(),
            cost_usd=answer.cost_usd,
            cost_source=answer.cost_source,
            model=answer.model,
            usage_input_tokens=answer.usage_input_tokens,
            usage_cached_tokens=answer.usage_cached_tokens,
            usage_output_tokens=answer.usage_output_tokens,
            usage_thinking_tokens=answer.usage_thinking_tokens,
            attempt=attempt,
            cached=answer.cached,
            error=answer.reply.kind if isinstance(answer.reply, Failure) else None,
            grant=None if grant is None else grant.id,
            search_key=search_key(effect, mode) if isinstance(effect, Search) else None,
            refusals=answer.refusals,
            units=units,
            **prompt,
        )


def _retry_priority(call: Call) -> tuple[bool, float]:
    reply = call.reply
    assert isinstance(reply, Failure)
    return reply.retryable, -(reply.retry_after_s or 0.0)


def _unpaid(failure: Failure) -> Answer:
    return Answer(reply=failure, cost_usd=Decimal(0))


def _failed(exc: Exception, effect: Effect) -> Answer:
    return Answer(reply=_failure(exc, effect), cost_usd=None if may_have_cost(exc) else Decimal(0))


def may_have_cost(exc: Exception) -> bool:
    """Return whether a failed request may be billed: it reached the provider, and the response was lost."""
    return isinstance(exc, TransientError) and exc.kind in ("timeout", "network", "invalid_output", "too_large")


def _failure(exc: Exception, effect: Effect) -> Failure:
    match exc:
        case TransientError():
            return Failure(
                kind=exc.kind,
                message=redacted(str(exc)),
                retryable=True,
                retry_after_s=exc.retry_after_s,
                status=exc.status,
            )
        case PermanentError():
            return Failure(kind=exc.kind, message=redacted(str(exc)), retryable=False, status=exc.status)
        case BudgetExceeded():
            return Failure(kind="budget", message=redacted(str(exc)), retryable=False)
        case ConfigError():
            return Failure(kind="not_configured", message=redacted(str(exc)), retryable=False)
        case _:
            log.exception("an adapter raised what it should have translated", effect=type(effect).__name__)
            return Failure(kind="internal", message=redacted(f"{type(exc).__name__}: {exc}"), retryable=False)
