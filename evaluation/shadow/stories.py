"""Stories of recent cases: a restarted shadow run must find the same stories."""

from __future__ import annotations

from datetime import UTC, datetime

from evaluation.backtest.journal import LogSource, survey
from evaluation.backtest.story import WINDOW, Stories
from schemas.events import CaseDropped, EventReceived, RetractionFound, SecondLookOpened
from schemas.topics import Topics
from streams.journal.log import Log
from streams.replay import Recording


async def recent_stories(log: Log, topics: Topics) -> Stories:
    """Return the stories of the journal's last :data:`~evaluation.backtest.story.WINDOW`."""
    bounds = await log.bounds(topics.cases)
    since = round((datetime.now(UTC) - WINDOW).timestamp() * 1000)
    starts = await log.offsets_at(bounds, since)
    spans = {tp: (end if (start := starts[tp]) is None else start, end) for tp, (_, end) in bounds.items()}
    return (await survey(LogSource(log, spans, {}))).stories


def add_case(stories: Stories, recording: Recording) -> None:
    """Add the events of a case that determine its story."""
    for record in recording.records:
        if isinstance(record.event, EventReceived | SecondLookOpened | CaseDropped | RetractionFound):
            stories.add(recording.case_id, record.event)
