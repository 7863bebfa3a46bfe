"""The rule of watches: what fires when, and what of many writers is accepted, by the log alone."""

from __future__ import annotations

from datetime import UTC, datetime

from msgspec.structs import replace

from infra.clickhouse.record import epoch_ms
from schemas.watches import WatchEnded, WatchFired, WatchPaused, WatchRecord, WatchResumed, WatchSet
from streams.watches.rule import AHEAD_MS, Watch, WatchState

T0 = epoch_ms(datetime(2026, 3, 10, 12, tzinfo=UTC))
HOUR = 3_600_000
BY_CLOCK = WatchSet(id="w", subject="DeepSeek", every_s=6 * 3600, language="en", by="cli")
ON_NEWS = replace(BY_CLOCK, every_s=None)
PAUSE, RESUME, END = (kind(id=kind.__name__, watch="w", by="cli") for kind in (WatchPaused, WatchResumed, WatchEnded))


class Log:
    """One watch, and the fold of what is written of it."""

    def __init__(self, asked: WatchSet = BY_CLOCK) -> None:
        self.state = WatchState()
        assert self.state.fold(T0, asked)

    @property
    def watch(self) -> Watch:
        return self.state.watches["w"]

    def say(self, at: int, record: WatchRecord) -> bool:
        return self.state.fold(at, record)

    def due(self, at: int, news: tuple[int, str] | None = None) -> WatchFired | None:
        return self.watch.due(at, news)

    def fire(self, at: int, news: tuple[int, str] | None = None) -> int:
        """Fire what is due, and open it; return hours from the beginning to when it was due."""
        fired = self.due(at, news)
        assert fired is not None and self.say(at, fired) and self.say(at, self.watch.opening())
        return (epoch_ms(fired.due_at) - T0) // HOUR


def test_a_watch_fires_when_it_is_set_then_by_its_interval_and_missed_times_are_one() -> None:
    log = Log()
    assert log.fire(T0 + 5) == 0
    assert log.due(T0 + 6 * HOUR - 1) is None
    assert log.fire(T0 + 6 * HOUR) == 6
    assert log.fire(T0 + 31 * HOUR) == 30  # 12, 18 and 24 were missed
    assert log.due(T0 + 36 * HOUR - 1) is None
    assert log.fire(T0 + 36 * HOUR) == 36


def test_of_two_workers_the_first_in_the_log_wins_and_nothing_fires_before_the_opening() -> None:
    log = Log()
    first, second = log.due(T0), log.due(T0 + 1)
    assert first is not None and second is not None and first.id == second.id
    assert (log.say(T0 + 2, first), log.say(T0 + 3, second)) == (True, False)
    assert log.due(T0 + 7 * HOUR) is None
    opening = log.watch.opening()
    assert (log.say(T0 + 4, opening), log.say(T0 + 5, opening)) == (True, False)
    assert log.watch.investigation == first.investigation
    assert (log.watch.n, log.state.passed_by) == (1, 2)


def test_a_firing_that_nobody_owes_is_passed_by() -> None:
    log = Log()
    log.fire(T0)
    fired = log.due(T0 + 6 * HOUR)
    assert fired is not None
    early = T0 + 6 * HOUR - AHEAD_MS - 1
    for at, wrong in (
        (early, fired),
        (T0 + 7 * HOUR, replace(fired, due_at=datetime(2026, 3, 10, 17, tzinfo=UTC))),
        (T0 + 7 * HOUR, replace(fired, due_at=datetime(2026, 3, 10, 18, 30, tzinfo=UTC))),
        (T0 + 7 * HOUR, replace(fired, n=3)),
        (T0 + 7 * HOUR, replace(fired, news="case")),
        (T0 + 7 * HOUR, replace(fired, watch="another")),
    ):
        assert not log.say(at, wrong)
    assert log.say(early + 1, fired)


def test_a_pause_beats_a_firing_on_its_way_and_what_it_missed_is_not_made_up_for() -> None:
    log = Log()
    log.fire(T0)
    late = log.due(T0 + 6 * HOUR)
    assert late is not None
    assert (log.say(T0 + 6 * HOUR, PAUSE), log.say(T0 + 6 * HOUR, PAUSE), log.say(T0 + 6 * HOUR, late)) == (
        True,
        False,
        False,
    )
    assert (log.watch.next_due_ms(), log.due(T0 + 13 * HOUR)) == (None, None)
    assert (log.say(T0 + 13 * HOUR, RESUME), log.say(T0 + 13 * HOUR, RESUME)) == (True, False)
    assert log.due(T0 + 18 * HOUR - 1) is None
    assert log.fire(T0 + 18 * HOUR) == 18
    assert (log.say(T0 + 19 * HOUR, END), log.say(T0 + 19 * HOUR, RESUME), log.due(T0 + 99 * HOUR)) == (
        True,
        False,
        None,
    )


def test_what_fired_before_a_pause_is_still_opened() -> None:
    log = Log()
    fired = log.due(T0)
    assert fired is not None and log.say(T0, fired)
    stale = log.watch.opening()
    assert log.say(T0, PAUSE)
    assert (log.say(T0, stale), log.say(T0, log.watch.opening())) == (False, True)


def test_a_watch_on_news_fires_once_for_a_crowd_of_them_and_by_the_news_has_the_id() -> None:
    log = Log(ON_NEWS)
    assert log.fire(T0) == 0  # something to compare with
    assert log.watch.next_due_ms() is None
    assert log.due(T0 + HOUR, (T0, "older")) is None
    fired = log.due(T0 + HOUR, (T0 + HOUR, "case"))
    assert fired is not None and fired.investigation != replace(fired, news="other").investigation
    assert log.fire(T0 + HOUR, (T0 + HOUR, "case")) == 1
    crowd = (T0 + HOUR + 60_000, "copy")
    assert log.due(T0 + HOUR + 70_000, crowd) is None
    assert not log.say(
        T0 + HOUR + 70_000, replace(fired, cause=log.watch.head, n=3, due_at=datetime(2026, 3, 10, 13, 1, tzinfo=UTC))
    )
    assert log.due(T0 + HOUR + HOUR // 2, crowd) is not None
    assert log.due(T0 + 9 * HOUR, (T0 + HOUR, "case")) is None


def test_firings_are_counted_by_the_utc_day() -> None:
    log = Log()
    log.fire(T0)
    log.fire(T0 + 6 * HOUR)
    assert (log.watch.fired_on(T0 + 7 * HOUR), log.watch.fired_on(T0 + 12 * HOUR)) == (2, 0)
    log.fire(T0 + 12 * HOUR)
    assert log.watch.fired_on(T0 + 12 * HOUR) == 1
