"""The records of the watches topic: what any version ever wrote must decode for ever, and what no watch can be is garbage."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from schemas.errors import ContractError
from schemas.topics import NewerRecordError
from schemas.watches import (
    VERSION,
    WatchEnded,
    WatchFired,
    WatchOpened,
    WatchPaused,
    WatchRecord,
    WatchResumed,
    WatchSet,
    decode,
    encode,
    source_of,
)

GOLDEN = Path(__file__).parents[1] / "data" / "golden_watches"
AT = datetime(2026, 1, 2, 3, 4, 5, 678000, tzinfo=UTC)
SAMPLES: dict[str, WatchRecord] = {
    "set.v1": WatchSet(id="w", subject="关注DeepSeek的最新进展", every_s=21_600, language="zh", by="cli"),
    "set_on_news.v1": WatchSet(id="w", subject="DeepSeek", every_s=None, language="en", by="web"),
    "fired.v1": WatchFired(id="f", watch="w", cause="w", n=1, due_at=AT),
    "fired_on_news.v1": WatchFired(id="f", watch="w", cause="o", n=2, due_at=AT, news="case"),
    "opened.v1": WatchOpened(id="o", watch="w", cause="f", n=1, investigation="i"),
    "paused.v1": WatchPaused(id="p", watch="w", by="cli"),
    "resumed.v1": WatchResumed(id="r", watch="w", by="cli"),
    "ended.v1": WatchEnded(id="e", watch="w", by="web"),
}


def test_golden_records_decode_into_what_was_meant_and_are_what_is_written_today() -> None:
    assert {path.stem for path in GOLDEN.glob("*.json")} == set(SAMPLES)
    for name, record in SAMPLES.items():
        value = (GOLDEN / f"{name}.json").read_bytes()
        assert decode(value) == record
        assert json.loads(encode(record)) == json.loads(value)


@pytest.mark.parametrize(
    "changes", [{"every_s": 1799}, {"every_s": 40 * 86_400}, {"subject": " ?!"}, {"version": 0}, {"id": 7}]
)
def test_what_no_watch_can_be_is_garbage_and_newer_code_is_told_from_it(changes: dict[str, object]) -> None:
    written = json.loads(encode(SAMPLES["set.v1"]))
    with pytest.raises(ContractError) as caught:
        decode(json.dumps(written | changes).encode())
    assert caught.value.reason == "bad_watches_record"
    with pytest.raises(NewerRecordError, match="deploy"):
        decode(json.dumps(written | changes | {"version": VERSION + 1}).encode())


def test_the_source_of_a_watch_is_readable_and_bounded() -> None:
    assert source_of("DeepSeek's R2 (model)") == "watch:deepseek-s-r2-model"
    assert len(source_of("x" * 500)) == 66
