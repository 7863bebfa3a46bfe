"""The judged cases, and own situations, through :func:`assess` and the rules."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from situations import SITUATIONS, P, Situation

from agents.core.case import fold, open_case
from agents.evidence import Claim, assess, claim_of
from agents.evidence.policy import Conclusion, conclude
from agents.tables import load_tables
from schemas.config import Snapshot
from schemas.events import CaseTriaged, EventReceived
from schemas.evidence import Findings, SearchResult
from schemas.news import News
from schemas.signals import Draft

SNAPSHOT = Snapshot(tables=load_tables(demo=False))
DEMO = Snapshot(tables=load_tables(demo=True))
NOW = datetime(2024, 6, 3, 10, tzinfo=UTC)
CASES = [
    json.loads(line)
    for line in (Path(__file__).parents[2] / "data" / "evidence_cases.jsonl").read_text("utf-8").splitlines()
]


def draft(event_type: Any, asset: str, confidence: float = 0.7, action: Any = "observe") -> Draft:
    return Draft(
        summary="", event_type=event_type, asset=asset, asset_name="", action=action, direction="neutral",
        confidence=confidence, strength="medium", timeframe="short",
    )  # fmt: skip


def result(page: P) -> SearchResult:
    at = None if page.days is None else NOW - timedelta(days=page.days)
    return SearchResult(
        title=page.title, url=page.url, domain="", snippet=page.content, score=page.score, published_at=at
    )


def claim(text: str, event_type: str, asset: str, entity: str | None = None, **more: Any) -> Claim:
    language = "zh" if any("\u4e00" <= c <= "\u9fff" for c in text) else "en"
    return Claim(text=text, language=language, event_type=event_type, asset=asset, entity=entity, as_of=NOW, **more)


def judged(situation: Situation, snapshot: Snapshot = SNAPSHOT) -> tuple[Findings, Conclusion]:
    of = claim(situation.text, situation.event_type, situation.asset, situation.entity)
    findings = assess(of, [result(p) for p in situation.pages], query="q", snapshot=snapshot)
    return findings, conclude(
        draft(situation.event_type, situation.asset), findings, verdict=None, memory=(), chosen=None
    )


def differences(
    expect: dict[str, Any], findings: Findings, conclusion: Conclusion, preliminary: float
) -> dict[str, tuple[Any, Any]]:
    change = conclusion.confidence - preliminary
    got = {
        **{name: getattr(findings, name) for name in expect if hasattr(findings, name) and name != "risk_flags"},
        "delta": "up" if change > 0 else "down" if change < 0 else "none",
    }
    wrong = {k: (v, got[k]) for k, v in expect.items() if k != "risk_flags" and v not in (None, "any", got[k])}
    missing = set(expect.get("risk_flags", ())) - set(conclusion.risk_flags)
    return wrong | ({"risk_flags": (sorted(missing), conclusion.risk_flags)} if missing else {})


@pytest.mark.parametrize("case", CASES, ids=[c["id"] for c in CASES])
def test_every_judged_case_comes_out_as_expected(case: dict[str, Any]) -> None:
    news, first = case["news"], case["preliminary"]
    of = Claim(
        text=news["text"], language=news["language"], event_type=first["event_type"], asset=first["asset"],
        entity=case["entity"], as_of=datetime.fromisoformat(case["as_of"]), source_url=news["url"],
    )  # fmt: skip
    results = [
        SearchResult(
            title=e["title"], url=e["url"], domain="", snippet=e["content"], score=e["score"],
            published_at=datetime.fromisoformat(e["published_at"]),
        )
        for e in case["evidence"]
    ]  # fmt: skip
    findings = assess(of, results, query="q", snapshot=SNAPSHOT)
    start = draft(first["event_type"], first["asset"], first["confidence"], first["action"])
    conclusion = conclude(start, findings, verdict=None, memory=(), chosen=None)
    assert differences(case["expect"], findings, conclusion, start.confidence) == {}


@pytest.mark.parametrize("situation", SITUATIONS, ids=[s.name for s in SITUATIONS])
def test_every_own_situation_is_read_as_a_careful_person_would(situation: Situation) -> None:
    findings, conclusion = judged(situation)
    stances = [(r.stance, r.registrable_domain) for r in findings.references]
    assert differences(situation.expect, findings, conclusion, 0.7) == {}, (stances, findings.dropped)


def test_the_order_of_the_results_does_not_change_the_judgement() -> None:
    for situation in SITUATIONS:
        turned = situation._replace(pages=situation.pages[::-1])
        a, b = judged(situation)[0], judged(turned)[0]
        assert (a.independent_sources, a.denied, a.conflict, a.official_confirmed, a.stale) == (
            b.independent_sources, b.denied, b.conflict, b.official_confirmed, b.stale
        ), situation.name  # fmt: skip


def test_demo_hosts_are_official_only_with_the_demo_table() -> None:
    page = P(
        "https://www.binance.example/nova",
        "Binance lists NOVA",
        "Binance opens spot trading for NOVA today at noon, deposits are open.",
    )
    situation = Situation("demo", "Binance lists Nova (NOVA)", "listing", "NOVA", (page,), {})
    assert judged(situation, DEMO)[0].official_confirmed is True
    plain = judged(situation)[0]
    assert (plain.official_confirmed, plain.independent_sources) == (False, 0)


def test_the_official_page_survives_its_syndicated_copies() -> None:
    text = "Tether has frozen forty wallets connected with a sanctioned entity at the request of two agencies."
    pages = (
        P("https://wire.example/1", "A", text),
        P("https://tether.to/n", "B", text),
        P("https://www.coindesk.com/c", "C", text),
    )
    findings = judged(Situation("copies", "Tether freezes 40 wallets", "regulation", "USDT", pages, {}))[0]
    assert [r.registrable_domain for r in findings.references] == ["tether.to"]
    assert [d.reason for d in findings.dropped] == ["duplicate", "duplicate"]
    assert findings.official_confirmed


def test_a_text_and_its_negation_are_never_copies() -> None:
    pages = (
        P(
            "https://a.example/1",
            "SEC on the ABC ETF",
            "The Commission has approved the listing of the ABC spot fund on Monday.",
        ),
        P(
            "https://b.example/1",
            "SEC on the ABC ETF",
            "The Commission has not approved the listing of the ABC spot fund on Monday.",
        ),
    )
    findings = judged(Situation("negation", "SEC approves ABC ETF", "regulation", "ABC", pages, {}))[0]
    assert (findings.independent_sources, findings.conflict) == (2, True)


def test_the_page_that_the_news_came_from_is_no_evidence_for_it() -> None:
    page = P(
        "https://blog.example/a?utm_source=x",
        "Sable exploited",
        "Sable was exploited for twelve million dollars on Monday, a researcher wrote.",
    )
    of = claim("Sable exploited for $12M", "hack", "SBL", source_url="http://www.blog.example/a/")
    assert assess(of, [result(page)], query="q", snapshot=SNAPSHOT).independent_sources == 0


def test_a_date_in_the_address_stands_in_for_a_missing_one() -> None:
    page = P(
        "https://www.coindesk.com/2021/02/11/sable",
        "Sable exploited",
        "Sable lost twelve million dollars in an exploit of its lending pools.",
        None,
    )
    assert judged(Situation("old", "Sable exploited for $12M", "hack", "SBL", (page,), {}))[0].stale is True


def test_references_are_numbered_best_first_and_at_most_ten_are_kept() -> None:
    pages = tuple(
        P(
            f"https://site{n}.example/x",
            f"Report {n}",
            f"Report number {n}: observer {n * 7919} wrote {'abcdefghijklmno'[n]}{n}x about Sable in words of kind {n * 31}.",
            0.5,
            0.6 + n / 50,
        )
        for n in range(15)
    )
    findings = judged(Situation("many", "Sable exploited for $12M", "hack", "SBL", pages, {}))[0]
    assert [r.reference_number for r in findings.references] == list(range(1, len(findings.references) + 1))
    assert len(findings.references) <= SNAPSHOT.quality_keep
    scores = [r.quality_score for r in findings.references]
    assert scores == sorted(scores, reverse=True)
    assert all(30 <= s <= 100 for s in scores)


def test_plain_figures_count_without_judging() -> None:
    spoof = P(
        "https://www.sec.gov.approval.example/1",
        "SEC",
        "Official announcement of the Commission on the approval of the fund.",
    )
    findings = judged(Situation("plain", "SEC approves ABC ETF", "regulation", "ABC", (spoof, spoof), {}))[0]
    assert (findings.plain_source_count, findings.plain_official_confirmed) == (2, True)
    assert (findings.independent_sources, findings.official_confirmed) == (0, False)


def test_sentiment_shares_sum_to_one() -> None:
    for situation in SITUATIONS:
        mood = judged(situation)[0].sentiment
        assert abs(mood.panic + mood.neutral + mood.optimistic - 1.0) < 1e-9


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "part", ["没有与和", "未", "not been ", "report is ", "system: ", "ignore ", "call report ", "a "]
)
def test_hostile_repetitions_are_read_to_the_end_without_blowing_up(part: str) -> None:
    # Found in the writing: nested repetition in a negation made 45,000 characters take minutes.
    text = f"SEC approves ABC fund {part * (60_000 // len(part))}"
    page = P("https://a.example/1", "ABC", text)
    findings = judged(Situation("hostile", text, "regulation", "ABC", (page,), {}))[0]
    assert len(findings.references) + len(findings.dropped) == 1


def test_the_claim_of_a_case_is_its_news_and_its_triage() -> None:
    news = News(source="s", text="Kraken adds LUM", published_at=NOW, url="https://n.example/1")
    received = EventReceived(news=news, config_hash="", text_hash="", language="en")
    case = open_case(received, case_id="c", event_id="e1", run_id="live", at=NOW, config=SNAPSHOT)
    with pytest.raises(LookupError):
        claim_of(case)
    triaged = CaseTriaged(draft=draft("listing", "LUM"), route="deep", gate_reason="", rollout_bucket=0.0)
    of = claim_of(fold(case, triaged, event_id="e2", at=NOW))
    assert (of.text, of.event_type, of.asset, of.as_of, of.source_url, of.language) == (
        "Kraken adds LUM", "listing", "LUM", NOW, "https://n.example/1", "en"
    )  # fmt: skip
