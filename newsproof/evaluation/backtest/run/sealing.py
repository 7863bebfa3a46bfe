"""The sealed test period: cases received from a day on, which ordinary runs leave out. Pure.

The seal in force is that of the newest trial that has one. It is set by ``--seal-from`` where nobody has looked yet, and
opened by ``--open-seal``; both are in the ledger.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from msgspec.structs import replace

from newsproof.evaluation.backtest.run.ledger import Trial, TrialLog
from newsproof.evaluation.backtest.run.plan import RunPlan
from schemas.errors import ConfigError


def seal_in_force(trials: Sequence[Trial]) -> datetime | None:
    """Return from when on cases are sealed (UTC), None when nothing is."""
    return next((t.sealed_from for t in reversed(trials) if t.sealed_from is not None), None)


def seal_of(trials: Sequence[Trial], run_id: str) -> datetime | None:
    """Return the seal that the run is under: the one that it began under, else the one in force."""
    begun = next((t for t in trials if t.run_id == run_id), None)
    return seal_in_force(trials) if begun is None else begun.sealed_from


def under_seal(plan: RunPlan, trials: Sequence[Trial], *, log: TrialLog) -> RunPlan:
    """Return the plan under the seal of its run. The plan's own ``sealed_from`` is what ``--seal-from`` asks for.

    Raises:
        ConfigError: the run began under another seal, somebody has looked at cases that would be sealed, there is nothing to
            open, or the log is the one that ships, of which nothing can be sealed.
    """
    asked = plan.sealed_from
    if log != "journal":
        if asked is not None or plan.open_seal:
            raise ConfigError("--seal-from and --open-seal are about cases of the journal: leave out --sample-log")
        return plan
    seal = seal_of(trials, plan.run_id)
    if asked is not None and asked != seal:
        if any(t.run_id == plan.run_id for t in trials):
            began = f"the seal from {seal:%Y-%m-%d %H:%M} UTC" if seal else "no seal"
            raise ConfigError(
                f"the run {plan.run_id} began under {began}: go on without --seal-from, or name another --run-id"
            )
        if looked := [t.cases_to for t in trials if t.candidate and t.log == "journal" and t.cases_to >= asked]:
            raise ConfigError(
                f"--seal-from {asked:%Y-%m-%d %H:%M}: {len(looked)} trials have looked at cases from then on, the last one "
                f"received {max(looked):%Y-%m-%d %H:%M} UTC; a seal keeps what nobody has seen: choose a time after that"
            )
        seal = asked
    if plan.open_seal and seal is None:
        raise ConfigError("--open-seal: nothing is sealed; seal a period first, with `backtest run --seal-from DATE`")
    return replace(plan, sealed_from=seal)


def refuse_sealed(trials: Sequence[Trial], case_id: str, received_at: datetime) -> None:
    """Refuse to try a candidate on one case of the sealed period.

    Raises:
        ConfigError: the case is sealed.
    """
    seal = seal_in_force(trials)
    if seal is not None and received_at >= seal:
        raise ConfigError(
            f"case {case_id} is sealed, as all that were received from {seal:%Y-%m-%d %H:%M} UTC on: replay an older one; "
            "`backtest run --open-seal` opens the period, on record"
        )


def sealed_words(plan: RunPlan) -> str:
    """Return what to add to a sentence about the plan's cases when some of them are sealed, else ""."""
    if plan.sealed_from is None or plan.open_seal:
        return ""
    return (
        f"; cases received from {plan.sealed_from:%Y-%m-%d %H:%M} UTC on are sealed (--open-seal opens them, on record)"
    )
