"""The index of opened news on the worker's disk: whatever was killed when, it holds what the whole log shows."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import pytest
from aiokafka import TopicPartition
from hypothesis import given, settings
from hypothesis import strategies as st

from infra.kafka.topics import CommittedOffset
from schemas.news import News
from schemas.topics import Topics
from streams.intake import opened_news
from streams.intake.opened_news import FILE, OpenedNews, OpenedNewsIndex
from streams.journal.clock import append_ms, utc_now
from tests.streams.memory_log import MemoryLog
from tests.streams.world import news

TOPICS = Topics()
TP = TopicPartition(TOPICS.news, 0)
SOURCES, TEXTS = range(3), range(4)


class Installation:
    """News, the group's committed offset, and indexes that read them."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.log, self.committed = MemoryLog({TOPICS.news: 1, TOPICS.cases: 1}), 0
        self.read = 0
        patch.setattr(opened_news, "KafkaLog", lambda _address: self)
        patch.setattr(opened_news, "committed_by", self._committed_by)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.log, name)

    async def replay(self, spans: Any, **more: Any) -> Any:
        async for tp, records in self.log.replay(spans, **more):
            self.read += len(records) if "batch" in more else 0
            yield tp, records

    async def _committed_by(self, *_: Any) -> dict[TopicPartition, CommittedOffset]:
        return {TP: CommittedOffset(self.committed, "")}

    def publish(self, source: int, text: int) -> None:
        value = msgspec.json.encode(news(source, text=f"text {text}"))
        self.log.append(TOPICS.news, 0, value=value, timestamp=round(utc_now().timestamp() * 1000))

    def index(self, directory: Path | None = None) -> OpenedNewsIndex:
        window = timedelta(days=30)
        return OpenedNewsIndex(
            None, TOPICS, "group", window=window, authenticate=lambda _news: False, directory=directory  # type: ignore[arg-type]
        )  # fmt: skip

    @property
    def records(self) -> list[Any]:
        return self.log._of[TP].records


def answers(opened: OpenedNews) -> list[Any]:
    items = [msgspec.convert(news(s, text=f"text {t}"), News) for s in SOURCES for t in TEXTS]
    return [(item.case_id in opened, opened.first_of(item.key.decode())) for item in items]


def take(opened: OpenedNews, record: Any) -> None:
    """Do what intake does with a record."""
    item = msgspec.json.decode(record.value, type=News)
    opened.add(item.key.decode(), item.case_id, append_ms(record), record.offset)
    opened.take(record)


@settings(max_examples=30)
@given(st.data())
async def test_whatever_is_killed_when_a_start_holds_what_the_committed_log_shows(data: st.DataObject) -> None:
    """Intake is ahead of its commits, and of its disk's; it is killed or ended anywhere, and another one commits meanwhile."""
    with pytest.MonkeyPatch.context() as patch, TemporaryDirectory() as directory:
        patch.setattr("streams.journal.fold_store.COMMIT_S", 0.0 if data.draw(st.booleans()) else 60.0)
        patch.setattr(opened_news, "_AT_ONCE", 2)
        at = Installation(patch)
        for _ in range(data.draw(st.integers(1, 4))):
            for _ in range(data.draw(st.integers(0, 6))):
                at.publish(data.draw(st.sampled_from(SOURCES)), data.draw(st.sampled_from(TEXTS)))
                if data.draw(st.booleans()):
                    at.log.skip(TOPICS.news, 0)
            end = (await at.log.bounds(TOPICS.news))[TP][1]
            at.committed = data.draw(st.integers(0, end))
            index = at.index(Path(directory))
            opened, first = await index.of(0)
            fresh = at.index()
            assert first == at.committed
            assert answers(opened) == answers((await fresh.of(0))[0])
            await fresh.close()
            until = data.draw(st.integers(first, end))
            for record in at.records:
                if first <= record.offset < until:
                    take(opened, record)
            if data.draw(st.booleans()):
                await index.close()
            else:  # a kill
                index._fold.store.close()


async def test_a_start_reads_only_what_is_new(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    at = Installation(monkeypatch)
    for text in range(5):
        at.publish(0, text)
    at.committed = 5
    for new in (5, 0):
        index = at.index(tmp_path)
        at.read = 0
        assert len((await index.of(0))[0]) == 5
        assert at.read == new
        await index.close()


async def test_damaged_rows_are_thrown_away_and_read_again_by_the_next_process(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    at = Installation(monkeypatch)
    for text in range(200):
        at.publish(0, text)
    at.committed = 200
    index = at.index(tmp_path)
    await index.of(0)
    await index.close()
    whole = (tmp_path / FILE).read_bytes()
    (tmp_path / FILE).write_bytes(whole[:4096] + b"\xff" * (len(whole) - 4096))
    for _ in range(2):
        index = at.index(tmp_path)
        try:
            opened, _ = await index.of(0)
            break
        except Exception as exc:
            index.reset_if_damaged(exc)
            index._fold.store.close()
    assert len(opened) == 200


async def test_what_intake_asks_of_each_item_costs_no_more_for_many_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """In instructions of SQLite's machine: once, the first case of an id was looked for in all rows of the partition."""
    installation = Installation(monkeypatch)
    opened, _ = await installation.index().of(0)

    def instructions() -> int:
        ran = 0

        def count() -> int:
            nonlocal ran
            ran += 1
            return 0

        opened._fold.rows.set_progress_handler(count, 1)
        assert opened.first_of("wire:new") is None and "no case" not in opened
        opened.forget_before(0.0)
        opened._fold.rows.set_progress_handler(None, 1)
        return ran

    opened.add("wire:0", "case 0", 1.0, 0)
    one = instructions()
    for number in range(1, 500):
        opened.add(f"wire:{number}", f"case {number}", 1.0, number)
    assert 0 < instructions() < 2 * one
