"""Every page in every state that is looked at: by axe-core in the tests, by a person in docs/screenshots."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from newsproof.report.narrative import pages_read
from schemas.events import EvidenceCritiqued
from schemas.evidence import Findings
from streams.bots.book import Book
from tests.browser import recorded
from tests.browser.fake_api import FakeApi
from tests.browser.fake_investigations import FIRST, watch
from tests.browser.recorded import CASE_OF_SOURCE

QUESTION = "Where does Bitcoin stand now, and what are the counterarguments?"
View = Callable[[FakeApi, Any], Awaitable[None]]


async def live(fake: FakeApi, page: Any) -> None:
    """The desk, with prices, and a signal's evidence beside it."""
    fake.prices, fake.market = recorded.prices(), recorded.market(fake.signals[4])
    await page.reload()
    await page.locator(".c-since .rise-ink").first.wait_for(state="attached")
    await page.locator(".signal").nth(4).click()
    await page.locator(".beside .evidence > li").first.wait_for()
    await page.locator(".price-canvas canvas").first.wait_for()


async def desk_open(fake: FakeApi, page: Any) -> None:
    """The cases under way, and what was set aside."""
    await page.locator(".signal").nth(2).click()
    await page.get_by_role("button", name=re.compile("^(Acknowledge|标为已阅)$")).click()
    await page.get_by_role("button", name=re.compile("^(Mute|屏蔽) BTC$")).click()
    told_of = (
        ("Round 1: to look up with search", "第 1 轮：准备用搜索查找"),
        ("First judgement: hack, SOL", "初判：攻击，SOL"),
    )
    for number, (told, told_zh) in enumerate(told_of):
        news = ("Exchange halts withdrawals, users say", "传闻：某交易所暂停提币")[number]
        said = {"case_id": f"open-{number}", "status": "open", "step": "search", "phase": "planned", "text": told, "text_zh": told_zh, "news": news}  # fmt: skip
        await fake.tell("case", said)
    await page.locator(".vitals button").click()
    await page.locator(".open-cases li").nth(1).wait_for()
    await page.locator(".aside-menu summary").click()


async def empty_desk(fake: FakeApi, page: Any) -> None:
    """Nothing there yet."""
    fake.signals = []
    await page.reload()
    await page.get_by_role("button", name=re.compile("Load the sample|载入样例")).wait_for()


async def publish(fake: FakeApi, page: Any) -> None:
    """A news item that was published."""
    await page.fill("textarea", "Binance lists ZK")
    await page.get_by_role("button", name=re.compile("^(Publish|发布)$")).click()
    await page.get_by_text(re.compile("Published to the log|已写入日志")).wait_for()


async def missing(fake: FakeApi, page: Any) -> None:
    """An address that leads nowhere."""
    await page.get_by_text(re.compile("Page not found|页面不存在")).wait_for()


async def cases(fake: FakeApi, page: Any) -> None:
    """The list of cases."""
    await page.locator(".case-row .mark").nth(5).wait_for()


async def case(fake: FakeApi, page: Any) -> None:
    """One case, its first screen."""
    found = fake.documents[CASE_OF_SOURCE]
    signal = {**found["signal"], "case_id": CASE_OF_SOURCE, "decided_at": found["revisions"][0]["decided_at"]}
    fake.market = recorded.market(signal)
    await page.reload()
    await page.locator(".price-canvas canvas").first.wait_for()
    await page.locator(".timeline").wait_for()


async def waterfall(fake: FakeApi, page: Any) -> None:
    """One case, its critique and confidence."""
    await page.locator(".dropped summary").click()
    await page.evaluate("() => document.getElementById('case-critique').scrollIntoView()")


async def analytics(fake: FakeApi, page: Any) -> None:
    """Charts."""
    for number in range(4):
        await page.locator("img.chart:not([width])").nth(number).wait_for(state="attached")


async def sql(fake: FakeApi, page: Any) -> None:
    """The SQL box with a result."""
    await page.locator(".figures summary").first.click()
    await page.locator("#sql").press("Control+Enter")
    await page.locator(".sql-result tbody tr").first.wait_for()
    await page.evaluate("() => document.getElementById('sql-head').scrollIntoView()")


async def research_empty(fake: FakeApi, page: Any) -> None:
    """Before the first question."""
    await page.locator(".state .examples").wait_for()


async def research(fake: FakeApi, page: Any) -> None:
    """A question, answered; the steps above it."""
    await page.fill("#question", QUESTION)
    await page.keyboard.press("Enter")
    await page.locator(".answer").wait_for()
    await page.evaluate("() => window.scrollTo(0, 0)")


async def research_answer(fake: FakeApi, page: Any) -> None:
    """The answer with the preview of a citation; every step and agent opened above it."""
    await page.locator(".process-list details").evaluate_all("(all) => all.forEach((one) => { one.open = true; })")
    await page.locator(".answer").evaluate("(one) => one.scrollIntoView()")
    await page.locator("button.cite").first.focus()
    await page.get_by_role("tooltip").wait_for()


async def research_running(fake: FakeApi, page: Any) -> None:
    """In the middle of a turn, with both ways to stop."""
    fake.records_at_once = 5
    await page.fill("#question", QUESTION)
    await page.keyboard.press("Enter")
    await page.locator(".agent").first.wait_for()
    fake.records_at_once = None


async def backtests(fake: FakeApi, page: Any) -> None:
    """Runs, two of them compared."""
    await page.locator("table.metrics").wait_for()


async def operations(fake: FakeApi, page: Any) -> None:
    """Everything that can be wrong, and the letters of one reason."""
    await page.get_by_role("button", name=re.compile("^(Show case failed|查看“失败”)$")).click()
    await page.get_by_role("button", name=re.compile("^(Requeue all 200 |将“.*”的全部 200 条)")).click()
    await page.locator(".letters li").nth(40).wait_for()
    await page.evaluate("() => window.scrollTo(0, 0)")


async def sources(fake: FakeApi, page: Any) -> None:
    """Sources that answer and fail in every way."""
    await page.locator(".src-why").first.wait_for()


async def bots(fake: FakeApi, page: Any) -> None:
    """A halted bot whose exit is not confirmed, and others; the question before a halt."""
    await page.locator("[data-key='halt live']").click()
    await page.locator("[data-key='exit']").click()
    await page.get_by_text(re.compile("Halted by the web service|已由 网页服务 停止")).wait_for()
    await page.locator("[data-key='halt']").click()


async def bots_empty(fake: FakeApi, page: Any) -> None:
    """No bot yet."""
    fake.bots.defined, fake.bots.book = {}, Book()
    await page.reload()
    await page.get_by_text(re.compile("No bots yet|暂无机器人")).wait_for()


def is_rich(document: dict[str, Any]) -> bool:
    """Whether a case stands as it ended, with evidence, results that were not used, a critique and an adjustment."""
    if not (document["findings"] and document["critique"] and document["confidence"]):
        return False
    if len(document["revisions"]) > 1:
        return False
    found, claims = document["findings"], document["critique"]["claims"]
    return bool(len(found["references"]) > 2 and found["dropped"] and claims and len(document["confidence"]) > 2)


def source_case(fake: FakeApi) -> str:
    """Let the case that the answers cite be one with evidence, a critique and an adjustment; return its id."""
    rich = read_by_a_critic(next(d for d in fake.documents.values() if is_rich(d)))
    fake.documents[CASE_OF_SOURCE] = {**rich, "case": {**rich["case"], "case_id": CASE_OF_SOURCE}}
    return CASE_OF_SOURCE


def read_by_a_critic(document: dict[str, Any]) -> dict[str, Any]:
    """Return the case as if a critic had read its pages: the recorded ones were read by the word rules alone.

    The first page is the party's, the second repeats it, the third's quote is not on it, others were not shown.
    """
    numbers = [one["reference_number"] for one in document["findings"]["references"]][:3]
    said = document["findings"]["references"][0]["title"]
    readings: list[dict[str, Any]] = [
        {"stance": "supports", "quote": said, "reason": "The party itself says it.", "speaks_for": "party"},
        {"stance": "supports", "quote": said, "reason": "It repeats the release.", "cites": "the release"},
        {"stance": "denies", "quote": "None of this has ever happened.", "reason": "It denies.", "same_event": False},
    ]
    stances = [{"reference_number": n, **reading} for n, reading in zip(numbers, readings, strict=True)]
    critique = {**document["critique"], "stances": stances, "unquoted": numbers[2:]}
    found = msgspec.convert(document["findings"], Findings)
    pages = pages_read(found, msgspec.convert(critique, EvidenceCritiqued))
    return {**document, "critique": critique, "pages": msgspec.to_builtins(pages)}


async def investigations(fake: FakeApi, page: Any) -> None:
    """The form with its limits, one investigation, one watch."""
    await fake.investigations.begin(FIRST, {"subject": "Monitor DeepSeek's latest developments"})
    fake.investigations.watches[:] = [watch("关注币安的监管进展", every="6h")]
    await page.reload()
    await page.locator(".inquiry").wait_for()
    await page.locator(".watches tbody tr").wait_for()
    await page.locator(".limits summary").click()


async def brief(fake: FakeApi, page: Any) -> None:
    """A brief with a preview, every step opened below it."""
    await page.locator(".inquiry").click()
    await page.locator(".brief").wait_for()
    await page.locator("details").evaluate_all("(all) => all.forEach((one) => { one.open = true; })")
    await page.locator("button.cite").nth(1).focus()
    await page.get_by_role("tooltip").wait_for()


VIEWS: dict[str, tuple[str, tuple[View, ...]]] = {
    "live": ("/", (live,)),
    "live-open": ("/", (desk_open,)),
    "live-empty": ("/", (empty_desk,)),
    "publish": ("/publish", (publish,)),
    "missing": ("/nowhere", (missing,)),
    "cases": ("/cases", (cases,)),
    "case": (f"/case/{CASE_OF_SOURCE}", (case,)),
    "case-confidence": (f"/case/{CASE_OF_SOURCE}", (case, waterfall)),
    "analytics": ("/analytics", (analytics,)),
    "analytics-sql": ("/analytics", (analytics, sql)),
    "research-empty": ("/research", (research_empty,)),
    "research-running": ("/research", (research_running,)),
    "research": ("/research", (research,)),
    "research-answer": ("/research", (research, research_answer)),
    "operations": ("/operations", (operations,)),
    "sources": ("/sources", (sources,)),
    "bots": ("/bots", (bots,)),
    "bots-empty": ("/bots", (bots_empty,)),
    "investigations": ("/investigations", (investigations,)),
    "investigation": ("/investigations", (investigations, brief)),
    "backtests": ("/backtests?a=synth-v3&b=synth-v4", (backtests,)),
}
"""By name: the path, and what is done until it looks as it is meant to."""
