"""Own events are folded when their append is acknowledged: the state is the one that the stream alone leads to."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiokafka import TopicPartition

from agents.graphs import NEWS
from infra.kafka.topics import CommittedOffset, KafkaAddress
from schemas import events as ev
from schemas.topics import Topics
from streams.effects.spending import UnlimitedBudget
from streams.ending import Ending
from streams.journal.appender import OwnRecord
from streams.journal.configs import ConfigStore
from streams.journal.tombstones import Tombstones
from streams.runtime.partition import Partitions
from streams.runtime.projector import Projector
from tests.streams.memory_log import MemoryLog, MemoryRecord
from tests.streams.records import DROPPED, TRIAGED, after, opening
from tests.streams.world import QUICK

TOPICS = Topics("")
TP = TopicPartition(TOPICS.cases, 0)
NOWHERE = KafkaAddress(bootstrap="127.0.0.1:1")
GATHERED = ev.ContextGathered(entries=(), memory="no_match")


class Events:
    """What a projector tells of its cases, in order. Which are in quarantine it tells anew whenever it goes live."""

    def __init__(self) -> None:
        self.all: list[tuple[Any, ...]] = []
        self.lives = 0

    def on_folded(self, _partition: int, case: Any) -> None:
        self.all.append(("folded", case))

    def on_closed(self, _partition: int, case: Any) -> None:
        self.all.append(("closed", case))

    def on_poison(self, *_: Any) -> None: ...

    def on_live(self, _partition: int) -> None:
        self.lives += 1


class Reader:
    """A projector of the one partition, and the stream that feeds it: from the commit on, after each assignment."""

    def __init__(self, log: MemoryLog, configs: ConfigStore, monkeypatch: pytest.MonkeyPatch) -> None:
        self.log, self.told, self.partitions = log, Events(), Partitions()
        self.committed = self.at = 0
        self.projector = Projector(
            NOWHERE, TOPICS.cases, "", NEWS, configs, self.told, self.partitions, Tombstones(log), UnlimitedBudget(), Ending(),
            self.skip_to,
        )  # fmt: skip
        monkeypatch.setattr(self.projector, "_log", log)

    def skip_to(self, _partition: int, offset: int) -> None:
        self.at = max(self.at, offset)

    async def assign(self) -> None:
        self.projector.revoke()
        self.at = self.committed
        self.projector.assign({0}, _at_once)
        assert self.projector._loading is not None
        await self.projector._loading

    def deliver(self, most: int) -> None:
        for record in self.log._of[TP].between(self.at, self.at + most, committed=False):
            self.at = record.offset + 1
            self.projector.on_record(record)

    async def projector_rests(self) -> None:
        """Wait for gaps that are read again."""
        while fills := list(self.projector._fills):
            await asyncio.gather(*fills)

    def commit(self) -> None:
        self.committed = max(self.committed, self.projector.safe_offset(0) or 0)

    @property
    def state(self) -> dict[str, Any]:
        p = self.partitions[0]
        opened = {id: (c.first_offset, c.head_id, c.seq) for id, c in p.accepted.open.items()}
        ignored = {why: n for why, n in p.accepted.ignored.items() if why != "redelivered"}
        return {
            "position": p.accepted.position, "open": opened, "ignored": ignored, "cases": p.cases,
            "quarantined": sorted(p.quarantined), "tombstones": dict(p.accepted.tombstones()), "told": self.told.all,
        }  # fmt: skip


async def _at_once() -> None:
    await asyncio.sleep(0)


@asynccontextmanager
async def reader(
    log: MemoryLog, committed: dict[str, Reader], monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Reader]:
    configs = ConfigStore(NOWHERE, TOPICS)
    configs.put_local(QUICK)

    async def committed_by(*_: Any) -> dict[TopicPartition, CommittedOffset]:
        return {TP: CommittedOffset(committed["of"].committed, "")}

    monkeypatch.setattr("streams.runtime.projector.committed_by", committed_by)
    made = committed["of"] = Reader(log, configs, monkeypatch)
    await made.assign()
    yield made
    await made.projector.stop()
    await configs.stop()


class Writers:
    """A worker whose records are own, and others: a zombie that answers at the same heads, clients, forgers."""

    def __init__(self, chance: random.Random, log: MemoryLog) -> None:
        self.chance, self.log = chance, log
        self.heads: dict[str, list[str]] = {}
        self.unacknowledged: list[OwnRecord] = []

    def write(self) -> None:
        own, roll = self.chance.random() < 0.7, self.chance.random()
        if roll < 0.05:
            self._append(own=False, value=b"{", headers=[])
        elif roll < 0.08:
            self.log.skip(TOPICS.cases, 0)  # a foreign transaction's marker
        elif roll < 0.3 or not self.heads:
            case, head, value, headers = opening(self.chance.randrange(30))  # some are opened again
            self.heads.setdefault(case, [head])
            self._append(own=own, value=value, headers=headers)
        else:
            case = self.chance.choice(list(self.heads))
            known = self.heads[case]
            head = known[-1] if self.chance.random() < 0.8 else self.chance.choice(known)  # a late answer
            event = self.chance.choice([TRIAGED, GATHERED, TRIAGED, GATHERED, DROPPED])
            new, value, headers = after(case, head, event)
            if new not in known:
                known.append(new)
            self._append(own=own, value=value if self.chance.random() < 0.97 else b"{", headers=headers)

    def _append(self, *, own: bool, value: bytes, headers: list[tuple[str, bytes]]) -> None:
        offset = self.log.append(TOPICS.cases, 0, value=value, headers=headers)
        if own:
            self.unacknowledged.append(OwnRecord(TOPICS.cases, 0, offset, None, value, headers))


@pytest.mark.parametrize("seed", range(40))
async def test_own_events_lead_to_the_same_state_under_every_interleaving(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance, log = random.Random(seed), MemoryLog({TOPICS.cases: 1})
    writers = Writers(chance, log)
    async with reader(log, {}, monkeypatch) as both:
        sent: dict[int, object] = {}
        folded_at_once = 0
        for _ in range(300):
            match chance.choice(["write", "write", "write", "ack", "ack", "ack", "deliver", "deliver", "rest"]):
                case "write":
                    count = len(writers.unacknowledged)
                    writers.write()
                    if len(writers.unacknowledged) > count:
                        sent[writers.unacknowledged[-1].offset] = both.projector.turn
                case "ack" if writers.unacknowledged:
                    late = chance.random() < 0.1
                    record = writers.unacknowledged.pop(chance.randrange(len(writers.unacknowledged)) if late else 0)
                    before = both.partitions[0].accepted.position
                    if chance.random() < 0.95:  # else its task was cancelled
                        both.projector.on_appended(sent[record.offset], record)
                    folded_at_once += both.partitions[0].accepted.position > before
                case "deliver":
                    both.deliver(chance.randint(1, 12))
                    await both.projector_rests()
                case "rest":
                    both.commit()
                    if chance.random() < 0.1:
                        await both.assign()
        await _finish(both)
    async with reader(log, {}, monkeypatch) as alone:
        await _finish(alone)
    assert both.state == alone.state
    assert folded_at_once > 0, "some were folded before the stream brought them"


async def test_an_acknowledgement_from_before_a_rebalance_folds_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    log = MemoryLog({TOPICS.cases: 1})
    async with reader(log, {}, monkeypatch) as one:
        _, _, value, headers = opening(1)
        turn = one.projector.turn
        log.append(TOPICS.cases, 0, value=value, headers=headers)
        record = OwnRecord(TOPICS.cases, 0, 0, None, value, headers)
        one.projector.revoke()
        one.projector.on_appended(turn, record)
        await one.assign()
        one.projector.on_appended(turn, record)
        assert not one.told.all and one.partitions[0].accepted.position == 0
        one.deliver(1)
        assert [kind for kind, *_ in one.told.all] == ["folded"]


async def _finish(of: Reader) -> None:
    end = (await of.log.bounds(TOPICS.cases))[TP][1]
    records: list[MemoryRecord] = of.log._of[TP].records
    while of.partitions[0].accepted.position <= records[-1].offset:
        of.deliver(end)
        await of.projector_rests()
