"""The research chat in a real browser: streamed, reloaded, stopped, and through the death of its server."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.browser.conftest import Opened
from tests.browser.fake_api import Chat, FakeApi
from tests.browser.recorded import CASE_OF_SOURCE
from tests.browser.watched_page import is_said

pytestmark = pytest.mark.asyncio(loop_scope="session")

QUESTION = "Where does Bitcoin stand?"


async def ask(page: Any, question: str = QUESTION) -> None:
    await page.fill("#question", question)
    await page.keyboard.press("Enter")


async def only_chat(fake: FakeApi, page: Any) -> Chat:
    await page.locator(".stage").first.wait_for()
    return list(fake.chats.values())[-1]


async def stages(page: Any) -> list[str]:
    found: list[str] = await page.locator(".stage-name").all_inner_texts()
    return found


async def test_an_answer_comes_step_by_step_and_the_steps_stay_with_it(fake: FakeApi, opened: Opened) -> None:
    fake.records_at_once = 1
    page = (await opened("/research")).page
    await ask(page)
    chat = await only_chat(fake, page)
    assert await stages(page) == ["Understanding the question"]
    await page.wait_for_url(f"**/research/{chat.conversation}")
    await chat.go_on()
    await page.locator(".stage-planning").wait_for()
    await chat.go_on(2)
    await page.locator(".stage-analysis").wait_for()
    assert await page.locator(".turn-state").evaluate("(e) => e.getBoundingClientRect().bottom <= innerHeight")
    assert "1 source missing" in await page.locator(".stage-data_collection").inner_text()
    await chat.go_on(2)
    await page.locator(".agent").nth(1).wait_for()
    assert await page.locator(".answer").count() == 0
    assert await page.locator(".turn-state.busy").is_visible()
    await chat.finish()
    await page.locator(".answer").wait_for()
    assert len(await stages(page)) == 5
    assert await page.locator(".turn-state").is_hidden()
    assert "no result" in await page.locator(".agent").nth(2).inner_text()
    answer = page.locator(".answer")
    assert await answer.locator("table").count() == 1
    assert await answer.locator("strong").first.inner_text() == "64,000 USD"
    await is_said(page, "The answer is ready.")
    live = await page.eval_on_selector_all("[aria-live], [role=status], [role=log], [role=alert]", "all => all.map((e) => e.closest('.turn') !== null)")  # fmt: skip
    assert not any(live), "the stream itself is no live region"


async def test_what_has_the_focus_is_not_hidden_by_the_composer_on_a_phone(fake: FakeApi, opened: Opened) -> None:
    fake.records_at_once = 5
    page = (await opened("/research", narrow=True)).page
    await ask(page)
    chat = await only_chat(fake, page)
    stops = page.locator("[data-stop]")
    await stops.nth(1).wait_for()
    tops = [(await stops.nth(n).bounding_box())["y"] for n in range(2)]
    assert tops[0] == pytest.approx(tops[1], abs=8), "both in one row"
    reached = "() => document.querySelector('.turn-state').getBoundingClientRect().bottom - document.querySelector('.composer').getBoundingClientRect().top"
    await page.locator(".agent").first.wait_for()
    assert await page.evaluate(reached) <= 0, "what happens now is in view, above the composer"
    await chat.finish()
    await page.locator(".answer").wait_for()
    covered = """() => {
      const [focus, composer] = [document.activeElement, document.querySelector('.composer')];
      return !composer.contains(focus) && focus.closest('main') && focus.getBoundingClientRect().bottom > composer.getBoundingClientRect().top ? focus.outerHTML : null;
    }"""
    await page.evaluate("() => { window.scrollTo(0, 0); document.querySelector('main h1').focus(); }")
    for _ in range(14):
        await page.keyboard.press("Tab")
        assert await page.evaluate(covered) is None
    await page.locator("#question").focus()
    await page.keyboard.press("Shift+Tab")
    assert await page.evaluate(covered) is None
    await page.locator("#question").focus()
    before = await page.evaluate("window.scrollY")
    await page.keyboard.type("Why?")
    moved = abs(await page.evaluate("window.scrollY") - before)
    assert moved < 40, "the composer is in view wherever the page stands: no jump to its place at the end"


async def test_a_citation_shows_its_source_on_hover_and_on_focus_and_esc_closes_it(
    fake: FakeApi, opened: Opened
) -> None:
    page = (await opened("/research")).page
    await ask(page)
    cite = page.get_by_role("button", name="Source 2").first
    await cite.wait_for()
    tip = page.get_by_role("tooltip")
    await cite.hover()
    await tip.wait_for()
    assert "coinbase: price and 24 h change" in await tip.inner_text()
    await page.keyboard.press("Escape")
    await tip.wait_for(state="hidden")
    await page.get_by_role("button", name="Source 1").first.focus()
    await tip.wait_for()
    assert "Listed miner" in await tip.inner_text()
    assert await tip.get_by_role("link", name="Listed miner").get_attribute("href") == f"/case/{CASE_OF_SOURCE}"
    assert (
        await tip.get_by_role("link", name="wire.example").get_attribute("href") == "https://wire.example/miner-sells"
    )
    assert await page.get_by_role("button", name="Source 1").first.get_attribute("aria-describedby") == "preview"
    await page.keyboard.press("Enter")
    assert "source-1" in await page.evaluate("document.activeElement.id")


async def test_a_reload_and_the_death_of_the_server_in_the_middle_lose_no_step_and_ask_nothing_twice(
    fake: FakeApi, opened: Opened
) -> None:
    fake.records_at_once = 4
    page = (await opened("/research")).page
    await ask(page)
    chat = await only_chat(fake, page)
    await page.locator(".stage-analysis").wait_for()
    await page.reload()
    await page.locator(".stage-analysis").wait_for()
    assert await page.locator(".question-text").inner_text() == QUESTION
    assert len(await stages(page)) == 4
    await fake.stop()
    await page.get_by_text("Connection lost. The server continues the work").first.wait_for()
    await chat.go_on(2)
    await fake.start()
    await page.locator(".agent").nth(1).wait_for()
    await chat.finish()
    await page.locator(".answer").wait_for()
    assert (await page.locator(".stage").count(), await page.locator(".agent").count()) == (5, 3)
    assert f"GET /api/v1/research/chat/{chat.chat_id}?candles=true" in fake.asked
    assert sum(asked.startswith("POST /api/v1/research/chat") for asked in fake.asked) == 1, "asked once only"
    assert not chat.stops, "neither is a stop"


async def test_stop_is_a_stop_at_the_server_and_the_question_stays_in_the_history(
    fake: FakeApi, opened: Opened
) -> None:
    fake.records_at_once = 2
    page = (await opened("/research")).page
    await ask(page)
    chat = await only_chat(fake, page)
    await page.get_by_role("button", name="Stop", exact=True).click()
    await page.get_by_text("Stopped without an answer.").first.wait_for()
    assert chat.stops == ["stop"]
    await page.get_by_role("button", name="Ask again").click()
    assert await page.input_value("#question") == QUESTION
    fake.records_at_once = None
    await ask(page, "And ETH?")
    await page.locator(".answer").wait_for()
    second = list(fake.chats.values())[-1]
    assert second.body["chat_history"] == [{"role": "user", "content": QUESTION}]
    assert second.body["conversation"] == chat.chat_id and second.body["previous"] == chat.chat_id


async def test_a_stop_pressed_before_the_server_has_answered_is_sent_when_it_has(fake: FakeApi, opened: Opened) -> None:
    fake.records_at_once = 1
    fake.asking.clear()
    page = (await opened("/research")).page
    await ask(page)
    await page.get_by_role("button", name="Stop", exact=True).click()
    await page.locator(".turn-state", has_text="Stopping …").wait_for()
    assert fake.chats == {}
    fake.asking.set()
    await page.get_by_text("Stopped without an answer.").first.wait_for()
    assert [chat.stops for chat in fake.chats.values()] == [["stop"]]


async def test_a_question_that_may_have_been_taken_is_followed_and_not_asked_twice(
    fake: FakeApi, opened: Opened
) -> None:
    fake.confirms = False
    page = (await opened("/research")).page
    await ask(page)
    await page.locator(".answer").wait_for()
    assert await page.input_value("#question") == ""
    assert len(fake.chats) == 1 and f"GET /api/v1/research/chat/{next(iter(fake.chats))}?candles=true" in fake.asked


async def test_earlier_turns_are_waited_for_and_only_as_much_is_sent_as_the_server_takes(
    fake: FakeApi, opened: Opened
) -> None:
    fake.answer = "言" * 30_000
    page = (await opened("/research")).page
    for number in range(3):
        await ask(page, f"Question {number}")
        await page.locator(".answer").nth(number).wait_for()
    await page.reload()
    await page.locator("#question").wait_for()
    await ask(page, "And now?")
    await page.locator(".answer").nth(3).wait_for()
    history = list(fake.chats.values())[-1].body["chat_history"]
    assert [one["content"] for one in history if one["role"] == "user"] == ["Question 1", "Question 2"]
    assert [len(one["content"]) for one in history if one["role"] == "assistant"] == [30_000, 30_000]


async def test_stop_and_write_up_ends_with_an_answer_from_what_is_there(fake: FakeApi, opened: Opened) -> None:
    fake.records_at_once = 4
    page = (await opened("/research")).page
    await ask(page)
    chat = await only_chat(fake, page)
    await page.get_by_role("button", name="Stop and answer now").click()
    await page.locator(".answer").wait_for()
    assert chat.stops == ["finish"]
    assert "Written from partial results" in await page.locator(".answer").inner_text()


async def test_history_sends_only_role_and_content_and_a_conversation_is_found_in_the_list_and_shown_whole(
    fake: FakeApi, opened: Opened
) -> None:
    page = (await opened("/research")).page
    await ask(page)
    await page.locator(".answer").wait_for()
    await ask(page, "Why?")
    await page.locator(".answer").nth(1).wait_for()
    history = list(fake.chats.values())[-1].body["chat_history"]
    assert [set(one) for one in history] == [{"role", "content"}] * 2
    assert [one["role"] for one in history] == ["user", "assistant"]
    assert history[1]["content"].startswith("## Where it stands")
    assert await page.locator(".process[open]").count() == 1, "the steps of the turn before are folded"
    await page.get_by_role("link", name="New conversation").click()
    await page.get_by_text("Ask a question and watch").wait_for()
    await page.locator(".chat-link").first.click()
    await page.locator(".answer").nth(1).wait_for()
    assert await page.locator(".question-text").all_inner_texts() == [QUESTION, "Why?"]


async def test_a_refused_question_is_given_back(fake: FakeApi, opened: Opened) -> None:
    fake.refusals["/api/v1/research/chat"] = (429, {"error": "too many chats are running", "do": "wait until one has ended"})  # fmt: skip
    page = (await opened("/research")).page
    await ask(page)
    alert = page.locator("main").get_by_role("alert")
    await alert.wait_for()
    assert "too many chats are running" in await alert.inner_text()
    assert await page.input_value("#question") == QUESTION
    assert await page.locator(".turn").count() == 0


async def test_a_turn_that_fails_says_so_as_an_alert(fake: FakeApi, opened: Opened) -> None:
    fake.records_at_once = 2
    page = (await opened("/research")).page
    await ask(page)
    chat = await only_chat(fake, page)
    await chat.say([("error", {"error": "plan", "message": "the model gave no plan"}), ("done", {})])
    await page.locator(".turn .notice.error").wait_for()
    assert "the model gave no plan" in await page.locator("#alerts").inner_text()
    await page.get_by_role("button", name="Ask", exact=True).wait_for()


async def test_hostile_words_of_a_model_render_inert(fake: FakeApi, opened: Opened) -> None:
    fake.answer = (
        "<svg onload=alert(1)></svg> <img src=x onerror=alert(2)> ![x](https://evil.example/pixel.png)\n\n"
        "[a](javascript:alert(3)) [b](data:text/html,x) [c](https://user:pw@evil.example/) [d](//evil.example) "
        "[e](https://fine.example/page) <https://evil.example/auto>\n\n```html\n<script>alert(4)</script>\n```\n\n"
        "paid \u202egnp.exe [1] [99]"
    )
    watched = await opened("/research")
    page = watched.page
    await ask(page, "<b onclick=alert(5)>who?</b>")
    answer = page.locator(".markdown")
    await answer.wait_for()
    assert await page.locator("main img, main script, main b").count() == 0
    links = await answer.locator("a").evaluate_all("all => all.map((a) => [a.href, a.rel, a.target])")
    fine = ["noopener noreferrer", "_blank"]
    assert links == [["https://fine.example/page", *fine], ["https://evil.example/auto", *fine]]
    text = await answer.inner_text()
    assert "(fine.example)" in text and "[image, not loaded: x]" in text and "[U+202E]gnp.exe" in text
    assert await answer.locator("button.cite").count() == 1, "a number without a source is no button"
    assert (watched.elsewhere, watched.dialogs, watched.errors) == ([], [], [])


async def test_enter_belongs_to_the_input_method_while_it_composes(fake: FakeApi, opened: Opened) -> None:
    page = (await opened("/research", locale="zh-CN")).page
    await page.fill("#question", "比特币")
    await page.evaluate(
        """() => document.getElementById('question').dispatchEvent(
             new KeyboardEvent('keydown', {key: 'Enter', isComposing: true, bubbles: true, cancelable: true}))"""
    )
    await page.evaluate(
        """() => document.getElementById('question').dispatchEvent(
             new KeyboardEvent('keydown', {key: 'Enter', keyCode: 229, bubbles: true, cancelable: true}))"""
    )
    assert fake.chats == {}
    assert await page.input_value("#question") == "比特币"
    assert await page.locator("html").get_attribute("lang") == "zh-CN"
    await page.keyboard.press("Enter")
    await page.locator(".answer").wait_for()


async def test_leaving_the_page_is_no_stop(fake: FakeApi, opened: Opened) -> None:
    fake.records_at_once = 2
    page = (await opened("/research")).page
    await ask(page)
    chat = await only_chat(fake, page)
    await page.get_by_role("link", name="Live").click()
    await page.locator(".signal").first.wait_for()
    await asyncio.wait_for(chat.finish(), 30)
    assert chat.stops == []
    await page.go_back()
    await page.locator(".answer").wait_for()
