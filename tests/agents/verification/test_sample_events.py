"""The sample events through the offline pipeline: what is false does not end as a confident buy, what is true survives."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from msgspec.structs import replace

from agents.specification import opened
from infra.offline.newsroom.search import PlayedSearch
from infra.offline.sample_news import sample_news
from schemas.events import SignalSynthesized
from tests.agents.verification import test_purity
from tests.agents.verification.test_purity import run_event

SAMPLE = Path(__file__).resolve().parents[3] / "infra" / "offline" / "sample" / "history.jsonl"


@pytest.mark.parametrize("results", [5, 10])
def test_false_news_ends_as_no_confident_buy_and_true_news_keeps_its_confidence(deep, results):
    config = replace(deep, search_max_results=results)
    signals = []
    for line in SAMPLE.read_text("utf-8").splitlines():
        row = json.loads(line)
        at = datetime.fromisoformat(row["published_at"])
        event = opened(row["text"], source="history", language=row["lang"], at=at, external_id=row["id"])
        head = run_event(config, event)[0].case.head
        assert isinstance(head, SignalSynthesized), row["id"]
        signals.append((row["truth"], row["id"], head.signal))
    assert [i for t, i, s in signals if t == "false" and s.action == "buy" and s.confidence >= 0.6] == []
    true = [s.confidence for t, _, s in signals if t == "true"]
    assert sum(c >= 0.4 for c in true) >= 0.8 * len(true)
    assert any(s.action == "buy" and s.confidence >= 0.75 for t, _, s in signals if t == "true")


TODAY = datetime(2026, 11, 23, 12, tzinfo=UTC)


def test_a_sample_that_is_told_today_is_judged_as_in_its_time(deep, monkeypatch):
    def signals(at=None):
        for news in sample_news():
            event = opened(news.text, language=news.language, at=at or news.published_at)
            one = test_purity.run_event(deep, event)[0].case.head.signal
            yield (
                one.verdict,
                one.action,
                one.confidence,
                one.supporting_sources,
                one.independent_sources,
                tuple(flag for flag in one.risk_flags if flag != "expired"),  # an order of then is no order of today
            )

    then = list(signals())
    monkeypatch.setattr(test_purity, "SEARCH", PlayedSearch())
    assert list(signals(TODAY)) == then
    assert len({verdict for verdict, *_ in then}) >= 4
