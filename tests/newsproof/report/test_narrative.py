"""The words in which a case is told: every event has its sentence, and none shows a name of the code alone."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from newsproof.report import narrative
from schemas import events as ev
from schemas.calls import Call
from schemas.effects import Failure
from schemas.envelope import Envelope
from schemas.evidence import (
    Findings,
    MarketValue,
    MemoryEntry,
    Observation,
    Page,
    PageStance,
    SearchReference,
    Sentiment,
)
from schemas.news import News
from schemas.signals import Adjustment, ClaimAmount, Draft, Signal, StatedClaim
from streams.journal.case_reading import JournalRecord
from tests.newsproof.signal_samples import signal

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
DRAFT = Draft(
    summary="s",
    event_type="hack",
    asset="ETH",
    asset_name="Ethereum",
    action="sell",
    direction="short",
    confidence=0.75,
    strength="high",
    timeframe="short",
)
FOUND = Findings(
    keyword="k",
    references=(),
    dropped=(),
    independent_sources=3,
    multi_source=True,
    official_confirmed=True,
    denied=False,
    conflict=True,
    stale=False,
    sentiment=Sentiment(panic=0.33, neutral=0.34, optimistic=0.33),
    source_count=3,
    confidence=0.9,
    triggered=True,
)
TIMEOUT = Failure(kind="timeout", message="no answer within 10 s", retryable=True)
CUT = Call(
    kind="model",
    provider="gemini",
    mode="live",
    request_hash="h",
    reply=Failure(kind="cut", message="the answer was cut at 800 tokens", retryable=False),
    latency_ms=1.0,
    replied_at=NOW,
    cost_usd=None,
)
MEMORY = MemoryEntry(
    case_id="c", summary="old hack", event_type="hack", asset="ETH", confidence=0.8, similarity=0.91, decided_at=NOW
)
EVENTS: list[tuple[ev.Event, str, str]] = [
    (
        ev.EventReceived(
            news=News(source="wire", text="t", published_at=NOW),
            config_hash="h",
            text_hash="t",
            language="zh",
            edits="case-0",
        ),
        "The news came in from wire (Chinese); it edits the case case-0.",
        "",
    ),
    (
        ev.CaseTriaged(draft=DRAFT, route="deep", gate_reason="hack is always of value", rollout_bucket=0.1),
        "First judgement: hack, ETH, sell (short) with confidence 0.75. It passes the gate: its claims are verified.",
        "hack is always of value",
    ),
    (
        ev.CaseTriaged(
            draft=DRAFT,
            route="single_pass",
            gate_reason="below the threshold",
            rollout_bucket=0.1,
            claim=StatedClaim(
                subject="Coinbase",
                predicate="lists",
                asset="XYZ",
                venue="Coinbase",
                amount=ClaimAmount(value=33e8, unit="USD"),
                modality="rumoured",
                attribution="unnamed",
            ),
        ),
        "First judgement: hack, ETH, sell (short) with confidence 0.75. It claims: Coinbase · lists · 3,300,000,000 USD "
        "· XYZ (rumoured, by an unnamed source). It gets the single-pass analysis.",
        "below the threshold",
    ),
    (
        ev.ContextGathered(entries=(MEMORY,), memory="found"),
        "1 similar past case found in memory.",
        "old hack (similarity 0.91)",
    ),
    (
        ev.ContextGathered(entries=(), memory="unavailable"),
        "Memory could not be asked; the case goes on without it.",
        "",
    ),
    (
        ev.ToolPlanned(
            round=1,
            tools=("search",),
            search_keywords="eth hack",
            keywords_from="model",
            decided_by="force_search",
            reason="check it",
            tasks=(),
            route="search",
        ),
        "Round 1: to look up with search — eth hack",
        "check it (a rule: this kind of event is always searched first)",
    ),
    (
        ev.SearchCompleted(
            round=1,
            findings=FOUND,
            outcomes=(
                ev.ProviderOutcome(provider="tavily", query="q", hits=0, failure=TIMEOUT),
                ev.ProviderOutcome(provider="bocha", query="q", hits=4, cached=True),
            ),
            route="critique",
        ),
        "Round 1: tavily FAILED for “q” (timeout: no answer within 10 s); bocha gave 4 hits for “q”, from the cache.",
        "3 independent sources, confirmed by an official source, conflicting",
    ),
    (
        ev.SearchCompleted(
            round=1,
            findings=FOUND,
            outcomes=(),
            market=(MarketValue(name="price", value=0.91, unit="USD", source="coinbase", observed_at=NOW),),
            observations=(
                Observation(tool="memory_search", query="q", claim="c", unavailable="timeout"),
                Observation(tool="analyze_sentiment", query="news", claim="c", texts=("a", "b")),
            ),
            route="critique",
        ),
        "Round 1: coinbase says price 0.91 USD; memory search FAILED (timeout); analyze sentiment: 2 answers.",
        "3 independent sources, confirmed by an official source, conflicting",
    ),
    (
        ev.PagesScraped(
            round=1, pages=(Page(url="https://a.example", title="", text=""),), failures=(TIMEOUT,), route="critique"
        ),
        "1 pages opened, 1 stayed shut.",
        "https://a.example",
    ),
    (
        ev.KeywordsExpanded(round=1, keywords=("x",), reason="seen", route="plan"),
        "New keywords: x; they open a further round.",
        "seen",
    ),
    (
        ev.EvidenceCritiqued(
            claims=(), verdict="conflicting", contradictions=("a says, b denies",), timeliness="stale"
        ),
        "No critic read the pages: the word rules read alone.",
        "a says, b denies",
    ),
    (
        ev.EvidenceCritiqued(
            claims=(),
            verdict="supported",
            stances=(
                PageStance(reference_number=1, stance="supports"),
                PageStance(reference_number=2, stance="denies"),
            ),
            unquoted=(2,),
        ),
        "The evidence weighed: it supports the claim; the news is of an age that nothing found tells. "
        "A critic read what was found of 2 pages; not there is the quote of [2], which counts for nothing.",
        "",
    ),
    (
        ev.SignalSynthesized(signal=signal("s", notes="because"), path="degraded"),
        "Signal: sell BTC with confidence 0.80; confirmed, by way of the single-pass analysis after the deep path failed.",
        "because",
    ),
    (
        ev.CaseDropped(reason="duplicate", detail="another case has the same text", duplicate_of="case-0"),
        "Dropped without a signal: duplicate (the first is case case-0).",
        "another case has the same text",
    ),
    (
        ev.CaseFailed(reason="deadline", failed_step="search", attempts=3),
        "Failed at step search after 3 attempts; there is no signal.",
        "deadline",
    ),
    (ev.EffectCompleted(step="triage", request_hash="h"), "triage: a reply came (call).", ""),
    (
        ev.EffectCompleted(step="triage", request_hash="h", calls=(replace(CUT, reply=TIMEOUT),)),
        "triage: no answer (model).",
        "timeout: no answer within 10 s",
    ),
    (
        ev.EffectCompleted(step="triage", request_hash="h", calls=(CUT,)),
        "triage: a model's reply was cut at its limit of tokens.",
        "the answer was cut at 800 tokens",
    ),
    (
        ev.StepFailed(step="search", failure=TIMEOUT, attempt=2, outcome="retry", retry_at=NOW),
        "search did not work (attempt 2): it is tried again at 12:00:00.",
        "timeout: no answer within 10 s",
    ),
    (ev.StepStarted(step="search", crashes=3), "search runs alone: 3 crashes happened here.", ""),
    (
        ev.CaseDegraded(reason="no search", failed_step="search"),
        "The deep path gave up at search; the single pass takes over.",
        "no search",
    ),
    (
        ev.RetractionFound(signal_id="sig", of_case="c", kind="retracted", reason="denied"),
        "The signal of case c is retracted.",
        "denied",
    ),
    (ev.CancelRequested(requested_by="operator", reason="test"), "operator asked to end the case.", "test"),
]


def record(event: ev.Event, n: int, *, accepted: bool = True) -> JournalRecord:
    at = NOW + timedelta(seconds=n)
    envelope = Envelope(
        id=f"e{n}", type=ev.WIRE_NAMES[type(event)], case_id="c", causation_id=None, run_id="live", time=at
    )
    return JournalRecord(offset=n, appended_at=at, envelope=envelope, event=event, accepted=accepted)


@pytest.mark.parametrize(("event", "what", "why"), EVENTS, ids=[type(e).__name__ for e, _, _ in EVENTS])
def test_an_event_is_told_in_a_sentence_with_its_thought(event: ev.Event, what: str, why: str) -> None:
    (line,) = narrative.lines_of([record(event, 0)])
    assert (line.what, line.thought) == (what, why)
    assert re.search(r"\b[a-z]+_[a-z]+\b", what) is None, "a name of the code"


def test_every_event_type_has_a_sentence_of_its_own() -> None:
    assert {type(event) for event, _, _ in EVENTS} == set(ev.NEWS_EVENTS)


def test_only_accepted_records_make_the_story_and_time_counts_from_the_opening() -> None:
    events = [EVENTS[0][0], EVENTS[1][0], EVENTS[2][0]]
    records = [record(event, n, accepted=n != 1) for n, event in enumerate(events)]
    assert [line.after_s for line in narrative.lines_of(records)] == [0.0, 2.0]


def test_the_waterfall_leads_from_the_first_to_the_final_confidence() -> None:
    adjustments = [Adjustment(rule="a", amount=0.15, reason="r"), Adjustment(rule="b", amount=-0.05, reason="s")]
    rows = narrative.waterfall(signal("s", preliminary_confidence=0.7, confidence=0.8), adjustments)
    assert [(r.rule, r.amount, round(r.confidence, 6)) for r in rows] == [
        ("preliminary", None, 0.7),
        ("a", 0.15, 0.85),
        ("b", -0.05, 0.8),
        ("final", None, 0.8),
    ]


def test_calls_of_passed_by_records_are_told_too_because_they_cost_as_much() -> None:
    from tests.infra.clickhouse.clickhouse_samples import model_call

    gathered = ev.ContextGathered(entries=(), memory="no_match")
    paid: Any = msgspec.structs.replace(gathered, calls=(model_call("0.01"),))
    told = narrative.calls_of([record(paid, 0), record(paid, 1, accepted=False)])
    assert [(call.event, call.accepted) for call in told] == [("context_gathered", True), ("context_gathered", False)]


@pytest.mark.parametrize(
    ("one", "verdict", "action"),
    [
        (signal(), "confirmed", "sell"),
        (signal(verdict="unchecked", unchecked_reason="gate", action="observe"), "unchecked (gate)", "observe · short"),
        (signal(verdict="unchecked", action="observe", direction="neutral"), "unchecked", "observe"),
        (signal(verdict=None), "no verdict (published by the rules of before)", "sell"),
    ],
)
def test_verdict_and_action_are_told_with_what_stands_behind_them(one: Signal, verdict: str, action: str) -> None:
    assert (narrative.verdict_in_words(one), narrative.action_in_words(one)) == (verdict, action)


def test_a_summary_is_in_the_readers_language_where_somebody_wrote_it() -> None:
    both = signal(summary="as the news", summary_zh="中文", summary_en="English")
    assert (narrative.summary_in(both, "zh"), narrative.summary_in(both, "en")) == ("中文", "English")
    assert narrative.summary_in(signal(summary="as the news"), "zh") == "as the news"


def test_supporting_sources_stand_beside_independent_ones() -> None:
    assert narrative.sources_in_words(signal(supporting_sources=2)) == "2 supporting, 3 independent sources"
    assert narrative.sources_in_words(signal(supporting_sources=None)) == "3 independent sources"


def reference(number: int, **fields: Any) -> SearchReference:
    given: dict[str, Any] = {"stance": "supports", **fields}
    return SearchReference(
        reference_number=number, source_tool="search", title=f"page {number}", url=f"https://{number}.example/",
        snippet="", relevance_score=0.9, quality_score=80.0, content_complete=True, source_credibility="high", query="q",
        **given,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("said", "words", "counts", "why"),
    [
        ({"stance": "supports"}, "supports", "supports", ""),
        ({"stance": "supports", "reason": "its blog"}, "denies", "supports", "its blog"),
        (
            {"stance": "denies", "quote": None},
            "supports",
            "unrelated",
            "read as “denies”; its quote is not on the page",
        ),
        ({"stance": "supports", "quote": None}, "denies", "denies", "read as “supports”; its quote is not on the page"),
        ({"stance": "denies", "same_subject": False}, "denies", "unrelated", "read as “denies”; another subject"),
        ({"stance": "supports", "same_event": False}, "supports", "unrelated", "read as “supports”; another event"),
        ({"stance": "supports", "amount": "differs"}, "supports", "hedges", "read as “supports”; another amount"),
        ({"stance": "hedges"}, "denies", "denies", "read as “hedges”"),
        ({"stance": "earlier"}, "supports", "earlier", ""),
        ({"stance": "unrelated", "quote": None}, "denies", "unrelated", ""),
        (None, "supports", "unrelated", "not shown to the critic"),
        (None, "denies", "denies", "not shown to the critic"),
    ],
)
def test_a_page_counts_as_the_critic_read_it_where_its_quote_is_there(
    said: dict[str, Any] | None, words: str, counts: str, why: str
) -> None:
    found = msgspec.structs.replace(FOUND, references=(reference(1, stance=words),))
    read = () if said is None else (PageStance(reference_number=1, **{"quote": "in these words", **said}),)
    critique = ev.EvidenceCritiqued(claims=(), verdict="supported", stances=read)
    (page,) = narrative.pages_read(found, critique)
    assert (page.stance, narrative.doubts_in_words(page)) == (counts, why)
    if said is not None and said.get("quote", "there") is not None:
        (page,) = narrative.pages_read(found, msgspec.structs.replace(critique, unquoted=(1,)))
        assert not page.quoted, "the log says that its page does not hold it"


def test_without_a_critic_pages_count_as_the_word_rules_read_them() -> None:
    found = msgspec.structs.replace(FOUND, references=(reference(1), reference(2, stance="hedges")))
    for critique in (None, ev.EvidenceCritiqued(claims=(), verdict="supported")):
        assert [p.stance for p in narrative.pages_read(found, critique)] == ["supports", "hedges"]
    assert narrative.pages_read(None, None) == []


def test_who_speaks_is_the_page_s_owner_the_party_or_authority_and_whom_it_cites() -> None:
    said = PageStance(reference_number=1, stance="supports", speaks_for="authority", cites="Reuters")
    assert narrative.speaker_in_words(reference(1, speaker="SEC"), said) == "SEC, the authority, citing Reuters"
    assert narrative.speaker_in_words(reference(1), None) == ""
