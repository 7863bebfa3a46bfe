"""Shadow prompts on the real log and the real engine: beside live traffic, paid once, within a budget, never a signal."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from evaluation.declaration import Watch
from evaluation.runs.shadow import refuse_unpriced, shadow_plan
from infra.clickhouse.client import ClickHouse
from infra.embedded.clickhouse.server import EmbeddedClickHouse
from infra.embedded.kafka.server import EmbeddedKafka
from infra.kafka.topics import KafkaAddress
from newsproof.app import exits
from schemas.errors import ConfigError
from schemas.topics import Topics
from tests.evaluation.compare.watched_runs import fill
from tests.evaluation.runs.installation import (
    TEXTS,
    WATCH,
    WITHIN_S,
    Installation,
    Priced,
    candidate,
    ports,
)
from tests.newsproof.command import COMMAND, environment
from tests.streams.world import World, news

PLAN = shadow_plan(candidate(), None, "fail", WATCH)


@pytest.fixture
async def installation(
    address: KafkaAddress, topics: Topics, tmp_path: Path, clickhouse: ClickHouse
) -> AsyncIterator[Installation]:
    async with World.made(address, topics.prefix, tmp_path / "slots", partitions=2) as world:
        yield Installation(world, clickhouse, tmp_path)


def items(*numbers: int) -> list[dict[str, Any]]:
    return [news(n, text=TEXTS[n]) for n in numbers]


@pytest.mark.slow
async def test_the_candidate_is_asked_for_its_own_step_alone_and_no_signal_comes_of_it(
    installation: Installation,
) -> None:
    model, world = Priced(), installation.world
    async with installation.living():
        await world.publish(*items(3))  # opened before the shadow came: none of its business
        await installation.until_published(1)
        async with installation.shadowing(installation.shadow(model)) as running:
            await world.publish(*items(0, 1, 2))
            await installation.until_published(4)
            await installation.until_judged(PLAN.run_id, 3)
            ends = await world.ends(world.topics.signals)
    summary = running.result()
    assert [(e.prompt_name, e.prompt_version) for e in model.asked] == [("synthesize", "9")] * 3
    assert (summary.status, summary.cases, summary.replayed, summary.executed, summary.missed) == (
        "stopped",
        3,
        3,
        3,
        0,
    )
    assert float(summary.spent_usd) == pytest.approx(0.9)
    # signals: those of the live cases, and not a record more
    assert await world.ends(world.topics.signals) == ends
    live = {s.case_id: s for s in await world.signals()}
    assert len(live) == 4 and {s.prompt_versions[-1].version for s in live.values()} == {"3"}
    await the_tables_hold(installation, set(live))


async def the_tables_hold(installation: Installation, live: set[str]) -> None:
    """Three cases, a call executed for each, the others reused, and the run that they are of."""
    rows = await installation.rows("SELECT * FROM run_cases FINAL WHERE run_id = {run:String}", PLAN.run_id)
    assert len(rows) == 3 and {r["case_id"] for r in rows} < live
    assert all(r["status"] == "replayed" and r["has_signal"] and r["executed"] == 1 for r in rows)
    assert all(r["reused"] > 3 and r["missed"] == 0 for r in rows)
    calls = await installation.rows("SELECT * FROM llm_calls FINAL WHERE run_id = {run:String}", PLAN.run_id)
    by = Counter((c["execution"], c["prompt_name"]) for c in calls)
    assert (by["executed", "synthesize"], by["reused", "triage"]) == (3, 3)
    assert {execution for execution, _ in by} == {"executed", "reused"}
    assert all(float(c["cost_usd"]) == 0.3 for c in calls if c["execution"] == "executed")
    (run,) = await installation.rows("SELECT * FROM runs FINAL WHERE run_id = {run:String}", PLAN.run_id)
    assert (run["status"], run["cases"], run["executed"], float(run["cost_usd"])) == ("stopped", 3, 3, 0.9)
    assert run["label"] == "shadow: synthesize v9" and run["finished_at"] is not None


class DiesBefore:
    """A client whose process dies when it is about to write a case."""

    def __init__(self, client: ClickHouse) -> None:
        self._client = client

    async def insert(self, table: str, *args: Any, **more: Any) -> None:
        if table == "run_cases":
            raise SystemError("the process dies here")
        await self._client.insert(table, *args, **more)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)


@pytest.mark.slow
async def test_what_was_paid_for_before_a_crash_is_not_paid_for_again(installation: Installation) -> None:
    paid, again = Priced(), Priced()
    async with installation.living():
        dying = installation.shadow(paid, client=DiesBefore(installation.tables))
        async with installation.shadowing(dying) as running:
            await installation.world.publish(*items(0))
            await installation.until_published(1)
            await installation.world.until(running.done, within_s=WITHIN_S)
        with pytest.raises(SystemError):
            running.result()
        assert len(paid.asked) == 1 and await installation.judged(PLAN.run_id) == 0
        async with installation.shadowing(installation.shadow(again)) as resumed:
            await installation.until_judged(PLAN.run_id, 1)
    assert again.asked == []
    assert (resumed.result().executed, float(resumed.result().spent_usd)) == (1, pytest.approx(0.3))


@pytest.mark.slow
async def test_the_budget_stops_it_at_the_worst_case_and_a_larger_one_goes_on(installation: Installation) -> None:
    poor, rich = Priced(cost_usd="0.3", worst_usd="0.4"), Priced()
    async with installation.living():
        async with installation.shadowing(installation.shadow(poor, budget="1.0")) as running:
            await installation.world.publish(*items(0, 1, 2, 3, 4))
            await installation.world.until(running.done, within_s=WITHIN_S)
        summary = running.result()
        # 0.9 are spent; a fourth call might have cost 0.4
        assert (len(poor.asked), summary.status, float(summary.spent_usd)) == (3, "exhausted", pytest.approx(0.9))
        await installation.until_published(5)
        async with installation.shadowing(installation.shadow(rich, budget="2")) as more:
            await installation.until_judged(PLAN.run_id, 5)
    assert len(rich.asked) == 2
    assert float(more.result().spent_usd) == pytest.approx(1.5)


@pytest.mark.slow
async def test_a_second_process_of_the_same_run_is_refused(
    installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with installation.shadowing(installation.shadow(Priced())):
        monkeypatch.setattr("evaluation.runs.topic.PATIENCE_S", -27.0)
        with pytest.raises(ConfigError, match="another process works on the run"):
            await installation.shadow(Priced()).run()


@pytest.mark.slow
async def test_the_command_follows_and_ends_cleanly_at_sigterm(
    installation: Installation, kafka: EmbeddedKafka, clickhouse_engine: EmbeddedClickHouse, tmp_path: Path
) -> None:
    at = {
        **kafka.address.as_environment(),
        "CLICKHOUSE_URL": f"http://{clickhouse_engine.host}:{clickhouse_engine.port}",
        "CLICKHOUSE_DATABASE": installation.tables.database,
        "NEWSPROOF_TOPIC_PREFIX": installation.world.topics.prefix,
        "TOPIC_PARTITIONS": "2",
        "NEWSPROOF_MODE": "simulated",
        "SCRIPTED_MODEL_URL": "http://127.0.0.1:9/v1",  # nothing is published, so nothing is asked
    }
    command = [*COMMAND, "shadow", "--prompt", "critique=v1", "--run-id", "shadow-cli", "--json"]
    process = await asyncio.create_subprocess_exec(
        *command, cwd=tmp_path, env=environment(**at), stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    assert process.stderr is not None
    said = b""
    while b"shadowing live traffic" not in said:
        line = await asyncio.wait_for(process.stderr.readline(), WITHIN_S)
        assert line, said.decode()
        said += line
    process.terminate()
    out, rest = await asyncio.wait_for(process.communicate(), WITHIN_S)
    assert process.returncode == exits.OK, (said + rest).decode()
    assert {**json.loads(out.splitlines()[-1]), "budget_usd": 1} == {
        **{"run_id": "shadow-cli", "status": "stopped", "spent_usd": "0", "budget_usd": 1},
        **dict.fromkeys(("cases", "replayed", "executed", "reused", "missed"), 0),
    }


@pytest.mark.slow
async def test_it_ends_by_itself_where_the_stop_rule_holds_and_takes_no_other_rule_afterwards(
    installation: Installation,
) -> None:
    either, model = Watch(metric="confidence", stop_when="either"), Priced()
    plan = shadow_plan(candidate(), "ruled", "fail", either)
    await fill(installation.tables, plan, [-0.2] * 40)
    ended = await asyncio.wait_for(installation.shadow(model, plan=plan).run(), WITHIN_S)
    assert (ended.status, ended.replayed, model.asked) == ("decided", 80, [])
    (run,) = await installation.rows("SELECT status FROM runs FINAL WHERE run_id = {run:String}", "ruled")
    assert run["status"] == "finished"
    other = shadow_plan(candidate(), "ruled", "fail", Watch(metric="confidence", stop_when=""))
    with pytest.raises(ConfigError, match=r"started with other options \(--metric or --stop-when\)"):
        await installation.shadow(model, plan=other).run()


@pytest.mark.slow
async def test_the_stop_rule_knows_what_code_recorded_the_cases_that_it_looks_at(installation: Installation) -> None:
    plan = shadow_plan(candidate(), "ruled", "fail", Watch(metric="confidence", stop_when="either"))
    await fill(installation.tables, plan, [-0.2] * 40, code_is_recorded=False)
    async with installation.living(), installation.shadowing(installation.shadow(Priced(), plan=plan)) as running:
        assert not running.done(), "a difference may be due to code that is not recorded"
        await installation.world.publish(*items(0))
        await installation.until_judged("ruled", 81)
        ended = await asyncio.wait_for(asyncio.shield(running), 30)
    assert (ended.status, ended.replayed) == ("decided", 81)


def test_a_run_needs_a_candidate_and_the_same_candidate_is_the_same_run() -> None:
    with pytest.raises(ConfigError, match="--prompt"):
        shadow_plan({}, None, "fail", WATCH)
    assert shadow_plan(candidate(), None, "fail", WATCH).run_id == PLAN.run_id
    assert PLAN.run_id.startswith("shadow-synthesize-v9-")
    assert shadow_plan(candidate("plan"), None, "fail", WATCH).run_id != PLAN.run_id


def test_a_model_without_a_price_is_refused_for_no_budget_could_be_kept() -> None:
    class Unpriced(Priced):
        def worst_case_usd(self, effect: Any) -> None:
            return None

    with pytest.raises(ConfigError, match="--budget"):
        refuse_unpriced(ports(Unpriced()))
    refuse_unpriced(ports(Priced()))
