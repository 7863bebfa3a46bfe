"""Intake on the real log: one case per news item, whatever is sent twice, wrongly or badly."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from schemas.events import OPENING_NAME, EventReceived
from schemas.ids import text_hash
from schemas.news import MAX_FUTURE
from streams.audit.audit import audit
from streams.journal.log import KafkaLog
from tests.plain_graph import plain_registry
from tests.streams.world import World, news


async def openings(world: World) -> list[EventReceived]:
    """Every opening record in the log, accepted or not."""
    found = [f.event for f in await world.journal() if f.envelope and f.envelope.type == OPENING_NAME]
    return [e for e in found if isinstance(e, EventReceived)]


async def test_news_published_twice_opens_one_case_before_and_after_it_closed_and_across_a_restart(
    world: World,
) -> None:
    async with world.working(plain_registry(asks=False)) as worker:
        await world.publish(1, 1, 2)
        await world.until_closed(2)
        await world.publish(1)
        await world.until(lambda: worker.intake.repeated == 2)
    async with world.working(plain_registry(asks=False)) as worker:
        await world.publish(1, 2, 3)
        report = await world.until_closed(3)
        await world.until(lambda: worker.intake.repeated >= 2)
    assert len(await openings(world)) == 3
    assert (report.cases, report.lost, report.repeated_records) == (3, 0, 0)


@pytest.mark.slow
async def test_a_crash_between_the_append_of_an_opening_and_its_commit_opens_nothing_again(world: World) -> None:
    async with world.working(plain_registry(asks=False), commit_interval_s=3600.0) as worker:
        # What a SIGKILL leaves: cases are appended, and no offset was ever committed.
        worker.app.safe_offset = lambda _topic, _partition: None
        await world.publish(1, 2, 3)
        await world.until_closed(3)
    assert await world.committed(world.topics.news) == {}
    async with world.working(plain_registry(asks=False)) as worker:
        await world.until(lambda: worker.intake.repeated == 3)
        await world.publish(4)
        report = await world.until_closed(4)
    assert len(await openings(world)) == 4
    assert (report.lost, report.repeated_records, report.repeated_calls) == (0, 0, 0)


async def test_an_orderly_end_commits_all_news_that_was_dealt_with(world: World) -> None:
    async with world.working(plain_registry(asks=False), commit_interval_s=3600.0) as worker:
        await world.publish(1, 2, b"{broken", 1)
        await world.until_closed(2)
        await world.until(lambda: worker.intake.poison == 1 and worker.intake.repeated == 1)
    # Else the next worker would write the dead letter again.
    assert await world.committed(world.topics.news) == {
        p: e for p, e in (await world.ends(world.topics.news)).items() if e
    }


@pytest.mark.slow
async def test_the_same_external_id_with_another_text_is_a_case_of_its_own_that_names_the_first(world: World) -> None:
    async with world.working(plain_registry(asks=False)):
        await world.publish(news(1, text="Exchange halts withdrawals"))
        await world.until_closed(1)
        await world.publish(news(1, text="Exchange resumes withdrawals"))
        await world.until_closed(2)
    async with world.working(plain_registry(asks=False)):
        await world.publish(news(1, text="Exchange closes"))
        await world.until_closed(3)
    first, second, third = sorted(await openings(world), key=lambda e: e.news_offset)
    assert first.edits is None
    assert second.edits == third.edits == first.news.case_id
    assert second.text_hash == text_hash("Exchange resumes withdrawals")


@pytest.mark.slow
async def test_news_in_the_wrong_partition_is_forwarded_and_still_opens_one_case(world: World) -> None:
    async with world.working(plain_registry(asks=False)) as worker:
        for partition in range(world.partitions):
            await world.publish(1, 2, 3, partition=partition)
        await world.until_closed(3)
        await world.until(lambda: worker.intake.repeated == 3 and worker.intake.forwarded == 3)
    async with world.working(plain_registry(asks=False)) as worker:
        await world.publish(9)
        report = await world.until_closed(4)
    assert len(await openings(world)) == 4
    assert report.lost == 0


POISON: list[tuple[bytes, str]] = [
    (b"", "empty"),
    (b" \n", "empty"),
    (b'{"source":"s","text":"' + b"x" * (300 * 1024) + b'","published_at":"2026-01-01T00:00:00Z"}', "too_large"),
    (b'{"source":"s","text":"' + b"x" * (1100 * 1024) + b'","published_at":"2026-01-01T00:00:00Z"}', "too_large"),
    (b"\xff\xfe{}", "not_utf8"),
    (b"{not json", "not_json"),
    (b'{"source":"s","text":"\\ud800","published_at":"2026-01-01T00:00:00Z"}', "not_json"),
    (b"[1]", "wrong_type"),
    (b'{"source":1,"text":"t","published_at":"2026-01-01T00:00:00Z"}', "wrong_type"),
    (b'{"source":"s","published_at":"2026-01-01T00:00:00Z"}', "missing_field"),
    (b'{"a":' * 10_000 + b"1" + b"}" * 10_000, "too_deep"),
    (b'{"source":"s","text":"t","published_at":"2126-01-01T00:00:00Z"}', "future_date"),
    (b'{"source":"s","text":"t","published_at":"1999-01-01T00:00:00Z"}', "bad_value"),
    (b'{"source":"s","text":" ","published_at":"2026-01-01T00:00:00Z"}', "empty"),
]


async def test_poison_news_of_every_kind_becomes_a_dead_letter_with_a_reason_and_the_partition_goes_on(
    world: World,
) -> None:
    async with world.working(plain_registry(asks=False)) as worker:
        await world.publish(*(raw for raw, _ in POISON), partition=0)
        await world.publish(1, 2, 3, 4)
        await world.until_closed(4)
        await world.until(lambda: worker.intake.poison == len(POISON))
        await world.until(lambda: worker.intake.safe_offset(0) is not None)
    report = await audit(KafkaLog(world.address), world.topics)
    letters = sorted(await world.letters(), key=lambda h: int(h["dl_offset"]))
    assert [h["dl_reason"] for h in letters] == [reason for _, reason in POISON]
    assert all(len(h["dl_why"]) > 15 and h["dl_consumer"] == "intake" for h in letters)
    kept = {int(dict(r.headers)["dl_offset"]): r.value for r in await world.records(world.topics.dead_letters)}
    assert [kept[offset] for offset in sorted(kept)] == [raw for raw, _ in POISON], "the original bytes are kept"
    assert (report.cases, report.lost, report.dead_letters) == (4, 0, len(POISON))


@pytest.mark.slow
async def test_a_dead_letter_that_is_sent_again_opens_its_case_even_when_only_time_has_mended_it(world: World) -> None:
    soon = news(1, published_at=(datetime.now(UTC) + MAX_FUTURE + timedelta(seconds=4)).isoformat())
    async with world.working(plain_registry(asks=False)) as worker:
        await world.publish(soon)
        await world.until(lambda: worker.intake.poison == 1)
        await world.until(lambda: _committed_news(world))
    async with world.working(plain_registry(asks=False)):  # its index of what was opened is built after the date
        await world.until(lambda: datetime.now(UTC) + MAX_FUTURE > datetime.fromisoformat(soon["published_at"]))
        await world.publish(2)
        await world.until_closed(1)
    async with world.working(plain_registry(asks=False)):
        await world.publish(soon)
        report = await world.until_closed(2)
    assert (report.cases, report.lost, report.dead_letters) == (2, 0, 1)


async def _committed_news(world: World) -> bool:
    return bool(await world.committed(world.topics.news))
