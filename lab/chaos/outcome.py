"""The outcome of a chaos run: the injected faults, the findings, and their tables."""

from __future__ import annotations

from typing import Any

import msgspec

from newsproof.app import sheet
from streams.publish.publisher import TRANSACTION_TIMEOUT_MS

HOLD_LIMIT_S = TRANSACTION_TIMEOUT_MS / 1000 + 10.0
"""The transaction timeout, the broker's scan for timed-out transactions (1 s), and slack for an overloaded machine."""


class Research(msgspec.Struct, frozen=True, kw_only=True):
    """The research flow in a run: questions, investigations, and investigations that a watch opened.

    ``asked``: those confirmed to be in the log, or found there. ``ended_once``: those of them with exactly one end.
    ``ends``: by terminal event. ``calls``: by kind, model and search calls in accepted events.
    """

    workers: int
    kills: int
    zombies: int
    watches: int
    asked: int
    ended_once: int
    ends: dict[str, int]
    provider_calls: int
    calls: dict[str, int]
    repeated_calls: int
    calls_in_flight_at_kills: int

    def invariants(self) -> list[tuple[str, str, str, bool]]:
        """As :meth:`Outcome.invariants`."""
        once = "every question and investigation has exactly one end"
        return [
            (once, f"{self.ended_once:,}", f"{self.asked:,}", self.ended_once == self.asked),
            _repeated("research calls", self.repeated_calls, self.provider_calls, self.calls_in_flight_at_kills),
        ]


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """The keys of ``lab chaos --json``.

    ``kills`` are SIGKILLs of workers of the news flow, ``kills_by_boundary`` those of all workers and the sink by
    failpoint. ``coordinator_kills``: those of ``broker_restarts`` that hit one of several brokers, by the thing that it
    coordinated. ``lost`` counts news, questions and investigations without an end, and ends without their signal.
    ``provider_calls`` to ``calls_in_flight_at_kills`` cover only cases; ``research`` has its own. All other findings
    cover both. ``asked_again``: accepted replies to a call that had one already. ``provider_calls``: calls that the
    provider process received. ``case_calls``: calls in accepted events. ``repeated_calls`` is the difference. It may be
    as large as ``calls_in_flight_at_kills`` (kills, freezes and rebalances), which the workers counted outside the log.
    """

    seed: int
    cases: int
    workers: int
    brokers: int
    kills: int
    kills_by_boundary: dict[str, int]
    sink_kills: int
    broker_restarts: int
    coordinator_kills: dict[str, int]
    zombies: int
    clickhouse_kills: int
    terminations: int
    joins: int
    leaves: int
    provider_faults: dict[str, int]
    surprises: list[str]
    ended: int
    lost: int
    duplicate_events: int
    duplicate_signals: int
    passed_by: int
    degraded: int
    failed: int
    sink_lost: int
    sink_duplicates: int
    budget_overshoot: int
    grants: int
    denials: int
    provider_calls: int
    case_calls: int
    repeated_calls: int
    calls_in_flight_at_kills: int
    asked_again: int
    offsets_past_open: int
    offsets_checked: int
    publisher_hold_s: float
    broker_return_s: float
    research: Research
    seconds: float
    findings: list[str]

    def invariants(self) -> list[tuple[str, str, str, bool]]:
        """Return (guarantee, found, allowed, held) of every invariant."""
        zero: list[tuple[str, Any]] = [
            ("cases, questions and investigations lost", self.lost),
            ("duplicate events", self.duplicate_events),
            ("signals seen twice", self.duplicate_signals),
            ("rows missing in ClickHouse", self.sink_lost),
            ("rows too many in ClickHouse", self.sink_duplicates),
            (f"spent beyond a budget ({self.grants:,} grants, {self.denials:,} denials)", self.budget_overshoot),
            ("calls made again after an accepted reply", self.asked_again),
            (f"committed offsets past an open case (of {self.offsets_checked:,} looked at)", self.offsets_past_open),
            ("faults without a recovery, and other findings", len(self.findings)),
        ]
        return [
            *((name, f"{value:,}", "0", value == 0) for name, value in zero),
            ("every case has ended", f"{self.ended:,}", f"{self.cases:,}", self.ended == self.cases),
            _repeated("calls", self.repeated_calls, self.provider_calls, self.calls_in_flight_at_kills),
            *self.research.invariants(),
            (
                "readers held up by a killed publisher",
                f"{self.publisher_hold_s:.1f} s",
                f"{HOLD_LIMIT_S:g} s",
                self.publisher_hold_s <= HOLD_LIMIT_S,
            ),
        ]

    @property
    def held(self) -> bool:
        """True if every invariant held."""
        return all(row[3] for row in self.invariants())


def _repeated(what: str, repeated: int, received: int, limit: int) -> tuple[str, str, str, bool]:
    name = f"{what} repeated (of {received:,} that the provider received)"
    return (name, f"{repeated:,}", f"0 to {limit:,}, in flight at kills and rebalances", 0 <= repeated <= limit)


def show(outcome: Outcome) -> None:
    o = outcome
    faults: list[tuple[str, Any]] = [
        *((f"worker or sink killed at {point}", count) for point, count in sorted(o.kills_by_boundary.items())),
        ("workers killed (SIGKILL)", o.kills),
        ("research workers killed (SIGKILL)", o.research.kills),
        ("sink killed (SIGKILL)", o.sink_kills),
        ("workers ended in order and started again (SIGTERM)", o.terminations),
        ("zombies (SIGSTOP past the session, SIGCONT)", o.zombies),
        ("research zombies", o.research.zombies),
        ("workers joined", o.joins),
        ("workers left", o.leaves),
        ("broker killed and restarted", f"{o.broker_restarts} (away {o.broker_return_s:.1f} s at most)"),
        *((f"brokers killed that coordinated {what}", count) for what, count in sorted(o.coordinator_kills.items())),
        ("ClickHouse killed and restarted", o.clickhouse_kills),
        *((f"provider fault: {name}", f"{count:,} calls") for name, count in sorted(o.provider_faults.items())),
        ("cases degraded by them", o.degraded),
        ("cases failed by them (dead letters)", o.failed),
        ("watches set, each due once", o.research.watches),
        *((f"questions and investigations that ended as {name}", n) for name, n in sorted(o.research.ends.items())),
        *((f"research calls: {kind}", f"{n:,}") for kind, n in sorted(o.research.calls.items())),
        ("journal records passed by", o.passed_by),
        ("processes that ended of themselves", len(o.surprises)),
    ]
    asked = f"{o.research.asked:,} questions and investigations, {o.research.workers} research workers"
    title = f"{o.cases:,} cases, {o.workers} workers, {o.brokers} {'broker' if o.brokers == 1 else 'brokers'}; {asked}; seed {o.seed}, {o.seconds:.0f} s"
    sheet.table(("fault", "dealt"), faults, title=title, right=("dealt",))
    rows = [
        (promise, violations, allowed, "yes" if held else "NO") for promise, violations, allowed, held in o.invariants()
    ]
    sheet.table(("invariant", "found", "allowed", "held"), rows, right=("found",))
    for finding in o.findings:
        sheet.say_result(f"finding: {finding}")
