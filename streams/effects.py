"""The effects host: performs what a step asks for and records it. The only place where effects meet the clock."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from decimal import Decimal

import structlog

from infra.ports import Answer, Ports
from schemas.calls import Call, CallKind, ProviderMode
from schemas.effects import CallModel, Effect, Failure, FetchMarket, FindEarlier, Recall, Scrape, Search, request_hash
from schemas.errors import BudgetExceeded, ConfigError, PermanentError, TransientError

log = structlog.get_logger(__name__)

_KINDS: dict[type, CallKind] = {
    CallModel: "model",
    Search: "search",
    Scrape: "scrape",
    Recall: "recall",
    FetchMarket: "market",
    FindEarlier: "duplicate_check",
}


class EffectsHost:
    """Turns an effect into a call record, whatever happens: a failure is a reply too. Only cancellation passes."""

    def __init__(self, ports: Ports) -> None:
        self._ports = ports

    async def perform(self, effect: Effect, *, attempt: int) -> Call:
        """Perform once and return the record of it."""
        began = time.perf_counter()
        provider, mode = "none", "live"
        try:
            port = self._ports.of(effect)
            provider, mode = port.provider, port.mode
            answer = await port.perform(effect)
        except Exception as exc:
            answer = Answer(reply=_failure(exc, effect), cost_usd=None if _may_have_cost(exc) else Decimal(0))
        return _record(effect, answer, provider, mode, attempt, (time.perf_counter() - began) * 1000)  # type: ignore[arg-type]

    async def close(self) -> None:
        """Close every adapter."""
        await self._ports.close()


def _may_have_cost(exc: Exception) -> bool:
    # A request that reached the provider and whose answer was lost may be on the bill: its price is unknown, not zero.
    return isinstance(exc, TransientError) and exc.kind in ("timeout", "network", "invalid_output", "too_large")


def _failure(exc: Exception, effect: Effect) -> Failure:
    match exc:
        case TransientError():
            return Failure(
                kind=exc.kind, message=str(exc), retryable=True, retry_after_s=exc.retry_after_s, status=exc.status
            )
        case PermanentError():
            return Failure(kind=exc.kind, message=str(exc), retryable=False, status=exc.status)
        case BudgetExceeded():
            return Failure(kind="budget", message=str(exc), retryable=False)
        case ConfigError():
            return Failure(kind="not_configured", message=str(exc), retryable=False)
        case _:
            log.exception("an adapter raised what it should have translated", effect=type(effect).__name__)
            return Failure(kind="internal", message=f"{type(exc).__name__}: {exc}", retryable=False)


def _record(effect: Effect, answer: Answer, provider: str, mode: ProviderMode, attempt: int, latency_ms: float) -> Call:
    prompt = (
        {"prompt_name": effect.prompt_name, "prompt_version": effect.prompt_version, "prompt_hash": effect.prompt_hash}
        if isinstance(effect, CallModel)
        else {}
    )
    return Call(
        kind=_KINDS[type(effect)],
        provider=provider,
        mode=mode,
        request_hash=request_hash(effect),
        reply=answer.reply,
        latency_ms=round(latency_ms, 3),
        replied_at=datetime.now(UTC),
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
        **prompt,  # type: ignore[arg-type]
    )
