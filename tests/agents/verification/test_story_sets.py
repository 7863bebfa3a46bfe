"""Stories on labelled reports, as if every analysis came to *likely*: what is paid once, found, and merged may not get worse."""

from __future__ import annotations

import pytest

from tests.story_sets import SETS, measured, tellings_of


@pytest.mark.parametrize(
    ("name", "paid_once", "found"),
    [("tuning", 0.59, 0.90), ("held_out", 0.56, 0.85), ("second_held_out", 0.48, 0.76), ("third_held_out", 0.46, 0.78)],
)
async def test_no_more_reports_are_paid_again_and_no_story_is_merged(name: str, paid_once: float, found: float) -> None:
    result = await measured(tellings_of(SETS / f"stories_{name}.jsonl"))
    again = [(t.story, t.claim.subject, t.claim.predicate, t.claim.object) for t in result.paid_again]
    assert result.paid_once >= paid_once, again
    assert result.recognised >= found
    assert result.joined == ()


async def test_nothing_joins_a_signal_that_nobody_acts_on() -> None:
    result = await measured(tellings_of(SETS / "stories_tuning.jsonl"), verdict="unconfirmed")
    assert (result.paid_once, result.joined) == (0, ())
