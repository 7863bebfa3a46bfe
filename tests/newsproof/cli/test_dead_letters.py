"""`newsproof dlq`: a poison record is shown with its reason and sent again after the fix."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from aiokafka import ConsumerRecord

from infra.kafka.topics import KafkaAddress, offsets_of, read_range
from newsproof.app import exits
from schemas.topics import Topics
from streams.journal.appender import Appender
from tests.newsproof.conftest import Run

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


def listed(run: Run, *arguments: str) -> dict[str, dict[str, Any]]:
    return {one["reason"]: one for one in map(json.loads, run("dlq", "--json", *arguments).splitlines())}


def news(address: KafkaAddress, topics: Topics) -> list[Any]:
    async def read() -> list[Any]:
        spans = await offsets_of(address, topics.news)
        return [record async for _, records in read_range(address, spans) for record in records]

    return asyncio.run(read())


def test_letters_are_listed_and_shown_with_the_reason_and_the_original(run: Run, letters: None) -> None:
    found = listed(run)
    assert set(found) == {"not_utf8", "missing_field", "bad_event"}
    assert found["missing_field"]["why"] == "why 1" and not found["missing_field"]["requeued"]
    assert set(listed(run, "--reason", "bad_event")) == {"bad_event"}
    shown = run("dlq", "show", found["not_utf8"]["id"])
    assert "{broken \\xff" in shown and "why 0" in shown
    assert run("dlq", "show", found["missing_field"]["id"], "--value") == "{}"
    for arguments, says in ([(), "--all"], [("9:9",), "dlq list"]):
        assert says in run("dlq", "requeue", *arguments, expect=exits.USAGE)


def test_a_letter_is_sent_again_once_with_its_key_headers_and_origin_and_a_mended_value_under_its_own_key(
    run: Run, letters: None, address: KafkaAddress, made_topics: Topics, tmp_path: Path
) -> None:
    found = listed(run)
    letter = found["not_utf8"]["id"]
    run("dlq", "requeue", letter)
    (record,) = news(address, made_topics)
    assert (record.key, record.value) == (b"s:1", b"{broken \xff")
    assert dict(record.headers) == {"trace": b"abc", "dl_requeued_from": letter.encode()}
    assert listed(run)["not_utf8"]["requeued"] is True
    assert "--again" in run("dlq", "requeue", letter, expect=exits.USAGE)
    (tmp_path / "mended.json").write_bytes(GOOD)
    run("dlq", "requeue", found["missing_field"]["id"], "--value", "mended.json")
    (mended,) = [one for one in news(address, made_topics) if one.value == GOOD]
    assert mended.key.startswith(b"s:") and mended.key != b"s:1"


def test_all_sends_what_came_from_news_and_nothing_into_the_journal(
    run: Run, letters: None, address: KafkaAddress, made_topics: Topics
) -> None:
    assert len(json.loads(run("dlq", "requeue", "--all", "--json"))["requeued"]) == 2
    assert len(news(address, made_topics)) == 2
    assert not any(first < end for first, end in asyncio.run(offsets_of(address, made_topics.cases)).values())
    assert made_topics.cases in run("dlq", "requeue", listed(run)["bad_event"]["id"], expect=exits.USAGE)
