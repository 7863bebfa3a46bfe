"""The page of sources: what fails is said with what to do, filters, and that nobody listens."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import pytest

from infra.listeners.failures import Reason
from newsproof.web import pages
from tests.browser.conftest import Opened
from tests.browser.fake_api import FakeApi

pytestmark = pytest.mark.asyncio(loop_scope="session")
TEXTS = Path(pages.__file__).with_name("static") / "js" / "texts"


async def test_sources_that_fail_come_first_with_what_to_do_and_the_list_is_filtered_and_saved(
    fake: FakeApi, opened: Opened
) -> None:
    watched = await opened("/sources")
    page = watched.page
    await page.locator(".src-why").first.wait_for()
    summary = await page.locator(".src-summary").inner_text()
    assert re.search(
        r"^\d+ of \d+ sources are on: 1 blocked · 2 backing off · .*1 stale · \d+ not polled · \d+ ok", summary
    ), summary
    first = await page.locator("tbody tr").first.inner_text()
    assert first.split("\t")[:3] == ["theblock", "feed en", "blocked"]
    said = await page.locator(".src-why").all_inner_texts()
    assert "find the feed's own address" in said[0] and "https://www.theblock.co/rss.xml" in said[0]
    assert any("status 404" in one and "correct url in sources.toml" in one for one in said)
    assert any("Set LISTENER_CONTACT to an e-mail address" in one for one in said)
    await page.get_by_label("State").select_option("ok")
    await page.get_by_label("Kind").select_option("markets")
    assert page.url.endswith("/sources?state=ok&kind=markets") and await page.locator(".src-why").count() == 0
    assert {(await row.inner_text()).split("\t")[1] for row in await page.locator("tbody tr").all()} == {"markets en"}
    saved = await page.get_by_role("link", name="Save as CSV").get_attribute("href")
    assert saved == "/api/v1/sources?state=ok&kind=markets&format=csv"
    assert (watched.elsewhere, watched.dialogs, watched.errors) == ([], [], [])


async def test_without_a_listener_the_page_says_how_to_start_one_and_an_outage_keeps_what_was_there(
    fake: FakeApi, opened: Opened
) -> None:
    fake.sources.listens, fake.sources.cursors = False, {}
    page = (await opened("/sources", locale="zh-CN")).page
    await page.get_by_text("这份日志上还没有运行过监听进程").wait_for()
    await page.locator("code", has_text="./run --data-dir .data up --listen").wait_for()
    fake.refusals["/api/v1/sources"] = (503, {"error": "Kafka is not responding", "do": "wait"})
    await page.evaluate("() => document.dispatchEvent(new Event('visibilitychange'))")
    await page.get_by_text("Kafka is not responding").wait_for()
    assert "以下为" in await page.locator("main").inner_text() and await page.locator("tbody tr").count() > 40


async def test_what_to_do_is_said_in_both_languages_for_every_reason() -> None:
    for name in ("en", "zh"):
        told = set(re.findall(r'^  "src\.do\.([^"]+)"', (TEXTS / f"{name}.js").read_text("utf-8"), re.M))
        assert told == {*get_args(Reason), "no_contact"}
