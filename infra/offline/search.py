"""The bundled synthetic corpus: its search, BM25 over English word stems and Chinese bigrams, and its pages by URL.

For demos and tests. Deterministic. The search knows only the query of a case and returns pages of any date. Dropping
evidence from the future is the verification's task, and the corpus contains such pages so that it is exercised.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from datetime import datetime
from decimal import Decimal
from importlib import resources
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec

from infra.ports import Answer, Free
from infra.search import is_within
from infra.search.bm25 import Bm25
from schemas.calls import ProviderMode
from schemas.effects import PageReply, Scrape, Search, SearchReply
from schemas.errors import ConfigError, PermanentError
from schemas.evidence import Page, SearchResult

TITLE_WEIGHT = 2


class Document(msgspec.Struct, frozen=True):
    """One page of the corpus. ``published_at`` (UTC) is None for a page that bears no date, as many on the web do."""

    id: str
    url: str
    title: str
    content: str
    lang: str
    published_at: datetime | None = None


class OfflineSearch(Free):
    """The search port of offline mode. Each reply is delayed by ``latency_s`` seconds."""

    provider = "offline"
    mode: ProviderMode = "offline"

    def __init__(
        self, corpus_dir: Path | None = None, *, latency_s: float = 0.0, documents: tuple[Document, ...] | None = None
    ) -> None:
        """``documents`` are searched instead of those of the folder."""
        self._latency_s = latency_s
        self.documents = load_corpus(corpus_dir) if documents is None else documents
        self._index = Bm25()
        for document in self.documents:
            self._index.add(f"{(document.title + ' ') * TITLE_WEIGHT}{document.content}")

    async def perform(self, effect: Any) -> Answer:
        """Answer one :class:`~schemas.effects.Search`. Never fails; an empty result means that nothing matched."""
        search: Search = effect
        if self._latency_s > 0:
            await asyncio.sleep(self._latency_s)
        results = tuple(_result(d, s, self.provider) for d, s in self.matches(search)[: search.max_results])
        reply = SearchReply(provider=search.provider, query=search.query, results=results)
        return Answer(reply=reply, cost_usd=Decimal(0), cost_source="offline")

    async def close(self) -> None: ...

    def matches(self, search: Search) -> list[tuple[Document, float]]:
        """Return the documents that a search finds, as :meth:`rank` orders them."""
        return [(d, s) for d, s in self.rank(search.query) if is_within(d.url, search.include_domains)]

    def rank(self, query: str) -> list[tuple[Document, float]]:
        """Return matching documents with scores in (0, 1], best first; 0.6 and more is a clear match."""
        scored = [(self.documents[number], score) for number, score in self._index.rank(query)]
        return sorted(scored, key=lambda pair: (-pair[1], pair[0].id))


class OfflinePages(Free):
    """The scrape port of offline mode: a page outside the corpus is blocked. Each reply is delayed by ``latency_s`` seconds."""

    provider = "offline"
    mode: ProviderMode = "offline"

    def __init__(self, documents: Iterable[Document], *, latency_s: float = 0.0) -> None:
        self._latency_s = latency_s
        self._by_url = {d.url: d for d in documents}

    async def perform(self, effect: Any) -> Answer:
        """Answer one :class:`~schemas.effects.Scrape`.

        Raises:
            PermanentError: the corpus has no such page (kind ``blocked``).
        """
        scrape: Scrape = effect
        if self._latency_s > 0:
            await asyncio.sleep(self._latency_s)
        document = self._by_url.get(scrape.url)
        if document is None:
            raise PermanentError(
                f"the bundled corpus has no page {scrape.url}: offline opens only those", kind="blocked"
            )
        page = Page(url=document.url, title=document.title, text=document.content)
        return Answer(reply=PageReply(page=page), cost_usd=Decimal(0), cost_source="offline")

    async def close(self) -> None: ...


def load_corpus(folder: Path | None = None) -> tuple[Document, ...]:
    """Return the documents of every ``*.jsonl`` in the folder (default: the bundled one), ordered by id.

    Raises:
        ConfigError: the folder holds none, or a line does not decode; the message names it.
    """
    root: Any = folder or resources.files("infra.offline").joinpath("corpus")
    decoder = msgspec.json.Decoder(Document)
    documents: list[Document] = []
    for file in sorted((f for f in root.iterdir() if f.name.endswith(".jsonl")), key=lambda f: f.name):
        for number, line in enumerate(file.read_text("utf-8").splitlines(), start=1):
            try:
                documents.append(decoder.decode(line))
            except msgspec.DecodeError as exc:
                raise ConfigError(f"{file.name} line {number} is no document: {exc}; correct or remove it") from exc
    if not documents:
        raise ConfigError(f"the offline corpus {root} holds no documents: install the package again")
    return tuple(sorted(documents, key=lambda d: d.id))


def _result(document: Document, score: float, provider: str) -> SearchResult:
    return SearchResult(
        title=document.title,
        url=document.url,
        domain=urlsplit(document.url).hostname or "",
        snippet=document.content,
        score=score,
        published_at=document.published_at,
        provider=provider,
    )
