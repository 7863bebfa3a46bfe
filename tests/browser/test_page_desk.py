"""The desk as a trader uses it: times, order, search, watchlist, views, the chart, colours; with 500 signals, at three widths."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.browser import recorded
from tests.browser.conftest import Opened
from tests.browser.fake_api import FakeApi
from tests.browser.watched_page import comes_to_be

pytestmark = pytest.mark.asyncio(loop_scope="session")

LAPTOP, TABLET, PHONE = ({"width": w, "height": h} for w, h in ((1440, 900), (1024, 768), (390, 844)))
COLLISIONS = """() => {
  const found = [];
  const box = (one) => one.getBoundingClientRect();
  const groups = [...document.querySelectorAll('.signal, .desk-head-row, .page-live, .desk-tools, .desk-tools > .row, .desk-filters, .vitals, .side, .nav a')].map((one) => [...one.children]);
  for (const all of groups) {
    const seen = all.filter((one) => box(one).width > 0 && box(one).height > 0);
    seen.forEach((one, at) => seen.slice(at + 1).forEach((other) => {
      const [a, b] = [box(one), box(other)];
      if (Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1 && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 1)
        found.push(`${one.className} / ${other.className}: ${one.textContent.slice(0, 20)}`);
    }));
  }
  for (const one of document.querySelectorAll('.desk-filters span, .as-head, .c-time, .c-news, .c-expires'))
    if (one.scrollWidth > one.clientWidth + 1 && one.clientWidth > 0 && getComputedStyle(one).display !== 'inline') found.push(`cut: ${one.textContent}`);
  for (const one of document.querySelectorAll('.signal .c-confidence'))
    if (box(one.firstElementChild.lastElementChild).right > box(one).right + 1) found.push('a confidence is cut');
  if (document.documentElement.scrollWidth > innerWidth) found.push('the page scrolls sideways');
  return found;
}"""


def many(fake: FakeApi, count: int = 500) -> None:
    """Give it that many signals, the newest of this moment, one an hour, each of its own confidence."""
    now = datetime.now(UTC)
    some = [{**one, "prompt_versions": [], "adjustments": []} for one in fake.signals]
    fake.signals = [
        {
            **some[n % len(some)],
            "signal_id": f"s{n}",
            "decided_at": (now - timedelta(hours=n)).isoformat(),
            "published_at": (now - timedelta(hours=n, minutes=5)).isoformat(),
            "confidence": n * 7 % count / count,
        }
        for n in range(count)
    ]


async def first_ids(page: Any, many: int = 3) -> list[str]:
    """The lines on top, by their place on the screen."""
    return list(await page.evaluate(f"[...document.querySelectorAll('.signal')].sort((a, b) => a.ariaRowIndex - b.ariaRowIndex).slice(0, {many}).map((one) => one.dataset.id)"))  # fmt: skip


async def test_at_every_width_in_both_languages_nothing_collides_and_axe_finds_nothing(
    fake: FakeApi, opened: Opened
) -> None:
    many(fake)
    fake.signals[2]["published_at"] = "2021-11-25T08:00:00Z"  # the longest of dates
    fake.prices, fake.market = recorded.prices(), recorded.market()
    watched = await opened("/", size=LAPTOP, axe=True)
    page = watched.page
    await page.locator(".c-since .rise-ink").first.wait_for(state="attached")
    for scheme in ("light", "dark"):
        await page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        for size in (LAPTOP, TABLET, PHONE):
            await page.set_viewport_size(size)
            await page.locator(".signal").nth(3).click()
            await page.locator(".price-canvas canvas").first.wait_for()
            assert await page.evaluate(COLLISIONS) == [], f"{size['width']} px, {scheme}"
            assert size == TABLET or await watched.violations() == [], f"{size['width']} px, {scheme}"
            await page.keyboard.press("Escape")
            assert await page.evaluate(COLLISIONS) == [], f"{size['width']} px, {scheme}"
            wide = await page.locator(".signal").first.evaluate("(one) => [...one.children].map((cell) => [cell.getBoundingClientRect().width, cell.className]).sort((a, b) => b[0] - a[0])[0][1]")  # fmt: skip
            assert wide == "c-what", "the headline has most of the line"
        if scheme == "light":
            await page.get_by_role("button", name="切换到中文").click()
            await page.locator(".c-since .rise-ink").first.wait_for(state="attached")
    fake.prices = {}
    await page.reload()
    await page.locator(".signal").first.wait_for()
    await page.set_viewport_size(LAPTOP)
    assert not await page.locator(".desk-head-row .c-price").is_visible(), "no signal has a price: no columns for it"
    # Lines that come into an empty list are as far apart as they are high.
    some, fake.signals = fake.signals[:2], []
    await page.set_viewport_size(PHONE)
    await page.reload()
    await page.get_by_role("button", name="载入样例").wait_for()
    await page.locator(".desk-top .state-dot.on").wait_for()
    for one in some:
        await fake.publish(one)
    await page.locator(".signal").nth(1).wait_for()
    upper, lower = [await page.locator(".signal").nth(n).bounding_box() for n in (0, 1)]
    assert upper["y"] + upper["height"] <= lower["y"] + 1
    assert (watched.errors, watched.elsewhere) == ([], [])


async def test_a_list_is_sorted_searched_watched_and_kept_as_a_view(fake: FakeApi, opened: Opened) -> None:
    many(fake)
    fake.signals[1]["published_at"] = "2021-03-05T08:00:00Z"
    page = (await opened("/", size=LAPTOP)).page
    row = page.locator('.signal[data-id="s1"]')
    await row.wait_for()
    clock = f"{datetime.fromisoformat(fake.signals[1]['decided_at']):%H:%M}"
    assert [await row.locator(f".c-{name}").inner_text() for name in ("time", "news")] == [clock, "5 Mar 21"]
    head = page.locator(".desk-head-row")
    assert await head.locator("[aria-sort=descending]").inner_text() == "Time"
    assert sum("GET /api/v1/signals?" in one for one in fake.asked) == 1
    # Another order reads on until all is there, and says so; who comes by the address sees the same.
    await head.get_by_role("button", name="Confidence").click()
    await page.get_by_text("Sorted by “Confidence”. Signals in this list: all 500.").wait_for()
    first, second, *_, last = sorted(fake.signals, key=lambda one: -one["confidence"])
    between = (first["confidence"] + second["confidence"]) / 2
    await fake.publish({**first, "signal_id": "between", "confidence": between})
    await page.locator('.signal[data-id="between"]').wait_for()
    assert await first_ids(page) == [first["signal_id"], "between", second["signal_id"]]
    await head.get_by_role("button", name="Confidence").click()
    await page.wait_for_url("**/?sort=confidence")
    assert (await first_ids(page))[0] == last["signal_id"]
    await page.reload()
    await page.get_by_text("Signals in this list: all 501.").wait_for()
    assert await head.locator("[aria-sort=ascending]").inner_text() == "Confidence"
    # Words are searched for by the server, in the list and in the stream alike.
    fake.signals[7] |= {"summary": "Needle in a haystack", "summary_en": "Needle in a haystack"}
    await page.keyboard.press("/")
    await page.keyboard.type("needle")
    await page.keyboard.press("Enter")
    await comes_to_be(page.locator(".signal"), 1)
    await page.locator(".desk-top .state-dot.on").wait_for()
    assert all(any(f"/api/v1/{path}?q=needle" in one for one in fake.asked) for path in ("signals", "stream"))
    # A view keeps filters and order.
    views = page.locator("summary", has_text="Views")
    await views.click()
    await page.get_by_label("Name of the view").fill("mine")
    await page.get_by_role("button", name="Save view").click()
    await page.get_by_role("searchbox").fill("")
    await page.keyboard.press("Tab")
    await page.locator(".signal").nth(5).wait_for()
    # A starred asset is on the watchlist, which is a filter of the server's, too.
    await page.locator('.signal:has(.star[aria-label="Watch ETH"]) .star').first.click()
    await page.get_by_role("button", name="★ Watchlist").click()
    await page.wait_for_url("**watch=1")
    await page.locator(".star[aria-pressed=true]").nth(2).wait_for()
    assert set(await page.locator(".signal .asset").all_inner_texts()) == {"ETH"}
    await page.reload()
    await page.locator(".signal").first.click()
    await page.keyboard.press("w")
    await page.get_by_text("Your watchlist is empty.").wait_for()
    await views.click()
    await page.get_by_role("link", name="mine").click()
    await comes_to_be(page.locator(".signal"), 1)
    assert page.url.endswith("/?sort=confidence&q=needle")


async def test_beyond_what_is_read_on_an_order_says_of_how_many_it_is(fake: FakeApi, opened: Opened) -> None:
    many(fake, 2_500)
    page = (await opened("/?sort=-confidence")).page
    await page.get_by_text("Sorted by “Confidence” among the newest 2,100 signals. Older ones are not in this list.").wait_for()  # fmt: skip
    await page.get_by_role("button", name="Read 2,000 more").click()
    await page.get_by_text("Signals in this list: all 2,500.").wait_for()


async def test_prices_around_a_signal_are_drawn_and_red_means_the_market_alone(fake: FakeApi, opened: Opened) -> None:
    many(fake, 20)
    fake.signals[0] |= {"verdict": "refuted", "action": "sell", "stage": "final"}
    watched = await opened("/", size=LAPTOP)
    page = watched.page
    await page.locator(".signal").first.click()
    beside = page.locator(".beside")
    await beside.get_by_text("No prices are imported, so there is no chart. Import them:").wait_for()
    asset = fake.signals[0]["asset"]
    await beside.get_by_text(f"outcomes import --exchange binance --symbol {asset}/USDT").wait_for()
    assert not any("vendor" in one for one in fake.asked), "the library comes when there is something to draw"
    fake.market = recorded.market()
    fake.refusals["/api/v1/prices/candles"] = (503, {"error": "ClickHouse is not responding", "do": "try again"})
    await page.get_by_role("button", name="± 7 d").click()
    await beside.get_by_role("alert").get_by_text("ClickHouse is not responding").wait_for()
    fake.refusals.clear()
    await beside.get_by_role("button", name="Try again").click()
    chart = beside.get_by_role("img", name=f"{asset}/USDT from")
    await chart.locator("canvas").first.wait_for()
    assert any(one.endswith("&days=7") for one in fake.asked)
    await beside.get_by_text("synthetic prices, not from a market").wait_for()
    await beside.get_by_text("2 signals on this chart").click()
    newest = recorded.newest_signals()[0]
    other = "sell" if newest["action"] == "buy" else "buy"
    assert f"{other} {newest['confidence']:.2f} · {newest['verdict']} · retracted" in (
        await beside.locator(".price-chart li").nth(1).inner_text()
    )
    link = beside.get_by_role("link", name="TradingView Lightweight Charts™")
    assert await link.get_attribute("href") == "https://www.tradingview.com/"
    red, green = "rgb(165, 48, 47)", "rgb(42, 116, 35)"
    colour = "(one) => getComputedStyle(one).color"
    row = page.locator(".signal").first
    shown = [await row.locator(one).evaluate(colour) for one in (".c-verdict .mark", ".c-action strong")]
    assert shown[1] == red and shown[0] not in (red, green)
    await page.get_by_role("button", name="Prices: red up, green down").click()
    assert await row.locator(".c-action strong").evaluate(colour) == green
    await page.reload()
    await row.wait_for()
    assert await row.locator(".c-action strong").evaluate(colour) == green, "kept in this browser"
    zh = (await opened(f"/case/{next(iter(fake.documents))}", locale="zh-CN")).page
    await zh.locator(".price-canvas canvas").first.wait_for()
    assert await zh.evaluate("document.documentElement.dataset.rise") == "red"
    assert (watched.errors, watched.elsewhere) == ([], [])
