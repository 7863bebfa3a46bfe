"""The figures from a log: what every reader accepts counts, whatever else lies there."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from msgspec.structs import replace

from schemas import envelope as wire
from schemas.events import CaseDropped
from schemas.ids import signal_id
from schemas.topics import Topics, partition_of
from streams.publish.publisher import _record
from streams.reputation.reputation_topic import compute_reputations, read_reputations
from tests.infra.clickhouse.clickhouse_samples import signal
from tests.streams.memory_log import MemoryLog
from tests.streams.records import after, opening

TOPICS, NOW = Topics("t."), datetime.now(UTC)
NOW_MS = round(NOW.timestamp() * 1000)


async def test_of_the_log_counts_what_is_accepted_committed_and_not_too_old() -> None:
    log = MemoryLog({TOPICS.cases: 2, TOPICS.signals: 1, TOPICS.reputation: 1})
    first = ""
    for number, source, days in ((1, "wire", 1), (2, "copycat", 1), (3, "old", 91)):
        case, head, value, headers = opening(number, source=source)
        where, at_ms = partition_of(case, 2), NOW_MS - round(timedelta(days=days).total_seconds() * 1000)
        log.append(TOPICS.cases, where, value=value, headers=headers, timestamp=at_ms)
        if source == "copycat":
            _, value, more = after(case, head, CaseDropped(reason="duplicate", detail="", duplicate_of=first))
            log.append(TOPICS.cases, where, value=value, headers=more, timestamp=at_ms)
        log.append(TOPICS.cases, where, value=value, headers=headers, timestamp=at_ms)  # again: passed by
        log.append(TOPICS.cases, where, value=b"?", timestamp=at_ms)
        if source == "wire":
            first, env = case, wire.read_envelope(headers)
            judged = signal(case_id=case, signal_id=signal_id("live", case), verdict="refuted")
            taken_back = replace(judged, revision=2, stage="retracted")
            for one, aborted in ((judged, False), (taken_back, True)):
                said = _record(one, env, TOPICS.cases, where, 0)
                log.append(TOPICS.signals, 0, **said, timestamp=NOW_MS, aborted=aborted)
            log.append(TOPICS.signals, 0, value=b"?", timestamp=NOW_MS)
    copycat, of_wire = await compute_reputations(log, TOPICS, NOW)
    assert (copycat.source, copycat.stories, copycat.copies.count) == ("copycat", 1, 1)
    assert (of_wire.refuted.count, of_wire.refuted.of, of_wire.retracted.count, of_wire.retracted.of) == (1, 1, 0, 1)


async def test_a_record_of_the_topic_counts_until_its_tombstone_and_another_form_is_passed_by() -> None:
    log = MemoryLog({TOPICS.reputation: 1})
    for key, value in ((b"a\x1fen", b"{}"), (b"b\x1fen", None), (b"c", b"\xff")):
        log.append(TOPICS.reputation, 0, key=key, value=value)
    assert await read_reputations(log, TOPICS) == {}
