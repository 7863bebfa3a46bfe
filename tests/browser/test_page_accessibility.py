"""axe-core looks at every page, dark and light, wide and narrow, and finds nothing serious; nothing is cut off at 320 px."""

from __future__ import annotations

import pytest

from tests.browser.conftest import Opened
from tests.browser.fake_api import FakeApi
from tests.browser.views import VIEWS, source_case
from tests.browser.watched_page import NARROW, WIDE

pytestmark = pytest.mark.asyncio(loop_scope="session")


LAST = [name for name in VIEWS if name not in ("case", "analytics", "research")]
"""Those left out are shown on the way to others."""


@pytest.mark.parametrize("name", LAST)
async def test_axe_finds_nothing_serious(fake: FakeApi, opened: Opened, name: str) -> None:
    pytest.importorskip("axe_playwright_python", reason="axe-playwright-python is not installed: ./run test does")
    source_case(fake)
    path, steps = VIEWS[name]
    watched = await opened(path, axe=True)
    for step in steps:
        await step(fake, watched.page)
    for size in (WIDE, NARROW):
        await watched.page.set_viewport_size(size)
        for scheme in ("light", "dark"):
            await watched.page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
            found = await watched.violations(contrast_alone=scheme == "dark")
            assert found == [], f"{size['width']} px, {scheme}"
        wide, there = await watched.page.evaluate("() => [document.documentElement.scrollWidth, innerWidth]")
        assert wide <= there, f"at {there} px the page scrolls sideways"
    assert (watched.elsewhere, watched.dialogs, watched.errors) == ([], [], [])
