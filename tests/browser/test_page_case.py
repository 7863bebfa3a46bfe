"""The page of one case in a real browser, and what hostile text does there: nothing."""

from __future__ import annotations

import copy
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.browser.conftest import Opened
from tests.browser.fake_api import FakeApi
from tests.browser.views import is_rich, read_by_a_critic
from tests.browser.watched_page import comes_to_be

pytestmark = pytest.mark.asyncio(loop_scope="session")

HOSTILE = (
    "<svg onload=alert(1)><img src=x onerror=\"fetch('https://evil.example/')\">"
    "<script>alert(2)</script> [click](javascript:alert(3)) ![seen](https://evil.example/pixel.png) "
    "paid \u202egnp.exe\u202c \u2066hidden\u2069"
)


def rich_case(fake: FakeApi) -> tuple[str, dict[str, Any]]:
    """Return a case with evidence, a critique, and an adjustment."""
    return next((case_id, document) for case_id, document in fake.documents.items() if is_rich(document))


async def test_a_case_is_told_from_its_opening_to_its_end(fake: FakeApi, opened: Opened) -> None:
    case_id, document = rich_case(fake)
    page = (await opened(f"/case/{case_id}")).page
    await page.locator(".timeline").wait_for()
    story = await page.locator(".timeline").inner_text()
    for step in document["timeline"]:
        assert step["what"] in story
    assert document["news"]["text"] in await page.locator(".news").inner_text()
    evidence, found = page.locator(".evidence > li"), document["findings"]["references"]
    assert await evidence.count() == len(found)
    first = await evidence.first.inner_text()
    assert found[0]["title"] in first and f"({urlsplit(found[0]['url']).hostname})" in first
    official = sum(one.get("official", False) for one in found)
    assert await page.locator(".evidence .tag", has_text="official source").count() == official > 0
    assert await page.locator(".claims > li").count() == len(document["critique"]["claims"])
    assert document["critique"]["claims"][0]["reason"] in await page.locator(".claims > li").first.inner_text()
    assert f"./run --data-dir .data case replay {case_id}" in await page.locator(".case-replay").inner_text()
    calls = page.locator(".case-calls tbody tr")
    assert await calls.count() == len(document["calls"])
    prompts = await page.locator(".case-prompts").inner_text()
    assert all(f"{one['name']} v{one['version']}" in prompts for one in document["signal"]["prompt_versions"])


async def test_each_page_is_shown_with_its_stance_the_checked_quote_and_who_speaks(
    fake: FakeApi, opened: Opened
) -> None:
    case_id, document = rich_case(fake)
    fake.documents[case_id] = read_by_a_critic(document)
    page = (await opened(f"/case/{case_id}")).page
    pieces = page.locator(".evidence > li")
    await pieces.first.wait_for()
    party, repeated, denial, *others = [await one.inner_text() for one in await pieces.all()]
    assert "supports" in party and "the party itself" in party and "The party itself says it." in party
    said = document["findings"]["references"][0]["title"]
    assert await pieces.first.locator("blockquote.quote").inner_text() == said
    assert "supports" in repeated and "cites: the release" in repeated
    assert "unrelated" in denial and "read as “denies”" in denial and "different event" in denial
    assert "This quote is not on the page" in denial
    assert await pieces.nth(2).locator(".quote.not-there").count() == 1
    assert all("not shown to the critic" in one for one in others)


async def test_where_no_critic_read_the_pages_it_says_so(fake: FakeApi, opened: Opened) -> None:
    case_id, document = rich_case(fake)
    unread = [{**one, "said": None, "quoted": False} for one in document["pages"]]
    fake.documents[case_id] = {**document, "critique": {**document["critique"], "stances": None}, "pages": unread}
    page = (await opened(f"/case/{case_id}")).page
    await page.get_by_text("No critic read these pages; word rules alone judged them.").first.wait_for()
    tags = page.locator(".evidence .tag", has_text="by word rules")
    await comes_to_be(tags, len(document["findings"]["references"]))


async def test_a_withdrawn_signal_stands_in_the_list_of_cases_as_it_is_now(fake: FakeApi, opened: Opened) -> None:
    case_id, document = rich_case(fake)
    fake.documents[case_id] = {**document, "case": {**document["case"], "withdrawn": "retracted", "confidence": 0.0}}
    page = (await opened("/cases")).page
    await page.get_by_role("button", name="Show older").click()
    row = page.locator(".case-row", has=page.locator(f'a[href="/case/{case_id}"]'))
    await row.locator(".tag", has_text="retracted").wait_for()
    assert await row.locator(".case-end strong").inner_text() == "0.00"


async def test_a_case_says_how_often_signals_like_it_came_true_and_a_withdrawn_one_does_not(
    fake: FakeApi, opened: Opened
) -> None:
    case_id, document = rich_case(fake)
    said = {"id": "m", "low": 0.51, "high": 0.65, "n_stories": 1212, "p_true": 0.81}
    signal = {**document["signal"], "horizon": 86400, "confidence_calibrated": 0.58, "calibration": said}
    fake.documents[case_id] = {**document, "signal": signal, "revisions": []}
    page = (await opened(f"/case/{case_id}")).page
    line = page.locator(".result .calibrated")
    assert await line.inner_text() == (
        "Chance that the price moves over 10 bp in the signal's direction within 24 h: 0.58 (95 % interval 0.51–0.65, from 1,212 stories) · "
        "chance that the claim still holds after 14 days: 0.81"
    )
    gone = {"revision": 2, "stage": "retracted", "action": "observe", "verdict": "refuted", "confidence": 0.0}
    revision = {**gone, "decided_at": signal["decided_at"], "confidence_calibrated": None, "calibration": None}
    fake.documents[case_id] = {**document, "signal": signal, "revisions": [revision]}
    page = (await opened(f"/case/{case_id}")).page
    await page.locator(".result .tag", has_text="retracted").first.wait_for()
    assert await page.locator(".calibrated").count() == 0


async def test_the_waterfall_draws_every_adjustment_from_where_the_confidence_stood(
    fake: FakeApi, opened: Opened
) -> None:
    case_id, document = rich_case(fake)
    page = (await opened(f"/case/{case_id}")).page
    rows = page.locator(".waterfall-table tbody tr")
    await rows.first.wait_for()
    steps = document["confidence"]
    assert await rows.count() == len(steps)
    before = 0.0
    for number, step in enumerate(steps):
        row = rows.nth(number)
        cells = await row.locator("td").all_inner_texts()
        assert cells[1] == f"{step['confidence']:.2f}"
        bar = row.locator("rect.bar")
        x, wide = [float(str(await bar.get_attribute(name))) for name in ("x", "width")]
        if step["amount"] is None:
            assert (x, wide) == pytest.approx((0, max(step["confidence"] * 200, 2)))
        else:
            sign = "−" if step["amount"] < 0 else "+" if step["amount"] else ""
            assert cells[0] == f"{sign}{abs(step['amount']):.2f}"
            assert x == pytest.approx(min(before, step["confidence"]) * 200, abs=0.01)
            assert wide == pytest.approx(max(abs(step["confidence"] - before) * 200, 2), abs=0.01)
        before = step["confidence"]


async def test_a_withdrawn_signal_ends_its_waterfall_at_nothing_and_its_gravest_flags_come_first(
    fake: FakeApi, opened: Opened
) -> None:
    case_id, document = rich_case(fake)
    flags = [
        "rumour", "old_news", "price_gap", "offline", "second_hand", "degraded:timeout", "spoofed_source",
        "retracted",
    ]  # fmt: skip
    last = {**document["revisions"][-1], "revision": 2, "stage": "retracted", "confidence": 0.0, "notes": "An official page denies it.", "notes_en": "", "risk_flags": flags}  # fmt: skip
    fake.documents[case_id] = {**document, "revisions": [*document["revisions"], last]}
    fake.signals[0] |= {"case_id": case_id, "risk_flags": flags}
    page = (await opened("/")).page
    row = page.locator(".signal").first
    await row.wait_for()
    # In a line of the desk what is unusual alone: not that all of this is offline, which the strip says.
    assert await row.locator(".tag").all_inner_texts() == ["retracted", "spoofed source", "degraded: timeout"]
    await row.click()
    grave, *rest = [
        "retracted",
        "spoofed source",
        "rumour",
        "old news",
        "price gap",
        "second hand",
        "degraded: timeout",
    ]
    assert await page.locator(".beside ul[aria-label=Flags] > li").all_inner_texts() == [grave, *rest]
    await page.get_by_role("link", name="Open case").click()
    rows = page.locator(".waterfall-table tbody tr")
    await comes_to_be(rows, len(document["confidence"]) + 1)
    cells = await rows.last.locator("th, td").all_inner_texts()
    fell = f"−{document['confidence'][-1]['confidence']:.2f}"
    assert [*cells[:3], cells[4]] == ["revision 2: retracted", fell, "0.00", "An official page denies it."]


async def test_a_case_begins_with_its_sentence_and_every_flag_says_what_it_means(fake: FakeApi, opened: Opened) -> None:
    case_id, document = copy.deepcopy(rich_case(fake))
    fake.documents[case_id] = document
    document["revisions"][-1]["risk_flags"] = ["offline", "degraded:timeout", "a_word_of_its_own"]
    page = (await opened(f"/case/{case_id}")).page
    await page.locator(".case > .sentence:first-child").wait_for()
    assert " ".join(document["sentence"]["en"].split()) == await page.locator(".sentence").evaluate(
        "(one) => one.textContent"
    )
    heads = await page.locator(".case > section[aria-labelledby]").evaluate_all(
        "(all) => all.map((one) => one.className)"
    )
    named = [one.split("case-")[1] for one in heads]
    order = ["story", "evidence", "waterfall", "critique", "searches", "calls", "prompts", "replay", "events"]
    assert named == order
    await page.locator(".sentence button.cite").first.click()
    assert (await page.evaluate("() => document.activeElement.id")).startswith("evidence-")
    means = page.get_by_role("tooltip")
    for flag, words in (
        ("offline", "are not real"),
        ("degraded: timeout", "deep analysis failed"),
        ("a word of its own", "no rule"),
    ):
        chip = page.locator(".result button.tag", has_text=flag)
        await chip.focus()
        await means.get_by_text(words).wait_for()
        assert await chip.get_attribute("aria-describedby") == await means.get_attribute("id")
        await page.keyboard.press("Escape")
        await means.wait_for(state="hidden")
        await chip.hover()
        await means.get_by_text(words).wait_for()
        await page.mouse.move(0, 0)
        await means.wait_for(state="hidden")


async def test_one_of_several_claims_leads_to_the_others(fake: FakeApi, opened: Opened) -> None:
    case_id, document = copy.deepcopy(rich_case(fake))
    fake.documents[case_id] = document | {"claims": {"ZK": "first", "ETH": case_id, "ARB": "third"}}
    page = (await opened(f"/case/{case_id}")).page
    facts = page.locator(".case-facts")
    await facts.get_by_text("2 of 3: ZK ETH ARB").wait_for()
    links = facts.locator("a")
    assert [await one.get_attribute("href") for one in await links.all()] == ["/case/first", "/case/third"]


async def test_an_open_case_is_followed_to_its_end(fake: FakeApi, opened: Opened) -> None:
    case_id, whole = rich_case(fake)
    begun = {
        **whole,
        "case": {**whole["case"], "status": "open", "ended_at": None},
        "signal": None,
        "revisions": [],
    }
    fake.documents[case_id] = {**begun, "timeline": whole["timeline"][:2], "confidence": None}
    page = (await opened(f"/case/{case_id}")).page
    await page.get_by_text("This page updates as the case continues.").wait_for()
    while not fake.live:  # the page opens its stream behind what it has read
        await page.evaluate("() => new Promise(requestAnimationFrame)")
    fake.documents[case_id] = whole
    await fake.tell("case", {"case_id": case_id, "status": "signal", "step": "", "phase": "ended", "text": "Signal"})
    await page.locator(".result").wait_for()
    await comes_to_be(page.locator(".timeline li.phase-end"), 1)


async def test_raw_events_wait_behind_a_toggle(fake: FakeApi, opened: Opened) -> None:
    case_id, document = rich_case(fake)
    page = (await opened(f"/case/{case_id}")).page
    toggle = page.locator(".raw-events > summary")
    await toggle.wait_for()
    assert await page.locator(".raw > li").count() == 0
    await toggle.click()
    await comes_to_be(page.locator(".raw > li"), len(document["events"]))
    await page.locator(".raw summary").first.click()
    await page.locator(".raw pre code", has_text='"news"').first.wait_for()


async def test_a_case_that_is_not_there_says_where_to_look(fake: FakeApi, opened: Opened) -> None:
    page = (await opened("/case/00000000-0000-0000-0000-000000000000")).page
    alert = page.locator("main").get_by_role("alert")
    await alert.wait_for()
    assert "look for it in" in await alert.inner_text()


async def test_hostile_news_renders_inert(fake: FakeApi, opened: Opened) -> None:
    case_id, document = rich_case(fake)
    bad = copy.deepcopy(document)
    bad["news"]["text"] = bad["case"]["text"] = bad["signal"]["summary"] = bad["signal"]["notes"] = HOSTILE
    for step in bad["timeline"]:
        step["what"] = step["thought"] = HOSTILE
    for piece in bad["findings"]["references"]:
        piece |= {"title": HOSTILE, "snippet": HOSTILE, "url": "javascript:alert(document.domain)"}
    bad["critique"]["claims"][0] |= {"claim": HOSTILE, "reason": HOSTILE}
    bad["events"][0]["event"]["news"]["text"] = HOSTILE
    fake.documents[case_id] = bad
    fake.signals[0] |= {"summary": HOSTILE, "case_id": case_id, "asset": HOSTILE[:40], "risk_flags": [HOSTILE]}
    watched = await opened("/")
    page = watched.page
    await page.locator(".signal").first.wait_for()
    await page.locator(".signal").first.click()
    await page.get_by_role("link", name="Open case").click()
    await page.locator(".timeline").wait_for()
    await page.locator(".raw-events > summary").click()
    await page.locator(".raw summary").first.click()
    await page.locator(".raw pre code").first.wait_for()
    assert HOSTILE[:60] in await page.locator(".news").inner_text()
    assert await page.locator("main img, main script, main svg[onload], main iframe").count() == 0
    links = await page.eval_on_selector_all("main a", "all => all.map((a) => a.getAttribute('href'))")
    assert not [href for href in links if not href.startswith(("/", "http://", "https://"))]
    # Overrides stand there by their code points: nothing after them is turned around.
    text = await page.locator("body").inner_text()
    assert "[U+202E]gnp.exe[U+202C]" in text
    assert not set(text) & set("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
    # Two round trips through the page's loop: what would run, would have run by now.
    await page.evaluate("() => new Promise((done) => requestAnimationFrame(() => setTimeout(done)))")
    assert (watched.elsewhere, watched.dialogs, watched.errors) == ([], [], [])


async def test_the_policy_refuses_markup_even_if_the_page_made_a_mistake(fake: FakeApi, opened: Opened) -> None:
    watched = await opened("/")
    refused = await watched.page.evaluate(
        """() => { try { document.body.innerHTML += '<img src=x onerror=alert(1)>'; return false; } catch (e) { return e.name; } }"""
    )
    assert refused == "TypeError"
    assert watched.dialogs == []
