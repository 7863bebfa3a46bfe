"""The audit: reads the whole log in bulk and checks the log's guarantees. Independent of the runtime's state."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from decimal import Decimal
from typing import Any

import msgspec

from schemas import envelope as wire
from schemas.budget import decode as decode_budget
from schemas.config import decode_snapshot
from schemas.deliveries import Attempted, Outcome, Planned, Settled
from schemas.deliveries import decode as decode_delivery
from schemas.errors import ContractError
from schemas.events import (
    BY_WIRE_NAME,
    EFFECT_NAME,
    OPENING_NAMES,
    TERMINAL_NAMES,
    WIRE_NAMES,
    AnswerGiven,
    BriefWritten,
    CaseDegraded,
    CaseDropped,
    CaseFailed,
    EventReceived,
    SecondLookOpened,
    StoryChecked,
)
from schemas.news import case_id_of, decode_news, is_marked, retries_of
from schemas.topics import Topics
from schemas.watches import decode as decode_watch
from streams.audit.signals import FaultySignal, PublishedSignals
from streams.calibration.topic import decode as decode_calibration
from streams.journal.clock import appended_at
from streams.journal.log import Log
from streams.journal.reader import JournalReader
from streams.record.days import differing_days
from streams.record.roots import decode as decode_root

_LOOK, _STORY = WIRE_NAMES[SecondLookOpened], WIRE_NAMES[StoryChecked]


class AuditReport(msgspec.Struct, frozen=True, kw_only=True):
    """Counts of the log's contents, and of every broken guarantee.

    ``lost``: news with neither a case nor a dead letter, plus cases that are still open although the log is quiet.
    ``repeated_records``: records that the acceptance rule ignores; harmless. ``duplicate_events``: two accepted
    successors of one head, found by a pass without windows. ``duplicate_signals``: a (signal, revision) that a
    read_committed reader sees twice. ``repeated_calls``: paid calls in ignored records, plus identical requests paid
    twice. ``forged_signals``: records of ``signals`` that no event of the journal confirms. They lack an event's
    headers, name a position that publishes nothing, or differ from the signal published there. If one event has several
    revisions, all of them count, because one of them may be genuine. ``forged`` lists the first of them.
    ``overstated_signals``: signals that the journal confirms, but that say more than was established: an order without
    a verdict that allows one, or without an asset, or a confidence above the verdict's cap. ``overstated`` lists the
    first of them. ``unproven_sources``: cases that count as news of a listed source although no listener's key confirms
    the mark; ``unchecked_sources``: cases that could not be checked, because no key is available.
    ``recorded_days_changed``: days of the record (``newsproof record``) whose signals or links differ.
    ``entries_delivered_twice``: entries that a bot's destination made beyond the first of one signal.
    ``entries_attempted_again``: requests of a bot for an entry that was made, or perhaps was. ``foreign``: topic
    (without its prefix) → records that no part of Newsproof wrote, or that are damaged; every reader ignores them.
    Foreign records of ``cases`` also become dead letters; those of ``news`` always do, and are not listed here.
    ``second_looks``: cases that are a second look at another case. ``second_analysis_calls``: the part of
    ``model_calls`` made by second looks, and by later reports of an event that were analysed themselves, except for
    triage. ``questions``: turns of the research chat; ``answered`` of them have an answer. Their journal has the same
    guarantees: ``lost``, ``duplicate_events``, ``repeated_records`` and ``repeated_calls`` count both.
    """

    news: int
    cases: int
    events: int
    open: int
    lost: int
    repeated_records: int
    duplicate_events: int
    duplicate_signals: int
    calls: int
    repeated_calls: int
    signals: int
    dropped: int
    failed: int
    degraded: int
    dead_letters: int
    foreign: dict[str, int] = {}
    second_looks: int = 0
    model_calls: int = 0
    second_analysis_calls: int = 0
    questions: int = 0
    answered: int = 0
    forged_signals: int = 0
    forged: tuple[FaultySignal, ...] = ()
    overstated_signals: int = 0
    overstated: tuple[FaultySignal, ...] = ()
    unproven_sources: int = 0
    unchecked_sources: int = 0
    recorded_days_changed: int = 0
    entries_delivered_twice: int = 0
    entries_attempted_again: int = 0

    @property
    def broken(self) -> dict[str, int]:
        """Number of violations per guarantee: lost, duplicate, not confirmed by the journal, overstated, entered twice."""
        names = (
            "lost",
            "duplicate_events",
            "duplicate_signals",
            "forged_signals",
            "overstated_signals",
            "unproven_sources",
            "recorded_days_changed",
            "entries_delivered_twice",
            "entries_attempted_again",
        )
        return {name: getattr(self, name) for name in names}

    @property
    def clean(self) -> bool:
        """True if every guarantee held."""
        return not any(self.broken.values())


class _Call(msgspec.Struct):
    request_hash: str
    kind: str
    reply: msgspec.Raw
    cost_usd: str | None = None
    cached: bool = False


class _Costs(msgspec.Struct):
    calls: tuple[_Call, ...] = ()


class _Independent:
    """Successors per head over the whole log: no windows, no tombstones, no state shared with ``AcceptedEvents``."""

    def __init__(self) -> None:
        self._head: dict[str, str] = {}
        self._succeeded: set[int] = set()
        self.duplicates = 0

    def see(self, env: wire.Envelope, accepted: bool) -> None:
        """Count one record that the acceptance rule has judged."""
        if not accepted or env.type == EFFECT_NAME:
            return
        if env.type in OPENING_NAMES:
            self.duplicates += env.case_id in self._head
        elif env.causation_id is not None:
            # 64-bit hashes of (case, cause) need a third of the memory. With a million of them, one audit in 30 million
            # has a collision.
            edge = hash((env.case_id, env.causation_id))
            self.duplicates += edge in self._succeeded or self._head.get(env.case_id) != env.causation_id
            self._succeeded.add(edge)
        self._head[env.case_id] = env.id


class _Journal:
    """Counts over one pass of the journal. ``keys``: the keys that make a listener's mark valid."""

    def __init__(self, keys: Sequence[bytes] = ()) -> None:
        self._keys = keys
        self.authenticated = self.unproven = 0
        self.types: Counter[str] = Counter()
        self.ignored = self.calls = self.repeated_calls = 0
        self.cases: set[str] = set()
        self.looks: set[str] = set()
        self.analysed_again: set[str] = set()
        self.model_calls = self.second_analysis_calls = 0
        self.independent = _Independent()
        self._paid: dict[str, set[str]] = {}
        self._decode = msgspec.json.Decoder(_Costs).decode

    def see(self, record: Any, env: wire.Envelope, accepted: bool) -> None:
        self.independent.see(env, accepted)
        if accepted:
            self.types[env.type] += 1
            if env.type in OPENING_NAMES:
                self.cases.add(env.case_id)
                self._check_source(env, record)
            if env.type == _LOOK:
                self.looks.add(env.case_id)
            if env.type == _LOOK or (env.type == _STORY and b'"earlier":[{' in record.value):
                self.analysed_again.add(env.case_id)
        else:
            self.ignored += 1
        if record.value and b'"calls":' in record.value:
            # A poison record: its case is quarantined, its calls are unknown.
            with suppress(ValueError, ArithmeticError, RecursionError):
                self._count_calls(env, accepted, self._decode(record.value).calls)
        if accepted and env.type in TERMINAL_NAMES:
            self._paid.pop(env.case_id, None)

    def _check_source(self, env: wire.Envelope, record: Any) -> None:
        if b'"authenticated":true' not in record.value:  # few cases are from a listed source; do not decode the others
            return
        with suppress(ContractError):  # a poison record: its case is quarantined
            event = wire.decode(env.type, env.version, record.value)
            if isinstance(event, EventReceived | SecondLookOpened) and event.authenticated:
                self.authenticated += 1
                self.unproven += not is_marked(event.news, self._keys)

    def _count_calls(self, env: wire.Envelope, accepted: bool, calls: tuple[_Call, ...]) -> None:
        self.calls += len(calls)
        models = sum(call.kind == "model" for call in calls)
        self.model_calls += models
        self.second_analysis_calls += models * (env.case_id in self.analysed_again)
        for call in calls:
            if call.cached or (call.cost_usd is not None and Decimal(call.cost_usd) == 0):
                continue
            seen = self._paid.setdefault(env.case_id, set())
            answered = b'"type":"failure"' not in bytes(call.reply)[:64]
            if not accepted or call.request_hash in seen:
                self.repeated_calls += 1
            elif answered:
                seen.add(call.request_hash)


_READ: dict[str, Callable[[Any], Any]] = {
    "configs": lambda record: decode_snapshot(record.key, record.value),
    "budget": lambda record: decode_budget(record.value),
    "watches": lambda record: decode_watch(record.value),
    "calibration": decode_calibration,
    "record-roots": lambda record: decode_root(record.value),
}
"""Topic (without its prefix) → decoder of its records, for topics of which only foreign records are counted."""


async def audit(log: Log, topics: Topics, *, keys: Sequence[bytes] = ()) -> AuditReport:
    """Read news, journal, dead letters and signals up to their present ends, and return the report.

    ``keys``: the listener's keys. Without one, the audit cannot check whether a case comes from a listed source.
    """
    # Everything read is kept, so there are no cycles to find, and each collection would scan all of it again.
    collecting = gc.isenabled()
    gc.disable()
    try:
        return await _audited(log, topics, keys)
    finally:
        if collecting:
            gc.enable()


async def _audited(log: Log, topics: Topics, keys: Sequence[bytes]) -> AuditReport:
    signals = await PublishedSignals.read(log, topics)  # before the journal, which they are checked against
    journal, still_open, malformed = await _read(log, topics.cases, _Journal(keys), signals)
    chats, open_chats, malformed_chats = await _read(log, topics.research, _Journal())
    bots = await AuditedDeliveries.read(log, topics)
    foreign = {"cases": malformed, "research": malformed_chats, "signals": signals.foreign, "deliveries": bots.foreign}
    dead_letters, dead_letter_sources, foreign["dead-letters"] = await _dead_letters(log, topics)
    news, without = await _news(log, topics, journal.cases, dead_letter_sources)
    of = {t: journal.types[WIRE_NAMES[t]] for t in BY_WIRE_NAME.values()}
    return AuditReport(
        news=news,
        cases=len(journal.cases),
        events=sum(journal.types.values()),
        open=still_open,
        lost=without + still_open + open_chats,
        repeated_records=journal.ignored + chats.ignored,
        duplicate_events=journal.independent.duplicates + chats.independent.duplicates,
        duplicate_signals=signals.twice,
        calls=journal.calls,
        repeated_calls=journal.repeated_calls + chats.repeated_calls,
        signals=signals.count,
        dropped=of[CaseDropped],
        failed=of[CaseFailed],
        degraded=of[CaseDegraded],
        dead_letters=dead_letters,
        foreign={topic: count for topic, count in (foreign | await _unreadable(log, topics)).items() if count},
        second_looks=len(journal.looks),
        model_calls=journal.model_calls,
        second_analysis_calls=journal.second_analysis_calls,
        questions=len(chats.cases),
        answered=chats.types[WIRE_NAMES[AnswerGiven]] + chats.types[WIRE_NAMES[BriefWritten]],
        forged_signals=signals.forged_count,
        forged=tuple(signals.forged),
        overstated_signals=signals.overstated_count,
        overstated=tuple(signals.overstated),
        unproven_sources=journal.unproven if keys else 0,
        unchecked_sources=0 if keys else journal.authenticated,
        recorded_days_changed=len(await differing_days(log, topics)),
        entries_delivered_twice=bots.entries_delivered_twice,
        entries_attempted_again=bots.entries_attempted_again,
    )


async def _read(
    log: Log, topic: str, journal: _Journal, signals: PublishedSignals | None = None
) -> tuple[_Journal, int, int]:
    """Return a journal's counts, its open cases, and its number of foreign records; check the signals against it."""
    reader = JournalReader(log, topic)
    parts = await reader.begin()
    async for tp, records in reader.replay(parts):
        part = parts[tp]
        for record in records:
            env, accepted = part.judge(record)
            if env is None:
                journal.ignored += 1
            else:
                journal.see(record, env, accepted)
                if accepted and signals is not None:
                    signals.see(env, record)
    if signals is not None:
        signals.finish()
    return journal, sum(len(p.accepted.open) for p in parts.values()), sum(p.malformed for p in parts.values())


async def _dead_letters(log: Log, topics: Topics) -> tuple[int, set[tuple[str, int, int]], int]:
    where: set[tuple[str, int, int]] = set()
    count = foreign = 0
    async for _, records in log.replay(await log.bounds(topics.dead_letters)):
        for record in records:
            h = dict(record.headers)
            if "dl_reason" not in h:
                foreign += 1
                continue
            count += 1
            with suppress(KeyError, ValueError, AttributeError, TypeError):  # a failed case has no single source record
                where.add((h["dl_topic"].decode(), int(h["dl_partition"]), int(h["dl_offset"])))
    return count, where, foreign


async def _news(
    log: Log, topics: Topics, cases: set[str], dead_letter_sources: set[tuple[str, int, int]]
) -> tuple[int, int]:
    count = without = 0
    async for tp, records in log.replay(await log.bounds(topics.news)):
        for record in records:
            count += 1
            try:
                news = decode_news(record.value, now=appended_at(record))  # judged as intake does
                known = case_id_of(news, retries_of(record.headers)) in cases
            except ContractError:
                known = False
            if not known and (tp.topic, tp.partition, record.offset) not in dead_letter_sources:
                without += 1
    return count, without


async def _unreadable(log: Log, topics: Topics) -> Counter[str]:
    count: Counter[str] = Counter()
    for topic, read in _READ.items():
        async for _, records in log.replay(await log.bounds(topics.journal(topic))):
            for record in records:
                try:
                    read(record)
                except ContractError:
                    count[topic] += 1
    return count


# Deliveries of bots


class _Entry(msgspec.Struct):
    planned: Planned
    attempts: int = 0
    outcome: Outcome | None = None


class AuditedDeliveries(msgspec.Struct):
    """Entries that bots made twice, by a fold of its own, not that of the bots.

    ``foreign``: records that no bot wrote. The two others: as in ``AuditReport``."""

    foreign: int = 0
    entries_delivered_twice: int = 0
    entries_attempted_again: int = 0

    @classmethod
    async def read(cls, log: Log, topics: Topics) -> AuditedDeliveries:
        """Read the topic up to its present end."""
        audited, entries, ended = cls(), dict[tuple[str, str], _Entry](), list[_Entry]()
        bounds = await log.bounds(topics.deliveries, isolation="read_committed")
        async for _, records in log.replay(bounds, isolation="read_committed"):
            for record in records:
                try:
                    change = decode_delivery(record.value)
                except ContractError:
                    audited.foreign += 1
                    continue
                if isinstance(change, Planned) and change.intent == "enter":
                    before = entries.get((change.bot, change.id))
                    if before is None or _far_side(before) != (change.adapter, change.mode):
                        if before is not None:
                            ended.append(before)
                        entries[change.bot, change.id] = _Entry(change)
                elif isinstance(change, Attempted | Settled) and (entry := entries.get((change.bot, change.delivery))):
                    if isinstance(change, Settled):
                        entry.outcome = change.outcome
                    else:
                        audited.entries_attempted_again += change.n <= entry.attempts or entry.outcome in _MAY_BE_OPEN
                        entry.attempts = max(entry.attempts, change.n)
        delivered = Counter(
            (entry.planned.bot, *_far_side(entry), entry.planned.signal_id)
            for entry in (*ended, *entries.values())
            if entry.outcome == "delivered"
        )
        audited.entries_delivered_twice = sum(count - 1 for count in delivered.values())
        return audited


_MAY_BE_OPEN = ("delivered", "unknown")


def _far_side(entry: _Entry) -> tuple[str, str]:
    return entry.planned.adapter, entry.planned.mode
