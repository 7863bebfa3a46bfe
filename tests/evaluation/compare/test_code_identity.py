"""What of a difference between two runs is the code's: told by versions, declarations, and the questions of the recording."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from agents.graphs import verification
from agents.planning import plan_tools
from agents.prompts import load_prompts
from evaluation.compare.code_identity import (
    QuestionCounts,
    RunCode,
    code_change,
    code_change_note,
    declarations_of,
)
from evaluation.compare.run_records import read_code_change, read_run_code
from evaluation.replay.journal import FileSource, recordings, survey
from evaluation.replay.log_file import read_log_file
from evaluation.runs.backtest import identify_code
from evaluation.runs.estimate import recorded_code
from evaluation.runs.plan import RunPlan
from evaluation.runs.run_tables import RUN_COLUMNS, run_code_row
from infra.clickhouse.client import ClickHouse
from schemas.effects import CallModel
from schemas.errors import ConfigError
from streams.replay import Miss
from tests.evaluation.runs.run_samples import Backtest, builder_of, prompt

SOURCE = FileSource(read_log_file())
RECORDED = next(iter(SOURCE.snapshots.values())).code_version
STRICT = RunPlan(run_id="strict", prompts={"synthesize": prompt("synthesize")}, code_version="0.1.0+today")
SAME = {"plan": {"decide_next_tools": "1"}}


def about(run_id: str, code: str = "one", **more: Any) -> RunCode:
    return RunCode(run_id=run_id, code=(code,), **more)


@pytest.fixture
def other_declaration(monkeypatch: pytest.MonkeyPatch) -> None:
    """The code after somebody reworded a tool that the planning model may choose."""
    now = plan_tools.TOOLS["search"]
    monkeypatch.setitem(plan_tools.TOOLS, "search", replace(now, about="look the claim up"))


@pytest.mark.usefixtures("other_declaration")
async def test_a_changed_declaration_asks_another_step_anew_although_only_synthesize_was_changed() -> None:
    backtest = Backtest(SOURCE)
    await backtest.run(STRICT, every=True)
    assert backtest.model.asked["plan"] > 30  # what misled: the run is called one of synthesize
    assert set(STRICT.prompts) == {"synthesize"}
    found = await identify_code(STRICT, SOURCE, await survey(SOURCE))
    asked = found.questions["plan"]
    assert asked.otherwise == asked.asked > 30
    assert {step for step, q in found.questions.items() if q.otherwise} == {"plan"}
    assert found.questions["critique"].asked > 30, "the questions behind a changed one are looked at, too"
    said = code_change_note(found, options="--sample-log ")
    assert f"plan sends a request other than the recorded one in {asked.asked} of {asked.asked} calls" in said
    assert "decide_next_tools" in said
    assert "due to the code as well as your prompt" in said
    assert said.endswith("newsproof backtest run --sample-log --run-id baseline")


async def test_code_of_another_version_that_asks_the_same_says_so_and_is_no_less_another() -> None:
    found = await identify_code(STRICT, SOURCE, await survey(SOURCE))
    assert (found.recorded_code, found.looked_at) == ((RECORDED,), 42)
    assert not any(q.otherwise for q in found.questions.values())
    said = code_change_note(found)
    assert "every request without your prompt equals the recorded one" in said
    assert "unknown for single_pass" in said  # no case of the sample took that path
    assert code_change(found.recording, found) is not None


async def test_of_the_recordings_own_code_there_is_nothing_to_say() -> None:
    found = await identify_code(replace(STRICT, code_version=RECORDED), SOURCE, await survey(SOURCE))
    assert (found.questions, found.looked_at, code_change_note(found)) == ({}, 0, "")


async def test_a_snapshot_that_is_not_there_makes_the_recordings_code_unknown() -> None:
    seen = await survey(SOURCE)
    assert recorded_code(SOURCE.snapshots, seen.config_hashes) == (RECORDED,)
    assert recorded_code(SOURCE.snapshots, (*seen.config_hashes, "gone")) == ()
    found = await identify_code(STRICT, FileSource(msgspec.structs.replace(read_log_file(), snapshots={})), seen)
    assert "unrecorded code" in code_change_note(found)


@pytest.mark.slow
async def test_every_function_that_a_step_sends_is_among_its_declarations() -> None:
    sent: set[tuple[str, str]] = set()
    for plan in (RunPlan(run_id="x"), RunPlan(run_id="y", prompts={n: prompt(n) for n in load_prompts()})):
        async for recording in recordings(SOURCE, lambda _id: True):
            asking = builder_of(SOURCE, plan, every=True).build(recording).run()
            try:
                need = next(asking)
                while True:
                    if isinstance(need.effect, CallModel):
                        sent |= {(need.step, f.name) for f in need.effect.functions}
                        if need.effect.response_schema is not None:
                            sent.add((need.step, f"reply of {need.effect.prompt_name}"))
                    need = asking.send(need.stand_in or Miss("nothing stands in"))
            except StopIteration:
                pass
    declared = declarations_of(verification(), load_prompts())
    assert {("plan", "decide_next_tools"), ("triage", "reply of triage"), ("critique", "reply of critique")} <= sent
    assert {(step, name) for step, name in sent if name not in declared.get(step, {})} == set()


@pytest.mark.usefixtures("other_declaration")
def test_a_reworded_tool_is_named() -> None:
    now = declarations_of(verification(), load_prompts())
    before = dict(now) | {
        "plan": dict(now["plan"]) | dict.fromkeys(("decide_next_tools", "decide_next_tools/search"), "0")
    }
    change = code_change(about("a", declarations=before), about("b", "two", declarations=now))
    assert change is not None
    assert change.what == "plan sends decide_next_tools, decide_next_tools/search in another form"


@pytest.fixture
def tables(clickhouse: ClickHouse) -> ClickHouse:
    return clickhouse


async def write(tables: ClickHouse, one: RunCode, *, changes: str = '{"prompts":{}}', started: int = 0) -> None:
    plan = ("", "finished", changes, one.code[0], 0, 1000, 42, 1, 1, 0, 0, 0, started, 1000, 1)
    await tables.insert("runs", RUN_COLUMNS, [(one.run_id, *plan, *run_code_row(one))])


SYNTHESIZE = '{"prompts":{"synthesize":{"version":"4","hash":"x"}}}'


async def test_live_is_refused_as_the_base_of_a_run_of_other_code_until_a_baseline_is_there(tables: ClickHouse) -> None:
    run = about(
        "strict",
        "two",
        recorded_code=("one",),
        declarations=SAME,
        questions={"plan": QuestionCounts(41, 41)},
        looked_at=42,
    )
    await write(tables, run, changes=SYNTHESIZE)
    assert await read_run_code(tables, "strict") == replace(run, changed_prompts=("synthesize",))
    with pytest.raises(ConfigError, match="make a baseline first, `newsproof backtest run --run-id baseline`"):
        await read_code_change(tables, "live", "strict", allow=False)
    change = await read_code_change(tables, "live", "strict", allow=True)
    assert change is not None and "plan sends a request other than the recorded one in 41 of 41 calls" in change.text

    await write(tables, about("other", "three", recorded_code=("one",), baseline=True), started=2)
    with pytest.raises(ConfigError, match="make a baseline first"):
        await read_code_change(tables, "strict", "live", allow=False)
    await write(tables, about("as-it-is", "two", recorded_code=("one",), declarations=SAME, baseline=True))
    with pytest.raises(ConfigError, match="`newsproof backtest compare as-it-is strict`"):
        await read_code_change(tables, "live", "strict", allow=False)
    assert await read_code_change(tables, "as-it-is", "strict", allow=False) is None
    # What the code alone changed is what a baseline beside live shows.
    assert await read_code_change(tables, "live", "as-it-is", allow=False) is not None


async def test_runs_of_one_code_or_of_the_recordings_are_compared_without_a_word(tables: ClickHouse) -> None:
    await write(tables, about("same", recorded_code=("one",), declarations=SAME), changes=SYNTHESIZE)
    assert await read_code_change(tables, "live", "same", allow=False) is None
    await write(tables, about("later", "two", recorded_code=("one",), declarations=SAME), changes=SYNTHESIZE)
    change = await read_code_change(tables, "same", "later", allow=False)
    assert change is not None and "same was decided by code one, later by code two" in change.text


async def test_a_run_from_before_this_was_kept_is_unknown_and_refused(tables: ClickHouse) -> None:
    await tables.insert("runs", ("run_id", "status", "code_version"), [("old", "finished", "one")])
    with pytest.raises(ConfigError, match="run old again, under another --run-id"):
        await read_code_change(tables, "live", "old", allow=False)
    with pytest.raises(ConfigError, match="unrecorded code"):
        await read_code_change(tables, "live", "nobody", allow=False)
