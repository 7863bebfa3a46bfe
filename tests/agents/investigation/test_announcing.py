"""The news that an investigation of a watch opens: what is new, and told in words that were checked on a page."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
from msgspec.structs import replace

from agents.investigation.subject import asked
from agents.specification import Given, given
from infra.settings import Settings
from newsproof.app.research_composition import investigation_snapshot_of
from schemas.effects import CallModel, Failure, ModelReply, PublishedReply, PublishNews
from schemas.events import SearchCompleted, ToolPlanned
from schemas.evidence import Findings, PageStance, PreviousBrief, PreviousClaim, SearchReference, Sentiment
from schemas.news import decode_news
from schemas.research_events import (
    ClaimReading,
    ClaimsCritiqued,
    ClaimsStated,
    FoundClaim,
    InvestigationFramed,
    SubQuestion,
)

AT = datetime(2026, 2, 10, tzinfo=UTC)
CONFIG = investigation_snapshot_of(Settings(_env_file=None, newsproof_mode="offline"))
WATCHED = asked("Monitor DeepSeek's latest developments", as_of=AT, config_hash="", watch="w")
KNOWN, NEW, UNQUOTED = "DeepSeek launches V4 Lite", "DeepSeek raises $2 billion", "Norland bans the app of DeepSeek"
CLAIMS = tuple(FoundClaim(claim=text, told_by=(n,)) for n, text in enumerate((KNOWN, NEW, UNQUOTED), start=1))
BEFORE = PreviousBrief(
    investigation_id="i",
    as_of=AT,
    claims=(PreviousClaim(claim=KNOWN, verdict="unconfirmed", urls=("https://a1.example/1",)),),
)


def page(number: int, text: str) -> SearchReference:
    domain = f"a{number}.example"
    return SearchReference(
        reference_number=number, source_tool="offline", title=text, url=f"https://{domain}/{number}", snippet=text, passage=text,
        relevance_score=0.9, quality_score=80, content_complete=True, source_credibility="high", query="q",
        registrable_domain=domain, owner=domain, published_at=AT, carries=True,
    )  # fmt: skip


def read(number: int, quote: str | None) -> ClaimReading:
    stances = tuple(
        PageStance(
            reference_number=n, stance="supports" if n == number else "unrelated", quote=quote if n == number else None
        )
        for n in (1, 2, 3)
    )
    return ClaimReading(claim=CLAIMS[number - 1], stances=stances, critic="supported")


def critiqued(watched: Any = WATCHED, previous: PreviousBrief | None = BEFORE) -> Given:
    findings = Findings(
        keyword="q", references=tuple(page(n, c.claim) for n, c in enumerate(CLAIMS, start=1)), dropped=(),
        independent_sources=3, multi_source=True, official_confirmed=False, denied=False, conflict=False, stale=False,
        sentiment=Sentiment(panic=0.0, neutral=1.0, optimistic=0.0), source_count=3, confidence=0.5, triggered=True,
    )  # fmt: skip
    return given(
        watched,
        InvestigationFramed(questions=(SubQuestion(question="q", query="q"),), previous=previous),
        ToolPlanned(
            round=1, tools=("search",), search_keywords="q", keywords_from="model", decided_by="model", reason="", tasks=(),
            route="search",
        ),
        SearchCompleted(round=1, findings=findings, outcomes=(), route="critique"),
        ClaimsStated(claims=CLAIMS),
        ClaimsCritiqued(readings=(read(1, KNOWN), read(2, NEW), read(3, "words that are on no page"))),
        config=CONFIG,
    )  # fmt: skip


def news_of(step: Given) -> list[PublishNews]:
    return [e for e in (step.asked if isinstance(step.asked, tuple) else (step.asked,)) if isinstance(e, PublishNews)]


def test_a_watch_publishes_the_claim_that_is_new_and_quoted_with_its_pages_as_origins() -> None:
    step = critiqued()
    assert isinstance(step.asked, tuple) and isinstance(step.asked[0], CallModel)
    (effect,) = news_of(step)
    news = effect.news
    assert (news.source, news.text, news.origins) == ("watch:deepseek", NEW, ("https://a2.example/2",))
    assert news.published_at == news.received_at == AT
    assert decode_news(msgspec.json.encode(news), now=AT) == news
    later = replace(WATCHED, as_of=datetime(2026, 2, 11, tzinfo=UTC))
    assert news_of(critiqued(later))[0].news.external_id == news.external_id

    brief = step.told(ModelReply(data={"sentences": []}), PublishedReply(case_id="case")).event
    assert (brief.published, brief.path) == (("case",), "complete")
    # A broker that is away for a moment is asked again.
    away = Failure(kind="unavailable", message="away", retryable=True)
    step.told(ModelReply(data={"sentences": []}), away).fails_with("unavailable")


def test_nothing_is_published_without_a_watch_or_with_nothing_to_compare_with() -> None:
    assert news_of(critiqued(asked("DeepSeek", as_of=AT, config_hash=""))) == []
    assert news_of(critiqued(previous=None)) == []
