"""Display name of a run."""

from __future__ import annotations

from collections.abc import Iterable

from infra.clickhouse.client import ClickHouse
from schemas.ids import LIVE_RUN
from schemas.printable import printable


def called(run_id: str, modes: Iterable[str]) -> str:
    """Return the run's id; for ``live``, the recorded judgements, also its providers' modes unless all were live.

    So nobody mistakes judgements of rules for those of models: "offline judgements (run id live)".
    """
    known_modes = sorted(filter(None, modes))
    if run_id != LIVE_RUN or known_modes in ([], ["live"]):
        return printable(run_id)
    return f"{' and '.join(known_modes)} judgements (run id live)"


async def run_name(tables: ClickHouse, run_id: str) -> str:
    """Return a run's display name: for ``live``, by the modes of its signals."""
    if run_id != LIVE_RUN:
        return printable(run_id)
    rows = await tables.query("SELECT DISTINCT provider_mode FROM signals WHERE run_id = {run:String}", {"run": run_id})
    return called(run_id, (str(mode) for (mode,) in rows.rows))
