"""Accounting: reads the fate of every hostile record from the log and compares it with the expected one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import msgspec

from infra.kafka.topics import KafkaAddress, offsets_of, read_range
from lab.hostile.sender import Sent
from schemas import envelope as wire
from schemas.budget import decode as decode_budget
from schemas.config import decode_snapshot
from schemas.envelope import read_publication
from schemas.errors import ContractError
from schemas.events import OPENING_NAME, TERMINAL_NAMES, WIRE_NAMES, CaseFailed
from schemas.news import decode_news
from schemas.topics import Topics
from streams.journal.clock import appended_at
from streams.journal.fold import JournalFold, parse_record

Place = tuple[str, int, int]
"""(topic without its prefix, partition, offset)."""


class Log(msgspec.Struct):
    """Contents of the log: sources of dead letters, ends of cases, and the classification of journal records and news."""

    dead_letters: set[Place] = msgspec.field(default_factory=set)
    ends: dict[str, str] = msgspec.field(default_factory=dict)
    opened: set[str] = msgspec.field(default_factory=set)
    case_of: dict[Place, str] = msgspec.field(default_factory=dict)
    accepted: dict[Place, bool] = msgspec.field(default_factory=dict)
    foreign: set[Place] = msgspec.field(default_factory=set)
    decodable_events: int = 0


async def read_log(address: KafkaAddress, topics: Topics) -> Log:
    """Read every topic once."""
    log = Log()
    await _read_letters(address, topics, log)
    await _read_journal(address, topics, log)
    async for tp, records in read_range(address, await offsets_of(address, topics.news)):
        for record in records:
            try:
                log.case_of["news", tp.partition, record.offset] = decode_news(
                    record.value, now=appended_at(record)
                ).case_id
            except ContractError:
                continue
    research = len(await offsets_of(address, topics.research))
    readers: dict[str, Any] = {
        "signals": read_publication,
        "configs": lambda r: decode_snapshot(r.key, r.value),
        "budget": lambda r: decode_budget(r.value),
        "research": lambda r: parse_record(r, research),
    }
    for name, read in readers.items():
        await _read_foreign(address, topics, name, read, log)
    return log


async def _read_letters(address: KafkaAddress, topics: Topics, log: Log) -> None:
    async for tp, records in read_range(address, await offsets_of(address, topics.dead_letters)):
        for record in records:
            h = dict(record.headers)
            if "dl_reason" not in h:
                log.foreign.add(("dead-letters", tp.partition, record.offset))
            elif "dl_offset" in h:
                topic = h["dl_topic"].decode().removeprefix(topics.prefix)
                log.dead_letters.add((topic, int(h["dl_partition"]), int(h["dl_offset"])))


async def _read_journal(address: KafkaAddress, topics: Topics, log: Log) -> None:
    bounds = await offsets_of(address, topics.cases)
    parts = {tp: JournalFold(first, partitions=len(bounds)) for tp, (first, _) in bounds.items()}
    async for tp, records in read_range(address, bounds):
        for record in records:
            env, accepted = parts[tp].judge(record)
            place = ("cases", tp.partition, record.offset)
            if env is None:
                continue
            log.accepted[place], log.case_of[place] = accepted, env.case_id
            if not accepted:
                continue
            try:
                wire.decode(env.type, env.version, record.value)
                log.decodable_events += 1
            except ContractError:
                pass
            if env.type == OPENING_NAME:
                log.opened.add(env.case_id)
            if env.type in TERMINAL_NAMES:
                log.ends[env.case_id] = env.type


async def _read_foreign(address: KafkaAddress, topics: Topics, name: str, read: Any, log: Log) -> None:
    async for tp, records in read_range(address, await offsets_of(address, topics.prefix + name)):
        for record in records:
            try:
                read(record)
            except ContractError:
                log.foreign.add((name, tp.partition, record.offset))


def settle(log: Log, sent: Iterable[Sent]) -> tuple[Counter[str], Counter[str]]:
    """Return the number of records by fate, and the number of unexpected fates by kind."""
    fates: Counter[str] = Counter()
    wrong: Counter[str] = Counter()
    for record in sent:
        fate = _fate(log, record)
        fates[fate] += 1
        if fate not in (record.fate, *_ALSO.get(record.fate, ())):
            wrong[f"{record.kind}: {fate} instead of {record.fate}"] += 1
    return fates, wrong


_ALSO: dict[str, tuple[str, ...]] = {"case_or_dead_letter": ("case", "dead_letter")}


def _fate(log: Log, record: Sent) -> str:
    place = (record.topic, record.partition, record.offset)
    case = log.case_of.get(place)
    end = log.ends.get(case) if case is not None else None
    if record.topic == "publisher-lease":
        return "ignored"
    if record.topic not in ("news", "cases"):
        return "foreign" if place in log.foreign else "unaccounted"
    if record.topic == "cases" and place in log.accepted:
        if not log.accepted[place]:
            return "passed_by"
        if place in log.dead_letters:
            return "failed_case" if end == WIRE_NAMES[CaseFailed] else "unaccounted"
        return "case" if end is not None else "unaccounted"
    if place in log.dead_letters:
        return "dead_letter"
    return "case" if end is not None else "unaccounted"
