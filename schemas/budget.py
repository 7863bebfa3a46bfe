"""The records of the ``budget`` topic: limits, reservations, settlements. One partition, so one order for everyone.

Grants are in no record: every reader folds the records by one rule (``streams.budget.rule``) to the same grants.
Amounts are decimal strings in USD. The day and the month of a record are those of its append time at the broker (UTC).
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any, Literal

import msgspec

from schemas.topics import RecordCodec

VERSION = 5
"""Version 2 added the shares of the day's units, version 3 that of investigations, version 4 those of source groups and the
day's money, version 5 that of verifications. Older code, which does not know them, would grant what this code denies."""
TAGS = "newsproof.budget_"
"""Every type tag begins so; a tag that does, and is unknown, was written by newer code."""
MAX_USD = Decimal(1_000_000)
MAX_UNITS = 1_000_000
_NANO = Decimal(1_000_000_000)
ClaimKind = Literal["doubtful", "forced", "investigation"]
"""Kind of claim, which decides the share of the day's units.

``doubtful``: the news reports its claim as rumoured or planned. ``forced``: its event type always takes the deep path.
A rumoured hack is both.
"""
UNLISTED = "unlisted"
"""The one group of all unlisted sources. Their ids cost nothing, so a share per id would bound nothing."""
VERIFICATIONS = "verify"
"""The one group of all claims that somebody asks about."""


class LimitsSet(msgspec.Struct, frozen=True, kw_only=True, tag="newsproof.budget_limits_set"):
    """The limits from this record until the next one.

    ``monthly_usd`` bounds what all calls of a UTC month may cost, ``triage_reserve_usd`` what triage may spend beyond it,
    ``daily_units`` the tool calls of a UTC day. Of these, ``doubtful_percent`` bounds what goes to doubtful claims, ``forced_percent`` is
    reserved for forced ones, and ``investigation_percent`` bounds what investigations take. The defaults reserve and bound nothing.
    ``by`` is the worker slot whose settings these are.

    ``daily_percent`` of the month's money bounds what a day may cost, triage aside. ``group_percent`` bounds what one group
    of listed sources takes of a day's units and money; ``unlisted_percent`` bounds it for all unlisted sources together, and
    also what they take of the month's money. ``verification_percent`` bounds it for all verifications together; None, in records
    before version 5: as ``group_percent``. Where such a share is bounded, triage has one of the same size, and none of the reserve.
    """

    monthly_usd: Decimal
    triage_reserve_usd: Decimal
    daily_units: int
    allow_unpriced: bool
    by: str
    doubtful_percent: int = 100
    forced_percent: int = 0
    investigation_percent: int = 100
    daily_percent: int = 100
    group_percent: int = 100
    unlisted_percent: int = 100
    verification_percent: int | None = None
    version: int = VERSION

    def __post_init__(self) -> None:
        _check_usd(self.monthly_usd, self.triage_reserve_usd)
        _check_units(self.daily_units)
        shares = (
            *(self.doubtful_percent, self.forced_percent, self.investigation_percent),
            *(self.daily_percent, self.group_percent, self.unlisted_percent, self.verification_percent),
        )
        if not all(p is None or 0 <= p <= 100 for p in shares):
            raise ValueError("a share must be within 0 and 100 percent")

    @property
    def doubtful_units(self) -> int:
        """The most units of a day for doubtful claims, rounded down."""
        return self.daily_units * self.doubtful_percent // 100

    @property
    def investigation_units(self) -> int:
        """The most units of a day for investigations, rounded down."""
        return self.daily_units * self.investigation_percent // 100

    @property
    def forced_units(self) -> int:
        """The units of a day that only forced claims get, rounded down."""
        return self.daily_units * self.forced_percent // 100

    @property
    def daily_nano(self) -> int:
        """The most that the calls of a day may cost, triage aside, in nano-USD."""
        return nano_usd(self.monthly_usd) * self.daily_percent // 100

    def share_of(self, group: str, whole: int) -> int:
        """Return the share of this group of sources in ``whole`` units or nano-USD, rounded down; all of it without a group."""
        return whole * self.percent_of(group) // 100

    def percent_of(self, group: str) -> int:
        """Return the share of this group in percent: 100 without a group."""
        if group == VERIFICATIONS and self.verification_percent is not None:
            return self.verification_percent
        return self.unlisted_percent if group == UNLISTED else self.group_percent if group else 100


class Reserved(msgspec.Struct, frozen=True, kw_only=True, tag="newsproof.budget_reserved"):
    """A request to pay for one call, at its worst case. The fold decides whether it is granted.

    ``id`` is unique for ever: it contains the incarnation of the worker. ``effect`` is the tag of the effect. ``usd`` None: the
    price is unknown.
    ``for_triage``: may be paid from triage's own reserve. ``claim_kinds``: the kinds of the claim that it is for, if any.
    ``group``: the group of the news' source, :data:`UNLISTED` where nobody listed it; "" where no news is behind it.
    """

    id: str
    effect: str
    provider: str
    usd: Decimal | None
    units: int
    for_triage: bool
    case_id: str
    head_id: str
    claim_kinds: tuple[ClaimKind, ...] = ()
    group: str = ""
    version: int = VERSION

    def __post_init__(self) -> None:
        _check_usd(self.usd)
        _check_units(self.units)
        _check_id(self.id)


class Settled(msgspec.Struct, frozen=True, kw_only=True, tag="newsproof.budget_settled"):
    """The cost of a reserved call. The first settlement of an id counts.

    ``usd`` None: unknown, so the whole reservation is kept. ``unused``: the call was certainly not made, so all is returned.
    ``by`` is the slot that settles: the one that reserved, or its successor.
    """

    id: str
    usd: Decimal | None
    by: str
    unused: bool = False
    version: int = VERSION

    def __post_init__(self) -> None:
        _check_usd(self.usd)
        _check_id(self.id)


class PassedBy(msgspec.Struct, frozen=True, kw_only=True, tag="newsproof.budget_passed_by"):
    """Offsets of the topic without a readable record. A dead letter was written for each."""

    offsets: tuple[int, ...]
    version: int = VERSION


BudgetRecord = LimitsSet | Reserved | Settled | PassedBy

_codec: RecordCodec[BudgetRecord] = RecordCodec(BudgetRecord, "budget", tags=TAGS, version=VERSION)
encode, decode = _codec.encode, _codec.decode


def nano_usd(usd: Decimal) -> int:
    """Return the amount in billionths of a USD, rounded up: sums of these are exact."""
    return int((usd * _NANO).to_integral_value(rounding="ROUND_CEILING"))


def usd_of(nano: int) -> Decimal:
    """Return billionths of a USD as USD."""
    return Decimal(nano) / _NANO


def _check_usd(*amounts: Any) -> None:
    for usd in amounts:
        if usd is not None and not (usd.is_finite() and 0 <= usd <= MAX_USD):
            raise ValueError(f"an amount must be within 0 and {MAX_USD} USD")


def _check_units(units: int) -> None:
    if not 0 <= units <= MAX_UNITS:
        raise ValueError(f"units must be within 0 and {MAX_UNITS}")


def _check_id(id: str) -> None:
    if not 0 < len(id) <= 200:
        raise ValueError("an id must have 1 to 200 characters")
