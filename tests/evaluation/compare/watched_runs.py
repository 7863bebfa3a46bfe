"""A shadow run beside live in ClickHouse: cases a day, live's confidence and the candidate's, day by day."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from evaluation.runs.plan import RunPlan
from infra.clickhouse.client import ClickHouse
from newsproof.app.version import code_version

BEGAN = datetime(2026, 3, 1, 12, tzinfo=UTC)
A_DAY = 2


async def fill(
    tables: ClickHouse, plan: RunPlan, changes_of_days: Sequence[float], *, code_is_recorded: bool = True
) -> None:
    """Write two cases a day; the candidate's confidence is live's 0.6 plus the day's change, give or take 0.01."""
    signals: list[dict[str, Any]] = []
    cases: list[dict[str, Any]] = []
    for day, change in enumerate(changes_of_days):
        for number in range(A_DAY):
            at, case = BEGAN + timedelta(days=day, hours=number), f"case-{day}-{number}"
            told = {
                "case_id": case,
                "confidence": 0.6,
                "provider_mode": "offline",
                "knowable_at": ms(at),
                "decided_at": ms(at),
                "emitted_at": ms(at),
            }
            signals.append(told | {"run_id": "live", "signal_id": case, "revision": 1, "stage": "final"})
            row = {"run_id": plan.run_id, "case_id": case, "repeat": 0, "story_id": case, "status": "replayed"}
            row |= {"received_at": ms(at), "knowable_at": ms(at), "published_at": ms(at), "has_signal": 1}
            row |= {"confidence": 0.6 + change + (0.01 if day % 2 else -0.01), "started_at": ms(datetime.now(UTC))}
            cases.append(row | {"version": 1})
    for table, rows in (("signals", signals), ("run_cases", cases)):
        await tables.insert(table, list(rows[0]), [tuple(row.values()) for row in rows])
    run = {"run_id": plan.run_id, "label": "x", "status": "running", "changes": plan.changes, "version": 1}
    run |= {"code_version": code_version(), "recorded_code": [code_version()] * code_is_recorded}
    run |= {"started_at": ms(BEGAN), "cases_from": ms(BEGAN), "cases_to": ms(BEGAN)}
    await tables.insert("runs", list(run), [tuple(run.values())])


def ms(at: datetime) -> int:
    return round(at.timestamp() * 1000)
