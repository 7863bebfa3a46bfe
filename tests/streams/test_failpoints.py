"""Failpoints: harmless until armed, deadly where they are named."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from schemas.errors import ConfigError
from streams import failpoints
from tests.newsproof.command import CHECKOUT, environment

PROGRAM = """
import asyncio, os, pathlib, signal, sys
from streams import failpoints

async def main():
    control = pathlib.Path(sys.argv[1])
    failpoints.listen(control)
    failpoints.hit(failpoints.APPEND_DONE)
    print("unharmed", flush=True)
    os.kill(os.getpid(), signal.SIGUSR1)
    while failpoints.APPEND_DONE not in failpoints._armed:
        await asyncio.sleep(0)
    failpoints.hit(failpoints.APPEND_BEFORE)
    print("armed", flush=True)
    failpoints.hit(failpoints.APPEND_DONE)
    print("survived", flush=True)

asyncio.run(main())
"""


def test_a_process_dies_at_the_failpoint_that_was_named_and_at_no_other(tmp_path: Path) -> None:
    control = tmp_path / "control"
    control.write_text(failpoints.APPEND_DONE)
    command = [sys.executable, "-P", "-c", PROGRAM, str(control)]
    done = subprocess.run(
        command, cwd=CHECKOUT, env=environment(), capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout.split()) == (-signal.SIGKILL, ["unharmed", "armed"]), done.stderr


def test_a_name_that_is_no_failpoint_is_refused_with_those_that_are() -> None:
    with pytest.raises(ConfigError, match="effect:before"):
        failpoints.arm("no such place")


def test_every_failpoint_is_hit_somewhere_in_the_runtime() -> None:
    named = {name: value for name, value in vars(failpoints).items() if isinstance(value, str)}
    constants = {name for name, value in named.items() if value in failpoints.FAILPOINTS}
    sources = "\n".join(
        path.read_text("utf-8") for path in (CHECKOUT / "streams").rglob("*.py") if path.name != "failpoints.py"
    )
    assert {name for name in constants if f"hit({name})" in sources} == constants
    assert len(constants) == len(failpoints.FAILPOINTS)
