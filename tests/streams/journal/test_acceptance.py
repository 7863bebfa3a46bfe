"""The rule of acceptance: examples of each clause, and any reader that starts at its watermark agrees with one from 0."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import streams.journal.acceptance
from schemas.events import EFFECT_NAME, OPENING_NAME
from streams.journal.acceptance import MARKING_NAMES, AcceptedEvents

PATH, END, COMMAND = "newsproof.case_triaged", "newsproof.case_dropped", "newsproof.cancel_requested"
Offered = tuple[str, str, str, str | None]


class Log:
    """A reader from 0 and the records that it was offered."""

    def __init__(self) -> None:
        self.reader = AcceptedEvents()
        self.records: list[Offered] = []

    def add(self, wire: str, case: str, event: str, cause: str | None) -> bool:
        self.records.append((wire, case, event, cause))
        return self.reader.offer(len(self.records) - 1, wire, case, event, cause)


@pytest.fixture
def log() -> Log:
    return Log()


def test_a_case_goes_from_head_to_head_and_closes(log: Log) -> None:
    assert log.add(OPENING_NAME, "c", "1", None)
    assert log.add(PATH, "c", "2", "1")
    assert log.reader.open["c"].head_id == "2" and log.reader.open["c"].seq == 2
    assert log.add(END, "c", "3", "2")
    assert not log.reader.open and dict(log.reader.tombstones()) == {"c": 2}


def test_the_first_of_two_successors_wins_and_the_zombies_is_passed_by(log: Log) -> None:
    log.add(OPENING_NAME, "c", "1", None)
    assert log.add(PATH, "c", "2", "1")
    assert not log.add(END, "c", "2", "1")
    assert log.reader.ignored == {"not_the_head": 1}


def test_an_opening_is_accepted_once_while_it_is_open_and_after_it_closed(log: Log) -> None:
    log.add(OPENING_NAME, "c", "1", None)
    assert not log.add(OPENING_NAME, "c", "1", None)
    log.add(END, "c", "2", "1")
    assert not log.add(OPENING_NAME, "c", "1", None)
    assert log.reader.ignored == {"opened_twice": 1, "opened_again": 1}


def test_an_effect_does_not_move_the_head_and_is_accepted_once(log: Log) -> None:
    log.add(OPENING_NAME, "c", "1", None)
    assert log.add(EFFECT_NAME, "c", "e1", "1")
    assert not log.add(EFFECT_NAME, "c", "e1", "1")
    assert log.add(EFFECT_NAME, "c", "e2", "1")
    assert log.reader.open["c"].head_id == "1"
    assert log.add(PATH, "c", "2", "1")
    assert not log.add(EFFECT_NAME, "c", "e3", "1")
    assert log.reader.ignored == {"effect_twice": 1, "effect_of_another_head": 1}


def test_a_command_is_accepted_once_at_any_head_and_moves_it(log: Log) -> None:
    log.add(OPENING_NAME, "c", "1", None)
    log.add(PATH, "c", "2", "1")
    assert log.add(COMMAND, "c", "stop", None)
    assert not log.add(PATH, "c", "3", "2")
    assert not log.add(COMMAND, "c", "stop", None)
    assert log.add(PATH, "c", "4", "stop")
    assert not log.add(COMMAND, "c", "stop", None), "not even at another head"


def test_events_of_a_case_that_is_not_open_are_passed_by(log: Log) -> None:
    assert not log.add(PATH, "c", "2", "1")
    assert not log.add(COMMAND, "c", "stop", None)
    assert not log.add(EFFECT_NAME, "c", "e", "1")
    assert not log.add(END, "c", "3", "2")
    assert log.reader.accepted == 0


def test_redelivered_offsets_are_passed_by(log: Log) -> None:
    log.add(OPENING_NAME, "c", "1", None)
    log.add(END, "c", "2", "1")
    assert not log.reader.offer(0, OPENING_NAME, "c", "1", None)
    assert log.reader.position == 2 and log.reader.ignored == {"redelivered": 1}


def test_the_watermark_is_the_oldest_open_case_or_the_position(log: Log) -> None:
    log.add(OPENING_NAME, "a", "a1", None)
    log.add(OPENING_NAME, "b", "b1", None)
    assert log.reader.watermark == 0
    log.add(END, "a", "a2", "a1")
    assert log.reader.watermark == 1
    log.add(END, "b", "b2", "b1")
    assert log.reader.watermark == log.reader.position == 4


def test_a_tombstone_holds_for_its_distance_in_offsets_and_no_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams.journal.acceptance, "TOMBSTONE_OFFSETS", 5)
    for distance, opens in ((5, False), (6, True)):
        reader = AcceptedEvents()
        reader.offer(0, OPENING_NAME, "c", "1", None)
        reader.offer(1, END, "c", "2", "1")
        assert reader.offer(1 + distance, OPENING_NAME, "c", "1", None) is opens


WINDOW = 12
"""Stands for the 50,000. A log is taken as far as its cases are open for less than that, as deadlines see to."""
CASES = st.sampled_from("abc")
STEPS = st.lists(
    st.tuples(st.sampled_from([OPENING_NAME, PATH, END, EFFECT_NAME, COMMAND]), CASES, st.integers(0, 9)), max_size=80
)


def records_of(steps: list[tuple[str, str, int]]) -> list[Offered]:
    """Records as honest workers, zombies and senders of things twice would write them, chosen by the numbers."""
    reader = AcceptedEvents()
    written: list[Offered] = []
    heads: dict[str, list[str]] = {}
    for wire, case, choice in steps:
        known = heads.setdefault(case, [f"{case}-open"])
        if written and choice == 9:
            record = written[len(steps) % len(written)]  # sent twice
        elif wire == OPENING_NAME:
            record = (wire, case, f"{case}-open", None)
        elif wire == COMMAND:
            record = (wire, case, f"{case}-command-{choice % 3}", None)
        else:
            head = known[-1] if choice < 7 else known[choice % len(known)]  # the others are a zombie's
            kind = f"effect-{choice % 2}" if wire == EFFECT_NAME else "next"
            record = (wire, case, f"{head}/{kind}", head)
        if reader.offer(len(written), *record) and record[0] != EFFECT_NAME:
            known.append(record[2])
        written.append(record)
    return written


@settings(max_examples=200, deadline=None)
@given(steps=STEPS, data=st.data())
def test_a_reader_that_starts_at_its_watermark_agrees_with_one_from_the_start(
    steps: list[tuple[str, str, int]], data: st.DataObject
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(streams.journal.acceptance, "TOMBSTONE_OFFSETS", WINDOW)
        records = records_of(steps)
        reader = AcceptedEvents()
        accepted, commits, open_then = [], [(0, 0)], [set[str]()]
        for offset, record in enumerate(records):
            accepted.append(reader.offer(offset, *record))
            commits.append((reader.watermark, reader.position))
            open_then.append(set(reader.open))
            if reader.position - reader.watermark >= WINDOW:
                records = records[: offset + 1]
                break
        start, committed_at = data.draw(st.sampled_from(commits), label="a committed watermark, and when")
        late = AcceptedEvents(start)
        for offset in range(max(0, start - WINDOW), start):
            if records[offset][0] in MARKING_NAMES:
                late.remember(offset, records[offset][1])
        again = [late.offer(offset, *records[offset]) for offset in range(start, len(records))]
        for offset in range(start, len(records)):
            # Between D and the commit, records of cases that were closed by the commit are of no concern any more.
            gone = offset < committed_at and records[offset][1] not in open_then[committed_at]
            assert again[offset - start] == accepted[offset] or (gone and not again[offset - start])
        assert {c: (o.head_id, o.first_offset) for c, o in late.open.items()} == {
            c: (o.head_id, o.first_offset) for c, o in reader.open.items()
        }
        assert (late.watermark, late.position) == (reader.watermark, reader.position)
        end = len(records)
        assert {c: o for c, o in late.tombstones() if late.is_remembered(c, end)} == {
            c: o for c, o in reader.tombstones() if reader.is_remembered(c, end)
        }


@settings(max_examples=200, deadline=None)
@given(steps=STEPS)
def test_no_head_has_two_accepted_successors_and_a_case_is_open_once(steps: list[tuple[str, str, int]]) -> None:
    reader = AcceptedEvents()
    succeeded: set[tuple[str, str]] = set()
    opened: set[str] = set()
    for offset, (wire, case, event, cause) in enumerate(records_of(steps)):
        if not reader.offer(offset, wire, case, event, cause):
            continue
        if wire == OPENING_NAME:
            assert case not in opened
            opened.add(case)
        elif wire != EFFECT_NAME and cause is not None:
            assert (case, cause) not in succeeded
            succeeded.add((case, cause))
