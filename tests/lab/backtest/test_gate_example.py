"""The example of docs/gate.md: what its candidates judge, and its gates by the commands of the page."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from pathlib import Path

import pytest
from typer.testing import CliRunner

from evaluation.replay.candidates import chosen_prompts
from evaluation.replay.journal import FileSource
from evaluation.replay.log_file import read_log_file
from evaluation.replay.verify import verify
from evaluation.runs.plan import RunPlan
from infra.embedded.clickhouse.server import EmbeddedClickHouse
from infra.embedded.kafka.server import EmbeddedKafka
from infra.offline.scripted import HEAVY
from infra.offline.scripted.server import ScriptedServer
from lab.__main__ import app as lab
from lab.backtest.example import Kind, ScriptedModel, claims, labels_of, prices_of, recorded, write_files
from newsproof.app import exits
from schemas.topics import Topics
from tests.evaluation.runs.run_samples import Backtest
from tests.evaluation.stored import new_database
from tests.newsproof.command import invoked, newsproof

CASES, SEED = 25, 3
AS_RECORDED: dict[Kind, str] = {
    "reported": "confirmed", "unreported": "unconfirmed", "misread": "confirmed", "other": "refuted", "denied": "refuted",
}  # fmt: skip


def test_the_candidates_judge_as_the_page_says(tmp_path: Path) -> None:
    write_files(tmp_path, cases=CASES, seed=SEED)
    kinds = {claim.news.case_id: claim.kind for claim in claims(CASES, seed=SEED)}
    source = FileSource(read_log_file(tmp_path / "log.jsonl.gz"))
    assert asyncio.run(verify(source)).clean
    told = {}
    for name in ("", "improved", "worsened"):
        backtest = Backtest(source, model=ScriptedModel(HEAVY))
        prompts = chosen_prompts([f"critique={tmp_path / name}.md"]) if name else {}
        asyncio.run(backtest.run(RunPlan(run_id="judged", prompts=prompts)))
        told[name] = {(kinds[case], json.loads(row.signal)["verdict"]) for (case, _), row in backtest.rows.items()}
        assert (len(backtest.rows), {row.status for row in backtest.rows.values()}) == (CASES, {"replayed"})
    assert told[""] == set(AS_RECORDED.items())
    assert told["improved"] == {*(AS_RECORDED | {"misread": "unconfirmed", "other": "confirmed"}).items()}
    assert told["worsened"] == {
        *(AS_RECORDED | {"misread": "unconfirmed", "other": "confirmed", "denied": "confirmed"}).items()
    }


def test_equal_arguments_make_equal_files_and_prices_are_called_synthetic() -> None:
    made = claims(20, seed=1)
    assert made == claims(20, seed=1) != claims(20, seed=2)
    assert recorded(made) == recorded(made)
    assert prices_of(made, seed=1).startswith("# SYNTHETIC prices of coins that do not exist")
    assert Counter(line.split(",")[1] for line in labels_of(made).splitlines()[1:]) == Counter(
        "true" if claim.true else "false" for claim in made
    )


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_gate_opens_for_the_improved_prompt_and_closes_for_the_one_that_confirms_what_was_refuted(
    kafka: EmbeddedKafka, clickhouse_engine: EmbeddedClickHouse, tmp_path: Path, topics: Topics
) -> None:
    env = {
        **kafka.address.as_environment(), **new_database(clickhouse_engine),
        "NEWSPROOF_TOPIC_PREFIX": topics.prefix, "NEWSPROOF_DATA_DIR": str(tmp_path / "data"),
    }  # fmt: skip

    def command(*arguments: str) -> tuple[int, str]:
        done = invoked(*arguments, cwd=tmp_path, env=env)
        assert done.returncode in (exits.OK, exits.GATE_CLOSED), done.stderr[-2000:]
        return done.returncode, done.stdout

    assert CliRunner().invoke(lab, ["gate-example", str(tmp_path / "gate"), "--cases", "200"]).exit_code == exits.OK
    asyncio.run(judge_all(tmp_path, env))
    assert "from synthetic:prices.csv" in command("outcomes", "import", "gate/prices.csv")[1]
    command("labels", "import", "gate/labels.csv")
    status, said = command("backtest", "gate", "as-it-was", "improved")
    assert status == exits.OK and said.count("Gate open: a loss of ") == 7
    status, said = command("backtest", "gate", "as-it-was", "worsened", "--format", "json")
    found = {one["metric"]: one for one in json.loads(said)["metrics"]}
    assert status == exits.GATE_CLOSED
    assert found["truth_errors"]["verdict"] == "worse" and found["truth_errors"]["low"] > 0.05
    assert any("synthetic" in one for one in json.loads(said)["warnings"])


async def judge_all(directory: Path, env: dict[str, str]) -> None:
    """Replay the example's log as it was recorded, and with each of its prompts, all at once."""
    candidates = {name: ("--prompt", f"critique=gate/{name}.md") for name in ("improved", "worsened")}
    async with ScriptedServer() as models:
        asked = env | {"NEWSPROOF_MODE": "simulated", "SCRIPTED_MODEL_URL": models.url}
        log = ("backtest", "run", "--file", "gate/log.jsonl.gz", "--json")
        runs = [
            asyncio.to_thread(newsproof, *log, *prompt, "--run-id", name, cwd=directory, env=asked)
            for name, prompt in {"as-it-was": (), **candidates}.items()
        ]
        for done in await asyncio.gather(*runs):
            assert json.loads(done.stdout.splitlines()[-1])["replayed"] == 200, done.stderr[-2000:]
