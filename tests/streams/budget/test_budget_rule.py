"""The rule of the budget: who is granted what, by the log alone."""

from __future__ import annotations

import random
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import msgspec
import pytest

from infra.settings import Settings
from newsproof.app.composition import limits_of_settings
from schemas.budget import (
    UNLISTED,
    VERIFICATIONS,
    BudgetRecord,
    LimitsSet,
    PassedBy,
    Reserved,
    Settled,
    nano_usd,
    usd_of,
)
from streams.budget.rule import REMEMBERED_OFFSETS, BudgetState, KeptBudget
from tests.builders import limits_of

NOON = datetime(2026, 3, 10, 12, tzinfo=UTC)


def asked(
    id: str, usd: str | None = "0", *, units: int = 0, triage: bool = False, kinds: Any = (), group: str = ""
) -> Reserved:
    return Reserved(
        id=id, effect="search", provider="p", usd=None if usd is None else Decimal(usd), units=units, for_triage=triage,
        case_id="c", head_id="h", claim_kinds=kinds, group=group,
    )  # fmt: skip


def paid(id: str, usd: str | None, *, unused: bool = False) -> Settled:
    return Settled(id=id, usd=None if usd is None else Decimal(usd), by="0", unused=unused)


class Log:
    """A budget topic in memory, and one reader of it."""

    def __init__(self, first: LimitsSet | None = None) -> None:
        self.records: list[tuple[int, BudgetRecord]] = []
        self.state = BudgetState()
        self.at = NOON
        if first is not None:
            self.add(first)

    def add(self, record: BudgetRecord, at: datetime | None = None) -> str | None:
        """Append and fold; return "" when it was granted, else the denial; None for what is no new reservation."""
        self.at = at or self.at
        self.records.append((int(self.at.timestamp() * 1000), record))
        decision = self.state.fold(len(self.records) - 1, *self.records[-1])
        return None if decision is None else decision.denied

    def left(self, at: datetime | None = None) -> tuple[Decimal, Decimal, int]:
        general, triage, units = self.state.left(at or self.at)
        return usd_of(general), usd_of(triage), units


DOUBTFUL, FORCED, BOTH, INVESTIGATION = ("doubtful",), ("forced",), ("doubtful", "forced"), ("investigation",)
UNIT: dict[str, Any] = {"units": 1}
OF_BTC_NEWS = {**UNIT, "group": "coindesk"}
REASONS: list[tuple[str, dict[str, Any] | None, list[dict[str, Any]], dict[str, Any], tuple[str, ...]]] = [
    # (reason, limits, what was granted before, what is denied, words of the denial)
    ("no_limits", None, [], {"usd": "0.1"}, ("no limits",)),
    ("unpriced", {}, [], {"usd": None}, ("unknown", "ALLOW_UNPRICED")),
    ("units", {"units": 2}, [UNIT] * 2, UNIT, ("2 tool calls of 2026-03-10", "DEEP_ANALYSIS_TOOL_DAILY_LIMIT")),
    (
        "units_doubtful", {"units": 5, "doubtful": 40}, [UNIT | {"kinds": DOUBTFUL}] * 2, UNIT | {"kinds": BOTH},
        ("used their 2 of the 5 tool calls of 2026-03-10", "SEARCH_DOUBTFUL_MAX_PERCENT"),
    ),
    (
        "units_investigation", {"units": 5, "investigation": 40}, [UNIT | {"kinds": INVESTIGATION}] * 2,
        UNIT | {"kinds": INVESTIGATION}, ("used their 2 of the 5", "INVESTIGATION_MAX_PERCENT"),
    ),
    (
        "units_kept", {"units": 5, "forced": 20}, [UNIT] * 4, UNIT,
        ("kept for hacks, depegs and liquidations", "SEARCH_FORCED_RESERVE_PERCENT"),
    ),
    (
        "units_unlisted", {"units": 5, "unlisted": 40}, [UNIT | {"group": UNLISTED}] * 2, UNIT | {"group": UNLISTED},
        ("together used their 2 of the 5 tool calls of 2026-03-10 (UTC)", "wait for 00:00 UTC", "TRUSTED_SOURCES",
         "UNLISTED_SOURCES_MAX_PERCENT"),
    ),
    (
        "units_unlisted", {"units": 10, "doubtful": 40, "unlisted": 50},
        [UNIT | {"group": UNLISTED, "kinds": DOUBTFUL}] * 2, UNIT | {"group": UNLISTED, "kinds": DOUBTFUL},
        ("used their 2 of the 10 tool calls of 2026-03-10 (UTC) for rumoured and planned claims",),
    ),
    (
        "units_group", {"units": 5, "group": 40}, [OF_BTC_NEWS] * 2, OF_BTC_NEWS,
        ("sources of coindesk have used their 2", "SOURCE_GROUP_MAX_PERCENT"),
    ),
    (
        "units_verifications", {"units": 5, "verification": 40}, [UNIT | {"group": VERIFICATIONS}] * 2,
        UNIT | {"group": VERIFICATIONS}, ("verifications have together used their 2", "VERIFICATION_MAX_PERCENT"),
    ),
    (
        "money_day", {"daily": 10}, [{"usd": "3"}], {"usd": "0.5"},
        ("more than is left of the 3 USD of 2026-03-10 (UTC): wait for 00:00 UTC", "DEEP_ANALYSIS_DAILY_MAX_PERCENT"),
    ),
    (
        "money_unlisted", {"usd": "10", "daily": 10, "unlisted": 50}, [{"usd": "0.5", "group": UNLISTED}],
        {"usd": "0.1", "group": UNLISTED}, ("used their 0.5 USD of 2026-03-10 (UTC): wait for 00:00 UTC",),
    ),
    (
        "triage_unlisted", {"usd": "1", "unlisted": 50}, [{"usd": "0.5", "triage": True, "group": UNLISTED}],
        {"usd": "0.1", "triage": True, "group": UNLISTED}, ("0.5 USD of 2026-03-10 (UTC) for triage",),
    ),
    (
        "money", {"usd": "1"}, [{"usd": "0.8"}], {"usd": "0.3"},
        ("0.3 USD, more than is left of the 1 USD of 2026-03", "wait for the next month", "DEEP_ANALYSIS_MONTHLY_BUDGET"),
    ),
    (
        "money", {"usd": "1", "reserve": "0.5"}, [{"usd": "1"}, {"usd": "0.3", "triage": True}],
        {"usd": "0.3", "triage": True}, ("triage's reserve of 0.5 USD too",),
    ),
]  # fmt: skip


@pytest.mark.parametrize(("reason", "limits", "before", "denied", "says"), REASONS)
def test_a_denial_says_what_is_used_up_until_when_and_which_setting_to_raise(
    reason: str, limits: dict[str, Any] | None, before: list[Any], denied: dict[str, Any], says: tuple[str, ...]
) -> None:
    log = Log(None if limits is None else limits_of(**limits))
    assert [log.add(asked(str(n), **{"usd": "0", **one})) for n, one in enumerate(before)] == [""] * len(before)
    text = log.add(asked("denied", **{"usd": "0", **denied})) or ""
    assert all(part in text for part in says), text
    assert log.state.books()[0].denied == {reason: 1}


def granted(log: Log, kinds: Any, calls: int, *, group: str = "") -> int:
    """Ask for this many searches of such claims; return how many were granted."""
    first = len(log.records)
    return [log.add(asked(f"{first + n}", units=1, kinds=kinds, group=group)) for n in range(calls)].count("")


def as_shipped(**changed: Any) -> LimitsSet:
    """The limits that the settings give where nobody changed them."""
    return limits_of_settings(Settings(_env_file=None, **changed))


OF_BEFORE = {
    "deep_analysis_daily_max_percent": 100,
    "source_group_max_percent": 100,
    "unlisted_sources_max_percent": 100,
}
"""The settings that share nothing out among sources, as it was before."""


@pytest.mark.security
def test_a_flood_from_sources_that_nobody_listed_leaves_the_day_to_those_that_are() -> None:
    before = Log(as_shipped(**OF_BEFORE))
    granted(before, FORCED, 96, group=UNLISTED)
    assert granted(before, FORCED, 6, group="coindesk") == 0, "16 fake hacks of six searches had the whole day"
    log = Log(as_shipped())
    assert granted(log, (), 96, group=UNLISTED) == 15
    denied = log.add(asked("one-more", units=1, group=UNLISTED))
    assert denied is not None and "together used their 15 of the 50 tool calls of 2026-03-10 (UTC)" in denied
    assert "wait for 00:00 UTC" in denied and "TRUSTED_SOURCES" in denied and "UNLISTED_SOURCES_MAX_PERCENT" in denied
    assert granted(log, FORCED, 96, group="coindesk") == 25, "the flood took nothing of its share"
    assert "sources of coindesk have used their 25" in (log.add(asked("c", units=1, group="coindesk")) or "")
    assert granted(log, FORCED, 96, group="theblock") == 10, "and one listed source leaves the rest to the others"
    assert log.add(asked("tomorrow", units=1, group=UNLISTED), NOON + timedelta(days=1)) == ""


@pytest.mark.security
def test_a_flood_of_rumours_leaves_most_of_what_rumours_have_to_listed_sources() -> None:
    log = Log(as_shipped())
    assert granted(log, DOUBTFUL, 96, group=UNLISTED) == 6
    denied = log.add(asked("one-more", units=1, kinds=DOUBTFUL, group=UNLISTED))
    assert denied is not None and "together used their 6 of the 50 tool calls" in denied
    assert granted(log, DOUBTFUL, 96, group="coindesk") == 14
    assert granted(log, (), 96, group=UNLISTED) == 9, "what they assert has the rest of their share"


DEEP_USD, TRIAGE_USD = "0.0115", "0.0005"


def flood(log: Log, items: int, at: datetime, group: str = UNLISTED) -> tuple[int, int]:
    """Triage and analyse so many items within a day; return how many of each were paid. Each costs what it may."""
    first, done = len(log.records), [0, 0]
    for n in range(items):
        for which, usd in enumerate((TRIAGE_USD, DEEP_USD)):
            id = f"{first}-{n}-{which}"
            if not log.add(asked(id, usd, triage=not which, group=group), at + timedelta(seconds=n)):
                log.add(paid(id, usd))
                done[which] += 1
    return done[0], done[1]


@pytest.mark.security
def test_2600_items_of_unlisted_sources_cost_a_day_its_share_and_not_the_month() -> None:
    before = Log(as_shipped(**OF_BEFORE))
    assert flood(before, 2600, NOON) == (2600, 2500)
    assert before.left()[0] < nano_usd(Decimal(DEEP_USD)), "nothing could be analysed for the rest of the month"
    log = Log(as_shipped())
    assert flood(log, 2600, NOON) == (1800, 78), "0.90 USD of analyses, and 0.90 USD of triage"
    assert log.left()[:2] == (Decimal("28.203"), Decimal(3))
    assert "used their 0.9 USD of 2026-03-10 (UTC): wait for 00:00 UTC" in (
        log.add(asked("more", DEEP_USD, group=UNLISTED)) or ""
    )
    assert flood(log, 100, NOON, "coindesk") == (100, 100), "whoever is listed goes on"


@pytest.mark.security
@pytest.mark.slow
def test_a_flood_of_weeks_leaves_the_listed_their_part_of_the_month_and_the_whole_reserve_for_triage() -> None:
    log = Log(as_shipped())
    done = [flood(log, 1810, NOON + timedelta(days=day)) for day in range(14)]
    usd = [sum(n) * Decimal(each) for n, each in zip(zip(*done, strict=True), (TRIAGE_USD, DEEP_USD), strict=True)]
    assert all(Decimal("8.9") < each <= 9 for each in usd), usd
    month, reserve, _ = log.left()
    assert (month >= 12, reserve) == (True, Decimal(3))
    denied = log.add(asked("more", DEEP_USD, group=UNLISTED))
    assert denied is not None and "9 USD of 2026-03 (UTC): wait for the next month" in denied


def test_the_worst_case_is_bound_and_its_settlement_releases_the_difference_once() -> None:
    log = Log(limits_of("1"))
    assert log.add(asked("a", "0.8")) == ""
    assert log.add(asked("b", "0.3"))
    log.add(paid("a", "0.1"))
    assert log.left()[0] == Decimal("0.9")
    log.add(paid("a", "0"))
    assert (log.left()[0], log.state.late) == (Decimal("0.9"), 1)
    assert log.add(asked("c", "0.9")) == ""
    assert log.left()[0] == 0


def test_a_settlement_above_its_reservation_is_booked_counted_and_alerted() -> None:
    log = Log(limits_of("100"))
    log.add(asked("a", "0.5"))
    log.add(paid("a", "0.75"))
    day, month = log.state.books()
    assert (day.above, usd_of(month.above_usd), log.left()[0]) == (1, Decimal("0.25"), Decimal("99.25"))
    [alert] = log.state.alerts
    assert alert.kind == "above_reservation" and "0.75" in alert.text and "0.5" in alert.text


def test_a_reservation_that_was_written_twice_is_one() -> None:
    log = Log(limits_of(units=2))
    assert log.add(asked("a", "1", units=1)) == ""
    assert log.add(asked("a", "1", units=1)) is None
    assert (log.left()[2], log.state.repeated) == (1, 1)
    log.add(paid("a", "0.5"))
    assert log.add(asked("a", "1", units=1)) is None, "also after it was settled"


def test_a_day_that_passes_its_share_of_the_budget_raises_one_alert() -> None:
    log = Log(limits_of("30"))
    for n in range(4):
        log.add(asked(str(n), "2"))
        log.add(paid(str(n), "0.5"))
    [alert] = log.state.alerts
    assert (alert.kind, alert.at) == ("daily_share", NOON.date())
    assert "1/30" in alert.text


def test_garbage_changes_no_book_and_is_remembered_until_its_letter_is_written() -> None:
    log = Log(limits_of(units=1))
    log.state.ignore(7, 0, "not a record")
    assert (log.state.garbage, log.state.unreported) == (1, {7: "not a record"})
    log.add(PassedBy(offsets=(7, 8)))
    assert (log.state.garbage, log.state.unreported) == (1, {})
    assert log.left() == (Decimal(30), Decimal(3), 1)


def test_memory_is_bounded_by_days_and_by_offsets() -> None:
    log = Log(limits_of("1000000", units=1_000_000))
    at = NOON
    for n in range(200):
        log.add(asked(f"id-{n}", "0.01", units=1), at + timedelta(days=n))
    assert len(log.state.days) <= 63
    assert len(log.state.months) <= 4
    assert len(log.state.held) <= 31, "what was never settled is forgotten with its month"
    state = BudgetState()
    state.fold(0, 0, limits_of(units=1_000_000))
    for offset in range(1, 2 * REMEMBERED_OFFSETS, 1000):
        state.fold(offset, 0, asked(f"id-{offset}", units=1))
    assert len(state._decided) == len(state._by_offset) <= REMEMBERED_OFFSETS // 1000 + 1


@pytest.mark.parametrize("append_ms", [-5, 0, 10**18])
def test_an_append_time_out_of_any_calendar_is_survived(append_ms: int) -> None:
    state = BudgetState()
    state.fold(0, append_ms, limits_of())
    assert state.fold(1, append_ms, asked("a", "1", units=1)) is not None


def test_news_waits_when_no_triage_can_be_paid_and_says_until_when() -> None:
    log = Log(limits_of("1", reserve="0.5"))
    assert log.state.why_not_admit(10**6, NOON) is None, "nothing is known of what triage may cost: go on"
    log.add(asked("t", "0.25", triage=True))
    assert log.state.why_not_admit(4, NOON) is None
    assert log.state.why_not_admit(5, NOON) is not None, "room for three of the month and two of the reserve"
    log.add(asked("deep", "0.75"))
    log.add(asked("u", "0.25", triage=True))
    log.add(asked("v", "0.25", triage=True))
    why = log.state.why_not_admit(0, NOON)
    assert why is not None and "2026-03" in why and "TRIAGE_RESERVE_USD" in why
    assert log.state.why_not_admit(0, datetime(2026, 4, 1, tzinfo=UTC)) is None, "a new month, though no record says so"
    log.add(paid("v", "0"))
    assert log.state.why_not_admit(0, NOON) is None, "a settlement made room"


# Random logs


class Entry(msgspec.Struct):
    """A grant. ``nano``: its worst case, then its cost."""

    asked: Reserved
    day: date
    nano: int
    units: int
    pot: str
    is_settled: bool = False


class PlainBooks:
    """The same rule, computed naively: all grants are added up anew for each question."""

    def __init__(self) -> None:
        self.limits: LimitsSet | None = None
        self.seen: set[str] = set()
        self.entries: dict[str, Entry] = {}

    def fold(self, record: BudgetRecord, day: date) -> bool | None:
        """Return whether a new reservation is granted; None for any other record."""
        match record:
            case LimitsSet():
                self.limits = record
            case Settled() if (entry := self.entries.get(record.id)) is not None and not entry.is_settled:
                entry.is_settled = True
                known = entry.nano if record.usd is None else nano_usd(record.usd)
                entry.nano, entry.units = (0, 0) if record.unused else (known, entry.units)
            case Reserved() if record.id not in self.seen:
                self.seen.add(record.id)
                nano = 0 if record.usd is None else nano_usd(record.usd)
                pot = self._pot(record, nano, day)
                if pot is not None:
                    self.entries[record.id] = Entry(record, day, nano, record.units, pot)
                return pot is not None
        return None

    def left(self, day: date) -> tuple[int, int, int]:
        if (limits := self.limits) is None:
            return 0, 0, 0
        month = [one for one in self.entries.values() if one.day.replace(day=1) == day.replace(day=1)]
        general = sum(one.nano for one in month if one.pot == "general")
        triage = sum(one.nano for one in month if one.pot == "triage")
        monthly, reserve = nano_usd(limits.monthly_usd), nano_usd(limits.triage_reserve_usd)
        units = sum(one.units for one in month if one.day == day)
        both = min(reserve - triage, monthly + reserve - general - triage)
        return monthly - general, both, limits.daily_units - units

    def _pot(self, asked: Reserved, nano: int, day: date) -> str | None:
        """Return what pays for a call: the month, or the reserve for triage; None: it is denied."""
        limits = self.limits
        if limits is None or (asked.usd is None and not limits.allow_unpriced):
            return None
        today = [one for one in self.entries.values() if one.day == day]
        ours = [one for one in today if one.asked.group == asked.group]
        percent = limits.percent_of(asked.group)
        if asked.units and not self._has_units(limits, asked, today, ours):
            return None
        general, reserve, _ = self.left(day)
        is_bounded = percent < 100 and (
            asked.group == UNLISTED or (asked.group == VERIFICATIONS and limits.verification_percent is not None)
        )
        if nano and asked.group and (not asked.for_triage or is_bounded):
            alike = [one for one in ours if one.asked.for_triage == asked.for_triage]
            if 100 * (sum(one.nano for one in alike) + nano) > limits.daily_nano * percent:
                return None
            month = day.replace(day=1)
            of_month = [
                one for one in self.entries.values()
                if (one.day.replace(day=1), one.asked.group, one.asked.for_triage) == (month, asked.group, asked.for_triage)
            ]  # fmt: skip
            most = nano_usd(limits.monthly_usd) * percent
            if asked.group == UNLISTED and 100 * (sum(one.nano for one in of_month) + nano) > most:
                return None
        of_day = sum(one.nano for one in today if one.pot == "general")
        if nano and not asked.for_triage and limits.daily_percent < 100 and of_day + nano > limits.daily_nano:
            return None
        if nano <= general or not nano:
            return "general"
        return "triage" if asked.for_triage and not is_bounded and nano <= reserve else None

    def _has_units(self, limits: LimitsSet, asked: Reserved, today: list[Entry], ours: list[Entry]) -> bool:
        def used(entries: list[Entry], kind: str = "") -> int:
            return sum(one.units for one in entries if not kind or kind in one.asked.claim_kinds) + asked.units

        def fits(entries: list[Entry], kind: str, whole: int, percent: int) -> bool:
            return (bool(kind) and kind not in asked.claim_kinds) or 100 * used(entries, kind) <= whole * percent

        whole, percent = limits.daily_units, limits.percent_of(asked.group)
        unforced = [one for one in today if "forced" not in one.asked.claim_kinds]
        return (
            fits(today, "", whole, 100)
            and fits(today, "doubtful", whole, limits.doubtful_percent)
            and fits(today, "investigation", whole, limits.investigation_percent)
            and (not asked.group or fits(ours, "", whole, percent))
            and (asked.group != UNLISTED or fits(ours, "doubtful", limits.doubtful_units, percent))
            and ("forced" in asked.claim_kinds or used(unforced) <= whole - whole * limits.forced_percent // 100)
        )


KINDS, GROUPS = [(), (), DOUBTFUL, FORCED, BOTH, INVESTIGATION], ["", "a", "b", UNLISTED, VERIFICATIONS]


def log_at_random(seed: int) -> list[tuple[int, BudgetRecord]]:
    """A log that gets close to a few of its limits: each record after how many milliseconds it comes."""
    rand = random.Random(seed)

    def usd(most: int) -> Decimal:
        return Decimal(rand.randrange(most)) / 1000

    def percent() -> int:
        return rand.choice([100, 100, 100, 100, 0, 10, 33, 50])

    def limits() -> LimitsSet:
        return LimitsSet(
            monthly_usd=usd(100_000), triage_reserve_usd=usd(10_000), daily_units=rand.randrange(30), by="0",
            allow_unpriced=rand.random() < 0.5, doubtful_percent=percent(), forced_percent=100 - percent(),
            investigation_percent=percent(), daily_percent=percent(), group_percent=percent(),
            unlisted_percent=percent(), verification_percent=rand.choice([None, percent()]),
        )  # fmt: skip

    def record() -> BudgetRecord:
        match rand.choices(["reserved", "settled", "limits"], [75, 22, 3])[0]:
            case "reserved":
                return Reserved(
                    id=str(rand.randrange(200)), effect="search", provider="p", units=rand.choice([0, 0, 1, 1, 2]),
                    usd=rand.choice([None, Decimal(0), *[usd(5000)] * 5]), for_triage=rand.random() < 0.5,
                    case_id="c", head_id="h", claim_kinds=rand.choice(KINDS), group=rand.choice(GROUPS),
                )  # fmt: skip
            case "settled":
                cost = rand.choice([None, usd(5000), usd(5000)])
                return Settled(id=str(rand.randrange(200)), usd=cost, by="0", unused=rand.random() < 0.3)
            case _:
                return limits()

    day_ms = 24 * 3600 * 1000
    steps = [(0, day_ms), (-day_ms, 0), (0, 40 * day_ms), (0, 60_000)]
    spans = rand.choices(steps, [3, 1, 1, 95], k=200)
    return [(0, limits()), *[(rand.randint(*span), record()) for span in spans]]


@pytest.mark.parametrize("seed", range(50))
def test_every_grant_and_denial_is_that_of_plain_sums_and_every_reader_from_the_start_agrees(seed: int) -> None:
    state, plain, now, latest = BudgetState(), PlainBooks(), int(NOON.timestamp() * 1000), 0
    log, decisions = [], []
    for offset, (step, record) in enumerate(log_at_random(seed)):
        now += step
        latest = max(latest, now)  # a clock that jumps back reopens no day
        log.append((offset, now, record))
        decisions.append(decision := state.fold(offset, now, record))
        at = datetime.fromtimestamp(latest / 1000, UTC)
        assert (None if decision is None else not decision.denied) == plain.fold(record, at.date())
        assert (state.day, state.left(at)) == (at.date(), plain.left(at.date()))
    again = BudgetState()
    assert [again.fold(*entry) for entry in log] == decisions
    assert (again.days, again.months, again.held, again.alerts) == (state.days, state.months, state.held, state.alerts)


@pytest.mark.parametrize("seed", range(50))
def test_a_kept_state_and_the_tail_come_to_the_state_of_the_whole_log(seed: int) -> None:
    whole, resumed, now = BudgetState(), BudgetState(), int(NOON.timestamp() * 1000)
    for offset, (step, record) in enumerate(log_at_random(seed)):
        now += step
        if offset == 4 * seed:
            resumed = stored_and_loaded(resumed)
        decisions = []
        for state in (whole, resumed):
            if offset % 20 == 3:
                state.ignore(offset, now, "garbage")
            elif offset % 50 == 8:
                state.fold(offset, now, PassedBy(offsets=(offset - 5,)))
            else:
                decisions.append(state.fold(offset, now, record))
        assert not decisions or decisions[0] == decisions[1]
    assert vars(resumed) == vars(whole)
    assert vars(stored_and_loaded(whole)) == vars(whole)


def stored_and_loaded(state: BudgetState) -> BudgetState:
    return BudgetState.of(msgspec.msgpack.decode(msgspec.msgpack.encode(state.kept()), type=KeptBudget))
