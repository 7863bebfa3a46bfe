"""The budget on the worker's disk: a start reads what is new, and throws away whatever it could be wrong about."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from aiokafka import TopicPartition

from schemas.budget import encode
from schemas.topics import Topics
from streams.budget import budget_store
from streams.budget.budget import BudgetLedger
from streams.budget.budget_store import FILE, BudgetStore
from streams.budget.reading import read_budget
from streams.budget.rule import BudgetState
from streams.effects.spending import Grant
from streams.ending import Ending
from streams.wake import Wake
from tests.builders import limits_of
from tests.streams.budget.test_budget import METERED, call, one
from tests.streams.budget.test_budget_rule import asked, paid
from tests.streams.memory_log import MemoryLog
from tests.streams.world import World

TOPIC = Topics().budget
TP = TopicPartition(TOPIC, 0)
RECORDS = [
    limits_of(),
    asked("a", "1", units=1),
    paid("a", "0.5"),
    asked("b", "2", units=2),
    asked("c"),
    paid("b", "3"),
]


def a_log(count: int = len(RECORDS), *, first_ms: int = 0) -> MemoryLog:
    log = MemoryLog({TOPIC: 1})
    for n, record in enumerate(RECORDS[:count]):
        log.append(TOPIC, 0, value=encode(record), timestamp=first_ms + n)
        log.skip(TOPIC, 0)
    return log


async def folded(log: MemoryLog, kept: BudgetStore) -> tuple[BudgetState, int]:
    """Read what is new, keep the state after each record, and return it with the number of records read."""
    span = (await log.bounds(TOPIC))[TP]
    state, position = await kept.load(log, span)
    read = 0
    async for _, records in log.replay({TP: (position, span[1])}):
        for record in records:
            state.fold(record.offset, record.timestamp, budget_store.budget.decode(record.value))
            kept.store(state, record)
            read += 1
    return state, read


async def whole() -> dict[str, Any]:
    state = BudgetState()
    async for _, records in a_log().replay({TP: (0, 100)}):
        for record in records:
            state.fold(record.offset, record.timestamp, budget_store.budget.decode(record.value))
    return vars(state)


async def test_a_second_start_reads_only_what_is_new(tmp_path: Path) -> None:
    kept = BudgetStore(tmp_path, TP)
    assert (await folded(a_log(4), kept))[1] == 4
    kept.close()
    state, read = await folded(a_log(), BudgetStore(tmp_path, TP))
    assert (vars(state), read) == (await whole(), 2)


async def test_a_state_of_another_rule_is_thrown_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = BudgetStore(tmp_path, TP)
    await folded(a_log(), kept)
    kept.close()
    monkeypatch.setattr(budget_store, "version_of", lambda *_: 7)
    state, read = await folded(a_log(), BudgetStore(tmp_path, TP))
    assert (vars(state), read) == (await whole(), len(RECORDS))


async def test_the_state_of_another_log_is_thrown_away(tmp_path: Path) -> None:
    kept = BudgetStore(tmp_path, TP)
    await folded(a_log(first_ms=5), kept)
    kept.close()
    state, read = await folded(a_log(), BudgetStore(tmp_path, TP))
    assert (vars(state), read) == (await whole(), len(RECORDS))


@pytest.mark.parametrize(
    "damage", ["UPDATE budget SET state = CAST(state || x'00' AS BLOB)", "UPDATE positions SET position = 2"]
)
async def test_a_state_that_is_not_as_it_was_written_is_thrown_away(tmp_path: Path, damage: str) -> None:
    kept = BudgetStore(tmp_path, TP)
    await folded(a_log(), kept)
    kept.close()
    with sqlite3.connect(tmp_path / FILE) as rows:
        rows.execute(damage)
    rows.close()
    state, read = await folded(a_log(), again := BudgetStore(tmp_path, TP))
    assert (vars(state), read) == (await whole(), len(RECORDS))
    again.close()
    assert (await folded(a_log(), BudgetStore(tmp_path, TP)))[1] == 0, "and the next one is kept"


async def test_a_file_that_was_overwritten_anywhere_is_thrown_away(tmp_path: Path) -> None:
    kept = BudgetStore(tmp_path / "whole", TP)
    await folded(a_log(), kept)
    kept.close()
    written = (tmp_path / "whole" / FILE).read_bytes()
    for at in range(0, len(written), 700):
        directory = tmp_path / f"at-{at}"
        directory.mkdir()
        (directory / FILE).write_bytes(written[:at] + b"\xff" * 200 + written[at + 200 :])
        state, _ = await folded(a_log(), again := BudgetStore(directory, TP))
        assert vars(state) == await whole()
        again.close()


async def test_a_process_that_is_killed_while_it_writes_leaves_a_state_that_fits_its_position(tmp_path: Path) -> None:
    await folded(a_log(), BudgetStore(tmp_path / "whole", TP))  # left open, as a killed process leaves it
    written = (tmp_path / "whole" / f"{FILE}-wal").read_bytes()
    for length in range(0, len(written), 997):
        cut = tmp_path / f"cut-{length}"
        cut.mkdir()
        shutil.copy(tmp_path / "whole" / FILE, cut / FILE)
        (cut / f"{FILE}-wal").write_bytes(written[:length])
        state, _ = await folded(a_log(), again := BudgetStore(cut, TP))
        assert vars(state) == await whole()
        again.close()


async def test_a_worker_that_starts_again_knows_what_was_spent_and_reads_none_of_it(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[int] = []
    plain = BudgetLedger._fold

    def counted(self: BudgetLedger, record: Any) -> None:
        read.append(record.offset)
        plain(self, record)

    monkeypatch.setattr(BudgetLedger, "_fold", counted)

    def ledger() -> BudgetLedger:
        return BudgetLedger(world.address, world.topics, limits_of(units=3), Ending(), Wake(), directory=tmp_path)

    first = ledger()
    await first.start()
    grant = await one(first)
    assert isinstance(grant, Grant)
    first.settle(grant, call(grant.id, "0.0005"))
    await first.stop()
    read.clear()
    other = BudgetLedger(world.address, world.topics, limits_of(units=3), Ending(), Wake())  # of another worker
    await other.start()
    assert isinstance(await one(other, METERED), Grant)
    await other.stop()
    read.clear()
    second = ledger()
    await second.start()
    assert read in ([2, 3], [3]), "the settlement may have been read before the stop"
    assert vars(second.state) == vars(await read_budget(world.address, world.topics))
    await second.stop()
