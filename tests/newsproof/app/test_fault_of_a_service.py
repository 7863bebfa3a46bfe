"""An unforeseen error of a service is in its log with the place where it happened."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from newsproof.app import exits
from tests.newsproof.command import environment

FAULTY = """
from infra.settings import load_settings
from newsproof.app.invocation import run
from newsproof.app import exits

async def work():
    return {}["partition 4"]

try:
    run(work(), service=load_settings())
except Exception as exc:
    raise SystemExit(exits.status_of(exc))
"""


def test_an_unforeseen_error_of_a_service_is_logged_with_its_place(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-P", "-c", FAULTY], cwd=tmp_path, env=environment(NEWSPROOF_MODE="offline"),
        capture_output=True, check=False, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == exits.INTERNAL
    lines = [json.loads(line) for line in done.stderr.splitlines() if line.startswith("{")]
    assert [
        (at["level"], 'return {}["partition 4"]' in at["exception"] or "in work" in at["exception"]) for at in lines
    ] == [("error", True)], done.stderr
