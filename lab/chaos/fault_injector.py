"""Injects faults. Each fault hits a busy process, and is over when its target works again."""

from __future__ import annotations

import asyncio
import random
import signal
from collections import Counter
from collections.abc import Iterable

from lab.chaos.children import Child, until
from lab.chaos.installation import Installation
from lab.chaos.plan import PLAIN, Fault, Kind, Shape
from lab.chaos.watch import Watch
from newsproof.app.servers import Say
from schemas.errors import TransientError

PATIENCE_S = 120.0
"""Maximum time for a process to work again after a fault. A longer time is a finding."""
FAILPOINT_S = 20.0
"""Time to wait for an armed failpoint; then the process is killed wherever it is."""
FAULT_SHARE = 0.3
FAULTS_A_PHASE = 60
PUBLISH = "publish:"
BESIDE: tuple[Kind, ...] = ("sink_kill", "research_kill", "research_zombie", "clickhouse", "fault")
"""Faults that run concurrently with faults to workers of the news flow."""


class FaultInjector:
    """Injects the planned faults and counts them."""

    def __init__(self, installation: Installation, watch: Watch, shape: Shape, say: Say) -> None:
        self._at, self._watch, self._shape, self._say = installation, watch, shape, say
        self._order = random.Random(shape.seed + 1)
        self._joined = 0
        self.injected: Counter[str] = Counter()
        self.points: Counter[str] = Counter()
        """Failpoint → kills there, of workers and the sink."""
        self.provider_faults: Counter[str] = Counter()
        self._beside: list[asyncio.Task[None]] = []
        self._turn = {kind: asyncio.Lock() for kind in BESIDE}

    async def inject(self, fault: Fault) -> None:
        """Inject one fault. Those in :data:`BESIDE` run concurrently, one at a time of each kind.

        Raises:
            TransientError: the target did not resume work.
        """
        if fault.kind in BESIDE:
            self._beside.append(asyncio.create_task(self._inject_beside(fault), name=f"chaos-{fault.kind}"))
        else:
            await self._inject(fault)

    async def over(self) -> None:
        """Wait until every fault is over.

        Raises:
            TransientError: as :meth:`inject`.
        """
        await asyncio.gather(*self._beside)

    async def _inject_beside(self, fault: Fault) -> None:
        async with self._turn[fault.kind]:
            await self._inject(fault)

    async def _inject(self, fault: Fault) -> None:
        self._say(f"{len(self._watch.ended):,} cases ended: {fault.kind} {fault.point}")
        match fault.kind:
            case "kill":
                await self._kill(await self._worker(publishing=fault.point.startswith(PUBLISH)), fault.point)
                self.injected["kill"] += 1
            case "sink_kill":
                await self._kill(await self._working([self._at.sink]), fault.point)
                self.injected["sink_kill"] += 1
            case "research_kill":
                await self._kill(await self._working(self._drawn(self._at.research)), fault.point)
                self.injected["research_kill"] += 1
            case "terminate":
                await self._terminate(await self._worker())
            case "zombie":
                await self._freeze(await self._worker())
                self.injected["zombie"] += 1
            case "research_zombie":
                await self._freeze(await self._working(self._drawn(self._at.research)))
                self.injected["research_zombie"] += 1
            case "join":
                await self._join()
            case "leave":
                await self._leave()
            case "broker":
                await self._broker()
            case "clickhouse":
                await self._clickhouse()
            case "fault":
                await self._fault(fault.point)

    # Processes

    async def _kill(self, child: Child, point: str) -> None:
        child.struck = True
        if point == PLAIN:
            await asyncio.sleep(0.3 * self._order.random())
        else:
            child.arm(point)
            if not await child.ended(FAILPOINT_S):
                self._say(f"{child.name} did not come by {point}; killed where it is")
                point = PLAIN
        child.kill()
        self.points[point] += 1
        self._again(child)

    async def _terminate(self, child: Child) -> None:
        child.struck = True
        child.signal(signal.SIGTERM)
        if not await child.ended(PATIENCE_S):
            raise TransientError(f"{child.name} did not end within {PATIENCE_S:g} s of SIGTERM", kind="internal")
        self.injected["terminate"] += 1
        self._again(child)

    async def _freeze(self, child: Child) -> None:
        child.struck = True
        child.signal(signal.SIGSTOP)
        # The injected pause: past the session timeout, and long enough for the others to take over.
        await asyncio.sleep(self._shape.session_s + 3.0)
        started = child.counters.started
        child.signal(signal.SIGCONT)
        back = await until(lambda: child.counters.started > started or not child.running, within_s=PATIENCE_S)
        if not back:
            self._say(f"{child.name} has had no work since it was thawed")
        child.struck = False  # the keeper restarts it if it has exited

    async def _join(self) -> None:
        self._joined += 1
        child = self._at.add_worker(f"joined-{self._joined}")
        child.start()
        await self._working([child])
        self.injected["join"] += 1

    async def _leave(self) -> None:
        slot = f"joined-{self._joined}"
        child = self._at.workers[slot]
        child.struck = True
        child.signal(signal.SIGTERM)
        if not await child.ended(PATIENCE_S):
            raise TransientError(f"{child.name} did not end within {PATIENCE_S:g} s of SIGTERM", kind="internal")
        self._at.gone.append(self._at.workers.pop(slot))
        self.injected["leave"] += 1

    def _again(self, child: Child) -> None:
        child.kill()
        child.start()
        child.struck = False

    async def _worker(self, *, publishing: bool = False) -> Child:
        return await self._working(self._drawn(self._at.workers.values()), publishing=publishing)

    def _drawn(self, children: Iterable[Child]) -> list[Child]:
        order = list(children)
        self._order.shuffle(order)
        return order

    async def _working(self, children: list[Child], *, publishing: bool = False) -> Child:
        working: list[Child] = []

        def at_work() -> bool:
            working[:] = [c for c in children if c.working and (c.counters.publishing or not publishing)]
            return bool(working)

        if not await until(at_work, within_s=PATIENCE_S):
            words = "\n".join(f"{c.name} {c.counters}: {c.last_words()}" for c in children)
            what = "no active publisher" if publishing else "nobody was at work"
            raise TransientError(f"{what} within {PATIENCE_S:g} s:\n{words}", kind="internal")
        return working[0]

    # Servers and providers

    async def _broker(self) -> None:
        await self._at.kill_broker()
        self._watch.broker_was_away()
        self.injected["broker"] += 1

    async def _clickhouse(self) -> None:
        self._at.clickhouse.kill()
        await asyncio.sleep(0.5 + self._order.random())  # down for a moment, so that the sink fails to connect
        await self._at.clickhouse.start()
        self.injected["clickhouse"] += 1

    async def _fault(self, name: str) -> None:
        _, before, _ = await self._at.provider.counts()
        await self._at.provider.fault(name, FAULT_SHARE)
        failed = 0
        for _ in range(100):
            await asyncio.sleep(0.1)
            failed = (await self._at.provider.counts())[1] - before
            if failed >= FAULTS_A_PHASE:
                break
        await self._at.provider.fault("none", 0.0)
        self.provider_faults[name] += failed
        self.injected["fault"] += 1
