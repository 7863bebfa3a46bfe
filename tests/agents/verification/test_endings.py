"""How cases end: synthesis inside the bounds, the preliminary signal, the single pass, degradation and giving up."""

from __future__ import annotations

from datetime import timedelta

import pytest
from msgspec.structs import replace

from agents.core.case import fold
from agents.core.failures import JITTER, failed
from agents.core.step import StepFailure
from schemas.effects import (
    CallModel,
    EarlierReply,
    Failure,
    FindEarlier,
    FunctionCall,
    ModelReply,
    Recall,
    RecallReply,
    Search,
    Untrusted,
)
from schemas.events import (
    CancelRequested,
    CaseDegraded,
    CaseFailed,
    EffectCompleted,
    EvidenceCritiqued,
    ProviderOutcome,
    SignalSynthesized,
    StepFailed,
)
from tests.agents.conftest import NEWS, TELLINGS, stances
from tests.specification import START, given, opened, run_case

DOWN = Failure(kind="unavailable", message="down", retryable=True)
WRONG_KEY = Failure(kind="auth", message="wrong key", retryable=False)
READ = EvidenceCritiqued(claims=(), verdict="supported", stances=stances(1, 2, 3))
"""A critic read three established houses, each with a quote: confirmed, +0.05 to +0.10."""
REFUTED = EvidenceCritiqued(claims=(), verdict="refuted", stances=stances(1, 2, 3, stance="denies", speaks_for="party"))
UNREAD = EvidenceCritiqued(claims=(), verdict="not_enough_evidence")


def synthesis(**changes):
    data = {
        "adjustment": 0.9,
        "summary": NEWS,
        "action": "sell",
        "direction": "short",
        "strength": "high",
        "timeframe": "medium",
        "reason": "Good sources [1], see https://evil.example and [77]",
    }
    return ModelReply(data=data | changes)


@pytest.fixture
def at_end(deep, triaged, no_memory, planned, searched):
    def make(config=deep, critique=READ, draft=None, **found):
        told = triaged(**(draft or {}))
        return given(opened(NEWS), told, no_memory, planned(), searched("critique", **found), critique, config=config)

    return make


def test_the_verdict_has_the_last_word_on_what_the_model_chose(at_end, deep):
    chosen = replace(deep, synthesis_choice="model")
    event = at_end(chosen).told(synthesis()).emits_like(SignalSynthesized, path="deep").event
    assert (event.signal.verdict, event.signal.supporting_sources) == ("confirmed", 3)
    assert event.signal.confidence == pytest.approx(0.90) and event.adjustments[0].amount == 0.10
    assert at_end(chosen).told(synthesis(adjustment=-1)).event.signal.confidence == pytest.approx(0.85)
    assert at_end(chosen).told(synthesis(adjustment=None)).event.signal.confidence == pytest.approx(0.875)


def test_the_model_may_soften_an_action_and_turn_the_direction_only_towards_observe(at_end):
    kept = at_end().told(synthesis()).event.signal
    assert (kept.action, kept.direction) == ("sell", "short")
    soft = at_end().told(synthesis(action="observe", direction="neutral")).event.signal
    assert (soft.action, soft.direction) == ("observe", "short")
    turned = at_end().told(synthesis(action="buy", direction="long")).event.signal
    assert (turned.action, turned.direction) == ("observe", "long")


def test_a_refuted_claim_is_observe_whatever_the_model_says(at_end):
    signal = at_end(critique=REFUTED).told(synthesis()).event.signal
    assert (signal.verdict, signal.action, signal.direction) == ("refuted", "observe", "short")
    assert "refuted" in signal.risk_flags and signal.confidence == pytest.approx(0.2)


def test_the_model_writes_both_languages_and_adds_flags_of_the_closed_list_alone(at_end):
    told = synthesis(
        summary_zh="被盗 https://evil.example", summary_en="Stolen", risk_flags=["thin_market", "offline_ok"]
    )
    signal = at_end().told(told).event.signal
    assert (signal.summary_zh, signal.summary_en) == ("已获 3 个来源证实：被盗", "Confirmed by 3 sources: Stolen")
    assert "thin_market" in signal.risk_flags and "offline_ok" not in signal.risk_flags
    plain = at_end().told(synthesis()).event.signal
    assert (plain.summary_en, plain.claim_zh) == (plain.summary, "")


def test_the_model_is_shown_the_quotes_and_not_the_pages(at_end):
    call = at_end(critique=replace(READ, stances=(*stances(1), *stances(2, stance="denies")))).asked
    outside = {p.label: p.text for p in call.parts if isinstance(p, Untrusted)}
    assert outside["quote 1, supports"] == TELLINGS[0][:60] and outside["quote 2, denies"] == TELLINGS[1][:60]
    assert not [label for label in outside if label.startswith(("reference", "quote 3"))]


def test_the_signal_names_its_evidence_prompts_horizon_and_mode_and_links_to_what_speaks_of_the_claim(at_end):
    signal = at_end().told(synthesis()).event.signal
    assert signal.links == ("https://house1.example/a", "https://house2.example/a", "https://house3.example/a")
    assert [e.quote for e in signal.evidence] == [t[:60] for t in TELLINGS]
    assert "[1]" in signal.notes and "evil" not in signal.notes and "[77]" not in signal.notes
    assert signal.horizon == 7 * 86400 and signal.valid_until == START + timedelta(days=7)
    assert [p.name for p in signal.prompt_versions] == ["synthesize"] and signal.model == "offline-model"
    assert "offline" in signal.risk_flags and (signal.venue, signal.symbol, signal.revision) == (None, None, 1)
    assert signal.decided_at > START
    read = replace(READ, stances=(*stances(1, 3), *stances(2, stance="unrelated")))
    signal = at_end(critique=read).told(synthesis()).event.signal
    assert signal.links == ("https://house1.example/a", "https://house3.example/a") and len(signal.evidence) == 3


def test_what_was_found_on_a_dropped_page_is_no_flag_of_the_news(at_end):
    flags = at_end(risk_flags=("spoofed_source", "injection_suspected")).told(synthesis()).event.signal.risk_flags
    assert not {"spoofed_source", "injection_suspected"} & set(flags)


@pytest.mark.parametrize(("kind", "why"), [("auth", "search_failed:auth"), ("budget", "budget")])
def test_a_search_that_failed_is_no_evidence_and_costs_no_model_call(
    deep, triaged, no_memory, planned, searched, kind, why
):
    failure = replace(WRONG_KEY, kind=kind)
    lost = searched("critique", 0, failure)
    spec = given(opened(NEWS), triaged(confidence=0.5), no_memory, planned(), lost, UNREAD, config=deep)
    signal = spec.told().event.signal
    assert (signal.verdict, signal.unchecked_reason, signal.confidence) == ("unchecked", why, 0.5)
    assert f"search_skipped:{kind}" in signal.risk_flags and signal.action == "observe"
    assert why in signal.notes and "sources" not in signal.notes


def test_a_search_that_was_answered_with_nothing_is_unconfirmed_and_no_reason_for_the_single_pass(
    deep, triaged, no_memory, planned, searched
):
    spec = given(opened(NEWS), triaged(), no_memory, planned(), searched("critique", 0), UNREAD, config=deep)
    signal = spec.told(synthesis()).event.signal
    assert (signal.verdict, signal.unchecked_reason, signal.confidence) == ("unconfirmed", None, 0.6)
    unsearched = given(opened(NEWS), triaged(), no_memory, UNREAD, config=deep).told().event.signal
    assert (unsearched.verdict, unsearched.unchecked_reason) == ("unchecked", "not_planned")
    config = replace(deep, search_away_single_pass=True)
    given(opened(NEWS), triaged(), no_memory, planned(), searched("critique", 0), config=config).ask_gives(UNREAD)


def test_news_whose_own_language_was_not_searched_is_unchecked(deep, triaged, no_memory, planned, searched):
    half = (
        ProviderOutcome(provider="bocha", query="q", hits=0, failure=DOWN),
        ProviderOutcome(provider="tavily", query="q", hits=0),
    )
    path = (triaged(), no_memory, planned(), replace(searched("critique", 0), outcomes=half), UNREAD)
    signal = given(opened("Poly Network 遭攻击", language="zh"), *path, config=deep).told().event.signal
    assert (signal.verdict, signal.unchecked_reason) == ("unchecked", "language")
    english = given(opened(NEWS), *path, config=deep).told(synthesis()).event.signal
    assert english.verdict == "unconfirmed"


def test_a_broken_synthesis_is_invalid_output(at_end):
    at_end().told(ModelReply(data={"adjustment": "lots"})).fails_with("invalid_output")


def test_a_gated_case_ends_with_its_preliminary_signal_and_no_effect(deep, triaged):
    event = given(opened(NEWS), triaged("preliminary"), config=deep).told().event
    signal = event.signal
    assert (event.path, signal.stage, signal.verdict, signal.unchecked_reason) == (
        "preliminary", "final", "unchecked", "gate"
    )  # fmt: skip
    assert (signal.confidence, signal.action, signal.direction) == (0.6, "observe", "short")
    assert {"not_deep_analysed", "offline"} <= set(signal.risk_flags) and signal.evidence == ()


def calls(**args):
    return ModelReply(function_calls=tuple(FunctionCall(name=n, args=a) for n, a in args.items()))


def test_the_single_pass_performs_each_chosen_function_once_and_then_judges(deep, triaged, judged, found):
    spec = given(opened(NEWS), triaged("single_pass"), config=deep)
    choice = spec.asked
    assert len(choice) == 1 and {f.name for f in choice[0].functions} == {"fetch_memories", "search_news"}
    asked = calls(fetch_memories={}, search_news={"query": "Poly <x> https://evil.example/ hack"}, launch={"x": 1})
    hits = found("onchainpost.example", "defidigest.example", "tokentribune.example")
    event = spec.told(asked, RecallReply(entries=()), hits, judged()).event
    assert (event.path, event.signal.stage, event.signal.verdict) == ("single_pass", "final", "likely")
    assert event.signal.evidence and event.adjustments


def test_a_single_pass_without_a_search_is_unchecked(deep, triaged, judged):
    signal = given(opened(NEWS), triaged("single_pass"), config=deep).told(ModelReply(), judged()).event.signal
    assert (signal.verdict, signal.unchecked_reason) == ("unchecked", "not_planned")
    assert "not_deep_analysed" in signal.risk_flags and signal.action == "observe"
    off = replace(deep, tool_search_enabled=False)
    signal = given(opened(NEWS), triaged("single_pass"), config=off).told(ModelReply(), judged()).event.signal
    assert signal.unchecked_reason == "disabled"


def test_a_single_pass_raises_nothing_for_no_critic_reads_its_pages(deep, triaged, judged, found):
    asked = calls(search_news={"query": "Poly"})
    hits = found("polynetwork.example", "onchainpost.example", "defidigest.example", "tokentribune.example")
    signal = given(opened(NEWS), triaged("single_pass"), config=deep).told(asked, hits, judged()).event.signal
    assert signal.verdict == "likely" and signal.confidence <= 0.8


def test_a_single_pass_after_the_critique_keeps_what_the_critic_read(
    deep, triaged, no_memory, planned, searched, judged, found
):
    lost = StepFailed(step="synthesize", failure=WRONG_KEY, attempt=1, outcome="degrade")
    degraded = CaseDegraded(reason="auth", failed_step="synthesize")
    path = (opened(NEWS), triaged(), no_memory, planned(), searched("critique"), REFUTED, lost, degraded)
    signal = given(*path, config=deep).told(calls(search_news={"query": "x"}), found(), judged()).event.signal
    assert (signal.verdict, signal.action) == ("refuted", "observe")


def test_the_single_pass_goes_on_without_search_and_memory(deep, triaged, judged):
    asked = calls(fetch_memories={}, search_news={"query": 7})
    told = given(opened(NEWS), triaged("single_pass"), config=deep).told(asked, DOWN, WRONG_KEY, judged())
    assert {"search_skipped:auth", "memory_unavailable"} <= set(told.event.signal.risk_flags)


def test_a_signal_on_news_that_came_too_late_says_so(deep, triaged, judged):
    for flags, expected in ((["late"], {"late"}), (["backfilled", 7, "gate"], {"backfilled"}), ("late", set())):
        opening = opened(NEWS)
        opening = replace(opening, news=replace(opening.news, extra={"flags": flags}))
        told = given(opening, triaged("single_pass"), config=deep).told(calls(fetch_memories={}), DOWN, judged())
        assert {"late", "backfilled", "gate"} & set(told.event.signal.risk_flags) == expected


DAY = timedelta(days=1)


@pytest.mark.parametrize(
    ("published", "received", "timeframe", "action", "says"),
    [
        (timedelta(0), timedelta(0), "short", "sell", ""),
        (DAY / 2, None, "short", "sell", ""),
        (2 * DAY, None, "medium", "sell", ""),
        # Judged as of its own day, when the order was valid: backtests measure it, bots skip it.
        (2 * DAY, None, "short", "sell", "the news is of 2025-12-31 03:04 UTC, so its order expired at 2026-01-01 03:04 UTC"),
        (700 * DAY, None, "medium", "sell", "expired at 2024-02-09 03:04 UTC"),
        # It had expired when it was received: nobody could ever follow it.
        (2 * DAY, DAY / 2, "short", "observe", "expired at 2026-01-01 03:04 UTC"),
    ],
)  # fmt: skip
def test_an_order_is_valid_from_the_publication_and_says_if_it_expired_before_the_decision(
    published, received, timeframe, action, says, deep, triaged, no_memory, planned, searched
):
    opening = opened(NEWS, at=START - published)
    at = None if received is None else START - received
    opening = replace(opening, news=replace(opening.news, received_at=at))
    path = (opening, triaged(), no_memory, planned(), searched("critique"), READ)
    signal = given(*path, config=deep).told(synthesis(timeframe=timeframe)).event.signal
    assert signal.valid_until == signal.published_at + timedelta(seconds=signal.horizon)
    assert (signal.verdict, signal.action, signal.direction) == ("confirmed", action, "short")
    assert ("expired" in signal.risk_flags, "its order expired" in signal.notes) == (bool(says), bool(says))
    assert says in signal.notes


def test_a_failed_deep_path_degrades_to_the_single_pass_and_says_why(deep, triaged, no_memory, judged):
    failed = StepFailed(step="plan", failure=WRONG_KEY, attempt=1, outcome="degrade")
    path = (opened(NEWS), triaged(), no_memory, failed)
    given(*path, config=deep).emits(CaseDegraded(reason="auth", failed_step="plan"))
    degraded = given(*path, CaseDegraded(reason="auth", failed_step="plan"), config=deep)
    event = degraded.told(ModelReply(), judged()).event
    assert (event.path, event.signal.stage, event.signal.verdict) == ("degraded", "final", "unchecked")
    assert "degraded:auth" in event.signal.risk_flags


def test_a_case_whose_triage_failed_still_gets_a_signal(deep, judged, found):
    failed = StepFailed(step="triage", failure=WRONG_KEY, attempt=1, outcome="degrade")
    degraded = CaseDegraded(reason="auth", failed_step="triage")
    spec = given(opened(NEWS), failed, degraded, config=deep)
    event = spec.told(calls(search_news={"query": "Poly"}), found("onchainpost.example"), judged()).event
    assert event.signal.event_type == "hack" and event.path == "degraded"


def test_giving_up_and_cancelling_say_why(deep):
    failed = StepFailed(step="single_pass", failure=WRONG_KEY, attempt=3, outcome="give_up")
    given(opened(NEWS), failed, config=deep).emits(
        CaseFailed(reason="auth: wrong key", failed_step="single_pass", attempts=3)
    )
    cancelled = CancelRequested(requested_by="ann", reason="test item")
    given(opened(NEWS), cancelled, config=deep).emits(
        CaseFailed(reason="cancelled by ann: test item", failed_step="", attempts=0)
    )


@pytest.mark.parametrize("kind", ["unavailable", "deadline", "budget"])
def test_a_triaged_case_that_gives_up_before_a_search_ends_unchecked(deep, triaged, kind):
    """Whatever failed: the path, the single pass, or the time."""
    failed = StepFailed(step="plan", failure=WRONG_KEY, attempt=1, outcome="degrade")
    degraded = CaseDegraded(reason="auth", failed_step="plan")
    why = Failure(kind=kind, message="gone", retryable=False)
    end = StepFailed(step="single_pass", failure=why, attempt=3, outcome="give_up")
    event = given(opened(NEWS), triaged(), failed, degraded, end, config=deep).told().event
    assert (event.path, event.signal.verdict) == ("degraded", "unchecked")
    assert event.signal.unchecked_reason == f"degraded:{kind}"
    assert (event.signal.confidence, event.signal.action) == (0.6, "observe")
    assert {"degraded:auth", f"degraded:{kind}"} <= set(event.signal.risk_flags)


def test_a_case_that_gives_up_after_the_party_denied_it_suggests_no_order(
    deep, triaged, no_memory, planned, searched, findings
):
    page = replace(
        findings(1).references[0], official=True, speaker="Poly Network", stance="denies", source_credibility="high"
    )
    found = replace(searched("critique"), findings=replace(findings(1), references=(page,)))
    end = StepFailed(step="critique", failure=DOWN, attempt=3, outcome="give_up")
    signal = given(opened(NEWS), triaged(), no_memory, planned(), found, end, config=deep).told().event.signal
    assert (signal.verdict, signal.action, signal.confidence) == ("disputed", "observe", 0.5)


def test_a_case_that_gives_up_after_a_search_says_that_it_was_not_answered(deep, triaged, no_memory, planned, searched):
    lost = searched("critique", 0, DOWN)
    end = StepFailed(step="critique", failure=DOWN, attempt=3, outcome="give_up")
    event = given(opened(NEWS), triaged(), no_memory, planned(), lost, end, config=deep).told().event
    assert {"search_skipped:unavailable", "degraded:unavailable"} <= set(event.signal.risk_flags)


def world(model):
    def perform(effect):
        match effect:
            case FindEarlier():
                return EarlierReply(first_case=None)
            case Recall():
                return RecallReply(entries=())
            case CallModel():
                return model(effect)
            case _:
                assert isinstance(effect, Search)
                return DOWN

    return perform


def test_a_case_without_any_model_ends_as_failed(deep):
    run = run_case(opened(NEWS), world(lambda _: DOWN), config=deep)
    assert isinstance(run.case.head, CaseFailed) and run.case.head.failed_step == "single_pass"
    outcomes = [e.outcome for e in run.events if isinstance(e, StepFailed)]
    assert outcomes == ["retry", "retry", "degrade", "retry", "retry", "give_up"]


def test_an_invalid_reply_is_asked_for_once_more_and_then_degrades(deep, judged):
    def model(call):
        if call.task == "triage":
            return ModelReply(data={})
        return judged() if call.task == "single_pass_final" else ModelReply()

    run = run_case(opened(NEWS), world(model), config=deep)
    assert [e.outcome for e in run.events if isinstance(e, StepFailed)] == ["retry", "degrade"]
    assert "degraded:invalid_output" in run.case.head.signal.risk_flags


CUT = Failure(kind="cut", message="the answer was cut", retryable=False)


def test_a_cut_reply_is_asked_for_once_with_twice_the_limit_and_the_log_says_so(deep, triaged, judged):
    asked = []

    def model(call):
        asked.append((call.task, call.max_output_tokens))
        if call.task == "triage" and len(asked) == 1:
            return CUT
        return judged() if call.task in ("triage", "single_pass_final") else DOWN

    run = run_case(opened(NEWS), world(model), config=deep)
    limit = deep.prompts["triage"].max_output_tokens
    assert asked[:2] == [("triage", limit), ("triage", 2 * limit)] and asked[2][0] != "triage"
    assert run.case.triaged is not None
    assert [e.calls[0].error for e in run.events if isinstance(e, EffectCompleted)][:3] == [None, "cut", None]


OPEN = Failure(kind="breaker_open", message="left alone", retryable=True, retry_after_s=20.0)


def test_a_case_without_a_preliminary_signal_waits_for_a_provider_as_long_as_its_deadline_allows(deep, judged):
    asked = []

    def model(call):
        asked.append(call.task)
        return OPEN if len(asked) < 9 else judged()

    run = run_case(opened(NEWS), world(model), config=deep)
    assert run.case.triaged is not None and asked.count("triage") == 9
    forever = run_case(opened(NEWS), world(lambda _: OPEN), config=deep)
    waits = [e for e in forever.events if isinstance(e, StepFailed)]
    assert isinstance(forever.case.head, CaseFailed) and waits[-1].failure == OPEN
    assert all(e.retry_at is None or e.retry_at < forever.case.deadline for e in waits)


def test_a_triaged_case_does_not_wait_for_ever_for_a_breaker(deep, triaged):
    case = given(opened(NEWS), triaged(), config=deep).case
    outcomes = []
    for _ in range(3):
        event = failed(case, "critique", OPEN, now=case.opened_at)
        outcomes.append(event.outcome)
        case = fold(case, event, event_id="", at=case.opened_at)
    assert outcomes == ["retry", "retry", "degrade"]


def test_a_wait_is_never_shorter_than_asked_for_and_drawn_alike_for_the_same_case(deep, triaged):
    case = given(opened(NEWS), triaged(), config=deep).case
    busy = replace(DOWN, kind="rate_limit", retry_after_s=30.0)
    events = [failed(replace(case, case_id=str(n)), "plan", busy, now=START) for n in range(50)]
    waits = [(e.retry_at - START).total_seconds() for e in events]
    assert min(waits) >= 30.0 and max(waits) <= 30.0 * (1 + JITTER) and len(set(waits)) > 40
    assert failed(case, "plan", busy, now=START) == failed(replace(case, run_id="backtest-7"), "plan", busy, now=START)


@pytest.mark.parametrize("kind", ["unavailable", "auth", "budget"])
def test_where_no_provider_answers_the_single_pass_may_judge(
    deep, triaged, no_memory, planned, searched, judged, found, kind
):
    lost = searched("critique", 0, replace(WRONG_KEY, kind=kind))
    path = (opened(NEWS), triaged(), no_memory, planned(), lost)
    given(*path, config=deep).ask_gives(UNREAD)
    asked = given(*path, config=replace(deep, search_away_single_pass=True))
    if kind == "budget":  # the single pass would get no search either
        asked.ask_gives(UNREAD)
        return
    with pytest.raises(StepFailure, match="no search provider answered"):
        _ = asked.asked
    failed = StepFailed(
        step="critique", failure=replace(DOWN, kind=kind, retryable=False), attempt=1, outcome="degrade"
    )
    spec = given(*path, failed, CaseDegraded(reason=kind, failed_step="critique"), config=deep)
    search = ModelReply(function_calls=(FunctionCall(name="search_news", args={"query": "Poly"}),))
    event = spec.told(search, found("onchainpost.example", "defidigest.example"), judged()).event
    assert (event.path, event.signal.verdict) == ("degraded", "likely"), "nobody reads the pages: likely at most"
    assert f"degraded:{kind}" in event.signal.risk_flags


def test_without_any_provider_the_single_pass_may_judge_and_one_that_is_off_is_not_away(
    deep, triaged, no_memory, planned
):
    nothing = replace(planned(), route="critique", tasks=(), tools=(), decided_by="disabled")
    path = (opened(NEWS), triaged(), no_memory, nothing)
    bare = replace(deep, search_providers=(), search_away_single_pass=True)
    with pytest.raises(StepFailure, match="no search provider is configured"):
        _ = given(*path, config=bare).asked
    given(*path, config=replace(bare, search_away_single_pass=False)).ask_gives(UNREAD)
    given(*path, config=replace(bare, search_providers=("offline",), tool_search_enabled=False)).ask_gives(UNREAD)
    given(*path, config=replace(bare, tool_search_enabled=False)).ask_gives(UNREAD)
