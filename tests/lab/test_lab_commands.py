"""The lab's command line without servers: its help, its page, and how its errors end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from lab.__main__ import NAME, PAGE, app
from lab.acceptance.report import AcceptanceReport
from lab.backtest.selftest import SelfTest
from lab.chaos.outcome import Outcome as ChaosOutcome
from lab.eval.evaluate import Evaluation
from lab.hostile.run import Outcome as HostileOutcome
from newsproof.app import exits
from newsproof.cli.main import reference_page
from tests.newsproof.command import CHECKOUT, newsproof
from tests.test_docs import PAGES, RUN_BY_LAB, assert_commands_exist
from tests.test_frozen_surfaces import FROZEN, keys_of


def test_help_lists_every_command_of_the_lab(tmp_path: Path) -> None:
    done = newsproof("--help", cwd=tmp_path, module="lab")
    assert done.returncode == exits.OK
    for name in ("eval", "acceptance", "chaos", "hostile", "bench", "outage", "selftest"):
        assert f"\n  {name} " in done.stdout


def test_the_page_of_the_lab_is_up_to_date() -> None:
    written = (CHECKOUT / "docs" / "lab.md").read_text("utf-8")
    assert written == reference_page(app, NAME, PAGE), f"run: {NAME} reference > docs/lab.md"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["nonsense"], "nonsense"),
        (["chaos", "--workers", "1"], "--workers"),
        (["acceptance", "--max-cost", "-1"], "--max-cost"),
        (["eval", "--nonsense", "cases.jsonl"], "--nonsense"),
        (["hostile", "--records", "0"], "--records"),
        (["bench", "nonsense"], "nonsense"),
        (["outage", "nonsense"], "nonsense"),
        (["selftest", "--cases", "many"], "--cases"),
    ],
)
def test_wrong_arguments_end_with_2_and_are_named(arguments: list[str], says: str) -> None:
    done = CliRunner().invoke(app, arguments)
    assert (done.exit_code, done.stdout) == (exits.USAGE, "")
    assert says in done.stderr and isinstance(done.exception, SystemExit)


def test_a_wrong_setting_ends_with_2_and_debug_shows_where(tmp_path: Path) -> None:
    done = newsproof("hostile", cwd=tmp_path, env={"TOPIC_PARTITIONS": "many"}, module="lab")
    assert (done.returncode, done.stdout) == (exits.USAGE, "")
    assert "TOPIC_PARTITIONS" in done.stderr and "Traceback" not in done.stderr
    debug = newsproof("--debug", "hostile", cwd=tmp_path, env={"TOPIC_PARTITIONS": "many"}, module="lab")
    assert debug.returncode == exits.USAGE and "Traceback" in debug.stderr


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_of_the_lab_that_a_page_names_exists(page: Path) -> None:
    assert_commands_exist(page, app, rf"(?:-m lab|\./run(?= (?:{'|'.join(RUN_BY_LAB)})\b))")


@pytest.mark.parametrize(
    ("command", "printed"),
    [
        ("acceptance", AcceptanceReport),
        ("backtest selftest", SelfTest),
        ("chaos", ChaosOutcome),
        ("eval", Evaluation),
        ("hostile", HostileOutcome),
    ],
)
def test_json_of_a_command_of_the_lab_has_the_keys_of_its_document(command: str, printed: Any) -> None:
    assert keys_of(printed) == FROZEN["json"][command]
