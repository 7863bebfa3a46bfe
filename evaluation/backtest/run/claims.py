"""What a comparison may claim, by who has looked at its cases before. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from evaluation.backtest.run.ledger import Trial


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """What may be claimed of one run's candidate.

    ``earlier`` counts trials of a candidate for the same prompts or models that began before and looked at a part of the same
    period. One of another candidate is enough: ``allowed`` is false. For one candidate that was run again a claim is allowed,
    and ``factor``, how often it was looked at, multiplies its p values. ``note`` says so, "" when there is nothing to say.
    """

    run_id: str
    earlier: int
    allowed: bool
    factor: int
    note: str

    def corrected(self, p: float) -> float:
        """Return the p value that counts the earlier looks of the same candidate (Bonferroni)."""
        return min(1.0, p * self.factor)


def claim_of(trials: Sequence[Trial], run_id: str) -> Claim:
    """Return what may be claimed of the run.

    A run without a candidate, such as ``live`` or an A/A run, and one older than the ledger, claim freely:
    there is nothing to hold against them.
    """
    mine = next((t for t in trials if t.run_id == run_id), None)
    if mine is None or not mine.candidate:
        return Claim(run_id=run_id, earlier=0, allowed=True, factor=1, note="")
    looked = [t for t in trials if _looked_before(t, mine)]
    earlier = len(looked)
    again = all(t.candidate == mine.candidate for t in looked)
    if not earlier:
        note = ""
    elif again:
        note = f"run {run_id} is the same candidate again: p values are multiplied by {earlier + 1}, once for each look"
    else:
        note = (
            f"run {run_id} was tuned on this period: {earlier} earlier trials looked at it, so its figures here prove nothing; "
            "claim on cases that none has seen (`backtest run --from` a later day, or a shadow run)"
        )
    return Claim(run_id=run_id, earlier=earlier, allowed=again, factor=earlier + 1 if again else 1, note=note)


def _looked_before(other: Trial, mine: Trial) -> bool:
    if other.run_id == mine.run_id or not other.candidate or other.log != mine.log:
        return False
    return (
        other.started_at < mine.started_at
        and other.cases_from <= mine.cases_to
        and other.cases_to >= mine.cases_from
        and not set(other.changed).isdisjoint(mine.changed)
    )
