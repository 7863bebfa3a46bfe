"""Stories on labelled tellings. docs/verification.md publishes what each set gave when the rules had not been written for it,
and by how much that missed the bars; here nothing may get worse."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.bench.stories import measured, tellings_of

DATA = Path(__file__).parents[2] / "data"


@pytest.mark.parametrize(
    ("name", "paid_once", "merged"),
    [("tuning", 0.97, 0.0), ("held_out", 0.9, 0.0), ("second_held_out", 0.83, 0.0), ("third_held_out", 0.85, 0.012)],
)
async def test_no_more_re_tellings_are_paid_again_and_no_more_stories_merged(
    name: str, paid_once: float, merged: float
) -> None:
    found = await measured(tellings_of(DATA / f"stories_{name}.jsonl"))
    again = [(t.story, t.claim.subject, t.claim.predicate, t.claim.object) for t in found.paid_again]
    assert found.paid_once >= paid_once, again
    assert found.merged <= merged, found.joined
