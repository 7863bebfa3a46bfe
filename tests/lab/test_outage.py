"""A provider is away for six simulated minutes: signals go on and say so, nobody is stormed, and it ends by itself.

The clock is simulated and jumps over every wait, so the figures are the same in every run on every machine.
"""

from __future__ import annotations

import asyncio

import pytest

from lab.outage import OutageReport, outage
from lab.outage.run import Trouble
from schemas.errors import FailureKind
from tests.virtual_time import run_virtually, virtual_s

BEFORE, AWAY, AFTER, PER_MINUTE = 2, 6, 3, 4
PROBES_A_MINUTE = 3
"""An open breaker lets one probe through every 30 to 36 s once it has failed often enough; a minute may hold three edges."""


def run(trouble: Trouble, *, fallback: bool = False, kind: FailureKind = "unavailable") -> OutageReport:
    minutes = {"before_min": BEFORE, "away_min": AWAY, "after_min": AFTER, "news_per_min": PER_MINUTE}
    report = outage(trouble, fallback=fallback, kind=kind, **minutes)
    print(report.table())
    return report


@pytest.mark.slow
def test_a_quota_of_the_day_holds_news_back_and_spends_none_of_it() -> None:
    report = outage(
        "light", kind="rate_limit", says_until=True, before_min=2, away_min=30, after_min=10, news_per_min=4
    )
    assert sum(m.failed for m in report.minutes) <= 3, "those that were open when the quota ended"
    assert sum(m.asked for m in report.minutes[5:30]) <= 3, "nobody asks before its end"
    assert_it_ends_by_itself(report)


def assert_no_storm(report: OutageReport) -> None:
    first, *rest = [m for m in report.minutes if m.away]
    assert first.asked <= PER_MINUTE * 3 + 5, "until it opens the breaker lets calls through"
    assert all(m.asked <= PROBES_A_MINUTE for m in rest[1:]), [m.asked for m in rest]
    assert sum(m.asked for m in rest) > 0, "without a probe it would never end"


def assert_it_ends_by_itself(report: OutageReport) -> None:
    *_, last = report.minutes
    assert (last.whole, last.marked, last.failed) == (PER_MINUTE, 0, 0)
    assert "open" not in report.states
    assert [m.whole for m in report.minutes[:BEFORE]] == [PER_MINUTE] * BEFORE, "it was well before"


@pytest.mark.parametrize("kind", ["unavailable", "timeout"])
def test_without_search_every_case_ends_in_a_signal_that_says_so(kind: FailureKind) -> None:
    report = run("search", kind=kind)
    assert_no_storm(report)
    assert_it_ends_by_itself(report)
    middle = report.minutes[BEFORE + 1 : BEFORE + AWAY - 2]
    assert all((m.marked, m.failed) == (PER_MINUTE, 0) for m in middle)
    assert sum(m.failed for m in report.minutes) == 0
    assert {f.partition(":")[0] for f in report.flags} == {"search_skipped"}


@pytest.mark.slow
def test_without_the_heavy_model_every_case_degrades_and_says_so() -> None:
    report = run("heavy")
    assert_no_storm(report)
    assert_it_ends_by_itself(report)
    assert all((m.marked, m.failed) == (PER_MINUTE, 0) for m in report.minutes[BEFORE + 1 : BEFORE + AWAY - 2])
    assert {f.partition(":")[0] for f in report.flags} == {"degraded"}


@pytest.mark.parametrize("trouble", ["heavy", "light"])
def test_with_a_fallback_nobody_notices(trouble: Trouble) -> None:
    report = run(trouble, fallback=True)
    assert_no_storm(report)
    assert_it_ends_by_itself(report)
    assert all((m.whole, m.marked, m.failed) == (PER_MINUTE, 0, 0) for m in report.minutes[: BEFORE + AWAY + AFTER])
    assert (report.flags, report.held_back) == ({}, 0)


def test_without_any_model_news_is_held_back_rather_than_failed_and_comes_through_afterwards() -> None:
    report = run("light")
    assert_no_storm(report)
    assert_it_ends_by_itself(report)
    assert report.held_back >= PER_MINUTE * (AWAY - 2)
    held = report.minutes[BEFORE + 2 : BEFORE + AWAY]
    assert all(m.failed <= 1 for m in held) and sum(m.whole for m in held) >= PER_MINUTE * (AWAY - 3)
    lost = sum(m.failed for m in report.minutes)
    assert lost <= PER_MINUTE, "only what was let in to find out, or was open already, can fail"


def test_the_clock_skips_waits_and_finds_a_run_that_can_never_go_on() -> None:
    async def an_hour() -> float:
        await asyncio.gather(asyncio.sleep(3600), asyncio.sleep(1800))
        return virtual_s()

    async def for_ever() -> None:
        await asyncio.get_running_loop().create_future()

    assert run_virtually(an_hour()) == pytest.approx(3600, abs=1e-3)
    with pytest.raises(RuntimeError, match="nothing will ever happen"):
        run_virtually(for_ever())
