"""The pure core of a bot: desired positions in any order of records, and what is done about them, situation by situation."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.bots.adapter import RemotePosition
from infra.bots.definition import BotDefinition, Limits
from infra.clickhouse.record import epoch_ms
from schemas.deliveries import HaltLifted, HaltRequested, Settled
from schemas.signals import Signal
from streams.bots.book import Book
from streams.bots.positions import Signals
from streams.bots.reconcile import Reconciler, Request, Situation
from tests.newsproof.signal_samples import NOW, signal

MAP = {"BTC": "BTC/USDT", "ETH": "ETH/USDT"}
BOT = BotDefinition(name="b", kind="webhook", map=MAP, mode="live", limits=Limits(entries_an_hour_per_asset=9))
VALID = NOW + timedelta(days=1)


def order(name: str = "a", **changes: Any) -> Signal:
    live = {"provider_mode": "live", "risk_flags": (), "valid_until": VALID, "action": "buy", "published_at": NOW}
    return signal(name, **{**live, **changes})


def retracted(name: str = "a", revision: int = 2) -> Signal:
    return order(name, revision=revision, stage="retracted", action="observe", verdict="refuted", confidence=0.0)


class Desk:
    """A bot in a world without time: the clock moves when it is told to, and the destination answers as it is told to."""

    def __init__(self, bot: BotDefinition = BOT) -> None:
        self.bot, self.now = bot, NOW
        self.signals, self.book = Signals(bot), Book(bot.name)
        self.requests: list[Request] = []
        self.waits: dict[str, int] = {}
        self.remote: dict[str, RemotePosition] | None = None
        self.answered_ms = 0

    def reads(self, *signals: Signal) -> Desk:
        arrived = [one for one in signals if self.signals.take(one, self._ms())]
        return self.turn(arrived)

    def after(self, seconds: float) -> Desk:
        self.now += timedelta(seconds=seconds)
        return self.turn()

    def says(self, record: HaltRequested | HaltLifted) -> Desk:
        self.book.fold(self._ms(), record)
        return self.turn()

    def turn(self, arrived: list[Signal] | None = None) -> Desk:
        for _ in range(10):
            work = Reconciler(self.bot, self.signals, self.book).work(
                Situation(
                    now=self.now, remote=self.remote, arrived=arrived or (), wait_until_ms=dict(self.waits),
                    in_flight={one.planned.id for one in self.requests}, answered_ms=self.answered_ms,
                )
            )  # fmt: skip
            for record in work.records:
                self.book.fold(self._ms(), record)
                if isinstance(record, Settled):
                    self.waits.pop(record.delivery, None)
            self.requests += work.requests
            if not work.records:
                return self
        raise AssertionError("there is always something to do")

    def answers(self, *outcomes: str) -> Desk:
        """Settle the requests under way, in order; ``waits``: put off by ten seconds; ``lost``: the process dies."""
        requests, self.requests = self.requests, []
        assert len(requests) == len(outcomes), requests
        for one, outcome in zip(requests, outcomes, strict=True):
            self.waits.pop(one.planned.id, None)
            if outcome == "waits":
                self.waits[one.planned.id] = self._ms() + 10_000
            elif outcome != "lost":
                settled = Settled(delivery=one.planned.id, bot="b", outcome=outcome, remote_id="r1")  # type: ignore[arg-type]
                self.book.fold(self._ms(), settled)
        return self.turn()

    def answers_again(self) -> Desk:
        self.answered_ms = self._ms()
        return self.turn()

    def has(self, **states: bool) -> Desk:
        """The destination is read: name of a signal → whether its position is open; others are not there."""
        ids = {
            one.planned.signal_id: one.planned.id
            for one in self.book.deliveries.values()
            if one.planned.intent == "enter"
        }
        self.remote = {
            (ref := ids[order(name).signal_id]): RemotePosition(
                instrument="BTC/USDT", side="long", reference=ref, remote_id="r1", is_open=is_open
            )
            for name, is_open in states.items()
        }
        self.turn()
        self.remote = None
        return self

    @property
    def under_way(self) -> list[tuple[str, str | None, int]]:
        return [(one.planned.intent, one.planned.side, one.n) for one in self.requests]

    @property
    def outcomes(self) -> list[tuple[str, str]]:
        return [(one.planned.intent, one.state) for one in self.book.deliveries.values()]

    @property
    def reasons(self) -> str:
        return "; ".join(one.settled.reason for one in self.book.deliveries.values() if one.settled is not None)

    def _ms(self) -> int:
        return epoch_ms(self.now)


def away_for_an_hour() -> Desk:
    desk = bought().reads(retracted()).answers("unknown").after(5).answers("unknown").after(300).answers("unknown")
    desk.after(1).reads(order("e", asset="ETH", published_at=desk.now))
    assert desk.under_way == [("exit", "long", 4)]  # before the entry
    desk.answers("unknown")
    assert desk.under_way == ENTER
    return desk.answers("waits").after(301).after(3000)


def bought() -> Desk:
    return Desk().reads(order()).answers("delivered")


def lost_with_its_exit() -> Desk:
    desk = Desk().reads(order()).answers("lost").reads(retracted()).answers("unknown").after(60).answers("unknown")
    return desk.has()


HALT, HALT_EXIT = (HaltRequested(id="h", bot=None, exit=one, by="ann") for one in (False, True))
ENTER, EXIT = [("enter", "long", 1)], [("exit", "long", 1)]
DELIVERED, REFUSED, UNKNOWN, SKIPPED, EXPIRED = (
    [("enter", one)] for one in ("delivered", "refused", "unknown", "skipped", "expired")
)
CLOSED = [*DELIVERED, ("exit", "delivered")]
LATER = order("z", decided_at=NOW + timedelta(seconds=1))
LEFT = order(revision=2, confidence=0.6, supersedes=1)

SITUATIONS: dict[str, tuple[Callable[[], Desk], list[Any], list[Any] | None]] = {
    # name: (what happens, requests under way then, outcomes then; None: not looked at)
    "an order enters": (lambda: Desk().reads(order()), ENTER, None),
    "a sell opens a short": (lambda: Desk().reads(order(action="sell")), [("enter", "short", 1)], None),
    "a preliminary order does not": (lambda: Desk().reads(order(stage="preliminary", verdict="unchecked")), [], []),
    "an observation does not": (lambda: Desk().reads(order(action="observe")), [], []),
    "an unconfirmed order is skipped": (lambda: Desk().reads(order(verdict="unconfirmed")), [], SKIPPED),
    "an offline order is skipped": (lambda: Desk().reads(order(provider_mode="offline")), [], SKIPPED),
    "a flagged order is skipped": (lambda: Desk().reads(order(risk_flags=("late",))), [], SKIPPED),
    "a weak order is skipped": (lambda: Desk().reads(order(confidence=0.69)), [], SKIPPED),
    "an asset outside the map is skipped": (lambda: Desk().reads(order(asset="XRP")), [], SKIPPED),
    "an old order expires": (lambda: Desk().reads(order(published_at=NOW - timedelta(seconds=301))), [], EXPIRED),
    "a halted bot skips": (lambda: Desk().says(HALT).reads(order()), [], SKIPPED),
    "and does not enter later": (
        lambda: Desk().says(HALT).reads(order()).says(HaltLifted(id="l", bot=None, by="ann")), [], SKIPPED,
    ),
    "what a later revision raises enters": (
        lambda: Desk().reads(order(confidence=0.5)).reads(order(revision=2)), ENTER, [*SKIPPED, ("enter", "attempted")],
    ),
    "a retraction exits": (lambda: bought().reads(retracted()), EXIT, None),
    "a retraction before its order enters nothing": (lambda: Desk().reads(retracted(), order()), [], []),
    "confidence below the bar exits": (lambda: bought().reads(LEFT), EXIT, None),
    "the clock exits": (lambda: bought().after(86_400), EXIT, None),
    "an opposite order exits": (lambda: bought().reads(order("z", action="sell")), EXIT, None),
    "and enters once it is alone": (
        lambda: bought().reads(order("z", action="sell")).answers("delivered").reads(retracted()),
        [("enter", "short", 1)], None,
    ),
    "a halt keeps a position": (lambda: bought().says(HALT), [], DELIVERED),
    "a halt with exit closes it": (lambda: bought().says(HALT_EXIT), EXIT, None),
    "another order for the same position": (lambda: bought().reads(LATER), [], [*DELIVERED, ("enter", "skipped")]),
    "keeps it when the first is retracted": (
        lambda: bought().reads(LATER).reads(retracted()), [], [*DELIVERED, ("enter", "skipped")],
    ),
    "a refused entry is no position": (lambda: Desk().reads(order()).answers("refused").reads(retracted()), [], REFUSED),
    "a lost entry is not sent again": (lambda: Desk().reads(order()).answers("lost").after(30), [], UNKNOWN),
    "but it may be open, so it is closed": (lambda: Desk().reads(order()).answers("lost").reads(retracted()), EXIT, None),
    "an entry under way is closed afterwards": (
        lambda: Desk().reads(order()).reads(retracted()).answers("unknown"), EXIT, None,
    ),
    "an entry that was put off is sent again": (
        lambda: Desk().reads(order()).answers("waits").after(10), [("enter", "long", 2)], None,
    ),
    "not if it is retracted": (lambda: Desk().reads(order()).answers("waits").reads(retracted()), [], EXPIRED),
    "not if it is halted": (lambda: Desk().reads(order()).answers("waits").says(HALT), [], SKIPPED),
    "not if it is too old": (lambda: Desk().reads(order()).answers("waits").after(301), [], EXPIRED),
    "an exit is sent again after 5 s": (
        lambda: bought().reads(retracted()).answers("unknown").after(5), [("exit", "long", 2)], None,
    ),
    "not before": (lambda: bought().reads(retracted()).answers("refused").after(4), [], None),
    "then after 5 minutes": (
        lambda: bought().reads(retracted()).answers("lost").after(5).answers("lost").after(299), [], None,
    ),
    "an exit that was put off waits as told": (lambda: bought().reads(retracted()).answers("waits").after(9), [], None),
    "an exit goes before an entry": (
        lambda: bought().reads(retracted()).answers("unknown").after(1).reads(order("e", asset="ETH")), [("exit", "long", 2)], None,
    ),
    "which follows": (
        lambda: bought().reads(retracted()).answers("unknown").after(1).reads(order("e", asset="ETH")).answers("unknown"),
        ENTER, None,
    ),
    "while the destination is away, an order waits behind the exit and expires": (
        away_for_an_hour, [], [*DELIVERED, ("exit", "unknown"), ("enter", "expired")],
    ),
    "and when it answers again, the exit waits no longer": (
        lambda: away_for_an_hour().answers_again().after(5), [("exit", "long", 5)], None,
    ),
    "closed by a person": (lambda: bought().has(a=False), [], CLOSED),
    "and not entered again": (lambda: bought().has(a=False).reads(order(revision=2)), [], CLOSED),
    "what a lost entry did is found": (lambda: Desk().reads(order()).answers("lost").has(a=True), [], DELIVERED),
    "not yet shown is not gone": (lambda: bought().has(), [], DELIVERED),
    "gone after a minute": (lambda: bought().after(60).has(), [], CLOSED),
    "a lost entry that is not there was not done": (
        lambda: Desk().reads(order()).answers("lost").after(60).has(), [], REFUSED,
    ),
    "and its exit is over": (lost_with_its_exit, [], [*REFUSED, ("exit", "delivered")]),
    "found after all, its exit is sent again": (lambda: lost_with_its_exit().after(60).has(a=True).after(300), [("exit", "long", 3)], None),
    "found after all, and closed": (
        lambda: Desk().reads(order()).answers("lost").after(60).has().reads(retracted()).has(a=True), EXIT, None,
    ),
    "still open after its exit": (
        lambda: bought().reads(retracted()).answers("delivered").after(60).has(a=True), [("exit", "long", 2)], None,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SITUATIONS)
def test_what_a_bot_does_next(name: str) -> None:
    happens, under_way, outcomes = SITUATIONS[name]
    desk = happens()
    assert desk.under_way == under_way, desk.reasons
    assert outcomes is None or desk.outcomes == outcomes, desk.reasons


@pytest.mark.parametrize(
    ("limits", "why"),
    [
        ({"open_positions": 1}, "1 positions are open; the limit is 1"),
        ({"entries_a_day": 1}, "1 entries were made today (UTC); the limit is 1"),
        ({"entries_an_hour_per_asset": 1}, "1 entries of BTC were made within an hour; the limit is 1"),
    ],
)
@pytest.mark.parametrize("at_once", [True, False])
def test_a_limit_stops_the_second_entry(limits: dict[str, int], why: str, at_once: bool) -> None:
    every = {"open_positions": 9, "entries_a_day": 9, "entries_an_hour_per_asset": 9}
    desk = Desk(BotDefinition(name="b", kind="webhook", map=MAP, mode="live", limits=Limits(**every | limits)))
    of_btc = "entries_an_hour_per_asset" in limits
    second = order("z", asset="BTC" if of_btc else "ETH")
    if of_btc:  # one instrument has one position, so the first has to be closed
        desk.reads(order()).answers("delivered").reads(retracted()).answers("delivered").reads(second)
    elif at_once:
        desk.reads(order(), second)
    else:
        desk.reads(order()).answers("delivered").reads(second)
    assert ("enter", "skipped") in desk.outcomes
    assert why in desk.reasons


@st.composite
def revisions(draw: st.DrawFn) -> list[list[Signal]]:
    """The records of some signals, each signal's revisions in their order."""
    found = []
    for name in "abcd"[: draw(st.integers(1, 4))]:
        made = []
        asset = draw(st.sampled_from(["BTC", "ETH"]))
        for n in range(1, draw(st.integers(1, 3)) + 1):
            at = NOW + timedelta(seconds=draw(st.integers(0, 3)))
            made.append(
                order(
                    name, revision=n, asset=asset, action=draw(st.sampled_from(["buy", "sell", "observe"])),
                    stage=draw(st.sampled_from(["final", "final", "retracted"])), decided_at=at,
                    verdict=draw(st.sampled_from(["confirmed", "likely", "disputed"])),
                    valid_until=NOW + timedelta(seconds=draw(st.integers(1, 9))),
                )
            )  # fmt: skip
        found.append(made)
    return found


@given(revisions(), st.data())
def test_any_order_of_two_partitions_asks_for_the_same_positions(
    records: list[list[Signal]], data: st.DataObject
) -> None:
    folds = []
    for _ in range(2):
        left, fold = [list(one) for one in records], Signals(BOT)
        while any(left):
            n = data.draw(st.sampled_from([n for n, one in enumerate(left) if one]))
            one = left[n].pop(0)
            fold.take(one, 0)
            fold.take(one, 0)  # a record that comes twice changes nothing
        folds.append([fold.desired(NOW + timedelta(seconds=s)) for s in range(11)])
        fold.forget(NOW + timedelta(seconds=10), held=["kept"])
        assert fold.latest == {}
    assert folds[0] == folds[1]
    assert folds[0][10] == {}
