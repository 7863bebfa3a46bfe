"""The market port of live mode: dispatches price, macro and on-chain requests by kind."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Protocol

from infra.http import UselessAnswerError
from infra.ports import Answer, Free
from schemas.calls import ProviderMode
from schemas.effects import Failure, FetchMarket, MarketReply
from schemas.errors import PermanentError, TransientError


class Kind(Protocol):
    """The source of one kind of figure."""

    async def read(self, asset: str, as_of: datetime) -> MarketReply: ...

    async def close(self) -> None: ...


def failure_of(exc: UselessAnswerError | TransientError | PermanentError) -> Failure:
    """Translate an exception of a free adapter into its ``Failure`` reply."""
    if isinstance(exc, UselessAnswerError):
        assert isinstance(exc.answer.reply, Failure)
        return exc.answer.reply
    again = isinstance(exc, TransientError)
    wait = exc.retry_after_s if isinstance(exc, TransientError) else None
    return Failure(kind=exc.kind, message=str(exc), retryable=again, retry_after_s=wait, status=exc.status)


class LiveMarket(Free):
    """Port for ``FetchMarket``. Safe for concurrent use within one event loop."""

    provider = "market"
    mode: ProviderMode = "live"

    def __init__(self, **kinds: Kind) -> None:
        """``kinds``: price, macro, onchain; in the research chat price, economy, sentiment, network."""
        self._kinds = kinds

    async def perform(self, effect: FetchMarket) -> Answer:
        """Read once. Missing figures are listed in ``unknown``; an error becomes a ``Failure`` reply at no cost."""
        try:
            reply: MarketReply | Failure = await self._of(effect.kind).read(effect.asset, effect.as_of.astimezone(UTC))
        except (UselessAnswerError, TransientError, PermanentError) as exc:
            reply = failure_of(exc)
        return Answer(reply=reply, cost_usd=Decimal(0), cost_source="free")

    def _of(self, kind: str) -> Kind:
        if kind not in self._kinds:
            known = ", ".join(self._kinds)
            raise PermanentError(f"no source of {kind} is configured here: ask for {known}", kind="not_configured")
        return self._kinds[kind]

    async def close(self) -> None:
        for kind in self._kinds.values():
            await kind.close()
