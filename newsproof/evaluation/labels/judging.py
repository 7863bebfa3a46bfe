"""Figures of judgements against labels. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from newsproof.evaluation.statistics import brier_parts, wilson

TRUTHS = ("true", "false", "partly", "disputed", "unknown")
"""What labels say together. disputed: two sources disagree; unknown: no source knew."""


class LabelledJudgement(msgspec.Struct, frozen=True):
    """One judgement (one repeat of a case in a run) of a labelled case, as ``v_judgement_on_labels`` has it.

    ``confidence`` is from 0 to 1. ``acted``: the signal said buy or sell. ``truth`` is one of :data:`TRUTHS`.
    """

    case_id: str
    story_id: str
    verdict: str
    acted: bool
    confidence: float
    truth: str


class Share(msgspec.Struct, frozen=True, kw_only=True):
    """``count`` of ``of`` judgements, of ``stories`` distinct stories.

    ``share`` is null where there is none. ``low`` and ``high`` are Wilson's 95 % interval, with the stories as its
    count: reports of one story are right or wrong together, and are no more evidence than one of them.
    """

    count: int
    of: int
    stories: int
    share: float | None
    low: float
    high: float


class Score(msgspec.Struct, frozen=True, kw_only=True):
    """Confidence against truth, over judgements whose claim is true or false.

    ``brier`` is the mean of (confidence - truth)²: 0 is best, 0.25 is what always saying 0.5 gets. ``was_true`` is how
    often the claims were true: confidence is calibrated in the large when ``mean_confidence`` lies in its interval.
    """

    judgements: int
    stories: int
    brier: float | None
    mean_confidence: float | None
    was_true: Share


class LabelReport(msgspec.Struct, frozen=True, kw_only=True):
    """A run against the labels.

    ``judgements`` counts all of the run, ``labelled`` those of labelled cases, ``by_truth`` these by what the labels say
    together. ``verdicts`` is verdict → truth → judgements; the verdict is "" for a signal of schema 1.
    Shares and scores take true and false alone: partly, disputed and unknown are counted and not scored.
    """

    run_id: str
    judgements: int
    labelled: int
    by_truth: dict[str, int]
    confirmed_that_was_false: Share
    refuted_that_was_true: Share
    verdicts: dict[str, dict[str, int]]
    all: Score
    acted: Score


def report_of(run_id: str, rows: Sequence[LabelledJudgement], *, judgements: int) -> LabelReport:
    """Return the figures of a run; ``judgements`` is how many it has, labelled or not."""
    known = [row for row in rows if row.truth in ("true", "false")]
    return LabelReport(
        run_id=run_id,
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
    count, stories = sum(map(holds, rows)), len({row.story_id for row in rows})
    share = count / len(rows) if rows else None
    low, high = wilson((share or 0.0) * stories, stories)
    return Share(count=count, of=len(rows), stories=stories, share=share, low=low, high=high)


def _score(rows: Sequence[LabelledJudgement]) -> Score:
    said, came = [row.confidence for row in rows], [float(row.truth == "true") for row in rows]
    return Score(
        judgements=len(rows),
        stories=len({row.story_id for row in rows}),
        brier=brier_parts(said, came).brier if rows else None,
        mean_confidence=sum(said) / len(said) if rows else None,
        was_true=_share(rows, lambda row: row.truth == "true"),
    )
