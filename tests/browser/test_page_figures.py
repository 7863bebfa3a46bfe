"""The pages Analytics and Backtests, languages and colours, in a real browser."""

from __future__ import annotations

import asyncio
import re
from typing import Any, get_args

import pytest

from agents.core.answers import RESERVED_FLAGS, SYNTHESIS_FLAGS
from newsproof.web.pages import STATIC
from schemas.calls import CallKind, ProviderMode
from schemas.errors import FailureKind
from schemas.evidence import ReadStance
from schemas.signals import Stage, Verdict
from tests.browser import recorded
from tests.browser.conftest import Opened
from tests.browser.fake_api import FakeApi
from tests.browser.views import is_rich

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_charts_come_from_this_server_in_the_colours_of_the_page(fake: FakeApi, opened: Opened) -> None:
    watched = await opened("/analytics", dark=True)
    page = watched.page
    for number in range(7):
        await page.locator("img.chart:not([width])").nth(number).wait_for(state="attached")
    charts = [asked for asked in fake.asked if "/charts/" in asked]
    assert len(charts) == 7
    assert all(f"{one}" in asked for asked in charts for one in ("theme=dark", "size=wide", "language=en", "days=30"))
    await page.get_by_role("button", name="Dark colours").click()
    await page.locator('img.chart[src*="theme=light"]').nth(6).wait_for()
    await page.set_viewport_size({"width": 390, "height": 800})
    await page.locator('img.chart[src*="size=narrow"]').nth(6).wait_for()
    assert await page.evaluate("document.documentElement.scrollWidth") == 390
    assert "SYNTHETIC" in await page.locator("main").inner_text()
    assert (watched.elsewhere, watched.errors) == ([], [])


async def test_the_period_is_chosen_and_stands_in_the_address(fake: FakeApi, opened: Opened) -> None:
    page = (await opened("/analytics?days=7")).page
    await page.locator('img.chart[src*="days=7"]').nth(6).wait_for(state="attached")
    await page.get_by_role("button", name="all", exact=True).click()
    await page.wait_for_url("**/analytics?days=all")
    await page.fill("input[name=from]", "2026-11-20")
    await page.fill("input[name=to]", "2026-11-14")
    await page.get_by_role("button", name="Show").click()
    await page.get_by_text("The period ends before it begins").wait_for()
    await page.fill("input[name=from]", "2026-11-10")
    await page.get_by_role("button", name="Show").click()
    await page.wait_for_url("**/analytics?from=2026-11-10&to=2026-11-14")
    await page.locator('img.chart[src*="from=2026-11-10&to=2026-11-14"]').nth(6).wait_for(state="attached")
    assert await page.locator(".period [aria-pressed=true]").count() == 0
    fake.report = {**fake.report, "is_empty": True}
    await page.get_by_role("button", name="last 90 days").click()
    await page.get_by_text("No data for this period yet.").wait_for()
    assert await page.locator("img.chart, details.figures").count() == 0, "that it is empty is said once"


async def test_precision_is_drawn_at_the_horizon_that_is_chosen_and_tables_are_saved(
    fake: FakeApi, opened: Opened
) -> None:
    page = (await opened("/analytics", locale="zh-CN")).page
    part = page.get_by_role("region", name="买卖信号的准确率（按结论与信源）")
    await part.locator('img[src*="horizon_s=14400"][src*="language=zh"]').wait_for()
    await part.locator("select[name=horizon]").select_option("3600")
    await part.locator('img[src*="horizon_s=3600"]').wait_for()
    drawn = await page.evaluate(
        "() => fetch(document.querySelector('img[src*=horizon_s]').src).then((one) => one.text())"
    )
    assert "全部信号" in drawn and "天数太少" in drawn and "too few" not in drawn
    await part.locator("summary").first.click()
    assert "全部，含已撤回" in await part.locator("tbody tr").nth(1).inner_text()
    assert "已证实" in await part.locator("tbody tr").nth(2).inner_text()
    saved = await part.get_by_role("link", name="另存为 CSV").first.get_attribute("href")
    assert saved == "/api/v1/report/tables/precision?days=30&format=csv"
    await page.get_by_text("另有 26 个信号未经核实，不在此图中：常规消息，不作核查 20 · 搜索失败：超时 6。").wait_for()


async def test_every_chart_has_its_figures_as_a_table(fake: FakeApi, opened: Opened) -> None:
    page = (await opened("/analytics")).page
    figures = page.locator("details.figures", has_text="Latency by step")
    await figures.locator("summary").click()
    rows = figures.locator("tbody tr")
    assert await rows.count() == len(recorded.ANSWERS["latency"])
    assert "critique" in await rows.first.inner_text()


async def test_the_event_study_is_of_the_groups_and_returns_that_are_chosen(fake: FakeApi, opened: Opened) -> None:
    page = (await opened("/analytics")).page
    part = page.get_by_role("region", name="Price moves around signals")
    await part.locator('img[src*="by=verdict"][src*="returns=abnormal"]:not([width])').wait_for()
    said = await part.inner_text()
    assert (
        "260 signals, 257 measured. Excluded: neutral 2 · no price near the signal 1." in said and "SYNTHETIC" in said
    )
    await part.locator("select[name=returns]").select_option("raw")
    await part.locator('img[src*="returns=raw"]').wait_for()
    await part.locator("select[name=by]").focus()
    await part.locator("select[name=by]").select_option("source")
    await part.locator('img[src*="by=source"][src*="returns=raw"]').wait_for()
    assert await page.evaluate("document.activeElement.name") == "by", "what was chosen keeps the focus"
    await part.locator("summary").click()
    rows = await part.locator("tbody tr").all_inner_texts()
    assert [row.split("\t")[:2] for row in rows] == [["all signals", "257"], ["wire", "200"], ["exchange blog", "57"]]


async def test_without_prices_there_is_no_study_and_it_says_what_to_do(fake: FakeApi, opened: Opened) -> None:
    fake.no_study = "there are no prices yet: import some with `newsproof outcomes import`"
    page = (await opened("/analytics", locale="zh-CN")).page
    await page.get_by_text("暂无事件研究").wait_for()
    assert await page.get_by_text(fake.no_study).count() == 1
    assert await page.locator("img.chart").count() == 6 and not await page.locator("select[name=by]").is_visible()


async def saved(saving: Any) -> str:
    """Return the text of the file that the browser saved."""
    path = await (await saving.value).path()
    return await asyncio.to_thread(path.read_text, "utf-8")


async def test_sql_is_asked_with_ctrl_enter_and_a_refusal_says_what_to_write(fake: FakeApi, opened: Opened) -> None:
    page = (await opened("/analytics")).page
    await page.locator("#sql").press("Control+Enter")
    rows = page.get_by_role("region", name="Result").locator("tbody tr")
    await rows.first.wait_for()
    assert await rows.count() == len(recorded.ANSWERS["latency"])
    async with page.expect_download() as saving:
        await page.get_by_role("button", name="Save as CSV").click()
    lines = (await saved(saving)).splitlines()
    step, results, p95 = (recorded.ANSWERS["latency"][0][name] for name in ("step", "results", "p95_ms"))
    assert (lines[0], lines[1], len(lines)) == (
        "step,results,p95_ms",
        f"{step},{results},{p95:g}",
        1 + await rows.count(),
    )
    fake.sql_rows = [["=cmd()", None, -1.5], ['a "b", c', 2, 0.0]]
    await page.locator("#sql").press("Control+Enter")
    await page.get_by_text("=cmd()").wait_for()
    async with page.expect_download() as saving:
        await page.get_by_role("button", name="Save as CSV").click()
    assert await saved(saving) == 'step,results,p95_ms\n\'=cmd(),,-1.5\n"a ""b"", c",2,0\n'
    await page.fill("#sql", "SELECT repeat('x', 1e9)")
    await page.locator("#sql").press("Control+Enter")
    await page.get_by_text("The first row is too large to show").wait_for()
    await page.fill("#sql", "DROP TABLE signals")
    await page.get_by_role("button", name="Run").press("Enter")
    alert = page.locator(".sql-result").get_by_role("alert")
    await alert.wait_for()
    assert "write a SELECT" in await alert.inner_text()
    assert await page.evaluate("document.activeElement.type") == "submit", "the button keeps the focus"


async def test_two_runs_are_compared_and_the_choice_stands_in_the_address(fake: FakeApi, opened: Opened) -> None:
    page = (await opened("/backtests")).page
    await page.get_by_text("Choose A and B to compare them.").wait_for()
    await page.get_by_role("radio", name="synth-v3 as A").check()
    await page.get_by_role("radio", name="synth-v4 as B").check()
    await page.wait_for_url("**/backtests?a=synth-v3&b=synth-v4")
    await page.locator(".verdict").wait_for()
    found = recorded.comparison()
    assert await page.locator(".verdict").inner_text() == found["verdict"]
    measured = [one for one in found["metrics"] if one["verdict"] != "not measured"]
    rows = page.locator("table.metrics tbody tr")
    assert await rows.count() == len(measured)
    assert measured[0]["verdict"] in await rows.first.inner_text()
    await page.get_by_text("largest differences, with texts").click()
    assert await page.locator(".diff .removed").count() > 0


async def test_without_runs_the_page_says_how_to_make_one(fake: FakeApi, opened: Opened) -> None:
    fake.runs = []
    page = (await opened("/backtests")).page
    await page.get_by_text("No backtests yet.").wait_for()
    assert "./run --data-dir .data backtest run --sample-log" in await page.locator("main").inner_text()


async def test_the_language_is_the_browsers_until_another_is_chosen(fake: FakeApi, opened: Opened) -> None:
    page = (await opened("/", locale="zh-CN")).page
    assert await page.locator("h1").inner_text() == "信号"
    assert await page.locator("html").get_attribute("lang") == "zh-CN"
    await page.get_by_role("button", name="Switch to English").click()
    assert await page.locator("h1").inner_text() == "Signals"
    await page.reload()
    await page.locator("h1", has_text="Signals").wait_for()


async def test_words_of_the_domain_are_chinese_in_chinese(fake: FakeApi, opened: Opened) -> None:
    document = next(d for d in fake.documents.values() if is_rich(d))
    case_id = document["case"]["case_id"]
    page = (await opened(f"/case/{case_id}", locale="zh-CN")).page
    await page.locator(".timeline").wait_for()
    assert "仅供试用和测试" in await page.locator("#strip").inner_text()
    shown = await page.locator(
        ".waterfall-table th[scope=row], .case-calls tbody td:nth-child(2), .phase"
    ).all_inner_texts()
    assert [one for one in shown if one.isascii()] == []
    wanted = {*get_args(CallKind), *get_args(FailureKind), *get_args(ProviderMode)}
    wanted |= {*get_args(Verdict), *get_args(Stage), *get_args(ReadStance), *SYNTHESIS_FLAGS, *RESERVED_FLAGS}
    wanted |= {"choice_clamped", "memory", "cap", "bounds"}
    terms = await page.evaluate(
        "async () => Object.keys((await import('/static/js/texts/zh.js')).default).filter((key) => key.startsWith('term.'))"
    )
    assert wanted - {key.removeprefix("term.") for key in terms} == set()


async def test_chosen_colours_are_kept_and_otherwise_the_systems_hold(fake: FakeApi, opened: Opened) -> None:
    page = (await opened("/", dark=True)).page
    paper = "() => getComputedStyle(document.body).backgroundColor"
    dark = await page.evaluate(paper)
    await page.get_by_role("button", name="Dark colours").click()
    light = await page.evaluate(paper)
    await page.reload()
    await page.locator("main h1").wait_for()
    assert light != dark and await page.evaluate(paper) == light
    other = (await opened("/")).page
    assert await other.evaluate(paper) == light
    await other.get_by_role("button", name="Dark colours").click()
    assert await other.evaluate(paper) == dark, "chosen or the system's, dark is one"


async def test_the_skip_link_is_the_first_stop_and_leads_to_the_content(fake: FakeApi, opened: Opened) -> None:
    page = (await opened("/")).page
    await page.keyboard.press("Tab")
    assert await page.evaluate("document.activeElement.id") == "skip"
    await page.keyboard.press("Enter")
    assert await page.evaluate("document.activeElement.id") == "main"


async def test_both_languages_have_the_same_texts_and_all_that_the_page_names() -> None:
    files = {file: file.read_text("utf-8") for file in (STATIC / "js").rglob("*.js")}
    en, zh = (
        set(re.findall(r'^  "?([\w.:-]+)"?:', files[STATIC / f"js/texts/{name}.js"], re.M)) for name in ("en", "zh")
    )
    # One form of number is enough in Chinese; words of the domain are English in English.
    wanted = {key for key in en if not key.endswith(".one") and not key.startswith("term.")}
    assert wanted - zh == set()
    assert {key for key in zh if not key.startswith("term.")} - wanted == set()
    used = {key for text in files.values() for key in re.findall(r'\bt\("([\w.]+\w)"[,)]', text)}
    assert len(used) > 400 and {key for key in used if not {key, f"{key}.other"} & en} == set()


MARKDOWN = [
    ("# a\n### b", "<h3>a</h3><h5>b</h5>"),
    ("**b** *i* `c*d*` \\*x\\*", "<p><strong>b</strong> <em>i</em> <code>c*d*</code> *x*</p>"),
    ("snake_case_name and 2 * 3 * 4", "<p>snake_case_name and 2 * 3 * 4</p>"),
    ("- a\n  - b\n- c\n\n1. d\n2. e", "<ul><li>a<ul><li>b</li></ul></li><li>c</li></ul><ol><li>d</li><li>e</li></ol>"),
    ("> q\n> r\n\n---", "<blockquote><p>q r</p></blockquote><hr>"),
    ("```js\n**x**\n```", "<pre><code>**x**</code></pre>"),
    ("|a|b|\n|-|-:|\n|1|2|", "<div><table><thead><tr><th>a</th><th>b</th></tr></thead><tbody><tr><td>1</td><td>2</td></tr></tbody></table></div>"),
    ("a [1][2] [x] [3](https://e.example)", "<p>a {1}{2} [x] <span><a>3</a> <span>(e.example)</span></span></p>"),
    ("<b>not</b> &amp;", "<p>&lt;b&gt;not&lt;/b&gt; &amp;amp;</p>"),
    ("unclosed **bold and `code", "<p>unclosed **bold and `code</p>"),
    ("", ""),
]  # fmt: skip


async def test_markdown_becomes_elements_of_its_few_kinds(fake: FakeApi, opened: Opened) -> None:
    page = (await opened("/")).page
    made = await page.evaluate(
        """async (texts) => {
             const { markdown } = await import('/static/js/markdown.js');
             const bare = (node) => {
               if (node.nodeType === 3) return node.textContent.replace(/\\s+/g, ' ').replace(/&/g, '&amp;').replace(/</g, '&lt;').replace(/>/g, '&gt;');
               const inside = [...node.childNodes].map(bare).join('');
               const name = node.localName;
               if (name === 'bdi') return inside;
               return name === 'hr' ? '<hr>' : `<${name}>${inside}</${name}>`;
             };
             return texts.map((text) => [...markdown(text, {cite: (n) => document.createTextNode(`{${n}}`)}).childNodes].map(bare).join(''));
           }""",
        [text for text, _ in MARKDOWN],
    )
    assert made == [wanted for _, wanted in MARKDOWN]


async def test_markdown_of_any_shape_is_read_in_time_that_grows_with_its_length(fake: FakeApi, opened: Opened) -> None:
    page = (await opened("/")).page
    took = await page.evaluate(
        """async () => {
             const { markdown } = await import('/static/js/markdown.js');
             const texts = ['*', '[', '`', '_a', '> ', '- ', '![](', '**a ', '|-', '\\n'].map((part) => part.repeat(100_000));
             const began = performance.now();
             for (const text of texts) markdown(text);
             return performance.now() - began;
           }"""
    )
    assert took < 60_000, "quadratic or worse: it would take hours"
