"""The command line on topics of one test's own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from infra.kafka.topics import KafkaAddress
from schemas.topics import Topics
from tests.newsproof.command import invoked, on_log

Run = Callable[..., str]


@pytest.fixture
def run(address: KafkaAddress, topics: Topics, tmp_path: Path) -> Run:
    """``run("dlq", "list", expect=0, ENV="…")``: a command in this process, on this test's topics and directory.

    Returns what it printed on standard output; where a status of 2 or more is expected, its error.
    """

    def called(*arguments: str, expect: int = 0, **env: str) -> str:
        done = invoked(*arguments, cwd=tmp_path, env=on_log(address, topics) | env)
        assert done.returncode == expect, done.stdout + done.stderr
        return str(done.stderr if expect > 1 else done.stdout)

    return called
