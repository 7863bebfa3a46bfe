"""Amounts as plain numbers: scales of zh and en, amounts of several parts, and what a model states beside a unit."""

from __future__ import annotations

import pytest

from agents.evidence.amounts import Amounts, stated
from agents.text.matching import fold_han


def given(text: str) -> set[float]:
    return set(Amounts(fold_han(text).lower()).given)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("被盗 9亿1,400万 日元", 914_000_000),
        ("被盗 9億1400万円", 914_000_000),
        ("约 9 亿 1,400 万日元", 914_000_000),
        ("融资 1万2千 美元", 12_000),
        ("买入 3万5000 枚 BTC", 35_000),
        ("3亿零500万美元", 305_000_000),
        ("1万亿2000亿日元", 1_200_000_000_000),
        ("罚款 2千万美元", 20_000_000),
        ("损失 5百万美元", 5_000_000),
        ("市值 3千亿美元", 300_000_000_000),
    ],
)
def test_an_amount_of_several_parts_is_one_number(text, value):
    assert given(text) == {value}


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("约 40 万枚 ETH 被转出,约 14.6 亿美元", {400_000, 1_460_000_000}),
        ("3.2亿,1400万", {320_000_000, 14_000_000}),
        ("1400万9亿", {14_000_000, 900_000_000}),
        ("2万 5万", {20_000, 50_000}),
        ("5万2024年", {50_000}),
        ("1亿 2025 年", {100_000_000}),
        ("more than $1.4B, not $200M", {1_400_000_000}),
        ("173,600 ETH and 25.5M USDC", {173_600, 25_500_000}),
        ("1" * 400 + " and $" + "9" * 400, set()),
        ("up 12% in 2024, 300 staff", set()),
    ],
)
def test_amounts_that_stand_apart_stay_apart(text, values):
    assert given(text) == values


@pytest.mark.parametrize(
    ("value", "unit", "plain"),
    [
        (9.14, "亿美元", (914_000_000, "美元")),
        (32, "百万美元", (32_000_000, "美元")),
        (100, "million USD", (100_000_000, "USD")),
        (1.5, "USD billion", (1_500_000_000, "USD")),
        (250, "K", (250_000, "")),
        (40, "萬枚 ETH", (400_000, "枚 ETH")),
        (5000, "ETH", (5000, "ETH")),
        (7, "BTC", (7, "BTC")),
        (12, "%", (12, "%")),
    ],
)
def test_a_figure_beside_its_unit_becomes_one_plain_number(value, unit, plain):
    assert stated(value, unit) == plain
