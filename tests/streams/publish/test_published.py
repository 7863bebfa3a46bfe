"""What is on ``signals``, kept on disk: equal to what a reader of all of it knows, wherever it stopped and however it ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.envelope import CAUSE, OFFSET, PARTITION, REVISION, SIGNAL_TYPE, TOPIC
from schemas.ids import LIVE_RUN, uuid5
from schemas.topics import Topics
from streams.publish import published
from streams.publish.published import FILE, Place, Published
from streams.publish.publisher import Publisher
from tests.plain_graph import plain_registry
from tests.streams.memory_log import MemoryLog
from tests.streams.publish.test_publisher import closed_cases, signals_reach
from tests.streams.world import World

SIGNALS, JOURNAL = Topics().signals, Topics().cases
IDS = [uuid5("signal", str(n)) for n in range(5)]
START: dict[int, int] = {}


def publish(
    log: MemoryLog,
    of: int,
    revision: int,
    *,
    cause: tuple[int, int] = (0, 0),
    topic: str = JOURNAL,
    partition: int = 0,
    aborted: bool = False,
    foreign: bool = False,
) -> int:
    """Append a revision, and the marker of its transaction; return its offset."""
    said = {
        "ce_id": uuid5("signal-revision", IDS[of], str(revision)),
        "ce_type": "something else" if foreign else SIGNAL_TYPE.decode(),
        "ce_subject": IDS[of],
        "ce_schemaversion": "1",
        "ce_runid": LIVE_RUN,
        CAUSE: f"cause-{cause[0]}-{cause[1]}",
        TOPIC: topic,
        PARTITION: str(cause[0]),
        OFFSET: str(cause[1]),
        REVISION: str(revision),
    }
    headers = [(name, value.encode()) for name, value in said.items()]
    offset = log.append(SIGNALS, partition, value=b"{}", key=IDS[of].encode(), headers=headers, aborted=aborted)
    log.skip(SIGNALS, partition)
    return offset


class CountingLog(MemoryLog):
    """A log that counts the records that were read, single ones aside."""

    def __init__(self) -> None:
        super().__init__({SIGNALS: 2})
        self.read = 0

    async def replay(self, spans: Any, **more: Any) -> Any:
        async for tp, records in super().replay(spans, **more):
            self.read += len(records) if spans[tp][1] - spans[tp][0] > 1 else 0
            yield tp, records


async def opened(log: MemoryLog, directory: Path | None, positions: Mapping[int, int] = START) -> Published:
    made = Published(directory, SIGNALS, JOURNAL)
    await made.load(log, positions)
    return made


def known(of: Published) -> tuple[Any, ...]:
    return [of.place(id) for id in IDS], of.causes, of.through


async def of_all(log: MemoryLog, positions: Mapping[int, int] = START) -> tuple[Any, ...]:
    made = await opened(log, None, positions)
    try:
        return known(made)
    finally:
        made.close()


def a_log() -> CountingLog:
    log = CountingLog()
    for n in range(8):
        publish(log, n % 5, 1 + n // 5, cause=(n % 2, n), partition=n % 2, aborted=n == 3, foreign=n == 4)
    return log


async def test_a_second_start_reads_only_what_is_new(tmp_path: Path) -> None:
    log = a_log()
    (await opened(log, tmp_path)).close()
    at = publish(log, 1, 9, cause=(1, 40))
    log.read = 0
    again = await opened(log, tmp_path)
    assert log.read == 1
    assert again.place(IDS[1]) == Place(9, 0, at)
    assert known(again) == await of_all(log)
    again.close()


async def test_what_this_process_published_is_known_at_once_and_read_once_subscribers_see_it(tmp_path: Path) -> None:
    log = a_log()
    mine = await opened(log, tmp_path)
    mine.publish(IDS[0], Place(3, -1, -1))
    assert mine.revision(IDS[0]) == 3
    mine.publish(IDS[0], Place(3, 0, publish(log, 0, 3)))
    mine.publish(IDS[2], Place(2, 1, 10_000))  # nobody sees it yet
    log.read = 0
    await mine.follow(log, START)
    assert (log.read, set(mine._recent)) == (1, {IDS[2]})
    assert (mine.revision(IDS[0]), mine.revision(IDS[2])) == (3, 2)
    mine.close()
    again = await opened(log, tmp_path)
    assert known(again) == await of_all(log)
    again.close()


async def test_causes_below_the_watermark_are_thrown_away_and_read_again_where_it_goes_back(tmp_path: Path) -> None:
    log = a_log()
    mine = await opened(log, tmp_path, {0: 3, 1: 100})
    assert mine.causes == {"cause-0-6"}
    mine.close()
    log.read = 0
    again = await opened(log, tmp_path, {0: 0, 1: 5})
    assert (known(again), log.read) == (await of_all(log, {0: 0, 1: 5}), 7)
    assert again.causes == {"cause-0-0", "cause-0-2", "cause-0-6", "cause-1-5", "cause-1-7"}
    again.close()


_PUBLICATIONS = st.tuples(
    st.integers(0, 4), st.integers(1, 3), st.integers(0, 1), st.integers(0, 9),
    st.sampled_from([JOURNAL, JOURNAL, "other"]), st.booleans(), st.booleans(),
)  # fmt: skip
_ACTS = st.tuples(st.integers(0, 30), st.sampled_from(["start", "follow"]), st.integers(0, 9), st.integers(0, 9))


@settings(max_examples=25, deadline=None)
@given(st.lists(_PUBLICATIONS, max_size=30), st.lists(_ACTS, max_size=8), st.integers(1, 5))
async def test_kept_and_tail_come_to_what_the_whole_topic_says(
    said: Sequence[tuple[Any, ...]], acts: Sequence[tuple[Any, ...]], at_once: int
) -> None:
    with pytest.MonkeyPatch.context() as patch, TemporaryDirectory() as directory:
        patch.setattr(published, "_AT_ONCE", at_once)
        log = MemoryLog({SIGNALS: 2})
        positions: dict[int, int] = {}
        mine = await opened(log, Path(directory))
        for n, (of, revision, at, offset, topic, aborted, foreign) in enumerate(said):
            for _, act, first, second in [one for one in acts if one[0] == n]:
                if act == "follow":
                    mine.publish(IDS[0], Place(9, 0, 0))
                    await mine.follow(log, positions)
                    continue
                mine.close()
                positions = {0: first, 1: second}
                mine = await opened(log, Path(directory), positions)
                assert known(mine) == await of_all(log, positions)
            publish(
                log, of, revision, cause=(at, offset), topic=topic, partition=of % 2, aborted=aborted, foreign=foreign
            )
        mine.close()
        mine = await opened(log, Path(directory), positions)
        assert known(mine) == await of_all(log, positions)
        mine.close()


async def test_a_publisher_that_starts_on_its_damaged_disk_publishes_only_what_is_new(
    world: World, tmp_path: Path
) -> None:
    async def published_by(count: int) -> int:
        publisher = Publisher(world.address, world.topics, directory=tmp_path)
        async with world._while_running(publisher.run()):
            try:
                await world.until(lambda: publisher.active, within_s=40)
                await signals_reach(world, count)
            finally:
                publisher.stop()
        return publisher.published

    async with closed_cases(world, *range(4)):
        assert await published_by(4) == 4
    written = bytearray((tmp_path / FILE).read_bytes())
    written[4096:] = b"\xff" * (len(written) - 4096)
    (tmp_path / FILE).write_bytes(written)
    async with world.working(plain_registry(asks=False)):
        await world.publish(9)
        await world.until_closed(5)
    assert await published_by(5) == 1
    assert {s.revision for s in await world.signals()} == {1}
