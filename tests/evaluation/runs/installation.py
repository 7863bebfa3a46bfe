"""A small installation with live traffic: a worker and a publisher on a log of its own, offline, and a database."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from agents.graphs import verification
from agents.prompts import load_prompts
from agents.tables import load_tables
from evaluation.declaration import Watch
from evaluation.runs.plan import RunPlan
from evaluation.runs.shadow import Shadow, ShadowSummary, shadow_plan
from infra.clickhouse.client import ClickHouse
from infra.offline.model import OfflineModel
from infra.offline.search import OfflineSearch
from infra.ports import Answer, Ports
from infra.settings import Settings
from newsproof.app.data_access import LogAccess
from newsproof.app.version import code_version
from schemas.config import Prompt, Snapshot
from schemas.effects import CallModel
from tests.empty_journal import EmptyJournal
from tests.streams.world import World

TEXTS = (
    "KuCoin detects large abnormal withdrawals from its hot wallets; $280M in tokens stolen",
    "Poly Network is attacked and $610M in tokens are stolen across three chains",
    "Ronin bridge hacked: 173,600 ETH and 25.5M USDC were drained",
    "Nomad bridge drained of $190M in a chaotic exploit",
    "Wormhole bridge exploited, 120,000 wETH stolen",
)
"""Always analysed deeply."""
WATCH = Watch(metric="confidence")
WITHIN_S = 180.0
"""For what takes a second: other tests may have the machine."""
LIVE = Snapshot(
    deep_analysis_tools_enabled=True,
    phase1_rollout_percentage=1.0,
    prompts=load_prompts(),
    tables=load_tables(demo=True),
    case_deadline_seconds=120.0,
    code_version=code_version(),
)


class Priced(OfflineModel):
    """The offline rules at a price, and what they were asked. ``worst_usd`` is what a call may cost."""

    def __init__(self, cost_usd: str = "0.3", worst_usd: str = "0.4") -> None:
        super().__init__()
        self._cost, self._worst = Decimal(cost_usd), Decimal(worst_usd)
        self.asked: list[CallModel] = []

    async def perform(self, effect: Any) -> Answer:
        self.asked.append(effect)
        return replace(await super().perform(effect), cost_usd=self._cost)

    def worst_case_usd(self, effect: Any) -> Decimal | None:
        return self._worst


def ports(model: OfflineModel) -> Ports:
    search, journal = OfflineSearch(), EmptyJournal()
    return Ports(
        models={"light": model, "heavy": model}, search={"offline": search}, recall=journal, earlier=journal, story=journal,
        concerned=journal,
    )  # fmt: skip


def candidate(name: str = "synthesize") -> dict[str, Prompt]:
    prompt = load_prompts()[name]
    return {name: replace(prompt, version="9", text=prompt.text + "\nBe strict.\n", hash="f" * 32)}


class Installation:
    """Live traffic, and shadows of it."""

    def __init__(self, world: World, tables: ClickHouse, directory: Path) -> None:
        self.world, self.tables = world, tables
        settings = Settings(_env_file=None, newsproof_data_dir=directory, newsproof_mode="offline")  # type: ignore[call-arg]
        self._log = LogAccess(settings, world.address, world.topics, False)

    @asynccontextmanager
    async def living(self) -> AsyncIterator[None]:
        """Let a worker and a publisher run."""
        async with (
            self.world.publishing(),
            self.world.working(verification(), ports=ports(OfflineModel()), snapshot=LIVE),
        ):
            yield

    def shadow(
        self, model: OfflineModel, *, plan: RunPlan | None = None, budget: str = "100", client: Any = None
    ) -> Shadow:
        chosen = plan or shadow_plan(candidate(), None, "fail", WATCH)
        return Shadow(self._log, client or self.tables, ports(model), chosen, Decimal(budget))

    @asynccontextmanager
    async def shadowing(self, shadow: Shadow) -> AsyncIterator[asyncio.Task[ShadowSummary]]:
        """Run a shadow until the block ends. The block begins once it follows."""
        task = asyncio.create_task(shadow.run())
        following = asyncio.create_task(shadow.following.wait())
        await asyncio.wait({task, following}, return_when=asyncio.FIRST_COMPLETED)
        following.cancel()
        try:
            yield task
        finally:
            shadow.stop()
            await asyncio.wait({task})

    async def rows(self, sql: str, run_id: str) -> list[dict[str, Any]]:
        return (await self.tables.query(sql, {"run": run_id})).dicts()

    async def judged(self, run_id: str) -> int:
        found = await self.rows("SELECT count() AS n FROM run_cases FINAL WHERE run_id = {run:String}", run_id)
        return int(found[0]["n"])

    async def until_judged(self, run_id: str, cases: int) -> None:
        async def there() -> bool:
            return await self.judged(run_id) >= cases

        await self.world.until(there, within_s=WITHIN_S)

    async def until_published(self, signals: int) -> None:
        async def there() -> bool:
            return len(await self.world.signals()) >= signals

        await self.world.until(there, within_s=WITHIN_S)
