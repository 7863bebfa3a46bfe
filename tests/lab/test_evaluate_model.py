"""``./run eval --model``: the graph over given evidence, by a scripted server where there is no key."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agents.tables import load_tables
from infra.settings import Settings
from lab.eval.evaluate import read_case
from lab.eval.model import evaluate_by_model
from newsproof.app import exits
from schemas.config import Snapshot
from tests.infra.fakes.openai import error
from tests.infra.fakes.server import FakeServer
from tests.newsproof.command import newsproof

DATA = Path(__file__).parents[1] / "data"
GIVEN = DATA / "evidence_cases.jsonl"
SNAPSHOT = Snapshot(tables=load_tables(demo=False))
SETTINGS = Settings(_env_file=None)  # type: ignore[call-arg]


def cases() -> list[tuple[int, bytes]]:
    return list(enumerate(GIVEN.read_bytes().splitlines(), start=1))


async def test_every_case_is_judged_by_a_model_and_the_rules_stand_beside_it() -> None:
    judged = await evaluate_by_model([(n, read_case(line)) for n, line in cases()], SNAPSHOT, SETTINGS)
    assert judged.cases == 12 and judged.model is not None
    assert (judged.model.mode, judged.model.failed) == ("simulated", ())
    assert 12 <= judged.model.calls <= 24, "a critique where there is a reference, and a synthesis, of each case"
    assert judged.model.models == ("scripted-heavy",)
    assert judged.model.cost_usd is not None and judged.model.cost_usd > 0
    assert (judged.model.rules_all_right, judged.false_raised, judged.actions_without_support) == (8, 0, 0)
    counted = judged.fields["independent_sources"], judged.model.rules["independent_sources"]
    assert counted[0].right == counted[1].right, "this is the rules' to say"


async def test_what_the_critique_says_is_what_counts() -> None:
    denied = next(line for _, line in cases() if json.loads(line)["expect"].get("denied"))
    silent = json.loads(denied)
    for page in silent["evidence"]:
        page |= {
            "title": "Markets today",
            "content": "Shares and bonds were little changed in quiet trading on Monday.",
        }
    both = [(1, read_case(denied)), (2, read_case(json.dumps(silent).encode()))]
    judged = await evaluate_by_model(both, SNAPSHOT, SETTINGS)
    assert [c.fields["denied"].got for c in judged.per_case] == [True, False]


async def test_a_model_that_refuses_leaves_a_case_without_a_signal_and_it_is_named() -> None:
    one = [(1, read_case(cases()[0][1]))]
    async with FakeServer(error(401, "no such key")) as server:
        refusing = SETTINGS.model_copy(update={"newsproof_mode": "simulated", "scripted_model_url": f"{server.url}/v1"})
        judged = await evaluate_by_model(one, SNAPSHOT, refusing)
        assert len(server.requests) == 1, "a refusal is not asked for again"
    assert judged.model is not None
    assert (judged.model.failed, judged.model.calls) == (("e01",), 1)
    assert judged.all_right == 0


@pytest.mark.slow
def test_the_command_says_that_nobody_but_a_script_judged(tmp_path: Path) -> None:
    done = newsproof("eval", str(GIVEN), "--model", "--json", module="lab", cwd=tmp_path)
    assert done.returncode == exits.OK, done.stderr
    assert "SCRIPTED" in done.stderr
    assert json.loads(done.stdout.splitlines()[-1])["model"]["mode"] == "simulated"
