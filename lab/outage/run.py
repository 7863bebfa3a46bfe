"""Runs an outage: a steady stream of news, and one provider that is down for a while."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from datetime import timedelta
from importlib import resources
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

import msgspec

from agents.core.case import Case
from agents.prompts import load_prompts
from agents.tables import load_tables
from infra.offline.model import OfflineModel
from infra.offline.search import OfflineSearch
from infra.ports import Ports
from lab.outage.ports import FailingProvider
from lab.outage.report import Minute, OutageReport
from lab.outage.worker import MemoryWorker
from schemas.config import Snapshot
from schemas.errors import FailureKind
from schemas.events import SignalSynthesized
from schemas.news import News
from streams.effects.breakers import Breakers
from streams.effects.host import EffectsHost
from streams.wake import Wake
from tests.empty_journal import EmptyJournal
from tests.virtual_time import run_virtually, virtual_now, virtual_s

Trouble = Literal["search", "heavy", "light"]
SAYS_SO = ("search_skipped:", "degraded:", "not_deep_analysed")
"""Prefixes of the flags with which a signal reports that something could not be done."""


def outage(
    trouble: Trouble,
    *,
    fallback: bool = False,
    kind: FailureKind = "unavailable",
    says_until: bool = False,
    before_min: int = 3,
    away_min: int = 10,
    after_min: int = 5,
    news_per_min: int = 12,
) -> OutageReport:
    """Run an outage in simulated time and return its report. Call it outside any running loop; it takes seconds.

    The worker's components (dispatcher, fold, results, admission, effects host, breakers) and all their delays are
    those of production; the journal is in memory. The providers are the offline ones, each with a latency of half a
    second. ``says_until``: the failures name the end of the outage, as a day's quota does.
    """
    began = time.perf_counter()
    run = _Run(trouble, fallback, kind, says_until, (before_min, away_min, after_min), news_per_min)
    simulated_s = run_virtually(run.go())
    return run.report(simulated_s, time.perf_counter() - began)


class _Run:
    def __init__(
        self,
        trouble: Trouble,
        fallback: bool,
        kind: FailureKind,
        says_until: bool,
        minutes: tuple[int, int, int],
        news_per_min: int,
    ) -> None:
        self._trouble, self._fallback, self._kind, self._per_min = trouble, fallback, kind, news_per_min
        self._from, self._until = minutes[0], minutes[0] + minutes[1]
        self._until_s = 60.0 * self._until if says_until else None
        self._minutes = sum(minutes)
        self._ended: list[tuple[int, float, Case]] = []
        self._worker: MemoryWorker
        self._port: FailingProvider

    async def go(self) -> float:
        ports = self._ports()
        wake = Wake()
        breakers = Breakers(wake=wake, clock=virtual_s, now=virtual_now, draw=lambda: 0.5)
        host = EffectsHost(ports, breakers=breakers, clock=virtual_s, now=virtual_now)
        config = Snapshot(
            deep_analysis_tools_enabled=True,
            phase1_rollout_percentage=1.0,
            prompts=load_prompts(),
            tables=load_tables(demo=True),
        )
        sample = _sample()
        with TemporaryDirectory() as slot_dir:
            self._worker = MemoryWorker(host, config, wake, Path(slot_dir), self._on_end)
            async with self._worker.working():
                for number in range(self._minutes * self._per_min):
                    self._worker.publish(_news(sample[number % len(sample)], number))
                    await asyncio.sleep(60 / self._per_min)
                await self._worker.finish()
        self.states = Counter(str(s.state) for s in host.states())
        return virtual_s()

    def _ports(self) -> Ports:
        model, search = OfflineModel(), OfflineSearch()
        made = {
            name: FailingProvider(
                inner, name=name, away=self._away_for(name), kind=self._kind, latency_s=0.5, until_s=self._until_s
            )
            for name, inner in (("light", model), ("heavy", model), ("search", search), ("fallback", model))
        }
        self._port = made[self._trouble]
        made["search"].provider, made["search"].model = "offline", ""
        tiers = {name: made[name] for name in ("light", "heavy")}
        behind: dict[str, Any] = {self._trouble: (made["fallback"],)} if self._fallback else {}
        journal = EmptyJournal()
        return Ports(
            models=dict(tiers),
            fallbacks=behind,
            search={"offline": made["search"]},
            recall=journal,
            earlier=journal,
            story=journal,
        )

    def _away_for(self, name: str) -> Any:
        return lambda: name == self._trouble and self._from * 60 <= virtual_s() < self._until * 60

    def _on_end(self, case: Case) -> None:
        number = int(case.news.external_id or 0)
        published_s = number * 60 / self._per_min
        self._ended.append((number // self._per_min, virtual_s() - published_s, case))

    def report(self, simulated_s: float, real_s: float) -> OutageReport:
        flags: Counter[str] = Counter()
        minutes = []
        for minute in range(max([*self._port.asked, self._minutes - 1]) + 1):
            kinds: Counter[str] = Counter()
            slowest_s = 0.0
            for _, took_s, case in (e for e in self._ended if e[0] == minute):
                flags_of_case = _flags_of(case)
                kinds["failed" if flags_of_case is None else "marked" if flags_of_case else "whole"] += 1
                flags.update(flags_of_case or ())
                slowest_s = max(slowest_s, took_s)
            away = self._from <= minute < self._until
            minutes.append(
                Minute(minute=minute, away=away, asked=self._port.asked[minute], slowest_s=slowest_s, **kinds)
            )
        return OutageReport(
            trouble=self._trouble,
            kind=self._kind,
            fallback=self._fallback,
            minutes=tuple(minutes),
            flags=dict(flags),
            held_back=self._worker.most_held_back,
            states=dict(self.states),
            simulated_s=simulated_s,
            real_s=real_s,
        )


def _flags_of(case: Case) -> tuple[str, ...] | None:
    if not isinstance(case.head, SignalSynthesized):
        return None if type(case.head).__name__ == "CaseFailed" else ()
    return tuple(f for f in case.head.signal.risk_flags if f.startswith(SAYS_SO))


def _sample() -> list[dict[str, Any]]:
    # Items that pass the gate by themselves, so that every case needs every provider.
    lines = resources.files("infra.offline").joinpath("sample/history.jsonl").read_bytes().splitlines()
    items = [msgspec.json.decode(line) for line in lines if line.strip()]
    return [item for item in items if item["event_type"] in {"hack", "depeg", "liquidation"}]


def _news(item: dict[str, Any], number: int) -> News:
    published = msgspec.convert(item["published_at"], type=type(virtual_now())) + timedelta(seconds=number)
    return News(
        source="outage", external_id=str(number), text=item["text"], language=item["lang"], published_at=published
    )
