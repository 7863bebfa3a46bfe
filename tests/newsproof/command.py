"""The command line as a user runs it: in a separate process, or in this one, which starts fifty times as fast."""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from unittest.mock import patch

import psutil
import typer.core

from infra.kafka.topics import KafkaAddress
from newsproof.app.invocation import run_command_line
from newsproof.cli.main import app
from schemas.topics import Topics

CHECKOUT = Path(__file__).parents[2]
COMMAND = (sys.executable, "-P", "-m", "newsproof")

OUTSIDE = ("COINBASE", "BINANCE", "COINGECKO", "FEAR_GREED", "FRED", "FRED_API", "BLOCKCHAIN_INFO", "DEFILLAMA")
OUTSIDE += ("DEFILLAMA_STABLECOINS", "COINMETRICS", "BOCHA", "GDELT", "ARXIV")
NOBODY_OUTSIDE = {f"{name}_BASE_URL": "http://127.0.0.1:9" for name in OUTSIDE}
"""Settings for a live-mode command that would call the chat's sources or a search: no test calls the real ones."""


NOT_FOR_A_CLIENT = (
    "agents",
    "chdb",
    "clickhouse_connect",
    "faust",
    "httpx",
    "pydantic_settings",
    "streams",
    "structlog",
)
"""Modules that take long to import, and that neither `publish` nor a bot needs."""


NOT_FOR_A_READER = (
    *("aiohttp", "chdb", "clickhouse_connect", "faust", "google", "httpx", "lxml", "numpy", "prometheus_client"),
    *("pydantic_settings", "requests", "structlog", "tldextract", "trafilatura"),
)
"""Modules that take long to import, and that no command needs to read a log that is served."""


def environment(**settings: str) -> dict[str, str]:
    """Return the environment of a command: this process's, our code, and these settings."""
    return {**os.environ, "PYTHONPATH": str(CHECKOUT), "COLUMNS": "160", **settings}


def on_log(address: KafkaAddress, topics: Topics, *, partitions: int = 2) -> dict[str, str]:
    """Return the settings of a command that reads or writes these topics."""
    named = {"NEWSPROOF_TOPIC_PREFIX": topics.prefix, "TOPIC_PARTITIONS": str(partitions)}
    return address.as_environment() | named


def invoked(
    *arguments: str, cwd: Path, env: Mapping[str, str] | None = None, stdin: bytes = b""
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end in this process, with a directory, settings and streams of its own.

    Not for a service, whose last resort ends the process; nor where a loop runs, because the command starts one.
    """
    out, err, given = (io.TextIOWrapper(io.BytesIO(data), "utf-8", write_through=True) for data in (b"", b"", stdin))
    streams = patch.multiple(sys, argv=["newsproof", *arguments], stdin=given, stdout=out, stderr=err)
    contexts = (patch.object(kind, "context_class") for kind in (typer.core.TyperCommand, typer.core.TyperGroup))
    with contextlib.ExitStack() as stack:
        for one in (contextlib.chdir(cwd), patch.dict(os.environ, environment(**(env or {}))), streams, *contexts):
            stack.enter_context(one)  # type: ignore[arg-type]
        try:
            run_command_line(app, "newsproof")
            status: int | str | None = 0
        except SystemExit as ended:
            status = ended.code
    said = (one.buffer.getvalue().decode("utf-8", "replace") for one in (out, err))  # type: ignore[attr-defined]
    return subprocess.CompletedProcess(arguments, int(status or 0), *said)


def newsproof(
    *arguments: str,
    cwd: Path,
    env: Mapping[str, str] | None = None,
    stdin: bytes = b"",
    timeout_s: float = 120,
    module: str = "newsproof",
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end; output is text. ``module``: ``lab`` for a command of the lab."""
    done = subprocess.run(
        [sys.executable, "-P", "-m", module, *arguments],
        cwd=cwd,
        env=environment(**(env or {})),
        input=stdin,
        capture_output=True,
        timeout=timeout_s,
        check=False,
    )
    out, err = done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace")
    return subprocess.CompletedProcess(done.args, done.returncode, out, err)


def imported_by(*arguments: str, cwd: Path, env: Mapping[str, str]) -> set[str]:
    """Run a successful command, and return the top-level modules that it imported."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", *COMMAND[1:], *arguments],
        cwd=cwd,
        env=environment(**env),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=120,
        check=False,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-1000:]
    lines = [line for line in done.stderr.splitlines() if line.startswith("import time:")]
    return {line.rpartition("|")[2].strip().partition(".")[0] for line in lines}


def processes_in(directory: Path) -> list[str]:
    """Return the command lines of all processes that work in this directory or have it as an argument."""
    found = []
    for process in psutil.process_iter():
        try:
            where, told = process.cwd(), " ".join(process.cmdline())
        except (psutil.AccessDenied, psutil.NoSuchProcess, psutil.ZombieProcess):
            continue
        if where.startswith(str(directory)) or str(directory) in told:
            found.append(told)
    return found


def health_of(file: Path) -> str:
    """Return the address of a process's health pages, named only by its file in ``metrics`` of the data directory."""
    (named,) = json.loads(file.read_text("utf-8"))
    return f"http://{named['targets'][0]}{named['labels']['__metrics_path__'].removesuffix('/metrics')}"
