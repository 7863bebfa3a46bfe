"""Offline pages: the bundled corpus by URL. A page outside it is reported as blocked."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from decimal import Decimal
from typing import Any

from infra.offline.search import Document
from infra.ports import Answer, Free
from schemas.calls import ProviderMode
from schemas.effects import PageReply, Scrape
from schemas.errors import PermanentError
from schemas.evidence import Page


class OfflinePages(Free):
    """The scrape port of offline mode. Each reply is delayed by ``latency_s`` seconds."""

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
        found = self._by_url.get(scrape.url)
        if found is None:
            raise PermanentError(
                f"the bundled corpus has no page {scrape.url}: offline opens only those", kind="blocked"
            )
        page = Page(url=found.url, title=found.title, text=found.content)
        return Answer(reply=PageReply(page=page), cost_usd=Decimal(0), cost_source="offline")

    async def close(self) -> None: ...
