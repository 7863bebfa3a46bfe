"""Watches for the command line and the API: set, list and change them. The workers' watchers read the records."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta

import msgspec

from agents.investigation.subject import asked as opening_of
from agents.investigation.subject import subject_key, subject_of
from infra.clickhouse.record import epoch_ms
from infra.kafka.topics import KafkaAddress
from newsproof.app.invocation import parse_span
from schemas.errors import ConfigError, ContractError
from schemas.topics import Topics
from schemas.watches import (
    MAX_EVERY_S,
    MIN_EVERY_S,
    WatchCommand,
    WatchEnded,
    WatchPaused,
    WatchRecord,
    WatchResumed,
    WatchSet,
    source_of,
)
from streams.journal.appender import Appender
from streams.journal.clock import utc_now
from streams.journal.log import KafkaLog
from streams.watches.reading import Result, last_results, read_watches
from streams.watches.rule import Watch, WatchState, why_not
from streams.watches.writer import append_record

COMMANDS: dict[str, type[WatchCommand]] = {"pause": WatchPaused, "resume": WatchResumed, "end": WatchEnded}


class WatchView(msgspec.Struct, frozen=True, kw_only=True):
    """One watch for people. Times are UTC. ``every_s`` and ``next_due_at`` are None if it waits for news.

    ``fired``: number of runs so far; ``fired_today``: on this UTC day. ``note``: why it does not fire, if that is not
    obvious.
    """

    id: str
    subject: str
    state: str
    every_s: int | None
    on_news: bool
    source: str
    set_at: datetime
    fired: int
    fired_today: int
    last_fired_at: datetime | None
    next_due_at: datetime | None
    last_result: Result | None
    note: str = ""


def watch_of(subject: str, every: str | None, *, on_news: bool, by: str) -> WatchSet:
    """Return the record that sets a watch. ``every``: an interval such as 6h.

    Raises:
        ContractError: the subject holds no word, not exactly one of ``every`` and ``on_news`` is given, or the interval
        is
            out of bounds; the text says what to write.
    """
    if (every is None) is not on_news:
        raise ContractError(
            "a watch runs either at an interval or on news: give an interval such as 6h, or on news, not both"
        )
    try:
        event = opening_of(subject, as_of=utc_now(), config_hash="")
    except ValueError as exc:
        raise ContractError(str(exc)) from exc
    seconds = None if every is None else _seconds(every)
    return WatchSet(id=str(uuid.uuid4()), subject=subject, every_s=seconds, language=event.language, by=by)


def _seconds(every: str) -> int:
    seconds = parse_span(every)
    if seconds is None:
        raise ContractError(f"{every!r:.40} is no interval: write minutes, hours or days, such as 45m, 6h or 1d")
    if seconds < MIN_EVERY_S:
        raise ContractError(
            f"every {every.strip()} is too often: an investigation may take 15 minutes, and what it finds has to be judged "
            f"before the next one, so write {MIN_EVERY_S // 60}m or more"
        )
    if seconds > MAX_EVERY_S:
        raise ContractError(f"every {every.strip()} is too long an interval: write {MAX_EVERY_S // 86_400}d or less")
    return seconds


class WatchBook:
    """The watches on one log. ``daily_limit``: the setting, for the note of a watch that has reached it."""

    def __init__(self, address: KafkaAddress, topics: Topics, *, daily_limit: int) -> None:
        self._address, self._topics, self._limit = address, topics, daily_limit
        self._log = KafkaLog(address)

    async def views(self) -> list[WatchView]:
        """Return every watch, newest first, ended ones last."""
        watches = (await self.state()).watches.values()
        results = await last_results(self._log, self._topics, watches)
        ordered = sorted(watches, key=lambda w: (w.state == "ended", -w.set_ms))
        return [view_of(w, utc_now(), self._limit, results.get(w.set.id)) for w in ordered]

    async def state(self) -> WatchState:
        return await read_watches(self._log, self._topics)

    async def set(self, asked: WatchSet) -> WatchView:
        """Set a watch.

        Raises:
            ConfigError: its subject is watched already.
        """
        key = subject_key(subject_of(asked.subject))
        for other in (await self.state()).watches.values():
            if other.state != "ended" and subject_key(subject_of(other.set.subject)) == key:
                raise ConfigError(
                    f"{other.set.subject!r} is already watched by {other.set.id} ({other.state}): "
                    f"end it with `newsproof watches end {other.set.id}`, then set the new one"
                )
        await self._append(asked)
        return self._now(asked.id, await self.state())

    async def change(self, id: str, command: str, *, by: str) -> WatchView:
        """Pause, resume or end the watch whose id starts with ``id``.

        Raises:
            ConfigError: no watch matches, or several do, or it does not accept this command now.
        """
        watch = find_watch(await self.state(), id)
        record = COMMANDS[command](id=str(uuid.uuid4()), watch=watch.set.id, by=by)
        if (why := why_not(watch, type(record))) is not None:
            raise ConfigError(f"the watch {watch.set.id} {why}")
        await self._append(record)
        return self._now(watch.set.id, await self.state())

    def _now(self, id: str, state: WatchState) -> WatchView:
        return view_of(state.watches[id], utc_now(), self._limit, None)

    async def _append(self, record: WatchRecord) -> None:
        appender = Appender(self._address, client_id="newsproof-watches")
        await appender.start()
        try:
            await append_record(appender, self._topics, record)
        finally:
            await appender.stop()


def find_watch(state: WatchState, id: str) -> Watch:
    """Return the watch with this id, or the only one whose id starts with it.

    Raises:
        ConfigError: there is none, or there are several.
    """
    like = [watch for key, watch in state.watches.items() if id and key.startswith(id)]
    if len(like) != 1:
        problem = f"there is no watch {id!r:.60}" if not like else f"{len(like)} watches begin with {id!r}"
        raise ConfigError(f"{problem}: `newsproof watches` lists them")
    return like[0]


def view_of(watch: Watch, now: datetime, limit: int, result: Result | None) -> WatchView:
    """Return the view of a watch at ``now`` (UTC)."""
    now_ms = epoch_ms(now)
    today, due = watch.fired_on(now_ms), watch.next_due_ms()
    note = ""
    if watch.state == "active" and today >= limit:
        tomorrow = now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=1)
        due = None if due is None else max(due, epoch_ms(tomorrow))
        note = f"has run {today} times today (UTC), its limit. It runs again tomorrow; raise WATCH_DAILY_LIMIT to run it more often"
    return WatchView(
        id=watch.set.id,
        subject=watch.set.subject,
        state=watch.state,
        every_s=watch.set.every_s,
        on_news=watch.set.every_s is None,
        source=source_of(subject_of(watch.set.subject)),
        set_at=_at(watch.set_ms),
        fired=watch.n,
        fired_today=today,
        last_fired_at=_at(watch.fired_at_ms) if watch.n else None,
        next_due_at=None if due is None else _at(due),
        last_result=result,
        note=note,
    )


def _at(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)
