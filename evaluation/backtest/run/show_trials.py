"""``newsproof backtest trials``: the ledger of trials."""

from __future__ import annotations

import msgspec

from evaluation.backtest.run.running import log_and_tables
from evaluation.compare.run_records import Trial, claim_of, read_trials
from newsproof.app.invocation import Invocation, json_line, table


class ListedTrial(Trial, frozen=True, kw_only=True):
    """One line of ``--json``: the trial, how many earlier ones looked at its period, and whether it may be claimed on."""

    earlier: int
    allowed: bool


async def show_trials(invocation: Invocation, *, as_json: bool) -> None:
    """Print all trials, the first one first."""
    async with log_and_tables(invocation) as (_, tables):
        trials = await read_trials(tables)
    listed = [_listed(trials, one) for one in trials]
    if as_json:
        for one in listed:
            json_line(one)
        return
    columns = (
        "run",
        "candidate",
        "change",
        "log",
        "cases",
        "received (UTC)",
        "earlier",
        "may claim",
    )
    rows = [
        (t.run_id, t.candidate[:8] or "–", t.label, t.log, t.cases, f"{t.cases_from:%Y-%m-%d %H:%M} to {t.cases_to:%Y-%m-%d %H:%M}",
         t.earlier, "–" if not t.candidate else "yes" if t.allowed else "no")
        for t in listed
    ]  # fmt: skip
    table(columns, rows, title=f"{len(rows)} trials", right=("cases", "earlier"))


def _listed(trials: list[Trial], one: Trial) -> ListedTrial:
    claim = claim_of(trials, one.run_id)
    return ListedTrial(**msgspec.structs.asdict(one), earlier=claim.earlier, allowed=claim.allowed)
