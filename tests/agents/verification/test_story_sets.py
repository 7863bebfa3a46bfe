"""Stories: the labelled tellings that the rule is tuned by and measured on, and what it may not get worse at."""

from __future__ import annotations

from collections import Counter
from urllib.parse import urlsplit

import pytest

from agents.evidence.claim import PREDICATES
from tests.story_sets import SETS, LabelledTelling, measured, tellings_of


@pytest.mark.parametrize(
    ("name", "paid_once", "found"),
    [
        ("tuning", 0.59, 0.90),
        pytest.param("held_out", 0.56, 0.85, marks=pytest.mark.slow),
        pytest.param("second_held_out", 0.48, 0.76, marks=pytest.mark.slow),
        pytest.param("third_held_out", 0.46, 0.78, marks=pytest.mark.slow),
    ],
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


def _stories(name: str) -> dict[str, list[LabelledTelling]]:
    stories: dict[str, list[LabelledTelling]] = {}
    for telling in tellings_of(SETS / name):
        stories.setdefault(telling.story, []).append(telling)
    return stories


def test_every_telling_is_labelled_and_every_story_told_by_several_publishers_in_both_languages() -> None:
    names = ("tuning", "held_out", "second_held_out", "third_held_out")
    sets = tuning, held_out, second, third = [_stories(f"stories_{name}.jsonl") for name in names]
    assert (len(tuning), len(held_out) >= 75, len(second) >= 80, len(third) >= 85) == (25, True, True, True)
    assert len({story for stories in sets for story in stories}) == sum(map(len, sets))
    for stories in sets:
        near = {of for tellings in stories.values() if (of := tellings[0].like)}
        in_groups = near | {story for story, tellings in stories.items() if tellings[0].like}
        assert near <= stories.keys() and 3 * len(in_groups) >= len(stories)
        for story, tellings in stories.items():
            assert 3 <= len(tellings) <= 12, story
            assert len({one.source + one.language for one in tellings}) == len(tellings), story
            assert {one.language for one in tellings} == {"en", "zh"}, story
            assert {one.like for one in tellings} == {tellings[0].like} != {story}, story
            assert [one.at for one in tellings] == sorted(one.at for one in tellings), story
            for one in tellings:
                assert one.draft.keys() == {"event_type", "asset", "entity", "summary"}, one
                assert one.claim.predicate in (*PREDICATES[one.draft["event_type"]], "other"), one
                assert one.text and one.draft["summary"] and len(one.draft["summary"]) <= 200 and one.draft["asset"], (
                    one
                )
                assert urlsplit(one.url).scheme == "https" and urlsplit(one.url).hostname and one.at.tzinfo, one
    every = [one for stories in sets for tellings in stories.values() for one in tellings]
    texts = Counter("".join(char for char in one.text.casefold() if char.isalnum()) for one in every)
    assert {text for text, times in texts.items() if times > 1} == set()
    assert len({one.url for one in every}) == len(every)
