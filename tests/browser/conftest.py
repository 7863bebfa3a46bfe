"""A real Chromium, headless, for tests of the page; skipped with the reason where there is none.

One browser and one loop for the whole session, so that a test costs a tab. The page may ask its own host for things and
nobody else: what it asks for elsewhere is noted and refused.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
import pytest_asyncio

from tests.browser.fake_api import FakeApi
from tests.browser.watched_page import Watched

CANDIDATES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
Opened = Callable[..., Awaitable[Watched]]


def chromium() -> str | None:
    """Return where a Chromium is: what ``CHROMIUM`` names, else one on the path."""
    named = os.environ.get("CHROMIUM")
    return shutil.which(named) if named else next((found for name in CANDIDATES if (found := shutil.which(name))), None)


@pytest_asyncio.fixture(loop_scope="session", scope="session")
async def browser() -> AsyncIterator[Any]:
    """The browser of the session."""
    where = chromium()
    if where is None:
        pytest.skip("no Chromium here: install one (apt-get install chromium) or name it in CHROMIUM")
    playwright_api = pytest.importorskip("playwright.async_api", reason="playwright is not installed: ./run test does")
    async with playwright_api.async_playwright() as playwright:
        # Without a sandbox of its own: as root, as in most containers, Chromium refuses to make one.
        found = await playwright.chromium.launch(executable_path=where, args=["--no-sandbox"], timeout=120_000)
        yield found
        await found.close()


@pytest_asyncio.fixture(loop_scope="session")
async def fake() -> AsyncIterator[FakeApi]:
    """The API of the page, played from memory."""
    api = FakeApi()
    await api.start()
    yield api
    await api.stop()


@pytest_asyncio.fixture(loop_scope="session")
async def opened(browser: Any, fake: FakeApi) -> AsyncIterator[Opened]:
    """``await opened("/research", dark=True, narrow=True, locale="zh-CN")``: a watched page that shows it."""
    contexts = []

    async def open_page(path: str = "/", *, address: str | None = None, **wanted: Any) -> Watched:
        watched = await Watched.opened(browser, address or fake.address, path, **wanted)
        contexts.append(watched.context)
        return watched

    yield open_page
    for context in contexts:
        await context.close()
