"""The sample systemd unit: what it shuts, that it runs what there is, and systemd's own check where systemd is."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import typer

from infra.settings import Settings
from newsproof.app import exits
from newsproof.cli.main import app

pytestmark = pytest.mark.security

PROJECT = Path(__file__).parents[2]
UNIT = PROJECT / "infra" / "systemd" / "newsproof.service"
EXPOSURE_AT_MOST = 1.5
"""Of 10, as ``systemd-analyze security`` counts: a service that needs the network and a compiler at run time."""


def told(name: str) -> list[str]:
    """Every value of one setting of the unit."""
    return re.findall(rf"^{name}=(.*)$", UNIT.read_text("utf-8"), re.M)


def test_the_service_writes_to_its_own_folders_alone_which_nobody_else_reads() -> None:
    assert (told("ProtectSystem"), told("ProtectHome"), told("PrivateTmp")) == (["strict"], ["yes"], ["yes"])
    assert (told("UMask"), told("StateDirectoryMode"), told("CacheDirectoryMode")) == (["0077"], ["0700"], ["0700"])
    assert told("ReadWritePaths") == []
    assert (told("User"), told("NoNewPrivileges"), told("CapabilityBoundingSet")) == (["newsproof"], ["yes"], [""])
    given = dict(word.split("=", 1) for line in told("Environment") for word in line.split())
    (state,), (cache,) = told("StateDirectory"), told("CacheDirectory")
    assert all(Path(path).is_relative_to(f"/var/lib/{state}") or Path(path).is_relative_to(f"/var/cache/{cache}") for path in given.values())  # fmt: skip
    assert {name.lower() for name in given if name.startswith("NEWSPROOF_")} <= set(Settings.model_fields)


def test_the_service_runs_a_command_that_exists() -> None:
    (started,) = told("ExecStart")
    program, command = started.split()
    assert (PROJECT / Path(program).name).stat().st_mode & 0o111
    assert command in typer.main.get_command(app).commands  # type: ignore[attr-defined]


def test_what_must_be_mended_first_is_not_started_again_and_again() -> None:
    assert (told("Restart"), told("RestartPreventExitStatus")) == (["on-failure"], [str(exits.USAGE)])


def test_java_clickhouse_and_a_process_that_locks_itself_in_are_not_forbidden_what_they_need() -> None:
    assert told("MemoryDenyWriteExecute") == []
    allowed = " ".join(told("SystemCallFilter"))
    assert {"landlock_create_ruleset", "landlock_add_rule", "landlock_restrict_self"} <= set(allowed.split())


def test_systemd_finds_nothing_wrong_and_little_exposed(tmp_path: Path) -> None:
    if (analyze := shutil.which("systemd-analyze")) is None:
        pytest.skip("there is no systemd-analyze here; it checks the unit where it is")
    program = tmp_path / "run"
    program.touch(0o755)
    unit = tmp_path / UNIT.name
    unit.write_text(UNIT.read_text("utf-8").replace("/opt/newsproof/run", str(program)))
    verified = subprocess.run([analyze, "verify", str(unit)], capture_output=True, text=True, check=False)
    assert (verified.returncode, [line for line in verified.stderr.splitlines() if UNIT.name in line]) == (0, [])
    counted = subprocess.run(
        [analyze, "security", "--offline=true", f"--threshold={int(EXPOSURE_AT_MOST * 10)}", str(unit)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert counted.returncode == 0, counted.stdout
