"""``newsproof backtest verify --processes``: one log verified by several processes, each with its share of the cases.

Each reads the whole log, which takes a few percent of the time, and decodes and replays its own cases alone. So nothing but
results passes between processes, and what comes out does not depend on their number.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import time
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

import msgspec

from infra.kafka.topics import KafkaAddress
from newsproof.evaluation.backtest.journal import FileSource, LogSource, Source
from newsproof.evaluation.backtest.sample import read_log_file
from newsproof.evaluation.backtest.verify import Verified, verify
from schemas.errors import TransientError
from schemas.topics import Topics
from streams.journal.log import Bounds, KafkaLog


class LogAt(msgspec.Struct, frozen=True):
    """Where a log is: a file (None: the shipped sample), or the journal of an installation up to ``bounds``."""

    file: Path | None = None
    address: KafkaAddress | None = None
    topics: Topics | None = None
    bounds: Bounds | None = None

    @classmethod
    async def journal(cls, address: KafkaAddress, topics: Topics) -> LogAt:
        """Return the journal up to its present end, which is then the same for every reader."""
        return cls(address=address, topics=topics, bounds=await KafkaLog(address).bounds(topics.cases))

    async def source(self) -> Source:
        """Open the log for reading."""
        if self.address is None or self.topics is None or self.bounds is None:
            return FileSource(read_log_file(self.file))
        return await LogSource.made(KafkaLog(self.address), self.topics, bounds=self.bounds)


async def verify_at(where: LogAt, *, sample: int = 0, processes: int = 1) -> Verified:
    """Verify a log on so many processes; the result is that of one, apart from ``seconds``.

    Raises:
        TransientError: a process was ended from outside, as for want of memory.
    """
    if processes == 1:
        return await verify(await where.source(), sample=sample)
    began = time.perf_counter()
    loop, found = asyncio.get_running_loop(), Verified()
    # Not forked: a copy of this process would share its connections.
    with ProcessPoolExecutor(processes, mp_context=multiprocessing.get_context("spawn")) as pool:
        shares = [loop.run_in_executor(pool, verify_share, where, sample, n, processes) for n in range(processes)]
        try:
            for share in await asyncio.gather(*shares):
                found.add(share)
        except BrokenProcessPool as exc:
            raise TransientError(
                f"one of the {processes} processes was ended before its cases: look for want of memory, and take fewer --processes"
            ) from exc
    found.seconds = round(time.perf_counter() - began, 3)
    return found


def verify_share(where: LogAt, sample: int, number: int, of: int) -> Verified:
    """Verify the cases of one process, the ``number``-th ``of`` so many. Case ids are hashes, so the shares are alike."""

    def mine(case_id: str) -> bool:
        return int(case_id[24:32], 16) % of == number  # other digits than choose the partition

    async def share() -> Verified:
        return await verify(await where.source(), sample=sample, mine=mine)

    return asyncio.run(share())
