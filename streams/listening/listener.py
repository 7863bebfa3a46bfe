"""The listener: polls its sources, each at its own interval, and publishes new items as news. One process at a time.

A failing source is polled at growing intervals, and does not affect the others. A log error ends all polls; the
listener then starts over from the state in the log.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Literal

import msgspec
import structlog
from aiokafka.errors import ProducerFenced

from infra.kafka.topics import KafkaAddress
from infra.listeners.failures import DO, NotReadError, Reason
from infra.listeners.fetching import Fetcher, PollResult
from infra.listeners.items import Item
from infra.listeners.markets import Markets, changes
from infra.listeners.source import Source, Validators
from infra.pages.guard import UNRESOLVED
from schemas.errors import ConfigError, ContractError
from schemas.news import marked
from schemas.topics import Topics
from streams.effects.meter import Latencies
from streams.journal.retry import is_away, retry_while_unavailable
from streams.lease import SESSION_S, Lease, first_of
from streams.listening.item_outcome import (
    PUBLISHED,
    Outcome,
    Poll,
    SeenItem,
    decide_outcome,
    encoded,
    limit_items,
    news_of,
    remembered,
)
from streams.listening.memory import KEPT_LAGS, ItemLog, SourceCursor
from streams.reputation.reputation_topic import write_reputations_daily

log = structlog.get_logger(__name__)

LONGEST_PAUSE_S = 900.0
SOCKET_PAUSES_S = (1.0, 60.0)
SOCKET_WINDOW_S = 60.0
WRITTEN_EVERY = timedelta(minutes=10)
"""Interval at which a cursor is written if only its validators and its poll time changed."""
JITTER = 0.1
CHANGED_EVERY_S = 5.0
"""Interval at which the list of sources is checked for changes."""
TAKEN_WITHIN_S = 15.0
FIRST_MESSAGE_WITHIN_S = 10.0
"""Maximum wait of a single poll for a socket's first message."""
SKEW_S = 2.0
"""Clock difference above which the log names it; headers have whole seconds."""
NAME_SERVICE = (
    "check the host in `url`, this machine's network and its name service (DNS); until a source responds, other names that "
    "fail are not logged: `newsproof sources` lists them"
)
_UNKNOWN = Validators()


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """``max_age_s``: maximum age of an item that counts as just published. ``max_new``: maximum news per poll, or per
    minute of a socket.

    ``kept_days``: ``DEDUP_DAYS``. ``backfill``: how far back the first poll of each source goes. ``jitter``: share of
    each pause.
    """

    max_age_s: float = 900.0
    max_new: int = 50
    kept_days: int = 30
    backfill: timedelta | None = None
    jitter: float = JITTER


class Health:
    """The health of one source since the start of this process."""

    def __init__(self) -> None:
        self.state, self.why = "waiting", ""
        self.reason: Reason | None = None
        self.failures = 0
        self.last_success: datetime | None = None
        self.skew_s: float | None = None
        self.counts: dict[str, int] = {}

    def counted(self, outcomes: Iterable[str]) -> None:
        for outcome in outcomes:
            self.counts[outcome] = self.counts.get(outcome, 0) + 1


class Listener:
    """One candidate for listening. ``run`` returns after :meth:`stop`. If it loses the lease, it waits for it again."""

    def __init__(
        self,
        address: KafkaAddress,
        topics: Topics,
        sources: Callable[[], list[Source]],
        fetcher: Fetcher,
        options: Options,
        key: bytes,
    ) -> None:
        """``key`` marks the news. ``sources`` returns the active sources and is called every ``CHANGED_EVERY_S``.

        The caller closes ``fetcher``.
        """
        self._address, self._topics, self._sources, self._options = address, topics, sources, options
        self._fetcher, self._key = fetcher, key
        self._lease = Lease(address, topics.group("listener-lease"), topics.listener_lease)
        self._stopped = asyncio.Event()
        self._log = ItemLog(address, topics, key)
        self._turn = asyncio.Lock()
        self._markets: dict[str, Markets] = {}
        self._looked_back: set[str] = set()
        self._unresolved = False
        """Whether a name could not be resolved since a source responded."""
        self.health: dict[str, Health] = {}
        self.acknowledged = Latencies()
        """Seconds from a response with news to the broker's acknowledgement of all of it."""
        self.active = False

    @property
    def state(self) -> Literal["joining", "standing by", "reading its memory", "active"]:
        if self.active:
            return "active"
        if not self._lease.known:
            return "joining"
        return "reading its memory" if self._lease.held else "standing by"

    @property
    def parsed(self) -> int:
        """Number of responses that were parsed because they had changed."""
        return self._fetcher.parsed

    @property
    def cursors(self) -> Mapping[str, SourceCursor]:
        """Source → its cursor."""
        return self._log.memory.cursors

    def stop(self) -> None:
        """Request a clean shutdown."""
        self._stopped.set()

    async def run(self) -> None:
        """Wait for the lease and listen while holding it, until stopped."""
        await self._lead(self._listen)

    async def once(self) -> dict[str, Health]:
        """Poll every source once, a socket until its first message; return the health of each.

        Raises:
            ConfigError: another listener holds the lease.
        """
        timer, taken = asyncio.get_running_loop().call_later(TAKEN_WITHIN_S, self._stopped.set), asyncio.Event()

        async def look() -> None:
            timer.cancel()
            taken.set()
            await self._started(self._sources())
            looked = (self._hear_once(s) if s.kind == "socket" else self._look(s) for s in self._sources())
            await asyncio.gather(*looked)
            self._stopped.set()

        await self._lead(look)
        if not taken.is_set():
            raise ConfigError(
                "another listener has the lease (`newsproof up --listen`, or `newsproof listen` elsewhere): end that one first, "
                "or leave the looking to it"
            )
        return self.health

    async def _lead(self, work: Callable[[], object]) -> None:
        async def session() -> None:
            try:
                await retry_while_unavailable(work, "listening", unavailable=_mended_by_starting_over)  # type: ignore[arg-type]
            except ProducerFenced:
                # A successor listens, so the lease will be lost shortly. If it is not, this listener stands by again.
                log.warning("fenced by another listener: standing by")
                await asyncio.sleep(SESSION_S)
            finally:
                self.active = False
                await self._log.stop()

        await self._lease.lead(session, self._stopped)

    async def _started(self, sources: list[Source]) -> None:
        await self._log.stop()
        self._log = ItemLog(self._address, self._topics, self._key)
        await self._log.start(source.id for source in sources)
        self.active = True
        known = sum(map(len, self._log.memory.items.values()))
        log.info("listening", sources=len(sources), items_known=known, items_recovered=self._log.recovered)

    async def _listen(self) -> None:
        await self._started(self._sources())
        running: dict[Source | str, asyncio.Task[None]] = {}
        daily = asyncio.create_task(write_reputations_daily(self._address, self._topics))
        try:
            while True:
                if daily.done():
                    daily.result()
                wanted = {source.id: source for source in self._sources()}
                for name, task in list(running.items()):
                    if task.done():
                        task.result()
                    if name not in wanted or task.get_name() != repr(wanted[name]):
                        task.cancel()
                        del running[name]
                for name in wanted.keys() - running.keys():
                    running[name] = asyncio.create_task(self._keep(wanted[name]), name=repr(wanted[name]))
                await first_of(asyncio.sleep(CHANGED_EVERY_S), *map(asyncio.shield, (daily, *running.values())))
        finally:
            for task in (daily, *running.values()):
                task.cancel()
            await asyncio.gather(daily, *running.values(), return_exceptions=True)

    # One source

    async def _keep(self, source: Source) -> None:
        if source.kind == "socket":
            await self._hear(source)
        await asyncio.sleep(self._options.jitter * source.every_s * random.random())
        while True:
            wait = await self._look(source)
            await asyncio.sleep(wait * (1 + self._options.jitter * random.uniform(-1, 1)))

    async def _look(self, source: Source) -> float:
        """Poll once; return how long to wait, in seconds."""
        health = self._of(source)
        cursor = self._log.memory.cursor(source.id)
        try:
            looked = await self._poll_source(source, cursor)
        except NotReadError as exc:
            return await self._failed(source, exc)
        except Exception as exc:
            if is_away(exc):
                raise
            log.exception("a poll failed in an unforeseen way", source=source.id)
            return await self._failed(source, NotReadError(f"{type(exc).__name__}: {exc}", "unforeseen"))
        if abs(looked.skew_s or 0.0) > SKEW_S >= abs(health.skew_s or 0.0):
            log.warning("the source's clock and ours differ", source=source.id, ahead_s=looked.skew_s)
        health.skew_s = looked.skew_s
        if looked.items is None:
            await self._unchanged(source, looked)
        else:
            await self._take(source, looked.items, looked.received_at, cursor, validators=looked.validators)
        return source.every_s

    async def _poll_source(self, source: Source, cursor: SourceCursor) -> PollResult:
        if source.kind != "markets":
            again = self._options.backfill is not None and source.id not in self._looked_back
            return await self._fetcher.look(source, _UNKNOWN if again else cursor.validators)
        markets = self._markets.setdefault(source.id, Markets(source))
        tickers = await markets.look()
        before = cursor.markets
        cursor.markets, items = changes(source, before, tickers)
        is_same = cursor.markets == before
        return PollResult(received_at=datetime.now(UTC), validators=_UNKNOWN, items=None if is_same else items)

    async def _hear(self, source: Source) -> None:
        pause, most = SOCKET_PAUSES_S
        while True:
            began = time.monotonic()
            try:
                async with self._fetcher.connected(source) as messages:
                    await self._refill(source)
                    recent: deque[float] = deque(maxlen=self._options.max_new)
                    async for body in messages:
                        await self._throttle(source, recent, await self._take_message(source, body))
                raise NotReadError("the connection ended", "no_connection")
            except NotReadError as exc:
                await self._failed(source, exc)
            pause = SOCKET_PAUSES_S[0] if time.monotonic() - began > most else pause
            await asyncio.sleep(pause * (1 + self._options.jitter * random.random()))
            pause = min(2 * pause, most)

    async def _hear_once(self, source: Source) -> None:
        """Connect, and take the first message if one arrives in time."""
        try:
            async with self._fetcher.connected(source) as messages:
                await self._refill(source)
                try:
                    async with asyncio.timeout(FIRST_MESSAGE_WITHIN_S):
                        body = await anext(messages, None)
                except TimeoutError:
                    self._of(source).why = f"connected, and nothing was sent within {FIRST_MESSAGE_WITHIN_S:g} s"
                    return
                if body is None:
                    raise NotReadError("the connection ended", "no_connection")
                await self._take_message(source, body)
        except NotReadError as exc:
            await self._failed(source, exc)

    async def _refill(self, source: Source) -> None:
        if source.refill:
            filled = await self._fetcher.look(source, _UNKNOWN, refill=True)
            cursor = self._log.memory.cursor(source.id)
            await self._take(source, filled.items or (), filled.received_at, cursor, live=False)
        self._succeeded(source)

    async def _take_message(self, source: Source, body: bytes) -> int:
        """Take a message; return the number of its items."""
        at = datetime.now(UTC)
        try:
            items = await self._fetcher.read(source, body)
        except NotReadError:
            self._of(source).counted(["refused"])  # one invalid message says nothing about the others
            return 0
        if items:
            await self._take(source, items, at, self._log.memory.cursor(source.id), live=True)
        return len(items)

    async def _throttle(self, source: Source, recent: deque[float], items: int) -> None:
        """Wait if a minute brought more than ``max_new`` items, so that a flood waits at its sender."""
        for _ in range(items):
            if len(recent) == recent.maxlen and (left := recent[0] + SOCKET_WINDOW_S - time.monotonic()) > 0:
                log.warning("a flood is held back", source=source.id, seconds=round(left))
                await asyncio.sleep(left)
            recent.append(time.monotonic())

    # Results of a poll

    async def _take(
        self,
        source: Source,
        items: tuple[Item, ...],
        at: datetime,
        cursor: SourceCursor,
        *,
        validators: Validators = _UNKNOWN,
        live: bool | None = None,
    ) -> None:
        """Publish new items as news. ``live``: for a socket, True if it sent them on publication; None for a poll."""
        began, memory = time.monotonic(), self._log.memory
        look = self._as_look(source, at, at if live else cursor.looked_at)
        decided: list[tuple[Item, Outcome]] = []
        texts: set[str] = set()
        for item in items:
            known = item.text_hash in texts or memory.knows_text(source.id, item.text_hash)
            decided.append(
                (item, decide_outcome(item, memory.seen(source.id, item.external_id), look, is_known_text=known))
            )
            texts.add(item.text_hash)
        kept, waiting = limit_items(decided, self._options.max_new)
        news, seen, outcomes = self._news(source, kept, look)
        if live is None and source.kind != "markets":
            seen += memory.left(source.id, [item.external_id for item in items], at)
        else:  # these do not report items that are gone
            seen = [msgspec.structs.replace(seen_item, left_at=at) for seen_item in seen]
        cursor.validators = _UNKNOWN if waiting else validators
        cursor.looked_at = at
        was = cursor.state
        self._note_outcomes(cursor, kept, outcomes, at)
        await self._recorded(news, seen, cursor, was, is_changed=bool(waiting) or source.kind == "markets")
        if news:
            self.acknowledged.add(time.monotonic() - began)
        self._looked_back.add(source.id)
        self._log_outcomes(source, outcomes, waiting)

    def _as_look(self, source: Source, at: datetime, previous: datetime | None) -> Poll:
        backfill = None if source.id in self._looked_back else self._options.backfill
        return Poll(
            at=at,
            previous=previous,
            max_age=timedelta(seconds=self._options.max_age_s),
            kept=timedelta(days=self._options.kept_days),
            backfill=backfill,
        )

    def _news(
        self, source: Source, kept: list[tuple[Item, Outcome]], look: Poll
    ) -> tuple[list[tuple[bytes, bytes]], list[SeenItem], list[Outcome]]:
        news: list[tuple[bytes, bytes]] = []
        seen: list[SeenItem] = []
        outcomes: list[Outcome] = []
        for item, decided in kept:
            outcome = decided
            before = self._log.memory.seen(source.id, item.external_id)
            if outcome in PUBLISHED:
                try:
                    made, value = marked(encoded(news_of(source, item, outcome, look)), self._key, now=look.at)
                    news.append((made.key, value))
                except ContractError as exc:
                    outcome = "refused"
                    log.warning("no news", source=source.id, item=item.external_id[:200], why=str(exc))
            if outcome != "repeat" or before is None:
                seen.append(remembered(source.id, item, outcome, before))
            elif before.left_at is not None:
                seen.append(msgspec.structs.replace(before, left_at=None))
            outcomes.append(outcome)
        return news, seen, outcomes

    def _note_outcomes(
        self, cursor: SourceCursor, kept: list[tuple[Item, Outcome]], outcomes: list[Outcome], at: datetime
    ) -> None:
        cursor.is_ok()
        lags = [
            (at - i.published).total_seconds()
            for (i, _), outcome in zip(kept, outcomes, strict=True)
            if outcome == "new" and i.published
        ]
        cursor.lags = [*cursor.lags, *(round(max(0.0, lag), 1) for lag in lags)][-KEPT_LAGS:]
        for outcome in outcomes:
            cursor.counts[outcome] = cursor.counts.get(outcome, 0) + 1
        if "new" in outcomes:
            if cursor.news_at is not None:
                gap_s, cursor.gaps = (at - cursor.news_at).total_seconds(), cursor.gaps + 1
                cursor.gap_s += (gap_s - cursor.gap_s) / min(cursor.gaps, 10)
            cursor.news_at = at

    def _log_outcomes(self, source: Source, outcomes: list[Outcome], waiting: int) -> None:
        self._of(source).counted(outcomes)
        self._succeeded(source)
        if waiting:
            log.warning("a flood is held back", source=source.id, items=waiting, most=self._options.max_new)
        if counts := {outcome: outcomes.count(outcome) for outcome in sorted({*outcomes} - {"repeat"})}:
            log.info("items", source=source.id, **counts)

    async def _unchanged(self, source: Source, looked: PollResult) -> None:
        cursor = self._log.memory.cursor(source.id)
        was = cursor.state
        cursor.looked_at, cursor.validators = looked.received_at, looked.validators
        cursor.is_ok()
        self._succeeded(source)
        await self._recorded([], [], cursor, was, is_changed=False)

    async def _recorded(
        self, news: list[tuple[bytes, bytes]], seen: list[SeenItem], cursor: SourceCursor, was: str, *, is_changed: bool
    ) -> None:
        """Write a poll's results; a cursor that hardly changed only every ``WRITTEN_EVERY``. ``was``: its old state."""
        assert cursor.looked_at is not None
        forgotten = self._log.memory.forgotten(cursor.source, cursor.looked_at, seen)
        is_old = cursor.written_at is None or cursor.looked_at - cursor.written_at > WRITTEN_EVERY
        if news or seen or forgotten or is_changed or is_old or was != cursor.state:
            async with self._turn:
                await self._log.record(news, seen, cursor, forgotten)
        else:
            self._log.memory.cursors[cursor.source] = cursor

    def _succeeded(self, source: Source) -> None:
        health = self._of(source)
        if health.failures:
            log.info("the source responds again", source=source.id)
        health.state, health.why, health.reason, health.failures = "ok", "", None, 0
        self._unresolved = False
        health.last_success = datetime.now(UTC)

    async def _failed(self, source: Source, exc: NotReadError) -> float:
        health = self._of(source)
        if health.reason != exc.reason:
            is_unresolved = UNRESOLVED in str(exc)
            if not (is_unresolved and self._unresolved):
                do = NAME_SERVICE if is_unresolved else DO[exc.reason]
                log.warning("the source does not respond", source=source.id, state=exc.state, why=str(exc)[:300], do=do)
            self._unresolved |= is_unresolved
            cursor = self._log.memory.cursor(source.id)
            cursor.state, cursor.why, cursor.reason = exc.state, str(exc)[:300], exc.reason
            async with self._turn:
                await self._log.record((), (), cursor)
        health.state, health.why, health.reason = exc.state, str(exc)[:300], exc.reason
        health.failures += 1
        pause: float = min(LONGEST_PAUSE_S, source.every_s * 2.0 ** min(health.failures, 10))
        return max(pause, exc.wait_s or 0.0)

    def _of(self, source: Source) -> Health:
        return self.health.setdefault(source.id, Health())


def _mended_by_starting_over(exc: Exception) -> bool:
    return is_away(exc) and not isinstance(exc, ProducerFenced)
