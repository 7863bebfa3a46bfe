"""The words in which a case is told: every event has its sentence, and none shows a name of the code alone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from newsproof.report import narrative
from newsproof.report.signals import action_in_words, signal_lines, summary_in, verdict_in_words
from schemas import events as ev
from schemas.envelope import Envelope
from schemas.evidence import (
    DroppedResult,
    Findings,
    PageStance,
    SearchReference,
    Sentiment,
)
from schemas.signals import Adjustment, Signal, SignalEvidence
from streams.journal.case_reading import JournalRecord, in_short
from tests.newsproof.signal_samples import signal

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
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


def record(event: ev.Event, n: int, *, accepted: bool = True) -> JournalRecord:
    at = NOW + timedelta(seconds=n)
    envelope = Envelope(
        id=f"e{n}", type=ev.WIRE_NAMES[type(event)], case_id="c", causation_id=None, run_id="live", time=at
    )
    return JournalRecord(offset=n, appended_at=at, envelope=envelope, event=event, accepted=accepted)


def test_the_waterfall_leads_from_the_first_to_the_final_confidence() -> None:
    adjustments = [Adjustment(rule="a", amount=0.15, reason="r"), Adjustment(rule="b", amount=-0.05, reason="s")]
    rows = narrative.waterfall(signal("s", preliminary_confidence=0.7, confidence=0.8), adjustments)
    assert [(r.rule, r.amount, round(r.confidence, 6)) for r in rows] == [
        ("preliminary", None, 0.7),
        ("a", 0.15, 0.85),
        ("b", -0.05, 0.8),
        ("final", None, 0.8),
    ]


def test_pages_that_are_dated_after_the_news_are_told_apart_from_the_others_that_were_dropped() -> None:
    drop = DroppedResult(url="u", title="t", reason="future_evidence")
    told = narrative.findings_in_words(replace(FOUND, dropped=(drop, drop, replace(drop, reason="low_quality"))))
    assert "2 pages left out because dated after the news, 1 other result not used" in told.en
    assert "2 个网页日期晚于新闻，未采用，1 条结果未采用" in told.zh
    alone = narrative.findings_in_words(replace(FOUND, dropped=(replace(drop, reason="low_quality"),)))
    assert alone.en.endswith("1 result not used")


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
        (signal(risk_flags=("offline", "expired")), "confirmed", "sell · expired"),
        (signal(verdict=None), "no verdict (published by the rules of before)", "sell"),
    ],
)
def test_verdict_and_action_are_told_with_what_stands_behind_them(one: Signal, verdict: str, action: str) -> None:
    assert (verdict_in_words(one).en, action_in_words(one).en) == (verdict, action)


def test_an_expired_order_is_listed_as_one() -> None:
    one = signal(risk_flags=("expired",))
    (line,) = signal_lines([one], {}, now=one.decided_at, language="en", width=80)
    assert " expired " in line and " sell " not in line
    assert in_short(one) == f"sell {one.confidence:.2f} (expired, confirmed)"


def test_words_that_find_nothing_do_not_show_that_a_page_is_unrelated() -> None:
    pages = [narrative.ReadPage(reference_number=1, stance=stance) for stance in ("unrelated", "supports")]
    assert [narrative.stance_in_words(page, critic=False).en for page in pages] == [
        "not clear by words alone",
        "supports",
    ]
    assert [narrative.stance_in_words(page, critic=True).zh for page in pages] == ["无关", "支持"]


def test_a_summary_is_in_the_readers_language_where_somebody_wrote_it() -> None:
    both = signal(summary="as the news", summary_zh="中文", summary_en="English")
    assert (summary_in(both, "zh"), summary_in(both, "en")) == ("中文", "English")
    assert summary_in(signal(summary="as the news"), "zh") == "as the news"


def test_supporting_sources_stand_beside_independent_ones() -> None:
    assert narrative.sources_in_words(signal(supporting_sources=2)).en == "2 supporting, 3 independent sources"
    assert narrative.sources_in_words(signal(supporting_sources=None)).en == "3 independent sources"


def reference(number: int, **fields: Any) -> SearchReference:
    given: dict[str, Any] = {
        "source_tool": "search", "title": f"page {number}", "url": f"https://{number}.example/", "snippet": "",
        "relevance_score": 0.9, "quality_score": 80.0, "content_complete": True, "source_credibility": "high", "query": "q",
        "stance": "supports",
    }  # fmt: skip
    return SearchReference(reference_number=number, **{**given, **fields})


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
        ({"stance": "denies", "same_subject": False}, "denies", "unrelated", "read as “denies”; different subject"),
        ({"stance": "supports", "same_event": False}, "supports", "unrelated", "read as “supports”; different event"),
        ({"stance": "supports", "amount": "differs"}, "supports", "hedges", "read as “supports”; different amount"),
        (
            {"stance": "hedges", "place": "differs", "stage": "differs"},
            "supports",
            "hedges",
            "not as far advanced; different venue or chain",
        ),
        ({"stance": "hedges"}, "denies", "hedges", ""),
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


def test_a_page_counts_as_the_signal_took_it_where_code_compared_more_than_the_critic_said() -> None:
    found = msgspec.structs.replace(FOUND, references=(reference(1),))
    read = (PageStance(reference_number=1, stance="supports", quote="in these words"),)
    critique = ev.EvidenceCritiqued(claims=(), verdict="supported", stances=read)
    taken = SignalEvidence(url="u", hash="h", stance="hedges", reference_number=1, figure=3e6, claimed=3e8)
    (page,) = narrative.pages_read(found, critique, (taken,))
    assert (page.stance, narrative.doubts_in_words(page)) == ("hedges", "read as “supports”")


def test_without_a_critic_pages_count_as_the_word_rules_read_them() -> None:
    found = msgspec.structs.replace(FOUND, references=(reference(1), reference(2, stance="hedges")))
    for critique in (None, ev.EvidenceCritiqued(claims=(), verdict="supported")):
        assert [p.stance for p in narrative.pages_read(found, critique)] == ["supports", "hedges"]
    assert narrative.pages_read(None, None) == []


def test_who_speaks_is_the_page_s_owner_the_party_or_authority_and_whom_it_cites() -> None:
    said = PageStance(reference_number=1, stance="supports", speaks_for="authority", cites="Reuters")
    assert narrative.speaker_in_words(reference(1, speaker="SEC"), said) == "SEC, the authority, citing Reuters"
    assert narrative.speaker_in_words(reference(1), None) == ""
