"""The pages Live and Cases in a real browser."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.browser.conftest import Opened
from tests.browser.fake_api import FakeApi
from tests.browser.watched_page import comes_to_be, is_said

pytestmark = pytest.mark.asyncio(loop_scope="session")


def a_signal(fake: FakeApi, **changes: Any) -> dict[str, Any]:
    said = {"summary_en": None, "summary_zh": None} if "summary" in changes else {}
    return {**fake.signals[0], "signal_id": "fresh", "revision": 1, **said, **changes}


LIVE = ".desk-top .state-dot.on"


async def row_count(page: Any) -> int:
    """How many lines the list has, most of which may be no elements."""
    return int(await page.locator(".desk-grid").get_attribute("aria-rowcount")) - 1


async def top_of(page: Any, signal_id: str) -> float:
    """Where on the screen a line is."""
    return float((await page.locator(f'.signal[data-id="{signal_id}"]').bounding_box())["y"])


async def test_a_line_says_what_a_trader_asks_first_and_twenty_fit_on_a_laptop(fake: FakeApi, opened: Opened) -> None:
    newest = fake.signals[0] | {"valid_until": "2999-01-01T00:00:00Z", "supporting_sources": 3}
    fake.signals[0] = newest
    at = {"symbol": "ETH/USDT", "at": newest["decided_at"], "last_at": newest["decided_at"], "synthetic": False}
    fake.prices = {newest["case_id"]: {"price": 3120.25, "last": 3213.8575, "change": 0.03, **at}}
    page = (await opened("/", size={"width": 1440, "height": 900})).page
    row = page.locator(".signal").first
    await row.locator(".c-since .rise-ink").wait_for()
    cells = {one.split()[0]: text for one, text in await row.locator("> span").evaluate_all("(all) => all.map((one) => [one.className, one.innerText])")}  # fmt: skip
    for name, said in {"c-asset": newest["asset"], "c-verdict": newest["verdict"], "c-action": newest["action"], "c-sources": "3", "c-price": "3,120", "c-since": "+3.0 %"}.items():  # fmt: skip
        assert cells[name] == said, name
    assert f"{newest['preliminary_confidence']:.2f} → {newest['confidence']:.2f}" in cells["c-confidence"]
    assert newest["event_type"] in cells["c-what"] and (newest["summary_en"] or newest["summary"]) in cells["c-what"]
    assert cells["c-expires"].endswith(" d")
    assert await row.locator(".tag").count() == 0, "that it is offline is said once, by the strip"
    assert "OFFLINE" in await page.locator("#strip").inner_text()
    bottom = await page.evaluate("document.querySelector('.desk-scroller').getBoundingClientRect().bottom")
    twentieth = await page.locator(".signal").nth(19).bounding_box()
    assert twentieth["y"] + twentieth["height"] <= bottom <= 900
    assert await row_count(page) == len(fake.signals)
    assert await page.locator(".signal .c-since").nth(1).inner_text() == "–"


async def test_a_retraction_takes_the_place_of_the_signal_that_it_withdraws(fake: FakeApi, opened: Opened) -> None:
    page = (await opened("/")).page
    await page.locator(LIVE).wait_for()
    old = fake.signals[3]
    await fake.publish(
        {**old, "revision": old["revision"] + 1, "stage": "retracted", "verdict": "refuted", "confidence": 0.0}
    )
    await page.locator(f'.signal.gone[data-id="{old["signal_id"]}"]').wait_for()
    assert await row_count(page) == len(fake.signals) - 1


async def test_a_filtered_list_is_kept_true_by_revisions_and_ended_cases(fake: FakeApi, opened: Opened) -> None:
    asset = fake.signals[0]["asset"]
    told = {"case_id": "c1", "status": "open", "step": "search", "phase": "planned", "text": "Round 1", "news": "A rumour"}  # fmt: skip
    page = (await opened(f"/?asset={asset}&min_confidence=0.3")).page
    await page.locator(LIVE).wait_for()
    assert any("GET /api/v1/cases?" in a and "state=open" in a and f"asset={asset}" in a for a in fake.asked)
    shown = [one for one in fake.signals if one["asset"] == asset and one["confidence"] >= 0.3]
    await page.locator(".signal").first.focus()
    await fake.tell("signal", {**shown[0], "revision": 2, "stage": "superseded", "summary_en": "Put right"})
    await page.locator(".signal:focus", has_text="Put right").wait_for()
    other = next(one for one in fake.signals if one["asset"] != asset)
    await fake.tell("signal", {**other, "revision": 7, "stage": "retracted"})
    await fake.tell(
        "signal", {**shown[0], "revision": 3, "stage": "retracted", "verdict": "refuted", "confidence": 0.0}
    )
    said = f"{asset} was revised (retracted, refuted, confidence 0.00). It no longer matches the filters"
    await page.locator(".desk .notice", has_text=said).wait_for()
    await is_said(page, said)
    assert await row_count(page) == len(shown) - 1
    await page.locator(".vitals button").click()
    await fake.tell("case", told)
    await page.locator(".open-cases li", has_text="A rumour").wait_for()
    await fake.tell("case", {**told, "status": "signal", "phase": "ended"})
    await page.get_by_text("No case is open.").wait_for()


async def test_of_ten_thousand_signals_those_in_sight_are_elements_and_pages_come_as_one_scrolls(
    fake: FakeApi, opened: Opened
) -> None:
    some = [{**one, "evidence": [], "adjustments": [], "prompt_versions": []} for one in fake.signals]
    fake.signals = [{**some[n % len(some)], "signal_id": f"old-{n}"} for n in range(10_000)]
    page = (await opened("/")).page
    await page.locator(LIVE).wait_for()
    rows = page.locator(".signal")
    scroll = """async () => {
      const [scroller, canvas] = ['.desk-scroller', '.desk-canvas'].map((one) => document.querySelector(one));
      let most = 0;
      for (let high = 0; !document.querySelector('[data-id="old-9999"]');) {
        if (canvas.offsetHeight > high) scroller.scrollTop = high = canvas.offsetHeight;
        await new Promise(requestAnimationFrame);
        most = Math.max(most, document.querySelectorAll('.signal').length);
      }
      return most;
    }"""
    assert await page.evaluate(scroll) < 80, "lines out of sight are no elements"
    assert await row_count(page) == 10_000
    assert sum("GET /api/v1/signals?" in one for one in fake.asked) <= 55, "100, and then 200 at a time"
    await fake.publish(a_signal(fake, signal_id="one-more"))
    await page.get_by_role("button", name="1 new signal").wait_for()
    assert await page.locator('[data-id="old-9999"]').is_visible(), "what is read stays where it is"
    fake.signals = [{**some[0], "signal_id": f"new-{n}"} for n in range(200)] + fake.signals
    await fake.tell("gap", {})
    await page.locator('.signal[data-id="new-0"]').wait_for()
    assert await page.locator('.signal[data-id^="old-"]').count() == 0, "a list with a hole is begun anew"
    await rows.first.wait_for()


VERDICTS = ("confirmed", "likely", "unconfirmed", "stale", "disputed", "refuted", "unchecked")


async def test_every_verdict_has_its_word_and_its_sign_and_can_be_filtered_by(fake: FakeApi, opened: Opened) -> None:
    fake.signals = [
        a_signal(fake, signal_id=verdict, verdict=verdict, stage="final", unchecked_reason=None) for verdict in VERDICTS
    ]
    fake.signals[-1] |= {"unchecked_reason": "search_failed:timeout", "action": "observe", "direction": "long"}
    fake.signals.append(a_signal(fake, signal_id="old", verdict=None, stage="retracted", supporting_sources=None))
    page = (await opened("/")).page
    marks = page.locator(".signal .mark")
    await comes_to_be(marks, len(fake.signals))
    assert await marks.all_inner_texts() == [*VERDICTS, "none"]
    assert await marks.nth(6).get_attribute("title") == "unchecked (the search failed: timeout)"
    signs = await marks.locator("svg").evaluate_all("(all) => all.map((one) => one.innerHTML)")
    assert len(set(signs)) == len(signs) == len(fake.signals), "no verdict is told by its colour alone"
    assert await page.locator(".c-action").nth(7).inner_text() == "leans long"
    assert await page.locator(".signal").last.locator(".c-sources").inner_text() == "–", "not 0, which would be a count"
    await page.select_option("select[name=verdict]", "refuted")
    await page.wait_for_url("**/?verdict=refuted")
    await comes_to_be(page.locator(".signal"), 1)
    await page.locator(LIVE).wait_for()
    assert all(any(f"GET /api/v1/{path}?" in one and "verdict=refuted" in one for one in fake.asked) for path in ("signals", "stream"))  # fmt: skip
    await fake.tell("signal", {**fake.signals[0], "signal_id": "other"})
    await fake.tell("signal", {**fake.signals[5], "signal_id": "fits"})
    await page.locator('.signal[data-id="fits"]').wait_for()
    await fake.tell("signal", {**fake.signals[5], "revision": 2, "verdict": "disputed"})
    await comes_to_be(page.locator(".signal"), 1)


@pytest.mark.parametrize(
    ("locale", "summary"), [("zh-CN", "中文摘要"), ("en-GB", "English summary"), ("de-DE", "English summary")]
)
async def test_a_summary_is_in_the_readers_language_where_there_is_one(
    fake: FakeApi, opened: Opened, locale: str, summary: str
) -> None:
    fake.signals[0] |= {"summary": "as the news", "summary_zh": "中文摘要", "summary_en": "English summary"}
    fake.signals[1] |= {"summary": "as the news", "summary_zh": None, "summary_en": None}
    page = (await opened("/", locale=locale)).page
    said = page.locator(".signal .c-what bdi")
    await said.nth(1).wait_for()
    assert (await said.all_inner_texts())[:2] == [summary, "as the news"]


async def test_what_expires_while_one_looks_says_so(fake: FakeApi, opened: Opened) -> None:
    now = datetime.now(UTC)
    fake.signals[0] |= {"decided_at": now.isoformat(), "valid_until": (now + timedelta(hours=2)).isoformat()}
    page = (await opened("/")).page
    await page.clock.install()
    await page.reload()
    row = page.locator(".signal").first
    await row.wait_for()
    assert f"{now:%Y-%m-%d %H:%M:%S} UTC" in await row.locator(".c-time time").get_attribute("title")
    assert await row.locator(".c-expires").inner_text() == "1 h"
    await page.clock.fast_forward("03:00:00")
    await row.locator(".c-expires", has_text="expired").wait_for()


async def test_filters_stand_in_the_address_and_in_what_is_asked_for(fake: FakeApi, opened: Opened) -> None:
    page = (await opened("/?asset=ETH&action=sell")).page
    await page.locator(".signal").first.wait_for()
    assert set(await page.locator(".signal .asset").all_inner_texts()) == {"ETH"}
    await page.fill("input[name=min_sources]", "2")
    await page.fill("input[name=source]", "history")
    await page.keyboard.press("Tab")
    await page.wait_for_url("**/?asset=ETH&action=sell&min_sources=2&source=history")
    await page.locator(LIVE).wait_for()
    for path in ("signals", "stream"):
        asked = next(one for one in reversed(fake.asked) if f"/api/v1/{path}?" in one)
        assert all(one in asked for one in ("asset=ETH", "action=sell", "min_sources=2", "source=history"))
    await page.fill("input[name=asset]", "nothing")
    await page.keyboard.press("Tab")
    await page.get_by_text("No signal matches these filters.").wait_for()
    await page.get_by_role("link", name="Clear filters").click()
    await page.locator(".signal").first.wait_for()


async def test_a_lost_connection_is_shown_and_taken_up_where_it_ended(fake: FakeApi, opened: Opened) -> None:
    page = (await opened("/")).page
    await page.locator(LIVE).wait_for()
    await fake.publish(a_signal(fake, signal_id="before"))
    await page.locator('.signal[data-id="before"]').wait_for()
    await fake.stop()
    await page.locator(".desk-top .state-dot.lost").wait_for()
    await fake.publish(a_signal(fake, signal_id="meanwhile"))
    await fake.start()
    await page.locator('.signal[data-id="meanwhile"]').wait_for()
    await page.locator(LIVE).wait_for()
    assert await page.locator('.signal[data-id="before"]').count() == 1
    # Elsewhere, too: the side says no more than is so, and what could not be read is read when the server is back.
    await fake.stop()
    await page.evaluate("dispatchEvent(new Event('online'))")  # asks for the status now
    await page.locator("#link-state .lost", has_text="Cannot reach the server").wait_for()
    await page.get_by_role("link", name="Cases").click()
    await page.locator("main").get_by_role("button", name="Try again").wait_for()
    await fake.start()
    await page.evaluate("dispatchEvent(new Event('online'))")
    await page.locator(".case-row").first.wait_for()
    assert await page.locator("main [role=alert]").count() == 0


async def test_what_comes_while_one_reads_moves_nothing_and_waits_above(fake: FakeApi, opened: Opened) -> None:
    page = (await opened("/")).page
    await page.locator(LIVE).wait_for()
    chosen = fake.signals[4]["signal_id"]
    await page.locator(f'[data-id="{chosen}"]').click()
    before = await top_of(page, chosen)
    await fake.publish(a_signal(fake))
    button = page.get_by_role("button", name="1 new signal")
    await button.wait_for()
    assert await top_of(page, chosen) == before
    await button.click()
    assert await page.evaluate("document.activeElement.dataset.id") == "fresh"
    assert await page.evaluate("document.querySelector('.desk-scroller').scrollTop") == 0
    assert not await button.is_visible()


async def test_a_line_is_chosen_by_keys_and_its_evidence_stands_beside_it(fake: FakeApi, opened: Opened) -> None:
    at = next(n for n, one in enumerate(fake.signals) if n > 2 and any(e["quote"] for e in one["evidence"]))
    case = fake.signals[at]["case_id"]
    page = (await opened("/")).page
    await page.locator(".signal").first.wait_for()
    await page.keyboard.press("j")
    await page.keyboard.press("ArrowDown")
    for _ in range(at - 1):
        await page.keyboard.press("j")
    beside = page.get_by_role("complementary", name="Selected signal")
    one = fake.signals[at]
    await beside.get_by_role("heading", name=one["summary_en"] or one["summary"]).wait_for()
    assert await page.evaluate("document.activeElement.dataset.id") == fake.signals[at]["signal_id"]
    for one in ("aria-selected='true'", "tabindex='0'"):
        assert await page.locator(f".signal[{one}]").count() == 1, "the chosen one alone, and Tab reaches it"
    quote = next(e["quote"] for e in fake.signals[at]["evidence"] if e["quote"])
    assert quote in await beside.inner_text()
    assert await beside.locator(".evidence > li").count() == len(fake.signals[at]["evidence"])
    await page.keyboard.press("k")
    await page.keyboard.press("j")
    await page.keyboard.press("Enter")
    await page.keyboard.press("Enter")
    await page.wait_for_url(f"**/case/{case}")
    await page.go_back()
    await page.locator(".signal").first.click()
    await page.keyboard.press("Escape")
    await beside.wait_for(state="hidden")
    assert await page.evaluate("document.activeElement.dataset.id") == fake.signals[0]["signal_id"]


async def test_what_is_muted_or_acknowledged_stays_so_in_this_browser_and_is_undone_plainly(
    fake: FakeApi, opened: Opened
) -> None:
    page = (await opened("/")).page
    await page.locator(LIVE).wait_for()
    first = fake.signals[0]
    await page.locator(".signal").first.click()
    await page.keyboard.press("a")
    await page.locator(".signal.seen").wait_for()
    await page.get_by_role("button", name=f"Mute {first['asset']}", exact=True).click()
    left = [one for one in fake.signals if one["asset"] != first["asset"]]
    menu = page.locator(".aside-menu summary")
    await menu.filter(has_text="1 muted, 1 acknowledged").wait_for()
    assert await row_count(page) == len(left)
    await page.reload()
    await page.locator(LIVE).wait_for()
    assert await row_count(page) == len(left)
    await fake.publish(a_signal(fake, signal_id="muted", asset=first["asset"]))
    await fake.publish(a_signal(fake, signal_id="other", asset="DOGE"))
    await page.locator('.signal[data-id="other"]').wait_for()
    assert await page.locator('.signal[data-id="muted"]').count() == 0
    await menu.click()
    await page.get_by_role("button", name=f"Show again: {first['asset']}").click()
    await page.locator('.signal[data-id="muted"]').wait_for()
    await page.get_by_role("button", name="Undo", exact=True).click()
    await menu.wait_for(state="hidden")
    assert await page.locator(".signal.seen").count() == 0


async def test_a_notification_is_asked_for_on_a_click_alone_and_a_blocked_one_is_said(
    fake: FakeApi, opened: Opened
) -> None:
    watched = await opened("/?asset=DOGE")
    page = watched.page
    await page.add_init_script("""
      window.raised = []; window.asked = 0;
      window.Notification = class extends EventTarget {
        static permission = sessionStorage.permission ?? 'default';
        static async requestPermission() { window.asked += 1; return (Notification.permission = sessionStorage.answer); }
        constructor(title, { body }) { super(); window.raised.push(`${title}: ${body}`); }
      };
    """)
    await page.evaluate("sessionStorage.answer = 'denied'")
    await page.reload()
    await page.locator(LIVE).wait_for()
    notify = page.get_by_role("button", name="Notify")
    assert await page.evaluate("window.asked") == 0
    await notify.click()
    await page.get_by_text("The browser blocks notifications from this address").wait_for()
    assert await notify.get_attribute("aria-pressed") == "false"
    await page.evaluate("sessionStorage.answer = 'granted'")
    await page.reload()
    await page.locator(LIVE).wait_for()
    await notify.click()
    await page.locator('button[aria-pressed="true"]', has_text="Notify").wait_for()
    await page.get_by_role("button", name="Sound").click()
    await page.locator('button[aria-pressed="true"]', has_text="Sound").wait_for()
    await fake.publish(a_signal(fake, signal_id="no", asset="ETH"))
    await fake.publish(a_signal(fake, signal_id="yes", asset="DOGE", action="buy", summary="Listed"))
    look = "() => new Promise((done) => { const look = () => raised.length ? done(raised) : setTimeout(look, 20); look(); })"
    [raised] = await page.evaluate(look)
    assert raised.startswith("DOGE buy ") and raised.endswith(": Listed")


async def test_the_line_on_top_says_what_is_known_and_unknown_for_the_rest(fake: FakeApi, opened: Opened) -> None:
    page = (await opened("/")).page
    line = page.locator(".vitals")
    await line.wait_for()
    known = (await line.inner_text()).replace("\n", " ")
    assert known == "News, last hour 128 Backlog 0 Open cases 2 Budget left 31.42 USD · 38 calls Providers tavily failing: timeout"  # fmt: skip
    fake.status |= {**dict.fromkeys(("news_last_hour", "news_waiting", "open_cases", "budget")), "providers": []}
    await page.reload()
    await line.wait_for()
    assert (await line.inner_text()).count("unknown") == 5


async def test_an_empty_desk_loads_the_sample_on_one_click_and_says_the_commands(fake: FakeApi, opened: Opened) -> None:
    fake.signals, fake.documents = [], {}
    page = (await opened("/")).page
    await page.get_by_text("No signals yet").wait_for()
    assert "./run --data-dir .data publish -" in await page.locator(".desk .state").inner_text()
    await page.get_by_role("link", name="Cases").click()
    await page.get_by_text("No cases yet.").wait_for()
    await page.go_back()
    await page.get_by_role("button", name="Load the sample").click()
    await page.locator(".signal").nth(3).wait_for()
    fake.status["mode"], fake.signals = "live", []
    await page.reload()
    await page.get_by_role("link", name="Publish a news item").wait_for()
    assert await page.get_by_role("button", name="Load the sample").count() == 0, "judging it would cost money"


async def test_a_news_item_is_published_by_the_form(fake: FakeApi, opened: Opened) -> None:
    page = (await opened("/")).page
    await page.get_by_role("link", name="Publish", exact=True).click()
    fake.refusals["/api/v1/news"] = (400, {"error": "the text is empty", "do": "write what was reported"})
    await page.fill("textarea", "Binance lists ZK")
    await page.fill("input[name=published_at]", "2026-11-23T14:00")
    await page.locator("input[name=url]").press("Enter")
    await page.get_by_role("alert").get_by_text("write what was reported").wait_for()
    fake.refusals.clear()
    await page.get_by_role("button", name="Publish", exact=True).click()
    await page.get_by_text("Published to the log.").wait_for()
    assert fake.published == [{"text": "Binance lists ZK", "published_at": "2026-11-23T14:00:00.000Z"}]
    case = next(iter(fake.documents))
    await page.get_by_role("link", name="Follow the case").click()
    await page.wait_for_url(f"**/case/{case}")


async def test_other_names_of_a_case_lead_to_it_and_a_wrong_address_is_a_page(fake: FakeApi, opened: Opened) -> None:
    case = next(iter(fake.documents))
    fake.names["wire/1"] = case
    page = (await opened("/case/wire/1")).page
    await page.wait_for_url(f"**/case/{case}")
    await page.locator(".timeline").wait_for()
    page = (await opened("/constructor", locale="zh-CN")).page
    await page.get_by_role("heading", name="页面不存在").wait_for()
    await page.locator("main").get_by_role("link", name="实时").click()
    await page.locator(".signal").first.wait_for()


async def test_a_refusal_says_what_to_do_and_tries_again_when_asked(fake: FakeApi, opened: Opened) -> None:
    fake.refusals["/api/v1/signals"] = (503, {"error": "Kafka is not responding", "do": "start `newsproof up`"})
    page = (await opened("/")).page
    alert = page.locator("main").get_by_role("alert")
    await alert.wait_for()
    assert await alert.locator("p").all_inner_texts() == [
        "Kafka is not responding",
        "start newsproof up",
        "Try again",
    ]
    assert await alert.locator("code").all_inner_texts() == ["newsproof up"], "a command is no sentence in backticks"
    fake.refusals.clear()
    await alert.get_by_role("button").click()
    await page.locator(".signal").first.wait_for()


async def test_the_offline_label_stands_on_every_page(fake: FakeApi, opened: Opened) -> None:
    page = (await opened("/")).page
    for name in ("Cases", "Analytics", "Research", "Backtests", "Live"):
        await page.get_by_role("navigation", name="Pages").get_by_role("link", name=name).click()
        await page.locator("main h1").wait_for()
        await page.mouse.wheel(0, 4000)
        assert await page.locator("#strip").is_visible()
        box = await page.locator("#strip").bounding_box()
        assert box["y"] >= 0
        assert "OFFLINE PROVIDERS" in await page.locator("#strip").inner_text()


async def test_what_is_away_is_named_and_a_token_is_asked_for_by_a_link(fake: FakeApi, opened: Opened) -> None:
    fake.status |= {"kafka": "away", "workers_seen": False}
    page = (await opened("/")).page
    await page.get_by_text("Kafka is not responding. What you see may be out of date").wait_for()
    assert "No worker found" in await page.locator("#trouble").inner_text()
    fake.refusals["/api/v1/"] = (401, {"error": "this server needs its token", "do": "log in at /login"})
    page = (await opened("/cases?q=x")).page
    link = page.get_by_role("link", name="Log in")
    assert await link.get_attribute("href") == "/login?next=%2Fcases%3Fq%3Dx"


async def test_cases_are_searched_and_paged(fake: FakeApi, opened: Opened) -> None:
    page = (await opened("/cases")).page
    await comes_to_be(page.locator(".case-row"), 25)
    assert await page.locator(".case-row .mark").count() > 20, "each with its verdict"
    await page.get_by_role("button", name="Show older").click()
    await comes_to_be(page.locator(".case-row"), len(fake.documents))
    await page.fill("input[name=q]", "Wormhole")
    await page.keyboard.press("Enter")
    await page.wait_for_url("**/cases?q=Wormhole")
    await comes_to_be(page.locator(".case-row"), 1)
