"""Write docs/screenshots anew: ``.venv/bin/python -m tests.browser.screenshots [NAME …]``.

Every page, dark and light, wide and narrow, with the recorded cases of the sample; small PNG files with a palette. Run it by
hand after a change of the page, and look at what it wrote: no test run does it.
"""

from __future__ import annotations

import asyncio
import base64
import struct
import sys
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tests.browser.conftest import chromium
from tests.browser.fake_api import FakeApi
from tests.browser.views import VIEWS, source_case
from tests.browser.watched_page import Watched

FOLDER = Path(__file__).parents[2] / "docs" / "screenshots"
COLOURS = 256
SIZE = {"width": 1120, "height": 760}
LAPTOP = {"live": {"width": 1440, "height": 900}}
"""Views that take more room to be read."""
PAGES = ("live", "cases", "case", "analytics", "research", "backtests", "operations")
"""These are pictured dark and light, wide and narrow; other states light and wide, and dark and narrow."""
EVERY = tuple((dark, narrow) for dark in (False, True) for narrow in (False, True))
TWO = ((False, False), (True, True))


def packed(pixels: bytes, width: int, height: int) -> bytes:
    """Return RGBA pixels as a PNG with a palette: the most telling colours as they are, others as the nearest of those."""
    rgb = np.frombuffer(pixels, np.uint8).reshape(-1, 4)[:, :3].astype(np.int32)
    packed_rgb: npt.NDArray[np.int32] = rgb[:, 0] << 16 | rgb[:, 1] << 8 | rgb[:, 2]
    codes, where, counts = np.unique(packed_rgb, return_inverse=True, return_counts=True)
    every = np.stack([codes >> 16, codes >> 8 & 255, codes & 255], axis=1)
    # Small marks of a strong colour say more than the many greys at the edges of letters.
    weight = counts * (1 + np.ptp(every, axis=1))
    kept = np.argsort(-weight, kind="stable")[:COLOURS]
    nearest = np.abs(every[:, None, :] - every[kept][None, :, :]).sum(axis=2).argmin(axis=1)
    rows = nearest[where].astype(np.uint8).reshape(height, width)
    raw = np.concatenate([np.zeros((height, 1), np.uint8), rows], axis=1).tobytes()
    head = struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)
    palette = every[kept].astype(np.uint8).tobytes()
    parts = ((b"IHDR", head), (b"PLTE", palette), (b"IDAT", zlib.compress(raw, 9)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(name, body) for name, body in parts)


def _chunk(name: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))


async def small(browser: Any, png: bytes) -> bytes:
    """Return the picture with a palette. The browser reads it: nothing else that does is installed."""
    page = await browser.new_page()
    width, height, pixels = await page.evaluate(
        """async (png) => {
             const picture = await createImageBitmap(await (await fetch(`data:image/png;base64,${png}`)).blob());
             const canvas = new OffscreenCanvas(picture.width, picture.height).getContext('2d');
             canvas.drawImage(picture, 0, 0);
             const bytes = new Uint8Array(canvas.getImageData(0, 0, picture.width, picture.height).data.buffer);
             let text = '';
             for (let at = 0; at < bytes.length; at += 32768) text += String.fromCharCode(...bytes.subarray(at, at + 32768));
             return [picture.width, picture.height, btoa(text)];
           }""",
        base64.b64encode(png).decode(),
    )
    await page.close()
    return packed(base64.b64decode(pixels), width, height)


async def main(names: list[str]) -> None:
    """Write the pictures of these views, of all where none is named."""
    from playwright.async_api import async_playwright

    FOLDER.mkdir(parents=True, exist_ok=True)
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"], timeout=120_000)
        for name in names or VIEWS:
            for dark, narrow in EVERY if name in PAGES else TWO:
                file = FOLDER / f"{name}-{'dark' if dark else 'light'}-{'narrow' if narrow else 'wide'}.png"
                file.write_bytes(await small(browser, await picture(browser, name, dark, narrow)))
                print(f"{file.name}: {file.stat().st_size // 1024} KiB")
        await browser.close()


async def picture(browser: Any, name: str, dark: bool, narrow: bool) -> bytes:
    """Return one view as PNG."""
    fake = FakeApi()
    await fake.start()
    source_case(fake)
    path, steps = VIEWS[name]
    watched = await Watched.opened(
        browser, fake.address, path, dark=dark, narrow=narrow, size=None if narrow else LAPTOP.get(name, SIZE)
    )
    for step in steps:
        await step(fake, watched.page)
    await watched.page.evaluate("() => Promise.all(document.getAnimations().map((one) => one.finished.catch(() => 0)))")
    made: bytes = await watched.page.screenshot()
    await watched.context.close()
    await fake.stop()
    return made


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
