"""A worker whose step kills it, in a process of its own."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec

from agents.core.case import Case
from agents.core.step import StepRequest
from infra.kafka.topics import KafkaAddress
from infra.offline.simulated import Simulated
from infra.ports import Answer
from schemas.news import News
from schemas.topics import Topics
from streams.composition import worker_of
from streams.effects.spending import UnlimitedBudget
from streams.ending import Ending
from streams.runtime.options import WorkerOptions
from streams.wake import Wake
from tests.plain_graph import plain_registry, ports_of
from tests.streams.graphs import asking, degrading
from tests.streams.world import QUICK, news

DEADLY = "a text that kills the process"
DEADLY_CASE = msgspec.convert(news("deadly", text=DEADLY), News).case_id
PARTITIONS = 2
LATENCY_S = 0.3


class Deadly(Simulated):
    """A provider whose client kills the calling process at the deadly case."""

    async def perform(self, effect: Any) -> Answer:
        answer = await super().perform(effect)
        if effect.task == "recall" and effect.parts[0].text == DEADLY_CASE:
            os._exit(17)
        return answer


def deadly_ask(case: Case) -> StepRequest:
    """The recall step, deadly for one text."""
    if case.news.text == DEADLY:
        os._exit(17)
    return plain_registry(asks=True).steps["recall"].ask(case)


async def work_and_die(address: KafkaAddress, topics: Topics, slots: Path, where: str) -> None:
    """Die with status 17 at the deadly case, in the step's own code (``ask``) or in its ``effect``."""
    options = WorkerOptions(slot_dir=slots, partitions=PARTITIONS, session_timeout_s=6.0)
    exchanged = {"recall": asking(deadly_ask)} if where == "ask" else {}
    port = Deadly(LATENCY_S) if where == "effect" else Simulated(LATENCY_S)
    ports = ports_of(port)
    registry = degrading(asks=True, **exchanged)
    worker = worker_of(
        address, topics, registry, ports, QUICK, options, ending=Ending(), wake=Wake(), budget=UnlimitedBudget()
    )
    await worker.run()
