"""``newsproof backtest record-sample``: runs the demo's pipeline over the 42 sample items and writes its log to a file."""

from __future__ import annotations

import asyncio
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from evaluation.replay.log_file import pack_journal, read_log_file
from infra.offline.sample_news import sample_news
from infra.offline.scripted.server import ScriptedServer
from infra.settings import Settings
from newsproof.app.composition import address_of, topics_of
from newsproof.app.data_access import open_log
from newsproof.app.invocation import Invocation
from newsproof.app.processes.supervisor import pipeline
from newsproof.app.servers import say_on_stderr as say
from newsproof.cli.run.demo_pipeline import Follower, demo_settings
from newsproof.sdk.client import checked_news
from schemas.errors import TransientError
from streams.journal.log import KafkaLog

END_WITHIN_S = 600.0
AT_ONCE = 3
"""Concurrent items. With all 42 at once, slow recalls on a small machine (0.9 s each) would dominate the log."""


async def record(invocation: Invocation, file: Path, *, this_log: bool) -> None:
    """Write a log file of a fresh run of the sample, or with ``this_log`` of the current log."""
    if this_log:
        async with open_log(invocation) as log:
            packed = await pack_journal(log.address, log.topics)
    else:
        packed = await _recorded(invocation.settings())
    await asyncio.to_thread(file.write_bytes, packed)
    held = await asyncio.to_thread(read_log_file, file)
    say(f"{file}: {len(held.cases)} journal records, {len(held.snapshots)} snapshots, {len(packed) / 1024:.0f} KiB")


async def _recorded(settings: Settings) -> bytes:
    """Run the sample as the demo does, but with the scripted model, which reads its prompt."""
    with tempfile.TemporaryDirectory(prefix="newsproof-sample-") as directory:
        async with ScriptedServer() as models:
            changes = {
                "search_requests_per_message": 0,
                "newsproof_mode": "simulated",
                "scripted_model_url": models.url,
                "tool_scrape_enabled": True,
                "newsproof_data_dir": Path(directory),
                # Simulated prices count against the budget; the whole sample must be judged.
                "deep_analysis_monthly_budget": 1000.0,
                "deep_analysis_tool_daily_limit": 100_000,
            }
            at = demo_settings(settings, live=False).model_copy(update=changes)
            async with pipeline(at) as running:
                await _sample_through(running.settings)
                return await pack_journal(address_of(running.settings), topics_of(running.settings))


async def _sample_through(settings: Settings) -> None:
    address, topics, items = address_of(settings), topics_of(settings), sample_news()
    cases: set[str] = set()
    async with Follower(settings, topics) as follower, address.producer(linger_ms=0) as producer:
        for first in range(0, len(items), AT_ONCE):
            for item in items[first : first + AT_ONCE]:
                news, value = checked_news(item, now=datetime.now(UTC))
                await producer.send_and_wait(topics.news, value, key=news.key)
                cases.add(item.case_id)
            ends = await follower.until(lambda seen: len(cases - seen.finished), lambda _seen: None)
    await _published(settings, ends.signals)


async def _published(settings: Settings, wanted: int) -> None:
    """Wait until ``wanted`` signals are published. Polls: another process publishes them, so there is nothing to await."""
    from streams.journal.case_reading import read_signals

    address, topics = address_of(settings), topics_of(settings)
    try:
        async with asyncio.timeout(END_WITHIN_S):
            while len({s.signal_id for s, _ in await read_signals(KafkaLog(address), topics)}) < wanted:  # noqa: ASYNC110 - see there
                await asyncio.sleep(0.2)
    except TimeoutError as exc:
        raise TransientError(f"not every signal was published within {END_WITHIN_S:g} s: try again") from exc
