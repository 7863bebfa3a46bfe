"""The claim index: earlier cases' claims, read from the journal, for a case that denies or corrects one.

It reads no topic of its own: the text index passes it every journal record. A query is answered once the journal was
read to its ends as of the query. Before that, news that was already on ``news`` gets a short time to be opened; after
it, opened claims that the query may be about get some time to be triaged. The answer counts those not triaged by then.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable, Collection
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import partial
from typing import Any, Protocol

import msgspec
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
from streams.intake.index_rows import RowAccess
from streams.journal.clock import append_ms
from streams.journal.fold import parse_record
from streams.journal.fold_store import FollowingFold, beside_the_loop

LIMIT = 40
"""Maximum number of claims in one answer, newest first: an answer is a record of the journal."""
HEAD = 600
"""Characters kept of a news text: the claim is at its beginning."""
MAX_HELD = 100_000
"""Maximum number of claims held on disk, the newest: about 2 KB each."""
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
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TAKEN_IN = """
INSERT INTO claims_taken_in VALUES (?, ?) ON CONFLICT (partition) DO UPDATE SET at = max(at, excluded.at)
"""
_OLDEST = "SELECT number, at_ms, (SELECT max(number) FROM claims) FROM claims ORDER BY number LIMIT 1"
_claim = msgspec.msgpack.Decoder(EarlierClaim).decode


class Journal(Protocol):
    """The reader of the journal, which passes its records on and reports how far it has read."""

    moved: RowAccess
    """Notified after every read. Every reader of the rows enters it."""
    rows: FollowingFold

    def subscribe(self, on_record: Callable[[Any], None]) -> None: ...

    async def read_to_the_ends(self) -> None: ...

    async def ends_of(self, topic: str) -> dict[int, tuple[int, int]]: ...


class ClaimIndex(Free, Port):
    """Answers ``FindConcerned``, free of charge, from the beginning of each news text of the window, and its triage."""

    provider = "journal"
    mode: ProviderMode = "live"

    def __init__(
        self, address: KafkaAddress, topics: Topics, journal: Journal, *, partitions: int, window_days: int = 30
    ) -> None:
        """Start empty. ``partitions``: the journal's count.

        The rows are limited by ``window_days``, counted from a case's opening, and by ``MAX_HELD``.
        """
        self._address, self._topics, self._partitions = address, topics, partitions
        self._window_ms = timedelta(days=window_days).total_seconds() * 1000
        self._journal, self._rows = journal, journal.rows
        journal.subscribe(self.on_record)

    def __len__(self) -> int:
        return int(self._rows.row("SELECT count(*) FROM claims")[0])

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
        async with journal.moved.alone():
            meant = await beside_the_loop(partial(self._meant, effect))
        await _until(journal, lambda: not self._untriaged(meant), TRIAGED_WITHIN_S)
        assets = {a.upper() for a in effect.assets}
        async with journal.moved:
            unread, claims = len(self._untriaged(meant)), self._triaged(meant)
        about = [claim for claim in claims if claim.asset.upper() in assets]
        newest = sorted(about, key=lambda c: (c.as_of, c.case_id), reverse=True)
        reply = ConcernedReply(claims=tuple(newest[:LIMIT]), unread=unread, left_off=len(newest[LIMIT:]))
        return Answer(reply=reply, cost_usd=Decimal(0))

    def _meant(self, effect: FindConcerned) -> str:
        """Return the numbers of the claims that may be meant, as JSON."""
        # Every match of a name holds it without its ending.
        stems = [fold_han(name.lower()).removesuffix("*") for name in effect.names]
        holds = " OR ".join(["instr(low, ?)", "instr(entity, ?)"] * len(stems)) or "0"
        asked = f"SELECT number, low, entity FROM claims WHERE as_of BETWEEN ? AND ? AND case_id != ? AND ({holds})"
        values = (
            in_us(effect.since),
            in_us(effect.as_of),
            effect.case_id,
            *(s for stem in stems for s in (stem, stem)),
        )
        names = words_regex(effect.names)
        rows = self._rows.rows.execute(asked, values)
        return json.dumps([number for number, low, entity in rows if names.search(low) or names.search(entity)])

    def _untriaged(self, meant: str) -> list[int]:
        asked = "SELECT number FROM claims WHERE number IN (SELECT value FROM json_each(?)) AND NOT triaged"
        return [number for (number,) in self._rows.rows.execute(asked, (meant,))]

    def _triaged(self, meant: str) -> list[EarlierClaim]:
        asked = "SELECT claim FROM claims WHERE number IN (SELECT value FROM json_each(?)) AND triaged"
        return [_claim(claim) for (claim,) in self._rows.rows.execute(asked, (meant,))]

    async def close(self) -> None:
        pass

    def on_record(self, record: Any) -> None:
        """Process one journal record, in log order; ignore foreign ones."""
        headers = dict(record.headers)
        kind, case = headers.get("ce_type"), (headers.get("ce_subject") or b"").decode("utf-8", "replace")
        if kind == _OPENING:
            self._open(record, case)
        elif kind == _DROPPED:  # nobody need wait for it, and it has no signal to be denied
            self._rows.write("DELETE FROM claims WHERE case_id = ?", case)
        elif kind in _TELLS:
            asked = "SELECT number, claim FROM claims WHERE case_id = ? AND NOT triaged"
            if (known := self._rows.row(asked, case)) is not None:
                self._triage(record, known[0], _claim(known[1]), ends=kind != _TRIAGED)

    # What is read

    def _open(self, record: Any, case: str) -> None:
        event = self._decoded(record)
        if not isinstance(event, EventReceived) or self._rows.row("SELECT 1 FROM claims WHERE case_id = ?", case):
            return
        at = append_ms(record)
        self._forget(at - self._window_ms)
        self._rows.write(_TAKEN_IN, event.news_partition, event.news_offset)
        if event.news.is_asked:
            return
        claim = EarlierClaim(
            case_id=case,
            asset="",
            event_type="other",
            language=event.language,
            text=event.news.text[:HEAD],
            as_of=event.news.as_of,
        )
        values = (case, at, in_us(claim.as_of), msgspec.msgpack.encode(claim), fold_han(claim.text).lower())
        self._rows.write("INSERT INTO claims (case_id, at_ms, as_of, claim, low) VALUES (?, ?, ?, ?, ?)", *values)

    def _triage(self, record: Any, number: int, claim: EarlierClaim, *, ends: bool) -> None:
        event = self._decoded(record)
        match event:
            case CaseTriaged(draft=draft):
                claim = replace(claim, asset=draft.asset, event_type=draft.event_type, entity=draft.entity)
            case SignalSynthesized(signal=signal):  # of a case that degraded before it was triaged
                claim = replace(claim, asset=signal.asset, event_type=signal.event_type)
            case _:
                if not ends:
                    return
        # One that ended in another way has no asset, so it matches none.
        values = (msgspec.msgpack.encode(claim), fold_han(claim.entity or "").lower(), number)
        self._rows.write("UPDATE claims SET triaged = 1, claim = ?, entity = ? WHERE number = ?", *values)

    def _forget(self, before_ms: float) -> None:
        while (oldest := self._rows.row(_OLDEST)) is not None:
            number, at_ms, newest = oldest
            if at_ms >= before_ms and newest - number + 1 < MAX_HELD:
                return
            self._rows.write("DELETE FROM claims WHERE number = ?", number)

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
        asked = "SELECT at FROM claims_taken_in WHERE partition = ?"

        async def taken_in(number: int) -> int:
            async with journal.moved:
                return int((self._rows.row(asked, number) or (-1,))[0])

        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(TAKEN_IN_WITHIN_S):
                while left := {n for n in left if await taken_in(n) < ends[n][1] - 1}:
                    # The last one may have opened no case; intake has processed whatever it has committed.
                    left -= await self._committed(ends, left)
                    if not left:
                        return
                    await _until(journal, lambda: False, _LOOK_AGAIN_S)

    async def _committed(self, ends: dict[int, tuple[int, int]], wanted: Collection[int]) -> set[int]:
        known = await committed_by(self._address, self._topics.group("worker"))
        done = {tp.partition: c.offset for tp, c in known.items() if tp.topic == self._topics.news}
        return {n for n in wanted if done.get(n, -1) >= ends[n][1]}


def in_us(at: datetime) -> int:
    """Return a time in microseconds since 1970."""
    return (at - _EPOCH) // timedelta(microseconds=1)


async def _until(journal: Journal, ready: Callable[[], bool], within_s: float) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(within_s), journal.moved:
            while not ready():
                await journal.moved.wait()
