"""The rows of the indexes on the worker's disk: whatever was killed when, they are what the whole journal leads to."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from aiokafka import TopicPartition
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from schemas import events as ev
from schemas.calls import Call
from schemas.effects import EarlierReply
from schemas.signals import Story
from schemas.topics import Topics, partition_of
from streams.effects.search_cache import SearchCache
from streams.intake import claim_index, story_index
from streams.intake.claim_index import ClaimIndex
from streams.intake.index_rows import FILE
from streams.intake.story_index import StoryIndex
from streams.intake.text_index import TextIndex
from tests.newsproof.signal_samples import signal as sample
from tests.streams.memory_log import MemoryLog
from tests.streams.records import TRIAGED, after, opening

PARTITIONS = 2
TOPICS = Topics()
TABLES = ("texts", "reports", "tellings", "hooks", "rivals", "claims", "claims_taken_in", "searches")
HACK = Story(subject="halden bridge", predicate="hacked", side="claimed", amount=38e6, unit="usd")
AT = datetime(2026, 1, 1, tzinfo=UTC)

CORROBORATED = ev.StoryCorroborated(
    signal_id="s", of_case="", verdict="likely", amount=0.0, action="observe", direction="neutral", supporting_sources=2,
    independent_sources=2, reason="", evidence=(),
)  # fmt: skip


class Journal:
    """A journal of two partitions, its records in the order in which all of them were appended."""

    def __init__(self) -> None:
        self.log = MemoryLog({TOPICS.cases: PARTITIONS})
        self.records: list[tuple[TopicPartition, Any]] = []
        self.at_ms = round(AT.timestamp() * 1000)
        self._heads: dict[str, str] = {}

    @property
    def cases(self) -> list[str]:
        return list(self._heads)

    def open(self, number: int, text: str = "text", source: str = "wire") -> str:
        case, head, value, headers = opening(number, text=text, source=source)
        self._append(case, value, headers)
        self._heads[case] = head
        return case

    def go(self, case: str, event: ev.Event) -> None:
        self._heads[case], value, headers = after(case, self._heads[case], event)
        self._append(case, value, headers)

    def _append(self, case: str, value: Any, headers: Any) -> None:
        partition, tp = partition_of(case, PARTITIONS), TopicPartition(TOPICS.cases, partition_of(case, PARTITIONS))
        self.log.append(TOPICS.cases, partition, value=value, key=case.encode(), headers=headers, timestamp=self.at_ms)
        self.records.append((tp, self.log._of[tp].records[-1]))


@contextmanager
def indexes(directory: Path | None = None) -> Iterator[TextIndex]:
    """The indexes as a worker composes them, without a consumer."""
    texts = TextIndex(_NoBroker(), TOPICS, by_owner=True, directory=directory, searches=SearchCache(600))  # type: ignore[arg-type]
    texts._tps = [TopicPartition(TOPICS.cases, n) for n in range(PARTITIONS)]
    ClaimIndex(_NoBroker(), TOPICS, texts, partitions=PARTITIONS, window_days=2)  # type: ignore[arg-type]
    StoryIndex(texts, dict, partitions=PARTITIONS, window_hours=24.0)
    try:
        yield texts
    finally:
        texts.rows.store.close()


class _NoBroker:
    def consumer(self, **_: Any) -> Any:
        return None


async def take(texts: TextIndex, journal: Journal, upto: int | None = None) -> int:
    """Take in the first ``upto`` records as far as they are new, a batch each; return how many were."""
    read = await texts.rows.begin(journal.log, TOPICS.cases, await journal.log.bounds(TOPICS.cases))
    new = [(tp, record) for tp, record in journal.records[:upto] if record.offset >= read.get(tp, 0)]
    for tp, record in new:
        await texts._take_in({tp: [record]})
    return len(new)


async def test_nothing_is_written_while_a_thread_has_the_rows_to_itself() -> None:
    journal = Journal()
    journal.open(1)
    with indexes() as texts:
        async with texts.moved.alone():
            taking = asyncio.create_task(take(texts, journal))
            for _ in range(100):
                await asyncio.sleep(0)
            assert rows_of(texts)["texts"] == []
        await taking
        assert len(rows_of(texts)["texts"]) == 1


def rows_of(texts: TextIndex) -> dict[str, list[Any]]:
    return {name: texts.rows.rows.execute(f"SELECT * FROM {name} ORDER BY 1, 2").fetchall() for name in TABLES}


def events() -> st.SearchStrategy[Any]:
    """Events of a case, made of another case that they name."""
    reply = Call(
        kind="duplicate_check", provider="journal", mode="live", request_hash="asked", reply=EarlierReply(first_case=None),
        latency_ms=1.0, replied_at=AT, cost_usd=Decimal(0),
    )  # fmt: skip
    stories = st.builds(
        lambda subject, amount: replace(TRIAGED, route="story", then="deep", story=replace(HACK, subject=subject, amount=amount)),
        st.sampled_from(["halden bridge", "varda bridge"]), st.sampled_from([38e6, 39e6, 90e6]),
    )  # fmt: skip
    plain = [
        TRIAGED,
        ev.StoryChecked(route="deep"),
        ev.CaseFailed(reason="r", failed_step="search", attempts=3),
        ev.CaseDropped(reason="spam", detail=""),
        ev.EffectCompleted(step="triage", request_hash="asked", calls=(reply,)),
    ]
    verdicts = st.sampled_from(["likely", "confirmed", "unconfirmed", "refuted"])
    return st.one_of(
        stories.map(lambda event: lambda _: event),
        st.sampled_from(plain).map(lambda event: lambda _: event),
        st.just(lambda of: ev.CaseDropped(reason="same_story", detail="", duplicate_of=of)),
        verdicts.map(lambda verdict: lambda of: replace(CORROBORATED, of_case=of, verdict=verdict)),
        st.tuples(verdicts, st.booleans()).map(
            lambda told: (
                lambda of: ev.SignalSynthesized(
                    signal=replace(sample("s", verdict=told[0]), **({"case_id": of} if told[1] else {})), path="deep"
                )
            )
        ),
        st.one_of(st.none(), st.builds(ev.Rival, verdict=verdicts, own_page=st.booleans())).map(
            lambda rival: (
                lambda of: ev.RetractionFound(signal_id="s", of_case=of, kind="retracted", reason="denied", rival=rival)
            )
        ),
    )


@st.composite
def journals(draw: st.DrawFn) -> Journal:
    journal = Journal()
    for number in range(draw(st.integers(1, 25))):
        journal.at_ms += draw(st.sampled_from([0, 1000, 3_600_000 * 13]))
        if not journal.cases or draw(st.booleans()):
            text, source = (
                draw(st.sampled_from(["Walmart buys", "Kroger sells"])),
                draw(st.sampled_from(["one", "two"])),
            )
            journal.open(number, text=text, source=source)
        else:
            case, other = draw(st.sampled_from(journal.cases)), draw(st.sampled_from(journal.cases))
            journal.go(case, draw(events())(other))
        if draw(st.integers(0, 3)) == 0:
            journal.log.skip(TOPICS.cases, draw(st.integers(0, PARTITIONS - 1)))
    return journal


@settings(max_examples=30)
@given(journals(), st.data())
async def test_rows_and_tail_are_what_the_whole_journal_leads_to(journal: Journal, data: st.DataObject) -> None:
    with pytest.MonkeyPatch.context() as patch, TemporaryDirectory() as directory, indexes() as whole:
        for module in (claim_index, story_index):
            patch.setattr(module, "MAX_HELD", data.draw(st.sampled_from([3, 100_000])))
        await take(whole, journal)
        for upto in sorted(data.draw(st.lists(st.integers(0, len(journal.records)), max_size=3))):
            patch.setattr("streams.journal.fold_store.COMMIT_S", data.draw(st.sampled_from([0.0, 60.0])))
            with indexes(Path(directory)) as texts:
                await take(texts, journal, upto)
                if data.draw(st.booleans()):
                    texts.rows.close()  # in order; without it, killed
        with indexes(Path(directory)) as texts:
            await take(texts, journal)
            assert rows_of(texts) == rows_of(whole)


def a_journal(cases: int) -> Journal:
    journal = Journal()
    for number in range(cases):
        case = journal.open(number, text=f"text {number // 2}")
        journal.go(case, replace(TRIAGED, route="story", then="deep", story=HACK))
        journal.go(case, ev.StoryChecked(route="deep"))
    return journal


async def test_a_start_reads_only_what_is_new(tmp_path: Path) -> None:
    journal = a_journal(10)
    for new in (30, 0, 3):
        with indexes(tmp_path) as texts:
            if new == 3:
                journal.go(journal.open(99), TRIAGED)
                journal.go(journal.cases[-1], ev.StoryChecked(route="deep"))
            assert await take(texts, journal) == new
            texts.rows.close()


async def test_damaged_rows_are_thrown_away(tmp_path: Path) -> None:
    journal = a_journal(100)
    with indexes(tmp_path) as texts:
        await take(texts, journal)
        texts.rows.close()
    whole = (tmp_path / FILE).read_bytes()
    (tmp_path / FILE).write_bytes(whole[:4096] + b"\xff" * (len(whole) - 4096))
    with indexes(tmp_path) as texts:
        assert await take(texts, journal) == len(journal.records)
