"""Metrics of a run's judgements against labels, and the table ``labels`` that they are read from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

import msgspec
import numpy as np

from evaluation.labels.label_file import KnownCase, Label
from evaluation.statistics.blocks import Labels, block_length_s, blocks_of, mean_of, share_interval
from infra.clickhouse.client import ClickHouse

TRUTHS = ("true", "false", "partly", "disputed", "unknown")
"""The joint verdict of all labels of a case. disputed: two sources disagree; unknown: no source knew."""


class LabelledJudgement(msgspec.Struct, frozen=True):
    """One judgement (one repeat of a case in a run) of a labelled case, as ``v_judgement_on_labels`` has it.

    ``confidence`` is from 0 to 1. ``acted``: the signal said buy or sell. ``truth`` is one of :data:`TRUTHS`. ``at_s``: from
    when on the news was knowable, Unix time.
    """

    case_id: str
    story_id: str
    verdict: str
    acted: bool
    confidence: float
    truth: str
    at_s: float


class Share(msgspec.Struct, frozen=True, kw_only=True):
    """``count`` of ``of`` judgements, of ``stories`` distinct stories on ``days`` UTC days.

    ``share`` is null where there is none. ``low`` and ``high`` are its 95 % interval, with whole days as what is drawn, for
    reports of one story, and of one day's matter, are right or wrong together; null below six days.
    """

    count: int
    of: int
    stories: int
    days: int
    share: float | None
    low: float | None
    high: float | None


class Score(msgspec.Struct, frozen=True, kw_only=True):
    """Confidence against truth, over judgements whose claim is true or false.

    ``brier`` is the mean of (confidence - truth)²: 0 is best, 0.25 is what always saying 0.5 gets. ``was_true`` is how
    often the claims were true: confidence is calibrated in the large when ``mean_confidence`` lies in its interval.
    ``brier_low`` and ``brier_high`` are the 95 % interval of ``brier`` by random signs of whole days, null below six days.
    """

    judgements: int
    stories: int
    brier: float | None
    brier_low: float | None
    brier_high: float | None
    mean_confidence: float | None
    was_true: Share


class LabelReport(msgspec.Struct, frozen=True, kw_only=True):
    """A run against the labels. ``name``: what a person calls the run.

    ``judgements`` counts all of the run, ``labelled`` those of labelled cases, ``by_truth`` these by what the labels say
    together. ``verdicts`` is verdict → truth → judgements; the verdict is "" for a signal of schema 1.
    Shares and scores take true and false alone: partly, disputed and unknown are counted and not scored.
    """

    run_id: str
    name: str
    judgements: int
    labelled: int
    by_truth: dict[str, int]
    confirmed_that_was_false: Share
    refuted_that_was_true: Share
    verdicts: dict[str, dict[str, int]]
    all: Score
    acted: Score


def report_of(run_id: str, rows: Sequence[LabelledJudgement], *, judgements: int, name: str = "") -> LabelReport:
    """Return the metrics of a run. ``judgements``: their number, labelled or not. ``name`` defaults to the run id."""
    known = [row for row in rows if row.truth in ("true", "false")]
    return LabelReport(
        run_id=run_id,
        name=name or run_id,
        judgements=judgements,
        labelled=len(rows),
        by_truth={truth: sum(row.truth == truth for row in rows) for truth in TRUTHS},
        confirmed_that_was_false=_share(
            [row for row in known if row.verdict == "confirmed"], lambda row: row.truth == "false"
        ),
        refuted_that_was_true=_share(
            [row for row in known if row.verdict == "refuted"], lambda row: row.truth == "true"
        ),
        verdicts={
            verdict: {truth: sum((row.verdict, row.truth) == (verdict, truth) for row in rows) for truth in TRUTHS}
            for verdict in sorted({row.verdict for row in rows})
        },
        all=_score(known),
        acted=_score([row for row in known if row.acted]),
    )


def _share(rows: Sequence[LabelledJudgement], holds: Callable[[LabelledJudgement], bool]) -> Share:
    hits, days = np.array([float(holds(row)) for row in rows]), _days(rows)
    low, high = share_interval(hits, days) or (None, None)
    return Share(
        count=int(hits.sum()),
        of=len(rows),
        stories=_stories(rows),
        days=len(np.unique(days)),
        share=float(hits.mean()) if rows else None,
        low=low,
        high=high,
    )


def _score(rows: Sequence[LabelledJudgement]) -> Score:
    confidence, came = (
        np.array([row.confidence for row in rows]),
        np.array([float(row.truth == "true") for row in rows]),
    )
    brier = mean_of((confidence - came) ** 2, _days(rows), seed=0) if rows else None
    return Score(
        judgements=len(rows),
        stories=_stories(rows),
        brier=brier.estimate if brier else None,
        brier_low=max(brier.low, 0.0) if brier and brier.low is not None else None,
        brier_high=min(brier.high, 1.0) if brier and brier.high is not None else None,
        mean_confidence=float(confidence.mean()) if rows else None,
        was_true=_share(rows, lambda row: row.truth == "true"),
    )


def _days(rows: Sequence[LabelledJudgement]) -> Labels:
    return blocks_of([row.at_s for row in rows], block_length_s())


def _stories(rows: Sequence[LabelledJudgement]) -> int:
    return len({row.story_id for row in rows})


_COLUMNS = ("source", "version", "case_id", "truth", "note", "labelled_at")
_CASES = """
SELECT case_id, max(news) AS source, max(external) AS external_id
FROM
(
    SELECT case_id, source AS news, external_id AS external FROM news WHERE run_id = 'live'
    UNION ALL
    SELECT case_id, '' AS news, '' AS external FROM v_run_cases
)
GROUP BY case_id
"""
_JUDGEMENTS = """
SELECT case_id, story_id, verdict, acted, confidence, truth, toUnixTimestamp64Milli(knowable_at) / 1000 FROM v_judgement_on_labels
WHERE run_id = {run:String} ORDER BY case_id, repeat
"""
_SOURCES = """
SELECT source, count() AS labels, countIf(truth = 'true') AS said_true, countIf(truth = 'false') AS said_false,
       countIf(truth = 'partly') AS said_partly, countIf(truth = 'unknown') AS said_unknown,
       max(ingested_at) AS imported_at
FROM v_labels GROUP BY source ORDER BY source
"""


class LabelSource(msgspec.Struct, frozen=True, kw_only=True):
    """One source of labels and its number of labels, by truth. ``imported_at`` is UTC."""

    source: str
    labels: int
    said_true: int
    said_false: int
    said_partly: int
    said_unknown: int
    imported_at: datetime


async def known_cases(client: ClickHouse) -> list[KnownCase]:
    """Return every case of the log and of the backtests."""
    return [KnownCase(*row) for row in (await client.query(_CASES)).rows]


async def keep(client: ClickHouse, labels: Sequence[tuple[Label, str]]) -> dict[str, int]:
    """Write labels with their case ids. Return, by source, how many labels of an earlier import they replace.

    The labels of a source are those of its last import alone. One insert of one block: all of it is there, or nothing.
    """
    before = {source.source: source.labels for source in await sources(client)}
    # Counted, not read from a clock: a clock that was set back must not let an older import win.
    version = int((await client.query("SELECT max(version) FROM labels")).rows[0][0]) + 1
    await client.insert(
        "labels",
        _COLUMNS,
        [(label.source, version, case_id, label.truth, label.note, label.labelled_at) for label, case_id in labels],
    )
    return {source: before[source] for source in sorted({label.source for label, _ in labels}) if source in before}


async def sources(client: ClickHouse) -> list[LabelSource]:
    """Return the sources of labels, sorted by name."""
    return [LabelSource(**row) for row in (await client.query(_SOURCES)).dicts()]


async def forget(client: ClickHouse, source: str) -> int:
    """Delete the labels of one source, of all its imports; return how many counted. Complete on return."""
    asked = {"source": source}
    counted = await client.query("SELECT count() FROM v_labels WHERE source = {source:String}", asked)
    await client.query("DELETE FROM labels WHERE source = {source:String}", asked)
    return int(counted.rows[0][0])


async def read_judgements(client: ClickHouse, run: str) -> tuple[list[LabelledJudgement], int]:
    """Return a run's judgements of labelled cases, and the number of all its judgements."""
    rows: list[tuple[Any, ...]] = (await client.query(_JUDGEMENTS, {"run": run})).rows
    counted = await client.query(
        "SELECT count() FROM v_run_cases WHERE run_id = {run:String} AND has_signal", {"run": run}
    )
    return [LabelledJudgement(c, s, v, bool(a), p, t, at) for c, s, v, a, p, t, at in rows], int(counted.rows[0][0])
