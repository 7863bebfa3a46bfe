"""The story steps: a report that adds nothing to a likely signal ends before anything dear, and may corroborate it."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from agents.evidence.story import story_of
from agents.evidence.verdict import better_founded
from schemas.config import Snapshot
from schemas.effects import EarlierReply, Failure, FindStory, FunctionCall, ModelReply, StoryReply, StoryReport
from schemas.events import (
    CaseDropped,
    CaseTriaged,
    ContextGathered,
    EarlierReport,
    EventReceived,
    EvidenceCritiqued,
    RetractionFound,
    Rival,
    SignalSynthesized,
    StoryChecked,
    StoryCorroborated,
    ToolPlanned,
)
from schemas.ids import LIVE_RUN, signal_id
from schemas.signals import StatedClaim
from tests.agents.conftest import NEWS, TELLINGS
from tests.agents.verification.test_endings import synthesis
from tests.specification import START, TICK, given, opened

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


def test_the_first_report_goes_on_where_the_gate_sent_it_and_one_that_was_not_checked_says_so(
    tells: Any, stories: Snapshot
) -> None:
    for then in ("deep", "single_pass", "preliminary"):
        spec = given(*tells(TELLINGS[0], "https://www.coindesk.com/poly", then), config=stories)
        spec.ask_gives(FindStory(case_id=spec.case.case_id, hours=48.0))
        spec.told(StoryReply()).emits(StoryChecked(route=then))
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


def test_an_established_owner_corroborates_the_first_ones_claim_also_by_a_title_and_the_case_ends(
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
    critique = given(*events, config=deep).told().event
    assert critique.route == "synthesize"
    return (
        given(*events, critique, config=deep).told(synthesis(adjustment=0.0, timeframe="short", reason="")).event.signal
    )


def test_the_partys_own_word_on_its_own_site_is_confirmed_without_any_search_and_a_rumour_is_none(
    case: Any, deep: Snapshot
) -> None:
    signal = synthesized(case(), deep)
    assert (signal.verdict, signal.supporting_sources, signal.action) == ("confirmed", 1, "sell")
    (page,) = signal.evidence
    assert (page.url, page.official, page.stance) == (PAGE, True, "supports")
    signal = synthesized(case(modality="rumoured"), deep)
    assert (signal.verdict, signal.supporting_sources, signal.action) == ("unconfirmed", 0, "observe")


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


def asked(events: Any, deep: Snapshot) -> FindStory:
    return FindStory(case_id=events[0].news.case_id, hours=deep.story_window_hours, again=True)


def now(verdict: Any) -> StoryReply:
    """What became of the first report by the time of the critique."""
    news = opened(NEWS).news
    first = StoryReport(
        case_id="first", source="s", language="en", text=NEWS, published_at=news.published_at, verdict=verdict
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


def test_a_case_that_found_no_more_than_a_likely_earlier_one_leaves_one_signal_unless_it_states_more(
    case: Any, deep: Snapshot, searched: Any
) -> None:
    events = case(None, EARLIER, found=searched(references=0))
    critique = given(*events, config=deep).told(now("likely")).event
    assert (critique.route, critique.same_story_as, critique.concerned) == ("same_story", "first", ())
    given(*events, critique, config=deep).emits(DROPPED)
    events = case(None, replace(EARLIER, same_slots=False), found=searched(references=0))
    critique = given(*events, config=deep).told(now("likely")).event
    assert (critique.route, critique.concerned) == ("synthesize", ())


def test_where_the_log_does_not_answer_the_verdict_of_the_look_up_counts(case: Any, deep: Snapshot) -> None:
    events = case(PAGE, EARLIER)
    critique = given(*events, config=deep).told(StoryReply()).event
    assert isinstance(critique, EvidenceCritiqued) and [c.of_case for c in critique.concerned] == ["first"]


def test_of_two_signals_of_one_event_the_better_founded_stays_and_a_doubt_is_not_hidden() -> None:
    expected = {
        ("confirmed", "likely", False): "later", ("refuted", "likely", False): "later",
        ("likely", "disputed", False): "later", ("unconfirmed", "unconfirmed", False): "neither",
        ("disputed", "unconfirmed", False): "neither", ("unconfirmed", "disputed", False): "neither",
        ("unchecked", "stale", False): "neither", ("unchecked", "unconfirmed", False): "neither", ("refuted", "confirmed", False): "neither",
        ("likely", "likely", False): "earlier", ("likely", "likely", True): "later",
        ("confirmed", "confirmed", False): "earlier", ("confirmed", "confirmed", True): "later",
        ("unconfirmed", "confirmed", False): "earlier", ("disputed", "likely", False): "neither",
        ("stale", "confirmed", True): "neither", ("confirmed", "refuted", False): "neither",
    }  # fmt: skip
    assert {
        (later, earlier, own_page): better_founded(later, earlier, own_page=own_page)
        for later, earlier, own_page in expected
    } == expected


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
