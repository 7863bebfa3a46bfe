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
