"""What bots report to people besides signals: briefs of investigations and watches, a budget that is almost used, and a
verification that fails."""

from __future__ import annotations

from bisect import insort
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import Any, Literal

import msgspec

from agents.text.wording import Language, term
from infra.clickhouse.record import epoch_ms
from infra.kafka.topics import KafkaAddress
from schemas import envelope as wire
from schemas.budget import nano_usd, usd_of
from schemas.events import WIRE_NAMES
from schemas.printable import shortened
from schemas.research_events import BriefWritten
from schemas.signals import Signal
from schemas.topics import Topics
from streams.budget.reading import fold_budget
from streams.budget.rule import BudgetState
from streams.journal.clock import appended_at
from streams.journal.log import Cursor, Log, starts_since
from streams.journal.reader import JournalReader

LOW = 0.1
"""Share that is left, below which the page warns, too (``newsproof.web.operations``)."""
BACK = timedelta(days=1)
"""Age of the oldest brief that is read at the start. Older ones are late for any bot."""
IN_A_ROW = 5
"""Signals in a row whose check failed, from which on the verification counts as failing."""
_SUBJECT, _SENTENCE, _SENTENCES = 100, 300, 3
_BRIEF = WIRE_NAMES[BriefWritten]


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """One report. ``id`` is the same for equal events, so that nobody hears of one twice. ``path``: of our page."""

    id: str
    kind: Literal["investigation", "budget", "outage"]
    line: str
    text: str
    path: str
    at: datetime


class Briefs:
    """The briefs of investigations as they are written. A watch's brief without anything new is none."""

    def __init__(self, cursor: Cursor, folds: Any, language: Language) -> None:
        self._cursor, self._folds, self._language = cursor, folds, language

    @classmethod
    @asynccontextmanager
    async def following(cls, log: Log, topics: Topics, language: Language, now: datetime) -> AsyncIterator[Briefs]:
        """Follow the journal of investigations from a day before ``now`` (UTC)."""
        reader = JournalReader(log, topics.research)
        folds = await reader.begin(await starts_since(log, topics.research, epoch_ms(now - BACK)))
        async with log.follow({tp: fold.position for tp, fold in folds.items()}) as cursor:
            yield cls(cursor, folds, language)

    async def new(self) -> list[Report]:
        """Return the reports since the last call, without waiting for more."""
        batches = await self._cursor.next(0.0)
        return [report for tp, records in batches.items() for report in self._of(tp, records)]

    def _of(self, tp: Any, records: Any) -> Iterator[Report]:
        for env, record in self._folds[tp].accept(records):
            if env.type == _BRIEF:
                brief = wire.decode(env.type, env.version, record.value)
                if isinstance(brief, BriefWritten) and (brief.previous is None or brief.new_since):
                    yield report_of(brief, env.case_id, appended_at(record), self._language)


def report_of(brief: BriefWritten, id: str, at: datetime, language: Language) -> Report:
    """Return the report of a brief: how many claims of each kind, and the first sentences."""
    zh = language == "zh"
    counts = [len(brief.established), len(brief.disputed), len(brief.unsettled)]
    head = ("简报：{}" if zh else "BRIEF: {}").format(shortened(brief.subject, _SUBJECT))
    counted = ("已证实 {}，有争议 {}，未定 {}" if zh else "{} established, {} disputed, {} unsettled").format(*counts)
    if brief.previous is not None:
        counted += (" · 新变化 {}" if zh else " · {} new").format(len(brief.new_since))
    line = f"{head} · {counted}"
    sentences = [*brief.established, *brief.disputed, *brief.unsettled][:_SENTENCES]
    text = "\n".join([line, *(shortened(sentence.text, _SENTENCE) for sentence in sentences)])
    return Report(id=id, kind="investigation", line=line, text=text, path=f"investigations/{id}", at=at)


class BudgetWatch:
    """Tells once a month that its money is almost used, and once a day that its tool calls are."""

    def __init__(self, address: KafkaAddress, topics: Topics, language: Language) -> None:
        self._address, self._topics, self._language = address, topics, language
        self._state, self._next = BudgetState(), 0

    async def new(self, now: datetime) -> list[Report]:
        """Return the reports of what is almost used at ``now`` (UTC)."""
        self._next = await fold_budget(self._address, self._topics, self._state, self._next)
        return list(low_budget(self._state, now, self._language))


def low_budget(state: BudgetState, now: datetime, language: Language) -> Iterator[Report]:
    """Yield a report for the month's money and for the day's tool calls, if less than :data:`LOW` of it is left."""
    if (limits := state.limits) is None:
        return
    money, _, units = state.left(now)
    zh = language == "zh"
    if money < LOW * nano_usd(limits.monthly_usd):
        left = f"{usd_of(max(money, 0)):.2f}"
        text = f"本月预算即将用完：共 {limits.monthly_usd} 美元，剩余 {left} 美元" if zh else (
            f"MONTHLY BUDGET ALMOST USED: {left} USD of {limits.monthly_usd} USD left"
        )  # fmt: skip
        yield _of_budget(f"budget:{now:%Y-%m}", text, now)
    if units < LOW * limits.daily_units:
        text = f"今日搜索次数即将用完：共 {limits.daily_units} 次，剩余 {max(units, 0)} 次" if zh else (
            f"TODAY'S TOOL CALLS ALMOST USED: {max(units, 0)} of {limits.daily_units} left"
        )  # fmt: skip
        yield _of_budget(f"budget:{now:%Y-%m-%d}", text, now)


def _of_budget(id: str, text: str, now: datetime) -> Report:
    return Report(id=id, kind="budget", line=text, text=text, path="operations", at=now)


class OutageWatch:
    """Reports once an hour that the verification fails: nothing was checked for the newest :data:`IN_A_ROW` signals, since every
    search or the model failed. Signals without a check for another reason, such as the budget, say nothing about that."""

    def __init__(self, language: Language) -> None:
        self._language = language
        self._newest: list[tuple[datetime, str, str]] = []
        """(decided, signal, how its check failed; empty: it did not), in the order of time: partitions come in any order."""

    def take(self, signal: Signal) -> None:
        """Apply a revision. Revisions may come in any order."""
        failed = (signal.unchecked_reason or "").startswith(("search_failed:", "degraded:"))
        if signal.stage == "final" and (failed or signal.unchecked_reason is None):
            insort(self._newest, (signal.decided_at, signal.signal_id, signal.unchecked_reason or ""))
            del self._newest[:-IN_A_ROW]

    def new(self) -> list[Report]:
        """Return the report, dated by the newest signal, while the verification fails."""
        if len(self._newest) < IN_A_ROW or not all(failed for *_, failed in self._newest):
            return []
        at, _, failed = self._newest[-1]
        why = term(failed).of(self._language)
        text = f"核查持续失败：最近 {IN_A_ROW} 条信号均未核查 · {why}" if self._language == "zh" else (
            f"VERIFICATION FAILS: none of the last {IN_A_ROW} signals could be checked · {why}"
        )  # fmt: skip
        id = f"outage:{at:%Y-%m-%dT%H}"
        return [Report(id=id, kind="outage", line=text, text=text, path="operations", at=at)]
