"""Deliveries of bots on a real log and a real engine: their rows once, and the view that agrees with the bots' own book."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from infra.clickhouse.client import ClickHouse
from schemas.deliveries import Attempted, DeliveryRecord, HaltRequested, Planned, Settled, decode, delivery_id, encode
from streams.bots.book import Book
from streams.bots.writer import DeliveryWriter
from streams.journal.log import KafkaLog
from tests.infra.clickhouse.clickhouse_samples import fill_signals, published, signal
from tests.streams.sink.test_sink import Breaking, rows, settled, sinking
from tests.streams.world import World

NOON = datetime(2026, 3, 10, 12, tzinfo=UTC)


def planned(signal_id: str, **changes: object) -> Planned:
    given = {
        "id": delivery_id("ann", "live", "enter", signal_id),
        "bot": "ann",
        "adapter": "webhook",
        "instrument": "BTC/USDT",
    }
    more = {"intent": "enter", "signal_id": signal_id, "revision": 2, "asset": "BTC", "reason": "buy", "side": "long"}
    times = {"planned_at": NOON, "valid_until": NOON + timedelta(days=1), "mode": "live"}
    return Planned(**{**given, **more, **times, **changes})  # type: ignore[arg-type]


def attempt(of: Planned, n: int = 1, bot: str = "ann") -> Attempted:
    return Attempted(delivery=of.id, bot=bot, n=n)


def result(of: Planned, outcome: str, reason: str = "", **more: object) -> Settled:
    return Settled(delivery=of.id, bot="ann", outcome=outcome, reason=reason, **more)  # type: ignore[arg-type]


async def test_deliveries_are_in_the_tables_once_and_the_view_folds_them_as_a_bot_does(
    world: World, clickhouse: ClickHouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry, lost, late = planned("a"), planned("b"), planned("c", reason="sell", side="short")
    leave = planned(
        "a",
        id=delivery_id("ann", "live", "exit", entry.id),
        intent="exit",
        entry=entry.id,
        revision=3,
        reason="retracted",
    )
    tried = planned("d", mode="paper", adapter="paper")
    again = planned("d")
    log: list[DeliveryRecord] = [
        attempt(entry),  # before its plan: of nobody
        entry, attempt(entry), attempt(entry, 7, bot="bob"), result(entry, "delivered", remote_id="r1", seconds=0.02),
        planned("a", instrument="other"),  # planned twice is planned once
        lost, attempt(lost), result(lost, "unknown", "no answer", seconds=0.04), result(lost, "refused", "not there"),
        leave, attempt(leave), attempt(leave, 2), attempt(leave, 2),
        late, result(late, "expired", "too old"),
        HaltRequested(id="h", bot=None, exit=True, by="ann"),
        tried, attempt(tried), result(tried, "delivered", price=10.5, fee=0.001), again, result(again, "skipped", "halted"),
    ]  # fmt: skip
    writer = DeliveryWriter(world.address, world.topics, "ann")
    await writer.start()
    await writer.append([("", record) for record in log[:9]])
    await writer._producer.begin_transaction()
    await writer._producer.send_and_wait(world.topics.deliveries, encode(attempt(lost, 9)), partition=0)
    await writer._producer.abort_transaction()
    await world.producer.send_and_wait(world.topics.deliveries, b"a stranger's", partition=0)
    await writer.append([("", record) for record in log[9:]])
    await writer.stop()
    await fill_signals(clickhouse, published(signal(signal_id="a", revision=2, verdict="confirmed")))

    with pytest.raises(SystemError, match="dies here"):  # after the insert, before the commit
        async with sinking(world, Breaking(clickhouse, 1)):
            await world.until(lambda: False)
    monkeypatch.setattr("streams.sink.sink.MAX_BATCH", 3)
    for _ in range(2):
        async with sinking(world, clickhouse) as sink:
            await settled(world, sink)
    assert await rows(clickhouse, "deliveries") == len(log)

    columns = "bot, signal_id, intent, mode, instrument, outcome, reason, planned_reason, attempts, seconds, price, remote_id, verdict"
    found = await clickhouse.query(f"SELECT {columns} FROM v_deliveries ORDER BY signal_id, intent, mode")
    assert found.rows == [
        ("ann", "a", "enter", "live", "BTC/USDT", "delivered", "", "buy", 1, 0.02, None, "r1", "confirmed"),
        ("ann", "a", "exit", "live", "BTC/USDT", "", "", "retracted", 2, None, None, "", ""),
        ("ann", "b", "enter", "live", "BTC/USDT", "refused", "not there", "buy", 1, 0.04, None, "", ""),
        ("ann", "c", "enter", "live", "BTC/USDT", "expired", "too old", "sell", 0, None, None, "", ""),
        ("ann", "d", "enter", "live", "BTC/USDT", "skipped", "halted", "buy", 0, None, None, "", ""),
        ("ann", "d", "enter", "paper", "BTC/USDT", "delivered", "", "buy", 1, None, 10.5, "", ""),
    ]
    at = "toUnixTimestamp64Milli(assumeNotNull(attempted_at)), toUnixTimestamp64Milli(assumeNotNull(settled_at))"
    found = await clickhouse.query(
        f"SELECT delivery_id, outcome, attempts, {at} FROM v_deliveries WHERE signal_id != 'd'"
    )
    book, read = Book("ann"), KafkaLog(world.address)
    async for _, records in read.replay(await read.bounds(world.topics.deliveries), isolation="read_committed"):
        for one in records:
            if one.value != b"a stranger's":
                book.fold(one.timestamp, decode(one.value))
    folded = {
        (id, one.outcome or "", one.n, one.attempted_ms, one.settled_ms)
        for id, one in book.deliveries.items()
        if one.planned.signal_id != "d"
    }
    assert set(found.rows) == folded
    by_day = await clickhouse.query(
        "SELECT intent, mode, toString(day), deliveries, delivered, refused, expired, skipped, unsettled, attempts, p50_s "
        "FROM v_deliveries_by_day"
    )
    assert by_day.rows == [
        ("enter", "paper", "2026-03-10", 1, 1, 0, 0, 0, 0, 1, None),
        ("enter", "live", "2026-03-10", 4, 1, 1, 1, 1, 0, 2, 0.03),
        ("exit", "live", "2026-03-10", 1, 0, 0, 0, 0, 1, 2, None),
    ]
    halts = await clickhouse.query("SELECT bot, requested_by, closes FROM deliveries WHERE record = 'halt_requested'")
    assert halts.rows == [("", "ann", True)]
