"""``lab bench commands``: processor seconds of each reading command, compared with a Python process that does nothing.

Runs on a running installation with ``CASES`` offline cases, so no command starts a server.
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from lab.backtest.selftest import offline_settings
from lab.bench.installation import WARMING as CASES
from lab.bench.installation import judged
from lab.bench.measures import Figure
from newsproof.app.processes.supervisor import PROJECT, pipeline, watched

READING = (
    "signals", "cases", "case show", "sources", "sources reputation", "budget", "dlq", "audit", "outcomes list",
    "sql SELECT+1", "report", "backtest list", "config", "--help",
)  # fmt: skip
"""The commands. A plus stands for a space inside an argument."""
LIGHT = frozenset({"signals", "cases", "case show", "sources", "budget", "dlq"})
"""Frequently used commands, which must meet ``TARGET_S``."""
TARGET_S = 0.6


async def commands(repetitions: int = 5) -> list[Figure]:
    """Run each command this often, with an empty Python process in between, and return the medians."""
    with TemporaryDirectory(prefix="newsproof-bench-") as directory:
        async with pipeline(offline_settings(Path(directory), max_open_cases=2000), page=None) as running:
            await watched(running, judged(running, CASES, seed=1))
            return await asyncio.to_thread(_measured, running.settings.newsproof_data_dir, repetitions)


def _measured(directory: Path, repetitions: int) -> list[Figure]:
    program = ("-m", "newsproof", "--data-dir", str(directory))
    first, *_ = _output(*program, "cases", "--json").splitlines()
    of = {name: [word.replace("+", " ") for word in name.split()] for name in READING}
    of["case show"] += [json.loads(first)["case_id"]]
    spent: dict[str, list[float]] = {name: [] for name in READING}
    base = []
    for _ in range(repetitions):
        for name, arguments in of.items():
            base.append(_cpu_s("-c", "pass"))
            spent[name].append(_cpu_s(*program, *arguments))
    nothing = statistics.median(base)
    return [
        Figure(
            name=f"commands: {name.replace('+', ' ')}",
            value=statistics.median(took),
            unit="s of processor",
            target=f"<= {TARGET_S}" if name in LIGHT else "-",
            baseline="python -c pass",
            ratio=statistics.median(took) / nothing,
        )
        for name, took in spent.items()
    ]


def _cpu_s(*arguments: str) -> float:
    process = subprocess.Popen(
        (sys.executable, "-P", *arguments), env=_environment(), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
    )
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise AssertionError(f"{' '.join(arguments)} ended with {process.returncode}: it was not what is measured")
    return usage.ru_utime + usage.ru_stime


def _output(*arguments: str) -> str:
    return subprocess.run(
        (sys.executable, "-P", *arguments), env=_environment(), stdout=subprocess.PIPE, text=True, check=True
    ).stdout


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(PROJECT)}
