"""The ledger of trials: who looked at what, what was sealed then, and what may be claimed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from infra.clickhouse.client import ClickHouse
from infra.kafka.topics import KafkaAddress
from infra.settings import load_settings
from newsproof.app.open_log import LogAccess
from newsproof.evaluation.backtest.run import running
from newsproof.evaluation.backtest.run.claims import claim_of
from newsproof.evaluation.backtest.run.ledger import Trial, candidate_of, read_trials, write_trial
from newsproof.evaluation.backtest.run.plan import RunPlan
from newsproof.evaluation.backtest.run.sealing import refuse_sealed, seal_in_force, sealed_words, under_seal
from newsproof.evaluation.backtest.sample import read_log_file
from schemas.errors import ConfigError
from schemas.topics import Topics
from tests.newsproof.evaluation.backtest.samples import CountingModel, ports_of, prompt
from tests.newsproof.evaluation.shadow.installation import TEXTS, Installation
from tests.streams.world import World, news

MARCH, APRIL, MAY = (datetime(2026, month, 1, tzinfo=UTC) for month in (3, 4, 5))
STRICT, TERSE = ({"synthesize": prompt("synthesize", text=text)} for text in ("Be strict.\n", "Be terse.\n"))


def trial(run_id: str, *, began: int, **changes: Any) -> Trial:
    """A trial of `synthesize` on the cases of March."""
    usual: dict[str, Any] = {
        "trial": "",
        "candidate": run_id,
        "label": "",
        "changed": ("synthesize",),
        "log": "journal",
    }
    usual |= {"cases": 10, "cases_from": MARCH, "cases_to": APRIL - timedelta(days=1), "sealed_from": None}
    usual |= {"opened_seal": False, "started_at": MAY + timedelta(hours=began)}
    return Trial(**usual | {"run_id": run_id} | changes)


# What may be claimed


def test_the_first_look_at_a_period_may_be_claimed_and_the_second_was_tuned_on_it() -> None:
    trials = [trial("a", began=0), trial("b", began=1)]
    assert (claim_of(trials, "a").allowed, claim_of(trials, "a").note) == (True, "")
    second = claim_of(trials, "b")
    assert (second.earlier, second.allowed, second.sealed, second.factor) == (1, False, False, 1)
    assert "tuned on this period: 1 earlier trials looked at it" in second.note


@pytest.mark.parametrize(
    "other",
    [
        {"cases_from": APRIL, "cases_to": MAY},
        {"changed": ("triage",)},
        {"candidate": ""},
        {"log": "sample"},
        {"started_at": MAY + timedelta(days=9)},
    ],
)
def test_a_trial_of_other_cases_another_prompt_none_at_all_another_log_or_later_takes_no_claim(
    other: dict[str, Any],
) -> None:
    assert claim_of([trial("a", began=0, **other), trial("b", began=1)], "b").allowed


def test_one_case_in_common_is_enough_to_have_looked() -> None:
    touching = trial("a", began=0, cases_from=MARCH - timedelta(days=9), cases_to=MARCH)
    assert not claim_of([touching, trial("b", began=1)], "b").allowed


def test_on_the_sealed_period_alone_every_earlier_opening_raises_the_p_value() -> None:
    opened = {"sealed_from": MARCH, "opened_seal": True}
    trials = [trial(name, began=n, **opened) for n, name in enumerate("abc")]
    assert [claim_of(trials, name).factor for name in "abc"] == [1, 2, 3]
    third = claim_of(trials, "c")
    assert third.allowed and third.sealed and "opened 2 times before" in third.note
    assert (third.corrected(0.01), third.corrected(0.5)) == (pytest.approx(0.03), 1.0)


def test_a_run_that_reaches_back_before_the_seal_claims_as_one_of_the_ordinary_period() -> None:
    opened = {"sealed_from": MARCH + timedelta(days=7), "opened_seal": True}
    assert not claim_of([trial("a", began=0), trial("b", began=1, **opened)], "b").allowed


def test_candidates_of_one_trial_do_not_count_where_the_leaderboard_corrects_for_them() -> None:
    trials = [trial("a", began=0, trial="t"), trial("b", began=1, trial="t"), trial("c", began=2, trial="t")]
    assert claim_of(trials, "c").earlier == 2
    assert claim_of(trials, "c", within_trial=True).allowed


def test_live_an_unchanged_run_and_one_before_the_ledger_have_nothing_to_claim() -> None:
    trials = [trial("a", began=0), trial("aa", began=1, candidate="")]
    assert all(claim_of(trials, name).allowed for name in ("live", "aa", "older"))


# The seal


def test_ordinary_plans_end_where_the_seal_begins_and_opened_ones_do_not() -> None:
    sealed = [trial("first", began=0, sealed_from=APRIL)]
    assert seal_in_force(sealed) == APRIL and seal_in_force([]) is None
    plan = under_seal(RunPlan(run_id="next"), sealed, log="journal")
    assert (plan.sealed_from, plan.until) == (APRIL, APRIL)
    assert "cases received from 2026-04-01 00:00 UTC on are sealed" in sealed_words(plan)
    assert under_seal(RunPlan(run_id="next", cases_to=MARCH), sealed, log="journal").until == MARCH
    opening = under_seal(RunPlan(run_id="next", open_seal=True), sealed, log="journal")
    assert (opening.sealed_from, opening.until, sealed_words(opening)) == (APRIL, None, "")


def test_a_period_that_somebody_looked_at_cannot_be_sealed() -> None:
    looked = [trial("a", began=0)]
    with pytest.raises(ConfigError, match=r"1 trials have looked at cases from then on.*2026-03-31 00:00 UTC"):
        under_seal(RunPlan(run_id="b", sealed_from=MARCH + timedelta(days=3)), looked, log="journal")
    assert under_seal(RunPlan(run_id="b", sealed_from=APRIL), looked, log="journal").sealed_from == APRIL
    unchanged = [trial("aa", began=0, candidate="")]
    assert under_seal(RunPlan(run_id="b", sealed_from=MARCH), unchanged, log="journal").sealed_from == MARCH


def test_a_run_goes_on_under_the_seal_that_it_began_under() -> None:
    trials = [trial("mine", began=0), trial("other", began=1, sealed_from=MAY)]
    assert under_seal(RunPlan(run_id="mine"), trials, log="journal").sealed_from is None
    with pytest.raises(ConfigError, match="began under no seal"):
        under_seal(RunPlan(run_id="mine", sealed_from=MAY), trials, log="journal")


def test_nothing_is_opened_where_nothing_is_sealed_and_the_shipped_log_has_no_seal() -> None:
    with pytest.raises(ConfigError, match="nothing is sealed"):
        under_seal(RunPlan(run_id="a", open_seal=True), [], log="journal")
    with pytest.raises(ConfigError, match="leave out --sample-log"):
        under_seal(RunPlan(run_id="a", sealed_from=APRIL), [], log="sample")
    sealed = [trial("first", began=0, sealed_from=APRIL)]
    assert under_seal(RunPlan(run_id="a"), sealed, log="sample").until is None


def test_a_sealed_case_is_not_replayed_by_itself_either() -> None:
    sealed = [trial("first", began=0, sealed_from=APRIL)]
    with pytest.raises(ConfigError, match="case c is sealed"):
        refuse_sealed(sealed, "c", APRIL)
    refuse_sealed(sealed, "c", APRIL - timedelta(seconds=1))
    refuse_sealed([], "c", MAY)


def test_a_candidate_is_known_by_its_prompts_and_models_whatever_its_run_is_called() -> None:
    one, same = (RunPlan(run_id=run_id, prompts=STRICT) for run_id in ("a", "b"))
    assert candidate_of(one) == candidate_of(same) != candidate_of(RunPlan(run_id="c", prompts=TERSE))
    assert candidate_of(one) != candidate_of(replace(one, models={"synthesize": "openai:m"}))
    assert candidate_of(RunPlan(run_id="aa")) == ""


# On the real engine and the real log


@pytest.fixture
def tables(clickhouse: ClickHouse) -> ClickHouse:
    return clickhouse


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> CountingModel:
    found = CountingModel()
    monkeypatch.setattr(running, "model_ports", lambda _settings, _tables: ports_of(found))
    return found


async def test_a_row_comes_back_as_it_was_written_and_the_latest_wins(tables: ClickHouse) -> None:
    first = trial("a", began=0, sealed_from=APRIL, opened_seal=True, label="synthesize v4")
    for one in (first, trial("b", began=1), replace(first, cases=12)):
        await write_trial(tables, one)
    assert await read_trials(tables) == [replace(first, cases=12), trial("b", began=1)]


@pytest.mark.slow
async def test_sealed_cases_are_left_out_until_they_are_opened_and_the_ledger_has_it_all(
    address: KafkaAddress, topics: Topics, tmp_path: Path, tables: ClickHouse, model: CountingModel
) -> None:
    async with World.made(address, topics.prefix, tmp_path / "slots", partitions=1) as world:
        installation = Installation(world, tables, tmp_path)
        async with installation.living():
            for n in range(3):
                await world.publish(*[news(n, text=TEXTS[n])])
                await installation.until_published(n + 1)
        log = LogAccess(installation._log.settings, address, world.topics, False)
        source, everything = await running._surveyed(log, RunPlan(run_id="x"), None)
        assert everything.last is not None and len(everything.ended) == 3 and source.partitions == 1
        at = everything.last  # of the third case; the ledger keeps milliseconds
        seal = at.replace(microsecond=at.microsecond // 1000 * 1000)
        plans = [
            RunPlan(run_id="one", prompts=STRICT, sealed_from=seal),
            RunPlan(run_id="two", prompts=TERSE),
            RunPlan(run_id="test", prompts=TERSE, cases_from=seal, open_seal=True),
        ]
        ran = [await running.run_plan(log, tables, plan, max_cost=Decimal(9)) for plan in plans]
        assert [r.totals.cases for r in ran] == [2, 2, 1]
        again = await running.run_plan(log, tables, plans[0], max_cost=Decimal(9))
        assert (again.totals.cases, again.held) == (2, 2)
    trials = await read_trials(tables)
    assert [(t.run_id, t.cases, t.opened_seal, t.sealed_from) for t in trials] == [
        ("one", 2, False, seal),
        ("two", 2, False, seal),
        ("test", 1, True, seal),
    ]
    claims = [claim_of(trials, t.run_id) for t in trials]
    assert [(c.allowed, c.sealed) for c in claims] == [(True, False), (False, False), (True, True)]
    assert claims[1].earlier == 1 and claims[2].factor == 1


async def test_a_run_of_the_shipped_log_is_in_the_ledger_before_a_case_of_it_is_decided(
    address: KafkaAddress, topics: Topics, tmp_path: Path, tables: ClickHouse, model: CountingModel
) -> None:
    settings = load_settings(newsproof_data_dir=tmp_path, newsproof_mode="simulated")
    log = LogAccess(settings, address, topics, False)
    plan = RunPlan(run_id="strict", prompts=STRICT, trial="t")
    ran = await running.run_plan(log, tables, plan, max_cost=Decimal(0), file=read_log_file())
    assert ran.status == "stopped" and not model.asked
    (one,) = await read_trials(tables)
    assert (one.run_id, one.trial, one.log, one.cases, one.changed) == ("strict", "t", "sample", 42, ("synthesize",))
