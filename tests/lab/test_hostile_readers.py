"""Every reader of a journal judges every record alike, whatever stands in it; and none raises anything but a contract error."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import streams.journal.acceptance
from agents.core.case import Case
from agents.graphs import NEWS
from infra.kafka.topics import KafkaAddress
from lab.hostile.generator import Generator
from lab.hostile.record import HostileRecord
from schemas import envelope as wire
from schemas.budget import decode as decode_budget
from schemas.config import decode_snapshot
from schemas.envelope import read_publication, read_signal
from schemas.errors import ContractError
from schemas.ids import LIVE_RUN
from schemas.news import decode_news
from schemas.topics import Topics
from streams.effects.spending import UnlimitedBudget
from streams.ending import Ending
from streams.journal.acceptance import AcceptedEvents
from streams.journal.clock import utc_now
from streams.journal.configs import ConfigStore
from streams.journal.fold import JournalFold, parse_record, run_of
from streams.journal.log import KafkaLog
from streams.journal.tombstones import Tombstones, marks_of
from streams.runtime.partition import Partition, Partitions
from streams.runtime.projector import Projector
from streams.sink.journal import Progress, SinkJournal
from tests.plain_graph import plain_registry
from tests.streams.records import TRIAGED, after, opening

PARTITIONS = 2
NUMBERS = st.lists(st.integers(0, 10**9), min_size=1, max_size=60)


class Heard:
    """A listener that remembers what it was told."""

    def __init__(self) -> None:
        self.folded: list[str] = []
        self.poison: list[int] = []

    def on_folded(self, partition: int, case: Case) -> None:
        self.folded.append(case.head_id)

    def on_closed(self, partition: int, case: Case) -> None:
        self.folded.append(case.head_id)

    def on_live(self, partition: int) -> None: ...

    def on_poison(self, record: Any, case: Case | None, reason: str, why: str) -> None:
        self.poison.append(record.offset)


def as_read(record: HostileRecord, partition: int, offset: int) -> Any:
    """The record as a consumer hands it on."""
    names = ((k.decode("utf-8", "backslashreplace") if isinstance(k, bytes) else k, v) for k, v in record.headers)
    return SimpleNamespace(
        topic=f"newsproof.{record.topic}", partition=partition, offset=offset, key=record.key, value=record.value,
        headers=tuple(names), timestamp=1_790_000_000_000 + offset,
    )  # fmt: skip


def hostile_journal(numbers: list[int]) -> list[Any]:
    """One partition: honest cases, and hostile records between their events."""
    generator = Generator(numbers[0], partitions=PARTITIONS, config_hash="0" * 32)
    records: list[Any] = []

    def add(value: bytes | None, headers: Any, key: bytes | None = b"k") -> None:
        at = len(records)
        records.append(
            SimpleNamespace(
                topic="newsproof.cases", partition=0, offset=at, key=key, value=value, headers=tuple(headers),
                timestamp=1_790_000_000_000 + at,
            )
        )  # fmt: skip

    for position, number in enumerate(numbers):
        hostile = generator.journal.record(Random(number), f"m{number}")
        records.append(as_read(hostile, 0, len(records)))
        case, opened, value, headers = opening(number % 7 + position)
        generator.journal.victims.append(case)
        add(value, headers)
        _, more, more_headers = after(case, opened, TRIAGED)
        add(more, more_headers)
    return records


def of_following(records: list[Any]) -> Iterator[tuple[int, str]]:
    part = JournalFold(partitions=PARTITIONS)
    for env, record in part.accept(records):
        yield record.offset, env.id


@settings(max_examples=60)
@given(numbers=NUMBERS)
def test_following_the_sink_and_the_projector_accept_the_same_records(numbers: list[int]) -> None:
    records = hostile_journal(numbers)
    expected = list(of_following(records))
    sink = SinkJournal(JournalFold(partitions=PARTITIONS), plain_registry(asks=False), Progress())
    sink.rows(records)
    assert sink.fold.accepted.accepted == len(expected)

    projector, heard = folding(records)
    assert projector.folded == len(expected)
    p = projector.partitions[0]
    assert p.accepted.open.keys() == sink.fold.accepted.open.keys()
    assert {c: o.head_id for c, o in p.accepted.open.items()} == {
        c: o.head_id for c, o in sink.fold.accepted.open.items()
    }
    unreadable = [r.offset for r in records if not is_readable(r)]
    assert [offset for offset in heard.poison if offset in set(unreadable)] == unreadable, "each is a dead letter"


def folding(records: list[Any]) -> tuple[Projector, Heard]:
    heard = Heard()
    address, ending = KafkaAddress(bootstrap="-"), Ending()
    configs: Any = SimpleNamespace(get=lambda _hash: None, subscribe=lambda _on_new: None)
    projector = Projector(
        address, "newsproof.cases", "g", NEWS, configs, heard,
        Partitions(), Tombstones(KafkaLog(address)), UnlimitedBudget(), ending,
    )  # fmt: skip
    projector._unpinned = SimpleNamespace(add=lambda *_: None)  # type: ignore[assignment]
    projector._count = PARTITIONS
    p = projector.partitions.setdefault(0, Partition())
    p.live = p.loaded = True
    p.waiting = None
    for record in records:
        projector.on_record(record)
    assert not ending.over
    return projector, heard


def is_readable(record: Any) -> bool:
    try:
        parse_record(record, PARTITIONS)
    except ContractError:
        return False
    return True


@settings(max_examples=60)
@given(numbers=NUMBERS, data=st.data())
def test_a_reader_that_starts_later_remembers_the_same_tombstones(numbers: list[int], data: st.DataObject) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(streams.journal.acceptance, "TOMBSTONE_OFFSETS", 10_000)
        records = hostile_journal(numbers)
        whole = JournalFold(partitions=PARTITIONS)
        list(whole.accept(records))
        start = data.draw(st.integers(0, len(records)), label="start")
        late = AcceptedEvents(start)
        for offset, case in marks_of(records[:start], PARTITIONS):
            late.remember(offset, case)
        from_start = JournalFold(partitions=PARTITIONS)
        list(from_start.accept(records[:start]))
        assert dict(late.tombstones()) == dict(from_start.accepted.tombstones())


@settings(max_examples=300)
@given(number=st.integers(0, 10**12))
def test_no_reader_raises_anything_but_a_contract_error(number: int) -> None:
    record = Generator(number, partitions=PARTITIONS, config_hash="0" * 32).record(number)
    read = as_read(record, 0, 1)
    for reader in READERS:
        try:
            reader(read)
        except ContractError as exc:
            assert exc.reason and 10 < len(str(exc)) < 2000


READERS: tuple[Any, ...] = (
    lambda r: decode_news(r.value, now=utc_now()),
    lambda r: parse_record(r, PARTITIONS),
    lambda r: wire.decode("newsproof.step_failed", 1, r.value),
    lambda r: wire.decode("newsproof.event_received", 1, r.value),
    lambda r: decode_snapshot(r.key, r.value),
    lambda r: decode_budget(r.value),
    read_publication,
    read_signal,
)

HEADER = st.sampled_from(
    ["ce_id", "ce_type", "ce_time", "ce_subject", "ce_runid", "ce_schemaversion", "ce_causationid", "np_revision"]
) | st.text(max_size=5)


@settings(max_examples=300)
@given(
    headers=st.lists(st.tuples(HEADER, st.none() | st.binary(max_size=40)), max_size=12),
    value=st.none() | st.binary(max_size=60),
)
def test_no_bytes_in_headers_or_value_raise_anything_but_a_contract_error(headers: Any, value: bytes | None) -> None:
    record = SimpleNamespace(
        topic="newsproof.cases", partition=0, offset=0, key=value, value=value, headers=tuple(headers), timestamp=0
    )
    for reader in READERS:
        try:
            reader(record)
        except ContractError:
            continue


def test_the_store_of_snapshots_uses_none_whose_key_is_not_its_hash() -> None:
    generator = Generator(3, partitions=PARTITIONS, config_hash="0" * 32)
    store = ConfigStore.__new__(ConfigStore)
    store._known, store.ignored = {}, 0
    store._heeding = [lambda _hash: pytest.fail("a foreign snapshot was announced")]
    of_configs = [r for n in range(2000) if (r := generator.record(n)).topic == "configs"]
    for record in of_configs:
        store._take(as_read(record, 0, 0))
    assert store._known == {}
    assert store.ignored == sum(r.value is not None for r in of_configs)


def test_the_topics_of_runs_hold_their_own_run() -> None:
    assert run_of(Topics("t.").cases) == LIVE_RUN
    assert run_of("t.runs.backtest-7") == "backtest-7"
