"""Recall, search, scrape, expand and critique: failures are values, and nothing a model wrote is believed unchecked."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from msgspec.structs import replace

from agents.core.case import fold
from agents.evidence.witnesses import shown_to_critic
from agents.verification.critique import CritiqueEvidence
from infra.offline.newsroom.search import PlayedSearch
from infra.offline.sample_news import sample_news
from schemas.effects import (
    CallModel,
    Failure,
    ModelReply,
    PageReply,
    Recall,
    RecallReply,
    Scrape,
    Trusted,
    Untrusted,
    request_hash,
)
from schemas.events import (
    ContextGathered,
    EffectCompleted,
    EvidenceCritiqued,
    KeywordsExpanded,
    PagesScraped,
    SearchCompleted,
    StepFailed,
)
from schemas.evidence import Page
from tests import builders
from tests.agents.conftest import NEWS, TELLINGS, read
from tests.agents.verification import test_purity
from tests.specification import START, call_of, given, opened

DOWN = Failure(kind="unavailable", message="down", retryable=True)
WRONG_KEY = Failure(kind="auth", message="wrong key", retryable=False)
HOUSES = ("onchainpost.example", "defidigest.example", "tokentribune.example")


def failed_search(attempt):
    return StepFailed(step="search", failure=DOWN, attempt=attempt, outcome="retry", retry_at=START)


def test_recall_asks_as_of_the_case_s_own_time_by_what_the_listener_watched_for_and_never_for_itself(deep, triaged):
    event = opened(NEWS)
    wanted = Recall(text=NEWS, asset="ETH", as_of=START, limit=5, exclude_case=event.news.case_id)
    given(event, triaged(), config=deep).ask_gives(wanted)
    watched = replace(event, news=replace(event.news, keywords_hit=("exploit", "bridge")))
    assert given(watched, triaged(), config=deep).asked.keywords == ("exploit", "bridge")


def test_recall_says_plainly_what_it_found_and_leaves_weak_cases_out_where_the_configuration_says_so(deep, triaged):
    spec, entry = given(opened(NEWS), triaged(), config=deep), builders.memory_entry()
    spec.told(RecallReply(entries=(entry,))).emits(ContextGathered(entries=(entry,), memory="found"))
    spec.told(RecallReply(entries=())).emits(ContextGathered(entries=(), memory="no_match"))
    spec.told(DOWN).emits(ContextGathered(entries=(), memory="unavailable"))
    weak, sound = builders.memory_entry("a", confidence=0.39), builders.memory_entry("b", confidence=0.4)
    spec = given(opened(NEWS), triaged(), config=replace(deep, memory_min_confidence=0.4))
    spec.told(RecallReply(entries=(weak, sound))).emits(ContextGathered(entries=(sound,), memory="found"))
    spec.told(RecallReply(entries=(weak,))).emits(ContextGathered(entries=(), memory="no_match"))


def test_enough_evidence_goes_to_the_critique_little_to_expansion_and_to_scraping_where_that_is_on(
    deep, triaged, no_memory, planned, found
):
    spec = given(opened(NEWS), triaged(), no_memory, planned(), config=deep)
    spec.told(found(*HOUSES[:1])).emits_like(SearchCompleted, route="expand")
    spec.told(found()).emits_like(SearchCompleted, route="critique")
    off = replace(deep, tool_expand_enabled=False)
    given(opened(NEWS), triaged(), no_memory, planned(), config=off).told(found(*HOUSES[:1])).emits_like(
        SearchCompleted, route="critique"
    )
    on = replace(deep, tool_scrape_enabled=True)
    spec = given(opened(NEWS), triaged(), no_memory, planned(), config=on)
    spec.told(found(*HOUSES[:1])).emits_like(SearchCompleted, route="scrape")
    spec.told(found()).emits_like(SearchCompleted, route="critique")


def test_when_every_provider_is_down_for_now_the_step_is_retried_and_then_goes_on(deep, triaged, no_memory, planned):
    path = (opened(NEWS), triaged(), no_memory, planned())
    given(*path, config=deep).told(DOWN).fails_with("unavailable", retryable=True)
    given(*path, failed_search(1), config=deep).told(DOWN).fails_with("unavailable", retryable=True)
    last = given(*path, failed_search(1), failed_search(2), config=deep).told(DOWN)
    last.emits_like(SearchCompleted, route="critique")
    assert last.event.outcomes[0].failure == DOWN


def test_of_several_providers_that_are_down_the_one_that_is_back_soonest_decides(deep, triaged, no_memory, planned):
    spec = given(opened(NEWS), triaged(), no_memory, planned("search:a", "search:b"), config=deep)
    soon = Failure(kind="breaker_open", message="b", retryable=True, retry_after_s=5.0)
    for other in (WRONG_KEY, Failure(kind="breaker_open", message="a", retryable=True, retry_after_s=300.0)):
        spec.told(other, soon).fails_with("breaker_open")
    spec.told(WRONG_KEY, WRONG_KEY).emits_like(SearchCompleted)


def test_pages_that_stay_shut_are_values(deep, triaged, no_memory, planned, searched):
    spec = given(opened(NEWS), triaged(), no_memory, planned(), searched("scrape", 2), config=deep)
    spec.ask_gives(Scrape(url="https://house1.example/a"), Scrape(url="https://house2.example/a"))
    page = Page(url="https://house1.example/a", title="t", text="body")
    event = spec.told(PageReply(page=page), WRONG_KEY).emits_like(PagesScraped, route="expand").event
    assert (event.pages, event.failures) == ((page,), (WRONG_KEY,))


def test_expansion_gives_new_keywords_only_and_never_stops_a_case(deep, triaged, no_memory, planned, searched):
    spec = given(opened(NEWS), triaged(), no_memory, planned(), searched("expand", 1), config=deep)
    wanted = ["Poly Network", "attacker http://evil.example 0xabc", "zksync", "tornado", "mixer"]
    event = spec.told(ModelReply(data={"keywords": wanted, "reason": "r"})).event
    assert (event.keywords, event.route) == (("attacker 0xabc", "zksync", "tornado"), "plan")
    spec.told(ModelReply(data={"keywords": [], "reason": ""})).emits_like(KeywordsExpanded, route="critique")
    spec.told(DOWN).emits_like(KeywordsExpanded, route="critique", keywords=())
    spec.told(ModelReply(data="?")).emits_like(KeywordsExpanded, route="critique")


def critique(*entries, verdict="supported", numbers=(1,), **more):
    claim = {"claim": NEWS, "verdict": verdict, "reliability": 3, "reference_numbers": list(numbers), "reason": "r"}
    data = {
        "references": list(entries),
        "claims": [claim],
        "verdict": verdict,
        "contradictions": [],
        "timeliness": "fresh",
    }
    return ModelReply(data=data | more)


@pytest.fixture
def at_critique(deep, triaged, no_memory, planned, searched):
    def make(references=2, **found):
        path = (triaged(), no_memory, planned(), searched("critique", references, **found))
        return given(opened(NEWS), *path, config=deep)

    return make


def test_a_verdict_must_rest_on_references_that_exist_and_without_any_costs_nothing(at_critique):
    spec = at_critique()
    good = spec.told(critique(read(1), numbers=(1, 9, 1))).event
    assert (
        good.verdict == "supported" and good.claims[0].reference_numbers == (1,) and good.claims[0].reliability == 1.0
    )
    spec.told(critique(numbers=(9,))).emits_like(EvidenceCritiqued, verdict="not_enough_evidence")
    spec.told(critique(claims=[])).emits_like(EvidenceCritiqued, verdict="not_enough_evidence")
    spec.told(ModelReply(data={"verdict": "true"})).fails_with("invalid_output")
    at_critique(0).emits(EvidenceCritiqued(claims=(), verdict="not_enough_evidence"))


def test_what_each_page_says_is_kept_with_its_quote(at_critique):
    event = at_critique().told(critique(read(1), read(2, "hedges"), read(7))).event
    assert [(s.reference_number, s.stance, s.quote) for s in event.stances] == [
        (1, "supports", TELLINGS[0][:60]), (2, "hedges", TELLINGS[1][:60]),
    ]  # fmt: skip
    assert event.unquoted == ()
    event = at_critique().told(critique(references=None)).event
    assert event.stances is None


@pytest.mark.security
def test_slots_are_kept_with_the_stance_that_code_derives_and_an_entry_without_one_is_no_reading(at_critique):
    lacks = read(2)
    del lacks["place"]
    other = at_critique(3).told(critique(read(1), lacks, read(3, place="differs"))).event
    assert [(s.reference_number, s.says, s.place, s.stance) for s in other.stances] == [
        (1, "affirms", "silent", "supports"), (3, "affirms", "differs", "hedges"),
    ]  # fmt: skip


def test_above_a_third_of_failed_quotes_the_critic_is_asked_once_more_naming_them(at_critique):
    spec = at_critique(3)
    invented = read(2, quote="Poly Network has confirmed that everything is lost")
    first = critique(read(1), invented, read(3, quote="nothing of the kind stands there"))
    better = spec.told(first, critique(read(1), read(2), read(3))).event
    assert better.unquoted == () and [s.quote for s in better.stances] == [t[:60] for t in TELLINGS]
    again = given_again(spec, first)
    assert "do not stand in their references: 2, 3" in "".join(p.text for p in again.parts if isinstance(p, Trusted))
    stubborn = spec.told(first, first).event
    assert stubborn.unquoted == (2, 3)
    one = critique(read(1), read(2), read(3, quote="nothing of the kind stands there"))
    assert spec.told(one).event.unquoted == (3,), "one of three is passed by"
    assert spec.told(first, DOWN).event.unquoted == (2, 3), "the first reading is kept where the second is not answered"


def given_again(spec, first):
    call = spec.asked[0] if isinstance(spec.asked, tuple) else spec.asked
    event = EffectCompleted(step="critique", request_hash=request_hash(call), calls=(call_of(call, first),))
    case = fold(spec.case, event, event_id="e9", at=START)
    return CritiqueEvidence().ask(case)[-1]


def test_a_broken_critique_is_asked_for_again_and_not_read_again(deep, triaged, no_memory, planned, searched):
    path = (opened(NEWS), triaged(), no_memory, planned(), searched("critique", 2))
    spec = given(*path, config=deep)
    call = spec.asked[0]
    bad = EffectCompleted(
        step="critique", request_hash=request_hash(call), calls=(call_of(call, ModelReply(data={"verdict": 1})),)
    )
    invalid = Failure(kind="invalid_output", message="no", retryable=True)
    failed = StepFailed(step="critique", failure=invalid, attempt=1, outcome="retry", retry_at=START)
    given(*path, bad, failed, config=deep).ask_gives(call)


def test_evidence_reaches_the_critic_as_untrusted_parts_only_and_whole_passages(at_critique):
    call = at_critique().asked[0]
    assert isinstance(call, CallModel) and call.tier == "heavy"
    ours = call.system + "".join(p.text for p in call.parts if not isinstance(p, Untrusted))
    assert TELLINGS[0] not in ours and NEWS not in ours
    assert "stance" not in "".join(p.text for p in call.parts if isinstance(p, Trusted)), "no stance of ours"
    shown = {p.label: p.text for p in call.parts if isinstance(p, Untrusted)}
    assert list(shown) == ["news_source", "news", "reference 1", "reference 2"]
    assert shown["reference 1"].endswith(TELLINGS[0])
    assert call.parts[-1] == Trusted("Judge the claim above by references 1, 2.")


def test_at_most_six_pages_are_shown_one_of_each_owner_first(at_critique, findings):
    many = findings(9)
    refs = tuple(replace(r, owner="same.example") if r.reference_number < 7 else r for r in many.references)
    call = at_critique(9).asked[0]
    assert [p.label for p in call.parts if is_page(p)] == [f"reference {n}" for n in range(1, 7)]
    assert [r.reference_number for r in shown_to_critic(refs)] == [1, 2, 3, 7, 8, 9]


def is_page(part):
    return isinstance(part, Untrusted) and part.label.startswith("reference")


TODAY = datetime(2026, 11, 23, 12, tzinfo=UTC)


@pytest.mark.parametrize("every", [pytest.param(1, marks=pytest.mark.slow), 4])
def test_a_sample_that_is_told_today_is_judged_as_in_its_time(deep, monkeypatch, every):
    def signals(at=None):
        for news in list(sample_news())[::every]:
            event = opened(news.text, language=news.language, at=at or news.published_at)
            one = test_purity.run_event(deep, event)[0].case.head.signal
            flags = set(one.risk_flags) - {"expired"}  # an order of then is no order of today
            yield one.verdict, one.action, one.confidence, one.supporting_sources, one.independent_sources, flags

    then = list(signals())
    monkeypatch.setattr(test_purity, "SEARCH", PlayedSearch())
    assert list(signals(TODAY)) == then
    assert len({verdict for verdict, *_ in then}) >= 4
