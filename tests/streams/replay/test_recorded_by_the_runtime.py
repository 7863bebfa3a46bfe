"""What the runtime itself recorded, with failures of every kind, is replayed byte for byte without a call."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from agents.graphs import verification
from evaluation.replay.candidates import ReplayBuilder
from evaluation.replay.journal import LogSource, recordings
from evaluation.replay.verify import same, verify
from infra.offline.model import OfflineModel
from infra.offline.search import OfflinePages, OfflineSearch
from infra.offline.simulated import Simulated
from infra.ports import Answer, Ports
from infra.settings import load_settings
from newsproof.app.composition import snapshot_of
from schemas.effects import CallModel, Failure, request_hash
from schemas.errors import PermanentError, TransientError
from schemas.events import CaseDegraded, EffectCompleted, SignalSynthesized, StepFailed
from streams.journal.log import KafkaLog
from streams.replay import Change, Recording, reused_alone
from tests.streams.world import World, news

CASES = 240
CLAIMS = (
    "Exchange number {n} hacked, {n}.5 million dollars of ether stolen from its hot wallet",
    "Coinbase lists token T{n}, trading starts tomorrow",
    "SEC sues issuer {n} of a stablecoin over reserves",
    "交易所{n}遭黑客攻击, 损失超过{n}万美元",
    "Weekly letter {n}: markets were calm",
    "Stablecoin S{n} loses its peg and trades at 0.{n} dollars",
    "Company {n} denies that it was hacked",
)


class Unreliable:
    """Passes an adapter's answers on, but for some requests: failed once, or always."""

    def __init__(self, port: Any) -> None:
        self._port = port
        self._failed: set[str] = set()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._port, name)

    async def perform(self, effect: Any) -> Answer:
        wanted = request_hash(effect)
        if wanted[0] == "0":
            raise PermanentError("no such thing", kind="refused")
        if wanted[0] in "123" and wanted not in self._failed:
            self._failed.add(wanted)
            raise TransientError("try again", kind="timeout")
        if wanted[0] in "456" and isinstance(effect, CallModel):
            return Answer(reply=Failure(kind="cut", message="cut", retryable=False), cost_usd=Decimal(0))
        answer: Answer = await self._port.perform(effect)
        return answer


def ports() -> Ports:
    model, search, ours = Unreliable(OfflineModel()), OfflineSearch(), Simulated()
    return Ports(
        models={"light": model, "heavy": model},
        search={search.provider: Unreliable(search)},
        recall=Unreliable(ours),
        earlier=ours,
        concerned=ours,
        scrape=Unreliable(OfflinePages(search.documents)),
    )


def item(number: int) -> dict[str, Any]:
    return news(
        number,
        text=CLAIMS[number % len(CLAIMS)].format(n=number),
        published_at=(datetime(2024, 5, 1, tzinfo=UTC) + timedelta(hours=number)).isoformat(),
    )


@pytest.mark.long
@pytest.mark.slow
async def test_hundreds_of_cases_come_out_byte_for_byte_as_the_runtime_decided_them(world: World) -> None:
    settings = load_settings(
        newsproof_mode="offline",
        phase1_rollout_percentage=0.7,
        deep_analysis_tools_enabled=True,
        tool_scrape_enabled=True,
        publish_preliminary=True,
    )
    snapshot = snapshot_of(settings)
    async with world.working(verification(), ports=ports(), snapshot=snapshot):
        await world.publish(*(item(n) for n in range(CASES)))
        await world.until_closed(CASES, within_s=150)
    source = await LogSource.made(KafkaLog(world.address), world.topics)

    found = await verify(source)
    assert (found.cases, found.differences, found.misses, found.calls) == (CASES, [], 0, 0)

    kinds: Counter[str] = Counter()
    as_recorded = ReplayBuilder(verification(), source.snapshots, Change())
    async for recording in recordings(source, lambda _id: True):
        kinds.update({type(r.event).__name__ for r in recording.records} | outcomes(recording) | cuts(recording))
        replayed = reused_alone(as_recorded.build(recording).run())
        assert same(recording, replayed)
        assert (replayed.unused, replayed.diverged_at) == (0, "")
        assert replayed.count("reused") == sum(len({c.request_hash for c in r.event.calls}) for r in recording.records)
    # Otherwise the test would show little.
    wanted = (StepFailed, CaseDegraded, EffectCompleted, SignalSynthesized)
    assert all(kinds[t.__name__] >= 10 for t in wanted), kinds
    assert kinds["retry"] >= 10, kinds
    assert kinds["degrade"] >= 3, kinds
    assert kinds["cut, then answered"] >= 10 and kinds["cut twice"] >= 3, kinds


def outcomes(recording: Recording) -> set[str]:
    return {r.event.outcome for r in recording.records if isinstance(r.event, StepFailed)}


def cuts(recording: Recording) -> set[str]:
    twice = {
        "cut twice" for r in recording.records if isinstance(r.event, StepFailed) and r.event.failure.kind == "cut"
    }
    logged = any(c.error == "cut" for r in recording.records for c in r.event.calls)
    return twice or ({"cut, then answered"} if logged else set())
