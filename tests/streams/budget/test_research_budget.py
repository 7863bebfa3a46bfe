"""Money of a chat that its user stops: on the real log the books stay consistent, and what comes too late is shown to nobody."""

from __future__ import annotations

import asyncio
from decimal import Decimal
from typing import Any

from msgspec.structs import replace

from agents.graphs import research
from infra.ports import Answer
from schemas import events as ev
from schemas import research_events as rev
from schemas.budget import usd_of
from schemas.effects import CallModel
from schemas.ids import uuid5
from streams.budget.budget import BudgetLedger
from streams.ending import Ending
from streams.feed.turn_events import TurnEventConverter
from streams.journal.clock import utc_now
from streams.wake import Wake
from tests.budget_audit import BudgetAudit, budget_overshoot
from tests.builders import limits_of
from tests.streams.runtime.test_research import (
    QUESTION,
    SNAPSHOT,
    Watched,
    append,
    ask,
    path,
    ports,
    until_ended,
)
from tests.streams.world import World, leave_at_once

AT_MOST, COST = Decimal("0.010"), Decimal("0.004")
STOP = ev.CancelRequested(requested_by="page", reason="stopped")


class Priced(Watched):
    """The offline model at a price."""

    def worst_case_usd(self, effect: Any) -> Decimal | None:
        return AT_MOST

    async def perform(self, effect: CallModel) -> Answer:
        return replace(await super().perform(effect), cost_usd=COST)


class Dammed(BudgetLedger):
    """Hears nothing of the log while ``dam`` is set; ``unheard`` counts what it does not hear."""

    dam, unheard = False, 0

    def _fold(self, record: Any) -> None:
        if self.dam:
            self.unheard += 1
        else:
            super()._fold(record)


async def stopped_while_planning(
    world: World, model: Priced, spending: BudgetLedger, *, answers: bool = False
) -> list[Any]:
    """Stop a turn while the call of its second step is out; return its accepted events.

    ``answers``: the call comes back after the stop; else the worker ends before it does, and cuts it off.
    """
    out = model.hold["research_plan"] = asyncio.Event()
    async with world.working(research(), ports=ports(model), snapshot=SNAPSHOT, spending=spending) as worker:
        turn = await ask(world)
        await world.until(lambda: model.asked["research_plan"] == 1)
        await append(world, turn, STOP, id=uuid5("stop", turn))
        events = await until_ended(world, turn)
        if answers:
            out.set()
            await world.until(lambda: worker.dispatcher.running == 0)
        else:
            leave_at_once(worker)
    return events


async def audited(world: World) -> BudgetAudit:
    return await budget_overshoot(world.address, world.topics)


def ledger(world: World, **limits: Any) -> BudgetLedger:
    return BudgetLedger(world.address, world.topics, limits_of(reserve="0", **limits), Ending(), Wake())


async def test_the_next_worker_keeps_what_a_call_that_was_cut_off_left_bound_and_grants_what_is_left_to_the_last(
    world: World,
) -> None:
    whole = COST + AT_MOST + 6 * AT_MOST  # what the stopped turn binds, and one more turn at its worst
    await stopped_while_planning(world, Priced(), ledger(world, usd=str(whole)))
    after = ledger(world, usd=str(whole))
    model = Priced()
    async with world.working(research(), ports=ports(model), snapshot=SNAPSHOT, spending=after):
        events = await until_ended(world, await ask(world, 2))
        await world.until(lambda: len(after.state.held) == 1)
        assert usd_of(after.state.left(utc_now())[0]) == whole - COST - AT_MOST - 6 * COST
    assert isinstance(events[-1], rev.AnswerGiven) and events[-1].metadata.path == "complete"
    audit = await audited(world)
    assert (audit.granted, audit.denied, audit.settled, audit.unsettled, audit.overshoot) == (8, 0, 7, 1, 0)


async def test_an_answer_that_comes_after_the_stop_is_paid_passed_by_and_not_shown(world: World) -> None:
    events = await stopped_while_planning(world, Priced(), ledger(world), answers=True)
    assert path(events) == ["QuestionAsked", "QuestionRouted", "CancelRequested", "AnswerStopped"]
    found = [f for f in await world.journal(world.topics.research) if f.envelope is not None]
    [late] = [f for f in found if not f.accepted]
    assert isinstance(late.event, rev.AnalysisPlanned) and [c.cost_usd for c in late.event.calls] == [COST]
    teller = TurnEventConverter(SNAPSHOT)
    said = [one for f in found if f.accepted and f.envelope for one in teller.take(f.envelope, f.event)]
    assert [name for name, _ in said] == ["status", "super_agent_decision", "status", "done"]
    assert said[-1][1]["stopped"] is True and QUESTION in str(said[0][1])
    audit = await audited(world)
    assert (audit.granted, audit.settled, audit.unsettled, audit.overshoot) == (2, 2, 0, 0), "its cost is known"
    [month] = audit.months.values()
    assert (month.paid_usd, month.held_usd) == (2 * COST, 0)


async def test_a_stop_before_the_grant_is_there_gives_it_back_and_asks_no_model(world: World) -> None:
    model = Priced()
    spending = Dammed(world.address, world.topics, limits_of(reserve="0"), Ending(), Wake())
    async with world.working(research(), ports=ports(model), snapshot=SNAPSHOT, spending=spending) as worker:
        await world.until(lambda: spending.state.limits is not None)
        spending.dam = True
        turn = await ask(world)
        await world.until(lambda: spending.reserved == spending.unheard == 1)
        await append(world, turn, STOP, id=uuid5("stop", turn))
        events = await until_ended(world, turn)
        await world.until(lambda: worker.dispatcher.running == 0)
    assert path(events) == ["QuestionAsked", "CancelRequested", "AnswerStopped"] and not model.asked
    audit = await audited(world)
    assert (audit.granted, audit.settled, audit.unsettled) == (1, 1, 0)
    [month] = audit.months.values()
    assert (month.paid_usd, month.held_usd) == (0, 0)
