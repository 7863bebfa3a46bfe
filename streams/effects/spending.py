"""Spending: the interface between effects and the budget.

The effects host reserves before a paid call and then reports its cost. A worker also runs the budget's life cycle.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from infra.ports import Port
from schemas.budget import ClaimKind
from schemas.calls import Call
from schemas.effects import Effect, Failure


class Grant(msgspec.Struct, frozen=True):
    """Permission for one call. Its ``id`` is in the call's record, so that a later worker can settle it."""

    id: str


class Budget:
    """Reservations and settlements, call by call, and a limit on admissions.

    By itself it grants every call and writes nothing. The exact budget is :class:`streams.budget.budget.BudgetLedger`.
    """

    async def reserve(
        self,
        effect: Effect,
        port: Port,
        *,
        case_id: str,
        head_id: str,
        claim_kinds: tuple[ClaimKind, ...] = (),
        source_group: str = "",
    ) -> Grant | Failure | None:
        """Return a grant for one call of this effect through this port, the denial, or None if the call is free.

        A denial is a ``Failure`` of kind ``budget`` whose message names the limit. A repeated call always needs a new
        grant. ``claim_kinds`` and ``source_group`` belong to the claim that the call is for ("" without a source).
        """
        return None

    def settle(self, grant: Grant, call: Call) -> None:
        """Record the cost of the call without waiting. A call of unknown cost keeps its whole reservation."""

    async def start(self) -> None:
        """Get ready to grant."""

    async def stop(self) -> None:
        """Flush pending records, then close."""

    def tend(self, *, elected: bool) -> None:
        """Do periodic work. Called about once a second; never waits.

        ``elected``: True if this worker does the work that only one worker has to do.
        """

    def on_calls(self, calls: Iterable[Call]) -> None:
        """Settle calls that an earlier owner could not settle, found in the journal at catch-up."""

    def may_admit(self, cases: int) -> str | None:
        """Return why no case should be opened beside these; None if one may."""
        return None


class UnlimitedBudget(Budget):
    """Grants every call, for runs without paid calls."""
