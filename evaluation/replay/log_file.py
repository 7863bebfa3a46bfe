"""The sample log: the recorded run of the 42 sample news items, kept as a file that is replayed without a server.

``newsproof backtest record-sample`` writes it: every record of the journal, snapshots and signals as the broker held
it, one JSON line each, gzipped. Equal records give equal bytes.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Iterator
from importlib import resources
from pathlib import Path
from typing import Any

import msgspec

from infra.kafka.topics import KafkaAddress, offsets_of, read_range
from schemas.config import Snapshot, decode_snapshot
from schemas.errors import ConfigError
from schemas.topics import Topics

SAMPLE = "sample-log.jsonl.gz"
"""The shipped file in this package."""
TOPICS = ("cases", "configs", "signals")
"""Topics in a log file, without their prefix."""


class LogRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One record as text: keys, values and headers of these topics are UTF-8. ``timestamp`` is in Unix milliseconds."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: str | None
    value: str | None
    headers: tuple[tuple[str, str], ...] = ()


class Record(msgspec.Struct, frozen=True):
    """One record in the form of a Kafka client."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...]


class LogFile(msgspec.Struct, frozen=True, kw_only=True):
    """A log file in memory. ``cases`` and ``signals`` are in log order per partition; ``snapshots`` is keyed by hash."""

    partitions: int
    cases: tuple[Record, ...]
    snapshots: dict[str, Snapshot]
    signals: tuple[Record, ...]


def read_log_file(path: Path | None = None) -> LogFile:
    """Return a log file, by default the shipped sample.

    Raises:
        ConfigError: the file is missing or is not a log file; the text says what to do.
    """
    try:
        packed = resources.files(__package__).joinpath(SAMPLE).read_bytes() if path is None else path.read_bytes()
        lines = gzip.decompress(packed).splitlines()
        header = msgspec.json.decode(lines[0], type=dict[str, int])
        records = [_record(msgspec.json.decode(line, type=LogRecord)) for line in lines[1:]]
        return LogFile(
            partitions=header["partitions"],
            cases=tuple(r for r in records if r.topic == "cases"),
            snapshots=dict(decode_snapshot(r.key, r.value) for r in records if r.topic == "configs" and r.value),
            signals=tuple(r for r in records if r.topic == "signals"),
        )
    except (OSError, EOFError, LookupError, msgspec.MsgspecError) as exc:
        raise ConfigError(
            f"{path or SAMPLE} is no log file: {exc}; make one with `newsproof backtest record-sample FILE`"
        ) from exc


async def pack_journal(address: KafkaAddress, topics: Topics) -> bytes:
    """Return the journal, its snapshots and signals as the bytes of a log file."""
    lines: list[LogRecord] = []
    partitions = 0
    for name in TOPICS:
        topic = f"{topics.prefix}{name}"
        bounds = await offsets_of(address, topic)
        partitions = len(bounds) if name == "cases" else partitions
        async for _, records in read_range(address, bounds):
            lines += [_text_of(r, name) for r in records]
    lines.sort(key=lambda r: (TOPICS.index(r.topic), r.partition, r.offset))
    return packed(lines, partitions)


def packed(records: Iterable[LogRecord], partitions: int) -> bytes:
    """Return the bytes of a log file, without a packing timestamp."""
    lines = [msgspec.json.encode({"partitions": partitions}), *(msgspec.json.encode(r) for r in records)]
    return gzip.compress(b"\n".join(lines) + b"\n", compresslevel=9, mtime=0)


def _text_of(record: Any, topic: str) -> LogRecord:
    return LogRecord(
        topic=topic,
        partition=record.partition,
        offset=record.offset,
        timestamp=record.timestamp,
        key=_decoded(record.key),
        value=_decoded(record.value),
        headers=tuple((name, value.decode()) for name, value in record.headers),
    )


def _record(record: LogRecord) -> Record:
    return Record(
        record.topic,
        record.partition,
        record.offset,
        record.timestamp,
        None if record.key is None else record.key.encode(),
        None if record.value is None else record.value.encode(),
        tuple((name, value.encode()) for name, value in record.headers),
    )


def _decoded(value: bytes | None) -> str | None:
    return None if value is None else value.decode()


def by_partition(records: Iterable[Record]) -> Iterator[tuple[int, list[Record]]]:
    """Yield (partition, its records in log order)."""
    parts: dict[int, list[Record]] = {}
    for record in records:
        parts.setdefault(record.partition, []).append(record)
    yield from sorted(parts.items())
