"""Check of published signals against the journal: each must match what the event named in its headers publishes.

Anyone who can write to ``signals`` can write consistent headers, but cannot change what the journal holds at an offset.
Signals are read before the journal, so the journal read later contains their events. Only a digest of each signal is
kept. A withdrawn, corroborated or second-look revision is derived from the revision before it. A second pass over
``signals`` reads those few earlier revisions again.

A signal that the journal confirms may still say more than was established: an order without support, or a confidence
above the verdict's cap. Both are reported, except for signals of schema 1, which guaranteed neither.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from agents.evidence.verdict import CAPS
from schemas import envelope as wire
from schemas.envelope import SIGNAL, Publication, read_signal, upcast
from schemas.errors import ContractError
from schemas.events import CaseDropped, CaseFailed, Event, RetractionFound, SignalSynthesized, StoryCorroborated
from schemas.ids import signal_id
from schemas.news import is_asked
from schemas.signals import ACTED_ON, NO_ASSET, SECOND_LOOK, SIGNAL_SCHEMA_VERSION, WITHDRAWN, Signal
from schemas.topics import Topics
from streams.journal.log import Log
from streams.publish.revisions import CORROBORATED, of_first_case, revised_by, signal_in

LISTED = 20
"""Maximum number of signals listed per fault. All are counted."""
VERDICTS_SINCE = 2
"""First version of the events, and of the signals, with a verdict."""
_encode = msgspec.json.Encoder().encode
_OF_ANOTHER_CASE = frozenset({CORROBORATED, SECOND_LOOK})
"""Rules of the last adjustment in a revision that another case made."""


class FaultySignal(msgspec.Struct, frozen=True):
    """A record of ``signals`` that breaks a guarantee: its offset, and the reason."""

    partition: int
    offset: int
    why: str


class _Claim(NamedTuple):
    """One published revision: the digest of its content, its offset on ``signals``, and its schema version."""

    revision: int
    digest: bytes
    partition: int
    offset: int
    version: int


class PublishedSignals:
    """Records of ``signals`` as a read_committed reader sees them, for a check against the journal.

    ``twice`` counts repeated (signal, revision) pairs; ``foreign`` counts records without a signal's headers, which are
    also forged. ``forged`` lists the first of ``forged_count``, which is complete after :meth:`finish`. ``overstated``
    lists the first of ``overstated_count``, whose signals the journal confirms.
    """

    def __init__(self, journal: str) -> None:
        self._journal = journal
        self._seen: set[tuple[str, int]] = set()
        self._claims: defaultdict[int, dict[int, tuple[_Claim, ...]]] = defaultdict(dict)
        self._before: dict[tuple[str, int], tuple[Signal, ...]] = {}
        self.twice = self.foreign = self.forged_count = self.overstated_count = 0
        self.forged: list[FaultySignal] = []
        self.overstated: list[FaultySignal] = []

    @classmethod
    async def read(cls, log: Log, topics: Topics) -> PublishedSignals:
        """Read all of ``signals``, up to its present ends."""
        published = cls(topics.cases)
        bounds = await log.bounds(topics.signals, isolation="read_committed")
        async for _, records in log.replay(bounds, isolation="read_committed"):
            for record in records:
                published._take(record)
        if published._before:
            async for _, records in log.replay(bounds, isolation="read_committed"):
                for record in records:
                    published._take_before(record)
        return published

    @property
    def count(self) -> int:
        """Number of distinct signals, whatever their number of revisions."""
        return len({of for of, _ in self._seen})

    def see(self, env: wire.Envelope, record: Any) -> None:
        """Compare one accepted record of the journal with the signals that name it."""
        claims = self._claims[record.partition].pop(record.offset, None)
        if claims is None:
            return
        try:
            event: Any = wire.decode(env.type, env.version, record.value)
        except ContractError as exc:
            return self._refuse(claims, str(exc))
        borne_out: list[_Claim] = []
        for claim in sorted(claims):
            wanted = self._wanted(event, env, claim)
            if not wanted:
                self._refuse((claim,), "no accepted event that publishes a signal is at the position that it names")
            elif claim.digest not in wanted:
                self._refuse((claim,), "it differs from what the journal holds at the place that it names")
            else:
                borne_out.append(claim)
        if len({claim.revision for claim in borne_out}) > 1:
            self._refuse(tuple(borne_out), "several revisions name one event, which publishes only one: compare them")
        if (signal := signal_in(event)) is not None and env.version >= VERDICTS_SINCE and (why := _overstated(signal)):
            self.overstated_count += len(borne_out)
            room = LISTED - len(self.overstated)
            self.overstated += [FaultySignal(claim.partition, claim.offset, why) for claim in borne_out[:room]]

    def finish(self) -> None:
        """End the check: every signal that names a position not found in the journal is forged."""
        for partition in self._claims.values():
            for claims in partition.values():
                self._refuse(claims, "no accepted event is at the position that it names")
        self._claims.clear()

    def _take(self, record: Any) -> None:
        try:
            signal, published = read_signal(record)
        except ContractError as exc:
            self.foreign += exc.reason == "foreign_signal"
            return self._list(record.partition, record.offset, str(exc))
        self.twice += (signal.signal_id, signal.revision) in self._seen
        self._seen.add((signal.signal_id, signal.revision))
        encoded = _encode(signal)
        if published.journal_topic != self._journal:
            return self._list(record.partition, record.offset, "the topic that it names is not the journal of signals")
        if _holds_more(
            record.value, published.schema_version, encoded
        ):  # a key that another reader may interpret differently
            return self._list(record.partition, record.offset, "it holds more than the signal that is read from it")
        if signal.stage in WITHDRAWN or (signal.adjustments and signal.adjustments[-1].rule in _OF_ANOTHER_CASE):
            self._before[signal.signal_id, signal.revision - 1] = ()
        version = published.schema_version
        digest = _digest(published.cause_id, published.run_id, _compared(signal, version))
        self._claim(published, _Claim(signal.revision, digest, record.partition, record.offset, version))

    def _claim(self, published: Publication, claim: _Claim) -> None:
        at = self._claims[published.journal_partition]
        at[published.journal_offset] = (*at.get(published.journal_offset, ()), claim)

    def _take_before(self, record: Any) -> None:
        try:
            signal, _ = read_signal(record)
        except ContractError:
            return
        key = (signal.signal_id, signal.revision)
        if key in self._before:
            self._before[key] = (*self._before[key], signal)

    def _wanted(self, event: Event, env: wire.Envelope, claim: _Claim) -> set[bytes]:
        """Return digests of the signals that this event may have published as this revision; empty if there is none."""
        revision = claim.revision
        signal = signal_in(event)
        if signal is not None and not of_first_case(signal, env):
            made = [signal]
        else:
            of: tuple[str, ...]
            match event:
                case RetractionFound(signal_id=earlier, rival=rival) if rival is not None:
                    of = (earlier, signal_id(env.run_id, env.case_id))
                case RetractionFound(signal_id=named) | StoryCorroborated(signal_id=named):
                    of = (named,)
                case SignalSynthesized(signal=Signal(signal_id=looked)):
                    of = (looked,)
                case CaseDropped() | CaseFailed():
                    of = (signal_id(env.run_id, env.case_id),)
                case _:
                    return set()
            before = [last for key in of for last in self._before.get((key, revision - 1), ())]
            made = [signal for last in before if (signal := revised_by(last, event, env.time)) is not None]
        revised = (replace(signal, revision=revision, supersedes=revision - 1 or None) for signal in made)
        return {_digest(env.id, env.run_id, _compared(signal, claim.version)) for signal in revised}

    def _refuse(self, claims: tuple[_Claim, ...], why: str) -> None:
        for claim in claims:
            self._list(claim.partition, claim.offset, why)

    def _list(self, partition: int, offset: int, why: str) -> None:
        self.forged_count += 1
        if len(self.forged) < LISTED:
            shown = "".join(c if c.isprintable() else "?" for c in why)
            self.forged.append(FaultySignal(partition, offset, shown))


def _overstated(signal: Signal) -> str | None:
    """Return what a signal says beyond its verdict; None if it says no more."""
    if is_asked(signal.news_source):
        return "a claim that was submitted for verification must never be published"
    if signal.verdict is None:
        return "it has no verdict"
    if signal.confidence > CAPS[signal.verdict]:
        return f"{signal.verdict} with confidence {signal.confidence}, above {CAPS[signal.verdict]:.2f}"
    if signal.action != "observe" and signal.verdict not in ACTED_ON:
        return f"{signal.action} of what is {signal.verdict}"
    if signal.action != "observe" and signal.asset == NO_ASSET:
        return f"{signal.action} of no asset"
    return None


def _holds_more(value: bytes, version: int, encoded: bytes) -> bool:
    """Return whether a record holds more than the signal read from it: another key, or a key twice."""
    if version == SIGNAL_SCHEMA_VERSION:
        return len(value) > len(encoded)
    old = msgspec.json.decode(value)
    lifted = upcast(SIGNAL, version, SIGNAL_SCHEMA_VERSION, old)
    return len(value) > len(_encode(old)) or len(_encode(lifted)) > len(encoded)


def _compared(signal: Signal, version: int) -> bytes:
    """Return the compared content of a signal: all, except the verdict of a schema 1 withdrawal, which had none."""
    if version < VERDICTS_SINCE and signal.stage in WITHDRAWN:
        signal = replace(signal, verdict=None, unchecked_reason=None)
    return _encode(signal)


def _digest(cause_id: str, run_id: str, encoded: bytes) -> bytes:
    return hashlib.blake2b(f"{cause_id}\0{run_id}\0".encode() + encoded, digest_size=16).digest()
