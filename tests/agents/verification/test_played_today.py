"""The texts of the sample, told today, get the signals of their time from the search that `demo --listen` uses."""

from __future__ import annotations

from datetime import UTC, datetime

from agents.specification import opened
from infra.offline.newsroom.search import PlayedSearch
from infra.offline.sample_news import sample_news
from tests.agents.verification import test_purity

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
                one.risk_flags,
            )

    then = list(signals())
    monkeypatch.setattr(test_purity, "SEARCH", PlayedSearch())
    assert list(signals(TODAY)) == then
    assert len({verdict for verdict, *_ in then}) >= 4
