"""The pipeline on the servers of production: an Apache Kafka broker and a ClickHouse server, whoever runs them."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest

from infra.settings import Settings
from newsproof import publish, subscribe
from newsproof.app.composition import address_of, clickhouse_of, topics_of
from newsproof.app.processes.supervisor import pipeline
from schemas.news import News
from streams.audit.audit import audit
from streams.journal.log import KafkaLog

pytestmark = pytest.mark.containers


async def test_news_becomes_one_signal_and_its_rows_on_servers_of_production(settings: Settings) -> None:
    item = News(source="desk", text="USDC Circle depeg: the peg is lost at 0.97", published_at=datetime.now(UTC))
    topics = topics_of(settings)
    async with pipeline(settings) as running:
        watching = asyncio.create_task(running.watch())
        try:
            async with asyncio.timeout(150):
                sent = await publish([item, item], kafka=address_of(settings), prefix=topics.prefix)
                signals = subscribe(
                    verdicts=None, actions=None, start="earliest", kafka=address_of(settings), prefix=topics.prefix
                )
                signal = await anext(aiter(signals))
                rows = await _rows_of(settings, signal.signal_id)
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
        report = await audit(KafkaLog(address_of(settings)), topics)
    assert (sent.published, sent.refused) == (2, [])
    assert (signal.case_id, signal.revision, rows) == (item.case_id, 1, [(item.case_id,)])
    assert report.clean and (report.news, report.cases, report.signals) == (2, 1, 1)


async def _rows_of(settings: Settings, signal_id: str) -> list[tuple[str]]:
    async with clickhouse_of(settings) as tables:
        while True:
            found = await tables.query(
                "SELECT case_id FROM signals FINAL WHERE signal_id = {id:String}", {"id": signal_id}
            )
            if found.rows:
                return found.rows
            await asyncio.sleep(0.1)  # another process's progress: there is nothing to wait on
