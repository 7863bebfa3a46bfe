"""The fold store keeps rows and positions together, and nothing that is in doubt."""

from __future__ import annotations

import asyncio
import shutil
import threading
from pathlib import Path

import pytest
from aiokafka import TopicPartition

from schemas.errors import ConfigError
from streams.journal.fold_store import FILE, FoldStore, StoredFold, beside_the_loop
from tests.streams.memory_log import MemoryLog

TOPIC, TP = "numbers", TopicPartition("numbers", 0)
TABLES = "CREATE TABLE numbers (value BLOB PRIMARY KEY) WITHOUT ROWID"


def numbers(store: FoldStore, version: int = 1) -> StoredFold:
    return store.fold("numbers", version=version, tables=TABLES)


def a_log(count: int, *, first: int = 0) -> MemoryLog:
    log = MemoryLog({TOPIC: 1})
    for value in range(first, first + count):
        log.append(TOPIC, 0, value=b"%d" % value)
    return log


async def follow(fold: StoredFold, log: MemoryLog) -> int:
    """Fold what is new, each record in a transaction of its own; return how many records were read."""
    spans = await log.bounds(TOPIC)
    start = (await fold.begin(log, TOPIC, spans)).get(TP, spans[TP][0])
    read = 0
    async for _, records in log.replay({TP: (start, spans[TP][1])}):
        for record in records:
            with fold.store.writing() as rows:
                rows.execute("INSERT INTO numbers VALUES (?)", (record.value,))
                fold.reach(TP, record.offset + 1, record)
            read += 1
    return read


def values(fold: StoredFold) -> set[bytes]:
    return {value for (value,) in fold.rows.execute("SELECT value FROM numbers")}


async def test_a_second_start_reads_only_what_is_new(tmp_path: Path) -> None:
    log = a_log(5)
    store = FoldStore(tmp_path)
    assert await follow(numbers(store), log) == 5
    store.close()
    log.append(TOPIC, 0, value=b"5")
    fold = numbers(FoldStore(tmp_path))
    assert await follow(fold, log) == 1
    assert values(fold) == {b"%d" % n for n in range(6)}


async def test_another_log_or_a_shorter_one_throws_the_rows_away(tmp_path: Path) -> None:
    for log in (a_log(5), a_log(5, first=100), a_log(3, first=100)):
        fold = numbers(store := FoldStore(tmp_path))
        assert await follow(fold, log) == (await log.bounds(TOPIC))[TP][1]
        assert len(values(fold)) == (await log.bounds(TOPIC))[TP][1]
        store.close()


async def test_rows_of_an_older_rule_are_thrown_away(tmp_path: Path) -> None:
    log = a_log(5)
    await follow(numbers(store := FoldStore(tmp_path)), log)
    store.close()
    assert await follow(numbers(FoldStore(tmp_path), version=2), log) == 5


async def test_a_transaction_that_fails_leaves_rows_and_position_as_they_were(tmp_path: Path) -> None:
    log, fold = a_log(2), numbers(FoldStore(tmp_path))
    await follow(fold, log)
    with pytest.raises(RuntimeError), fold.store.writing() as rows:
        rows.execute("INSERT INTO numbers VALUES (x'00')")
        raise RuntimeError
    assert values(fold) == {b"0", b"1"}


async def test_a_write_that_was_cut_at_any_byte_leaves_rows_that_fit_their_position(tmp_path: Path) -> None:
    log = a_log(6)
    fold = numbers(FoldStore(tmp_path / "whole"))
    await follow(fold, log)  # left open, as a killed process leaves it
    written = (tmp_path / "whole" / f"{FILE}-wal").read_bytes()
    for length in range(0, len(written), 997):
        cut = tmp_path / f"cut-{length}"
        cut.mkdir()
        shutil.copy(tmp_path / "whole" / FILE, cut / FILE)
        (cut / f"{FILE}-wal").write_bytes(written[:length])
        again = numbers(store := FoldStore(cut))
        await follow(again, log)
        assert values(again) == {b"%d" % n for n in range(6)}
        store.close()


async def test_a_damaged_file_is_thrown_away(tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(b"no database" * 1000)
    assert await follow(numbers(FoldStore(tmp_path)), a_log(5)) == 5


def test_a_file_that_another_process_has_open_is_refused(tmp_path: Path) -> None:
    FoldStore(tmp_path)
    with pytest.raises(ConfigError, match="WORKER_SLOT"):
        FoldStore(tmp_path)


async def test_work_in_a_thread_is_waited_for_however_often_it_is_cancelled() -> None:
    may_end, ended = threading.Event(), threading.Event()

    def work() -> None:
        may_end.wait(10)
        ended.set()

    doing = asyncio.ensure_future(beside_the_loop(work))
    for _ in range(3):
        await asyncio.sleep(0)
        doing.cancel()
    await asyncio.wait([doing], timeout=0.01)
    assert not doing.done(), "the store would be closed while the thread uses it"
    may_end.set()
    with pytest.raises(asyncio.CancelledError):
        await doing
    assert ended.is_set()


async def test_an_error_of_the_work_is_raised() -> None:
    with pytest.raises(ZeroDivisionError):
        await beside_the_loop(lambda: 1 // 0)
