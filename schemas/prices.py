"""Prices and outcomes of signals: series of bars, and the returns after a case at fixed horizons."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

HORIZONS_S = (300, 3600, 14400, 86400)
"""Seconds after the entry at which returns are measured unless an import asks for others: 5 minutes, 1, 4 and 24 hours."""
PROFIT_CAP = 0.25
"""Default maximum gain or loss of one case in a comparison, as a share of the amount traded."""
NO_END_MS = 4_102_444_800_000
"""The year 2100: later than any price, and within ClickHouse's ``DateTime64``."""

DropReason = Literal["no_symbol", "no_price", "gap", "halted", "horizon_open"]
"""Reason that a signal has no outcome: no market of its asset is known; the prices end before or begin after the required
time; there are prices on both sides of it, but none near enough; the market had stopped, so nobody could enter; the horizon
is not over yet."""


class PriceSeries(msgspec.Struct, frozen=True, kw_only=True):
    """One market's bars. ``times_ms``: when each bar opens, milliseconds since 1970, strictly rising.

    Returns are measured between opens: they are the one price of a bar whose time is known exactly (docs/adr/0020). ``highs``,
    ``lows`` and ``closes`` answer what happened on the way (a stop that was touched); ``volumes`` are in the base currency, NaN
    where unknown; ``imports`` says which import each bar came from. All are as long as ``opens``, or empty: not known.

    ``covered``: times (first, last) for which the imports of this series have prices of any market. A series without prices at a
    covered time has ended. Empty: not known.
    """

    symbol: str
    venue: str
    times_ms: Sequence[int]
    opens: Sequence[float]
    highs: Sequence[float] = ()
    lows: Sequence[float] = ()
    closes: Sequence[float] = ()
    volumes: Sequence[float] = ()
    imports: Sequence[int] = ()
    covered: Sequence[tuple[int, int]] = ()


class Renaming(msgspec.Struct, frozen=True, kw_only=True):
    """A renaming: ``asset`` traded as ``symbol`` (BASE/QUOTE) from ``from_ms`` (inclusive) to ``until_ms`` (exclusive)."""

    asset: str
    symbol: str
    from_ms: int = 0
    until_ms: int = NO_END_MS


class JudgedCase(msgspec.Struct, frozen=True, kw_only=True):
    """A case with a signal. ``symbol`` and ``venue`` are empty where the signal names none; times are milliseconds since 1970.

    ``emitted_at_ms``: when the signal was appended, for live news; 0 for any other, whose signal nobody had at that time.
    ``horizons_s``: the signal's own, of each run that judged the case.
    """

    case_id: str
    asset: str
    symbol: str
    venue: str
    knowable_at_ms: int
    emitted_at_ms: int = 0
    horizons_s: tuple[int, ...] = ()

    @property
    def entry_from_ms(self) -> int:
        """The earliest time at which an outcome may enter (docs/adr/0020)."""
        return max(self.knowable_at_ms, self.emitted_at_ms)


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """The price change after a case. ``change`` is ``exit_price / entry_price - 1``, without fees, whatever was signalled.

    ``halted``: the market had stopped when the horizon ended; the exit is the first price after that, or the last one of a
    market that ended. ``depeg``: of stablecoins alone, the farthest that the price was from 1 in between. ``entry_import`` and
    ``exit_import``: the imports of the two bars, 0 where the series does not say.
    """

    case_id: str
    horizon_s: int
    asset: str
    symbol: str
    venue: str
    entry_at_ms: int
    entry_price: float
    exit_at_ms: int
    exit_price: float
    halted: bool = False
    depeg: float | None = None
    entry_import: int = 0
    exit_import: int = 0

    @property
    def change(self) -> float:
        """The return of the asset from entry to exit."""
        return self.exit_price / self.entry_price - 1.0


class Drop(msgspec.Struct, frozen=True, kw_only=True):
    """A case without an outcome at one horizon, with the reason."""

    case_id: str
    horizon_s: int
    asset: str
    reason: DropReason
