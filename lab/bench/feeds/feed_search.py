"""``lab bench feeds``: time for a worker to index a week of listeners' items, its memory, and the latency of searches.

Half of the items are English, half Chinese. Their words are drawn from the bundled corpus, 55 words or 130 characters
each.
"""

from __future__ import annotations

import gc
import re
import statistics
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from random import Random

import orjson
import psutil

from agents.evidence.compiled import compiled
from agents.tables import load_tables
from infra.listeners.source import sources_of
from infra.offline.sample_news import sample_news
from infra.offline.search import load_corpus
from lab.bench.feeds.listen import ITEMS
from lab.bench.measures import Figure
from lab.bench.world import world
from schemas.effects import Search
from schemas.errors import TransientError
from streams.intake.feed_search import FeedSearch
from streams.journal.log import KafkaLog

WORDS, CLAUSES = 55, 9
SOURCES = (
    ("coindesk", "www.coindesk.com"), ("odaily-flash", "www.odaily.news"),
    ("theblock", "www.theblock.co"), ("panews", "www.panewslab.com"),
)  # fmt: skip


async def feeds(items: int = ITEMS, seed: int = 1) -> list[Figure]:
    """Write the items, then index them and search for each item of the sample news."""
    async with world() as w:
        async with w.address.producer(linger_ms=5) as producer:
            for value in _news(items, Random(seed)):
                await producer.send(w.topics.news, value)
        search = FeedSearch(lambda: KafkaLog(w.address), w.topics, lambda: sources_of(None), lambda _news: True)
        _ = compiled(load_tables(demo=False)).directory  # a worker has loaded it anyway
        gc.collect()
        process, began, cpu = psutil.Process(), time.monotonic(), time.process_time()
        before = process.memory_info().rss
        while True:
            try:
                held = await search.read_to_the_ends()
                break
            except TransientError:
                continue
        took, cpu = time.monotonic() - began, time.process_time() - cpu
        gc.collect()
        taken = process.memory_info().rss - before
        times = []
        for news in sample_news() * 5:
            asked = Search(provider="feeds", query=news.text[:200], max_results=5, as_of=datetime.now(UTC))
            start = time.process_time()
            await search.perform(asked)
            times.append((time.process_time() - start) * 1000)
        await search.close()
    if held != items:
        raise AssertionError(f"{held} of {items} items are held: what was measured is another index")
    return [
        Figure(name=f"feeds: index {items:,} items, from the start", value=took, unit="s", target="-"),
        Figure(name="feeds: processor time of that", value=cpu, unit="s", target="-"),
        Figure(name="feeds: resident memory that it takes", value=taken / 2**20, unit="MiB", target="-"),
        Figure(name="feeds: processor time of a search, median", value=statistics.median(times), unit="ms", target="-"),
        Figure(
            name="feeds: 95 in 100 of them within", value=statistics.quantiles(times, n=20)[-1], unit="ms", target="-"
        ),
    ]


def _news(items: int, random: Random) -> Iterator[bytes]:
    texts = [document.content for document in load_corpus()]
    english = [word for text in texts if text[:1].isascii() for word in text.split()]
    chinese = [
        part for text in texts if not text[:1].isascii() for part in re.split("[,，。、]", text) if 4 < len(part) < 60
    ]
    for number in range(items):
        source, host = SOURCES[number % len(SOURCES)]
        zh = number % 2 == 1
        body = "，".join(random.choices(chinese, k=CLAUSES)) if zh else " ".join(random.choices(english, k=WORDS))
        at = (datetime.now(UTC) - timedelta(minutes=1)).isoformat()
        yield orjson.dumps(
            {
                "source": source, "external_id": str(number), "text": f"{body[: 30 if zh else 70]} {number}\n\n{body}",
                "published_at": at, "received_at": at, "url": f"https://{host}/{number}",
            }
        )  # fmt: skip
