"""Whether other code decided one run than the other, so that a difference is not the prompt's alone."""

from __future__ import annotations

from evaluation.backtest.code_identity import CodeChange, RunAbout, code_change
from evaluation.backtest.run.tables import baseline_of, read_about
from infra.clickhouse.client import ClickHouse
from schemas.errors import ConfigError
from schemas.ids import LIVE_RUN


async def read_code_change(tables: ClickHouse, a: str, b: str, *, allow: bool) -> CodeChange | None:
    """Return what of a difference between two runs is the code's; None where the same code decided both.

    Raises:
        ConfigError: one is ``live``, the other changes a prompt, and other code decided it than recorded its cases, or it
            is unknown which did; unless ``allow``. The text names the baseline to compare with, or how to make one.
    """
    if a == b:
        return None
    of_run = {run: await read_about(tables, run) or RunAbout(run_id=run, code=()) for run in (a, b) if run != LIVE_RUN}
    if LIVE_RUN not in (a, b):
        return code_change(of_run[a], of_run[b])
    (replayed,) = of_run.values()
    live = replayed.recording
    change = code_change(live, replayed) if a == LIVE_RUN else code_change(replayed, live)
    if change is not None and not allow and not replayed.baseline:
        raise ConfigError(_refusal(change, replayed, await baseline_of(tables, replayed)))
    return change


def _refusal(change: CodeChange, replayed: RunAbout, baseline: str | None) -> str:
    anyway = "or add --allow-code-change, and the verdict says so"
    said = f"{change.text}. A difference between them is of the code as well as of the prompt"
    if change.is_unknown:
        return f"{said}, as far as is known: run {replayed.run_id} again, under another --run-id, {anyway}"
    if baseline is not None:
        return f"{said}: compare with the baseline of its code, `newsproof backtest compare {baseline} {replayed.run_id}`, {anyway}"
    return (
        f"{said}: make a baseline first, `newsproof backtest run --run-id baseline` over the same cases, and then "
        f"`newsproof backtest compare baseline {replayed.run_id}`, {anyway}"
    )
