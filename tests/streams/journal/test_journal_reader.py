"""The journal reader: a fold that begins anywhere judges as one that began at the start of the log."""

from __future__ import annotations

from typing import Any

import pytest
from aiokafka import TopicPartition
from aiokafka.errors import KafkaConnectionError
from hypothesis import given, settings
from hypothesis import strategies as st

from streams.journal.acceptance import TOMBSTONE_OFFSETS
from streams.journal.fold import JournalFold
from streams.journal.log import Log
from streams.journal.reader import JournalReader
from streams.journal.tombstones import Tombstones
from tests.streams.memory_log import MemoryLog
from tests.streams.records import DROPPED, TRIAGED, after, opening

TOPIC = "newsproof.cases"
KINDS = st.lists(
    st.sampled_from(["open", "triage", "end", "again", "stray", "foreign", "marker"]), min_size=1, max_size=40
)


def journal(kinds: list[str]) -> MemoryLog:
    """One partition as runtimes, zombies and strangers leave it: cases that open, move on and end, records that come again."""
    log = MemoryLog({TOPIC: 1})
    written: list[tuple[bytes, Any]] = []
    heads: dict[str, str] = {}
    for number, kind in enumerate(kinds):
        if kind == "open":
            case, head, value, headers = opening(number)
            heads[case] = head
            written.append((value, headers))
        elif kind in ("triage", "end") and heads:
            case = sorted(heads)[number % len(heads)]
            head, value, headers = after(case, heads[case], TRIAGED if kind == "triage" else DROPPED)
            heads[case] = head
            written.append((value, headers))
        elif kind == "stray" and heads:
            case = sorted(heads)[number % len(heads)]
            written.append(after(case, "no-head-of-this-case", TRIAGED)[1:])
        elif kind == "foreign":
            written.append((b"{}", [("ce_type", b"newsproof.case_triaged")]))
        elif kind == "marker":
            log.skip(TOPIC, 0)
            continue
        if written:
            value, headers = written[number % len(written)] if kind == "again" else written[-1]
            log.append(TOPIC, 0, value=value, headers=headers)
    return log


async def judged(log: Log, start: int | None = None) -> dict[int, bool]:
    reader = JournalReader(log, TOPIC)
    tp = TopicPartition(TOPIC, 0)
    folds = await reader.begin(None if start is None else {tp: start})
    found: dict[int, bool] = {}
    async for of, records in reader.replay(folds):
        found |= {record.offset: folds[of].judge(record)[1] for record in records}
    return found


def watermarks(log: MemoryLog, records: list[Any]) -> dict[int, int]:
    """Offset read up to → the watermark there: where a reader that was stopped at it begins again."""
    fold = JournalFold(partitions=1)
    found = {0: 0}
    for record in records:
        fold.judge(record)
        found[fold.position] = fold.accepted.watermark
    return found


@settings(max_examples=100)
@given(kinds=KINDS)
async def test_from_every_watermark_the_same_records_are_accepted(kinds: list[str]) -> None:
    log = journal(kinds)
    whole = await judged(log)
    records = [r async for _, rs in log.replay(await log.bounds(TOPIC)) for r in rs]
    for read_to, watermark in watermarks(log, records).items():
        again = await judged(log, watermark)
        assert {o: yes for o, yes in again.items() if o >= read_to} == {
            o: yes for o, yes in whole.items() if o >= read_to
        }


async def test_a_reader_without_the_tombstones_would_open_an_ended_case_again() -> None:
    # What the reader is for: shows that the test above can fail.
    log = journal(["open", "end", "again"])
    records = [r async for _, rs in log.replay(await log.bounds(TOPIC)) for r in rs]
    log.append(TOPIC, 0, value=records[0].value, headers=records[0].headers)
    (last,) = [r async for _, rs in log.replay({TopicPartition(TOPIC, 0): (3, 4)}) for r in rs]
    assert JournalFold(3, partitions=1).judge(last)[1], "the fold alone does not know that the case was there"
    assert await judged(log, 3) == {3: False}


async def test_tombstones_of_a_process_are_read_once_for_all_its_readers() -> None:
    log = journal(["open", "end"] * 10)
    shared = Tombstones(log)
    tp = TopicPartition(TOPIC, 0)
    end = (await log.bounds(TOPIC))[tp][1]
    assert end < TOMBSTONE_OFFSETS
    await JournalReader(log, TOPIC, shared).begin({tp: end})
    log.append(TOPIC, 0, value=b"{}")
    log.break_after(1)  # enough for what is new, not for the stretch
    fold = (await JournalReader(log, TOPIC, shared).begin({tp: end + 1}))[tp]
    assert len(dict(fold.accepted.tombstones())) == 10


async def test_a_log_that_breaks_while_a_reader_begins_is_told_and_the_next_try_is_whole() -> None:
    log = journal(["open", "end"] * 5)
    reader = JournalReader(log, TOPIC)
    tp = TopicPartition(TOPIC, 0)
    log.break_after(3)
    with pytest.raises(KafkaConnectionError):
        await reader.begin({tp: 10})
    log.break_after(None)
    assert len(dict((await reader.begin({tp: 10}))[tp].accepted.tombstones())) == 5
