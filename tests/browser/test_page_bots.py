"""The page of bots: what is open, not confirmed and refused is said exactly, and a halt is chosen before it is sent."""

from __future__ import annotations

import pytest

from streams.bots.book import Book
from tests.browser.conftest import Opened
from tests.browser.fake_api import FakeApi
from tests.browser.watched_page import comes_to_be

pytestmark = pytest.mark.asyncio(loop_scope="session")
TOLD = {
    "en-GB": (
        ("live", "not responding", "no entries, no exits", "exit not confirmed since 12 min ago", "3 attempts", "Last result: refused.", "freqtrade: market is closed"),
        ("desk", "running", "1 closed trade: +5.91 % of one stake, after fees", "ETH/USDT", "2,310.50", "open", "skipped", "confidence 0.61 is below 0.70",
         "2,402.25", "+3.87 %", "no price known", "3 positions are open; the limit is 3", "Opposite signals", "Not entered yet", "Open positions: a price is not known"),
        ("group", "no process known here", "message", "@everyone <b>sell</b> [U+202E]now"),
        ("hook", "BOTS_FILE does not define this bot here", "may be open", "never sent again", "unknown"),
    ),
    "zh-CN": (
        ("live", "无响应", "不开仓、不平仓", "平仓未确认，始于 12分钟前", "已尝试 3 次", "最近结果：被拒绝。"),
        ("desk", "运行中", "已平仓 1 笔", "+5.91 %", "持有中", "跳过", "“confidence 0.61 is below 0.70”", "空仓", "暂无价格", "尚未开仓", "信号方向相反"),
        ("group", "此处没有已知进程"),
        ("hook", "没有定义这个机器人", "可能持有", "不会重发"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("locale", TOLD)
async def test_what_bots_hold_is_said_exactly_wide_and_on_a_phone(fake: FakeApi, opened: Opened, locale: str) -> None:
    watched = await opened("/bots", locale=locale)
    cards = watched.page.locator(".bot")
    for size in ({"width": 1440, "height": 900}, {"width": 390, "height": 844}):
        await watched.page.set_viewport_size(size)
        await comes_to_be(cards, 4)
        for number, told in enumerate(TOLD[locale]):
            text = await cards.nth(number).inner_text()
            assert [words for words in told if words not in text] == [], text
        wide, there = await watched.page.evaluate("() => [document.documentElement.scrollWidth, innerWidth]")
        assert wide <= there, "the page scrolls sideways"
    assert (watched.elsewhere, watched.dialogs, watched.errors) == ([], [], [])


async def test_a_halt_is_chosen_sent_said_and_ended_and_what_fails_is_said(fake: FakeApi, opened: Opened) -> None:
    page = (await opened("/bots")).page
    await page.get_by_role("button", name="Halt live").click()
    await page.keyboard.press("Enter")  # the focus is on Cancel
    assert fake.bots.commands == []
    await page.get_by_role("button", name="Halt live").click()
    await page.get_by_role("button", name="Halt and close positions").click()
    await page.get_by_text("Halted by the web service. No new entries; the halt also closes open positions.").wait_for()
    await page.get_by_role("button", name="Halt all bots").click()
    await page.get_by_role("button", name="Halt, keep positions").click()
    await page.get_by_text("All bots are halted by the web service.").wait_for()
    assert await page.locator(".bot .tag.bad", has_text="halted").count() == 4
    await page.get_by_role("button", name="Resume live").click()
    await comes_to_be(page.get_by_role("button", name="Resume live"), 0)
    assert await page.locator(".bot .tag.bad", has_text="halted").count() == 4, "the halt of all remains"
    await page.get_by_role("button", name="Resume all bots").click()
    await comes_to_be(page.locator(".bot .tag.bad", has_text="halted"), 0)
    await page.get_by_role("button", name="Halt group").click()  # it has no positions to close
    await comes_to_be(page.get_by_role("button", name="Halt and close positions"), 0)
    await page.get_by_role("button", name="Halt orders").click()
    await page.get_by_text("No orders; retractions and other messages continue.").wait_for()
    assert fake.bots.commands == [
        {"halt": {"bot": "live", "exit": True}}, {"halt": {"bot": None, "exit": False}},
        {"resume": {"bot": "live"}}, {"resume": {"bot": None}}, {"halt": {"bot": "group", "exit": False}},
    ]  # fmt: skip
    fake.refusals["/api/v1/bots"] = (503, {"error": "Kafka is not responding", "do": "wait"})
    await page.evaluate("() => document.dispatchEvent(new Event('visibilitychange'))")
    await page.get_by_role("alert").get_by_text("The data below is from").wait_for()
    assert await page.locator(".bot").count() == 4
    fake.refusals.clear()
    fake.bots.defined, fake.bots.book = {}, Book()
    await page.evaluate("() => document.dispatchEvent(new Event('visibilitychange'))")
    await page.get_by_text("as docs/bots.md describes").wait_for()
    await page.locator("code", has_text="./run --data-dir .data bots run NAME").wait_for()
