"""The news that a watch's investigation publishes, on the log as any listener writes it."""

from __future__ import annotations

from datetime import UTC, datetime

from infra.kafka.news import NewsPublisher
from infra.kafka.topics import KafkaAddress, offsets_of, read_range
from schemas.effects import PublishedReply, PublishNews
from schemas.news import News, decode_news
from schemas.topics import Topics

AT = datetime(2026, 2, 10, tzinfo=UTC)


async def test_an_item_is_on_the_log_as_intake_reads_it_and_twice_it_is_the_same_case(
    address: KafkaAddress, made_topics: Topics
) -> None:
    news = News(
        source="watch:deepseek",
        text="DeepSeek 融资 20 亿",
        published_at=AT,
        external_id="1",
        origins=("https://a.example/1",),
    )
    port = NewsPublisher(address, made_topics, mode="offline")
    answers = [await port.perform(PublishNews(news=news)) for _ in range(2)]
    await port.close()
    assert [a.reply for a in answers] == [PublishedReply(case_id=news.case_id)] * 2
    found = []
    async for _, records in read_range(address, await offsets_of(address, made_topics.news)):
        found += [(r.key, decode_news(r.value, now=AT)) for r in records]
    assert found == [(b"watch%3Adeepseek:1", news)] * 2
