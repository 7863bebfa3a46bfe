"""What a comparison may claim: the ledger of trials applied to its figures. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from evaluation.backtest.run.claims import Claim
from evaluation.compare.comparison import Comparison, verdict_of
from evaluation.compare.metrics import SIGNIFICANT, MetricResult
from evaluation.compare.segments import Dimension, Segment


def claimed(found: Comparison, claims: Sequence[Claim]) -> Comparison:
    """Return the comparison with what the ledger says of its runs.

    Where a claim is not allowed no metric has a p value or is called better or worse; figures and intervals stay, and the
    note says why. Earlier looks of the same candidate multiply the p values; the intervals stay those of one look.
    """
    said = [claim for claim in claims if claim.note]
    if not said:
        return found
    metrics = tuple(_with_claims(m, said) for m in found.metrics)
    segments = tuple(_of_dimension(one, said) for one in found.segments)
    return replace(
        found,
        metrics=metrics,
        segments=segments,
        verdict=verdict_of(metrics, segments, found.comparability, found.changed_texts),
        warnings=tuple(dict.fromkeys([*(claim.note for claim in said), *found.warnings])),
    )


def _of_dimension(found: Dimension, claims: Sequence[Claim]) -> Dimension:
    if found.p_holm is None:
        return found
    if any(not claim.allowed for claim in claims):
        return _untested(found, "tuned on this period")
    worst = _most_looked_at(claims)
    p, p_holm = (None if value is None else worst.corrected(value) for value in (found.p, found.p_holm))
    if p_holm is None or p_holm >= SIGNIFICANT:
        return replace(_untested(found, found.note), p=p, p_holm=p_holm)
    return replace(found, p=p, p_holm=p_holm, segments=tuple(_of_segment(one, worst) for one in found.segments))


def _most_looked_at(claims: Sequence[Claim]) -> Claim:
    return max(claims, key=lambda claim: claim.factor)


def _of_segment(one: Segment, worst: Claim) -> Segment:
    if one.p_holm is None:
        return one
    p_holm = worst.corrected(one.p_holm)
    lost = p_holm >= SIGNIFICANT and one.verdict in ("better", "worse")
    return replace(one, p_holm=p_holm, verdict="not distinguishable" if lost else one.verdict)


def _untested(found: Dimension, note: str) -> Dimension:
    segments = tuple(
        one if one.verdict == "identical" else replace(one, p_holm=None, verdict="not distinguishable")
        for one in found.segments
    )
    return replace(found, differs=False, p=None, p_holm=None, note=note, segments=segments)


def _with_claims(m: MetricResult, claims: Sequence[Claim]) -> MetricResult:
    if m.role == "shown" or m.p is None or m.verdict in ("identical", "not measured"):
        return m
    refused = [claim for claim in claims if not claim.allowed]
    if refused:
        why = f"tuned on this period: {max(c.earlier for c in refused)} earlier trials looked at it"
        return replace(m, p=None, p_holm=None, verdict="changed", note="; ".join(filter(None, (why, m.note))))
    worst = _most_looked_at(claims)
    p, p_holm = (None if value is None else worst.corrected(value) for value in (m.p, m.p_holm))
    lost = p_holm is None or p_holm >= SIGNIFICANT
    note = "; ".join(filter(None, (f"p counts {worst.factor} looks at these cases", m.note)))
    return replace(m, p=p, p_holm=p_holm, verdict="not distinguishable" if lost else m.verdict, note=note)
