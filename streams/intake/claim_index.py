"""The claim index: earlier cases' claims, read from the journal, for a case that denies or corrects one.

It reads no topic of its own: the text index passes it every journal record. A query is answered once the journal was
read to its ends as of the query. Before that, news that was already on ``news`` gets a short time to be opened; after
it, opened claims that the query may be about get some time to be triaged. The answer counts those not triaged by then.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections import deque
from collections.abc import Callable, Collection
from datetime import timedelta
from decimal import Decimal
from typing import Any, Protocol

from aiokafka.errors import KafkaError
from msgspec.structs import replace

from agents.text.matching import fold_han, words_regex
from infra.kafka.topics import KafkaAddress, committed_by
from infra.ports import Answer, Free, Port
from schemas import envelope as wire
from schemas.calls import ProviderMode
from schemas.effects import ConcernedReply, EarlierClaim, FindConcerned
from schemas.errors import ContractError, TransientError
from schemas.events import (
    OPENING_NAME,
    TERMINAL_NAMES,
    WIRE_NAMES,
    CaseDropped,
    CaseTriaged,
    EventReceived,
    SignalSynthesized,
)
from schemas.topics import Topics
from streams.journal.clock import append_ms
from streams.journal.fold import parse_record

LIMIT = 40
"""Maximum number of claims in one answer, newest first: an answer is a record of the journal."""
HEAD = 600
"""Characters kept of a news text: the claim is at its beginning."""
MAX_HELD = 100_000
"""Maximum number of claims held, the newest: about 2 KB each."""
READ_WITHIN_S = 5.0
TAKEN_IN_WITHIN_S = 5.0
"""Timeout for opening the news that was on its topic before the query; while intake waits for room, it may take longer.
"""
TRIAGED_WITHIN_S = 20.0
"""A triage takes a model a second or two; a failed one is retried within this time."""
_LOOK_AGAIN_S = 0.25
_OPENING, _TRIAGED = OPENING_NAME.encode(), WIRE_NAMES[CaseTriaged].encode()
_DROPPED = WIRE_NAMES[CaseDropped].encode()
_TELLS = frozenset(name.encode() for name in TERMINAL_NAMES) | {_TRIAGED}


class Journal(Protocol):
    """The reader of the journal, which passes its records on and reports how far it has read."""

    moved: asyncio.Condition

    def subscribe(self, on_record: Callable[[Any], None]) -> None: ...

    async def read_to_the_ends(self) -> None: ...

    async def ends_of(self, topic: str) -> dict[int, tuple[int, int]]: ...


class _Opened:
    __slots__ = ("at_ms", "claim", "low", "triaged")

    def __init__(self, claim: EarlierClaim, at_ms: float) -> None:
        self.claim, self.at_ms, self.triaged = claim, at_ms, False
        self.low = fold_han(claim.text).lower()

    def may_be_meant(self, effect: FindConcerned, names: re.Pattern[str]) -> bool:
        claim = self.claim
        if claim.case_id == effect.case_id or not effect.since <= claim.as_of <= effect.as_of:
            return False
        return names.search(self.low) is not None or names.search(fold_han(claim.entity or "").lower()) is not None


class ClaimIndex(Free, Port):
    """Answers ``FindConcerned``, free of charge.

    Holds the beginning of each news text of the window, and its triage.
    """

    provider = "journal"
    mode: ProviderMode = "live"

    def __init__(
        self, address: KafkaAddress, topics: Topics, journal: Journal, *, partitions: int, window_days: int = 30
    ) -> None:
        """Start empty. ``partitions``: the journal's count.

        Memory is limited by ``window_days``, counted from a case's opening, and by ``MAX_HELD``.
        """
        self._address, self._topics, self._partitions = address, topics, partitions
        self._window_ms = timedelta(days=window_days).total_seconds() * 1000
        self._opened: dict[str, _Opened] = {}
        self._by_age: deque[tuple[float, str]] = deque()
        self._taken_in: dict[int, int] = {}
        self._journal = journal
        journal.subscribe(self.on_record)

    def __len__(self) -> int:
        return len(self._opened)

    async def perform(self, effect: FindConcerned) -> Answer:
        """Return the earlier claims that contain one of the names and concern one of the assets, newest first.

        Raises:
            TransientError: the journal could not be read in time.
        """
        journal = self._journal
        try:
            await self._until_taken_in(journal)
            async with asyncio.timeout(READ_WITHIN_S):
                await journal.read_to_the_ends()
        except (TimeoutError, KafkaError) as exc:
            raise TransientError(
                f"the journal was not read in time for earlier claims ({exc!r}): check the broker", kind="timeout"
            ) from exc
        names = words_regex(effect.names)
        meant = [o for o in list(self._opened.values()) if o.may_be_meant(effect, names)]
        await _until(journal, lambda: all(o.triaged for o in meant), TRIAGED_WITHIN_S)
        assets = {a.upper() for a in effect.assets}
        about = [o.claim for o in meant if o.triaged and o.claim.asset.upper() in assets]
        newest = sorted(about, key=lambda c: (c.as_of, c.case_id), reverse=True)
        unread = sum(not o.triaged for o in meant)
        reply = ConcernedReply(claims=tuple(newest[:LIMIT]), unread=unread, left_off=len(newest[LIMIT:]))
        return Answer(reply=reply, cost_usd=Decimal(0))

    async def close(self) -> None:
        pass

    def on_record(self, record: Any) -> None:
        """Process one journal record, in log order; ignore foreign ones."""
        headers = dict(record.headers)
        kind, case = headers.get("ce_type"), (headers.get("ce_subject") or b"").decode("utf-8", "replace")
        if kind == _OPENING:
            self._open(record, case)
        elif kind == _DROPPED and (known := self._opened.pop(case, None)) is not None:
            known.triaged = True  # nobody need wait for it, and it has no signal to be denied
        elif kind in _TELLS and (known := self._opened.get(case)) is not None and not known.triaged:
            self._triage(record, known, ends=kind != _TRIAGED)

    # What is read

    def _open(self, record: Any, case: str) -> None:
        event = self._decoded(record)
        if not isinstance(event, EventReceived) or case in self._opened:
            return
        at = append_ms(record)
        self._forget(at - self._window_ms)
        self._taken_in[event.news_partition] = max(self._taken_in.get(event.news_partition, -1), event.news_offset)
        claim = EarlierClaim(
            case_id=case,
            asset="",
            event_type="other",
            language=event.language,
            text=event.news.text[:HEAD],
            as_of=event.news.as_of,
        )
        self._opened[case] = _Opened(claim, at)
        self._by_age.append((at, case))

    def _triage(self, record: Any, known: _Opened, *, ends: bool) -> None:
        event = self._decoded(record)
        match event:
            case CaseTriaged(draft=draft):
                known.claim = replace(known.claim, asset=draft.asset, event_type=draft.event_type, entity=draft.entity)
            case SignalSynthesized(signal=signal):  # of a case that degraded before it was triaged
                known.claim = replace(known.claim, asset=signal.asset, event_type=signal.event_type)
            case _:
                if not ends:
                    return
        known.triaged = True  # one that ended in another way has no asset, so it matches none

    def _forget(self, before_ms: float) -> None:
        while self._by_age and (self._by_age[0][0] < before_ms or len(self._by_age) >= MAX_HELD):
            self._opened.pop(self._by_age.popleft()[1], None)

    def _decoded(self, record: Any) -> Any:
        try:
            env = parse_record(record, self._partitions)
            return wire.decode(env.type, env.version, record.value)
        except ContractError:
            return None

    # What is waited for

    async def _until_taken_in(self, journal: Journal) -> None:
        ends = await journal.ends_of(self._topics.news)
        left = {n for n, (first, end) in ends.items() if first < end}
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(TAKEN_IN_WITHIN_S):
                while left := {n for n in left if self._taken_in.get(n, -1) < ends[n][1] - 1}:
                    # The last one may have opened no case; intake has processed whatever it has committed.
                    left -= await self._committed(ends, left)
                    if not left:
                        return
                    await _until(journal, lambda: False, _LOOK_AGAIN_S)

    async def _committed(self, ends: dict[int, tuple[int, int]], wanted: Collection[int]) -> set[int]:
        known = await committed_by(self._address, self._topics.group("worker"))
        done = {tp.partition: c.offset for tp, c in known.items() if tp.topic == self._topics.news}
        return {n for n in wanted if done.get(n, -1) >= ends[n][1]}


async def _until(journal: Journal, ready: Callable[[], bool], within_s: float) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(within_s), journal.moved:
            while not ready():
                await journal.moved.wait()
