"""Which cases tell of the same, as far back as that is asked: a shadow that starts again must find the same stories."""

from __future__ import annotations

from datetime import UTC, datetime

from infra.kafka.topics import KafkaAddress, offsets_of
from newsproof.evaluation.backtest.journal import KafkaSource, survey
from newsproof.evaluation.backtest.story import WINDOW, Stories
from schemas.events import CaseDropped, EventReceived, RetractionFound
from schemas.topics import Topics
from streams.replay import Recording


async def recent_stories(address: KafkaAddress, topics: Topics) -> Stories:
    """Return the stories of the journal's last :data:`~newsproof.evaluation.backtest.story.WINDOW`."""
    bounds = await offsets_of(address, topics.cases)
    since = round((datetime.now(UTC) - WINDOW).timestamp() * 1000)
    async with address.reading() as consumer:
        found = await consumer.offsets_for_times(dict.fromkeys(bounds, since))
    spans = {tp: (at.offset if (at := found.get(tp)) else end, end) for tp, (_, end) in bounds.items()}
    return (await survey(KafkaSource(address, spans, {}))).stories


def tell(stories: Stories, recording: Recording) -> None:
    """Take in what a case says of its story."""
    for record in recording.records:
        if isinstance(record.event, EventReceived | CaseDropped | RetractionFound):
            stories.add(recording.case_id, record.event)
