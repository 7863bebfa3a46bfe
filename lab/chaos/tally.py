"""Counts the logs' content after a run, in one pass of the journal and one of signals, without any runtime state."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

import msgspec

from infra.kafka.topics import KafkaAddress, offsets_of, read_range
from lab.chaos.watch import Sample
from schemas import envelope as wire
from schemas.events import TERMINAL_NAMES, WIRE_NAMES, SignalSynthesized
from schemas.published import OFFSET, PARTITION, REVISION
from schemas.topics import Topics
from streams.journal.fold import JournalFold

CALLS_A_RECORD = 256
"""Factor that leaves room for the call's index in a row's key."""
_NEVER_MADE = frozenset({"breaker_open", "budget", "not_configured"})
"""Errors of calls that never reached a provider: a breaker, the budget or missing configuration answered."""
_SYNTHESIZED = WIRE_NAMES[SignalSynthesized]


def place(partition: int, offset: int) -> int:
    """Return one number for a record's position in the journal."""
    return partition << 48 | offset


class _Call(msgspec.Struct):
    kind: str
    cached: bool = False
    error: str | None = None


class _Costs(msgspec.Struct):
    calls: tuple[_Call, ...] = ()


class Tally:
    """The rows that ClickHouse must hold, the calls of the cases, and offsets that were committed too far.

    ``rows`` maps a table to the keys of its rows: the record's position; where a row is a call, that times
    :data:`CALLS_A_RECORD` plus the call's index. ``case_calls`` counts the calls in accepted events that reached a
    provider.
    """

    def __init__(self, samples: Iterable[Sample]) -> None:
        self.rows: dict[str, set[int]] = {
            name: set() for name in ("events", "memories", "llm_calls", "tool_calls", "signals")
        }
        self.case_calls = self.passed_by_calls = self.ended = 0
        self.past_open: list[str] = []
        self.signals_seen: set[tuple[bytes, bytes]] = set()
        self._samples: dict[int, deque[Sample]] = defaultdict(deque)
        for sample in sorted(samples, key=lambda s: s.end):
            self._samples[sample.partition].append(sample)
        self._decode = msgspec.json.Decoder(_Costs).decode

    @property
    def unpublished(self) -> int:
        """Number of signal ends whose signal no read_committed reader finds."""
        return len(self.rows["memories"] - self.rows["signals"])

    async def read(self, address: KafkaAddress, topics: Topics) -> None:
        """Read both topics up to their current ends."""
        bounds = await offsets_of(address, topics.cases)
        parts = {tp: JournalFold(first) for tp, (first, _) in bounds.items()}
        async for tp, records in read_range(address, bounds):
            for record in records:
                self._check_samples(tp.partition, parts[tp], record.offset)
                env, accepted = parts[tp].judge(record)
                if env is not None:
                    self._see(env, accepted, record)
        for tp, part in parts.items():
            self._check_samples(tp.partition, part, part.accepted.position + 1)
        committed: dict[str, Any] = {"isolation_level": "read_committed"}
        spans = await offsets_of(address, topics.signals, **committed)
        async for _, records in read_range(address, spans, **committed):
            for record in records:
                headers = dict(record.headers)
                self.rows["signals"].add(place(int(headers[PARTITION]), int(headers[OFFSET])))
                self.signals_seen.add((record.key, headers[REVISION]))

    def _check_samples(self, partition: int, part: JournalFold, upto: int) -> None:
        """Check the samples whose end lies at or before this record, since the fold's state is that of their time."""
        waiting = self._samples[partition]
        while waiting and waiting[0].end <= upto:
            sample = waiting.popleft()
            watermark = part.accepted.watermark
            if sample.committed > watermark:
                self.past_open.append(
                    f"{sample.group} had committed {sample.committed} of partition {partition} "
                    f"while a case opened at {watermark} was open"
                )

    def _see(self, env: wire.Envelope, accepted: bool, record: Any) -> None:
        key = place(record.partition, record.offset)
        if accepted:
            self.rows["events"].add(key)
            self.ended += env.type in TERMINAL_NAMES
            if env.type == _SYNTHESIZED:
                self.rows["memories"].add(key)
        if record.value and b'"calls":' in record.value:
            with suppress(msgspec.DecodeError):
                self._see_calls(key, accepted, self._decode(record.value).calls)

    def _see_calls(self, key: int, accepted: bool, calls: tuple[_Call, ...]) -> None:
        for index, call in enumerate(calls):
            self.rows["llm_calls" if call.kind == "model" else "tool_calls"].add(key * CALLS_A_RECORD + index)
            if call.cached or call.error in _NEVER_MADE:
                continue
            if accepted:
                self.case_calls += 1
            else:
                self.passed_by_calls += 1
