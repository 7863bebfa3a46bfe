"""An audit of the budget's topic that counts independently.

It does not trust the fold's books. It takes from the fold only which reservations were granted, sums up what those
grants reserve and cost, and compares at every log position. The journals tell which grants were spent.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from datetime import UTC, datetime
from decimal import Decimal

import msgspec

from infra.kafka.topics import KafkaAddress, offsets_of, read_range
from schemas import envelope as wire
from schemas.budget import UNLISTED, LimitsSet, Reserved, Settled, decode, nano_usd, usd_of
from schemas.errors import ContractError
from schemas.topics import Topics
from streams.budget.rule import BudgetState


class DaySpent(msgspec.Struct):
    """One UTC day: units reserved by grants, the most USD that open grants may still cost, and USD paid."""

    units: int = 0
    held_usd: Decimal = Decimal(0)
    paid_usd: Decimal = Decimal(0)


class BudgetAudit(msgspec.Struct, kw_only=True):
    """Findings on the budget, from its topic and from the journals of cases and chats.

    ``overshoot_units`` and ``overshoot_usd`` are the most by which grants exceeded a limit at any log position; the shares
    of doubtful and of unforced claims, of investigations, of a day's money and of each group of sources are limits too.
    ``above`` counts settlements above their reservation, by ``above_usd`` in all. ``unsettled`` grants count in full
    until their month ends. ``spent`` counts grants found in journalled calls; among them, ``spent_without_grant`` were
    never granted by the log, and ``spent_twice`` paid for two results. ``days`` and ``months`` are keyed by their ISO
    names.
    """

    records: int = 0
    garbage: int = 0
    repeated: int = 0
    reservations: int = 0
    granted: int = 0
    denied: int = 0
    settled: int = 0
    unsettled: int = 0
    above: int = 0
    above_usd: Decimal = Decimal(0)
    overshoot_units: int = 0
    overshoot_usd: Decimal = Decimal(0)
    spent: int = 0
    spent_without_grant: int = 0
    spent_twice: int = 0
    days: dict[str, DaySpent] = {}
    months: dict[str, DaySpent] = {}

    @property
    def overshoot(self) -> int:
        """Number of violations; 0 if no limit was exceeded and every spent grant was given, and spent once."""
        beyond = self.overshoot_units + int(self.overshoot_usd > 0)
        return beyond + self.above + self.spent_without_grant + self.spent_twice


class _Bound(msgspec.Struct, frozen=True):
    day: str
    month: str
    nano: int
    units: int
    for_triage: bool
    limited_as: tuple[str, ...]
    group: str
    from_reserve: bool


class _Sums:
    """Plain sums over the grants, independent of the fold's books."""

    def __init__(self) -> None:
        self.units: Counter[tuple[str, str]] = Counter()
        self.shares: Counter[tuple[str, str]] = Counter()
        """(day or month, share) → nano-USD."""
        self.held: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self.paid: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self.others: Counter[str] = Counter()
        self.bound: dict[str, _Bound] = {}
        self.granted: set[str] = set()

    def total(self, period: str) -> int:
        return self.held[period].total() + self.paid[period].total()

    def grant(self, id: str, bound: _Bound) -> None:
        self.granted.add(id)
        self.bound[id] = bound
        for limited in bound.limited_as:
            self.units[bound.day, limited] += bound.units
        self.held[bound.month][bound.day] += bound.nano
        self.share(bound, bound.nano)
        if not bound.for_triage:
            self.others[bound.month] += bound.nano

    def share(self, bound: _Bound, nano: int) -> None:
        if not bound.from_reserve:
            self.shares[bound.day, "all"] += nano
        for period in (bound.day, bound.month):
            self.shares[period, _share_of(bound.group, for_triage=bound.for_triage)] += nano

    def settle(self, said: Settled) -> int | None:
        """Return the amount above the reservation (nano-USD); None if there was no such grant."""
        bound = self.bound.pop(said.id, None)
        if bound is None:
            return None
        cost = 0 if said.unused else bound.nano if said.usd is None else nano_usd(said.usd)
        self.held[bound.month][bound.day] -= bound.nano
        self.paid[bound.month][bound.day] += cost
        self.share(bound, cost - bound.nano)
        for limited in bound.limited_as:
            self.units[bound.day, limited] -= bound.units if said.unused else 0
        if not bound.for_triage:
            self.others[bound.month] += cost - bound.nano
        return max(0, cost - bound.nano)


def _share_of(group: str, *, for_triage: bool) -> str:
    return f"{'triage' if for_triage else 'calls'} of {group}"


async def budget_overshoot(address: KafkaAddress, topics: Topics, *, journal: bool = True) -> BudgetAudit:
    """Audit the budget. ``journal``: also look for the grants in the calls of cases and chats."""
    state, sums, audit = BudgetState(), _Sums(), BudgetAudit(days={}, months={})
    async for _, records in read_range(address, await offsets_of(address, topics.budget)):
        for record in records:
            audit.records += 1
            try:
                said = decode(record.value)
            except ContractError as exc:
                state.ignore(record.offset, record.timestamp, str(exc))
                continue
            decision = state.fold(record.offset, record.timestamp, said)
            if isinstance(said, Settled) and (above := sums.settle(said)) is not None:
                audit.settled += 1
                audit.above += above > 0
                audit.above_usd += usd_of(above)
            elif isinstance(said, Reserved) and decision is not None:
                audit.reservations += 1
                audit.denied += bool(decision.denied)
                if not decision.denied:
                    audit.granted += 1
                    _granted(audit, sums, state, said)
    audit.garbage, audit.repeated, audit.unsettled = state.garbage, state.repeated, len(sums.bound)
    _books(audit, sums)
    if journal:
        await _journals(address, topics, audit, sums.granted)
    return audit


def _granted(audit: BudgetAudit, sums: _Sums, state: BudgetState, asked: Reserved) -> None:
    at = datetime.fromtimestamp(state.latest_ms / 1000, UTC)
    day, month = f"{at:%Y-%m-%d}", f"{at:%Y-%m}"
    nano = 0 if asked.usd is None else nano_usd(asked.usd)
    kinds = asked.claim_kinds
    shares = {"all": True, "unforced": "forced" not in kinds}
    shares |= {name: name in kinds for name in ("doubtful", "investigation")}
    limited_as = tuple(name for name, counts in shares.items() if counts)
    limited_as += (f"group {asked.group}",) if asked.group else ()
    limited_as += ("unlisted doubtful",) if asked.group == UNLISTED and "doubtful" in kinds else ()
    bound = _Bound(
        *(day, month, nano, asked.units, asked.for_triage, limited_as, asked.group),
        from_reserve=asked.id in state.held and state.held[asked.id].pot == "triage",
    )
    sums.grant(asked.id, bound)
    limits = state.limits or LimitsSet(
        monthly_usd=Decimal(0), triage_reserve_usd=Decimal(0), daily_units=0, allow_unpriced=False, by=""
    )
    if asked.units:
        most = {
            "all": limits.daily_units,
            "doubtful": limits.daily_units * limits.doubtful_percent // 100,
            "investigation": limits.daily_units * limits.investigation_percent // 100,
            "unforced": limits.daily_units - limits.daily_units * limits.forced_percent // 100,
            "unlisted doubtful": limits.doubtful_units * limits.unlisted_percent // 100,
            f"group {asked.group}": limits.daily_units * _percent(limits, asked.group) // 100,
        }
        beyond = max(sums.units[day, limited] - most[limited] for limited in limited_as)
        audit.overshoot_units = max(audit.overshoot_units, beyond)
    if nano:
        general = nano_usd(limits.monthly_usd)
        beyond = sums.total(month) - general - nano_usd(limits.triage_reserve_usd)
        if not asked.for_triage:
            beyond = max(beyond, sums.others[month] - general)
            beyond = max(beyond, sums.shares[day, "all"] - general * limits.daily_percent // 100)
        beyond = max(beyond, _beyond_share(limits, sums, bound))
        audit.overshoot_usd = max(audit.overshoot_usd, usd_of(beyond))


def _percent(limits: LimitsSet, group: str) -> int:
    return limits.percent_of(group)


def _beyond_share(limits: LimitsSet, sums: _Sums, bound: _Bound) -> int:
    """Return by how much a grant takes its group beyond its share of the day's money, and the unlisted ones' of the month's."""
    percent = _percent(limits, bound.group)
    bounded = bound.group == UNLISTED and percent < 100
    if not bound.group or (bound.for_triage and not bounded):
        return 0
    share, general = _share_of(bound.group, for_triage=bound.for_triage), nano_usd(limits.monthly_usd)
    of_day = sums.shares[bound.day, share] - general * limits.daily_percent // 100 * percent // 100
    return max(of_day, sums.shares[bound.month, share] - general * percent // 100) if bounded else of_day


def _books(audit: BudgetAudit, sums: _Sums) -> None:
    for month in sorted({*sums.held, *sums.paid}):
        whole = audit.months[month] = DaySpent()
        for day in sorted({*sums.held[month], *sums.paid[month]}):
            held, paid = usd_of(sums.held[month][day]), usd_of(sums.paid[month][day])
            units = sums.units[day, "all"]
            audit.days[day] = DaySpent(units=units, held_usd=held, paid_usd=paid)
            whole.units += units
            whole.held_usd += held
            whole.paid_usd += paid


async def _journals(address: KafkaAddress, topics: Topics, audit: BudgetAudit, granted: set[str]) -> None:
    paid_for: dict[str, str] = {}
    ranges = {**await offsets_of(address, topics.cases), **await offsets_of(address, topics.research)}
    async for _, records in read_range(address, ranges):
        for record in records:
            if b'"grant"' not in (record.value or b""):
                continue
            try:
                env = wire.read_envelope(record.headers)
                calls = wire.decode(env.type, env.version, record.value).calls
            except ContractError:
                continue
            for grant in (call.grant for call in calls if call.grant is not None):
                first = paid_for.setdefault(grant, env.id)
                audit.spent_twice += first != env.id
                audit.spent_without_grant += first == env.id and grant not in granted
    audit.spent = len(paid_for)
