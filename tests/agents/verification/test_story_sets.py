"""Stories on labelled tellings: docs/verification.md publishes the figures of the set that the rules were not written for."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.bench.stories import measured, tellings_of

DATA = Path(__file__).parents[2] / "data"


@pytest.mark.parametrize("name", ["stories_tuning"])
async def test_nearly_all_re_tellings_are_paid_once_and_no_two_stories_are_merged(name: str) -> None:
    found = await measured(tellings_of(DATA / f"{name}.jsonl"))
    again = [(t.story, t.claim.subject, t.claim.predicate, t.claim.object) for t in found.paid_again]
    assert found.paid_once >= 0.9, again
    assert found.merged <= 0.01, found.joined
