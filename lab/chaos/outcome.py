"""The outcome of a chaos run: the injected faults, the findings, and their tables."""

from __future__ import annotations

from typing import Any

import msgspec

from newsproof.app import invocation
from streams.publish.publisher import TRANSACTION_TIMEOUT_MS

HOLD_LIMIT_S = TRANSACTION_TIMEOUT_MS / 1000 + 10.0
"""The transaction timeout, the broker's scan for timed-out transactions (1 s), and slack for an overloaded machine."""


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """The keys of ``lab chaos --json``.

    ``kills`` are SIGKILLs of workers, ``kills_by_boundary`` those of workers and the sink by failpoint. ``lost`` counts
    news without an end and ends without their signal. ``provider_calls`` is what the provider process received,
    ``case_calls`` what the accepted events hold. ``repeated_calls`` is the difference, and may be as large as
    ``calls_in_flight_at_kills`` (kills, freezes and rebalances), which the workers counted outside the log.
    """

    seed: int
    cases: int
    workers: int
    kills: int
    kills_by_boundary: dict[str, int]
    sink_kills: int
    broker_restarts: int
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
    offsets_past_open: int
    offsets_checked: int
    publisher_hold_s: float
    broker_return_s: float
    seconds: float
    findings: list[str]

    def invariants(self) -> list[tuple[str, str, str, bool]]:
        """Return (promise, found, allowed, held) of every invariant."""
        zero: list[tuple[str, Any]] = [
            ("cases lost", self.lost),
            ("duplicate events", self.duplicate_events),
            ("signals seen twice", self.duplicate_signals),
            ("rows missing in ClickHouse", self.sink_lost),
            ("rows too many in ClickHouse", self.sink_duplicates),
            (f"spent beyond a budget ({self.grants:,} grants, {self.denials:,} denials)", self.budget_overshoot),
            (f"committed offsets past an open case (of {self.offsets_checked:,} looked at)", self.offsets_past_open),
            ("blows that something did not come back from, and other findings", len(self.findings)),
        ]
        limit = self.calls_in_flight_at_kills
        return [
            *((name, f"{value:,}", "0", value == 0) for name, value in zero),
            ("every case has ended", f"{self.ended:,}", f"{self.cases:,}", self.ended == self.cases),
            (
                f"calls repeated (of {self.provider_calls:,} that the provider received)",
                f"{self.repeated_calls:,}",
                f"0 to {limit:,}, in flight at kills and rebalances",
                0 <= self.repeated_calls <= limit,
            ),
            (
                "readers held up by a killed publisher",
                f"{self.publisher_hold_s:.1f} s",
                f"{HOLD_LIMIT_S:g} s",
                self.publisher_hold_s <= HOLD_LIMIT_S,
            ),
        ]

    @property
    def held(self) -> bool:
        """Whether every invariant held."""
        return all(row[3] for row in self.invariants())


def show(outcome: Outcome) -> None:
    o = outcome
    faults: list[tuple[str, Any]] = [
        *((f"worker or sink killed at {point}", count) for point, count in sorted(o.kills_by_boundary.items())),
        ("workers killed (SIGKILL)", o.kills),
        ("sink killed (SIGKILL)", o.sink_kills),
        ("workers ended in order and started again (SIGTERM)", o.terminations),
        ("zombies (SIGSTOP past the session, SIGCONT)", o.zombies),
        ("workers joined", o.joins),
        ("workers left", o.leaves),
        ("broker killed and restarted", f"{o.broker_restarts} (away {o.broker_return_s:.1f} s at most)"),
        ("ClickHouse killed and restarted", o.clickhouse_kills),
        *((f"provider fault: {name}", f"{count:,} calls") for name, count in sorted(o.provider_faults.items())),
        ("cases degraded by them", o.degraded),
        ("cases failed by them (dead letters)", o.failed),
        ("journal records passed by", o.passed_by),
        ("processes that ended of themselves", len(o.surprises)),
    ]
    title = f"{o.cases:,} cases, {o.workers} workers, seed {o.seed}, {o.seconds:.0f} s"
    invocation.table(("fault", "dealt"), faults, title=title, right=("dealt",))
    rows = [(promise, found, allowed, "yes" if held else "NO") for promise, found, allowed, held in o.invariants()]
    invocation.table(("invariant", "found", "allowed", "held"), rows, right=("found",))
    for finding in o.findings:
        invocation.say_result(f"finding: {finding}")
