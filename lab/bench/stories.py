"""Benchmarks the index of stories: results for the labelled reports, and a look-up among very many stories."""

from __future__ import annotations

import statistics
import time
from datetime import UTC, datetime, timedelta
from random import Random

from msgspec.structs import replace

from agents.tables import load_tables
from lab.bench.measures import Figure
from schemas import events as ev
from schemas.effects import FindStory
from streams.intake.story_index import StoryIndex
from tests.story_sets import HOURS, SETS, ReadJournal, events_of, judged, measured, tellings_of

HELD = 100_000


async def stories(held: int = HELD) -> list[Figure]:
    """Return the results for the reports of each labelled set, and the duration of a look-up among ``held`` stories."""
    figures = []
    for path in sorted(SETS.glob("stories_*.jsonl")):
        name, shares = path.stem.removeprefix("stories_"), await measured(tellings_of(path))
        for what, value in (("paid once", shares.paid_once), ("found", shares.recognised), ("merged", shares.merged)):
            figures.append(Figure(name=f"stories: {name}, {what}", value=value, unit="share", target="-"))
    times = await _look_ups(held)
    return [
        *figures,
        Figure(name=f"stories: look-up among {held:,}, median", value=statistics.median(times), unit="ms", target="2"),
        Figure(
            name="stories: 95 in 100 of them within", value=statistics.quantiles(times, n=20)[-1], unit="ms", target="-"
        ),
    ]


async def _look_ups(held: int) -> list[float]:
    """Fill an index with copies of the labelled stories under other names and amounts, then look some up."""
    index, tables, random = (
        StoryIndex(ReadJournal(), dict, partitions=1, window_hours=HOURS),
        load_tables(demo=False),
        Random(1),
    )
    labelled = [
        e for p in sorted(SETS.glob("stories_*.jsonl")) for t in tellings_of(p) if (e := events_of(t, tables))[1].story
    ]
    began, asked = datetime(2026, 1, 2, tzinfo=UTC), []
    for number in range(held):
        opened, triaged = random.choice(labelled)
        assert triaged.story is not None
        story = triaged.story
        # One in fifty is about a party of the tables: 2,000 within the window, up to 300 of them on one subject and
        # asset.
        subject = story.subject if story.listed and number % 50 == 0 else f"s{number // 5}"
        amount = story.amount and story.amount * random.uniform(0.01, 100.0)
        names = (f"n{number // 5}",) if story.names else ()
        at = began + timedelta(hours=HOURS * random.random())
        case = f"case-{number}"
        index.take(case, replace(opened, news=replace(opened.news, published_at=at)), (0, 2 * number), 0.0)
        of_it = replace(story, subject=subject, names=names, amount=amount)
        index.take(case, replace(triaged, story=of_it), (0, 2 * number + 1), 0.0)
        index.take(case, ev.StoryChecked(route="deep"), (0, 0), 0.0)
        index.take(case, judged(opened, "likely"), (0, 0), 0.0)
        if number % (held // 1_000 or 1) == 0:
            asked.append(case)
    assert len(index) == held
    times = []
    for case in asked:
        start = time.process_time()
        await index.perform(FindStory(case_id=case, hours=HOURS, again=True))
        times.append((time.process_time() - start) * 1000)
    return times
