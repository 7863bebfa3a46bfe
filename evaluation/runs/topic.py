"""``runs.<run_id>``: the journal of one run, and the lease that gives the run to one process.

A paid call is written here before it is used, so it is paid only once. Events: RunStarted · CallMade (one per model call, before
its case continues) · CaseReplayed (one per case and repeat) · RunEnded.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import msgspec

from evaluation.compare.code_identity import RunCode
from evaluation.runs.plan import RunPlan
from evaluation.runs.run_tables import RunCaseRow
from infra.kafka.topics import KafkaAddress, create_topics, known_topics, members_of, offsets_of, read_range
from newsproof.app.servers import say_on_stderr
from schemas.calls import Call
from schemas.errors import ConfigError, ContractError, TransientError
from schemas.ids import uuid5
from schemas.topics import Topics
from streams.journal.appender import Appender
from streams.lease import Lease

KEPT_DAYS = 180
"""Same retention as the rows in ClickHouse."""


class RunStarted(msgspec.Struct, frozen=True, tag="newsproof.run_started", tag_field="type"):
    """The plan; written again at every resumption. ``about``: the code of the run and of what it replays."""

    plan: RunPlan
    started_at: datetime
    about: RunCode | None = None


class CallMade(msgspec.Struct, frozen=True, tag="newsproof.call_made", tag_field="type"):
    """Calls made for one request, as answered. ``occurrence`` counts equal requests of the case from 0."""

    case_id: str
    repeat: int
    request_hash: str
    occurrence: int
    calls: tuple[Call, ...]


class CaseReplayed(msgspec.Struct, frozen=True, tag="newsproof.case_replayed", tag_field="type"):
    """A case ended in this run, or could not be replayed."""

    row: RunCaseRow


class RunEnded(msgspec.Struct, frozen=True, tag="newsproof.run_ended", tag_field="type"):
    """``status``: finished, or stopped before the last case."""

    status: str
    ended_at: datetime


RunEvent = RunStarted | CallMade | CaseReplayed | RunEnded
_decode = msgspec.json.Decoder(RunEvent).decode
CallKey = tuple[str, int, str, int]
"""(case id, repeat, request hash, occurrence)."""


class RunProgress(msgspec.Struct):
    """The part of a run that its topic already holds."""

    plan: RunPlan | None = None
    started_at: datetime | None = None
    calls: dict[CallKey, tuple[Call, ...]] = {}
    done: set[tuple[str, int]] = set()

    @property
    def spent(self) -> Decimal:
        """USD of the calls with a known price."""
        return sum((c.cost_usd for calls in self.calls.values() for c in calls if c.cost_usd is not None), Decimal(0))


def runs_topic(topics: Topics, run_id: str) -> str:
    return f"{topics.prefix}runs.{run_id}"


class RunTopic:
    """The topic of one run; :meth:`open` it before paying for anything."""

    def __init__(self, address: KafkaAddress, topics: Topics, run_id: str) -> None:
        self.name = runs_topic(topics, run_id)
        self._run_id = run_id
        self._address = address
        self._appender = Appender(address, client_id=f"newsproof-backtest-{run_id}")

    async def open(self, plan: RunPlan, *, replication: int, about: RunCode | None = None) -> RunProgress:
        """Create the topic or read it, then begin or resume the run.

        Raises:
            ConfigError: the topic holds a run with another plan.
        """
        await self.make(replication)
        progress = await self.read()
        if progress.plan is not None and (other := _differences(progress.plan, plan)):
            raise ConfigError(
                f"run {plan.run_id} was started with other options ({', '.join(other)}): resume it with the same ones, "
                "or choose another --run-id"
            )
        await self._appender.start()
        now = datetime.now(UTC)
        await self.write(RunStarted(plan, now, about), key="")
        progress.started_at = progress.started_at or now
        return progress

    async def read(self) -> RunProgress:
        progress = RunProgress()
        async for _, records in read_range(self._address, await offsets_of(self._address, self.name)):
            for record in records:
                self._take(progress, record)
        return progress

    def _take(self, progress: RunProgress, record: Any) -> None:
        try:
            event = _decode(record.value or b"")
        except msgspec.MsgspecError:
            return  # not an event of this run, so not a paid call
        match event:
            case RunStarted(plan=plan, started_at=at):
                progress.plan, progress.started_at = progress.plan or plan, progress.started_at or at
            case CallMade():
                progress.calls.setdefault(
                    (event.case_id, event.repeat, event.request_hash, event.occurrence), event.calls
                )
            case CaseReplayed(row=row):
                progress.done.add((row.case_id, row.repeat))
            case _:
                pass

    async def write(self, event: RunEvent, *, key: str) -> None:
        """Append one event; return when it is durable."""
        value = msgspec.json.encode(event)
        kind = str(event.__struct_config__.tag)
        now = datetime.now(UTC).isoformat(timespec="microseconds")
        headers = {
            "ce_specversion": "1.0",
            "content-type": "application/json",
            "ce_id": uuid5("run", self._run_id, kind, key, now),
            "ce_source": "newsproof-backtest",
            "ce_type": kind,
            "ce_time": now,
            "ce_subject": key or self._run_id,
            "ce_schemaversion": "1",
            "ce_runid": self._run_id,
        }
        encoded = [(name, text.encode()) for name, text in headers.items()]
        try:
            await self._appender.append(self.name, value, key=key.encode(), partition=0, headers=encoded)
        except ContractError as exc:
            raise ContractError(f"{kind} of case {key}: {exc}", reason=exc.reason) from exc

    async def close(self) -> None:
        await self._appender.stop()

    async def make(self, replication: int) -> None:
        """Create the topic unless it exists; return when the broker knows it."""
        config = {"retention.ms": str(KEPT_DAYS * 24 * 3600 * 1000), "cleanup.policy": "delete"}
        async with self._address.admin() as admin:
            if self.name not in await admin.list_topics():
                await create_topics(admin, {self.name: (1, config)}, replication)
                await known_topics(admin, [self.name])


def _differences(begun: RunPlan, asked: RunPlan) -> Sequence[str]:
    names = [n for n in RunPlan.__struct_fields__ if getattr(begun, n) != getattr(asked, n)]
    return [_IN_WORDS.get(name, name.replace("_", "-")) for name in names]


_IN_WORDS = {"prompts": "--prompt or MODEL_OPTIONS", "cases_from": "--from", "cases_to": "--to", "sample": "--sample",
             "repeat": "--repeat", "on_miss": "--on-miss", "code_version": "code", "watch": "--metric or --stop-when",
             "models": "--model", "log": "--sample-log or --file"}  # fmt: skip


SESSION_S = 30.0
"""Session timeout: the lease of a killed process, or of one too busy to send heartbeats, expires after this time."""
PATIENCE_S = 15.0
"""Additional time for joining the group."""


class RunLease(Lease):
    """The lease of a run. One process holds it; a process that is started for the same run waits for it."""

    def __init__(
        self, address: KafkaAddress, topic: str, run_id: str, *, group: str, session_s: float = SESSION_S
    ) -> None:
        """``topic`` exists and has one partition; no other run uses ``group``."""
        super().__init__(address, group, topic, session_s=session_s)
        self._run_id, self._within_s, self._said = run_id, session_s + PATIENCE_S, False

    async def take_in_time(self) -> None:
        """Take the lease.

        Raises:
            ConfigError: another process keeps it.
            TransientError: nobody keeps it, and Kafka does not assign it.
        """
        try:
            async with asyncio.timeout(self._within_s):
                await self.take(waiting=self._say)
        except TimeoutError as exc:
            await self.leave()
            if not await members_of(self._address, self._group):
                why = f" ({self.error})" if self.error else ""
                raise TransientError(
                    f"Kafka did not assign the run {self._run_id} to this process within {self._within_s:g} s{why}, though no "
                    "other has it: check the broker, and start the run again",
                    kind="unavailable",
                ) from exc
            raise ConfigError(
                f"another process works on the run {self._run_id}: wait for it, or choose another --run-id"
            ) from exc

    def _say(self) -> None:
        if not self._said:
            session_s = self._within_s - PATIENCE_S
            say_on_stderr(
                f"Another process works on the run {self._run_id}, or was killed less than {session_s:g} s ago. Waiting."
            )
        self._said = True
