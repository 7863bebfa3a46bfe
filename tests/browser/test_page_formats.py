"""How figures, costs, changes and hostile hosts are written: the page's own modules, asked in a real browser."""

from __future__ import annotations

from typing import Any

import pytest

from tests.browser.conftest import Opened
from tests.browser.fake_api import FakeApi

pytestmark = pytest.mark.asyncio(loop_scope="session")

WRITTEN: list[tuple[str, list[Any], str]] = [
    ("figure", [0.00001234, "USD"], "0.00001234 USD"),
    ("figure", [-0.0000071], "-0.0000071"),
    ("figure", [1.5e-18], "1.500e-18"),
    ("figure", [0.98765432], "0.9877"),
    ("figure", [61.234, "%"], "61.23 %"),
    ("figure", [64000.5, "USD"], "64,001 USD"),
    ("figure", [0, "USD"], "0 USD"),
    ("figure", [-0.0], "0"),
    ("figure", [None, "USD"], "–"),
    ("usd", [4e-7], "<0.000001"),
    ("usd", [0.0000123], "0.000012"),
    ("usd", ["0"], "0"),
    ("usd", [None, "unknown"], "unknown"),
    ("usd", [12.345], "12.35"),
    ("cost", [0.5], "0.5000 USD"),
    ("cost", [0.5, 3], "at least 0.5000 USD"),
    ("cost", [0, 3], "unknown"),
    ("cost", [0], "0 USD"),
    ("cost", [None, 3], "unknown"),
    ("signed", [-0.004], "0.00"),
    ("signed", [-0.2], "−0.20"),
    ("signed", [0.1], "+0.10"),
    ("number", [-0.2], "0"),
    ("number", [-0.04, 1], "0.0"),
    ("confidence", [-0.001], "0.00"),
]


async def test_small_figures_keep_the_digits_that_matter_and_no_zero_is_negative(fake: FakeApi, opened: Opened) -> None:
    page = (await opened("/")).page
    made = await page.evaluate(
        """async (all) => {
             const formats = await import('/static/js/format.js');
             return all.map(([name, given]) => formats[name](...given));
           }""",
        [[name, given] for name, given, _ in WRITTEN],
    )
    assert made == [wanted for _, _, wanted in WRITTEN]


async def test_an_unknown_cost_is_never_nothing(fake: FakeApi, opened: Opened) -> None:
    answers = fake.report["answers"]
    spend = [{**row, "cost_usd": None, "unpriced": row["executed"]} for row in answers["spend"][:3]]
    fake.report = {**fake.report, "answers": {**answers, "spend": spend, "cost_per_signal": []}}
    page = (await opened("/analytics")).page
    await page.locator(".key-figures").wait_for()
    names = await page.locator(".key-figures dt").all_inner_texts()
    shown = dict(zip(names, await page.locator(".key-figures dd").all_inner_texts(), strict=True))
    assert (shown["Cost"], shown["Cost per signal"]) == ("unknown", "unknown")
    document = next(d for d in fake.documents.values() if len(d["calls"]) > 2)
    calls = [{**one, "cost_usd": None} for one in document["calls"]]
    for known, said in (([], "unknown"), ([{**calls[0], "cost_usd": 0.25}], "at least 0.2500 USD")):
        case_id = document["case"]["case_id"]
        fake.documents[case_id] = {**document, "calls": [*calls, *known]}
        page = (await opened(f"/case/{case_id}")).page
        await page.locator(".case-calls .hint").wait_for()
        assert f"cost {said}." in await page.locator(".case-calls .hint").inner_text()


async def test_tables_and_answers_of_any_size_become_a_page_of_bounded_size(fake: FakeApi, opened: Opened) -> None:
    page = (await opened("/")).page
    wide = "|" * 60 + "\n" + "|-" * 60 + "|\n" + "|\n" * 5_000
    tall = "|a" * 20 + "|\n" + "|-" * 20 + "|\n" + "|\n" * 5_000
    sizes = await page.evaluate(
        """async (texts) => {
             const { markdown } = await import('/static/js/markdown.js');
             return texts.map((text) => {
               const made = markdown(text);
               return [made.querySelectorAll('th, td').length, made.querySelectorAll('*').length, made.textContent.length];
             });
           }""",
        [wide, tall, tall + "\n" + tall, "word **b** " * 20_000],
    )
    assert [cells for cells, *_ in sizes] == [0, 2_000, 2_000, 0]
    assert max(elements for _, elements, _ in sizes) < 10_000
    assert sizes[-1][2] > 200_000, "what is too long is there as plain text"


async def test_what_hides_in_words_is_shown_and_a_look_alike_host_is_named(fake: FakeApi, opened: Opened) -> None:
    page = (await opened("/")).page
    shown = await page.evaluate(
        """async ([texts, addresses]) => {
             const { clean } = await import('/static/js/dom.js');
             const { markdown } = await import('/static/js/markdown.js');
             return [texts.map(clean), addresses.map((text) => markdown(text).textContent)];
           }""",
        [
            ["US\u200bDT", "a\u2060\ufeffb\u061c\u200f", "x\U000e0041", "\U0001f468\u200d\U0001f469", "a\u200db"],
            ["https://fine.example/a?b=c", "see https://\u0430pple.com/x now", "https://EXAMPLE.com/"],
        ],
    )
    assert shown == [
        [
            "US[U+200B]DT",
            "a[U+2060][U+FEFF]b[U+061C][U+200F]",
            "x[U+E0041]",
            "\U0001f468\u200d\U0001f469",
            "a[U+200D]b",
        ],
        ["https://fine.example/a?b=c", "see https://\u0430pple.com/x (xn--pple-43d.com) now", "https://EXAMPLE.com/"],
    ]
