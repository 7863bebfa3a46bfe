"""Benchmark of verifications: many claims of strangers at once, none lost, opened twice, or published."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

from infra.kafka.topics import offsets_of, read_range
from lab.backtest.selftest import offline_settings
from lab.bench.measures import Figure
from newsproof.app.composition import address_of, topics_of
from newsproof.app.processes.supervisor import Pipeline, pipeline, watched
from newsproof.sdk.verification import Verification, Verifier, verifying
from schemas.envelope import read_signal
from schemas.events import OPENING_NAME
from schemas.news import is_asked

CLAIMS, AT_ONCE = 1000, 100


async def verifications(claims: int = CLAIMS) -> list[Figure]:
    """Ask ``claims`` different claims, ``AT_ONCE`` at a time, and each of the first ``AT_ONCE`` twice in the same moment."""
    with TemporaryDirectory(prefix="newsproof-bench-") as directory:
        async with pipeline(offline_settings(Path(directory), max_open_cases=2000)) as running:
            return await watched(running, _asked(running, claims))


async def _asked(running: Pipeline, claims: int) -> list[Figure]:
    address, topics = address_of(running.settings), topics_of(running.settings)
    async with verifying(address, topics) as verifier:
        await verifier.verify(
            "Kraken lists a token", client="bench", deadline_s=60
        )  # the first call waits for everything
        alone = [(await _one(verifier, -n)).seconds for n in range(1, 21)]
        began, answers = time.perf_counter(), []
        for first in range(0, claims, AT_ONCE):
            numbers = [*range(first, first + AT_ONCE), *(range(AT_ONCE) if not first else ())]
            answers += await asyncio.gather(*(_one(verifier, n) for n in numbers))
        took = time.perf_counter() - began
    opened: Counter[bytes] = Counter()
    async for _, records in read_range(address, await offsets_of(address, topics.cases)):
        opened.update(r.key for r in records if dict(r.headers)["ce_type"].decode() == OPENING_NAME)
    published = 0
    async for _, records in read_range(address, await offsets_of(address, topics.signals)):
        published += sum(is_asked(read_signal(record)[0].news_source) for record in records)
    asked = {answer.case_id for answer in answers}
    waits = sorted(answer.seconds for answer in answers)
    together = f"{AT_ONCE} at once"
    return [
        Figure(name=f"verify: of {claims} claims, without a final answer", value=sum(o.reached != "final" for o in answers),
               unit="claims", target="0"),
        Figure(name="verify: cases opened more or less often than once", unit="cases", target="0",
               value=abs(claims - len(asked)) + sum(opened[id.encode()] != 1 for id in asked)),
        Figure(name="verify: verifications on the topic of signals", value=published, unit="signals", target="0"),
        Figure(name="verify: one claim alone, median", value=statistics.median(alone), unit="s", target="<= 1.5"),
        Figure(name=f"verify: {together}, slowest of all", value=waits[-1], unit="s", target="-",
               baseline="median alone", ratio=waits[-1] / statistics.median(alone)),
        Figure(name=f"verify: claims answered per second, {together}", value=len(asked) / took, unit="1/s", target="-"),
    ]  # fmt: skip


def _one(verifier: Verifier, number: int) -> asyncio.Future[Verification]:
    text = f"币安将上线代币 T{number}" if number % 2 else f"Coinbase will list token T{number}"
    return asyncio.ensure_future(verifier.verify(text, client="bench", deadline_s=120))
