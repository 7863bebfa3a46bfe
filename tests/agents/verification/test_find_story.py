"""The story steps: a report that adds nothing to a likely signal ends before anything dear, and may corroborate it."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from agents.evidence.story import story_of
from agents.specification import START, TICK, given, opened
from schemas.config import Snapshot
from schemas.effects import EarlierReply, Failure, FindStory, StoryReply, StoryReport
from schemas.events import (
    CaseDropped,
    CaseTriaged,
    EarlierReport,
    EventReceived,
    SignalSynthesized,
    StoryChecked,
    StoryCorroborated,
)
from schemas.signals import StatedClaim
from tests.agents.conftest import TELLINGS

FIRST = "Poly Network exploited, more than $600M moved from three chains"


@pytest.fixture
def stories(deep: Snapshot) -> Snapshot:
    return replace(deep, story_window_hours=48.0)


CLAIM = StatedClaim(subject="Poly Network", predicate="hacked")


@pytest.fixture
def tells(draft: Any, stories: Snapshot) -> Any:
    """Returns the events of a triaged case that reports the hack, published at ``url``."""

    def of(text: str, url: str | None, then: str = "deep", **changes: Any) -> tuple[EventReceived, CaseTriaged]:
        news, of_it = opened(text, source="wire"), replace(draft, **changes)
        return replace(news, news=replace(news.news, url=url), authenticated=True), CaseTriaged(
            draft=of_it, route="story", then=then, gate_reason="", rollout_bucket=0.0, claim=CLAIM,
            story=story_of(of_it, CLAIM, stories.tables, text),
        )  # fmt: skip

    return of


@pytest.fixture
def telling(draft: Any, stories: Snapshot) -> Any:
    """Returns an earlier report as the index gives it, with a likely signal, or joined to the first one."""

    def of(case: str, url: str | None, text: str, language: str = "en", **changes: Any) -> StoryReport:
        plain = StoryReport(
            case_id=case, source="s", language=language, text=text, published_at=START - TICK, url=url, draft=draft,
            claim=CLAIM, story=story_of(draft, CLAIM, stories.tables, text), verdict="likely",
        )  # fmt: skip
        return replace(plain, **changes)

    return of


@pytest.fixture
def root(telling: Any) -> StoryReport:
    first: StoryReport = telling("first", "https://blog.example/poly", FIRST)
    return first


DROPPED = CaseDropped(reason="same_story", detail="an earlier case tells the same event", duplicate_of="first")


def test_the_first_report_goes_on_where_the_gate_sent_it(tells: Any, stories: Snapshot) -> None:
    for then in ("deep", "single_pass", "preliminary"):
        spec = given(*tells(TELLINGS[0], "https://www.coindesk.com/poly", then), config=stories)
        spec.ask_gives(FindStory(case_id=spec.case.case_id, hours=48.0))
        spec.told(StoryReply()).emits(StoryChecked(route=then))


def test_a_check_that_failed_does_not_stop_the_case_and_its_signal_says_so(tells: Any, stories: Snapshot) -> None:
    events = tells(TELLINGS[0], "https://www.coindesk.com/poly", "preliminary")
    unchecked = StoryChecked(route="preliminary", checked=False)
    given(*events, config=stories).told(Failure(kind="timeout", message="m", retryable=True)).emits(unchecked)
    ended = given(*events, unchecked, config=stories).told().event
    assert isinstance(ended, SignalSynthesized) and "story_unchecked" in ended.signal.risk_flags


@pytest.fixture
def told(telling: Any, stories: Snapshot) -> Any:
    """Returns what a triaged case says of a story with these earlier reports."""

    def of(events: Any, *earlier: StoryReport) -> Any:
        news = events[0].news
        own = telling(news.case_id, news.url, news.text, draft=None, claim=None, story=None, verdict=None)
        return given(*events, config=stories).told(StoryReply(tellings=earlier, own=own)).event

    return of


AGAIN = "Poly Network exploited, more than $600M was moved out"


def test_an_established_owner_corroborates_the_first_ones_claim_and_the_case_ends(
    tells: Any, told: Any, root: StoryReport, stories: Snapshot
) -> None:
    events = tells(AGAIN, "https://www.coindesk.com/poly")
    event = told(events, root)
    assert isinstance(event, StoryCorroborated)
    assert (event.of_case, event.verdict, event.supporting_sources) == ("first", "likely", 1)
    assert (event.asset, event.action, event.direction, event.live) == ("ETH", "sell", "short", True)
    assert [e.url for e in event.evidence] == ["https://www.coindesk.com/poly"]
    assert event.reason.startswith("1 other source reports the same event")
    given(*events, event, config=stories).emits(DROPPED)


def test_a_short_title_is_a_report(tells: Any, told: Any, root: StoryReport) -> None:
    assert isinstance(
        told(tells("Poly Network hacked, $600M gone", "https://decrypt.co/poly"), root), StoryCorroborated
    )


def test_another_order_than_the_first_ones_corroborates_nothing(tells: Any, told: Any, root: StoryReport) -> None:
    for changes in ({"direction": "long"}, {"action": "observe"}):
        assert told(tells(AGAIN, "https://www.coindesk.com/poly", **changes), root) == DROPPED
    other = told(tells(AGAIN, "https://www.coindesk.com/poly", asset="DOGE"), root)
    assert isinstance(other, StoryChecked) and not other.earlier, "another asset is another story"


def test_nobody_is_a_witness_twice_nor_of_what_he_told_first_nor_for_whom_he_cites(
    tells: Any, told: Any, telling: Any, root: StoryReport
) -> None:
    assert told(tells(AGAIN, "https://blog.example/again"), root) == DROPPED
    assert told(tells(AGAIN, None), root) == DROPPED
    desk = telling("first", "https://www.coindesk.com/poly", FIRST)
    citing = f"{AGAIN}\n\nCoinDesk reported it first."
    assert told(tells(citing, "https://decrypt.co/poly"), desk) == DROPPED
    assert isinstance(told(tells(AGAIN, "https://decrypt.co/poly"), desk), StoryCorroborated)


def test_two_owners_that_nobody_vouches_for_are_needed_where_one_established_is_enough(
    tells: Any, told: Any, telling: Any, root: StoryReport
) -> None:
    one = tells(AGAIN, "https://stranger-one.example/poly")
    assert told(one, root) == DROPPED
    second = telling("second", "https://stranger-two.example/poly", TELLINGS[1], joined=True, verdict=None)
    event = told(one, root, second)
    assert isinstance(event, StoryCorroborated)
    assert (event.verdict, event.supporting_sources) == ("likely", 2)


def test_the_partys_own_page_is_analysed_and_knows_the_signal_that_it_may_supersede(
    tells: Any, told: Any, root: StoryReport
) -> None:
    page = "https://poly.network/n"
    events = tells(AGAIN, page)
    event = told(events, root)
    assert event == StoryChecked(
        route="deep", own_page=page,
        earlier=(EarlierReport(case_id="first", language="en", verdict="likely", same_slots=True),),
    )  # fmt: skip
    forged = (replace(events[0], authenticated=False), events[1])
    assert isinstance(told(forged, root), CaseDropped | StoryCorroborated)


@pytest.mark.parametrize(
    ("window", "predicate", "wanted"),
    [(0.0, "hacked", ("deep", None)), (48.0, "hacked", ("story", "deep")), (48.0, "other", ("deep", None))],
    ids=["off", "on", "vague"],
)
def test_triage_looks_for_a_story_where_that_is_on_and_the_claim_is_not_too_vague(
    deep: Snapshot, judged: Any, window: float, predicate: str, wanted: tuple[str, str | None]
) -> None:
    claim = {
        "subject": "Poly Network", "predicate": predicate, "object": "", "amount": None, "asset": "", "venue": "",
        "modality": "asserted", "attribution": "none",
    }  # fmt: skip
    config = replace(deep, story_window_hours=window)
    event = given(opened(FIRST), config=config).told(EarlierReply(first_case=None), judged(claim=claim)).event
    assert (event.route, event.then) == wanted and (event.story is None) == (wanted[1] is None)
