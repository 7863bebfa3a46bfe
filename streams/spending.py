"""Spending: what stands between a step's wish and a paid call. The effects host asks before it pays and says what it paid.

The exact budget (``streams.budget``) is one implementation, :class:`Unlimited` the one for runs in which nothing is paid.
"""

from __future__ import annotations

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


class Unlimited:
    """Every call is granted, and nothing is written."""

    async def reserve(self, effect: Effect, port: Port, *, case_id: str, head_id: str) -> Grant | Failure | None:
        """Return None."""
        return None

    def settle(self, grant: Grant, call: Call) -> None:
        """Nothing was reserved."""
