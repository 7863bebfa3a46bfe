"""The ledger of looks: who looked at which cases, and what may be claimed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from agents.prompts import load_prompts
from evaluation.looks import Look, look_at, read_looks
from evaluation.runs.plan import RunPlan
from infra.clickhouse.client import ClickHouse
from infra.clickhouse.migrate import load_migrations
from infra.embedded.clickhouse.server import EmbeddedClickHouse
from infra.embedded.kafka.server import EmbeddedKafka
from newsproof.app import exits
from newsproof.cli.main import app
from schemas.topics import Topics
from tests.evaluation.runs.run_samples import prompt
from tests.evaluation.stored import new_database

BEFORE, AFTER = datetime(2026, 3, 1, tzinfo=UTC), datetime(2099, 1, 1, tzinfo=UTC)
"""Before and after every look of a test."""
STRICT, TERSE = ({"synthesize": prompt("synthesize", text=text)} for text in ("Be strict.\n", "Be terse.\n"))
TRIAGE = {"triage": prompt("triage")}


async def stored(tables: ClickHouse, run_id: str, prompts: Any, began: datetime, cases: Sequence[str]) -> None:
    """Write a run of these cases."""
    plan = RunPlan(run_id=run_id, prompts=prompts)
    columns = ("run_id", "label", "status", "changes", "started_at")
    await tables.insert("runs", columns, [(run_id, plan.label, "finished", plan.changes, began)])
    rows = [(run_id, case, 0, "replayed", datetime.now(UTC)) for case in cases]
    await tables.insert("run_cases", ("run_id", "case_id", "repeat", "status", "started_at"), rows)


async def test_every_look_that_shares_a_case_counts_and_a_candidate_made_after_it_claims_nothing(
    clickhouse: ClickHouse,
) -> None:
    march, april = ("a", "b", "c"), ("x", "y")
    for run_id, prompts, began, cases in (
        ("base", {}, BEFORE, march + april),
        ("strict", STRICT, BEFORE, march),
        ("triage", TRIAGE, BEFORE, ("c", "d")),
        ("april", TERSE, BEFORE, april),
        ("terse", TERSE, AFTER, ("c", "e")),
        ("again", STRICT, AFTER, march),
    ):
        await stored(clickhouse, run_id, prompts, began, cases)

    async def look(*runs: str, seen: str = "", cap: float = 0.25, record: bool = True) -> Look | None:
        return await look_at(clickhouse, runs, {"cap": cap}, seen, record=record)

    assert await look("live", "base") is None and await look("base") is None, "nothing is changed, so nothing is tried"
    for runs, how, earlier, factor in (
        (("base", "strict"), {}, 0, 1),
        (("base", "strict"), {"record": False, "cap": 0.1}, 1, 3),
        (("base", "strict"), {"cap": 0.1}, 1, 3),
        (("base", "strict"), {}, 0, 1),
        (("base", "strict"), {"seen": "other prices"}, 2, 6),
        (("live", "triage"), {}, 3, 10),
        (("base", "april"), {}, 0, 1),
        (("strict",), {}, 4, 15),
        (("again",), {}, 5, 0),
        (("base", "terse"), {}, 6, 0),
    ):
        found = await look(*runs, **how)  # type: ignore[arg-type]
        assert found is not None and (found.earlier, found.factor) == (earlier, factor), (runs, how)
    assert (
        found is not None and "run terse began after 6 looks at another candidate on some of these cases" in found.note
    )
    ledger = await read_looks(clickhouse)
    assert [(one.runs[-1], one.earlier) for one in ledger] == [
        *(
            ("strict", 0),
            ("strict", 1),
            ("strict", 2),
            ("triage", 3),
            ("april", 0),
            ("strict", 4),
            ("again", 5),
            ("terse", 6),
        )
    ]
    assert (ledger[0].cases, ledger[-1].cases, ledger[0].label) == (3, 1, "synthesize v4")


async def test_what_the_ledger_of_trials_held_counts_as_looked_at(clickhouse: ClickHouse) -> None:
    await stored(clickhouse, "old", STRICT, BEFORE, ("a", "b"))
    await stored(clickhouse, "new", TERSE, BEFORE + timedelta(days=1), ("b",))
    columns = ("run_id", "candidate", "label", "started_at")
    trials = [("old", "0123456789abcdef", "synthesize v4", BEFORE), ("aa", "", "", BEFORE)]
    await clickhouse.insert("trials", columns, trials)
    (copy,) = [s for m in load_migrations() if m.name == "m015_looks" for s in m.statements if s.startswith("INSERT")]
    for _ in range(2):
        await clickhouse.command(copy)
    assert [(one.look_id, one.cases, one.options) for one in await read_looks(clickhouse)] == [("old", 2, "")]
    new = await look_at(clickhouse, ["new"], {}, "")
    assert new is not None and (new.earlier, new.tuned) == (1, 1)


@pytest.mark.slow
def test_runs_of_the_command_are_listed_with_what_they_may_claim(
    kafka: EmbeddedKafka, clickhouse_engine: EmbeddedClickHouse, topics: Topics, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    env = {
        **kafka.address.as_environment(),
        **new_database(clickhouse_engine),
        "NEWSPROOF_TOPIC_PREFIX": topics.prefix,
        "NEWSPROOF_MODE": "offline",
        "NEWSPROOF_DATA_DIR": str(tmp_path),
    }
    monkeypatch.chdir(tmp_path)
    now = load_prompts()["critique"]
    for name in "ab":
        head = f"---\nname: critique\nversion: 9\ntier: {now.tier}\n---\n"
        (tmp_path / f"{name}.md").write_text(f"{head}Be strict: {name}.", "utf-8")

    def command(*arguments: str) -> list[dict[str, Any]]:
        done = CliRunner().invoke(app, ["backtest", *arguments, "--json"], env=env)
        assert done.exit_code == exits.OK, (done.output, done.exception)
        return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]

    few = ("run", "--sample-log", "--sample", "8")
    command(*few, "--run-id", "base")
    (estimate,) = command(*few, "--prompt", "critique=a.md", "--dry-run")
    assert estimate["executed"] > 0
    monkeypatch.setattr("evaluation.replay.candidates.reads_no_prompt", lambda *_: False)
    for name in "ab":
        (ran,) = command(*few, "--prompt", f"critique={name}.md", "--run-id", name)
        assert (ran["status"], ran["cases"]) == ("finished", 8)
        compared = CliRunner().invoke(app, ["backtest", "compare", "base", name, "--format", "json"], env=env)
        assert compared.exit_code == exits.OK, (compared.output, compared.exception)
    assert any("run b began after 1 look" in warning for warning in json.loads(compared.stdout)["warnings"])
    listed = [(look["runs"], look["cases"], look["earlier"], look["tuned"]) for look in command("trials")]
    assert listed == [(["base", "a"], 8, 0, 0), (["base", "b"], 8, 1, 1)]
