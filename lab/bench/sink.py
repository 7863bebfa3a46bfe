"""Benchmarks the sink from topic to table: the sample log, copied under new ids, into the real engine."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import psutil

from evaluation.replay.log_file import read_log_file
from infra.clickhouse.client import Address, ClickHouse, connect
from infra.clickhouse.columns import COLUMNS
from infra.clickhouse.migrate import migrate
from infra.embedded.clickhouse.server import EmbeddedClickHouse
from infra.kafka.topics import offsets_of, read_range
from lab.bench.measures import Figure
from lab.bench.world import PARTITIONS, World, world
from schemas import envelope as wire
from schemas.events import WIRE_NAMES, SignalSynthesized
from schemas.ids import LIVE_RUN, signal_id, uuid5
from schemas.signals import Signal
from schemas.topics import partition_of
from streams.publish.publisher import _record
from streams.sink.sink import Sink

EVENTS = 200_000
CAUGHT_UP_WITHIN_S = 600.0
BARE_BLOCK_ROWS = 20_000


async def sink(events: int = EVENTS) -> list[Figure]:
    """Write a journal with its signals and let a sink catch up. Baselines: a plain read and a bare insert of the same."""
    async with world() as w, EmbeddedClickHouse(Path(w.directory) / "clickhouse") as engine:
        held, size = await write_journal(w, events)
        read = await _timed(_read(w))
        address = Address(host=engine.host, port=engine.port)
        async with connect(address, database="measured") as client, connect(address, database="bare") as bare:
            await migrate(client)
            await migrate(bare)
            cpu = _cpu(engine.pid)
            took, own = await sunk(w, client)
            cpu = _cpu(engine.pid) - cpu
            rows = {t: await _count(client, f"SELECT count() FROM {t}") for t in COLUMNS}
            distinct = await _count(client, "SELECT uniqExact(event_id) FROM events")
            if not held == rows["events"] == distinct:
                raise AssertionError(
                    f"{held} events in the log, {rows['events']} rows of {distinct} events in the tables"
                )
            inserted = await _bare_insert(client, bare)
    plain = read + inserted
    total = sum(rows.values())
    return [
        Figure(name=f"sink: {held:,} events of {size / held:,.0f} bytes, topic to table", value=held / took, unit="events/s",
               target=">= 20,000 (aim 50,000)", ratio=plain / took,
               baseline=f"{held / plain:,.0f} events/s: a plain read ({read:.1f} s), then a bare insert of the same rows "
                        f"({inserted:.1f} s)"),
        Figure(name=f"sink: {total:,} rows", value=total / took, unit="rows/s", target="-"),
        Figure(name="sink: CPU of a million events, the sink's own", value=own / held * 1e6, unit="s", target="-"),
        Figure(name="sink: CPU of a million events, the engine's", value=cpu / held * 1e6, unit="s", target="-"),
    ]  # fmt: skip


async def write_journal(w: World, events: int) -> tuple[int, int]:
    producer = w.address.producer(linger_ms=20)
    await producer.start()
    held = size = 0
    signals: list[tuple[Any, Any, Any, int]] = []
    for record, signal in _copies(events):
        sent = await producer.send(w.topics.cases, **record)
        held, size = held + 1, size + len(record["value"])
        if signal is not None:
            signals.append((signal, wire.read_envelope(record["headers"]), sent, record["partition"]))
        if held % 50_000 == 0:
            print(f"{held:,} of {events:,} events written", file=sys.stderr, flush=True)
    for signal, env, sent, partition in signals:
        meta = await sent
        await producer.send(w.topics.signals, **_record(signal, env, w.topics.cases, partition, meta.offset))
    await producer.stop()
    return held, size


def _copies(events: int) -> Iterator[tuple[dict[str, Any], Signal | None]]:
    """Yield at least this many records of the sample log, as arguments of a producer's ``send``, with their signals.

    Each round of the log has case, signal and event ids of its own; calls and replies keep their sizes.
    """
    records = read_log_file().cases
    for number in range(-(-events // len(records))):
        for record in records:
            headers = {name: value.decode() for name, value in record.headers}
            case_id = headers["ce_subject"]
            copied = headers["ce_subject"] = uuid5(case_id, str(number))
            for name in {"ce_id", "ce_causationid"} & headers.keys():
                headers[name] = uuid5(headers[name], str(number))
            value = (record.value or b"").replace(case_id.encode(), copied.encode())
            value = value.replace(signal_id(LIVE_RUN, case_id).encode(), signal_id(LIVE_RUN, copied).encode())
            signal = None
            if headers["ce_type"] == WIRE_NAMES[SignalSynthesized]:
                signal = msgspec.json.decode(value, type=SignalSynthesized).signal
            yield {"value": value, "key": copied.encode(), "partition": partition_of(copied, PARTITIONS),
                   "headers": [(name, text.encode()) for name, text in headers.items()]}, signal  # fmt: skip


async def _read(w: World) -> None:
    for topic in (w.topics.cases, w.topics.signals):
        async for _ in read_range(w.address, await offsets_of(w.address, topic)):
            pass


async def sunk(w: World, client: ClickHouse) -> tuple[float, float]:
    sink = Sink(w.address, w.topics, client)  # loads the steps' modules once per process, whatever there is to insert
    begin, cpu = time.perf_counter(), time.process_time()
    running = asyncio.create_task(sink.run())
    try:
        await sink.caught_up(CAUGHT_UP_WITHIN_S)
        return time.perf_counter() - begin, time.process_time() - cpu
    finally:
        sink.stop()
        await running


async def _bare_insert(client: ClickHouse, bare: ClickHouse) -> float:
    # The rows as the engine writes them, in native column format, so that nothing needs conversion.
    took = 0.0
    for table, columns in COLUMNS.items():
        names, rows = ", ".join(columns), await _count(client, f"SELECT count() FROM {table}")
        for first in range(0, rows, BARE_BLOCK_ROWS):
            part = f"SELECT {names} FROM {table} ORDER BY journal_partition, journal_offset"
            block = await _raw(client).raw_query(f"{part} LIMIT {first}, {BARE_BLOCK_ROWS}", fmt="Native")
            took += await _timed(_raw(bare).raw_insert(table, list(columns), block, fmt="Native"))
    return took


def _raw(client: ClickHouse) -> Any:
    assert client._client is not None
    return client._client


async def _count(client: ClickHouse, sql: str) -> int:
    return int((await client.query(sql)).rows[0][0])


def _cpu(pid: int) -> float:
    times = psutil.Process(pid).cpu_times()
    return float(times.user + times.system)


async def _timed(work: Any) -> float:
    begin = time.perf_counter()
    await work
    return time.perf_counter() - begin


__all__ = ["EVENTS", "sink"]
