"""Write the golden records: ``python -m tests.schemas.write_golden``. Writes what is missing and never changes a file.

Each file holds one record as it stands in the log: the headers as text and the value as JSON. A file of an older version
was written when that version was today's; it is kept as it is, for ever. Records of the topic ``signals`` stand apart.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

from msgspec.structs import replace

from schemas import envelope as wire
from schemas import events as ev
from schemas.calls import Call
from schemas.effects import Failure, FunctionCall, ModelReply
from schemas.evidence import Findings, MarketValue, MemoryEntry, Page, SearchReference, Sentiment
from schemas.ids import LIVE_RUN, event_id, text_hash, uuid5
from schemas.news import News
from schemas.signals import (
    SIGNAL_SCHEMA_VERSION,
    Adjustment,
    ClaimAmount,
    Draft,
    PromptUse,
    Signal,
    SignalEvidence,
    StatedClaim,
    Story,
)
from schemas.topics import Topics
from streams.publish.publisher import _record
from tests.schemas.research_samples import INVESTIGATION
from tests.schemas.research_samples import SAMPLES as RESEARCH_SAMPLES

GOLDEN = Path(__file__).parents[1] / "data" / "golden"
GOLDEN_SIGNALS = GOLDEN.with_name("golden_signals")
NOW = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
NEWS = News(
    source="wire", text="某交易所将上线 TOKEN", published_at=NOW, external_id="1", language="zh",
    url="https://news.example/1", unknown={"channel": 7}, extra={"raw": [1, None]},
)  # fmt: skip
CASE = NEWS.case_id
FAILURE = Failure(kind="rate_limit", message="slow down", retryable=True, retry_after_s=2.5, status=429)
CALL = Call(
    kind="model", provider="offline", mode="offline", request_hash="ab" * 16, latency_ms=12.5, replied_at=NOW,
    reply=ModelReply(text="t", data={"a": 1}, function_calls=(FunctionCall(name="f", args={"q": "x"}),)),
    cost_usd=Decimal("0.00125"), model="m", prompt_name="triage", prompt_version="1", prompt_hash="cd" * 16,
    usage_input_tokens=10, usage_output_tokens=5,
)  # fmt: skip
DRAFT = Draft(
    summary="s", event_type="listing", asset="TOKEN", asset_name="Token", action="buy", direction="long",
    confidence=0.7, strength="medium", timeframe="short", risk_flags=("unverified",), entity="Some Exchange",
)  # fmt: skip
REFERENCE = SearchReference(
    reference_number=1, source_tool="offline", title="t", url="https://a.example/1", snippet="s", relevance_score=0.8,
    quality_score=70.0, content_complete=True, source_credibility="high", query="q", published_at=NOW,
)  # fmt: skip
FINDINGS = Findings(
    keyword="k", references=(REFERENCE,), dropped=(), independent_sources=1, multi_source=False,
    official_confirmed=False, denied=False, conflict=False, stale=False,
    sentiment=Sentiment(panic=0.1, neutral=0.6, optimistic=0.3), source_count=1, confidence=0.5, triggered=True,
)  # fmt: skip
SIGNAL = Signal(
    schema_version=SIGNAL_SCHEMA_VERSION, signal_id=uuid5("signal", LIVE_RUN, CASE), revision=1, supersedes=None,
    stage="final", verdict="confirmed", unchecked_reason=None, supporting_sources=1, summary_zh="摘要", summary_en="s",
    case_id=CASE, summary="s", event_type="listing", asset="TOKEN", asset_name="Token", symbol=None, venue=None,
    action="buy", direction="long", confidence=0.8, confidence_calibrated=None, preliminary_confidence=0.7,
    strength="high", timeframe="short", horizon=86_400, valid_until=NOW, decided_at=NOW, published_at=NOW,
    reference_price=None, notes="", links=(), independent_sources=1, risk_flags=("offline",), model="m",
    evidence=(
        SignalEvidence(url="https://a.example/1", hash="ef" * 16, stance="supports", reference_number=1, quote="q"),
    ),
    adjustments=(Adjustment(rule="r", amount=0.1, reason="why"),), provider_mode="offline", news_source="wire",
    prompt_versions=(PromptUse(name="triage", version="1", hash="cd" * 16),), language="zh",
)  # fmt: skip
FIRST = replace(
    SIGNAL, stage="preliminary", verdict="unchecked", unchecked_reason="preliminary", action="observe", confidence=0.6,
    adjustments=(), supporting_sources=0, independent_sources=0, evidence=(), summary_zh=None, summary_en=None,
)  # fmt: skip
CLAIM = StatedClaim(
    subject="Some Exchange", predicate="lists", object="TOKEN", amount=ClaimAmount(value=5e6, unit="USD"), asset="TOKEN",
    venue="Some Exchange", modality="rumoured", attribution="unnamed",
)  # fmt: skip

SAMPLES: tuple[ev.Event, ...] = (
    ev.EventReceived(news=NEWS, config_hash="aa" * 16, text_hash=text_hash(NEWS.text), language="zh", edits="earlier"),
    ev.SecondLookOpened(
        of_case=CASE, number=1, due_at=NOW, after_s=720.0, verdict="unconfirmed", draft=DRAFT, news=NEWS,
        config_hash="aa" * 16, text_hash=text_hash(NEWS.text), language="zh", claim=CLAIM, keywords="k",
        known=("https://a.example/1",),
    ),
    ev.CaseTriaged(
        draft=DRAFT, route="deep", gate_reason="high_value", rollout_bucket=0.01, calls=(CALL,), claim=CLAIM,
        preliminary_signal=FIRST, story=Story(subject="Some Exchange", predicate="lists", side="claimed", assets=("token",)),
        then="deep",
    ),
    ev.StoryChecked(route="deep"),
    ev.StoryCorroborated(
        signal_id="s", of_case="c", verdict="likely", amount=-0.075, action="buy", direction="long",
        supporting_sources=2, independent_sources=2, reason="why", evidence=SIGNAL.evidence,
    ),
    ev.ContextGathered(
        entries=(MemoryEntry(case_id="c", summary="s", event_type="listing", asset="TOKEN", confidence=0.6,
                             similarity=0.9, decided_at=NOW),), memory="found",
    ),
    ev.ToolPlanned(
        round=1, tools=("search",), search_keywords="k", keywords_from="model", decided_by="model", reason="why",
        tasks=(ev.SubTask(tool="search", query="q", claim="c"),), route="search",
    ),
    ev.SearchCompleted(
        round=1, findings=FINDINGS, route="critique",
        outcomes=(ev.ProviderOutcome(provider="offline", query="q", hits=0, failure=FAILURE),),
        market=(MarketValue(name="price", value=1.5, unit="USD", source="s", observed_at=NOW),),
    ),
    ev.PagesScraped(
        round=1, pages=(Page(url="https://a.example/1", title="t", text="x", truncated=True),), failures=(FAILURE,),
        route="critique",
    ),
    ev.KeywordsExpanded(round=1, keywords=("k2",), reason="why", route="plan"),
    ev.EvidenceCritiqued(
        claims=(ev.ClaimVerdict(claim="c", verdict="refuted", reliability=0.4, reference_numbers=(1,), reason="why"),),
        verdict="refuted", contradictions=("x",), timeliness="fresh",
    ),
    ev.SignalSynthesized(signal=SIGNAL, path="deep", adjustments=SIGNAL.adjustments),
    ev.CaseDropped(reason="duplicate", detail="d", duplicate_of="c"),
    ev.CaseFailed(reason="r", failed_step="single_pass", attempts=3),
    ev.EffectCompleted(step="search", request_hash="ab" * 16, calls=(CALL,)),
    ev.StepFailed(step="triage", failure=FAILURE, attempt=1, outcome="retry", retry_at=NOW, calls=(CALL,)),
    ev.StepStarted(step="scrape", crashes=3),
    ev.CaseDegraded(reason="deadline", failed_step="search"),
    ev.RetractionFound(signal_id="s", of_case="c", kind="retracted", reason="why"),
    ev.CancelRequested(requested_by="operator", reason="why"),
    *RESEARCH_SAMPLES,
    *INVESTIGATION,
)  # fmt: skip

STEP_FAILED_V1 = {
    "type": "newsproof.step_failed", "step": "triage", "error": "slow down", "error_class": "rate_limit", "attempt": 1,
    "retry_at": "2026-01-02T03:04:05.678901Z",
}  # fmt: skip
"""As version 1 wrote it: the failure was two strings, and whether to retry was read from ``retry_at``."""


def published(signal: Signal) -> tuple[bytes, bytes, dict[str, str]]:
    """(key, value, headers) of the record of a signal, published at ``NOW`` for the second event of a journal."""
    env = wire.Envelope(id="cause", type="", case_id=CASE, causation_id=None, run_id=LIVE_RUN, time=NOW)
    record = _record(signal, env, Topics().cases, 3, 1)
    headers = {name: value.decode() for name, value in record["headers"]} | {"ce_time": NOW.isoformat()}
    return record["key"], record["value"], headers


def path_of(name: str, version: int) -> Path:
    """Where the golden record of this wire name and version is."""
    return GOLDEN / f"{name}.v{version}.json"


def _write_missing() -> None:
    GOLDEN.mkdir(parents=True, exist_ok=True)
    GOLDEN_SIGNALS.mkdir(exist_ok=True)
    for event in SAMPLES:
        name = ev.WIRE_NAMES[type(event)]
        opens, commands = isinstance(event, ev.OPENINGS), isinstance(event, ev.COMMANDS)
        key, value, headers = wire.encode(
            event, id=event_id(LIVE_RUN, CASE, name), case_id=CASE, run_id=LIVE_RUN, time=NOW,
            causation_id=None if opens or commands else event_id(LIVE_RUN, CASE, "head"),
        )  # fmt: skip
        texts = {k: v.decode() for k, v in headers}
        _keep(path_of(name, ev.SCHEMA_VERSIONS[name]), key, texts, json.loads(value))
        if name == "newsproof.step_failed":
            _keep(path_of(name, 1), key, texts | {"ce_schemaversion": "1"}, STEP_FAILED_V1)
    key, value, texts = published(SIGNAL)
    _keep(GOLDEN_SIGNALS / f"signal.v{SIGNAL_SCHEMA_VERSION}.json", key, texts, json.loads(value))


def _keep(path: Path, key: bytes, headers: dict[str, str], value: object) -> None:
    if not path.exists():
        record = {"key": key.decode(), "headers": headers, "value": value}
        path.write_text(json.dumps(record, ensure_ascii=False, indent=1) + "\n")


if __name__ == "__main__":
    _write_missing()
