"""Questions of the research chat on the real log: the runtime runs them as it runs news, from question to answer."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from msgspec.structs import replace

from agents.graphs import research
from agents.prompts import load_prompts
from infra.offline.market import OfflineCandles, OfflineMarket
from infra.offline.model import OfflineModel
from infra.ports import Answer, Free, Ports
from schemas import envelope as wire
from schemas import events as ev
from schemas import research_events as rev
from schemas.calls import ProviderMode
from schemas.config import Snapshot
from schemas.effects import CallModel, SignalsReply
from schemas.errors import TransientError
from schemas.ids import RESEARCH_RUN, uuid5
from schemas.topics import partition_of
from streams.audit.audit import audit
from streams.journal.log import KafkaLog
from tests.builders import received
from tests.streams.world import World, leave_at_once

SNAPSHOT = Snapshot(
    provider_mode="offline", retry_base_seconds=0.05, search_providers=(), prompts=load_prompts("research")
)
AGENTS = ("research_macro", "research_ta", "research_onchain")
QUESTION = "Should I buy BTC now? Please analyse macro, technicals and on-chain data."


class NoSignals(Free):
    provider, mode = "clickhouse", "offline"

    async def perform(self, _effect: Any) -> Answer:
        return Answer(reply=SignalsReply(signals=()), cost_usd=Decimal(0), cost_source="free")

    async def close(self) -> None:
        return None


class Watched(OfflineModel):
    """The offline model, which counts, waits where ``hold`` has an event for a task, and raises what ``fail`` has for it."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: Counter[str] = Counter()
        self.hold: dict[str, asyncio.Event] = {}
        self.fail: dict[str, list[Exception]] = {}

    async def perform(self, effect: CallModel) -> Answer:
        self.asked[effect.task] += 1
        if (gate := self.hold.get(effect.task)) is not None:
            await gate.wait()
        if planned := self.fail.get(effect.task):
            raise planned.pop(0)
        return await super().perform(effect)


def ports(model: Any) -> Ports:
    mode: ProviderMode = "offline"
    return Ports(
        models={"light": model, "heavy": model},
        market=OfflineMarket(mode=mode, latency_s=0),
        candles=OfflineCandles(mode=mode, latency_s=0),
        signals=NoSignals(),
    )


async def ask(world: World, number: int = 1, message: str = QUESTION, **changes: Any) -> str:
    """Append a question, as the web service does; return the id of its turn."""
    turn = uuid5("turn", world.topics.prefix, str(number))
    asked = rev.QuestionAsked(message=message, config_hash=SNAPSHOT.config_hash, language="en", chat_id=turn)
    await append(world, turn, replace(asked, **changes), id=uuid5("asked", turn))
    return turn


async def append(world: World, turn: str, event: ev.Event, *, id: str) -> None:
    key, value, headers = wire.encode(
        event, id=id, case_id=turn, causation_id=None, run_id=RESEARCH_RUN, time=datetime.now(UTC)
    )
    where = partition_of(turn, world.partitions)
    await world.producer.send_and_wait(world.topics.research, value, key=key, partition=where, headers=headers)


async def told(world: World, turn: str) -> list[Any]:
    """The accepted events of a turn, in order."""
    found = await world.journal(world.topics.research)
    return [f.event for f in found if f.accepted and f.envelope is not None and f.envelope.case_id == turn]


async def until_ended(world: World, turn: str, within_s: float = 30.0) -> list[Any]:
    async def ended() -> bool:
        return any(isinstance(e, ev.TERMINAL) for e in await told(world, turn))

    await world.until(ended, within_s)
    return await told(world, turn)


def path(events: list[Any]) -> list[str]:
    return [type(e).__name__ for e in events if not isinstance(e, ev.EffectCompleted)]


async def test_a_question_is_routed_planned_analysed_by_three_agents_and_answered_with_what_it_cost(
    world: World,
) -> None:
    model = Watched()
    async with world.working(research(), ports=ports(model), snapshot=SNAPSHOT):
        events = await until_ended(world, await ask(world))
    assert path(events) == [
        "QuestionAsked", "QuestionRouted", "AnalysisPlanned", "DataCollected", "AgentsReported", "AnswerGiven",
    ]  # fmt: skip
    assert {r.agent_name for e in events if isinstance(e, rev.AgentsReported) for r in e.results} == {
        "MacroAgent", "TAAgent", "OnChainAgent",
    }  # fmt: skip
    assert events[-1].metadata.path == "complete" and events[-1].metadata.provider_mode == "offline"
    paid = Counter(c.prompt_name for e in events for c in e.calls if c.kind == "model")
    assert paid == Counter(("research_route", "research_plan", *AGENTS, "research_answer")) == model.asked


async def test_a_stop_ends_the_turn_at_once_and_asks_nothing_more(world: World) -> None:
    model = Watched()
    out = model.hold["research_plan"] = asyncio.Event()
    async with world.working(research(), ports=ports(model), snapshot=SNAPSHOT) as worker:
        turn = await ask(world)
        await world.until(lambda: model.asked["research_plan"] == 1)
        stop = ev.CancelRequested(requested_by="page", reason="stopped")
        for _ in range(2):  # a double click
            await append(world, turn, stop, id=uuid5("stop", turn))
        events = await until_ended(world, turn)
        out.set()  # what was out comes back, and is passed by
        await world.until(lambda: worker.dispatcher.running == 0)
        assert await told(world, turn) == events
    assert path(events) == ["QuestionAsked", "QuestionRouted", "CancelRequested", "AnswerStopped"]
    assert model.asked == {"research_route": 1, "research_plan": 1}


async def test_finish_writes_the_answer_up_from_the_agents_that_have_answered(world: World) -> None:
    model = Watched()
    model.hold["research_onchain"] = asyncio.Event()  # never answers
    async with world.working(research(), ports=ports(model), snapshot=SNAPSHOT) as worker:
        leave_at_once(worker)
        turn = await ask(world)

        async def two_answered() -> bool:
            done = [e for e in await told(world, turn) if isinstance(e, ev.EffectCompleted) and e.step == "analyze"]
            return len(done) == 2

        await world.until(two_answered)
        await append(world, turn, rev.FinishRequested(requested_by="page"), id=uuid5("finish", turn))
        answer = (await until_ended(world, turn))[-1]
    assert isinstance(answer, rev.AnswerGiven) and answer.metadata.path == "partial"
    assert set(answer.metadata.agents) == {"MacroAgent", "TAAgent", "GeneralAnalysisAgent"}
    assert answer.metadata.agents_missing == ("OnChainAgent",)
    assert model.asked["research_macro"] == model.asked["research_ta"] == model.asked["research_answer"] == 1


async def test_a_stop_holds_although_finish_was_asked_for_after_it(world: World) -> None:
    model = Watched()
    turn = await ask(world)
    await append(world, turn, ev.CancelRequested(requested_by="page", reason="stopped"), id=uuid5("stop", turn))
    await append(world, turn, rev.FinishRequested(requested_by="page"), id=uuid5("finish", turn))
    async with world.working(research(), ports=ports(model), snapshot=SNAPSHOT):
        events = await until_ended(world, turn)
    assert isinstance(events[-1], rev.AnswerStopped) and not model.asked


async def test_a_worker_that_ends_in_the_middle_is_followed_by_one_that_asks_only_what_is_missing(world: World) -> None:
    first, second = Watched(), Watched()
    first.hold["research_ta"] = asyncio.Event()  # never answers
    async with world.working(research(), ports=ports(first), snapshot=SNAPSHOT) as worker:
        leave_at_once(worker)
        turn = await ask(world)

        async def two_answered() -> bool:
            return sum(isinstance(e, ev.EffectCompleted) and e.step == "analyze" for e in await told(world, turn)) == 2

        await world.until(two_answered)
    async with world.working(research(), ports=ports(second), snapshot=SNAPSHOT):
        events = await until_ended(world, turn)
    assert events[-1].metadata.path == "complete"
    assert second.asked == {"research_ta": 1, "research_answer": 1}
    report = await audit(KafkaLog(world.address), world.topics)
    assert report.clean and (report.questions, report.answered, report.repeated_records) == (1, 1, 0)


async def test_without_any_model_the_turn_ends_as_failed_says_why_and_leaves_no_dead_letter(world: World) -> None:
    model = Watched()
    model.fail = {task: [TransientError("away", kind="unavailable")] * 20 for task in load_prompts("research")}
    async with world.working(research(), ports=ports(model), snapshot=SNAPSHOT):
        events = await until_ended(world, await ask(world))
    assert isinstance(events[-1], ev.CaseFailed) and "away" in events[-1].reason
    assert await world.letters() == []


@pytest.mark.parametrize("foreign", ["opening", "event"])
async def test_an_event_of_the_news_journal_in_this_one_is_a_dead_letter_and_chats_go_on(
    world: World, foreign: str
) -> None:
    model = Watched()
    async with world.working(research(), ports=ports(model), snapshot=SNAPSHOT):
        if foreign == "opening":
            odd = uuid5("odd", world.topics.prefix)
            await append(world, odd, received(), id=uuid5("o", odd))
        else:
            out = model.hold["research_plan"] = asyncio.Event()
            odd = await ask(world, 2)
            await world.until(lambda: model.asked["research_plan"] == 1)
            head = [f for f in await world.journal(world.topics.research) if f.envelope is not None][-1].envelope
            assert head is not None
            key, value, headers = wire.encode(
                ev.CaseDegraded(reason="r", failed_step="s"), id=uuid5("x", odd), case_id=odd, causation_id=head.id,
                run_id=RESEARCH_RUN, time=datetime.now(UTC),
            )  # fmt: skip
            where = partition_of(odd, world.partitions)
            await world.producer.send_and_wait(world.topics.research, value, key=key, partition=where, headers=headers)
            model.hold.clear()
            out.set()
        failed = await until_ended_headers(world, odd)
        assert failed == "newsproof.case_failed"
        assert isinstance((await until_ended(world, await ask(world, 3)))[-1], rev.AnswerGiven)
    assert [letter["dl_reason"] for letter in await world.letters()] == ["bad_event"]


async def until_ended_headers(world: World, turn: str) -> str:
    async def ended() -> bool:
        return bool(await ends())

    async def ends() -> list[str]:
        found = await world.journal(world.topics.research)
        types = [f.envelope.type for f in found if f.accepted and f.envelope is not None and f.envelope.case_id == turn]
        return [t for t in types if t in ev.TERMINAL_NAMES]

    await world.until(ended)
    return (await ends())[0]
