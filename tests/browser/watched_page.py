"""A tab whose doings are kept: requests to other hosts, dialogs, errors, and what the policy refused."""

from __future__ import annotations

from functools import lru_cache
from importlib import resources
from typing import Any
from urllib.parse import urlsplit

WIDE = {"width": 1280, "height": 860}
NARROW = {"width": 320, "height": 700}
PATIENCE_MS = 30_000
"""Long, for a loaded machine; what is waited for comes at once on an idle one."""


class Watched:
    """A page, and what it did that it must not do."""

    def __init__(self, context: Any, page: Any, address: str) -> None:
        self.context, self.page, self.address = context, page, address
        self.elsewhere: list[str] = []
        self.dialogs: list[str] = []
        self.errors: list[str] = []

    @classmethod
    async def opened(
        cls,
        browser: Any,
        address: str,
        path: str = "/",
        *,
        dark: bool = False,
        narrow: bool = False,
        locale: str = "en-GB",
        size: dict[str, int] | None = None,
        axe: bool = False,
        **more: Any,
    ) -> Watched:
        """Open the path in a fresh context, with reduced motion, and wait until its heading and the system's state stand there."""
        context = await browser.new_context(
            viewport=size or (NARROW if narrow else WIDE),
            color_scheme="dark" if dark else "light",
            reduced_motion="reduce",
            locale=locale,
            timezone_id="UTC",
            **more,
        )
        context.set_default_timeout(PATIENCE_MS)
        context.set_default_navigation_timeout(PATIENCE_MS)
        if axe:  # as a script of the tool's, which the page's policy does not speak of
            await context.add_init_script(axe_source())
        page = await context.new_page()
        watched = cls(context, page, address)
        await watched._watch()
        await page.goto(address + path)
        await page.wait_for_selector("main h1")
        # What the system says of itself moves what stands below it: first that, then clicks.
        await page.wait_for_selector("#link-state span, #trouble:not([hidden])", state="attached")
        return watched

    async def _watch(self) -> None:
        own = urlsplit(self.address).netloc

        async def route(route: Any) -> None:
            url = urlsplit(route.request.url)
            if url.netloc == own or url.scheme in ("data", "blob"):
                await route.fallback()
            else:
                self.elsewhere.append(route.request.url)
                await route.abort()

        async def dismiss(dialog: Any) -> None:
            self.dialogs.append(dialog.message)
            await dialog.dismiss()

        await self.context.route(lambda url: urlsplit(url).netloc != own, route)
        self.page.on("dialog", dismiss)
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("console", lambda said: self.errors.append(said.text) if _is_violation(said) else None)

    async def violations(self, *, contrast_alone: bool = False) -> list[str]:
        """Return what axe-core finds serious or critical, one line each. ``contrast_alone``: only what colours decide."""
        rules = ["color-contrast"] if contrast_alone else None
        found = await self.page.evaluate(
            "(rules) => axe.run(document, {resultTypes: ['violations'], ...(rules && {runOnly: rules})})", rules
        )
        return [
            f"{one['id']} ({one['impact']}): {node['target']} {node['failureSummary']}"
            for one in found["violations"]
            if one["impact"] in ("serious", "critical")
            for node in one["nodes"]
        ]


async def comes_to_be(locator: Any, count: int) -> None:
    """Wait until exactly so many elements are there."""
    if count:
        await locator.nth(count - 1).wait_for(state="attached")
    await locator.nth(count).wait_for(state="detached")


async def is_said(page: Any, words: str) -> None:
    """Wait until the polite status region says these words."""
    await page.locator("#announcer", has_text=words).wait_for(state="attached")


def _is_violation(said: Any) -> bool:
    return said.type == "error" and ("Content Security Policy" in said.text or "TrustedScript" in said.text or "TrustedHTML" in said.text)  # fmt: skip


@lru_cache(maxsize=1)
def axe_source() -> str:
    """Return axe-core as axe-playwright-python ships it."""
    return resources.files("axe_playwright_python").joinpath("axe.min.js").read_text("utf-8")
