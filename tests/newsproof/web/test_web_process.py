"""``newsproof web`` as a process: it says where it is, survives what it reads from being away, and ends in order."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.newsproof.command import COMMAND, environment
from tests.newsproof.web.reading import asked_with, streaming
from tests.newsproof.web.test_web_research import (
    ANSWERED,
    CHAT,
    COLLECTED,
    PLANNED,
    REPORTED,
    ROUTED,
    WHOLE,
    ask,
    go_on,
    named,
)
from tests.streams.world import World


@asynccontextmanager
async def web(world: World, directory: Path, **more: str) -> AsyncIterator[tuple[Any, httpx.AsyncClient]]:
    """The process, and a client of the address that it prints; it is killed at the end if it still runs."""
    process = await asyncio.create_subprocess_exec(
        *COMMAND, "web", "--port", "0", cwd=directory, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
        env=environment(
            **world.address.as_environment(), NEWSPROOF_TOPIC_PREFIX=world.topics.prefix,
            NEWSPROOF_MODE="offline", **more,
        ),
    )  # fmt: skip
    assert process.stdout is not None
    try:
        async with asyncio.timeout(60):
            line = (await process.stdout.readline()).decode()
        assert line.startswith("Newsproof's page: http://127.0.0.1:"), line
        told = line.split(": ", 1)[1]
        assert "token=" not in told and told.endswith("  (log in with the token in .data/web-token)\n"), (
            "what is no terminal may be kept as a log"
        )
        async with httpx.AsyncClient(**asked_with(told, directory / ".data"), timeout=60, trust_env=False) as http:
            yield process, http
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


@pytest.mark.slow
async def test_a_turn_goes_on_where_it_was_when_the_server_is_killed_and_another_one_started(
    world: World, tmp_path: Path
) -> None:
    async with web(world, tmp_path) as (process, http):
        chat_id = await ask(http)
        await go_on(world, chat_id, [ROUTED, PLANNED])
        async with streaming(http, f"{CHAT}/{chat_id}") as stream:
            early = await stream.until("status", 3)
            process.send_signal(signal.SIGKILL)
    await go_on(world, chat_id, [COLLECTED, REPORTED, ANSWERED])
    async with web(world, tmp_path) as (process, http):
        async with streaming(http, f"{CHAT}/{chat_id}", last_id=early[-1].id) as stream:
            later = await stream.rest()
        assert named(early + later) == WHOLE
        process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(60):
            assert await process.wait() == 0
