"""The process that parses sources' feeds, JSON and robots.txt, confined like :mod:`infra.pages.reader_process`.

python -P -m infra.listeners.reader_process LIMIT_S MEMORY_BYTES
"""

from __future__ import annotations

from infra.listeners.parsing import ItemsAnswer, ItemsRequest, items_of
from infra.listeners.source import Source
from infra.pages.reader_messages import RulesAnswer, RulesRequest
from infra.pages.reader_process import serve
from infra.pages.rules import allowed_by


def answer(asked: ItemsRequest | RulesRequest) -> ItemsAnswer | RulesAnswer:
    """Parse the bytes of one request. Bounds neither time nor memory."""
    if isinstance(asked, RulesRequest):
        return RulesAnswer(allowed=allowed_by(asked.rules, asked.url))
    return items_of(asked)


def _import_all() -> None:
    body = b"<rss version='2.0'><channel><item><title>Ready</title></item></channel></rss>"
    items_of(ItemsRequest(body=body, content_type="", url="", source=Source(id="x", kind="feed", url="https://x")))
    allowed_by(b"User-agent: *\nDisallow: /x", "https://example.com/")


if __name__ == "__main__":
    serve(answer, ItemsRequest | RulesRequest, _import_all)
