"""``.ci/run`` on a checkout of stand-ins: whatever fails, the rest still runs, pytest has the last line, and the status tells."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[1]
CLOSING = "3 passed, 1 skipped in 0.12s"
# Stands in for ./run: makes the environment's tools at the first call, compiles nothing, "runs" the tests at the last.
RUN = """#!/bin/sh
[ "$1" = test ] || exit 9
[ "${2-}" != --collect-only ] || exit 0
if [ "${2-}" = --version ]; then
    mkdir -p .venv/bin
    for tool in ruff mypy lint-imports; do
        printf '#!/bin/sh\\necho "%s $*" >>called\\n[ "$BROKEN" != %s ]\\n' "$tool" "$tool" >".venv/bin/$tool"
        chmod +x ".venv/bin/$tool"
    done
    ln -s "$PYTHON" .venv/bin/python
    echo pytest 0.0
    exit 0
fi
echo "$* CI=$CI" >>called
read -r line && echo "stdin is open" >>called
echo "...."
echo "$CLOSING"
echo "a server says goodbye" >&2
[ "$BROKEN" != tests ]
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    (tmp_path / ".ci").mkdir()
    shutil.copy(CHECKOUT / ".ci" / "run", tmp_path / ".ci" / "run")
    (tmp_path / "run").write_text(RUN)
    (tmp_path / "run").chmod(0o755)
    # As root, the script would install a browser that is missing on the machine that runs the tests.
    (tmp_path / "tools").mkdir()
    for tool in ("apt-get", "chromium"):
        (tmp_path / "tools" / tool).write_text(f'#!/bin/sh\necho "{tool} $*" >>called\n')
        (tmp_path / "tools" / tool).chmod(0o755)
    return tmp_path


def ci(checkout: Path, *, broken: str = "", closing: str = CLOSING) -> tuple[int, list[str], list[str]]:
    """Return the exit status, the lines printed, and what was called in order."""
    done = subprocess.run(
        [str(checkout / ".ci" / "run")],
        cwd="/",
        env={
            **os.environ, "BROKEN": broken, "CLOSING": closing, "PYTHON": sys.executable, "CI": "",
            "NEWSPROOF_PYTHON": sys.executable, "PATH": f"{checkout / 'tools'}:{os.environ['PATH']}",
        },
        input="a line\n",
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )  # fmt: skip
    return done.returncode, done.stdout.splitlines(), (checkout / "called").read_text().splitlines()


def test_everything_runs_without_a_terminal_and_pytest_has_the_last_line(checkout: Path) -> None:
    status, said, called = ci(checkout)
    assert (status, said[-1]) == (0, CLOSING)
    assert called == ["ruff check .", "ruff format --check .", "mypy --strict", "lint-imports ", "test --all CI=true"]


@pytest.mark.parametrize(
    ("broken", "closing"),
    [
        ("ruff", "2 passed, 1 warning in 1.00s"),
        ("mypy", CLOSING),
        ("lint-imports", "no tests ran in 0.01s"),
        ("tests", "1 failed, 2 passed in 61.03s (0:01:01)"),
        ("tests", "1 error in 0.50s"),
    ],
)
def test_one_failure_fails_the_run_the_rest_still_runs_and_the_closing_line_is_found(
    checkout: Path, broken: str, closing: str
) -> None:
    status, said, called = ci(checkout, broken=broken, closing=closing)
    assert (status, said[-1], len(called)) == (1, closing, 5)
    assert any(line.startswith("== failed: ") for line in said)
