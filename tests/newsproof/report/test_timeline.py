"""The timeline of a case: every event has its sentence in both languages, and none shows a name of the code alone."""

from __future__ import annotations

import re
from typing import get_args, get_type_hints

import pytest
from msgspec.structs import replace

from newsproof.report.timeline import DECIDED, PATHS, ROUTES, TIMELINESS, lines_of
from schemas import events as ev
from schemas.calls import Call
from schemas.effects import Failure
from schemas.evidence import MarketValue, MemoryEntry, Observation, Page, PageStance
from schemas.news import News
from schemas.signals import ClaimAmount, Draft, MessagePart, StatedClaim
from tests.newsproof.report.test_narrative import FOUND, NOW, record
from tests.newsproof.signal_samples import signal

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
FIRST_PART = MessagePart(first_case="case-1", asset="ETH", assets=("ETH", "BTC"), text="t", left_out=("XYZ",))
EVENTS: list[tuple[ev.Event, str, str]] = [
    (
        ev.EventReceived(
            news=News(source="wire", text="t", published_at=NOW),
            config_hash="h",
            text_hash="t",
            language="en",
            part=replace(FIRST_PART, asset="BTC"),
        ),
        "Opened for claim 2 of 2 of a message from wire, about BTC. The first claim is case case-1.",
        "",
    ),
    (
        ev.CaseTriaged(draft=DRAFT, route="deep", gate_reason="", rollout_bucket=0.0, part=FIRST_PART),
        "First judgement: hack, ETH, sell (short) with confidence 0.75. The message makes 2 claims, each with its own case: "
        "ETH, BTC; left out beyond the limit: XYZ. It passes the gate: its claims will be checked.",
        "",
    ),
    (
        ev.EventReceived(
            news=News(source="wire", text="t", published_at=NOW),
            config_hash="h",
            text_hash="t",
            language="zh",
            edits="case-0",
        ),
        "Received from wire (Chinese); an edit of case case-0.",
        "",
    ),
    (
        ev.CaseTriaged(draft=DRAFT, route="deep", gate_reason="hack is always of value", rollout_bucket=0.1),
        "First judgement: hack, ETH, sell (short) with confidence 0.75. It passes the gate: its claims will be checked.",
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
        "· XYZ (rumoured, from an unnamed source). It gets the single-pass analysis.",
        "below the threshold",
    ),
    (
        ev.ContextGathered(entries=(MEMORY,), memory="found"),
        "1 similar past case found in memory.",
        "old hack (similarity 0.91)",
    ),
    (
        ev.ContextGathered(entries=(), memory="unavailable"),
        "Memory was unavailable; the case continues without it.",
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
        "Round 1: planned lookups with search: eth hack",
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
        "Round 1: tavily FAILED for “q” (timeout: no answer within 10 s); bocha returned 4 hits for “q”, from the cache.",
        "by the word rules 3 independent sources, confirmed by an official source, conflicting",
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
        "Round 1: coinbase: price 0.91 USD; memory search FAILED (timeout); analyze sentiment: 2 results.",
        "by the word rules 3 independent sources, confirmed by an official source, conflicting",
    ),
    (
        ev.PagesScraped(
            round=1, pages=(Page(url="https://a.example", title="", text=""),), failures=(TIMEOUT,), route="critique"
        ),
        "1 page opened, 1 could not be opened.",
        "https://a.example",
    ),
    (
        ev.KeywordsExpanded(round=1, keywords=("x",), reason="seen", route="plan"),
        "New keywords: x; another round follows.",
        "seen",
    ),
    (
        ev.EvidenceCritiqued(
            claims=(), verdict="conflicting", contradictions=("a says, b denies",), timeliness="stale"
        ),
        "No critic read the pages; only the word rules classified them.",
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
        "Evidence review: it supports the claim; the news is of unknown age. "
        "The critic read excerpts of 2 pages. Its quote from [2] is not on the page and does not count.",
        "",
    ),
    (
        ev.SignalSynthesized(signal=signal("s", notes="because"), path="degraded"),
        "Signal: sell BTC with confidence 0.80; confirmed, from the single-pass analysis after the deep path failed.",
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
    (ev.EffectCompleted(step="triage", request_hash="h"), "triage: response received (call).", ""),
    (
        ev.EffectCompleted(step="triage", request_hash="h", calls=(replace(CUT, reply=TIMEOUT),)),
        "triage: the call failed (model).",
        "timeout: no answer within 10 s",
    ),
    (
        ev.EffectCompleted(step="triage", request_hash="h", calls=(CUT,)),
        "triage: the model's reply was cut at the token limit.",
        "the answer was cut at 800 tokens",
    ),
    (
        ev.StepFailed(step="search", failure=TIMEOUT, attempt=2, outcome="retry", retry_at=NOW),
        "search failed (attempt 2): the worker retries it at 12:00:00.",
        "timeout: no answer within 10 s",
    ),
    (ev.StepStarted(step="search", crashes=3), "search runs alone after 3 crashes at this step.", ""),
    (
        ev.CaseDegraded(reason="timeout", failed_step="search"),
        "The deep path failed at search; the single-pass analysis takes over.",
        "timeout",
    ),
    (
        ev.RetractionFound(signal_id="sig", of_case="c", kind="retracted", reason="denied"),
        "The signal of case c is retracted.",
        "denied",
    ),
    (ev.StoryChecked(route="deep"), "No earlier case reports the same event.", ""),
    (
        ev.SecondLookOpened(
            of_case="c",
            number=1,
            due_at=NOW,
            after_s=720.0,
            verdict="unconfirmed",
            draft=DRAFT,
            news=News(source="s", text="t", published_at=NOW),
            config_hash="",
            text_hash="",
            language="en",
        ),
        "Second check after 12 minutes (number 1). First verdict: unconfirmed.",
        "",
    ),
    (
        ev.StoryCorroborated(
            signal_id="sig",
            of_case="c",
            verdict="likely",
            amount=0.0,
            action="buy",
            direction="long",
            supporting_sources=1,
            independent_sources=1,
            reason="said",
            evidence=(),
        ),
        "It reports the same event as case c, whose signal is raised to likely if it was lower.",
        "said",
    ),
    (ev.CancelRequested(requested_by="operator", reason="test"), "operator requested to end the case.", "test"),
]


@pytest.mark.parametrize(("event", "what", "why"), EVENTS, ids=[type(e).__name__ for e, _, _ in EVENTS])
def test_an_event_is_told_in_a_sentence_with_its_thought(event: ev.Event, what: str, why: str) -> None:
    (line,) = lines_of([record(event, 0)])
    assert (line.what, line.thought) == (what, why)
    assert re.search(r"\b[a-z]+_[a-z]+\b", what) is None, "a name of the code"


def test_in_chinese_an_event_is_told_without_an_english_word() -> None:
    """What the data itself says (names, quotations, ids) may be in any language."""
    given = r"“[^”]*”|https://\S+|\b(wire|case-\d|ETH|BTC|XYZ|Coinbase|coinbase|USD|tavily|bocha|eth hack|old hack|operator|x|c)\b"
    for line in lines_of([record(event, n) for n, (event, _, _) in enumerate(EVENTS)]):
        for text in (line.what_zh, line.thought_zh):
            rest = re.sub(r"(?<=[：（])(no answer within 10 s|check it|seen|because)", "", re.sub(given, "", text))
            assert re.search(r"[A-Za-z]{2,}", rest) is None, text


def test_every_event_type_has_a_sentence_of_its_own() -> None:
    assert {type(event) for event, _, _ in EVENTS} == set(ev.NEWS_EVENTS)


def test_only_accepted_records_make_the_story_and_time_counts_from_the_opening() -> None:
    events = [EVENTS[0][0], EVENTS[1][0], EVENTS[2][0]]
    records = [record(event, n, accepted=n != 1) for n, event in enumerate(events)]
    assert [line.after_s for line in lines_of(records)] == [0.0, 2.0]


def test_every_word_that_an_event_may_hold_has_a_text() -> None:
    for event, field, texts in (
        (ev.ToolPlanned, "decided_by", DECIDED),
        (ev.CaseTriaged, "route", {**ROUTES, "story": None}),
        (ev.EvidenceCritiqued, "timeliness", TIMELINESS),
        (ev.SignalSynthesized, "path", PATHS),
    ):
        assert set(get_args(get_type_hints(event)[field])) <= set(texts), (event, field)
