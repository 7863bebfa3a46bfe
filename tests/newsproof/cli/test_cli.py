"""The command line without servers: help, exit statuses, errors that say what to do, and what is loaded when."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from agents.prompts import all_prompts
from infra.embedded.child import free_ports
from newsproof.__main__ import main
from newsproof.app import exits
from newsproof.app.invocation import raise_at_ctrl_c
from newsproof.app.version import VERSION, code_version
from newsproof.cli import main as command_line
from newsproof.cli.main import LISTED, MODULE_OF, cli_page, commands_of
from schemas import errors
from tests.newsproof.command import CHECKOUT, NOT_FOR_A_CLIENT, environment, invoked, newsproof


@pytest.mark.parametrize(
    ("imports", "not_loaded"),
    [
        ("import newsproof.cli.main, newsproof", ("faust", "aiokafka", "httpx", "chdb", "pydantic")),  # as for --help
        ("from newsproof import subscribe, publish", NOT_FOR_A_CLIENT),
    ],
)
def test_help_and_the_sdk_load_nothing_that_they_do_not_need(imports: str, not_loaded: tuple[str, ...]) -> None:
    code = f"import sys; {imports}; print([m for m in {not_loaded} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], env=environment(), capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_every_command_is_listed_on_one_line_of_80_columns_and_found_where_the_list_says() -> None:
    for name in MODULE_OF:
        assert commands_of(MODULE_OF[name])[name].name == name
    registered = {name for module in set(MODULE_OF.values()) for name in commands_of(module)}
    folder = CHECKOUT / "newsproof/cli"
    files = {
        ".".join(f.relative_to(folder).with_suffix("").parts)
        for f in folder.rglob("*/*.py")
        if "\napp = commands()" in f.read_text("utf-8")
    }
    assert (registered, files) == (set(MODULE_OF), set(MODULE_OF.values()))
    assert all(len(short) <= 59 for commands in LISTED.values() for _, short in commands.values())


@pytest.mark.parametrize(
    ("command", "env", "says"),
    [
        ("nonsense", {}, "nonsense"),
        ("signals --min-confidence 2", {}, "min-confidence"),
        ("config", {"TOPIC_PARTITIONS": "many"}, "TOPIC_PARTITIONS"),
        ("cases --status lost", {}, "open, signal, dropped, failed"),
        ("signals --verdict verified", {}, "confirmed, likely, unconfirmed"),
        ("signals --stage degraded", {}, "preliminary, final, superseded, retracted"),
        ("publish no-such-file.jsonl", {}, "no-such-file.jsonl"),
        ("prompts nonsense", {}, "there is no prompt 'nonsense'"),
        ("prompts plan@99", {}, "agents/prompts/plan.v99.md"),
        ("up", {"NEWSPROOF_MODE": "live"}, "GEMINI_API_KEY"),
    ],
)
def test_what_the_user_can_mend_ends_with_2_and_names_it(
    tmp_path: Path, command: str, env: dict[str, str], says: str
) -> None:
    done = invoked(*command.split(), cwd=tmp_path, env=env)
    assert (done.returncode, done.stdout) == (exits.USAGE, "")
    assert says in done.stderr
    assert "Traceback" not in done.stderr


def test_a_server_that_does_not_answer_ends_with_3_and_names_the_setting_without_its_password(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    for command in ("audit", "cases --json", "topics describe"):
        done = invoked(*command.split(), cwd=tmp_path, env={"KAFKA_BOOTSTRAP_SERVERS": f"127.0.0.1:{port}"})
        assert (done.returncode, done.stdout) == (exits.UNREACHABLE, "")
        assert "KAFKA_BOOTSTRAP_SERVERS" in done.stderr and len(done.stderr.splitlines()) == 1
    done = invoked("sql", "SELECT 1", cwd=tmp_path, env={"CLICKHOUSE_URL": f"http://me:geheim@127.0.0.1:{port}"})
    assert done.returncode == exits.UNREACHABLE
    assert "CLICKHOUSE_URL" in done.stderr and "geheim" not in done.stderr


def test_debug_shows_where_an_error_happened(tmp_path: Path) -> None:
    done = newsproof("--debug", "worker", cwd=tmp_path)
    assert done.returncode == exits.USAGE
    assert "Traceback" in done.stderr and "KAFKA_BOOTSTRAP_SERVERS is not set" in done.stderr


def test_a_reader_that_goes_away_is_no_error(tmp_path: Path) -> None:
    command = f"{sys.executable} -P -m newsproof schemas export | head -c 10"
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command], cwd=tmp_path, env=environment(), capture_output=True, check=False
    )
    assert done.stdout == b'{"news.v1"' and b"Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (errors.ConfigError("x"), exits.USAGE),
        (errors.PermanentError("x"), exits.USAGE),
        (errors.TransientError("x"), exits.UNREACHABLE),
        (errors.ContractError("x"), exits.FINDING),
        (KeyboardInterrupt(), exits.INTERRUPTED),
        (ZeroDivisionError("x"), exits.INTERNAL),
    ],
)
def test_every_kind_of_error_has_its_exit_status(error: BaseException, status: int) -> None:
    assert exits.status_of(error) == status


def test_prompts_are_listed_with_their_hashes_and_printed_by_name(tmp_path: Path) -> None:
    listed = [json.loads(line) for line in invoked("prompts", "--json", cwd=tmp_path).stdout.splitlines()]
    assert {(p.name, p.version, p.hash) for p in all_prompts()} == {
        (p["name"], p["version"], p["hash"]) for p in listed
    }
    assert invoked("prompts", "plan@1", cwd=tmp_path).stdout.startswith("You decide what to look up next")


def test_the_reference_of_the_command_line_is_up_to_date() -> None:
    assert (CHECKOUT / "docs" / "cli.md").read_text("utf-8") == cli_page(), "run: newsproof reference > docs/cli.md"


def test_the_version_is_that_of_the_project_and_the_code_version_carries_a_hash() -> None:
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text("utf-8"))["project"]
    assert project["version"] == VERSION
    assert code_version().startswith(f"{VERSION}+") and len(code_version()) == len(VERSION) + 13


def test_ctrl_c_before_and_after_a_commands_work_ends_it_without_a_traceback(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def ended(status: int) -> None:
        raise SystemExit(status)

    monkeypatch.setattr(os, "_exit", ended)
    before = signal.getsignal(signal.SIGINT)
    try:
        for work, told in ((interrupt, "newsproof: interrupted; nothing was started\n"), (lambda: None, "")):
            monkeypatch.setattr(command_line, "main", work)
            with pytest.raises(SystemExit, match="130"):
                main()
                interrupt()
            assert capfd.readouterr().err == told
            signal.signal(signal.SIGINT, before)
        monkeypatch.setattr(command_line, "main", lambda: (raise_at_ctrl_c(), interrupt()))
        with pytest.raises(KeyboardInterrupt):
            main()
    finally:
        signal.signal(signal.SIGINT, before)


def interrupt() -> None:
    os.kill(os.getpid(), signal.SIGINT)
