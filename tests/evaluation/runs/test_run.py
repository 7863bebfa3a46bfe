"""A run pays for what changed and for nothing else, once, and stops where it was told to."""

from __future__ import annotations

import json
from collections import Counter
from datetime import UTC, datetime
from decimal import Decimal
from types import SimpleNamespace
from typing import Any, ClassVar, cast

import msgspec
import pytest

from agents.core.case import Case
from evaluation.replay.journal import recordings, survey
from evaluation.runs.estimate import estimate
from evaluation.runs.performer import CostLimit, Performer
from evaluation.runs.plan import RunPlan
from evaluation.runs.topic import CallMade, RunProgress
from schemas.effects import FindConcerned
from schemas.errors import ConfigError, TransientError
from schemas.events import SignalSynthesized
from schemas.ids import canonical_json
from streams.replay import Miss, Need
from tests.evaluation.runs.run_samples import (
    COST,
    Backtest,
    CountingModel,
    builder_of,
    ports_of,
    prompt,
)

STRICT = {"synthesize": prompt("synthesize")}


async def recorded(backtest: Backtest, name: str) -> Counter[str]:
    """Calls of this prompt by case, as they were recorded."""
    found: Counter[str] = Counter()
    async for recording in recordings(backtest.source, lambda _id: True):
        found[recording.case_id] = sum(c.prompt_name == name for c in recording.calls)
    return found


async def test_a_change_at_synthesize_asks_that_prompt_again_and_nothing_else() -> None:
    quick, every = Backtest(), Backtest()
    calls = await recorded(quick, "synthesize")
    for backtest in (quick, every):
        ran = await backtest.run(RunPlan(run_id="strict", prompts=STRICT), every=backtest is every)
        assert backtest.model.asked == {"synthesize": calls.total()}
        assert (ran.status, ran.totals.replayed, ran.totals.executed) == ("finished", 42, calls.total())
        assert ran.totals.missed == 0
    for (case_id, _), row in quick.rows.items():
        assert row.executed == calls[case_id]
        assert row.cost_usd == COST * calls[case_id]
        assert (row.latency_ms is None) == (calls[case_id] == 0)
        said_anew = json.loads(row.signal)["notes"].endswith("Said anew.")
        assert said_anew == (calls[case_id] > 0)
        # What is taken as recorded is what the steps would say.
        other = every.rows[case_id, 0]
        assert (row.signal, row.reused, row.executed) == (other.signal, other.reused, other.executed)
        assert row.avoided_cost_usd == other.avoided_cost_usd


async def test_a_run_without_a_change_gives_the_recorded_signals_for_nothing() -> None:
    backtest = Backtest()
    ran = await backtest.run(RunPlan(run_id="aa"))
    assert (ran.totals.executed, ran.totals.cost, backtest.model.asked.total()) == (0, Decimal(0), 0)
    async for recording in recordings(backtest.source, lambda _id: True):
        assert isinstance(recording.end, SignalSynthesized)
        row = backtest.rows[recording.case_id, 0]
        assert row.signal == canonical_json(recording.end.signal).decode()
        assert row.avoided_cost_usd == sum(c.cost_usd or 0 for c in recording.calls)


async def test_a_change_at_plan_shows_its_misses_honestly() -> None:
    backtest = Backtest()
    ran = await backtest.run(RunPlan(run_id="plan", prompts={"plan": prompt("plan")}))
    missed = [row for row in backtest.rows.values() if row.status == "miss"]
    assert ran.totals.missed_cases == len(missed) >= 10
    for row in missed:
        assert (row.has_signal, row.signal, row.missed) == (0, "", 1)
        assert "unrecorded" in row.reason
    assert set(backtest.model.asked) == {"plan"}


async def test_misses_are_left_out_of_the_report_where_that_is_asked_for_and_stay_in_the_table() -> None:
    class Tables:
        added: ClassVar[list[Any]] = []

        async def add(self, row: Any, *_calls: Any) -> None:
            self.added.append(row)

        async def flush(self) -> None:
            pass

    backtest = Backtest()
    backtest.tables = Tables()
    ran = await backtest.run(RunPlan(run_id="plan", prompts={"plan": prompt("plan")}, on_miss="skip"))
    assert (ran.totals.cases + ran.totals.left_out, ran.left) == (42, 0)
    assert not [row for row in backtest.rows.values() if row.status == "miss"]
    assert len(Tables.added) == 42, "who compares needs them"
    assert sum(row.status == "miss" for row in Tables.added) == ran.totals.left_out >= 10


async def test_misses_are_searched_in_the_world_of_today_where_that_is_asked_for() -> None:
    backtest = Backtest()
    ran = await backtest.run(RunPlan(run_id="plan", prompts={"plan": prompt("plan")}, on_miss="live"))
    assert ran.totals.missed_cases == 0
    made = [w for w in backtest.topic.written if isinstance(w, CallMade)]
    assert {c.kind for w in made for c in w.calls} >= {"model", "search"}


async def test_what_was_asked_of_the_journal_of_then_is_a_miss_also_where_the_world_of_today_may_be_asked() -> None:
    at = datetime(2024, 1, 1, tzinfo=UTC)
    effect = FindConcerned(case_id="c", assets=("BTC",), names=("sec",), as_of=at, since=at)
    case = cast("Case", SimpleNamespace(case_id="c", head_id="h"))
    need = Need(effect=effect, step="critique", case=case, request_hash="h", stand_in=(), attempt=1)
    performer = Performer(
        ports_of(CountingModel()), CostLimit(None, spent=Decimal(0)), RunProgress(), None, on_miss="live"
    )
    answer = await performer.answer(need, 0, 0)
    assert isinstance(answer, Miss) and "search for earlier claims" in answer.reason


async def test_the_limit_stops_a_run_in_order_and_what_was_paid_is_not_paid_again() -> None:
    backtest = Backtest()
    plan = RunPlan(run_id="strict", prompts=STRICT)
    calls = (await recorded(backtest, "synthesize")).total()
    first = await backtest.run(plan, max_cost=COST * 10)
    assert first.status == "stopped"
    assert backtest.model.asked.total() == 10
    assert first.left > 0
    again = await backtest.run(plan, max_cost=COST * 10)
    assert (again.status, backtest.model.asked.total()) == ("stopped", 10)
    last = await backtest.run(plan, max_cost=COST * calls)
    assert (last.status, last.left, last.totals.cases) == ("finished", 0, 42)
    assert backtest.model.asked.total() == calls
    assert last.held == first.totals.cases
    whole = Backtest()
    await whole.run(plan)
    assert {k: r.signal for k, r in whole.rows.items()} == {k: r.signal for k, r in backtest.rows.items()}


async def test_a_run_that_broke_off_between_call_and_case_goes_on_without_paying_twice() -> None:
    backtest = Backtest()
    plan = RunPlan(run_id="strict", prompts=STRICT)
    await backtest.run(plan)
    paid = backtest.model.asked.total()
    backtest.topic.held.done.clear()  # every call is on the topic, and no case is
    ran = await backtest.run(plan)
    assert (ran.totals.executed, backtest.model.asked.total()) == (paid, paid)


async def test_each_repeat_is_asked_for_itself() -> None:
    backtest = Backtest()
    calls = (await recorded(backtest, "synthesize")).total()
    ran = await backtest.run(RunPlan(run_id="thrice", prompts=STRICT, repeat=3))
    assert backtest.model.asked.total() == 3 * calls
    assert (ran.totals.cases, {repeat for _, repeat in backtest.rows}) == (3 * 42, {0, 1, 2})


@pytest.mark.slow
async def test_a_provider_that_is_away_fails_cases_that_are_tried_again_later() -> None:
    backtest = Backtest(model=Away())
    plan = RunPlan(run_id="strict", prompts=STRICT, sample=5)
    ran = await backtest.run(plan)
    assert ran.totals.failed > 0
    assert all("did not return a response" in r.reason for r in backtest.rows.values() if r.status == "failed")
    backtest.model = CountingModel()
    ran = await backtest.run(plan)
    assert (ran.totals.failed, ran.totals.replayed) == (0, 5)


async def test_a_price_that_nobody_knows_is_refused_under_a_limit_and_counted_without_one() -> None:
    backtest = Backtest(model=CountingModel(cost=None))
    plan = RunPlan(run_id="strict", prompts=STRICT, sample=5)
    with pytest.raises(ConfigError, match="price of counting counting-model is unknown"):
        await backtest.run(plan, max_cost=Decimal(1))
    assert not backtest.model.asked
    ran = await backtest.run(plan)
    assert ran.totals.unpriced_calls == ran.totals.executed > 0
    assert all(r.cost_usd is None for r in backtest.rows.values() if r.executed)


async def test_a_dry_run_counts_what_the_run_will_do_and_asks_nothing() -> None:
    backtest = Backtest()
    plan = RunPlan(run_id="strict", prompts=STRICT, repeat=2)
    surveyed = await survey(backtest.source)
    builder = builder_of(backtest.source, plan)
    found = await estimate(plan, backtest.source, surveyed, builder, ports_of(backtest.model))
    assert not backtest.model.asked
    ran = await backtest.run(plan)
    assert (found.executed, found.reused, found.missed) == (ran.totals.executed, ran.totals.reused, 0)
    assert found.worst == ran.totals.cost == COST * found.executed
    assert found.avoided == ran.totals.avoided
    assert found.may_miss == 0


async def test_a_sample_is_the_same_cases_every_time() -> None:
    first, second = Backtest(), Backtest()
    await first.run(RunPlan(run_id="one", sample=7))
    await second.run(RunPlan(run_id="two", sample=7))
    assert len(first.rows) == 7
    assert set(first.rows) == set(second.rows)


@pytest.mark.parametrize("name", ["triage", "expand", "critique"])
async def test_a_dry_run_counts_each_call_of_the_changed_prompt_once_also_where_a_step_needs_several(name: str) -> None:
    backtest = Backtest()
    plan = RunPlan(run_id=name, prompts={name: prompt(name)})
    surveyed = await survey(backtest.source)
    found = await estimate(plan, backtest.source, surveyed, builder_of(backtest.source, plan), ports_of(backtest.model))
    then = (await recorded(backtest, name)).total()
    assert found.executed_by_step == {name: then} and then > 0
    assert found.missed == 0


async def test_a_dry_run_of_an_early_change_says_what_may_follow() -> None:
    backtest = Backtest()
    plan = RunPlan(run_id="plan", prompts={"plan": prompt("plan")})
    surveyed = await survey(backtest.source)
    builder = builder_of(backtest.source, plan)
    found = await estimate(plan, backtest.source, surveyed, builder, ports_of(backtest.model))
    assert found.may_miss >= 10
    assert found.may_follow >= 10
    assert found.missed == 0


async def test_the_topic_says_what_was_run_and_what_came_of_it() -> None:
    backtest = Backtest()
    await backtest.run(RunPlan(run_id="strict", prompts=STRICT))
    kinds = Counter(str(w.__struct_config__.tag) for w in backtest.topic.written)
    assert kinds["newsproof.case_replayed"] == 42
    assert kinds["newsproof.call_made"] == backtest.model.asked.total()
    order = [w for w in backtest.topic.written if isinstance(w, CallMade)]
    assert all(msgspec.json.encode(w) for w in order)


# Another model, the same question


async def test_replies_of_another_model_are_asked_for_again_and_of_no_other_task() -> None:
    backtest, recorded = Backtest(), Counter[str]()
    async for recording in recordings(backtest.source, lambda _id: True):
        recorded.update(c.prompt_name for c in recording.calls if c.prompt_name)
    for every in (False, True):
        backtest = Backtest()
        ran = await backtest.run(RunPlan(run_id="m", models={"synthesize": "openai:gpt-5-mini"}), every=every)
        assert backtest.model.asked == {"synthesize": recorded["synthesize"]}
        assert (ran.status, ran.totals.missed, ran.totals.replayed) == ("finished", 0, 42)


async def test_a_reply_that_this_model_gave_is_reused() -> None:
    backtest, names = Backtest(), Counter[str]()
    async for recording in recordings(backtest.source, lambda _id: True):
        names.update(f"{c.provider}:{c.model}" for c in recording.calls if c.prompt_name == "synthesize")
    ((given, many),) = names.most_common()
    assert many > 30
    ran = await backtest.run(RunPlan(run_id="m", models={"synthesize": given}))
    assert (ran.totals.executed, backtest.model.asked.total()) == (0, 0)


async def test_another_prompt_by_another_model_is_asked_once() -> None:
    backtest = Backtest()
    plan = RunPlan(run_id="m", prompts={"synthesize": prompt("synthesize")}, models={"synthesize": "openai:gpt-5"})
    ran = await backtest.run(plan)
    assert ran.totals.executed == backtest.model.asked.total() == backtest.model.asked["synthesize"]


class Away(CountingModel):
    """Never answers."""

    async def perform(self, effect: object) -> object:  # type: ignore[override]
        raise TransientError("nobody is there", kind="unavailable")
