"""Sends questions, investigations and watches at a steady rate, as the page and the command line do."""

from __future__ import annotations

import asyncio
import uuid
from contextlib import suppress

from agents.investigation.subject import asked
from lab.chaos.installation import Installation
from newsproof.app.research_composition import (
    investigated_as_of,
    investigation_limits,
    investigation_snapshot_of,
    research_snapshot_of,
)
from newsproof.web.questions import Questions
from schemas.errors import TransientError
from schemas.ids import investigation_id
from schemas.watches import MAX_EVERY_S, WatchSet
from streams.journal.appender import Appender
from streams.journal.clock import utc_now
from streams.watches.rule import WatchState
from streams.watches.writer import append_record

QUESTION = "Should I buy BTC now? Please analyse macro, technicals and on-chain data."
SUBJECT = "Monitor DeepSeek's latest developments"


class Asker:
    """``asked``: ids of the questions and investigations known to be in the log; ``watches``: ids of the watches.

    A watch is due once, when it is set. The first research worker opens its investigation.
    """

    def __init__(self, at: Installation) -> None:
        self._at = at
        settings = at.settings
        snapshots = research_snapshot_of(settings), investigation_snapshot_of(settings)
        self._questions = Questions(at.address, at.topics, *snapshots)
        self._watches = Appender(at.address, client_id="chaos-watches")
        self._enough, self._ended = asyncio.Event(), asyncio.Event()
        self.asked: set[str] = set()
        self.watches: set[str] = set()

    async def run(self) -> None:
        """Send until :meth:`stop`, and then wait to be cancelled."""
        await self._watches.start()
        writing = asyncio.create_task(self._questions.run(), name="chaos-questions")
        try:
            number = 0
            while not self._enough.is_set():
                with suppress(TransientError):  # Kafka is unavailable; a record in the log is found there
                    await self._ask(number)
                number += 1
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._enough.wait(), 1 / self._at.shape.asks_per_s)
            self._ended.set()
            await asyncio.get_running_loop().create_future()
        finally:
            writing.cancel()
            await asyncio.gather(writing, return_exceptions=True)
            await self._watches.stop()

    async def stop(self) -> None:
        """Send nothing more; return when the current request is in the log."""
        self._enough.set()
        await self._ended.wait()

    async def _ask(self, number: int) -> None:
        settings = self._at.settings
        match number % 4:
            case 1:
                as_of, limits = investigated_as_of(settings, utc_now()), investigation_limits(settings)
                opening = asked(SUBJECT, as_of=as_of, config_hash="", limits=limits)
                await self._questions.investigate(key := f"chaos-{number}", opening)
                self.asked.add(investigation_id(key))
            case 3:
                id = str(uuid.uuid4())
                watch = WatchSet(id=id, subject=SUBJECT, every_s=MAX_EVERY_S, language="en", by="chaos")
                await append_record(self._watches, self._at.topics, watch)
                self.watches.add(id)
            case _:
                item = await self._questions.ask(QUESTION, (), conversation=None, previous=None)
                self.asked.add(item.chat_id)


def must_end(asked: set[str], watches: set[str], state: WatchState) -> set[str]:
    """Return the id of everything that must have exactly one end: what was asked, and the investigations of the watches.

    A watch without an investigation counts by its own id, which no investigation has.
    """
    return asked | {state.watches[id].investigation or id for id in watches}
