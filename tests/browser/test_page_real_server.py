"""The page against the real web service, over a real Kafka: what the fake API promises is what the service does."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
import pytest_asyncio

from infra.kafka.topics import KafkaAddress
from tests.browser.conftest import Opened
from tests.browser.watched_page import is_said
from tests.newsproof.command import COMMAND, environment
from tests.newsproof.signal_samples import signal, write_signals
from tests.newsproof.web.test_web_live import open_case
from tests.newsproof.web.test_web_research import ANSWERED, COLLECTED, PLANNED, REPORTED, ROUTED, STOPPED, go_on
from tests.streams.records import DROPPED, TRIAGED
from tests.streams.world import World

pytestmark = pytest.mark.asyncio(loop_scope="session")
_numbers = count()


@pytest_asyncio.fixture(loop_scope="session")
async def installation(address: KafkaAddress, tmp_path: Path) -> AsyncIterator[World]:
    """Topics of this test alone, empty."""
    async with World.made(address, f"page{next(_numbers)}.", tmp_path / "slots", partitions=2) as world:
        yield world


@asynccontextmanager
async def web(world: World, directory: Path, port: int = 0) -> AsyncIterator[str]:
    """A web service as a process of its own; what is given is the address that it prints, with its token. At the end it is killed."""
    process = await asyncio.create_subprocess_exec(
        *(*COMMAND, "web", "--port", str(port)), cwd=directory, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
        env=environment(
            **world.address.as_environment(), NEWSPROOF_TOPIC_PREFIX=world.topics.prefix, NEWSPROOF_MODE="offline"
        ),
    )  # fmt: skip
    assert process.stdout is not None
    try:
        async with asyncio.timeout(120):
            line = (await process.stdout.readline()).decode()
        address, token = line.partition(": ")[2].split()[0], (directory / ".data" / "web-token").read_text().strip()
        yield f"{address}?{urlencode({'token': token})}"
    finally:
        with suppress(ProcessLookupError):  # it ended by itself: the test's own error says more
            process.kill()
        await process.wait()


async def ask(page: Any, question: str) -> str:
    await page.fill("#question", question)
    await page.keyboard.press("Enter")
    await page.locator(".turn").last.locator(".stage-routing").wait_for()
    chats = await page.evaluate("async () => (await (await fetch('/api/v1/research/chats')).json()).items")
    return str(next(one["chat_id"] for one in chats if one["message"] == question))


async def test_signals_stand_on_the_page_within_a_second_of_their_publication(
    installation: World, opened: Opened, tmp_path: Path
) -> None:
    async with web(installation, tmp_path) as told:
        address, token = told.split("/?")
        watched = await opened(f"/?{token}", address=address)
        page = watched.page
        assert page.url == f"{address}/", "the token stays in no address bar, and so in no history"
        await page.locator(".desk-top .state-dot.on").wait_for()
        took = []
        for number in range(5):
            published = time.monotonic()
            await write_signals(installation.address, installation.topics, signal(f"s{number}", asset=f"A{number}"))
            await page.locator(f'.signal[data-id="{signal(f"s{number}").signal_id}"]').wait_for()
            took.append(time.monotonic() - published)
        # The quickest of five: on a machine under load any single one may wait for its turn; a page that polls never does.
        assert min(took) < 1.0, took
        await is_said(page, "A4")
        case = await open_case(installation, 1, TRIAGED, DROPPED, text="<svg onload=alert(1)> rumour")
        await page.goto(f"{address}/case/{case}")
        await page.locator(".timeline").wait_for()
        assert "Dropped" in await page.locator("main").inner_text()
        assert (watched.elsewhere, watched.dialogs, watched.errors) == ([], [], [])


async def test_an_answer_survives_a_reload_and_the_death_of_the_server_and_a_stop_ends_the_next_one(
    installation: World, opened: Opened, tmp_path: Path
) -> None:
    world = installation
    async with web(world, tmp_path) as told:
        address, token = told.split("/?")
        watched = await opened(f"/research?{token}", address=address)
        page = watched.page
        chat_id = await ask(page, "Should I buy Bitcoin?")
        await go_on(world, chat_id, [ROUTED, PLANNED])
        await page.locator(".stage-data_collection").wait_for()
        await page.reload()
        await page.locator(".stage-data_collection").wait_for()
        assert await page.locator(".question-text").inner_text() == "Should I buy Bitcoin?"
    await page.get_by_text("Connection lost. The server continues the work").first.wait_for()
    await go_on(world, chat_id, [COLLECTED, REPORTED])
    async with web(world, tmp_path, port=int(address.rpartition(":")[2])):
        await page.locator(".stage-synthesis").wait_for()
        await go_on(world, chat_id, [ANSWERED])
        await page.locator(".answer").wait_for()
        assert await page.locator(".stage").count() == 5
        assert "Yes" in await page.locator(".markdown").inner_text()
        second = await ask(page, "And now?")
        async with page.expect_response(lambda said: said.url.endswith("/stop")) as answered:
            await page.get_by_role("button", name="Stop", exact=True).click()
        assert (await (await answered.value).json())["stopping"] is True
        # What the worker makes of the command; the service itself ends nothing.
        await go_on(world, second, [STOPPED])
        await page.get_by_text("Stopped without an answer.").first.wait_for()
        assert (watched.elsewhere, watched.dialogs, watched.errors) == ([], [], [])
