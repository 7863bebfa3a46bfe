"""One line of ``newsproof doctor``."""

from __future__ import annotations

from decimal import Decimal
from typing import Literal

import msgspec

State = Literal["ok", "note", "missing"]


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """Result of one check. ``missing`` must be fixed; ``note`` is for information."""

    name: str
    state: State
    found: str
    do: str = ""


class Tried(Check, frozen=True, kw_only=True):
    """Result of one call of ``doctor --live``. ``worst_usd`` was said before, ``cost_usd`` is what it took; None: unknown.

    ``model``: as the provider names it. ``quota``: what is left, by the response's headers. ``skew_s``: our clock less the
    server's, which tells whole seconds; None: its response has no date.
    """

    answered: bool
    latency_ms: float
    worst_usd: Decimal | None
    cost_usd: Decimal | None
    model: str | None = None
    quota: tuple[str, ...] = ()
    skew_s: float | None = None
