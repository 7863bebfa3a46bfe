"""Measure when the desk is interactive: ``.venv/bin/python -m tests.browser.interactive [SIGNALS …]``.

From the navigation to the moment at which a signal that was chosen by key shows its evidence, against the played API and a
real Chromium. Baseline: the same page without signals, until its offer to publish is there. Medians of ``RUNS``.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import time
from typing import Any

from tests.browser.conftest import chromium
from tests.browser.fake_api import FakeApi
from tests.browser.test_page_desk import LAPTOP, many
from tests.browser.watched_page import Watched

RUNS = 7
SIZES = (500, 10_000)


async def interactive_s(browser: Any, fake: FakeApi, *, empty: bool) -> float:
    """Return the seconds until the desk takes a key, or without signals until it is drawn."""
    began = time.perf_counter()
    watched = await Watched.opened(browser, fake.address, "/", size=LAPTOP)
    page = watched.page
    if empty:
        await page.locator(".desk-message a, .desk-message button").first.wait_for()
    else:
        await page.locator(".signal").first.wait_for()
        await page.keyboard.press("j")
        await page.locator(".beside-head").first.wait_for()
    took = time.perf_counter() - began
    await watched.context.close()
    return took


async def measure(sizes: tuple[int, ...]) -> None:
    """Print the median, fastest and slowest of each size, and the ratio to the empty desk."""
    from playwright.async_api import async_playwright

    fake = FakeApi()
    await fake.start()
    recorded = fake.signals
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        base = 0.0
        for size in (0, *sizes):
            fake.signals = recorded if size else []
            if size:
                many(fake, size)
            took = [await interactive_s(browser, fake, empty=size == 0) for _ in range(RUNS)]
            base = base or statistics.median(took)
            median = statistics.median(took)
            print(
                f"{size:,} signals: {median:.2f} s ({min(took):.2f} to {max(took):.2f}), {median / base:.2f} of the empty desk"
            )
        await browser.close()
    await fake.stop()


if __name__ == "__main__":
    asyncio.run(measure(tuple(int(size) for size in sys.argv[1:]) or SIZES))
