"""Runs for tests of comparing: rows with everything usual, but for what a test says."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from newsproof.compare.rows import CaseRow, RunRows

USUAL: dict[str, Any] = {
    "repeat": 0,
    "status": "replayed",
    "event_type": "listing",
    "asset": "BTC",
    "action": "buy",
    "direction": "long",
    "confidence": 0.6,
    "has_signal": 1,
    "executed": 0,
    "reused": 4,
    "missed": 0,
    "cost_usd": Decimal(0),
    "unpriced_calls": 0,
    "avoided_cost_usd": Decimal("0.002"),
    "would_have_cost_usd": Decimal("0.002"),
    "latency_ms": None,
    "look_ahead": 0,
    "after_training_cutoff": 0,
    "signal_hash": 1,
    "notes_hash": 1,
}


def case(name: str, story: str = "", **changes: Any) -> CaseRow:
    """Return one row; a case is its own story where none is named."""
    return CaseRow(**USUAL | {"case_id": name, "story_id": story or name} | changes)


def called(cost: str, latency_ms: float, calls: int = 1) -> dict[str, Any]:
    """Return what a case has whose calls were executed."""
    spent = Decimal(cost)
    return {
        "executed": calls,
        "reused": 0,
        "cost_usd": spent,
        "latency_ms": latency_ms,
        "avoided_cost_usd": None,
        "would_have_cost_usd": spent,
    }


def run(
    name: str,
    rows: list[CaseRow],
    cases: int | None = None,
    returns: Mapping[int, Mapping[str, float]] | None = None,
    **changes: Any,
) -> RunRows:
    """Return a finished run of these rows; ``returns`` by horizon and case make its hits, as the view does."""
    hits = {horizon: _hits(rows, of_case) for horizon, of_case in (returns or {}).items()}
    count = len({row.case_id for row in rows}) if cases is None else cases
    return RunRows(**{"run_id": name, "cases": count, "rows": rows, "hits": hits, "status": "finished"} | changes)


def _hits(rows: list[CaseRow], returns: Mapping[str, float]) -> dict[tuple[str, int], int]:
    side = {"long": 1, "short": -1}
    return {
        (row.case_id, row.repeat): int(returns[row.case_id] * side[row.direction] > 0)
        for row in rows
        if row.case_id in returns and row.direction in side and row.has_signal
    }
