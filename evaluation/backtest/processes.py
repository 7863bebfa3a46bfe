"""``newsproof backtest verify --processes``: one log verified by several processes, this one among them.

Each reads the whole log, which takes about one percent of the time, and decodes and replays the cases whose end it is the
first to reach. So nothing but claims and results passes between processes, none waits for another before the log's end,
and what comes out depends neither on their number nor on who took which case.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.context import BaseContext
from pathlib import Path
from typing import Any

import msgspec

from agents.core.registry import Registry
from agents.graphs import research, verification
from evaluation.backtest.journal import FileSource, LogSource, Source
from evaluation.backtest.sample import read_log_file
from evaluation.backtest.verify import Verified, verify
from infra.kafka.topics import KafkaAddress
from schemas.errors import TransientError
from schemas.topics import Topics
from streams.journal.log import Bounds, KafkaLog


class LogAt(msgspec.Struct, frozen=True):
    """Where a log is: a file (None: the shipped sample), or the journal of an installation up to ``bounds``.

    ``research``: the journal of chats and investigations, not that of the news.
    """

    file: Path | None = None
    address: KafkaAddress | None = None
    topics: Topics | None = None
    bounds: Bounds | None = None
    research: bool = False

    @classmethod
    async def journal(cls, address: KafkaAddress, topics: Topics, *, research: bool = False) -> LogAt:
        """Return the journal up to its present end, which is then the same for every reader."""
        bounds = await KafkaLog(address).bounds(topics.research if research else topics.cases)
        return cls(address=address, topics=topics, bounds=bounds, research=research)

    @property
    def registry(self) -> Registry:
        """The graphs of the journal's cases."""
        return research() if self.research else verification()

    async def source(self) -> Source:
        """Open the log for reading."""
        if self.address is None or self.topics is None or self.bounds is None:
            return FileSource(read_log_file(self.file))
        return await LogSource.made(KafkaLog(self.address), self.topics, bounds=self.bounds)


class Claims:
    """Which process takes which ended case: the first to ask. Give it to a process as it starts, not in a message."""

    def __init__(self, context: BaseContext) -> None:
        self._taken = context.Array("B", 1 << 20)

    def of(self, number: int) -> Callable[[Any], bool]:
        """Return whether the case that a record ended is for this process, the ``number``-th from 1 (at most 255)."""

        def mine(end: Any) -> bool:
            # Cases that fall on one place are taken by one process: a log of millions is shared no worse for it.
            place = hash((end.partition, end.offset)) % len(self._taken)
            with self._taken.get_lock():
                self._taken[place] = self._taken[place] or number
                return bool(self._taken[place] == number)

        return mine


async def verify_at(where: LogAt, *, sample: int = 0, processes: int = 1) -> Verified:
    """Verify a log on so many processes; the result is that of one, apart from ``seconds``.

    Raises:
        TransientError: a process was ended from outside, as for want of memory.
    """
    if processes == 1:
        return await verify(await where.source(), registry=where.registry, sample=sample)
    began, loop = time.perf_counter(), asyncio.get_running_loop()
    context = multiprocessing.get_context("spawn")  # not forked: a copy of this process would share its connections
    claims = Claims(context)
    with ProcessPoolExecutor(processes - 1, context, initializer=_share, initargs=(claims,)) as pool:
        others = [loop.run_in_executor(pool, verify_share, where, sample, n + 1) for n in range(1, processes)]
        found = await verify(await where.source(), registry=where.registry, sample=sample, mine=claims.of(1))
        try:
            for share in await asyncio.gather(*others):
                found.add(share)
        except BrokenProcessPool as exc:
            raise TransientError(
                f"one of the {processes} processes was ended before its cases: look for want of memory, and take fewer --processes"
            ) from exc
    found.seconds = round(time.perf_counter() - began, 3)
    return found


_claims: Claims


def _share(claims: Claims) -> None:
    global _claims  # noqa: PLW0603 - a pool's process is told by its initializer
    _claims = claims


def verify_share(where: LogAt, sample: int, number: int) -> Verified:
    """Verify the cases that this process of a pool is the first to reach, as the ``number``-th of all."""

    async def share() -> Verified:
        return await verify(await where.source(), registry=where.registry, sample=sample, mine=_claims.of(number))

    return asyncio.run(share())
