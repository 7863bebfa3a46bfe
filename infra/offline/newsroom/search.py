"""The offline search for sample news that is dated today: its pages move in time with it."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from infra.offline.sample_news import sample_news
from infra.offline.search import Document, OfflineSearch
from infra.ports import Answer
from schemas.effects import Search, SearchReply


class PlayedSearch(OfflineSearch):
    """Finds what the offline search finds, each page as long before (or after) the case as it was before the sample event.

    The event is the one whose text is most like the query. A query like none gets the pages with their own dates, which
    makes them old. So news of today with a sample's text is judged as the sample was in its time.
    """

    def __init__(self, *, latency_s: float = 0.0) -> None:
        super().__init__(latency_s=latency_s)
        events = (
            Document(
                id=str(one.external_id), url="", title=one.text, content="", lang="", published_at=one.published_at
            )
            for one in sample_news()
        )
        self._events = OfflineSearch(documents=tuple(events))

    async def perform(self, effect: Any) -> Answer:
        """Answer one :class:`~schemas.effects.Search`, as :meth:`OfflineSearch.perform`."""
        search: Search = effect
        answer, about = await super().perform(search), self._events.rank(search.query)
        at = about[0][0].published_at if about else None
        if at is None or not isinstance(answer.reply, SearchReply):
            return answer
        by = search.as_of - at
        moved = (replace(r, published_at=r.published_at and r.published_at + by) for r in answer.reply.results)
        return replace(answer, reply=replace(answer.reply, results=tuple(moved)))
