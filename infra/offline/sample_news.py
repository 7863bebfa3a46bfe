"""The sample news that ``demo`` publishes, and apart from it the labels that its outcome is counted against."""

from __future__ import annotations

from importlib import resources
from typing import Any, Literal

import msgspec
import orjson

from schemas.news import News

SAMPLE_NEWS = "history"
"""The source of every sample item. What runs the sample names it in ``TRUSTED_SOURCES``."""


class Label(msgspec.Struct, frozen=True):
    """What is known of a sample item today. It never enters the pipeline: no news, prompt, page or tool holds it."""

    truth: Literal["true", "false", "mixed"]
    event_type: str


def sample_labels() -> dict[str, Label]:
    """Return the labels by ``external_id``."""
    return {row["id"]: msgspec.convert(row, Label) for row in _rows()}


def sample_news() -> list[News]:
    """Return the sample as news in publication order, without its labels (truth and the like)."""
    items = [
        msgspec.convert(
            {
                "source": SAMPLE_NEWS,
                "external_id": row["id"],
                "language": row["lang"],
                "text": row["text"],
                "published_at": row["published_at"],
            },
            News,
        )
        for row in _rows()
    ]
    return sorted(items, key=lambda news: news.published_at)


def _rows() -> list[dict[str, Any]]:
    lines = resources.files("infra.offline").joinpath("sample/history.jsonl").read_bytes().splitlines()
    return [orjson.loads(line) for line in lines if line]
