"""Investigations in a real browser: asked for, followed through a reload, stopped, read; watches set, paused and ended."""

from __future__ import annotations

import pytest

from tests.browser.conftest import Opened
from tests.browser.fake_api import FakeApi
from tests.browser.fake_investigations import FIRST, SECOND
from tests.browser.watched_page import comes_to_be

pytestmark = pytest.mark.asyncio(loop_scope="session")

PHONE = {"width": 390, "height": 844}
SUBJECT = "Monitor DeepSeek's latest developments"


async def test_one_is_followed_step_by_step_through_a_reload_to_its_brief_and_asked_for_again(
    fake: FakeApi, opened: Opened
) -> None:
    fake.investigations.records_at_once = 2
    page = (await opened("/investigations")).page
    await page.get_by_text("No investigations yet.").wait_for()
    await page.get_by_role("button", name=SUBJECT).click()
    await page.locator(".limits summary").click()
    await page.fill("[name=searches]", "4")
    await page.get_by_role("button", name="Investigate").click()
    await page.wait_for_url(f"**/investigations/{FIRST}")
    await page.locator(".thought").wait_for()
    [body] = fake.investigations.bodies
    assert (body["subject"], body["limits"]) == (SUBJECT, {"searches": 4}) and body["key"]
    assert await page.locator(".turn-state").inner_text() == "Searching"

    await page.reload()
    await comes_to_be(page.locator(".thought"), 1)
    one = fake.investigations.started[FIRST]
    await one.go_on()
    await comes_to_be(page.locator(".thought"), 2)
    await page.locator(".thought summary").nth(1).click()
    told = await page.locator(".thought").nth(1).inner_text()
    for words in (
        "Searching",
        "5 pages are usable",
        "Because of the frame",
        "DeepSeek ban",
        "tavily",
        "0.0080",
        "timeout",
        "354 tokens",
    ):
        assert words in told, words
    await one.finish()
    brief = page.locator(".brief")
    await brief.wait_for()
    assert [await h.inner_text() for h in await brief.locator("h2").all()] == [
        "Established", "Disputed", "New since 27 Jan 2026", "Not found", "Not done", "References",
    ]  # fmt: skip
    assert "likely → refuted Norland bans" in " ".join((await brief.locator(".new-since").inner_text()).split())
    assert "21.4 s · 0.0125 USD · 17,586 tokens" in await page.locator(".turn-state").inner_text()
    assert await page.locator(".process").get_attribute("open") is None, "kept, folded under the brief"
    assert not one.stops

    await brief.get_by_role("button", name="Source 2").first.focus()
    tip = page.get_by_role("tooltip")
    await tip.wait_for()
    assert "“The order is for government devices”" in await tip.inner_text()
    await page.keyboard.press("Enter")
    assert await page.evaluate("document.activeElement.id") == f"page-{FIRST}-2"

    await page.get_by_role("button", name="Investigate again").click()
    await page.wait_for_url(f"**/investigations/{SECOND}")
    assert fake.investigations.bodies[-1]["previous"] == FIRST
    await page.get_by_role("button", name="Stop", exact=True).click()
    await page.get_by_text("Stopped without a brief").wait_for()
    assert fake.investigations.started[SECOND].stops == ["stop"]


async def test_a_subject_is_watched_paused_and_let_go_and_what_fails_is_said(fake: FakeApi, opened: Opened) -> None:
    page = (await opened("/investigations?subject=Tether&every=6", locale="zh-CN")).page
    await page.get_by_role("button", name="开始关注").click()
    row = page.locator(".watches tbody tr")
    await row.wait_for()
    assert "每 6 小时" in await row.inner_text() and "2 处变化" in await row.inner_text()
    await page.set_viewport_size(PHONE)
    wide, there = await row.evaluate(
        "(one) => [one.closest('.scroll').scrollWidth, one.closest('.scroll').clientWidth]"
    )
    assert wide <= there, "on a phone a watch is a block, every value behind its name"
    await row.get_by_role("button", name="暂停").click()
    await row.get_by_role("button", name="恢复").wait_for()
    await row.get_by_role("button", name="结束").click()
    await comes_to_be(row.get_by_role("button"), 0)
    assert [one["state"] for one in fake.investigations.watches] == ["ended"]

    fake.refusals["/api/v1/watches"] = (400, {"error": "it is watched already", "do": "end the other one"})
    await page.fill("#subject", "Tether")
    await page.get_by_role("button", name="开始关注").click()
    assert "it is watched already" in await page.locator(".inquiry-form [role=alert]").inner_text()
    missing = (await opened("/investigations/none")).page
    assert "there is no" in await missing.locator("[role=alert]").first.inner_text()


async def test_the_chat_leads_to_an_investigation_of_its_question(fake: FakeApi, opened: Opened) -> None:
    page = (await opened("/research")).page
    await page.fill("#question", "What happens at DeepSeek?")
    await page.keyboard.press("Enter")
    await page.locator(".turn-result").get_by_role("link", name="Investigate").click()
    assert await page.locator("#subject").input_value() == "What happens at DeepSeek?"
