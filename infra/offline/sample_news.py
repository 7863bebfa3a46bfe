"""The sample news that ``demo`` publishes."""

from __future__ import annotations

from importlib import resources

import msgspec
import orjson

from schemas.news import News


def sample_news() -> list[News]:
    """Return the sample as news in publication order, without its labels (truth and the like)."""
    lines = resources.files("infra.offline").joinpath("sample/history.jsonl").read_bytes().splitlines()
    items = [
        msgspec.convert(
            {
                "source": "history",
                "external_id": row["id"],
                "language": row["lang"],
                "text": row["text"],
                "published_at": row["published_at"],
            },
            News,
        )
        for row in map(orjson.loads, filter(None, lines))
    ]
    return sorted(items, key=lambda news: news.published_at)
