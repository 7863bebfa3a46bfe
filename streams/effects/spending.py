"""Spending: what stands between a step's wish and a paid call. The effects host asks before it pays and says what it paid.

The exact budget (``streams.budget.budget``) is one implementation, :class:`Unlimited` the one for runs in which nothing is paid.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import msgspec

from infra.ports import Port
from schemas.calls import Call
from schemas.effects import Effect, Failure


class Grant(msgspec.Struct, frozen=True):
    """Leave for one call. ``id`` goes into the call's record, so that a successor can settle what this worker could not."""

    id: str


class Spending(Protocol):
    """Leave to spend, call by call."""

    async def reserve(self, effect: Effect, port: Port, *, case_id: str, head_id: str) -> Grant | Failure | None:
        """Return a grant for one call of this effect through this port, the denial, or None where nothing is paid.

        A denial is a ``Failure`` of kind ``budget``, whose message names the limit. A call that is made again, for
        whatever reason, asks again: every call has a grant of its own.
        """
        ...

    def settle(self, grant: Grant, call: Call) -> None:
        """Say what the call cost; never waits. A call without a known cost keeps its whole reservation."""
        ...


class Budget(Spending, Protocol):
    """Spending as a worker runs it: with a life of its own, and a say in what is admitted."""

    async def start(self) -> None:
        """Get ready to grant."""
        ...

    async def stop(self) -> None:
        """Write what is under way, then let go."""
        ...

    def tend(self, *, elected: bool) -> None:
        """See to what is due now and then. Called about once a second; never waits.

        ``elected``: whether this worker does what one of all has to do.
        """
        ...

    def on_calls(self, calls: Iterable[Call]) -> None:
        """Take calls of an earlier owner that were found in the journal at catch-up, to settle what it could not."""
        ...

    def may_admit(self, cases: int) -> str | None:
        """Return why no case should be opened beyond these, None when it may."""
        ...


class Unlimited:
    """Every call is granted, and nothing is written."""

    async def reserve(self, effect: Effect, port: Port, *, case_id: str, head_id: str) -> Grant | Failure | None:
        """Return None."""
        return None

    def settle(self, grant: Grant, call: Call) -> None:
        """Nothing was reserved."""

    async def start(self) -> None:
        """Nothing to get ready."""

    async def stop(self) -> None:
        """Nothing to let go of."""

    def tend(self, *, elected: bool) -> None:
        """Nothing is ever due."""

    def on_calls(self, calls: Iterable[Call]) -> None:
        """Nothing was reserved."""

    def may_admit(self, cases: int) -> str | None:
        """Return None."""
        return None
