"""The page of operations: what needs somebody, dead letters that are sent again by hand, what is unknown, and outages."""

from __future__ import annotations

import pytest

from tests.browser.conftest import Opened
from tests.browser.fake_api import FakeApi

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_what_is_wrong_is_said_with_what_to_do_and_dead_letters_are_requeued_by_keyboard(
    fake: FakeApi, opened: Opened
) -> None:
    watched = await opened("/operations")
    page = watched.page
    await page.locator(".problem").first.wait_for()
    said = await page.locator(".problems").inner_text()
    for words in ("A process is not responding", "More than 1,000 records", "ClickHouse accepts no rows",
                  "open for more than 15 min", "Dead letters are pending", "Less than 10 %", "doctor --live", "when the log is quiet (./run audit)"):  # fmt: skip
        assert words in said, words
    facts = await page.locator(".ops-facts").inner_text()
    assert "12,345" in facts and "67,890" in facts and "1.25 USD" in facts and "oldest: 40 min" in facts
    await page.get_by_role("button", name="Show case failed").press("Enter")
    await page.locator(".letters li").nth(49).wait_for()
    await page.get_by_role("button", name="Show older").press("Enter")
    await page.locator(".letters li").nth(60).wait_for()
    assert "[U+202E]" in await page.locator(".original").first.inner_text()
    one = page.locator(".letters li").first.get_by_role("button")
    await one.press("Enter")
    await page.get_by_text("1 requeued.").first.wait_for()
    assert await page.evaluate("() => document.activeElement.tagName") == "BUTTON"
    # Enter twice sends nothing: the focus is on "No".
    every = page.get_by_role("button", name="Requeue all 99 (case failed)")
    await every.press("Enter")
    assert await page.evaluate("() => document.activeElement.textContent") == "No"
    await page.keyboard.press("Enter")
    assert sum(one.requeued for one in fake.operations.letters) == 1
    await every.press("Enter")
    await page.get_by_role("button", name="Yes, requeue 99").press("Enter")
    await page.get_by_text("99 requeued.").first.wait_for()
    assert sum(one.requeued for one in fake.operations.letters) == 100
    await page.get_by_role("button", name="Show bad event").click()
    await page.get_by_text("written by the pipeline, cannot be requeued").first.wait_for()
    assert (watched.elsewhere, watched.dialogs, watched.errors) == ([], [], [])


async def test_what_is_well_unknown_or_cannot_be_asked_is_told_apart(fake: FakeApi, opened: Opened) -> None:
    fake.operations.well = True
    watched = await opened("/operations", locale="zh-CN")
    page = watched.page
    await page.get_by_text("目前无需处理。").wait_for()
    assert await page.locator(".problem").count() == 0 and "没有死信" in await page.locator(".ops-letters").inner_text()
    fake.operations.known = False
    await page.evaluate("() => document.dispatchEvent(new Event('visibilitychange'))")
    await page.get_by_text("就已知情况而言").wait_for()
    facts = await page.locator(".ops-facts dd").all_inner_texts()
    assert set(facts) == {"未知"}, "nothing that nobody says is shown as 0"
    fake.refusals["/api/v1/operations"] = (503, {"error": "Kafka is not responding", "do": "wait"})
    await page.evaluate("() => document.dispatchEvent(new Event('visibilitychange'))")
    await page.get_by_text("Kafka is not responding").wait_for()
    assert "以下为" in await page.locator("main").inner_text(), "old figures say of when they are"
