"""The offline searches that know what the bundled corpus covers: the stories of the sample, and some subjects."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

from msgspec.structs import replace

from infra.offline import lexicon as lx
from infra.offline.investigating import SUBJECTS
from infra.offline.rules import entity_of, event_type_of, keywords_of
from infra.offline.sample_news import sample_news
from infra.offline.search import Document, OfflineSearch
from infra.ports import Answer
from schemas.effects import Search, SearchReply

STORY_TIME = timedelta(days=3)
"""Time from a sample item within which news may be its story."""
SAME_STORY = 0.9
"""Least score of a sample item for a query about its story. Its own queries reach 0.92 and more."""
_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9.,]*")
_KNOWN = frozenset(name.lower() for name in (*lx.ENTITIES, *lx.EXCHANGES, *lx.ASSETS, *lx.TICKERS))
_KNOWN_ZH = tuple(name for name in _KNOWN if not name.isascii())


def _sample() -> tuple[Document, ...]:
    return tuple(
        Document(id=str(item.external_id), url="", title=item.text, content="", lang="", published_at=item.published_at)
        for item in sample_news()
    )


def _names(text: str) -> set[str]:
    """Return the names and figures of a text: words with a capital or a digit, and known names, in lower case."""
    words = (word.rstrip(".,") for word in _WORD.findall(text))
    latin = {w.lower() for w in words if re.search(r"[A-Z0-9]", w) or w.lower() in _KNOWN}
    return latin | {name for name in _KNOWN_ZH if name in text}


class StorySearch(OfflineSearch):
    """Finds what the offline search finds for a story of the sample, and nothing for any other.

    A page about another event would confirm or deny a user's own news by chance. News tells a story of the sample if it
    is of the item's days, nearly in its words, and gives no name or figure that the item does not give. News of another day
    tells it in the item's own words alone: then each page keeps its distance in time from the event, as in
    :class:`PlayedSearch`, so that who tries an example today sees what became of it then.
    """

    def __init__(self, *, latency_s: float = 0.0) -> None:
        super().__init__(latency_s=latency_s)
        self._stories = OfflineSearch(documents=_sample())
        self._by_words = {
            _words_of(keywords_of(d.title, event_type_of(d.title), entity_of(d.title))): d
            for d in self._stories.documents
        }

    async def perform(self, effect: Any) -> Answer:
        """Answer one :class:`~schemas.effects.Search`, as :meth:`OfflineSearch.perform`."""
        search: Search = effect
        answer, item = await super().perform(search), self._by_words.get(_words_of(search.query))
        return answer if item is None or _is_near(item, search) else _moved(answer, search, item)

    def matches(self, search: Search) -> list[tuple[Document, float]]:
        """Return what :meth:`OfflineSearch.matches` returns for a story of the sample, else nothing."""
        return super().matches(search) if self._covers(search) else []

    def _covers(self, search: Search) -> bool:
        if _words_of(search.query) in self._by_words:
            return True
        near = [item for item in self._stories.documents if _is_near(item, search)]
        if not near:  # nearly all news of a user: nothing is ranked for it
            return False
        named = _names(search.query)
        return any(
            score >= SAME_STORY and item in near and named <= _names(item.title)
            for item, score in self._stories.rank(search.query)
        )


def _is_near(item: Document, search: Search) -> bool:
    return item.published_at is not None and abs(search.as_of - item.published_at) <= STORY_TIME


class SubjectSearch(OfflineSearch):
    """Finds pages for an investigation of a subject of the corpus, and nothing for any other: no page is about that."""

    def matches(self, search: Search) -> list[tuple[Document, float]]:
        """Return what :meth:`OfflineSearch.matches` returns for a query that names a subject, else nothing."""
        query = search.query.casefold()
        return super().matches(search) if any(subject.casefold() in query for subject in SUBJECTS) else []


def _words_of(query: str) -> frozenset[str]:
    return frozenset(query.casefold().split())


def _moved(answer: Answer, search: Search, item: Document) -> Answer:
    """Return the answer with each page as long before or after the case as it was before or after the item's event."""
    if item.published_at is None or not isinstance(answer.reply, SearchReply):
        return answer
    by = search.as_of - item.published_at
    moved = (replace(r, published_at=r.published_at and r.published_at + by) for r in answer.reply.results)
    return replace(answer, reply=replace(answer.reply, results=tuple(moved)))


class PlayedSearch(OfflineSearch):
    """Finds what the offline search finds, each page as long before (or after) the case as it was before the sample event.

    The event is the one whose text is most like the query. A query like none gets the pages with their own dates, which
    makes them old. So news of today with a sample's text is judged as the sample was in its time.
    """

    def __init__(self, *, latency_s: float = 0.0) -> None:
        super().__init__(latency_s=latency_s)
        self._events = OfflineSearch(documents=_sample())

    async def perform(self, effect: Any) -> Answer:
        """Answer one :class:`~schemas.effects.Search`, as :meth:`OfflineSearch.perform`."""
        search: Search = effect
        answer, about = await super().perform(search), self._events.rank(search.query)
        return _moved(answer, search, about[0][0]) if about else answer
