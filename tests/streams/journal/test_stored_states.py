"""States on the worker's disk: a start folds what is new, and throws away whatever it could be wrong about."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from aiokafka import TopicPartition

from streams.journal import stored_states
from streams.journal.stored_states import StateAt, StoredStates
from tests.streams.memory_log import MemoryLog

TOPIC, FILE = "numbers", "numbers.sqlite"
TPS = [TopicPartition(TOPIC, n) for n in range(2)]
Numbers = dict[TopicPartition, list[bytes]]


def a_log(count: int = 6, *, first: int = 0) -> MemoryLog:
    log = MemoryLog({TOPIC: 2})
    for n in range(first, first + count):
        log.append(TOPIC, n % 2, value=b"%d" % n)
        log.skip(TOPIC, n % 2)
    return log


@contextmanager
def stored(directory: Path) -> Iterator[StoredStates[list[bytes]]]:
    states = StoredStates(directory, FILE, TOPIC, list[bytes], __file__)
    try:
        yield states
    finally:
        states.close()


async def folded(log: MemoryLog, states: StoredStates[list[bytes]]) -> tuple[Numbers, int]:
    """Fold what is new, and store the state after each record; return all values, and the number of records read."""
    bounds, known, read = await log.bounds(TOPIC), await states.load(log), 0
    found = {tp: list(known[tp].state) if tp in known else [] for tp in TPS}
    spans = {tp: (known[tp].position if tp in known else 0, end) for tp, (_, end) in bounds.items()}
    async for tp, records in log.replay(spans):
        for record in records:
            found[tp].append(record.value or b"")
            states.store({tp: StateAt(record.offset + 1, found[tp])}, {tp: record})
            assert states.reaches(tp, record.offset + 1) and not states.reaches(tp, record.offset + 2)
            read += 1
    return found, read


WHOLE = {tp: [b"%d" % n for n in range(tp.partition, 6, 2)] for tp in TPS}


async def test_a_second_start_reads_only_what_is_new(tmp_path: Path) -> None:
    with stored(tmp_path) as states:
        assert (await folded(a_log(4), states))[1] == 4
    with stored(tmp_path) as states:
        assert await folded(a_log(), states) == (WHOLE, 2)


async def test_what_another_rule_or_another_log_made_is_thrown_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for log in (a_log(first=100), a_log()):
        with stored(tmp_path) as states:
            found, read = await folded(log, states)
    assert (found, read) == (WHOLE, 6)
    monkeypatch.setattr(stored_states, "version_of", lambda *_: 7)
    with stored(tmp_path) as states:
        assert await folded(a_log(), states) == (WHOLE, 6)


@pytest.mark.parametrize(
    "damage", ["positions SET mark = x'00'", "positions SET position = position - 1", "states SET state = x'00'"]
)
async def test_what_is_not_as_it_was_written_is_thrown_away(tmp_path: Path, damage: str) -> None:
    with stored(tmp_path) as states:
        await folded(a_log(), states)
    with sqlite3.connect(tmp_path / FILE) as rows:
        rows.execute(f"UPDATE {damage}")
    rows.close()
    with stored(tmp_path) as states:
        assert await folded(a_log(), states) == (WHOLE, 6)
    with stored(tmp_path) as states:
        assert await folded(a_log(), states) == (WHOLE, 0), "and what is written then is kept"


async def test_a_file_that_was_overwritten_anywhere_is_thrown_away(tmp_path: Path) -> None:
    with stored(tmp_path / "whole") as states:
        await folded(a_log(), states)
    written = (tmp_path / "whole" / FILE).read_bytes()
    for at in range(0, len(written), 700):
        (directory := tmp_path / f"at-{at}").mkdir()
        (directory / FILE).write_bytes(written[:at] + b"\xff" * 300 + written[at + 300 :])
        with stored(directory) as states:
            assert (await folded(a_log(), states))[0] == WHOLE


async def test_a_process_that_is_killed_while_it_writes_leaves_states_that_fit_their_positions(tmp_path: Path) -> None:
    with stored(tmp_path / "whole") as left_open:
        await folded(a_log(), left_open)
        written = (tmp_path / "whole" / f"{FILE}-wal").read_bytes()
        for length in range(0, len(written), 1499):
            (cut := tmp_path / f"cut-{length}").mkdir()
            shutil.copy(tmp_path / "whole" / FILE, cut / FILE)
            (cut / f"{FILE}-wal").write_bytes(written[:length])
            with stored(cut) as states:
                assert (await folded(a_log(), states))[0] == WHOLE
