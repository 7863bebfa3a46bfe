"""The rule of the budget: who is granted what, by the log alone."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

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


def test_tool_calls_are_granted_up_to_the_daily_limit_and_the_denial_names_it() -> None:
    log = Log(limits_of(units=2))
    assert [log.add(asked(str(n), units=1)) for n in range(2)] == ["", ""]
    denied = log.add(asked("2", units=1))
    assert denied is not None and "2 tool calls of 2026-03-10" in denied and "DEEP_ANALYSIS_TOOL_DAILY_LIMIT" in denied
    assert log.state.books()[0].denied == {"units": 1}


DOUBTFUL, FORCED, BOTH = ("doubtful",), ("forced",), ("doubtful", "forced")


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


def test_doubtful_claims_get_exactly_two_fifths_of_the_day_and_others_go_on() -> None:
    log = Log(limits_of(units=50, doubtful=40, forced=20))
    assert granted(log, DOUBTFUL, 30) == 20
    denied = log.add(asked("one-more", units=1, kinds=DOUBTFUL))
    assert denied is not None and "used their 20 of the 50 tool calls of 2026-03-10" in denied
    assert "SEARCH_DOUBTFUL_MAX_PERCENT" in denied
    assert granted(log, (), 50) == 20, "the rest of what is not kept"
    assert log.state.books()[0].denied == {"units_doubtful": 11, "units_kept": 30}
    assert log.add(asked("tomorrow", units=1, kinds=DOUBTFUL), NOON + timedelta(days=1)) == ""


def test_investigations_get_exactly_their_share_of_the_day_and_the_news_goes_on() -> None:
    log = Log(limits_of(units=50, forced=20, investigation=40))
    assert granted(log, ("investigation",), 30) == 20
    denied = log.add(asked("one-more", units=1, kinds=("investigation",)))
    assert denied is not None and "used their 20 of the 50" in denied and "INVESTIGATION_MAX_PERCENT" in denied
    assert granted(log, (), 50) == 20 and granted(log, FORCED, 50) == 10


def test_others_stop_where_the_share_of_forced_claims_begins_and_these_go_on_to_the_end() -> None:
    log = Log(limits_of(units=50, doubtful=40, forced=20))
    assert granted(log, (), 50) == 40
    denied = log.add(asked("one-more", units=1))
    assert denied is not None and "kept for hacks, depegs and liquidations" in denied
    assert "SEARCH_FORCED_RESERVE_PERCENT" in denied
    assert granted(log, FORCED, 20) == 10
    assert "DEEP_ANALYSIS_TOOL_DAILY_LIMIT" in (log.add(asked("last", units=1, kinds=FORCED)) or "")


def test_what_forced_claims_have_had_counts_as_what_was_kept_for_them() -> None:
    log = Log(limits_of(units=50, forced=20))
    assert granted(log, FORCED, 10) == 10
    assert granted(log, (), 50) == 40, "nothing more is kept, and no unit is left over"


def test_a_rumoured_hack_counts_as_a_rumour_and_may_use_what_is_kept_for_hacks() -> None:
    log = Log(limits_of(units=50, doubtful=40, forced=20))
    assert granted(log, (), 50) == 40
    assert granted(log, DOUBTFUL, 1) == 0
    assert granted(log, BOTH, 20) == 10
    log = Log(limits_of(units=50, doubtful=40, forced=20))
    assert granted(log, BOTH, 30) == 20, "a flood of rumoured hacks leaves the day to what is asserted"
    assert granted(log, FORCED, 50) == 30


def test_a_call_that_was_not_made_gives_its_share_back_too() -> None:
    log = Log(limits_of(units=5, doubtful=40))
    assert granted(log, BOTH, 3) == 2
    log.add(paid("1", None, unused=True))
    day = log.state.books()[0]
    assert (day.units, day.units_doubtful, day.units_forced) == (1, 1, 1)
    assert granted(log, DOUBTFUL, 2) == 1


def test_shares_are_rounded_down_so_one_unit_a_day_serves_any_claim_but_a_doubtful_one() -> None:
    assert granted(Log(limits_of(units=1, doubtful=40, forced=20)), (), 2) == 1
    assert granted(Log(limits_of(units=2, doubtful=40, forced=20)), DOUBTFUL, 2) == 0
    assert granted(Log(limits_of(units=3, doubtful=40, forced=20)), DOUBTFUL, 2) == 1


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
def test_a_flood_of_weeks_leaves_the_listed_their_part_of_the_month_and_the_whole_reserve_for_triage() -> None:
    log = Log(as_shipped())
    start = datetime(2026, 3, 1, 0, tzinfo=UTC)
    done = [flood(log, 2000, start + timedelta(days=day)) for day in range(30)]
    usd = [sum(n) * Decimal(each) for n, each in zip(zip(*done, strict=True), (TRIAGE_USD, DEEP_USD), strict=True)]
    assert all(Decimal("8.9") < each <= 9 for each in usd), usd
    month, reserve, _ = log.left()
    assert (month >= 12, reserve) == (True, Decimal(3))
    denied = log.add(asked("more", DEEP_USD, group=UNLISTED))
    assert denied is not None and "9 USD of 2026-03 (UTC): wait for the next month" in denied


def test_a_day_costs_at_most_its_part_of_the_month_but_triage_of_the_listed_goes_on() -> None:
    log = Log(limits_of("30", daily=10))
    assert [log.add(asked(str(n), "1")) for n in range(4)][:3] == ["", "", ""]
    denied = log.add(asked("over", "0.5"))
    assert denied is not None and "more than is left of the 3 USD of 2026-03-10 (UTC): wait for 00:00 UTC" in denied
    assert "DEEP_ANALYSIS_DAILY_MAX_PERCENT" in denied and log.state.books()[0].denied == {"money_day": 2}
    assert log.add(asked("triage", "0.5", triage=True, group="coindesk")) == ""
    log.add(paid("0", "0.1"))
    assert log.add(asked("again", "0.4")) == "", "a settlement gives the day its rest back, less what triage took"
    assert log.add(asked("over-again", "0.1")), "the day is full"
    assert log.add(asked("next", "3"), NOON + timedelta(days=1)) == ""


def test_triage_of_unlisted_sources_gets_nothing_of_the_reserve() -> None:
    log = Log(limits_of("1", reserve="1", unlisted=50))
    assert log.add(asked("spent", "1")) == ""
    assert "triage's reserve" not in (log.add(asked("flood", "0.1", triage=True, group=UNLISTED)) or "triage's reserve")
    assert log.add(asked("listed", "0.1", triage=True, group="coindesk")) == ""
    assert log.left()[1] == Decimal("0.9")


def test_a_call_of_a_group_that_was_not_made_gives_its_share_back() -> None:
    log = Log(limits_of("10", units=4, group=50, unlisted=50))
    for group in ("coindesk", UNLISTED):
        assert [log.add(asked(f"{group}-{n}", "1", units=1, group=group)) for n in range(3)][:2] == ["", ""]
        log.add(paid(f"{group}-0", None, unused=True))
        assert log.add(asked(f"{group}-again", "1", units=1, group=group)) == ""
        assert log.add(asked(f"{group}-more", "1", units=1, group=group))


def test_money_has_no_shares() -> None:
    log = Log(limits_of("1", units=0, doubtful=0, forced=100))
    assert [log.add(asked(str(n), "0.5", kinds=kinds)) for n, kinds in enumerate((DOUBTFUL, ()))] == ["", ""]


def test_limits_of_before_share_nothing_out() -> None:
    log = Log(limits_of(units=3))
    assert [granted(log, kinds, 1) for kinds in (DOUBTFUL, DOUBTFUL, ())] == [1, 1, 1]


def test_a_day_is_that_of_the_append_time_in_utc_and_the_next_one_has_its_own_units() -> None:
    log = Log(limits_of(units=1))
    before_midnight = datetime(2026, 3, 10, 23, 59, 59, 999000, tzinfo=UTC)
    assert log.add(asked("a", units=1), before_midnight) == ""
    assert log.add(asked("b", units=1), before_midnight)
    assert log.add(asked("c", units=1), before_midnight + timedelta(milliseconds=1)) == ""
    assert log.state.day == date(2026, 3, 11)


def test_a_clock_that_jumps_back_reopens_no_day() -> None:
    log = Log(limits_of(units=1))
    assert log.add(asked("a", units=1), NOON + timedelta(days=1)) == ""
    assert log.add(asked("b", units=1), NOON)
    assert log.state.day == date(2026, 3, 11)


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


def test_a_call_of_unknown_cost_keeps_its_whole_reservation() -> None:
    log = Log(limits_of("1"))
    log.add(asked("a", "0.8"))
    log.add(paid("a", None))
    assert (log.left()[0], len(log.state.held)) == (Decimal("0.2"), 0)


def test_a_call_that_was_not_made_gives_money_and_unit_back() -> None:
    log = Log(limits_of("1", units=1))
    log.add(asked("a", "0.8", units=1))
    log.add(paid("a", "0", unused=True))
    assert log.left() == (Decimal(1), Decimal(3), 1)
    assert log.add(asked("b", "1", units=1)) == ""


def test_a_settlement_above_its_reservation_is_booked_counted_and_alerted() -> None:
    log = Log(limits_of("100"))
    log.add(asked("a", "0.5"))
    log.add(paid("a", "0.75"))
    day, month = log.state.books()
    assert (day.above, usd_of(month.above_usd), log.left()[0]) == (1, Decimal("0.25"), Decimal("99.25"))
    [alert] = log.state.alerts
    assert alert.kind == "above_reservation" and "0.75" in alert.text and "0.5" in alert.text


def test_what_is_not_settled_counts_in_full_until_its_month_ends() -> None:
    log = Log(limits_of("1"))
    log.add(asked("lost", "0.7"))
    assert log.add(asked("b", "0.4"), datetime(2026, 3, 31, 23, 59, tzinfo=UTC))
    assert log.add(asked("c", "1"), datetime(2026, 4, 1, tzinfo=UTC)) == ""


def test_a_call_settled_after_its_months_end_releases_nothing_of_the_next_month() -> None:
    log = Log(limits_of("1"))
    log.add(asked("march", "1"), datetime(2026, 3, 31, 23, 59, 59, tzinfo=UTC))
    log.add(asked("april", "1"), datetime(2026, 4, 1, 0, 0, 1, tzinfo=UTC))
    log.add(paid("march", "0.25"))
    assert log.left()[0] == 0
    assert usd_of(log.state.months[date(2026, 3, 1)].general.paid) == Decimal("0.25")


def test_verifications_have_a_share_of_the_day_of_their_own_and_nothing_of_the_reserve() -> None:
    log = Log(limits_of("1", reserve="1", group=50, verification=10))
    assert granted(log, (), 96, group=VERIFICATIONS) == 5
    denied = log.add(asked("one-more", units=1, group=VERIFICATIONS))
    assert denied is not None and "verifications have together used their 5" in denied
    assert "raise VERIFICATION_MAX_PERCENT" in denied
    assert log.add(asked("paid", "0.09", group=VERIFICATIONS)) == ""
    assert "0.1 USD" in (log.add(asked("more", "0.02", group=VERIFICATIONS)) or "")
    assert log.add(asked("read", "0.09", triage=True, group=VERIFICATIONS)) == ""
    assert "verifications" in (log.add(asked("read more", "0.02", triage=True, group=VERIFICATIONS)) or "")
    assert log.add(asked("news", "0.2", units=1, group="coindesk")) == ""


def test_limits_of_older_code_bound_verifications_as_a_group() -> None:
    log = Log(limits_of("1", group=50))
    assert granted(log, (), 96, group=VERIFICATIONS) == 25


def test_triage_goes_on_from_its_own_reserve_and_nothing_else_does() -> None:
    log = Log(limits_of("1", reserve="0.5"))
    assert log.add(asked("deep", "0.9")) == ""
    assert log.add(asked("deeper", "0.3"))
    assert log.add(asked("triage", "0.3", triage=True)) == ""
    assert log.left()[:2] == (Decimal("0.1"), Decimal("0.2"))
    denied = log.add(asked("triage-2", "0.3", triage=True))
    assert denied is not None and "triage's reserve of 0.5 USD too" in denied
    log.add(paid("triage", "0.1"))
    assert log.left()[:2] == (Decimal("0.1"), Decimal("0.4"))


def test_an_unknown_price_is_denied_unless_the_limits_say_otherwise() -> None:
    log = Log(limits_of())
    denied = log.add(asked("a", None))
    assert denied is not None and "unknown" in denied and "ALLOW_UNPRICED" in denied
    log.add(limits_of(unpriced=True))
    assert log.add(asked("b", None)) == ""


def test_nothing_is_granted_before_any_limits_are_known() -> None:
    assert "no limits" in (Log().add(asked("a", "0.1")) or "")


def test_the_latest_limits_in_log_order_hold() -> None:
    log = Log(limits_of(units=1))
    assert log.add(asked("a", units=1)) == ""
    log.add(limits_of(units=3))
    assert [log.add(asked(n, units=1)) for n in "bc"] == ["", ""]
    log.add(limits_of(units=2))
    assert log.add(asked("d", units=1)), "what was granted stays granted, but no more is"


def test_limits_lowered_below_what_is_spent_leave_triage_only_what_both_together_allow() -> None:
    log = Log(limits_of("10", reserve="2"))
    assert log.add(asked("deep", "5")) == ""
    log.add(limits_of("4", reserve="2"))
    assert log.add(asked("triage", "1", triage=True)) == ""
    assert log.left() == (Decimal(-1), Decimal(0), 50)
    assert log.add(asked("triage-2", "0.5", triage=True))


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

AMOUNTS = st.decimals(min_value=0, max_value=5, places=3)
IDS = st.integers(0, 25).map(str)
PERCENT = st.sampled_from([0, 10, 33, 50, 100, 100])
RECORDS = st.one_of(
    st.builds(
        lambda i, usd, units, triage, kinds, group: Reserved(
            id=i, effect="search", provider="p", usd=usd, units=units, for_triage=triage, case_id="c", head_id="h",
            claim_kinds=kinds, group=group,
        ),
        IDS, st.none() | AMOUNTS, st.integers(0, 2), st.booleans(), st.sampled_from([(), DOUBTFUL, FORCED, BOTH]),
        st.sampled_from(["", "a", "b", UNLISTED, VERIFICATIONS]),
    ),
    st.builds(lambda i, usd, unused: Settled(id=i, usd=usd, by="0", unused=unused), IDS, st.none() | AMOUNTS, st.booleans()),
    st.builds(
        lambda usd, reserve, units, free, doubtful, forced, daily, group, unlisted, verification: LimitsSet(
            monthly_usd=usd, triage_reserve_usd=reserve, daily_units=units, allow_unpriced=free, by="0",
            doubtful_percent=doubtful, forced_percent=forced, daily_percent=daily, group_percent=group,
            unlisted_percent=unlisted, verification_percent=verification,
        ),
        st.decimals(min_value=0, max_value=20, places=2), AMOUNTS, st.integers(0, 8), st.booleans(), st.integers(0, 100), st.integers(0, 100),
        *[PERCENT] * 3, st.none() | PERCENT,
    ),
)  # fmt: skip
STEPS_MS = st.integers(-3_600_000, 40 * 24 * 3600 * 1000)
LOGS = st.lists(st.tuples(st.one_of(st.integers(0, 60_000), STEPS_MS), RECORDS), max_size=60)


class PlainBooks:
    """The same question, asked naively: everything granted, with its day and month, added up anew each time."""

    def __init__(self) -> None:
        self.granted: dict[str, list[object]] = {}

    def total(self, month: str, *, triage_too: bool) -> int:
        return sum(int(g[3]) for g in self.granted.values() if g[1] == month and (triage_too or not g[4]))  # type: ignore[call-overload]

    def sum(
        self,
        what: int,
        *,
        day: str = "",
        month: str = "",
        group: str | None = None,
        triage: bool | None = None,
        pot: str = "",
    ) -> int:
        """Add up a column: 2 the units, 3 the nano-USD, of the grants that are like this."""
        wanted = {0: day or None, 1: month or None, 4: triage, 6: group, 7: pot or None}
        alike = [g for g in self.granted.values() if all(w is None or g[n] == w for n, w in wanted.items())]  # type: ignore[index]
        return sum(int(g[what]) for g in alike)  # type: ignore[index]

    def units(self, day: str, of: Callable[[Any], bool] = lambda kinds: True, group: str | None = None) -> int:
        alike = (g for g in self.granted.values() if g[0] == day and of(g[5]) and group in (None, g[6]))  # type: ignore[index]
        return sum(int(g[2]) for g in alike)  # type: ignore[index]


def percent_in(limits: LimitsSet, group: str) -> int:
    asking = limits.group_percent if limits.verification_percent is None else limits.verification_percent
    return {"": 100, UNLISTED: limits.unlisted_percent, VERIFICATIONS: asking}.get(group, limits.group_percent)


@settings(max_examples=200)
@given(LOGS)
def test_no_grant_ever_passes_a_limit_and_every_reader_from_the_start_agrees(
    steps: list[tuple[int, BudgetRecord]],
) -> None:
    state, plain, now, latest, current = BudgetState(), PlainBooks(), int(NOON.timestamp() * 1000), 0, None
    log, decisions = [], []
    settled: set[str] = set()
    for offset, (step, record) in enumerate(steps):
        now = max(0, now + step)
        log.append((offset, now, record))
        decision = state.fold(offset, now, record)
        decisions.append(decision)
        latest = max(latest, now)
        at = datetime.fromtimestamp(latest / 1000, UTC)
        if isinstance(record, LimitsSet):
            current = record
        if isinstance(record, Settled) and record.id in plain.granted and record.id not in settled:
            settled.add(record.id)
            grant = plain.granted[record.id]
            grant[3] = 0 if record.unused else grant[3] if record.usd is None else nano_usd(record.usd)
            grant[2] = 0 if record.unused else grant[2]
        if decision is not None and not decision.denied:
            assert isinstance(record, Reserved) and current is not None
            assert record.id not in plain.granted, "no id is granted twice"
            nano = 0 if record.usd is None else nano_usd(record.usd)
            kinds = record.claim_kinds
            group = record.group
            plain.granted[record.id] = [
                *(f"{at:%Y-%m-%d}", f"{at:%Y-%m}", record.units, nano, record.for_triage, kinds, group),
                state.held[record.id].pot,
            ]
            percent = percent_in(current, group)
            if record.units:
                day, most = f"{at:%Y-%m-%d}", current.daily_units
                assert plain.units(day) <= most
                doubtful = plain.units(day, lambda kinds: "doubtful" in kinds)
                assert "doubtful" not in kinds or 100 * doubtful <= most * current.doubtful_percent
                kept = most - plain.units(day, lambda kinds: "forced" not in kinds)
                assert "forced" in kinds or 100 * (kept + 1) > most * current.forced_percent
                assert not group or 100 * plain.sum(2, day=day, group=group) <= most * percent
                rumours = plain.units(day, lambda kinds: "doubtful" in kinds, UNLISTED)
                assert "doubtful" not in kinds or group != UNLISTED or 100 * rumours <= current.doubtful_units * percent
            if nano:
                month, general = f"{at:%Y-%m}", nano_usd(current.monthly_usd)
                assert record.for_triage or plain.total(month, triage_too=False) <= general
                assert plain.total(month, triage_too=True) <= general + nano_usd(current.triage_reserve_usd)
                day, most = f"{at:%Y-%m-%d}", general * current.daily_percent
                assert record.for_triage or 100 * plain.sum(3, day=day, pot="general") <= most
                alike = {"group": group, "triage": record.for_triage}
                if (group and not record.for_triage) or (group == UNLISTED and percent < 100):
                    assert 10_000 * plain.sum(3, day=day, **alike) <= most * percent
                if group == UNLISTED and percent < 100:
                    assert 100 * plain.sum(3, month=month, **alike) <= general * percent
                    assert state.held[record.id].pot == "general", "the reserve is not for them"
    again = BudgetState()
    assert [again.fold(*entry) for entry in log] == decisions
    assert (again.days, again.months, again.held, again.alerts) == (state.days, state.months, state.held, state.alerts)


_DAYS = st.integers(min_value=0, max_value=80)
_IDS = st.sampled_from([f"id-{n}" for n in range(12)])
_USD = st.sampled_from([None, "0", "0.01", "0.7", "25"])
_RECORDS = st.one_of(
    st.builds(
        asked,
        _IDS,
        _USD,
        units=st.integers(0, 3),
        triage=st.booleans(),
        kinds=st.sampled_from([(), ("doubtful",), ("doubtful", "forced"), ("investigation",)]),
        group=st.sampled_from(["", UNLISTED, "wire"]),
    ),
    st.builds(paid, _IDS, _USD, unused=st.booleans()),
    st.builds(limits_of, st.sampled_from(["1", "30"]), units=st.integers(1, 20), unlisted=st.sampled_from([10, 100])),
    st.builds(lambda offset: PassedBy(offsets=(offset,)), st.integers(0, 30)),
    st.just("garbage"),
)


@given(st.lists(st.tuples(_RECORDS, _DAYS), max_size=60), st.data())
def test_a_kept_state_and_the_tail_come_to_the_state_of_the_whole_log(records: list[Any], data: Any) -> None:
    whole, resumed = BudgetState(), BudgetState()
    cut = data.draw(st.integers(0, len(records)))
    for offset, (record, day) in enumerate(records):
        if offset == cut:
            resumed = stored_and_loaded(resumed)
        ms = int((NOON + timedelta(days=day)).timestamp() * 1000)
        decisions = []
        for state in (whole, resumed):
            if record == "garbage":
                state.ignore(offset, ms, "garbage")
            else:
                decisions.append(state.fold(offset, ms, record))
        assert not decisions or decisions[0] == decisions[1]
    assert vars(resumed) == vars(whole)
    assert vars(stored_and_loaded(whole)) == vars(whole)


def stored_and_loaded(state: BudgetState) -> BudgetState:
    return BudgetState.of(msgspec.msgpack.decode(msgspec.msgpack.encode(state.kept()), type=KeptBudget))
