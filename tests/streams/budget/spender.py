"""A worker that is killed between a reply and its settlement, in a process of its own."""

from __future__ import annotations

import asyncio
import os
import signal
from decimal import Decimal
from pathlib import Path
from typing import Any

from infra.kafka.topics import KafkaAddress
from infra.offline.simulated import Simulated
from infra.ports import Answer
from schemas.budget import ClaimKind
from schemas.calls import Call
from schemas.effects import Effect, Search
from schemas.topics import Topics
from streams.budget.budget import BudgetLedger
from streams.composition import worker_of
from streams.effects.spending import Grant
from streams.ending import Ending
from streams.runtime.options import WorkerOptions
from streams.wake import Wake
from tests.builders import limits_of
from tests.plain_graph import plain_registry, ports_of
from tests.streams.world import QUICK

PARTITIONS = 2
CALL_USD = Decimal("0.001")
DIES_AT = "plan"


def search(query: str = "q") -> Search:
    """A metered tool call, with a metered :class:`Simulated`."""
    from datetime import UTC, datetime

    return Search(provider="simulated", query=query, max_results=5, as_of=datetime(2026, 1, 1, tzinfo=UTC))


async def granted_of(
    ledger: BudgetLedger, effects: list[Effect], port: Simulated, *kinds: ClaimKind, group: str = ""
) -> list[Any]:
    """Request all of them at once, for claims of these kinds from sources of this group."""
    asked = (
        ledger.reserve(e, port, case_id=f"case-{n}", head_id="head", claim_kinds=kinds, source_group=group)
        for n, e in enumerate(effects)
    )
    return list(await asyncio.gather(*asked))


class Silent(BudgetLedger):
    """Its settlements never reach the log."""

    def settle(self, grant: Grant, call: Call) -> None:
        """Do nothing."""


class Killed(Simulated):
    """Dies when one step's reply has arrived."""

    async def perform(self, effect: Any) -> Answer:
        """Reply, or be killed in between."""
        answer = await super().perform(effect)
        if effect.task == DIES_AT:
            os.kill(os.getpid(), signal.SIGKILL)
        return answer


async def spend_and_die(address: KafkaAddress, topics: Topics, slots: Path) -> None:
    """Work until the reply of one step has arrived."""
    port = Killed(cost_usd=CALL_USD, metered=True)
    ports = ports_of(port)
    options = WorkerOptions(slot_dir=slots, partitions=PARTITIONS, session_timeout_s=6.0)
    ending, wake = Ending(), Wake()
    budget = Silent(address, topics, limits_of(), ending, wake)
    registry = plain_registry(asks=True)
    await worker_of(address, topics, registry, ports, QUICK, options, ending=ending, wake=wake, budget=budget).run()
