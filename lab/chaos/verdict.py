"""The verdict: compares the logs, the tables and the provider's counts with the injected faults, once all is idle."""

from __future__ import annotations

from typing import Any

from lab.chaos.asker import Asker, must_end
from lab.chaos.fault_injector import FaultInjector
from lab.chaos.installation import Installation
from lab.chaos.outcome import Outcome, Research
from lab.chaos.tally import TableComparison, Tally, compare_tables
from lab.chaos.watch import Watch
from newsproof.app.composition import clickhouse_of
from streams.audit.audit import AuditReport, audit
from streams.journal.log import KafkaLog
from streams.watches.reading import read_watches
from tests.budget_audit import BudgetAudit, budget_overshoot


async def verdict(
    at: Installation, watch: Watch, injector: FaultInjector, asker: Asker, findings: list[str]
) -> Outcome:
    """Read everything, stop the services, and return the outcome; the caller sets its ``seconds``."""
    tally = Tally(watch.samples)
    await tally.read(at.address, at.topics)
    async with clickhouse_of(at.settings) as client:
        tables = await compare_tables(client, tally)
    await at.stop_services()  # only then are the counters of calls in flight exact
    calls, _, research_calls = await at.provider.counts()
    watches = await read_watches(KafkaLog(at.address), at.topics)
    asked = tally.opened | must_end(asker.asked, asker.watches, watches)
    report = await audit(KafkaLog(at.address), at.topics)
    budget = await budget_overshoot(at.address, at.topics)
    more = [f"ClickHouse: {table}" for table in tables if not table.exact] + tally.past_open[:20]
    more += [f"the watch {fired.set.id} fired {fired.n} times" for fired in watches.watches.values() if fired.n > 1]
    if missed := tally.signals_seen - watch.seen.keys():
        more.append(f"{len(missed)} signals never came to the subscriber of the whole run")
    return Outcome(
        **_injected(at, injector),
        **_findings(tally, tables, report, budget),
        lost=report.lost + tally.unpublished + len(asked - tally.opened),
        research=_research(at, injector, asker, tally, asked, research_calls),
        cases=report.cases,
        duplicate_signals=report.duplicate_signals + sum(count - 1 for count in watch.seen.values()),
        provider_calls=calls - research_calls,
        case_calls=tally.case_calls,
        repeated_calls=calls - research_calls - tally.case_calls,
        calls_in_flight_at_kills=at.exposed,
        offsets_checked=tally.samples_checked,
        publisher_hold_s=round(watch.longest_hold_s, 2),
        seconds=0.0,
        findings=[*findings, *more],
    )


def _research(
    at: Installation, injector: FaultInjector, asker: Asker, tally: Tally, asked: set[str], received: int
) -> Research:
    return Research(
        workers=at.shape.research_workers,
        kills=injector.injected["research_kill"],
        zombies=injector.injected["research_zombie"],
        watches=len(asker.watches),
        asked=len(asked),
        ended_once=sum(tally.ends[id] == 1 for id in asked),
        ends=dict(tally.ends_as),
        provider_calls=received,
        calls=dict(tally.research_calls),
        repeated_calls=received - tally.research_calls.total(),
        calls_in_flight_at_kills=sum(child.exposed for child in at.research),
    )


def _injected(at: Installation, injector: FaultInjector) -> dict[str, Any]:
    injected = injector.injected
    return {
        "seed": at.shape.seed,
        "workers": at.shape.workers,
        "brokers": at.shape.brokers,
        "kills": injected["kill"],
        "kills_by_boundary": dict(injector.points),
        "sink_kills": injected["sink_kill"],
        "broker_restarts": injected["broker"],
        "coordinator_kills": dict(at.kafka.coordinator_kills),
        "zombies": injected["zombie"],
        "clickhouse_kills": injected["clickhouse"],
        "terminations": injected["terminate"],
        "joins": injected["join"],
        "leaves": injected["leave"],
        "provider_faults": dict(injector.provider_faults),
        "broker_return_s": round(max(at.kafka.return_s, default=0.0), 2),
        "surprises": at.surprises,
    }


def _findings(tally: Tally, tables: list[TableComparison], report: AuditReport, budget: BudgetAudit) -> dict[str, Any]:
    return {
        "ended": tally.ended,
        "asked_again": tally.asked_again,
        "duplicate_events": report.duplicate_events,
        "passed_by": report.repeated_records,
        "degraded": report.degraded,
        "failed": report.failed,
        "sink_lost": sum(table.lost for table in tables),
        "sink_duplicates": sum(table.duplicates + table.strange for table in tables),
        "budget_overshoot": budget.overshoot,
        "grants": budget.granted,
        "denials": budget.denied,
        "offsets_past_open": len(tally.past_open),
    }
