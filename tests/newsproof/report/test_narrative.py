"""The words in which a case is told: every event has its sentence, and none shows a name of the code alone."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from newsproof.report import narrative
from schemas import events as ev
from schemas.effects import Failure
from schemas.envelope import Envelope
from schemas.evidence import Findings, MarketValue, MemoryEntry, Observation, Page, Sentiment
from schemas.news import News
from schemas.signals import Adjustment, Draft
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
        "The evidence weighed: sources contradict each other; the news is old, told again.",
        "a says, b denies",
    ),
    (
        ev.SignalSynthesized(signal=signal("s", notes="because"), path="degraded"),
        "Signal: sell BTC with confidence 0.80 (verified, by way of the single-pass analysis after the deep path failed).",
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

    paid: Any = msgspec.structs.replace(EVENTS[2][0], calls=(model_call("0.01"),))
    told = narrative.calls_of([record(paid, 0), record(paid, 1, accepted=False)])
    assert [(call.event, call.accepted) for call in told] == [("context_gathered", True), ("context_gathered", False)]
