"""The rule of the budget: a pure fold of the ``budget`` topic. Every worker applies it to the same order of records.

A reservation is granted if its worst case fits into what is left of the day's units and of the month's money. Every
earlier grant counts at its worst case until it is settled. Doubtful claims and investigations get at most their shares
of a day's units, and the units reserved for forced claims go to no others; each share is rounded down to whole units.
Time is the latest append time seen so far, so a clock that jumps back reopens no day. Amounts are billionths of a USD,
so sums are exact.

No group of sources takes more than its share of a day's units and money, so that a flood from one of them leaves the
rest to the others. Triage of listed sources is limited only by the month's money and the triage reserve.
"""

from __future__ import annotations

from collections import deque
from datetime import UTC, date, datetime, timedelta
from typing import Literal

import msgspec

from schemas.budget import (
    UNLISTED,
    VERIFICATIONS,
    BudgetRecord,
    ClaimKind,
    LimitsSet,
    PassedBy,
    Reserved,
    Settled,
    nano_usd,
    usd_of,
)

Pot = Literal["general", "triage"]
DAILY_SHARE = 30
"""A day that uses more than 1/30 of the monthly budget raises an alert."""
KEEP_DAYS = 62
"""Retention of a day's or a month's books, in days: the topic's retention less a day."""
REMEMBERED_OFFSETS = 50_000
"""A reservation that was written twice (a retried append) is recognised by its id within this many records."""
_EPOCH = date(1970, 1, 1)
_DAY_MS = 24 * 3600 * 1000
_LAST_MS = 200_000 * 365 * _DAY_MS // 100
"""Latest append time accepted (the year 3970), so that each has a valid date."""


class Money(msgspec.Struct):
    """One pot in one month, in nano-USD: ``held`` by unsettled grants, ``paid`` by settled ones."""

    held: int = 0
    paid: int = 0

    @property
    def used(self) -> int:
        """Amount not available for other grants."""
        return self.held + self.paid


class GroupBook(msgspec.Struct):
    """One group's use in a period: units, units for doubtful claims, and nano-USD for triage and for other calls."""

    units: int = 0
    units_doubtful: int = 0
    nano: int = 0
    triage_nano: int = 0

    def book(self, nano: int, *, for_triage: bool) -> None:
        """Book an amount; a negative one returns it."""
        if for_triage:
            self.triage_nano += nano
        else:
            self.nano += nano

    def used(self, *, for_triage: bool) -> int:
        return self.triage_nano if for_triage else self.nano


class DayBook(msgspec.Struct):
    """One UTC day. ``above`` counts settlements above their reservation; ``denied`` counts by reason.

    Some of the ``units`` went to doubtful claims (``units_doubtful``) or forced ones (``units_forced``), some to both,
    and some to investigations (``units_investigation``). ``general`` is what this day used of the month's money, in
    nano-USD.
    """

    units: int = 0
    units_doubtful: int = 0
    units_forced: int = 0
    units_investigation: int = 0
    granted: int = 0
    held: int = 0
    paid: int = 0
    above: int = 0
    general: int = 0
    groups: dict[str, GroupBook] = msgspec.field(default_factory=dict)
    denied: dict[str, int] = msgspec.field(default_factory=dict)

    def group(self, name: str) -> GroupBook:
        return self.groups.setdefault(name, GroupBook())

    def take(self, units: int, claim_kinds: tuple[ClaimKind, ...]) -> None:
        """Book the units; a negative number returns them."""
        self.units += units
        self.units_doubtful += units if "doubtful" in claim_kinds else 0
        self.units_forced += units if "forced" in claim_kinds else 0
        self.units_investigation += units if "investigation" in claim_kinds else 0


class MonthBook(msgspec.Struct):
    """One UTC month, by pot, in nano-USD.

    ``above_usd`` is the sum by which settlements exceeded their reservations; ``triage_needs`` is the highest
    worst-case cost of one triage. ``unlisted`` is the use of all unlisted sources together.
    """

    general: Money = msgspec.field(default_factory=Money)
    triage: Money = msgspec.field(default_factory=Money)
    above_usd: int = 0
    triage_needs: int = 0
    unlisted: GroupBook = msgspec.field(default_factory=GroupBook)

    def pot(self, name: Pot) -> Money:
        return self.general if name == "general" else self.triage


class Held(msgspec.Struct, frozen=True):
    """An unsettled grant."""

    at: date
    pot: Pot
    nano: int
    units: int
    claim_kinds: tuple[ClaimKind, ...]
    group: str
    for_triage: bool


class Decision(msgspec.Struct, frozen=True):
    """The rule's decision on a reservation: ``denied`` is "" if granted, otherwise a sentence for people."""

    id: str
    denied: str


class Alert(msgspec.Struct, frozen=True):
    """A condition that needs a person: a day over its budget share, or a call that cost more than its worst case."""

    at: date
    kind: Literal["daily_share", "above_reservation"]
    text: str


class KeptBudget(msgspec.Struct, frozen=True, array_like=True):
    """The complete state, as a worker stores it on disk."""

    limits: LimitsSet | None
    limits_day: date
    latest_ms: int
    days: dict[date, DayBook]
    months: dict[date, MonthBook]
    held: dict[str, Held]
    alerts: list[Alert]
    unreported: dict[int, str]
    garbage: int
    repeated: int
    late: int
    alerted: int
    decided: list[tuple[int, str]]


class BudgetState:
    """The fold. Equal logs give equal states, wherever and whenever they are read."""

    def __init__(self) -> None:
        self.limits: LimitsSet | None = None
        self.limits_day = _EPOCH
        self.latest_ms = 0
        self.days: dict[date, DayBook] = {}
        self.months: dict[date, MonthBook] = {}
        self.held: dict[str, Held] = {}
        self.alerts: list[Alert] = []
        self.unreported: dict[int, str] = {}
        self.garbage = self.repeated = self.late = self.alerted = 0
        self._decided: set[str] = set()
        self._by_offset: deque[tuple[int, str]] = deque()

    @classmethod
    def of(cls, kept: KeptBudget) -> BudgetState:
        """Return the state that :meth:`kept` returned."""
        state, fields = cls(), msgspec.structs.asdict(kept)
        state._by_offset = deque(fields.pop("decided"))
        state._decided = {id for _, id in state._by_offset}
        vars(state).update(fields)
        return state

    def kept(self) -> KeptBudget:
        """Return the complete state to be stored. A fold that continues from it equals a fold of the whole log.

        It cannot be encoded if the log settled calls for more than nine billion USD.
        """
        fields = {name: value for name, value in vars(self).items() if not name.startswith("_")}
        return KeptBudget(**fields, decided=list(self._by_offset))

    @property
    def day(self) -> date:
        """The current day, by log time."""
        return _EPOCH + timedelta(days=self.latest_ms // _DAY_MS)

    def fold(self, offset: int, append_ms: int, record: BudgetRecord) -> Decision | None:
        """Apply the next record; return the decision if it is a reservation that was not seen before."""
        self._move_time(append_ms)
        match record:
            case Reserved():
                return self._reserved(offset, record)
            case Settled():
                self._settled(record)
            case LimitsSet():
                self.limits, self.limits_day = record, self.day
            case PassedBy(offsets=offsets):
                for done in offsets:
                    self.unreported.pop(done, None)
        return None

    def ignore(self, offset: int, append_ms: int, why: str) -> None:
        """Count an unreadable record. It changes no book."""
        self._move_time(append_ms)
        self.garbage += 1
        self.unreported[offset] = why
        while len(self.unreported) > REMEMBERED_OFFSETS:
            del self.unreported[next(iter(self.unreported))]

    # Reservations

    def _reserved(self, offset: int, asked: Reserved) -> Decision | None:
        while self._by_offset and self._by_offset[0][0] < offset - REMEMBERED_OFFSETS:
            self._decided.discard(self._by_offset.popleft()[1])
        if asked.id in self._decided:
            self.repeated += 1
            return None
        self._decided.add(asked.id)
        self._by_offset.append((offset, asked.id))
        nano = 0 if asked.usd is None else nano_usd(asked.usd)
        book, month = self.books()
        reason, denied, pot = self._judge(asked, nano)
        if asked.for_triage:
            month.triage_needs = max(month.triage_needs, nano)
        if denied:
            book.denied[reason] = book.denied.get(reason, 0) + 1
            return Decision(asked.id, denied)
        held = Held(self.day, pot, nano, asked.units, asked.claim_kinds, asked.group, asked.for_triage)
        book.granted += 1
        book.held += nano
        month.pot(pot).held += nano
        _take(book, month, held, units=asked.units, nano=nano)
        self.held[asked.id] = held
        return Decision(asked.id, "")

    def _judge(self, asked: Reserved, nano: int) -> tuple[str, str, Pot]:
        limits, (day, month) = self.limits, self.books()
        if limits is None:
            return (
                "no_limits",
                "no limits are in the budget topic yet: start a worker, it writes its settings'",
                "general",
            )
        if asked.usd is None and not limits.allow_unpriced:
            text = (
                f"the price of {asked.effect} at {asked.provider} is unknown: add a price "
                "(infra/models/price_overrides.json), or set ALLOW_UNPRICED=true to make such calls uncounted"
            )
            return "unpriced", text, "general"
        if asked.units and day.units + asked.units > limits.daily_units:
            text = (
                f"the {limits.daily_units} tool calls of {self.day} (UTC) are used up: "
                "wait for the next day, or raise DEEP_ANALYSIS_TOOL_DAILY_LIMIT"
            )
            return "units", text, "general"
        if asked.units and (share := self._share_used(limits, day, asked)) is not None:
            return *share, "general"
        if nano and (share := self._money_share_used(limits, day, month, asked, nano)) is not None:
            return *share, "general"
        if nano == 0 or month.general.used + nano <= nano_usd(limits.monthly_usd):
            return "", "", "general"
        has_reserve = asked.for_triage and not _is_shared_out(limits, asked.group)
        if has_reserve and nano <= _reserve_left(limits, month):
            return "", "", "triage"
        also = f", and triage's reserve of {limits.triage_reserve_usd} USD too" if has_reserve else ""
        text = (
            f"this call may cost {usd_of(nano):f} USD, more than is left of the {limits.monthly_usd} USD of "
            f"{self.day:%Y-%m} (UTC){also}: wait for the next month, or raise DEEP_ANALYSIS_MONTHLY_BUDGET"
        )
        return "money", text, "general"

    def _share_used(self, limits: LimitsSet, day: DayBook, asked: Reserved) -> tuple[str, str] | None:
        of_day = f"of the {limits.daily_units} tool calls of {self.day} (UTC)"
        if "doubtful" in asked.claim_kinds and day.units_doubtful + asked.units > limits.doubtful_units:
            return "units_doubtful", (
                f"rumoured and planned claims have used their {limits.doubtful_units} {of_day}: "
                "wait for the next day, or raise SEARCH_DOUBTFUL_MAX_PERCENT or DEEP_ANALYSIS_TOOL_DAILY_LIMIT"
            )
        if "investigation" in asked.claim_kinds and day.units_investigation + asked.units > limits.investigation_units:
            return "units_investigation", (
                f"investigations have used their {limits.investigation_units} {of_day}: "
                "wait for the next day, or raise INVESTIGATION_MAX_PERCENT or DEEP_ANALYSIS_TOOL_DAILY_LIMIT"
            )
        share = limits.share_of(asked.group, limits.daily_units)
        if asked.group and day.group(asked.group).units + asked.units > share:
            return _of_group(asked.group, "units", f"{share} {of_day}")
        share = limits.share_of(UNLISTED, limits.doubtful_units)
        is_rumour = asked.group == UNLISTED and "doubtful" in asked.claim_kinds
        if is_rumour and day.group(UNLISTED).units_doubtful + asked.units > share:
            return _of_group(UNLISTED, "units", f"{share} {of_day} for rumoured and planned claims")
        others = day.units - day.units_forced + asked.units
        if "forced" not in asked.claim_kinds and others > limits.daily_units - limits.forced_units:
            return "units_kept", (
                f"what is left {of_day} is kept for hacks, depegs and liquidations: "
                "wait for the next day, lower SEARCH_FORCED_RESERVE_PERCENT, or raise DEEP_ANALYSIS_TOOL_DAILY_LIMIT"
            )
        return None

    def _money_share_used(
        self, limits: LimitsSet, day: DayBook, month: MonthBook, asked: Reserved, nano: int
    ) -> tuple[str, str] | None:
        in_triage = asked.for_triage
        if not in_triage and limits.daily_percent < 100 and day.general + nano > limits.daily_nano:
            return "money_day", (
                f"this call may cost {usd_of(nano):f} USD, more than is left of the {usd_of(limits.daily_nano):f} USD of "
                f"{self.day} (UTC): wait for 00:00 UTC, or raise DEEP_ANALYSIS_DAILY_MAX_PERCENT or "
                "DEEP_ANALYSIS_MONTHLY_BUDGET"
            )
        if not asked.group or (in_triage and not _is_shared_out(limits, asked.group)):
            return None
        what = "triage" if in_triage else "money"
        share = limits.share_of(asked.group, limits.daily_nano)
        if day.group(asked.group).used(for_triage=in_triage) + nano > share:
            return _of_group(asked.group, what, f"{usd_of(share):f} USD of {self.day} (UTC)")
        share = limits.share_of(asked.group, nano_usd(limits.monthly_usd))
        if asked.group == UNLISTED and month.unlisted.used(for_triage=in_triage) + nano > share:
            return _of_group(
                asked.group, what, f"{usd_of(share):f} USD of {self.day:%Y-%m} (UTC)", until="the next month"
            )
        return None

    # Settlements

    def _settled(self, settlement: Settled) -> None:
        held = self.held.pop(settlement.id, None)
        if held is None:
            self.late += 1  # already settled, never granted, or its month has ended and been dropped
            return
        day = self.days.get(held.at) or DayBook()
        month = self.months.get(held.at.replace(day=1)) or MonthBook()
        cost = 0 if settlement.unused else held.nano if settlement.usd is None else nano_usd(settlement.usd)
        pot = month.pot(held.pot)
        pot.held -= held.nano
        pot.paid += cost
        before, day.held, day.paid = day.paid, day.held - held.nano, day.paid + cost
        _take(day, month, held, units=-held.units if settlement.unused else 0, nano=cost - held.nano)
        if cost > held.nano:
            day.above += 1
            month.above_usd += cost - held.nano
            text = f"a call cost {usd_of(cost):f} USD, {usd_of(held.nano):f} were reserved (id {settlement.id})"
            self._alert(Alert(held.at, "above_reservation", text))
        if self.limits is not None:
            share = nano_usd(self.limits.monthly_usd) // DAILY_SHARE
            if before <= share < day.paid:
                text = f"{held.at} has cost more than 1/{DAILY_SHARE} of the {self.limits.monthly_usd} USD of its month"
                self._alert(Alert(held.at, "daily_share", text))

    # Time and memory

    def books(self) -> tuple[DayBook, MonthBook]:
        """Return the books of the current day and month."""
        day, first = self.day, self.day.replace(day=1)
        if day not in self.days:
            self.days[day] = DayBook()
        if first not in self.months:
            self.months[first] = MonthBook()
        return self.days[day], self.months[first]

    def _move_time(self, append_ms: int) -> None:
        before = self.day
        self.latest_ms = max(self.latest_ms, min(append_ms, _LAST_MS))
        if self.day != before:
            self._forget()

    def _forget(self) -> None:
        oldest = self.day - timedelta(days=KEEP_DAYS)
        # A call settled shortly after its month's end still belongs to that month's books.
        settled_by = min(self.day.replace(day=1), self.day - timedelta(days=1))
        self.days = {d: b for d, b in self.days.items() if d >= oldest}
        self.months = {d: b for d, b in self.months.items() if d >= oldest.replace(day=1)}
        self.held = {i: h for i, h in self.held.items() if h.at >= settled_by}
        self.alerts = [a for a in self.alerts if a.at >= oldest]

    def _alert(self, alert: Alert) -> None:
        self.alerted += 1
        self.alerts.append(alert)
        del self.alerts[:-1000]

    # Queries

    def left(self, now: datetime) -> tuple[int, int, int]:
        """Return what is left at ``now`` (UTC): nano-USD of the month and of the triage reserve, units of the day."""
        if self.limits is None:
            return 0, 0, 0
        today = max(self.day, now.astimezone(UTC).date())
        month = self.months.get(today.replace(day=1)) or MonthBook()
        units = self.days[today].units if today in self.days else 0
        return (
            nano_usd(self.limits.monthly_usd) - month.general.used,
            _reserve_left(self.limits, month),
            self.limits.daily_units - units,
        )

    def why_not_admit(self, cases: int, now: datetime) -> str | None:
        """Return why no further case should be opened beside ``cases`` untriaged ones; None if one may.

        The reason is that its triage could not be paid. The estimate per triage is the highest worst case seen in the
        log. This is only a forecast; the reservation decides.
        """
        needs = next((b.triage_needs for _, b in sorted(self.months.items(), reverse=True) if b.triage_needs), 0)
        if needs == 0 or self.limits is None:
            return None
        money, reserve, _ = self.left(now)
        if cases < max(0, money // needs) + max(0, reserve // needs):
            return None
        return (
            f"the budget of {max(self.day, now.astimezone(UTC).date()):%Y-%m} (UTC) has no room for another triage "
            f"({usd_of(max(0, money)):f} USD left, and {usd_of(max(0, reserve)):f} of triage's reserve; one may cost "
            f"{usd_of(needs):f}): news waits in its topic for the next month, or raise "
            "DEEP_ANALYSIS_MONTHLY_BUDGET or TRIAGE_RESERVE_USD"
        )


def _take(day: DayBook, month: MonthBook, held: Held, *, units: int, nano: int) -> None:
    """Book a grant's units and nano-USD in every share that they count in; negative numbers return them."""
    day.take(units, held.claim_kinds)
    day.general += nano if held.pot == "general" else 0
    if held.group:
        of_day = day.group(held.group)
        of_day.units += units
        of_day.units_doubtful += units if "doubtful" in held.claim_kinds else 0
        of_day.book(nano, for_triage=held.for_triage)
    if held.group == UNLISTED:
        month.unlisted.book(nano, for_triage=held.for_triage)


def _is_shared_out(limits: LimitsSet, group: str) -> bool:
    """Return whether this group's triage is limited by a share only: what strangers send, unless its share is 100 %."""
    if group == VERIFICATIONS:
        return limits.verification_percent is not None and limits.verification_percent < 100
    return group == UNLISTED and limits.unlisted_percent < 100


def _of_group(group: str, what: str, share: str, *, until: str = "00:00 UTC") -> tuple[str, str]:
    if group == UNLISTED:
        for_what = " for triage" if what == "triage" else ""
        return f"{what}_unlisted", (
            f"sources that nobody listed have together used their {share}{for_what}: wait for {until}, name sources of your "
            "own in TRUSTED_SOURCES, or raise UNLISTED_SOURCES_MAX_PERCENT"
        )
    if group == VERIFICATIONS:
        return f"{what}_verifications", (
            f"verifications have together used their {share}: wait for {until}, or raise VERIFICATION_MAX_PERCENT"
        )
    return f"{what}_group", (
        f"the sources of {group} have used their {share}: wait for {until}, or raise SOURCE_GROUP_MAX_PERCENT"
    )


def _reserve_left(limits: LimitsSet, month: MonthBook) -> int:
    # The reserve also covers calls that cost more than reserved, and limits lowered below the amount already spent: no
    # grant takes the month beyond both limits together.
    reserve = nano_usd(limits.triage_reserve_usd)
    both = nano_usd(limits.monthly_usd) + reserve
    return min(reserve - month.triage.used, both - month.general.used - month.triage.used)
