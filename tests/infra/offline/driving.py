"""Cases in memory whose effects the adapters of a scripted installation perform, over a real connection."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any

from agents.prompts import load_prompts
from agents.tables import load_tables
from infra.offline.scripted.ports import scripted_ports
from infra.offline.scripted.server import ScriptedServer
from infra.ports import Ports
from infra.settings import Settings
from schemas.config import Prompt, Snapshot
from schemas.effects import Effect, Reply
from tests.empty_journal import EmptyJournal
from tests.specification import START, Run, opened, run_case

HACK_ZH = "XXX DeFi 协议遭受闪电贷攻击,损失超过 $100M USDC"
HACK_EN = "XXX DeFi protocol suffers a flash loan attack and loses more than $100M USDC"


def snapshot(**prompts: Prompt) -> Snapshot:
    """What ``up`` would pin in simulated mode with a scripted server; ``prompts`` replace some of its own."""
    return Snapshot(
        provider_mode="simulated",
        deep_analysis_tools_enabled=True,
        phase1_rollout_percentage=1.0,
        tool_scrape_enabled=True,
        search_providers=("simulated",),
        synthesis_choice="model",
        prompts={**load_prompts(), **prompts},
        tables=load_tables(demo=True),
    )


class Driver:
    """Runs cases; ``performed`` are the effects that reached an adapter, with what came back."""

    def __init__(self, ports: Ports) -> None:
        self._ports = ports
        self.performed: list[tuple[Effect, Any]] = []

    async def case(self, text: str, config: Snapshot, *, language: str = "en", at: datetime = START) -> Run:
        """Run one case to its end."""
        loop = asyncio.get_running_loop()

        def perform(effect: Effect) -> Reply:
            answer = asyncio.run_coroutine_threadsafe(self._ports.of(effect).perform(effect), loop).result()
            self.performed.append((effect, answer))
            return answer.reply

        return await asyncio.to_thread(run_case, opened(text, language=language, at=at), perform, config=config)


@asynccontextmanager
async def driving(**server: Any) -> AsyncIterator[Driver]:
    """Run a server and adapters that ask it."""
    async with ScriptedServer(**server) as running:
        settings = Settings(_env_file=None, newsproof_mode="simulated", scripted_model_url=running.url)  # type: ignore[call-arg]
        journal = EmptyJournal()
        ports = Ports(**scripted_ports(settings), recall=journal, earlier=journal, story=journal)
        try:
            yield Driver(ports)
        finally:
            await ports.close()
