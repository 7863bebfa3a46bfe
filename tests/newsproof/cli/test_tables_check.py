"""The command ``tables check``: its words and its exit status."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

import agents.tables
from newsproof.app import exits
from newsproof.cli.main import app
from schemas.errors import ConfigError


@pytest.fixture
def edited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A copy of the tables that a test may edit, in place of the shipped ones."""
    for name, content in agents.tables.raw_tables().items():
        (tmp_path / name).write_bytes(content)
    monkeypatch.setattr("agents.tables.resources.files", lambda _: tmp_path)
    agents.tables.load_tables.cache_clear()
    yield tmp_path
    agents.tables.load_tables.cache_clear()


def test_the_shipped_tables_pass() -> None:
    done = CliRunner().invoke(app, ["tables", "check"])
    assert done.exit_code == exits.OK, done.stdout
    assert done.stdout.startswith("No problems: ")


def test_a_fault_ends_with_1_and_is_named_with_file_row_and_what_to_do(edited: Path) -> None:
    outlets = json.loads((edited / "outlets.json").read_bytes())
    (edited / "outlets.json").write_text(json.dumps([*outlets, {"name": "Planted", "domain": "reuters.com"}]), "utf-8")
    done = CliRunner().invoke(app, ["tables", "check"])
    assert done.exit_code == exits.FINDING
    for word in ("outlets.json", "Planted", "reuters.com", "leave it with the one whose it is"):
        assert word in done.stdout
    lines = CliRunner().invoke(app, ["tables", "check", "--json"]).stdout.splitlines()
    assert [json.loads(line)["row"] for line in lines] == ["Planted"]


def test_a_file_that_cannot_be_read_is_named_with_the_row(edited: Path) -> None:
    (edited / "outlets.json").write_text('[{"name": "Planted"}]', "utf-8")
    with pytest.raises(ConfigError, match=r"agents/tables/outlets.json: .*`domain`.*\$\[0\]"):
        agents.tables.load_tables(demo=False)
