"""The figures of sources on journals that are worked out by hand, and what a source may try to look better."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from scipy import stats

from schemas.events import CaseDropped, EventReceived, RetractionFound, Rival
from schemas.news import News
from schemas.signals import MessagePart, SignalEvidence
from streams.reputation.fold import MOST_A_DAY, Reputation, ReputationFold
from streams.reputation.intervals import median_interval, rare
from tests.infra.clickhouse.clickhouse_samples import signal

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
DAY = timedelta(days=1)


def at(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


def opened(
    source: str, received_s: float | None, *, looked_s: float | None = None, group: str = "", **more: Any
) -> EventReceived:
    """An item that was received so many seconds after noon; ``looked_s``: when its source was looked at before."""
    extra: dict[str, Any] = {"group": group} if group else {}
    if looked_s is not None:
        extra["previous_look_at"] = at(looked_s).isoformat()
    received = None if received_s is None else at(received_s)
    news = News(
        source=source, text="text", published_at=at((received_s or 0.0) - 30), received_at=received, extra=extra,
        url=f"https://www.{group or source}.example/news",
    )  # fmt: skip
    more.setdefault("authenticated", True)
    return EventReceived(news=news, config_hash="c", text_hash="t", language="en", **more)


class Report:
    """A journal that is written by hand."""

    def __init__(self) -> None:
        self.fold = ReputationFold()

    def case(self, case_id: str, source: str, received_s: float | None = 0.0, **more: Any) -> None:
        days, of = more.pop("days", 0), more.pop("of", None)
        event = opened(source, None if received_s is None else received_s + days * DAY.total_seconds(), **more)
        self.fold.take(case_id, event, at((received_s or 0.0) + 1) + days * DAY)
        if of is not None:
            self.fold.take(case_id, CaseDropped(reason="duplicate", detail="by hand", duplicate_of=of), NOON)

    def judged(
        self, case_id: str, verdict: str | None = "confirmed", *pages: str, stage: str = "final", revision: int = 1
    ) -> None:
        evidence = tuple(
            SignalEvidence(url=f"https://{p}/x", hash="h", stance="supports", reference_number=1) for p in pages
        )
        self.fold.publish(signal(case_id=case_id, verdict=verdict, evidence=evidence, stage=stage, revision=revision))

    def __getitem__(self, source: str) -> Reputation:
        (found,) = [one for one in self.fold.reputations(NOON + 80 * DAY) if one.source == source]
        return found


def test_who_is_first_counts_only_where_the_look_before_did_not_show_it_elsewhere() -> None:
    told = Report()
    # Five stories of both: fast is 50 s before slow, whose looks before were 40, 40, 60 (it may have had it) and … seconds before.
    for n, (gap_s, looked_s) in enumerate([(50, 10), (50, 10), (50, -10), (50, None), (10, 5)]):
        told.case(f"f{n}", "fast", n * 1000, looked_s=n * 1000 - 15)
        told.case(
            f"s{n}", "slow", n * 1000 + gap_s, looked_s=None if looked_s is None else n * 1000 + looked_s, of=f"f{n}"
        )
    told.case("own", "fast", 9000)  # nobody else tells it: nothing is said of who was first
    fast, slow = told["fast"], told["slow"]
    assert (fast.stories, fast.first.count, fast.first.of, fast.tied) == (6, 3, 5, 2)
    assert fast.lead_s is not None and (fast.lead_s.median, fast.lead_s.low) == (10, None), (
        "of 0, 0, 10, 50, 50; too few for bounds"
    )
    assert (slow.first.count, slow.first.of, slow.tied, slow.copies.count, slow.copies.of) == (0, 5, 2, 5, 5)
    assert slow.lead_s is not None and slow.lead_s.median == -10
    assert (fast.first.low, fast.first.high) == pytest.approx(stats.binomtest(3, 5).proportion_ci(method="wilson"))
    assert (fast.copies.count, fast.lag_s) == (0, 30)


def test_verdicts_count_of_what_was_searched_for_and_withdrawals_of_signals() -> None:
    told = Report()
    for n, verdict in enumerate(["confirmed", "confirmed", "refuted", "unconfirmed", "unchecked", None]):
        told.case(f"c{n}", "wire", n)
        told.judged(f"c{n}", verdict, "other.example")
    told.judged("c0", "confirmed", "other.example", stage="retracted", revision=2)
    told.case("c7", "wire", 7)  # a first judgement of a case without a last one: no signal, and no retraction
    told.judged("c7", "unchecked", stage="preliminary")
    told.judged("c7", "unchecked", stage="retracted", revision=2)
    # An unconfirmed story that other owners bear out later: the newest final revision counts.
    told.judged("c3", "confirmed", "another.example", revision=2)
    wire = told["wire"]
    assert (wire.confirmed.count, wire.refuted.count, wire.confirmed.of, wire.refuted.of) == (3, 1, 4, 4)
    assert (wire.retracted.count, wire.retracted.of, wire.retracted.share) == (1, 6, 2 / 26)
    after = stats.beta(1 + 1, 19 + 5)
    assert (wire.retracted.low, wire.retracted.high) == pytest.approx((after.ppf(0.025), after.ppf(0.975)))


def test_pages_of_its_own_domain_or_group_confirm_nothing() -> None:
    told = Report()
    told.case("own", "wire")
    told.judged("own", "confirmed", "blog.wire.example")
    told.case("group", "desk-a", group="house")
    told.case("sister", "desk-b", group="house", looked_s=-60)
    told.judged("group", "confirmed", "house.example")
    told.case("borne", "free", group="freehold")
    told.judged("borne", "confirmed", "freehold.example", "other.example")
    assert [told[s].confirmed.count for s in ("wire", "desk-a", "free")] == [0, 0, 1]
    assert [told[s].confirmed.of for s in ("wire", "desk-a", "free")] == [1, 1, 1]


def test_sources_of_one_group_are_no_rivals() -> None:
    told = Report()
    told.case("a", "desk-a", 0, group="house", looked_s=-10)
    told.case("b", "desk-b", 100, group="house", looked_s=90, of="a")
    assert (told["desk-a"].first.of, told["desk-b"].first.of, told["desk-b"].copies.count) == (0, 0, 1)


def test_a_story_counts_once_through_chains_edits_and_copies_of_ones_own() -> None:
    told = Report()
    told.case("root", "wire", 0)
    told.case("edit", "wire", 50, edits="root")
    told.case("again", "wire", 60, of="edit")
    told.case("copy", "other", 90, looked_s=80, of="again")
    assert (told["wire"].stories, told["wire"].edited, told["wire"].copies.count) == (1, 1, 0)
    assert (told["wire"].first.count, told["other"].stories, told["other"].copies.count) == (1, 1, 1)


def test_further_claims_of_a_message_are_no_stories_of_its_source() -> None:
    told = Report()
    told.case("a", "wire")
    told.case("b", "wire", part=MessagePart(first_case="a", asset="ARB", assets=("ZK", "ARB"), text="t"))
    told.judged("a", "confirmed", "other.example")
    told.judged("b", "refuted", "other.example")
    assert (told["wire"].stories, told["wire"].confirmed.count, told["wire"].refuted.count) == (1, 1, 0)


def test_at_most_so_many_stories_of_a_day_count_whatever_comes_first() -> None:
    told = Report()
    for n in range(3 * MOST_A_DAY):  # a flood of harmless ones first, and then what is taken back
        told.case(f"{n * 7 % 60:02}", "flood", n)
    told.judged("00", "refuted")
    told.case("next day", "flood", 1, days=1)
    assert (told["flood"].stories, told["flood"].refuted.count) == (MOST_A_DAY + 1, 1)


def test_a_new_source_starts_at_the_prior_and_is_unrated_below_20_stories() -> None:
    told = Report()
    for n in range(19):
        told.case(f"c{n}", "new", n)
    assert (told["new"].rated, told["new"].retracted.share, told["new"].lead_s) == (False, 0.05, None)
    told.case("c19", "new", 19)
    assert told["new"].rated and told["new"].first.share is None


def test_what_is_old_played_in_afterwards_or_follows_an_old_case_is_left_out() -> None:
    told = Report()
    told.case("old", "wire", 0, days=-11)
    told.case("follows", "wire", 0, of="old")
    told.case("fresh", "wire", 0)
    told.case("played in", "archive", None, of="fresh")
    assert (told["wire"].stories, told["wire"].first.of, told["archive"].first.of) == (1, 0, 0)
    assert (told["archive"].stories, told["archive"].lag_s) == (1, None), "told, and nobody knows when it was received"


def test_intervals_are_those_of_scipy() -> None:
    for events, count in ((0, 0), (0, 59), (3, 57), (180, 1800)):
        of = stats.beta(1 + events, 19 + count - events)
        assert rare(events, count) == pytest.approx((of.mean(), of.ppf(0.025), of.ppf(0.975)), abs=1e-12)
    values = [float(n * n % 101) for n in range(51)]
    drawn = stats.bootstrap(
        (values,), lambda v, axis: stats.quantile(v, 0.5, axis=axis), method="percentile", rng=1, n_resamples=20_000
    )
    assert median_interval(values) == (drawn.confidence_interval.low, drawn.confidence_interval.high)
    assert median_interval(values[:5]) is None


def test_a_signal_that_a_better_founded_report_supersedes_is_no_retraction_and_its_story_is_one() -> None:
    told = Report()
    told.case("early", "wire", 0, looked_s=-60)
    told.judged("early", "likely")
    told.judged("early", "likely", stage="superseded", revision=2)
    told.case("late", "desk", 90, looked_s=30)
    rival = Rival(verdict="confirmed", own_page=True)
    told.fold.take(
        "late", RetractionFound(signal_id="s", of_case="early", kind="superseded", reason="r", rival=rival), at(100)
    )
    assert (told["wire"].retracted.count, told["wire"].first.count, told["desk"].first.of) == (0, 1, 1)
    told.judged("early", "refuted", stage="retracted", revision=3)
    assert told["wire"].retracted.count == 1
