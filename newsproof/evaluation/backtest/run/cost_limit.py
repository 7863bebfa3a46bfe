"""The cost limit of a run: no call is made whose worst case might exceed ``--max-cost``."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from decimal import Decimal

from infra.ports import Port
from schemas.calls import Call
from schemas.effects import Effect
from schemas.errors import ConfigError


class CostLimitReached(Exception):  # noqa: N818 - the run stops in order
    """What is left does not cover the worst case of the next call."""


class CostLimit:
    """``spent`` is what calls cost; a call of unknown price counts with its worst case. None = no limit."""

    def __init__(self, limit: Decimal | None, *, spent: Decimal = Decimal(0)) -> None:
        self.limit = limit
        self.spent = spent
        self._held = Decimal(0)
        self._moved = asyncio.Event()

    async def taken(self, effect: Effect, chain: Sequence[Port]) -> Decimal:
        """Like :meth:`take`, but where what is held by others may yet suffice, wait until they know what they paid."""
        while True:
            try:
                return self.take(effect, chain)
            except CostLimitReached:
                if not self._held:
                    raise
                self._moved.clear()
            await self._moved.wait()

    def take(self, effect: Effect, chain: Sequence[Port]) -> Decimal:
        """Hold the worst case of performing the effect once; return it, for :meth:`settle`.

        Raises:
            CostLimitReached: too little is left.
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
        # The next of a chain is asked when the one before failed, which may be on the bill all the same.
        held = sum((w for w in worst if w is not None), Decimal(0))
        if self.limit is not None and self.spent + self._held + held > self.limit:
            raise CostLimitReached
        self._held += held
        return held

    def settle(self, held: Decimal, calls: Sequence[Call]) -> None:
        """Replace what was held by what was paid."""
        self.give_back(held)
        known = [c.cost_usd for c in calls]
        self.spent += held if None in known else sum((c for c in known if c is not None), Decimal(0))

    def give_back(self, held: Decimal) -> None:
        """A call was not made after all."""
        self._held -= held
        self._moved.set()
