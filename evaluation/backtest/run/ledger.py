"""The table ``trials``: one row per run, read as a whole, for there are hundreds of runs and not millions."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Literal

import msgspec

from evaluation.backtest.run.plan import RunPlan
from infra.clickhouse.client import ClickHouse
from infra.clickhouse.record import epoch_ms
from schemas.ids import content_hash

TrialLog = Literal["journal", "sample"]


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """One run as the ledger has it; the fields are columns of ``trials``. Times UTC, both ends of the period inclusive."""

    run_id: str
    candidate: str
    label: str
    changed: tuple[str, ...]
    log: TrialLog
    cases: int
    cases_from: datetime
    cases_to: datetime
    started_at: datetime


COLUMNS = (*Trial.__struct_fields__, "version")


def candidate_of(plan: RunPlan) -> str:
    """Return the hash of what the plan changes, equal for equal prompts and models; "" when it changes nothing."""
    changed = {"prompts": {name: p.hash for name, p in plan.prompts.items()}, "models": plan.models}
    return content_hash(changed)[:16] if any(changed.values()) else ""


def trial_of(
    plan: RunPlan, *, log: TrialLog, cases: int, span: tuple[datetime, datetime], started_at: datetime
) -> Trial:
    """Return the row of a run. ``span``: when the first and the last case of its period were received, UTC."""
    return Trial(
        run_id=plan.run_id,
        candidate=candidate_of(plan),
        label=plan.label,
        changed=tuple(sorted({*plan.prompts, *plan.models})),
        log=log,
        cases=cases,
        cases_from=span[0],
        cases_to=span[1],
        started_at=started_at,
    )


async def write_trial(tables: ClickHouse, trial: Trial) -> None:
    """Write the row; the same run writes it again at every start, and the latest wins.

    Raises:
        TransientError: ClickHouse is unavailable.
    """
    values = [epoch_ms(v) if isinstance(v, datetime) else v for v in msgspec.structs.astuple(trial)]
    await tables.insert("trials", COLUMNS, [(*values, epoch_ms(datetime.now(UTC)))])


async def read_trials(tables: ClickHouse) -> list[Trial]:
    """Return all trials, the first one first."""
    sql = f"SELECT {', '.join(Trial.__struct_fields__)} FROM trials FINAL ORDER BY started_at, run_id"
    return [msgspec.convert(row, Trial, strict=False) for row in (await tables.query(sql)).dicts()]
