"""The cost limit of a run: a call is refused when its worst case might exceed ``--max-cost``."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from decimal import Decimal

from infra.ports import Port
from schemas.calls import Call
from schemas.effects import Effect
from schemas.errors import ConfigError


class CostLimitReached(Exception):  # noqa: N818 - the run stops in order
    """The remaining amount does not cover the worst case of the next call."""


class CostLimit:
    """Tracks the cost of a run in USD against a limit; None means no limit.

    ``spent`` is the cost of the calls made. A call of unknown price counts with its worst case.
    """

    def __init__(self, limit: Decimal | None, *, spent: Decimal = Decimal(0)) -> None:
        self.limit = limit
        self.spent = spent
        self._held = Decimal(0)
        self._moved = asyncio.Event()

    async def taken(self, effect: Effect, chain: Sequence[Port]) -> Decimal:
        """Like :meth:`take`, but wait for pending calls to settle when their reservations might free enough."""
        while True:
            try:
                return self.take(effect, chain)
            except CostLimitReached:
                if not self._held:
                    raise
                self._moved.clear()
            await self._moved.wait()

    def take(self, effect: Effect, chain: Sequence[Port]) -> Decimal:
        """Reserve the worst case of performing the effect once; return the amount for :meth:`settle`.

        Raises:
            CostLimitReached: the remaining amount is too small.
            ConfigError: there is a limit, and the price of a provider is unknown.
        """
        worst = [port.worst_case_usd(effect) for port in chain]
        if None in worst and self.limit is not None:
            names = ", ".join(
                f"{p.provider} {getattr(p, 'model', '')}".strip()
                for p, w in zip(chain, worst, strict=True)
                if w is None
            )
            raise ConfigError(
                f"the price of {names} is unknown, so --max-cost cannot be kept: add it to infra/models/price_overrides.json"
            )
        # A fallback is asked after the previous provider failed, and the failed call may be billed too.
        held = sum((w for w in worst if w is not None), Decimal(0))
        if self.limit is not None and self.spent + self._held + held > self.limit:
            raise CostLimitReached
        self._held += held
        return held

    def settle(self, held: Decimal, calls: Sequence[Call]) -> None:
        """Replace the reservation by the actual cost."""
        self.give_back(held)
        known = [c.cost_usd for c in calls]
        self.spent += held if None in known else sum((c for c in known if c is not None), Decimal(0))

    def give_back(self, held: Decimal) -> None:
        """Release the reservation of a call that was not made."""
        self._held -= held
        self._moved.set()
