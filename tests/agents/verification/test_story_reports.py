"""Several analysed reports of one event: a party's own page is evidence, and the better founded signal stays."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from agents.evidence.verdict import better_founded
from agents.specification import given, opened
from schemas.config import Snapshot
from schemas.effects import FindStory, FunctionCall, ModelReply, StoryReply, StoryReport
from schemas.events import (
    CaseDropped,
    ContextGathered,
    EarlierReport,
    EvidenceCritiqued,
    RetractionFound,
    Rival,
    SignalSynthesized,
    StoryChecked,
    ToolPlanned,
)
from schemas.ids import LIVE_RUN, signal_id
from schemas.signals import StatedClaim
from tests.agents.conftest import NEWS

PAGE = "https://poly.network/incident"
EARLIER = EarlierReport(case_id="first", language="en", verdict="unconfirmed", same_slots=True)
NOTHING = ToolPlanned(
    round=1, tools=(), search_keywords="", keywords_from="none", decided_by="never_search", reason="", tasks=(),
    route="critique",
)  # fmt: skip


@pytest.fixture
def case(deep: Snapshot, triaged: Any, no_memory: ContextGathered) -> Any:
    """Returns the events of a case up to its critique. ``found``: a search that found something; else none was made."""

    def of(
        page: str | None = PAGE, *earlier: EarlierReport, text: str = NEWS, found: Any = None, modality: Any = "asserted",
        **draft: Any,
    ) -> Any:  # fmt: skip
        news = opened(text, source="poly")
        news = replace(news, news=replace(news.news, url=page), authenticated=page is not None)
        claim = StatedClaim(subject="Poly Network", predicate="hacked", modality=modality)
        checked = StoryChecked(route="deep", own_page=page, earlier=earlier)
        told = replace(triaged("story", **draft), then="deep", claim=claim)
        end = (NOTHING,) if found is None else (replace(NOTHING, route="search"), found)
        return (news, told, checked, no_memory, *end)

    return of


def synthesized(events: Any, deep: Snapshot) -> Any:
    reply = ModelReply(
        data={
            "summary": NEWS, "summary_zh": NEWS, "summary_en": NEWS, "action": "sell", "direction": "short",
            "strength": "high", "timeframe": "short", "adjustment": 0.0, "reason": "", "risk_flags": [],
        }
    )  # fmt: skip
    critique = given(*events, config=deep).told().event
    assert critique.route == "synthesize"
    return given(*events, critique, config=deep).told(reply).event.signal


def test_the_partys_own_word_on_its_own_site_is_confirmed_by_one_source_without_any_search(
    case: Any, deep: Snapshot
) -> None:
    signal = synthesized(case(), deep)
    assert (signal.verdict, signal.supporting_sources, signal.action) == ("confirmed", 1, "sell")
    (page,) = signal.evidence
    assert (page.url, page.official, page.stance) == (PAGE, True, "supports")


@pytest.mark.security
@pytest.mark.parametrize(
    "page",
    [
        None,
        "https://www.coindesk.com/poly",
        "https://www.binance.com/en/support/announcement/1",
        "https://x.com/polynetwork2/status/1",
        "https://www.sec.gov/Archives/edgar/data/1679788/1.htm",
        "https://poly-network-news.example/incident",
    ],
    ids=["no page", "a medium", "another party", "an account", "a filing", "a stranger"],
)
def test_nobody_elses_page_is_the_partys_word(case: Any, deep: Snapshot, page: str | None) -> None:
    events = case(page)
    critique = given(*events, config=deep).told().event
    ended = given(*events, critique, config=deep).told().event
    assert isinstance(ended, SignalSynthesized)
    assert (ended.signal.verdict, ended.signal.evidence) == ("unchecked", ())


def test_a_party_that_speaks_of_a_rumour_claims_nothing(case: Any, deep: Snapshot) -> None:
    signal = synthesized(case(modality="rumoured"), deep)
    assert (signal.verdict, signal.supporting_sources, signal.action) == ("unconfirmed", 0, "observe")


def asked(events: Any, deep: Snapshot) -> FindStory:
    return FindStory(case_id=events[0].news.case_id, hours=deep.story_window_hours, again=True)


def now(verdict: Any) -> StoryReply:
    """What became of the first report by the time of the critique."""
    first = StoryReport(
        case_id="first",
        source="s",
        language="en",
        text=NEWS,
        published_at=opened(NEWS).news.published_at,
        verdict=verdict,
    )
    return StoryReply(tellings=(first,))


@pytest.mark.parametrize("verdict", ["unconfirmed", "unchecked", "stale", "disputed", "likely", "confirmed", None])
def test_the_partys_own_page_supersedes_the_earlier_signals_of_its_story(
    case: Any, deep: Snapshot, verdict: Any
) -> None:
    events = case(PAGE, EARLIER)
    spec = given(*events, config=deep)
    spec.ask_gives(asked(events, deep))
    critique = spec.told(now(verdict)).event
    (one,) = critique.concerned
    assert (one.of_case, one.kind, critique.route) == ("first", "superseded", "retract")
    retraction = given(*events, critique, config=deep).told().event
    assert isinstance(retraction, RetractionFound)
    assert retraction.signal_id == signal_id(LIVE_RUN, "first")
    assert retraction.rival == Rival(verdict="confirmed", own_page=True, same_slots=True)
    assert retraction.reason.startswith("a better-founded report of the same event: case ")
    assert [e.stance for e in retraction.evidence] == ["supports"]
    chinese = replace(critique, concerned=(replace(one, language="zh"),))
    assert "对同一事件的报道依据更充分" in given(*events, chinese, config=deep).told().event.reason


def test_a_case_that_found_no_more_than_a_likely_earlier_one_leaves_one_signal(
    case: Any, deep: Snapshot, searched: Any
) -> None:
    events = case(None, EARLIER, found=searched(references=0))
    critique = given(*events, config=deep).told(now("likely")).event
    assert (critique.route, critique.same_story_as, critique.concerned) == ("same_story", "first", ())
    given(*events, critique, config=deep).emits(
        CaseDropped(reason="same_story", detail="an earlier case tells the same event", duplicate_of="first")
    )


def test_one_that_states_more_keeps_its_own_signal_beside_it(case: Any, deep: Snapshot, searched: Any) -> None:
    events = case(None, replace(EARLIER, same_slots=False), found=searched(references=0))
    critique = given(*events, config=deep).told(now("likely")).event
    assert (critique.route, critique.concerned) == ("synthesize", ())


def test_where_the_log_does_not_answer_the_verdict_of_the_look_up_counts(case: Any, deep: Snapshot) -> None:
    events = case(PAGE, EARLIER)
    critique = given(*events, config=deep).told(StoryReply()).event
    assert isinstance(critique, EvidenceCritiqued) and [c.of_case for c in critique.concerned] == ["first"]


@pytest.mark.parametrize(
    ("later", "earlier", "own_page", "stays"),
    [
        ("confirmed", "likely", False, "later"), ("refuted", "likely", False, "later"),
        ("likely", "disputed", False, "later"), ("unconfirmed", "unconfirmed", False, "neither"),
        ("disputed", "unconfirmed", False, "neither"), ("unconfirmed", "disputed", False, "neither"),
        ("unchecked", "stale", False, "neither"), ("unchecked", "unconfirmed", False, "neither"), ("refuted", "confirmed", False, "neither"),
        ("likely", "likely", False, "earlier"), ("likely", "likely", True, "later"),
        ("confirmed", "confirmed", False, "earlier"), ("confirmed", "confirmed", True, "later"),
        ("unconfirmed", "confirmed", False, "earlier"), ("disputed", "likely", False, "neither"),
        ("stale", "confirmed", True, "neither"), ("confirmed", "refuted", False, "neither"),
    ],
)  # fmt: skip
def test_of_two_signals_of_one_event_the_better_founded_stays_and_a_doubt_is_not_hidden(
    later: Any, earlier: Any, own_page: bool, stays: str
) -> None:
    assert better_founded(later, earlier, own_page=own_page) == stays


@pytest.mark.security
@pytest.mark.parametrize(
    ("earlier", "action"),
    [
        (replace(EARLIER, verdict="likely"), "observe"),
        (replace(EARLIER, verdict="likely", same_slots=False), "sell"),
        (EARLIER, "sell"),
    ],
)
def test_the_single_pass_gives_no_second_order_on_an_event_that_has_one(
    deep: Snapshot, triaged: Any, found: Any, judged: Any, earlier: EarlierReport, action: str
) -> None:
    told = replace(triaged("story"), then="single_pass")
    path = (opened(NEWS), told, StoryChecked(route="single_pass", earlier=(earlier,)))
    search = ModelReply(function_calls=(FunctionCall(name="search_news", args={"query": "Poly"}),))
    pages = found("onchainpost.example", "defidigest.example")
    signal = given(*path, config=deep).told(search, pages, judged()).event.signal
    assert (signal.verdict, signal.action) == ("likely", action)
    assert ("an earlier signal of the event has the order (case first)" in signal.notes) == (action == "observe")
