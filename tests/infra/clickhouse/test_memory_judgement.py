"""What memory says of a past case: the newest judgement at the time asked for, never a later one."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from infra.clickhouse.client import ClickHouse
from schemas.evidence import MemoryEntry
from schemas.signals import Signal
from tests.infra.clickhouse.clickhouse_samples import NOW, fill, fill_signals, published, seconds, signal
from tests.infra.clickhouse.test_memory import recall, remembered

TEXT = "USDC 跌至 0.87 美元"
HOUR = 3600.0


def revised(revision: int, **fields: Any) -> Signal:
    return signal(signal_id="signal-a", case_id="a", revision=revision, supersedes=revision - 1 or None, **fields)


async def told(client: ClickHouse, *revisions: tuple[Signal, datetime]) -> None:
    """Case a as it was decided, and what was published of it when; twice, as a redelivery would."""
    await fill(client, [remembered("a", TEXT)])
    rows = [published(of, offset=n, emitted_at=at) for n, (of, at) in enumerate(revisions)]
    await fill_signals(client, *rows)
    await fill_signals(client, *rows)


async def known(client: ClickHouse, hours: float) -> MemoryEntry:
    (entry,) = await recall(client, TEXT, as_of=NOW + seconds(hours * HOUR))
    return entry


@pytest.mark.parametrize("stage", ["retracted", "superseded"])
async def test_a_withdrawal_counts_from_the_moment_in_which_it_was_emitted(clickhouse: ClickHouse, stage: Any) -> None:
    taken_back = revised(2, stage=stage, verdict="refuted", confidence=0.0)
    await told(clickhouse, (revised(1), NOW + seconds(1)), (taken_back, NOW + seconds(5 * HOUR)))
    before, at, after = [await known(clickhouse, hours) for hours in (4, 5, 6)]
    assert (before.confidence, before.withdrawn) == (at.confidence, at.withdrawn) == (0.75, None)
    assert (after.confidence, after.withdrawn) == (0.0, stage)


async def test_of_several_revisions_the_newest_that_was_out_counts(clickhouse: ClickHouse) -> None:
    first = revised(1, stage="preliminary", verdict="unchecked", confidence=0.5)
    await told(clickhouse, (first, NOW + seconds(1)), (revised(2, confidence=0.9), NOW + seconds(2 * HOUR)))
    entries = [await known(clickhouse, hours) for hours in (1, 3)]
    assert [(e.confidence, e.verdict) for e in entries] == [(0.5, "unchecked"), (0.9, "confirmed")]


async def test_what_was_decided_and_not_yet_emitted_is_not_remembered(clickhouse: ClickHouse) -> None:
    await told(clickhouse, (revised(1), NOW + seconds(2 * HOUR)))
    assert await recall(clickhouse, TEXT, as_of=NOW + seconds(HOUR)) == ()
    assert (await known(clickhouse, 3)).confidence == 0.75


async def test_signals_that_are_not_out_leave_room_for_those_that_are(clickhouse: ClickHouse) -> None:
    late = [remembered(f"late{n}", TEXT) for n in range(3)]
    await fill(clickhouse, [*late, remembered("b", TEXT + " 今天")])
    of = [signal(signal_id=f"signal-late{n}", case_id=f"late{n}") for n in range(3)]
    await fill_signals(clickhouse, *(published(s, emitted_at=NOW + seconds(HOUR)) for s in of))
    assert [e.case_id for e in await recall(clickhouse, TEXT, limit=1)] == ["b"]


async def test_a_timeline_tells_withdrawals_as_of_its_time_too(clickhouse: ClickHouse) -> None:
    taken_back = revised(2, stage="retracted", confidence=0.0)
    await told(clickhouse, (revised(1), NOW + seconds(1)), (taken_back, NOW + seconds(5 * HOUR)))
    since = NOW - seconds(HOUR)
    (before,) = await recall(clickhouse, "x", asset="USDC", since=since, as_of=NOW + seconds(4 * HOUR))
    (after,) = await recall(clickhouse, "x", asset="USDC", since=since, as_of=NOW + seconds(6 * HOUR))
    assert (before.withdrawn, after.withdrawn) == (None, "retracted")
