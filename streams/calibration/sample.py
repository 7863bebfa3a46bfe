"""The sample of calibration: live signals with known outcomes, from ClickHouse.

One sample per case and target. The confidence is the raw one of the case's first final revision, whatever became of it:
a withdrawn signal stays, since withdrawals follow from outcomes. Simulated and offline signals and synthetic prices stay out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Literal, NamedTuple

from infra.clickhouse.client import ClickHouse
from schemas.calibration import STOOD, moved
from schemas.news import BACKFILLED_AFTER
from schemas.prices import HORIZONS_S
from schemas.signals import NO_ASSET, WITHDRAWN
from streams.calibration.fit import STANDS_FOR, Sample

MOVE = 0.001
"""10 bp: the directed return above which a price has moved."""
REACH = timedelta(days=365)
"""Age of the oldest signals that are read. A fit uses 180 days of outcomes, and the longest horizon is 30 days."""
_SIDE = {"long": 1, "short": -1}

_REVISIONS = """
SELECT case_id, groupArray((revision, stage, verdict, toUnixTimestamp64Milli(emitted_at))) AS revisions,
       argMinIf((direction, asset, confidence, event_type, language, horizon_s, toUnixTimestamp64Milli(published_at),
                 toUnixTimestamp64Milli(emitted_at)), revision, stage = 'final') AS first,
       countIf(stage = 'final') AS finals
FROM signals FINAL
WHERE run_id = 'live' AND provider_mode = 'live' AND toUnixTimestamp64Milli(emitted_at) <= {as_of:Int64}
GROUP BY case_id
HAVING finals > 0 AND tupleElement(first, 8) >= {since:Int64}
"""
_OUTCOMES = """
SELECT case_id, horizon_s, asset, toUnixTimestamp64Milli(entry_at), toUnixTimestamp64Milli(exit_at), return
FROM outcomes FINAL
WHERE NOT halted AND depeg IS NULL AND toUnixTimestamp64Milli(exit_at) <= {as_of:Int64} AND toUnixTimestamp64Milli(entry_at) >= {since:Int64}
  AND NOT arrayExists(source -> startsWith(source, 'synthetic'), splitByChar('+', source))
"""
# What the sources say together, as v_labelled_cases, but as of then: of each source the newest import counts alone.
_LABELS = """
SELECT case_id, any(truth) AS said, any(since) AS known
FROM
(
    SELECT case_id, truth FROM labels FINAL
    WHERE truth != 'unknown' AND (source, version) IN
          (SELECT source, max(version) FROM labels WHERE toUnixTimestamp(ingested_at) * 1000 <= {as_of:Int64} GROUP BY source)
    GROUP BY case_id, truth
) AS now
INNER JOIN
(
    SELECT case_id, truth, min(toUnixTimestamp(ingested_at)) * 1000 AS since FROM labels FINAL GROUP BY case_id, truth
) AS first USING (case_id, truth)
GROUP BY case_id
HAVING count() = 1 AND said IN ('true', 'false')
"""
# As v_run_cases, which reads every call besides.
_STORIES = "SELECT case_id, argMax(story_id, version) FROM run_cases GROUP BY case_id"


class Revision(NamedTuple):
    """A revision of a signal. Milliseconds since 1970."""

    revision: int
    stage: str
    verdict: str
    emitted_ms: int


class Judged(NamedTuple):
    """A case: its first final revision, and all ``revisions``. Milliseconds since 1970."""

    case_id: str
    revisions: tuple[Revision, ...]
    direction: str
    asset: str
    confidence: float
    event_type: str
    language: str
    horizon_s: int
    published_ms: int
    emitted_ms: int


class Move(NamedTuple):
    """The return of a case's asset (exit / entry - 1) within a horizon. Milliseconds since 1970."""

    case_id: str
    horizon_s: int
    asset: str
    entry_ms: int
    exit_ms: int
    market_return: float


class Label(NamedTuple):
    """What the label sources agree on, and since when; milliseconds since 1970."""

    truth: Literal["true", "false"]
    since_ms: int


async def read_samples(client: ClickHouse, as_of: datetime) -> list[Sample]:
    """Return the samples that ClickHouse has of signals, prices and labels as of then (UTC).

    Raises:
        TransientError: ClickHouse does not respond.
    """
    at = round(as_of.timestamp() * 1000)
    bounds = {"as_of": at, "since": at - round(REACH.total_seconds() * 1000)}
    cases = [
        Judged(case_id, tuple(Revision(*revision) for revision in revisions), *first)
        for case_id, revisions, first, _ in (await client.query(_REVISIONS, bounds)).rows
    ]
    moves = [Move(*row) for row in (await client.query(_OUTCOMES, bounds)).rows]
    labels = {case: Label(truth, since) for case, truth, since in (await client.query(_LABELS, {"as_of": at})).rows}
    stories = {case: story for case, story in (await client.query(_STORIES)).rows}  # noqa: C416 - rows are tuples of any
    return list(samples_of(cases, moves, labels, stories))


def samples_of(
    cases: Iterable[Judged], moves: Iterable[Move], labels: Mapping[str, Label], stories: Mapping[str, str]
) -> Iterator[Sample]:
    """Yield the samples of these cases. ``stories``: case → story; a case without one is a story of its own."""
    judged = {case.case_id: case for case in cases}
    for move in moves:
        case = judged.get(move.case_id)
        if case is not None and _counts(case, move):
            outcome = move.market_return * _SIDE[case.direction] > MOVE
            yield _sample(case, moved(move.horizon_s), outcome, move.exit_ms, stories)
    for case in judged.values():
        # A model may remember older news, so its confidence in it says nothing of what is new.
        if case.emitted_ms - case.published_ms <= BACKFILLED_AFTER.total_seconds() * 1000:
            outcome, known_ms = _outcome_at(case, labels.get(case.case_id))
            yield _sample(case, STOOD, outcome, known_ms, stories)


def _counts(case: Judged, move: Move) -> bool:
    """Return whether a return is of what the signal said, from an entry that one could make once it was emitted."""
    return (
        move.horizon_s in (*HORIZONS_S, case.horizon_s)
        and case.direction in _SIDE
        and case.asset == move.asset != NO_ASSET
        and move.entry_ms >= case.emitted_ms
    )


def _outcome_at(case: Judged, label: Label | None) -> tuple[bool, int]:
    """Return whether the claim stood, and since when that is known: since the label, else 14 days after the signal."""
    if label is not None:
        return label.truth == "true", label.since_ms
    end_ms = case.emitted_ms + round(STANDS_FOR.total_seconds() * 1000)
    within = [revision for revision in case.revisions if revision.emitted_ms <= end_ms]
    withdrawn = any(revision.stage in WITHDRAWN for revision in within)
    return not withdrawn and max(within).verdict == "confirmed", end_ms


def _sample(case: Judged, target: str, outcome: bool, known_ms: int, stories: Mapping[str, str]) -> Sample:
    return Sample(
        target=target,
        story=stories.get(case.case_id) or case.case_id,
        confidence=case.confidence,
        outcome=1 if outcome else 0,
        event_type=case.event_type,
        language=case.language,
        decided_at=_time(case.emitted_ms),
        known_at=_time(known_ms),
    )


def _time(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)
