"""The exact budget on a real log: several workers, restarts, crashes, garbage, and what a case says of a denial."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from agents.graphs import verification
from infra.offline.model import OfflineModel
from infra.offline.search import OfflineSearch
from infra.offline.simulated import Simulated
from infra.ports import Ports
from infra.settings import Settings
from infra.settings.verification import FULL_PIPELINE
from newsproof.app.composition import limits_of_settings, snapshot_of
from schemas import events as ev
from schemas.budget import UNLISTED, LimitsSet, Reserved, Settled, encode, usd_of
from schemas.calls import Call
from schemas.config import Snapshot
from schemas.effects import CallModel, Failure, Trusted
from schemas.events import CaseEvent
from schemas.topics import NewerRecordError
from streams.budget.budget import REFRESH_DAYS, BudgetLedger
from streams.budget.reading import read_budget
from streams.budget.rule import BudgetState
from streams.effects.spending import Grant
from streams.ending import Ending
from streams.journal.clock import utc_now
from streams.wake import Wake
from tests.budget_audit import BudgetAudit, _granted, _Sums, budget_overshoot
from tests.builders import call_model, limits_of
from tests.plain_graph import plain_registry, simulated_ports
from tests.streams.budget.spender import CALL_USD, granted_of, search, spend_and_die
from tests.streams.forked import exit_of, forked
from tests.streams.world import World, news

CHECKOUT = Path(__file__).parents[3]
METERED = Simulated(cost_usd=CALL_USD, metered=True)
FREE = Simulated()


@asynccontextmanager
async def ledger(world: World, limits: LimitsSet | None = None, **more: Any) -> AsyncIterator[BudgetLedger]:
    """A ledger for one block."""
    made = BudgetLedger(world.address, world.topics, limits or limits_of(), Ending(), Wake(), **more)
    await made.start()
    try:
        yield made
    finally:
        await made.stop()


async def one(of: BudgetLedger, port: Simulated = METERED, effect: Any = None) -> Grant | Failure | None:
    return await of.reserve(effect or search(), port, case_id="case", head_id="head")


def call(grant: str, usd: str | None) -> Call:
    return Call(
        kind="search",
        provider="simulated",
        mode="simulated",
        request_hash="0" * 32,
        reply=Failure(kind="timeout", message="late", retryable=True),
        latency_ms=1.0,
        replied_at=utc_now(),
        cost_usd=None if usd is None else Decimal(usd),
        grant=grant,
    )


async def test_four_workers_that_race_for_the_last_ten_units_get_exactly_ten(world: World) -> None:
    async with AsyncExitStack() as stack:
        four = [await stack.enter_async_context(ledger(world, limits_of(units=10))) for _ in range(4)]
        got = await asyncio.gather(*(granted_of(each, [search()] * 10, METERED) for each in four))
        flat = [g for each in got for g in each]
        assert sum(isinstance(g, Grant) for g in flat) == 10
        denials = [g for g in flat if isinstance(g, Failure)]
        assert len(denials) == 30
        assert {(d.kind, d.retryable) for d in denials} == {("budget", False)}
        assert all("DEEP_ANALYSIS_TOOL_DAILY_LIMIT" in d.message for d in denials)
        end = (await world.ends(world.topics.budget))[0]
        await world.until(lambda: all(each.position == end for each in four))
        assert len({str(each.state.held) for each in four}) == 1, "all four came to the same"
    audit = await budget_overshoot(world.address, world.topics)
    assert (audit.granted, audit.denied, audit.unsettled, audit.overshoot) == (10, 30, 10, 0)


def test_the_audit_counts_what_a_rule_without_shares_would_have_granted() -> None:
    def overshoot(limits: LimitsSet, first: int, **changes: Any) -> BudgetAudit:
        sums, audit, state = _Sums(), BudgetAudit(days={}, months={}), BudgetState()
        state.fold(0, 0, limits)
        for n in range(first):
            _granted(audit, sums, state, replace(rumour(n), **changes))
        return audit

    money = limits_of(usd="10", daily=10, group=50, unlisted=30)
    paid = {"usd": Decimal("0.2"), "claim_kinds": ()}
    assert overshoot(money, 3, **paid, group=UNLISTED).overshoot_usd == Decimal("0.3"), "0.60 USD of a day's 0.30"
    assert overshoot(money, 6, **paid).overshoot_usd == Decimal("0.2"), "1.20 USD of the 1 that a day may cost"
    assert overshoot(limits_of(units=10, doubtful=40, forced=20), 6).overshoot_units == 2


def rumour(n: int) -> Reserved:
    return Reserved(
        id=f"r-{n}", effect="search", provider="p", usd=Decimal(0), units=1, for_triage=False, case_id="c", head_id="h",
        claim_kinds=("doubtful",),
    )  # fmt: skip


async def test_a_restart_keeps_what_was_spent_and_writes_no_limits_anew(world: World) -> None:
    async with ledger(world, limits_of(units=3)) as first:
        for _ in range(2):
            grant = await one(first)
            assert isinstance(grant, Grant)
            first.settle(grant, call(grant.id, "0.0005"))
    end = (await world.ends(world.topics.budget))[0]
    async with ledger(world, limits_of(units=3)) as second:
        assert second.position == end == 5, "limits, two reservations, two settlements, and nothing more"
        money, _, units = second.state.left(utc_now())
        assert (usd_of(money), units) == (Decimal("29.999"), 1)
        assert isinstance(await one(second), Grant)
        assert isinstance(await one(second), Failure)


async def test_a_worker_that_starts_again_knows_what_was_spent_and_reads_none_of_it(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[int] = []
    plain = BudgetLedger._fold

    def counted(self: BudgetLedger, record: Any) -> None:
        read.append(record.offset)
        plain(self, record)

    monkeypatch.setattr(BudgetLedger, "_fold", counted)

    async with ledger(world, limits_of(units=3), directory=tmp_path) as first:
        grant = await one(first)
        assert isinstance(grant, Grant)
        first.settle(grant, call(grant.id, "0.0005"))
    async with ledger(world, limits_of(units=3)) as other:  # of another worker
        assert isinstance(await one(other), Grant)
    read.clear()
    async with ledger(world, limits_of(units=3), directory=tmp_path) as second:
        assert read in ([2, 3], [3]), "the settlement may have been read before the stop"
        assert vars(second.state) == vars(await read_budget(world.address, world.topics))


async def test_the_limits_of_the_latest_start_hold_for_every_worker(world: World) -> None:
    async with ledger(world, limits_of(units=1)) as early:
        assert isinstance(await one(early), Grant)
        assert isinstance(await one(early), Failure)
        async with ledger(world, limits_of(units=2)) as late:
            await world.until(lambda: early.position >= late.position)
            assert isinstance(await one(early), Grant)
            assert isinstance(await one(late), Failure)


async def test_what_is_free_and_unmetered_writes_nothing(world: World) -> None:
    async with ledger(world) as free:
        before = await world.ends(world.topics.budget)
        assert await one(free, FREE) is None
        assert await one(free, METERED, effect=_recall()) is None
        assert (await world.ends(world.topics.budget), free.reserved) == (before, 0)


def _recall() -> Any:
    from schemas.effects import Recall

    return Recall(text="t", asset="BTC", as_of=utc_now(), limit=3, exclude_case="")


async def test_a_call_that_is_cancelled_before_it_is_granted_gives_all_back(world: World) -> None:
    async with ledger(world, limits_of(units=1)) as one_left:
        task = asyncio.create_task(one(one_left))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await world.until(lambda: one_left.reserved == 1 and one_left.position >= 3)
        assert (one_left.state.left(utc_now())[2], one_left.state.held) == (1, {})


async def test_a_triage_call_may_be_paid_from_its_own_reserve(world: World) -> None:
    async with ledger(world, limits_of(usd="0", reserve="0.001")) as poor:
        assert isinstance(await one(poor, effect=_ask("critique")), Failure)
        assert isinstance(await one(poor, effect=_ask("triage")), Grant)
        gone = await one(poor, effect=_ask("triage"))
        assert isinstance(gone, Failure) and "reserve" in gone.message
        why = poor.may_admit(0)
        assert why is not None and "DEEP_ANALYSIS_MONTHLY_BUDGET" in why


def _ask(task: str) -> CallModel:
    return call_model(task, Trusted("x"))


async def test_garbage_is_passed_by_counted_and_kept_as_a_dead_letter_once(world: World) -> None:
    garbage = [
        b"",
        b"{",
        b"\xff\x00",
        encode(Settled(id="a", usd=Decimal(1), by="x"))[:-3],
        b'{"type":"x","version":9}',
    ]
    for value in (*garbage, None):
        await world.producer.send_and_wait(world.topics.budget, value, key=b"k", partition=0)
    async with ledger(world, limits_of(units=1)) as reader, ledger(world) as other:
        assert reader.state.garbage == other.state.garbage == len(garbage) + 1
        reader.tend(elected=True)
        other.tend(elected=False)
        await world.until(lambda: not reader.state.unreported and not other.state.unreported)
        reader.tend(elected=True)
        assert isinstance(await one(reader), Grant)
    letters = [letter for letter in await world.letters() if letter["dl_topic"] == world.topics.budget]
    assert sorted(int(letter["dl_offset"]) for letter in letters) == list(range(len(garbage) + 1))
    assert {letter["dl_reason"] for letter in letters} == {"bad_budget_record"}


async def test_a_record_of_newer_code_stops_the_worker_rather_than_let_it_decide_otherwise(world: World) -> None:
    async with ledger(world) as reader:
        value = b'{"type":"newsproof.budget_settled","id":"a","usd":"1","by":"x","version":6}'
        await world.producer.send_and_wait(world.topics.budget, value, partition=0)
        await world.until(lambda: reader.ending.over)
    assert "deploy it before its writers" in str(reader.ending.error)


async def test_a_worker_that_meets_a_record_of_newer_code_at_its_start_does_not_start(world: World) -> None:
    value = b'{"type":"newsproof.budget_dreamt","version":6}'
    await world.producer.send_and_wait(world.topics.budget, value, partition=0)
    with pytest.raises(NewerRecordError, match="deploy"):
        async with ledger(world):
            raise AssertionError("it must not start")


async def test_limits_that_grow_old_are_written_again_before_the_topic_forgets_them(world: World) -> None:
    async with ledger(world, limits_of(units=7)) as running, ledger(world, limits_of(units=8)) as later:
        await world.until(lambda: running.position == later.position)
        running.tend(elected=True)
        assert running._tending is not None
        await running._tending
        end = (await world.ends(world.topics.budget))[0]
        running.state.limits_day -= timedelta(days=REFRESH_DAYS)
        running.tend(elected=True)
        await world.until(lambda: running.position == end + 1)
        assert running.state.limits == later.state.limits == limits_of(units=8), "those in force, not its own"
        assert running.state.limits_day == running.state.day


# Workers


async def test_every_paid_call_of_a_case_has_a_grant_of_its_own_and_is_settled(world: World) -> None:
    ports = simulated_ports(metered=True)
    spending = BudgetLedger(world.address, world.topics, limits_of(), Ending(), Wake())
    async with world.working(plain_registry(asks=True), ports=ports, spending=spending):
        await world.publish(*range(5))
        await world.until_closed(5)
    calls = [c for found in await world.journal() for c in found.event.calls]
    assert len(calls) == 20 == len({c.grant for c in calls})
    audit = await budget_overshoot(world.address, world.topics)
    assert (audit.granted, audit.settled, audit.unsettled, audit.spent, audit.overshoot) == (20, 20, 0, 20, 0)
    assert sum((month.paid_usd for month in audit.months.values()), Decimal(0)) == Decimal("0.020")


@pytest.mark.slow
@pytest.mark.timeout(120)
async def test_a_successor_settles_the_journalled_calls_of_a_worker_that_was_killed(world: World) -> None:
    await world.publish("victim")
    assert await exit_of(forked(spend_and_die, world.address, world.topics, world.slots)) == -signal.SIGKILL
    before = await read_budget(world.address, world.topics)
    assert len(before.held) == 3, "triage and recall are in the journal, the reply of plan is lost with its worker"
    spending = BudgetLedger(world.address, world.topics, limits_of(), Ending(), Wake())
    async with world.working(plain_registry(asks=True), ports=simulated_ports(metered=True), spending=spending):
        await world.until_closed(1, within_s=60)
        await world.until(lambda: len(spending.state.held) == 1)
    audit = await budget_overshoot(world.address, world.topics)
    assert (audit.granted, audit.settled, audit.spent) == (5, 4, 4), "the repeated call took a grant of its own"
    assert (audit.unsettled, audit.overshoot) == (1, 0), "what nobody can know counts in full"


# What a case says

HACK = "XXX DeFi protocol suffers a flash loan attack, more than $100M USDC lost"


class PricedModel(OfflineModel):
    """The offline model at a price."""

    def worst_case_usd(self, effect: Any) -> Decimal | None:
        """Return what every call is said to cost at most."""
        return CALL_USD


class MeteredSearch(OfflineSearch):
    """The offline search, counted in the tool quota."""

    def quota_units(self, effect: Any) -> int:
        """Return 1."""
        return 1


def offline_ports(*, priced: bool) -> Ports:
    """The adapters of offline mode, metered."""
    model, found, rest = (PricedModel() if priced else OfflineModel()), MeteredSearch(), Simulated()
    return Ports(models={"light": model, "heavy": model}, search={found.provider: found}, recall=rest, earlier=rest)


def denials(story: list[CaseEvent]) -> list[Call]:
    return [c for e in story for c in e.calls if c.error == "budget"]


def deep_snapshot(*trusted: str) -> Snapshot:
    at = Settings(_env_file=None, newsproof_mode="offline", trusted_sources=",".join(trusted), **FULL_PIPELINE)  # type: ignore[arg-type]
    return replace(snapshot_of(at), retry_base_seconds=0.05)


async def judged(world: World, limits: LimitsSet, *, priced: bool) -> tuple[list[CaseEvent], ev.SignalSynthesized]:
    """Run one piece of news through the whole graph; return its story and its end."""
    snapshot = deep_snapshot("wire")
    spending = BudgetLedger(world.address, world.topics, limits, Ending(), Wake())
    async with world.working(verification(), ports=offline_ports(priced=priced), snapshot=snapshot, spending=spending):
        await world.publish(news("hack", text=HACK, language="en"))
        await world.until_closed(1, within_s=60)
    story = await world.story()
    end = story[-1]
    assert isinstance(end, ev.SignalSynthesized), end
    return story, end


async def test_without_tool_units_a_case_goes_on_without_searching_and_its_signal_says_so(world: World) -> None:
    story, end = await judged(world, limits_of(units=0), priced=False)
    assert end.path == "deep"
    assert "search_skipped:budget" in end.signal.risk_flags
    [searched] = [e for e in story if isinstance(e, ev.SearchCompleted)]
    [outcome] = searched.outcomes
    assert outcome.failure is not None and outcome.failure.kind == "budget"
    assert "DEEP_ANALYSIS_TOOL_DAILY_LIMIT" in outcome.failure.message
    assert [c.cost_usd for c in denials(story)] == [Decimal(0)]
    assert not [e for e in story if isinstance(e, ev.StepFailed | ev.CaseDegraded)]


@pytest.mark.security
async def test_a_listed_hack_is_searched_while_fake_hacks_from_fresh_sources_have_used_their_share(
    world: World,
) -> None:
    limits = limits_of_settings(Settings(_env_file=None))  # type: ignore[call-arg]
    spending = BudgetLedger(world.address, world.topics, limits, Ending(), Wake())
    fakes = [
        news(f"fake-{n}", source=f"fresh-{n}", text=HACK.replace("XXX", f"XXX{n}"), language="en") for n in range(30)
    ]
    ports = offline_ports(priced=False)
    async with world.working(verification(), ports=ports, snapshot=deep_snapshot("desk"), spending=spending):
        await world.publish(*fakes)
        await world.until_closed(30, within_s=60)
        await world.publish(news("true", source="desk", text=HACK.replace("XXX", "Euler"), language="en"))
        await world.until_closed(31, within_s=60)
    ends = [e for e in (f.event for f in await world.journal()) if isinstance(e, ev.SignalSynthesized)]
    [listed] = [e.signal for e in ends if e.signal.news_source == "desk"]
    assert not [f for f in listed.risk_flags if "budget" in f] and listed.unchecked_reason is None
    refused = [e.signal for e in ends if e.signal.unchecked_reason == "budget"]
    assert len(refused) >= 15 and {s.verdict for s in refused} == {"unchecked"}
    assert all("used their 15 of the 50 tool calls" in s.notes and "wait for 00:00 UTC" in s.notes for s in refused)
    [today] = (await read_budget(world.address, world.topics)).days.values()
    assert (today.group(UNLISTED).units, today.units_forced) == (15, today.group("desk").units)


async def test_without_money_triage_still_runs_and_the_case_degrades_and_says_so(world: World) -> None:
    story, end = await judged(world, limits_of(usd="0", reserve="1"), priced=True)
    assert isinstance(story[1], ev.EffectCompleted)
    assert [e for e in story if isinstance(e, ev.CaseTriaged)], "paid from triage's reserve"
    assert (end.path, end.signal.stage) == ("degraded", "final")
    assert "degraded:budget" in end.signal.risk_flags
    assert denials(story), "every denial is in its case"
    assert (await budget_overshoot(world.address, world.topics)).overshoot == 0


async def test_when_triages_reserve_is_gone_too_news_waits_and_goes_on_when_there_is_money(world: World) -> None:
    spending = BudgetLedger(world.address, world.topics, limits_of(usd="0", reserve="0.002"), Ending(), Wake())
    ports = simulated_ports(metered=True)
    async with world.working(plain_registry(asks=True), ports=ports, spending=spending) as worker:
        # Two cases spend the reserve: the plain graph triages with one call and fails at the next, which is no triage.
        await world.publish("first")
        await world.until(lambda: spending.state.left(utc_now())[1] == 1_000_000)
        await world.publish("second")
        await world.until(lambda: spending.state.left(utc_now())[1] == 0)
        await world.publish("third")
        await world.until(lambda: worker.intake_paused == "budget")
        why = worker.admission.unaffordable
        assert why is not None and "TRIAGE_RESERVE_USD" in why
        assert (await world.counted())["EventReceived"] == 2
        raised = encode(limits_of(usd="1", reserve="0.002"))
        await world.producer.send_and_wait(world.topics.budget, raised, partition=0)
        await world.until_closed(3, within_s=60)
        assert worker.intake_paused is None
    assert (await world.counted())["EventReceived"] == 3
