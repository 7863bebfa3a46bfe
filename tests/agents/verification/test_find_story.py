"""The story steps: a re-telling ends before anything dear, and what it bears out goes to the first one's signal."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from agents.specification import START, TICK, given, opened
from schemas.config import Snapshot
from schemas.effects import EarlierReply, Failure, FindStory, StoryReply, Telling
from schemas.events import CaseDropped, CaseTriaged, EventReceived, SignalSynthesized, StoryChecked, StoryCorroborated
from schemas.signals import StatedClaim
from tests.agents.conftest import TELLINGS

FIRST = "Poly Network exploited, more than $600M moved from three chains"


@pytest.fixture
def stories(deep: Snapshot) -> Snapshot:
    return replace(deep, story_window_hours=48.0)


@pytest.fixture
def tells(draft: Any) -> Any:
    """Returns the events of a triaged case that tells of the hack, published at ``url``."""

    def of(text: str, url: str | None, then: str = "deep") -> tuple[EventReceived, CaseTriaged]:
        news = opened(text, source="wire")
        claim = StatedClaim(subject="Poly Network", predicate="hacked")
        return replace(news, news=replace(news.news, url=url)), CaseTriaged(
            draft=draft, route="story", then=then, gate_reason="", rollout_bucket=0.0, claim=claim
        )

    return of


def telling(case: str, url: str | None, text: str, language: str = "en") -> Telling:
    return Telling(case_id=case, source="s", language=language, text=text, published_at=START - TICK, url=url)


ROOT = telling("first", "https://blog.example/poly", FIRST)


DROPPED = CaseDropped(reason="same_story", detail="an earlier case tells the same event", duplicate_of="first")


def test_the_first_telling_goes_on_where_the_gate_sent_it(tells: Any, stories: Snapshot) -> None:
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
def told(stories: Snapshot) -> Any:
    """Returns what a triaged case says of a story with these earlier tellings."""

    def of(events: Any, *tellings: Telling) -> Any:
        news = events[0].news
        own = telling(news.case_id, news.url, news.text)
        return given(*events, config=stories).told(StoryReply(tellings=tellings, own=own)).event

    return of


def test_an_established_owner_makes_the_first_ones_claim_likely_and_the_case_ends(
    tells: Any, told: Any, stories: Snapshot
) -> None:
    events = tells(TELLINGS[0], "https://www.coindesk.com/poly")
    event = told(events, ROOT)
    assert isinstance(event, StoryCorroborated)
    assert (event.of_case, event.verdict, event.supporting_sources) == ("first", "likely", 1)
    assert [e.url for e in event.evidence] == ["https://www.coindesk.com/poly"]
    assert event.reason.startswith("1 other source tells the same event")
    given(*events, event, config=stories).emits(DROPPED)


def test_nobody_is_a_witness_twice_nor_of_what_he_told_first_nor_for_whom_he_cites(tells: Any, told: Any) -> None:
    assert told(tells(TELLINGS[0], "https://blog.example/again"), ROOT) == DROPPED
    assert told(tells(TELLINGS[0], None), ROOT) == DROPPED
    desk = telling("first", "https://www.coindesk.com/poly", FIRST)
    citing = f"{TELLINGS[1]} CoinDesk reported it first."
    assert told(tells(citing, "https://decrypt.co/poly"), desk) == DROPPED
    assert isinstance(told(tells(TELLINGS[1], "https://decrypt.co/poly"), desk), StoryCorroborated)


def test_two_owners_that_nobody_vouches_for_are_needed_where_one_established_is_enough(tells: Any, told: Any) -> None:
    one = tells(TELLINGS[0], "https://stranger-one.example/poly")
    assert told(one, ROOT) == DROPPED
    event = told(one, ROOT, telling("second", "https://stranger-two.example/poly", TELLINGS[1]))
    assert isinstance(event, StoryCorroborated)
    assert (event.verdict, event.supporting_sources) == ("likely", 2)


def test_the_partys_own_page_confirms_and_a_chinese_first_telling_is_told_so_in_chinese(tells: Any, told: Any) -> None:
    root = telling("first", "https://blog.example/poly", "Poly Network 遭攻击，超过 6 亿美元被转出", "zh")
    event = told(
        tells("Poly Network was exploited; more than $600M was stolen from us.", "https://poly.network/n"), root
    )
    assert isinstance(event, StoryCorroborated) and event.verdict == "confirmed" and event.evidence[0].official
    assert event.reason.startswith("另有 1 个来源报道了同一事件")


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
