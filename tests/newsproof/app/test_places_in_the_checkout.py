"""Places that are found by counting parents: a module that moves would count wrongly, and find nothing without a word."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import agents
from infra import landlock
from infra.embedded.clickhouse import server as clickhouse_server
from infra.pages import reader_client
from newsproof.app import terminal
from newsproof.app.processes import supervisor
from newsproof.app.version import deciding_files
from tests.newsproof.command import newsproof

CHECKOUT = Path(__file__).parents[3]


def test_the_code_version_is_made_of_every_source_of_the_steps() -> None:
    found = {path.relative_to(CHECKOUT).as_posix() for path in deciding_files()}
    assert {
        "agents/graphs.py",
        "agents/verification/triage.py",
        "agents/core/step.py",
        "agents/planning/plan.py",
    } <= found
    assert found == {path.relative_to(CHECKOUT).as_posix() for path in Path(agents.__file__).parent.rglob("*.py")}


@pytest.mark.parametrize("place", [supervisor.PROJECT, clickhouse_server._PROJECT, reader_client._PROJECT])
def test_children_are_started_from_the_checkout(place: Path) -> None:
    assert place == CHECKOUT


def test_the_command_is_named_by_the_checkouts_own_script(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(CHECKOUT)
    assert terminal.command_name() == "newsproof", "neither ./run nor -m newsproof started this process"
    monkeypatch.setattr(sys, "argv", [str(CHECKOUT / "newsproof" / "__main__.py"), "cases"])
    assert terminal.command_name() == "./run"
    text = "look with `newsproof cases`, or (newsproof backtest list); newsproof: wrong; x/newsproof y"
    assert (
        terminal.as_started(text)
        == "look with `./run cases`, or (./run backtest list); newsproof: wrong; x/newsproof y"
    )
    monkeypatch.chdir("/")
    assert terminal.command_name() == str(CHECKOUT / "run")
    helped = newsproof("publish", "--help", cwd=CHECKOUT).stdout
    assert helped.startswith("Usage: ./run publish ") and "| ./run publish -" in helped and "newsproof" not in helped
    assert newsproof("publish", cwd=CHECKOUT).stderr.startswith("Usage: ./run publish ")


def test_fenced_processes_may_read_our_own_modules_and_not_the_checkout() -> None:
    files = landlock.program_files()
    assert {CHECKOUT / "infra", CHECKOUT / "schemas"} <= set(files)
    assert CHECKOUT not in files and CHECKOUT / "newsproof" not in files
