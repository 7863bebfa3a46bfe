"""`newsproof dlq`: a poison record is shown with its reason and sent again after the fix."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from aiokafka import ConsumerRecord

from infra.kafka.topics import KafkaAddress, offsets_of, read_range
from newsproof.app import exits
from schemas.topics import Topics
from streams.journal.appender import Appender
from tests.newsproof.command import newsproof

GOOD = b'{"source":"s","text":"mended","published_at":"2026-03-01T00:00:00Z"}'


def poison(topic: str, value: bytes, offset: int) -> Any:
    return ConsumerRecord(
        topic=topic, partition=1, offset=offset, timestamp=0, timestamp_type=1, key=b"s:1", value=value, checksum=None,
        serialized_key_size=3, serialized_value_size=len(value), headers=[("trace", b"abc")],
    )  # fmt: skip


@pytest.fixture
async def letters(address: KafkaAddress, made_topics: Topics) -> None:
    appender = Appender(address)
    await appender.start()
    for number, (topic, value, reason) in enumerate(
        [
            (made_topics.news, b"{broken \xff", "not_utf8"),
            (made_topics.news, b"{}", "missing_field"),
            (made_topics.cases, b"?", "bad_event"),
        ]
    ):
        await appender.dead_letter(
            made_topics.dead_letters, poison(topic, value, number), reason=reason, why=f"why {number}", consumer="test"
        )
    await appender.stop()


class Queue:
    """The command on this test's topics."""

    def __init__(self, address: KafkaAddress, topics: Topics, cwd: Path) -> None:
        self._cwd = cwd
        self._env = {
            **address.as_environment(),
            "NEWSPROOF_TOPIC_PREFIX": topics.prefix,
            "TOPIC_PARTITIONS": "2",
        }

    def run(self, *arguments: str) -> Any:
        return newsproof("dlq", *arguments, cwd=self._cwd, env=self._env)

    def listed(self, *arguments: str) -> dict[str, dict[str, Any]]:
        done = self.run("--json", *arguments)
        assert done.returncode == 0, done.stderr
        return {one["reason"]: one for one in map(json.loads, done.stdout.splitlines())}


@pytest.fixture
def queue(address: KafkaAddress, made_topics: Topics, tmp_path: Path, letters: None) -> Queue:
    return Queue(address, made_topics, tmp_path)


async def news(address: KafkaAddress, topics: Topics) -> list[Any]:
    spans = await offsets_of(address, topics.news)
    return [record async for _, records in read_range(address, spans) for record in records]


@pytest.mark.slow
def test_letters_are_listed_and_shown_with_the_reason_and_the_original(queue: Queue) -> None:
    listed = queue.listed()
    assert set(listed) == {"not_utf8", "missing_field", "bad_event"}
    assert listed["missing_field"]["why"] == "why 1" and not listed["missing_field"]["requeued"]
    assert set(queue.listed("--reason", "bad_event")) == {"bad_event"}
    one = queue.run("show", listed["not_utf8"]["id"])
    assert "{broken \\xff" in one.stdout and "why 0" in one.stdout
    assert queue.run("show", listed["missing_field"]["id"], "--value").stdout == "{}"


@pytest.mark.slow
async def test_a_letter_is_sent_again_once_with_its_key_headers_and_origin(
    queue: Queue, address: KafkaAddress, made_topics: Topics
) -> None:
    letter = queue.listed()["not_utf8"]["id"]
    assert queue.run("requeue", letter).returncode == exits.OK
    (record,) = await news(address, made_topics)
    assert (record.key, record.value) == (b"s:1", b"{broken \xff")
    assert dict(record.headers) == {"trace": b"abc", "dl_requeued_from": letter.encode()}
    assert queue.listed()["not_utf8"]["requeued"] is True
    twice = queue.run("requeue", letter)
    assert twice.returncode == exits.USAGE and "--again" in twice.stderr


@pytest.mark.slow
async def test_a_mended_value_is_sent_under_its_own_key(
    queue: Queue, address: KafkaAddress, made_topics: Topics, tmp_path: Path
) -> None:
    (tmp_path / "mended.json").write_bytes(GOOD)
    letter = queue.listed()["missing_field"]["id"]
    assert queue.run("requeue", letter, "--value", "mended.json").returncode == exits.OK
    (record,) = await news(address, made_topics)
    assert record.value == GOOD and record.key.startswith(b"s:") and record.key != b"s:1"


@pytest.mark.slow
async def test_all_sends_what_came_from_news_and_nothing_into_the_journal(
    queue: Queue, address: KafkaAddress, made_topics: Topics
) -> None:
    done = queue.run("requeue", "--all", "--json")
    assert len(json.loads(done.stdout)["requeued"]) == 2 and "1 dead letters do not come from" in done.stderr
    assert len(await news(address, made_topics)) == 2
    assert not any(first < end for first, end in (await offsets_of(address, made_topics.cases)).values())
    refused = queue.run("requeue", queue.listed()["bad_event"]["id"])
    assert refused.returncode == exits.USAGE and made_topics.cases in refused.stderr


def test_nothing_is_sent_when_nothing_or_something_unknown_is_chosen(queue: Queue) -> None:
    for arguments, says in ([(), "--all"], [("9:9",), "dlq list"]):
        done = queue.run("requeue", *arguments)
        assert done.returncode == exits.USAGE and says in done.stderr
