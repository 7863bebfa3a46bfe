from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import pytest

from infra.bots.definition import BotDefinition
from schemas.deliveries import Attempted, HaltLifted, HaltRequested, Settled
from schemas.signals import Signal
from streams.bots.book import Book
from streams.bots.messages import MOST_AT_ONCE, Outbox, Pace, is_quiet, next_notes, text_of
from tests.builders import NOW, signal

BOT = BotDefinition(name="desk", kind="notify", channel="telegram", allow=("offline",))
VERDICTS = {"send": ("orders", "retractions", "verdicts")}
BUY = {"action": "buy", "direction": "long"}
DISPUTED = {"verdict": "disputed", "action": "observe"}
RETRACTED = {"stage": "retracted", "verdict": "confirmed", "action": "observe"}
LOW = {"confidence": 0.5}


def bot_with(**changes: Any) -> BotDefinition:
    return BotDefinition(**{name: getattr(BOT, name) for name in ("name", "kind", "channel", "allow")} | changes)


def revision(n: int, at: datetime = NOW, **changes: Any) -> Signal:
    return signal(**{"revision": n, "decided_at": at, "valid_until": at + timedelta(days=1), **changes})


@dataclass
class Desk:
    """A bot without Kafka. ``heard``: the first lines that readers got, or perhaps got."""

    bot: BotDefinition

    def __post_init__(self) -> None:
        self.now, self.book, self.heard = NOW, Book("desk"), []
        self.outbox = Outbox(self.bot, Book("desk"), "telegram")

    def take(self, one: Signal) -> None:
        self.fold(self.outbox.take(one, self.now))

    def send(self, outcome: str = "delivered") -> None:
        self.fold(self.outbox.expire(self.now))
        for note in self.outbox.due(self.now):
            note.n += 1
            self.fold([note.planned] if note.n == 1 else [])
            self.fold([Attempted(delivery=note.planned.id, bot="desk", n=note.n)])
            if outcome == "killed":
                continue
            if outcome in ("delivered", "unknown"):
                self.heard.append(self.outbox.message([note], "p/").text.partition("\n")[0].partition(" · ")[0])
            self.fold([Settled(delivery=note.planned.id, bot="desk", outcome=outcome)])  # type: ignore[arg-type]
            self.outbox.settle(note, outcome, self.now)  # type: ignore[arg-type]

    def restart(self, *signals: Signal) -> None:
        """Start again with the same logs."""
        before = Book("desk")
        before.deliveries = self.book.deliveries
        self.outbox = Outbox(self.bot, before, "telegram")
        for one in signals:
            self.take(one)

    def fold(self, records: Any) -> None:
        for record in records:
            self.book.fold(int(self.now.timestamp() * 1000), record)

    @property
    def outcomes(self) -> list[str]:
        return [one.state for one in self.book.deliveries.values()]


STORIES: list[tuple[str, dict[str, Any], list[dict[str, Any]], list[str]]] = [
    ("an order", {}, [BUY], ["BUY BTC"]),
    ("its retraction", {}, [BUY, RETRACTED], ["BUY BTC", "RETRACTED: BUY BTC"]),
    ("its retraction, whatever is to be sent", {"send": ("orders",)}, [BUY, RETRACTED], ["BUY BTC", "RETRACTED: BUY BTC"]),
    ("confirmed, then disputed", {}, [BUY, DISPUTED], ["BUY BTC", "RETRACTED: BUY BTC"]),
    ("below the bar", {}, [BUY, BUY | LOW], ["BUY BTC", "RETRACTED: BUY BTC"]),
    ("the opposite", {}, [BUY, {"action": "sell"}, RETRACTED], ["BUY BTC", "RETRACTED: BUY BTC", "RETRACTED: SELL BTC"]),
    ("the same again", {}, [BUY, BUY | {"verdict": "likely"}], ["BUY BTC"]),
    ("an order again after a retraction", {}, [BUY, DISPUTED, BUY], ["BUY BTC", "RETRACTED: BUY BTC", "BUY BTC"]),
    ("no order", {}, [DISPUTED, LOW, {"asset": "UNKNOWN"}], []),
    ("a retraction of something that was not sent", {}, [DISPUTED, RETRACTED], ["RETRACTED: BTC"]),
    ("the same, not wanted", {"send": ("orders",)}, [DISPUTED, RETRACTED], []),
    ("verdicts", VERDICTS, [DISPUTED, DISPUTED, {"verdict": "refuted", "action": "observe"}], ["Disputed BTC", "Refuted BTC"]),
    ("a verdict that falls", {"send": ("verdicts",)}, [LOW, DISPUTED], ["Confirmed BTC", "RETRACTED: SELL BTC"]),
    ("offline, not allowed", {"allow": ()} | VERDICTS, [BUY, DISPUTED, RETRACTED], []),
    ("flagged", VERDICTS, [BUY | {"risk_flags": ("spoofed_source",)}], []),
    ("unchecked", VERDICTS, [{"verdict": "unchecked", "action": "observe"}], []),
    ("preliminary", VERDICTS, [BUY | {"stage": "preliminary", "verdict": "unchecked"}, BUY], ["BUY BTC"]),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "revisions", "heard"), [s[1:] for s in STORIES], ids=[s[0] for s in STORIES])
def test_what_readers_hear_of_a_signal_and_never_twice(
    changes: dict[str, Any], revisions: list[dict[str, Any]], heard: list[str]
) -> None:
    desk, signals = Desk(bot_with(**changes)), [revision(n, **r) for n, r in enumerate(revisions, 1)]
    for n in range(len(signals)):
        desk.take(signals[n])
        desk.send()
        desk.restart(*signals[: n + 1])  # nothing twice
        desk.send()
    assert desk.heard == heard
    assert set(desk.outcomes) <= {"delivered"}


def test_what_was_not_sent_yet_is_replaced_by_a_later_revision() -> None:
    desk = Desk(BOT)
    for n, changes in enumerate((BUY, RETRACTED), 1):
        desk.take(revision(n, **changes))
    desk.send()
    assert desk.heard == ["RETRACTED: BTC"]
    desk = Desk(BOT)
    desk.take(revision(1, **BUY))
    desk.send("skipped")  # the channel asked to wait
    desk.take(revision(2, **BUY))
    desk.send()
    assert (desk.heard, desk.outcomes) == (["BUY BTC"], ["skipped", "delivered"])


LOST: list[tuple[str, list[str], list[str]]] = [
    ("unknown", ["unknown"], ["BUY BTC"]),
    ("killed", ["unknown"], []),
    ("skipped", ["delivered"], ["BUY BTC"]),
    ("refused", ["refused"], []),
]


@pytest.mark.parametrize(("outcome", "outcomes", "heard"), LOST)
def test_an_order_whose_answer_was_lost_is_not_sent_again(outcome: str, outcomes: list[str], heard: list[str]) -> None:
    desk, one = Desk(BOT), revision(1, **BUY)
    desk.take(one)
    desk.send(outcome)
    desk.restart(one)
    desk.send()
    assert (desk.outcomes, desk.heard) == (outcomes, heard)


def test_an_order_that_was_put_off_and_then_perhaps_sent_is_not_sent_again() -> None:
    desk, one = Desk(BOT), revision(1, **BUY)
    desk.take(one)
    desk.send("skipped")
    desk.send("killed")
    desk.restart(one)
    desk.send()
    assert (desk.outcomes, desk.heard) == (["unknown"], [])


@pytest.mark.parametrize("outcome", ["unknown", "killed"])
def test_a_retraction_is_sent_until_the_answer_is_known_and_says_that_it_is_repeated(outcome: str) -> None:
    desk, signals = Desk(BOT), [revision(1, **BUY), revision(2, **DISPUTED)]
    desk.take(signals[0])
    desk.send("unknown")  # perhaps sent, so it must be taken back
    desk.take(signals[1])
    for _ in range(2):
        desk.send(outcome)
        desk.now += timedelta(days=1)
        desk.restart(*signals)
    if outcome == "unknown":  # without a restart, too, after a pause
        desk.send(outcome)
        desk.send()
        assert desk.outcomes == ["unknown", "unknown"]
        desk.now += timedelta(seconds=300)
    desk.send()
    desk.send()
    assert desk.heard[-1] == "(sent again: the first answer was lost) RETRACTED: BUY BTC"
    assert (desk.outcomes, desk.heard.count(desk.heard[-1])) == (
        ["unknown", "delivered"],
        1 if outcome == "killed" else 3,
    )


def test_in_quiet_hours_only_what_was_sent_is_retracted_and_what_was_not_sent_is_recorded() -> None:
    desk = Desk(bot_with(quiet="21:00-07:00", timezone="Asia/Shanghai"))  # NOW is 20:00 there
    desk.take(revision(1, **BUY))
    desk.send()
    desk.now += timedelta(hours=2)
    desk.take(revision(2, desk.now, **RETRACTED))
    desk.take(revision(1, desk.now, signal_id="other", **BUY))
    desk.send()
    assert desk.heard == ["BUY BTC", "RETRACTED: BUY BTC"]
    assert sorted(desk.outcomes) == ["delivered", "delivered", "skipped"]


@pytest.mark.parametrize("bot", ["desk", None])
def test_a_halt_stops_orders_and_nothing_else(bot: str | None) -> None:
    desk = Desk(bot_with(send=("orders", "verdicts")))
    desk.outbox = Outbox(desk.bot, desk.book, "telegram")
    desk.take(revision(1, signal_id="sent", **BUY))
    desk.send()
    waits = revision(1, signal_id="waits", **BUY)
    desk.take(waits)
    desk.send("skipped")  # the channel asked to wait
    desk.fold([HaltRequested(id="h", bot=bot, exit=False, by="ann")])
    desk.take(revision(1, signal_id="new", **BUY))
    desk.take(revision(1, signal_id="no order", **DISPUTED))
    desk.take(revision(2, signal_id="sent", **DISPUTED))
    desk.send()
    assert desk.heard == ["BUY BTC", "RETRACTED: BUY BTC", "Disputed BTC"]
    assert desk.outcomes == ["delivered", "expired", "skipped", "delivered", "delivered"]
    desk.fold([HaltLifted(id="l", bot=bot, by="ann")])
    desk.restart(waits)
    desk.take(revision(2, signal_id="new", **BUY))
    desk.send()
    assert desk.heard[3:] == ["BUY BTC"], "what the halt stopped is not made up for; a later revision is an order again"


@pytest.mark.parametrize(
    ("quiet", "hours"), [("", []), ("23:00-07:00", [23, 0, 6]), ("07:00-23:00", [7, 22]), ("00:00-00:00", [])]
)
def test_quiet_hours_may_pass_midnight(quiet: str, hours: list[int]) -> None:
    bot = bot_with(quiet=quiet)
    assert [h for h in (23, 0, 6, 7, 22) if is_quiet(bot, NOW.replace(hour=h))] == hours


def test_an_old_order_is_not_sent_and_after_the_first_message_that_is_recorded() -> None:
    desk = Desk(BOT)
    desk.take(revision(1, NOW - timedelta(seconds=301), signal_id="before", **BUY))
    desk.take(revision(1, signal_id="sent", **BUY))
    desk.send()
    desk.now += timedelta(hours=1)
    desk.restart(revision(1, NOW + timedelta(minutes=1), signal_id="while it was down", **BUY))
    desk.take(revision(1, desk.now, signal_id="the channel is away", **BUY))
    desk.send("skipped")
    desk.now += timedelta(seconds=301)
    desk.send()
    assert (desk.outcomes, desk.heard) == (["delivered", "expired", "expired"], ["BUY BTC"])


def test_retractions_go_first_and_a_burst_is_one_message_that_leaves_nothing_out() -> None:
    desk = Desk(BOT)
    for n in range(30):
        desk.take(revision(1, signal_id=f"s{n}", asset=f"A{n}", **BUY))
    notes = next_notes(desk.outbox.due(NOW), room=30)
    assert [n.planned.asset for n in notes] == ["A0"]
    notes = next_notes(desk.outbox.due(NOW), room=29)
    message = desk.outbox.message(notes, "http://us/")
    lines = message.text.split("\n")
    assert (lines[0], len(lines), message.link) == (f"{MOST_AT_ONCE} more signals:", MOST_AT_ONCE + 1, "http://us/")
    assert lines[1] == "BUY A0 · hack · confirmed · confidence 0.80 · offline: for testing only"
    desk.send()
    for n in (3, 4):
        desk.take(revision(2, signal_id=f"s{n}", asset=f"A{n}", **DISPUTED))
    desk.take(revision(1, signal_id="new", **BUY))
    due = desk.outbox.due(NOW)
    assert [n.kind for n in due] == ["retraction", "retraction", "order"]
    assert desk.outbox.message(next_notes(due, room=0), "p").text.startswith("2 retractions:\nRETRACTED: BUY A3 · was")


def test_texts_in_both_languages() -> None:
    texts = {
        "summary": "原文",
        "summary_zh": "已证实：币安上线 X。",
        "summary_en": "Confirmed: Binance lists X.",
        "provider_mode": "live",
    }
    said = Desk(BOT).outbox._says(signal(**BUY))
    assert text_of(signal(**BUY, **texts), "order", None, "en") == (
        "BUY BTC · hack · confirmed · confidence 0.80",
        "BUY BTC · hack · confirmed · confidence 0.80\nConfirmed: Binance lists X.",
    )
    assert (
        text_of(signal(**BUY, **texts), "order", None, "zh")[1]
        == "买入 BTC · 攻击 · 已证实 · 置信度 0.80\n已证实：币安上线 X。"
    )
    assert (
        text_of(signal(**DISPUTED, **texts), "retraction", said, "zh")[0] == "撤回：买入 BTC · 原为已证实，现为有争议"
    )
    flipped = signal(action="sell", **texts)
    assert text_of(flipped, "retraction", said, "en")[0] == (
        "RETRACTED: BUY BTC · now SELL · confirmed · confidence 0.80"
    )
    weaker = signal(confidence=0.5, **BUY, **texts)
    assert text_of(weaker, "retraction", said, "en")[0] == "RETRACTED: BUY BTC · confirmed · confidence 0.50"
    assert text_of(signal(summary="a\nb"), "order", None, "en")[1].endswith("for testing only\na b")


def test_the_pace_of_a_channel() -> None:
    pace = Pace(((1, 1.0), (3, 60.0)), [0.0])
    assert (pace.wait_s(0.25), pace.wait_s(1.0), pace.room(1.0)) == (0.75, 0.0, 2)
    for at in (1.0, 2.0):
        pace.count(at)
    assert (pace.wait_s(3.0), pace.room(3.0), pace.room(55.0)) == (57.0, 0, 3)
