"""What figures and agents are called: in answers and on the page alike."""

from __future__ import annotations

from pathlib import Path

import pytest

import newsproof
from agents.analysis.blocks import EXPECTED
from agents.analysis.indicators import INDICATORS
from agents.analysis.names import NAMES, display_name


def test_every_indicator_of_an_agent_has_a_name_in_both_languages() -> None:
    assert {name for names in EXPECTED.values() for name in names} | set(INDICATORS) <= set(NAMES)


def test_a_figure_is_called_by_words() -> None:
    rows = [
        ("rsi_14", "RSI (14)", "RSI (14)"),
        ("fear_greed_index", "fear and greed", "恐惧与贪婪"),
        ("dxy_change_30d", "broad dollar index, 30 d change", "广义美元指数 30 日变化"),
        ("price_change_24h", "price, 24 h change", "价格 24 小时变化"),
        ("some_new_figure", "some new figure", "some new figure"),
    ]  # fmt: skip
    assert [
        (name, en, zh)
        for name, en, zh in rows
        if (display_name(name, zh=False), display_name(name, zh=True)) != (en, zh)
    ] == []


@pytest.mark.parametrize(("language", "n"), [("en", 0), ("zh", 1)])
def test_the_page_calls_them_the_same(language: str, n: int) -> None:
    texts = (Path(newsproof.__file__).parent / f"web/static/js/texts/{language}.js").read_text("utf-8")
    other = {"macro"}  # on the page also a type of event
    assert [
        name for name, words in NAMES.items() if f'"term.{name}": "{words[n]}"' not in texts and name not in other
    ] == []
