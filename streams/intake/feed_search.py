"""The search ``feeds``: what listeners brought in during the last seven days, from the topic ``news``. Free, without a key.

A search is answered only after ``news`` was read to its ends as of the search, so it knows what came in before the case did.
Whoever may write news must not lend it another's address: an item counts as a page of its address only where a source of
the list (docs/sources.md) that is read at an address of the same owner brought it.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import msgspec
from aiokafka import TopicPartition
from aiokafka.errors import KafkaError

from agents.evidence.compiled import compiled
from agents.tables import load_tables
from agents.tables.directory import Directory
from agents.text.hosts import canonical_url, host_of, registrable_domain
from agents.text.matching import fold_han
from infra.listeners.source import Source
from infra.ports import Answer, Free, Port
from infra.search import is_within
from infra.search.bm25 import Bm25
from infra.search.results import cut_query, host_of_link, result_of
from schemas.calls import ProviderMode
from schemas.effects import Search, SearchReply
from schemas.errors import ConfigError, ContractError, PermanentError, TransientError
from schemas.evidence import SearchResult
from schemas.news import News, decode_news
from schemas.topics import Topics
from streams.journal.clock import append_ms, appended_at, utc_now
from streams.journal.log import Cursor, Log, starts_since

WINDOW = timedelta(days=7)
"""By the log's time of arrival."""
MAX_HELD = 20_000
"""Items held, the newest: 2,850 a day of the seven. docs/benchmarks.md says what they take."""
HEAD = 1_000
"""Characters kept of an item's title and summary."""
READ_WITHIN_S = 5.0
_AT_ONCE = 50
"""Records taken in before others of the worker's loop get their turn: 50 take about 10 ms."""


class Item(msgspec.Struct, frozen=True, gc=False):
    """One item. ``text``: title and summary. ``known_at`` (UTC): when we had it; for what was played in, its publication."""

    source: str
    url: str
    text: str
    published_at: datetime
    known_at: datetime


class FeedSearch(Free, Port):
    """Answers ``Search`` from an index in memory, which :meth:`begin` or the first search starts to fill."""

    provider = "feeds"
    mode: ProviderMode = "live"

    def __init__(
        self,
        log: Callable[[], Log],
        topics: Topics,
        sources: Callable[[], Mapping[str, Source]],
        is_marked: Callable[[News], bool],
        *,
        max_held: int = MAX_HELD,
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        """``log`` and ``sources`` (id → source, with their addresses) are asked when reading begins; ``sources`` again for new items.

        ``is_marked``: whether the listener published an item.
        """
        self._log, self._topic, self._sources, self._is_marked = log, topics.news, sources, is_marked
        self._max_held, self._now = max_held, now
        self._reading: asyncio.Task[None] | None = None
        self._moved = asyncio.Condition()
        self._clear()

    def _clear(self) -> None:
        self._index = Bm25(least=1_000)
        self._items: dict[int, Item] = {}
        self._by_age: list[tuple[float, int]] = []
        self._cut_at_ms = 0.0
        self._cursor: Cursor | None = None
        self._tps: list[TopicPartition] = []

    def begin(self) -> asyncio.Task[None]:
        """Start reading unless it is under way; return the task, which ends with the error that ended it."""
        if self._reading is None or self._reading.done():
            self._clear()
            self._reading = asyncio.create_task(self._read(), name="feeds")
        return self._reading

    async def close(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.wait([self._reading])

    async def perform(self, effect: Search) -> Answer:
        """Search what was known before ``as_of``, in whatever language. Empty is an answer, for everything was looked through.

        Items of ``effect.source``, and of whoever owns it, are left out: nobody bears out their own news.

        Raises:
            TransientError: timeout (``news`` is still being read), unavailable.
            PermanentError: invalid_request (``as_of`` lies before what is held), not_configured (nothing is held).
            ConfigError: the list of sources cannot be read, or there is no topic.
        """
        query = cut_query(effect.query)
        await self.read_to_the_ends()
        self._forget()
        if not self._items:
            raise PermanentError(
                "no item with the listener's mark came in during the last 7 days: start a listener (newsproof up --listen), give "
                "it and this worker the same LISTENER_KEY, or take feeds off DEEP_ANALYSIS_SEARCH_PROVIDER",
                kind="not_configured",
            )
        if effect.as_of.timestamp() * 1000 <= max(self._oldest_ms(), self._cut_at_ms):
            raise PermanentError(
                f"feeds hold the last 7 days, {self._max_held:,} items at most, and this case is of "
                f"{effect.as_of:%Y-%m-%d %H:%M}: it was not searched there; other providers look further back",
                kind="invalid_request",
            )
        reply = SearchReply(provider=self.provider, query=query, results=tuple(self._matches(query, effect)))
        return Answer(reply=reply, cost_usd=Decimal(0), cost_source="free")

    async def read_to_the_ends(self) -> int:
        """Wait until ``news`` was read to its present ends; return how many items are held.

        Raises:
            TransientError, ConfigError: as :meth:`perform`.
        """
        reading, reached = self.begin(), asyncio.ensure_future(self._reach())
        try:
            await asyncio.wait({reading, reached}, timeout=READ_WITHIN_S, return_when=asyncio.FIRST_COMPLETED)
            for task in (reading, reached):
                if task.done():
                    task.result()
        except (KafkaError, OSError) as exc:
            raise TransientError(f"news could not be read ({exc!r}): check the broker", kind="unavailable") from exc
        finally:
            reached.cancel()
        if not reached.done():
            raise TransientError(
                f"the news of the last 7 days is still being read, {len(self._items):,} items so far; it is searched again",
                kind="timeout",
            )
        return len(self._items)

    async def _reach(self) -> None:
        async with self._moved:
            while (cursor := self._cursor) is None:
                await self._moved.wait()
        ends = await cursor.ends(self._tps)
        async with self._moved:
            while [tp for tp, end in ends.items() if await cursor.position(tp) < end]:
                await self._moved.wait()

    # What is read

    async def _read(self) -> None:
        log, directory = self._log(), compiled(load_tables(demo=False)).directory
        self._sources()
        starts = await starts_since(log, self._topic, int(self._oldest_ms()))
        if not starts:
            raise ConfigError(f"there is no topic {self._topic}: `newsproof topics create` makes it")
        async with log.follow(starts, max_records=_AT_ONCE) as cursor:
            self._cursor, self._tps = cursor, list(starts)
            while True:
                async with self._moved:
                    self._moved.notify_all()
                got = await cursor.next(1.0)
                sources = self._sources() if got else {}
                for records in got.values():
                    for record in records:
                        if (item := self._item_of(record, sources, directory)) is not None:
                            self._add(item, append_ms(record))

    def _item_of(self, record: Any, sources: Mapping[str, Source], directory: Directory) -> Item | None:
        """Return the item of a record; None where it is no news, has no address of its own, or another's."""
        try:
            news = decode_news(record.value, now=appended_at(record))
        except ContractError:
            return None
        if (url := own_page(news, sources, directory, authenticated=self._is_marked(news))) is None:
            return None
        return Item(
            source=news.source,
            url=url,
            text=news.text.strip()[:HEAD],
            published_at=news.published_at,
            known_at=max(news.as_of, news.published_at),
        )

    def _add(self, item: Item, at_ms: float) -> None:
        number = self._index.add(fold_han(item.text))
        self._items[number] = item
        heapq.heappush(self._by_age, (at_ms, number))
        self._forget()

    def _forget(self) -> None:
        oldest_ms = self._oldest_ms()
        while self._by_age and (self._by_age[0][0] < oldest_ms or len(self._by_age) > self._max_held):
            at_ms, number = heapq.heappop(self._by_age)
            self._cut_at_ms = max(self._cut_at_ms, at_ms)
            self._index.drop(number)
            del self._items[number]

    def _oldest_ms(self) -> float:
        return (self._now() - WINDOW).timestamp() * 1000

    # What is found

    def _matches(self, query: str, effect: Search) -> Iterator[SearchResult]:
        sources = self._sources()
        group = group_of(sources, effect.source)
        ranked = sorted(self._index.rank(fold_han(query)), key=lambda hit: (-hit[1], -hit[0]))
        seen: set[str] = set()
        for number, score in ranked:
            item = self._items[number]
            if not (
                item.known_at < effect.as_of
                and (effect.since is None or item.published_at >= effect.since)
                and is_within(item.url, effect.include_domains)
                and group_of(sources, item.source) != group
                and (address := canonical_url(item.url)) not in seen
            ):
                continue
            seen.add(address)
            title = item.text.split("\n", 1)[0]
            result = result_of(
                provider=self.provider, url=item.url, title=title, content=item.text, score=score,
                published_at=item.published_at, whole=False,
            )  # fmt: skip
            if result is not None:
                yield result
            if len(seen) >= max(1, effect.max_results):
                return


def own_page(news: News, sources: Mapping[str, Source], directory: Directory, *, authenticated: bool) -> str | None:
    """Return the address of the news if it is a page of its source: of a listed one, which is read at the same owner's address.

    ``authenticated``: the news bears the listener's mark; nobody else's news is that of a listed source.
    """
    source = sources.get(news.source) if authenticated else None
    if source is None or news.origins or not host_of_link(news.url):
        return None
    return news.url if _is_same_owner(source, str(news.url), directory) else None


def _is_same_owner(source: Source, url: str, directory: Directory) -> bool:
    own, its = host_of(source.url), host_of(url)
    return registrable_domain(own) == registrable_domain(its) and directory.account_of(
        source.url
    ) == directory.account_of(url)


def group_of(sources: Mapping[str, Source], name: str) -> str:
    """Return who owns a source: a group of the list, else the source alone."""
    return (sources[name].group if name in sources else "") or f"source {name}"
