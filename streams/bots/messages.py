"""What a bot reports to people: a pure fold of all signals' revisions and of its own deliveries.

A revision becomes a message of one kind (:func:`kind_of`). An order that was sent is retracted for certain, at any hour,
during a halt, and whatever the bot is to send; a reader who saw an order relies on that. Other messages are current or not
sent at all.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from datetime import datetime, time, timedelta
from typing import Literal
from zoneinfo import ZoneInfo

import msgspec

from agents.text.wording import Language, term
from infra.bots.adapter import Message
from infra.bots.definition import BotDefinition
from schemas.deliveries import DeliveryRecord, Outcome, Planned, Settled, delivery_id
from schemas.printable import shortened
from schemas.signals import ACTED_ON, NO_ASSET, WITHDRAWN, Signal
from streams.bots.book import Book, Delivery
from streams.bots.reports import Report

Kind = Literal["order", "retraction", "verdict", "investigation", "budget", "outage"]
SOON_S = 10.0
"""A queue that the channel does not take within this time is sent as one message."""
MOST_AT_ONCE = 20
"""Signals in one message, so that none of them is cut off at any channel's limit."""
REPEAT_AFTER_S = (5.0, 15.0, 60.0, 300.0)
"""Pauses before a retraction whose answer was lost is sent again; the last one repeats."""
_TEXT, _ASSET = 600, 12
_WORDS = {
    "retraction": ("RETRACTED: {}", "撤回：{}"),
    "signal": ("a signal", "一条信号"),
    "was_now": ("was {}, is now {}", "原为{}，现为{}"),
    "now": ("now {}", "现为{}"),
    "confidence": ("confidence {:.2f}", "置信度 {:.2f}"),
    "test": ("{}: for testing only", "{}：仅供测试"),
    "repeated": ("(sent again: the first answer was lost) ", "（重发：此前未收到回执）"),
    "more": ("{} more signals:", "另有 {} 条信号："),
    "more_retracted": ("{} retractions:", "{} 条撤回："),
}


class SentSignal(msgspec.Struct, frozen=True, kw_only=True):
    """The last message about a signal that readers have, or perhaps have."""

    action: str
    verdict: str
    is_order: bool


class Note(msgspec.Struct, kw_only=True):
    """A message to be sent. ``line`` is its first line, without a word of the news; ``n`` counts attempts.

    ``said``: what readers have of the signal once it is sent. ``repeated``: they may have it already. ``due``: not before (UTC).
    """

    planned: Planned
    kind: Kind
    line: str
    text: str
    path: str
    said: SentSignal | None = None
    n: int = 0
    repeated: bool = False
    due: datetime | None = None

    @property
    def urgent(self) -> bool:
        return self.kind == "retraction"

    @property
    def rank(self) -> int:
        """Retractions before other signals, and these before reports."""
        return 0 if self.urgent else 1 if self.said is not None else 2


def kind_of(bot: BotDefinition, signal: Signal, sent: SentSignal | None) -> Kind | None:
    """Return what a revision is to a reader who has ``sent``; None: nothing to report."""
    is_order = bot.refusal_of(signal) is None
    if sent is not None and sent.is_order and not (is_order and signal.action == sent.action):
        return "retraction"
    gone = signal.stage in WITHDRAWN
    if sent is not None and sent.verdict in ACTED_ON and (gone or signal.verdict not in ACTED_ON):
        return "retraction"
    if signal.stage == "preliminary" or bot.barred(signal) is not None:
        return None
    if is_order and "orders" in bot.send:
        return None if sent is not None and sent.is_order else "order"
    if gone:
        return "retraction" if "retractions" in bot.send else None
    is_new = signal.verdict != "unchecked" and (sent is None or sent.verdict != signal.verdict)
    return "verdict" if "verdicts" in bot.send and is_new else None


class Outbox:
    """The messages of one bot that are to be sent. Equal logs give equal outboxes."""

    def __init__(self, bot: BotDefinition, book: Book, channel: str) -> None:
        """``book``: the bot's deliveries before this process. It is read, not changed."""
        self.pending: dict[str, Note] = {}
        """Signal, or report, → its message. A later revision takes its place."""
        self._bot, self._book, self._channel = bot, book, channel
        self._max_age = timedelta(seconds=bot.limits.max_age_s)
        self._said: dict[str, SentSignal] = {}
        self._revisions: dict[str, int] = {}
        first = next(iter(book.deliveries.values()), None)
        self._since_ms = None if first is None else first.planned_ms

    def take(self, signal: Signal, now: datetime) -> list[DeliveryRecord]:
        """Apply a revision; return the records of a message that will not be sent, or whose answer is lost for good."""
        id, revision = signal.signal_id, signal.revision
        if revision <= self._revisions.get(id, 0):
            return []
        self._revisions[id] = revision
        sent = self._said.get(id)
        kind = kind_of(self._bot, signal, sent)
        done = self._book.deliveries.get(delivery_id(self._bot.name, self._bot.mode, "notify", id, revision))
        if done is not None:
            return self._recall(signal, done, kind)
        records: list[DeliveryRecord] = []
        if (replaced := self.pending.pop(id, None)) is not None and replaced.n:
            records = [self._settled(replaced, "skipped", f"revision {revision} replaced it before it was sent")]
        if kind is None:
            return records
        note = self._note(signal, kind, sent, now)
        if kind == "retraction" and sent is not None:
            self.pending[id] = note
            return records
        return records + self._unless_late(note, signal.decided_at, now)

    def report(self, report: Report, now: datetime) -> list[DeliveryRecord]:
        """Apply a report as :meth:`take` applies a revision."""
        if report.id in self._revisions:
            return []
        self._revisions[report.id] = 1
        planned = self._planned(report.id, 1, "", report.kind, now, report.at + self._max_age)
        note = Note(planned=planned, kind=report.kind, line=report.line, text=report.text, path=report.path)
        if (done := self._book.deliveries.get(planned.id)) is not None:
            return self._resume(note, done, repeat=False)
        return self._unless_late(note, report.at, now)

    def settle(self, note: Note, outcome: Outcome, now: datetime) -> None:
        """Apply the result of sending a message. ``skipped``: the channel has not taken it, and it is sent later."""
        id = note.planned.signal_id
        if outcome in ("delivered", "unknown") and note.said is not None:
            self._said[id] = note.said
        if outcome == "unknown" and note.urgent:
            note.repeated = True
            note.due = now + timedelta(seconds=REPEAT_AFTER_S[min(note.n, len(REPEAT_AFTER_S)) - 1])
        elif outcome != "skipped":
            del self.pending[id]

    def expire(self, now: datetime) -> list[DeliveryRecord]:
        """Take out the messages that are too late, and orders while a halt holds the bot, never a retraction; return their
        records."""
        age = self._max_age
        records: list[DeliveryRecord] = []
        for note in [n for n in self.pending.values() if self._halted(n) is not None]:
            del self.pending[note.planned.signal_id]
            # Of a message that was attempted, "skipped" means that it is sent later.
            records += self._not_sent(note, "expired" if note.n else "skipped", self._halted(note) or "")
        late = [n for n in self.pending.values() if not n.urgent and n.planned.planned_at + age < now]
        for note in late:
            del self.pending[note.planned.signal_id]
            records += self._not_sent(
                note, "expired", f"the channel did not accept it within {age.total_seconds():.0f} s"
            )
        return records

    def due(self, now: datetime) -> list[Note]:
        """Return the messages that may be sent now, retractions first, then in the order of their arrival."""
        ready = [n for n in self.pending.values() if n.due is None or n.due <= now]
        return sorted(ready, key=lambda n: n.rank)

    def message(self, notes: Sequence[Note], page: str) -> Message:
        """Return the message for these notes, which have one rank. ``page``: the address of our page."""
        first, language = notes[0], self._bot.language
        again = _word("repeated", language) if any(n.repeated for n in notes) else ""
        reference, urgent = first.planned.id, first.urgent
        if len(notes) == 1:
            return Message(reference=reference, text=again + first.text, link=page + first.path, urgent=urgent)
        head = _word("more_retracted" if urgent else "more", language).format(len(notes))
        lines = "\n".join([again + head, *(n.line for n in notes)])
        return Message(reference=reference, text=lines, link=page, urgent=urgent)

    def _recall(self, signal: Signal, done: Delivery, kind: Kind | None) -> list[DeliveryRecord]:
        """Continue what an earlier process of the bot did with this revision."""
        id = signal.signal_id
        sent = self._said.get(id)
        self.pending.pop(id, None)
        if done.outcome == "delivered" or (done.n > 0 and done.outcome in (None, "unknown")):
            self._said[id] = self._says(signal)
        if kind is None and done.outcome is not None:
            return []
        note = self._note(signal, kind or "order", sent, done.planned.planned_at)
        return self._resume(note, done, repeat=kind == "retraction" and sent is not None)

    def _resume(self, note: Note, done: Delivery, *, repeat: bool) -> list[DeliveryRecord]:
        """Continue with a message that was put off, or whose answer is not known and which is to be repeated."""
        maybe_sent = done.n > 0 and done.outcome in (None, "unknown")
        if (done.n > 0 and done.outcome == "skipped") or (maybe_sent and repeat):
            note.n, note.repeated = done.n, maybe_sent
            self.pending[note.planned.signal_id] = note
        elif done.outcome is None:
            return [
                self._settled(
                    note, "unknown", "the bot stopped before the answer arrived; the message is not sent again"
                )
            ]
        return []

    def _unless_late(self, note: Note, at: datetime, now: datetime) -> list[DeliveryRecord]:
        if now - at > self._max_age:
            if self._since_ms is None or at.timestamp() * 1000 < self._since_ms:
                return []  # from before the bot's first message
            late_s = (now - at).total_seconds()
            return self._not_sent(note, "expired", f"it was {late_s:.0f} s old when the bot could send it")
        if is_quiet(self._bot, now):
            return self._not_sent(note, "skipped", f"quiet hours {self._bot.quiet} {self._bot.timezone}")
        if (why := self._halted(note)) is not None:
            return self._not_sent(note, "skipped", why)
        self.pending[note.planned.signal_id] = note
        return []

    def _halted(self, note: Note) -> str | None:
        """Return by whose halt a message is not sent: a halt stops orders, as it stops entries, and nothing else."""
        halt = self._book.halt_of(self._bot.name)
        return None if halt is None or note.kind != "order" else f"halted by {halt.by}"

    def _not_sent(self, note: Note, outcome: Outcome, why: str) -> list[DeliveryRecord]:
        settled = self._settled(note, outcome, why)
        return [settled] if note.n else [note.planned, settled]

    def _settled(self, note: Note, outcome: Outcome, why: str) -> DeliveryRecord:
        return Settled(delivery=note.planned.id, bot=self._bot.name, outcome=outcome, reason=why)

    def _says(self, signal: Signal) -> SentSignal:
        is_order = self._bot.refusal_of(signal) is None
        verdict = "" if signal.stage in WITHDRAWN else signal.verdict or ""
        return SentSignal(action=signal.action, verdict=verdict, is_order=is_order)

    def _note(self, signal: Signal, kind: Kind, sent: SentSignal | None, now: datetime) -> Note:
        line, text = text_of(signal, kind, sent, self._bot.language)
        planned = self._planned(signal.signal_id, signal.revision, signal.asset, kind, now, signal.valid_until)
        path = f"case/{signal.case_id}"
        return Note(planned=planned, kind=kind, line=line, text=text, path=path, said=self._says(signal))

    def _planned(self, id: str, revision: int, asset: str, kind: Kind, now: datetime, valid_until: datetime) -> Planned:
        return Planned(
            id=delivery_id(self._bot.name, self._bot.mode, "notify", id, revision), bot=self._bot.name, adapter="notify",
            instrument=self._channel, intent="notify", signal_id=id, revision=revision, asset=asset, reason=kind,
            planned_at=now, valid_until=valid_until, mode=self._bot.mode,
        )  # fmt: skip


def text_of(signal: Signal, kind: Kind, sent: SentSignal | None, language: Language) -> tuple[str, str]:
    """Return a message's first line, which has no word of the news but the asset, and its whole text."""
    asset = "" if signal.asset == NO_ASSET else f" {shortened(signal.asset, _ASSET)}"
    verdict = _term(signal.stage if signal.stage in WITHDRAWN else signal.verdict or "unknown", language)
    parts = [_word("confidence", language).format(signal.confidence)]
    if kind == "retraction":
        head = f"{_action(sent.action, language)}{asset}" if sent is not None else asset
        line = _word("retraction", language).format(head.strip() or _word("signal", language))
        parts.insert(0, verdict)
        if signal.stage not in WITHDRAWN and signal.action in {"buy", "sell"} and sent and signal.action != sent.action:
            parts.insert(0, _word("now", language).format(_action(signal.action, language)))
        elif sent is None or (sent.verdict or "unknown") != (signal.verdict or "unknown") or signal.stage in WITHDRAWN:
            parts = (
                [_word("was_now", language).format(_term(sent.verdict, language), verdict)]
                if sent
                else [verdict] * (signal.stage != "retracted")
            )
    elif kind == "order":
        line = f"{_action(signal.action, language)}{asset}"
        parts = [_term(signal.event_type, language), verdict, *parts]
    else:
        line = f"{verdict[:1].upper()}{verdict[1:]}{asset}"
        parts.insert(0, _term(signal.event_type, language))
    if signal.provider_mode != "live":
        parts.append(_word("test", language).format(_term(signal.provider_mode, language)))
    line = " · ".join([line, *parts])
    return line, f"{line}\n{shortened(_summary(signal, language), _TEXT)}"


def is_quiet(bot: BotDefinition, now: datetime) -> bool:
    """Return whether ``now`` (UTC) is within the bot's quiet hours; the end is outside, and they may pass midnight."""
    if not bot.quiet:
        return False
    start, end = (time.fromisoformat(part) for part in bot.quiet.split("-"))
    at = now.astimezone(ZoneInfo(bot.timezone)).time()
    return start <= at < end if start <= end else at >= start or at < end


class Pace:
    """When a channel takes the next message, by its rates. Times are seconds on one clock."""

    def __init__(self, rates: Iterable[tuple[int, float]], sent: Iterable[float] = ()) -> None:
        self._rates = tuple(rates)
        self._sent: deque[float] = deque(sent, maxlen=max(count for count, _ in self._rates))

    def wait_s(self, now: float) -> float:
        """Return the seconds until the next message may be sent; 0: now."""
        sent = self._sent
        # At most the whole window, also if the clock was set back.
        return max([0.0, *(min(sent[-count] + s - now, s) for count, s in self._rates if len(sent) >= count)])

    def count(self, now: float) -> None:
        """Count a message that is sent now."""
        self._sent.append(now)

    def room(self, now: float) -> int:
        """Return how many messages the channel takes within :data:`SOON_S`, up to 100."""
        trial, at = Pace(self._rates, self._sent), now
        for n in range(100):
            at += trial.wait_s(at)
            if at > now + SOON_S:
                return n
            trial.count(at)
        return 100


def next_notes(due: Sequence[Note], room: int) -> list[Note]:
    """Return what the next message holds: the first one, or many if the channel does not take all of them soon."""
    same = [note for note in due if note.rank == due[0].rank]
    return same[:1] if len(due) <= max(room, 1) or due[0].said is None else same[:MOST_AT_ONCE]


def _summary(signal: Signal, language: Language) -> str:
    return (signal.summary_zh if language == "zh" else signal.summary_en) or signal.summary


def _action(action: str, language: Language) -> str:
    word = _term(action, language)
    return word.upper() if action != "observe" else word


def _term(word: str, language: Language) -> str:
    return term(word or "unknown").of(language)


def _word(name: str, language: Language) -> str:
    return _WORDS[name][language == "zh"]
