"""Amounts as plain numbers: scales of zh and en, amounts of several parts, and what a model states beside a unit."""

from __future__ import annotations

import time

import pytest

from agents.evidence.passages import folded
from agents.text.amounts import Amounts, Figure, differing, figures, main_figures, stated
from agents.text.matching import fold_han


def given(text: str) -> set[float]:
    return set(Amounts(fold_han(text).lower()).given)


def test_an_amount_of_several_parts_is_one_number():
    rows = [
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
    ]
    assert [(text, value) for text, value in rows if given(text) != {value}] == []


def test_amounts_that_stand_apart_stay_apart():
    expected = {
        "约 40 万枚 ETH 被转出,约 14.6 亿美元": {400_000, 1_460_000_000},
        "3.2亿,1400万": {320_000_000, 14_000_000},
        "1400万9亿": {14_000_000, 900_000_000},
        "2万 5万": {20_000, 50_000},
        "5万2024年": {50_000},
        "1亿 2025 年": {100_000_000},
        "more than $1.4B, not $200M": {1_400_000_000},
        "173,600 ETH and 25.5M USDC": {173_600, 25_500_000},
        "1" * 400 + " and $" + "9" * 400: set(),
        "up 12% in 2024, 300 staff": set(),
    }
    assert {text: given(text) for text in expected} == expected


def test_a_figure_beside_its_unit_becomes_one_plain_number():
    expected = {
        (9.14, "亿美元"): (914_000_000, "美元"),
        (32, "百万美元"): (32_000_000, "美元"),
        (100, "million USD"): (100_000_000, "USD"),
        (1.5, "USD billion"): (1_500_000_000, "USD"),
        (250, "K"): (250_000, ""),
        (40, "萬枚 ETH"): (400_000, "枚 ETH"),
        (5000, "ETH"): (5000, "ETH"),
        (7, "BTC"): (7, "BTC"),
        (12, "%"): (12, "%"),
    }
    assert {(value, unit): stated(value, unit) for value, unit in expected} == expected


def found(text: str) -> list[tuple[float, float, str]]:
    return [(f.low, f.high, f.unit) for f in figures(folded(text))]


@pytest.mark.parametrize(
    ("text", "low", "high", "unit"),
    [
        ("$3 million", 3e6, 3e6, "usd"),
        ("300万美元", 3e6, 3e6, "usd"),
        ("三百万美元", 3e6, 3e6, "usd"),
        ("three million dollars", 3e6, 3e6, "usd"),
        ("three hundred million dollars", 3e8, 3e8, "usd"),
        ("half a billion dollars", 5e8, 5e8, "usd"),
        ("3M USDC", 3e6, 3e6, "usd"),
        ("HK$3 million", 3e6, 3e6, "hk"),
        ("€3bn", 3e9, 3e9, "€"),
        ("580億円", 5.8e10, 5.8e10, "jpy"),
        ("300억 원", 3e10, 3e10, "krw"),
        ("130 bitcoins", 130, 130, "btc"),
        ("3万枚以太坊", 3e4, 3e4, "eth"),
        ("40 million PEPE", 4e7, 4e7, "pepe"),
        ("2,000 HYPE", 2e3, 2e3, "hype"),
        ("1.2 million users", 1.2e6, 1.2e6, "people"),
        ("a 12 % stake", 12, 12, "%"),
        ("25 bps", 25, 25, "bp"),
        ("a 1/4 percentage point", 25, 25, "bp"),
        ("3-1/2 to 3-3/4 percent", 3.5, 3.75, "%"),
        ("more than $40M", 4e7, 6e7, "usd"),
        ("逾4000万美元", 4e7, 6e7, "usd"),
        ("4000多万美元", 4e7, 6e7, "usd"),
        ("8億ドル超", 8e8, 1.2e9, "usd"),
        ("至少 4000 万美元", 4e7, 6e7, "usd"),
        ("nearly $40M", 4e7, 4e7, "usd"),
        ("up to $60M", 4e7, 6e7, "usd"),
        ("$30-40 million", 3e7, 4e7, "usd"),
        ("30 to 40 million dollars", 3e7, 4e7, "usd"),
        ("between $30 million and $40 million", 3e7, 4e7, "usd"),
        ("3000万至4000万美元", 3e7, 4e7, "usd"),
    ],
)
def test_a_figure_has_a_unit_and_the_range_that_its_words_leave_open(text, low, high, unit):
    ((least, most, of),) = found(f"It lost {text} on Monday" if text.isascii() else text)
    assert (least, most, of) == (pytest.approx(low), pytest.approx(high), unit)


@pytest.mark.security
@pytest.mark.parametrize(
    ("text", "low", "high", "unit"),
    [
        ("no more than $60M", 4e7, 6e7, "usd"),
        ("not more than $60M", 4e7, 6e7, "usd"),
        ("a loss that does not exceed $60M", 4e7, 6e7, "usd"),
        ("不超过60万美元", 4e5, 6e5, "usd"),
        ("no less than $40M", 4e7, 6e7, "usd"),
        ("not less than $40M", 4e7, 6e7, "usd"),
        ("不低于40万美元", 4e5, 6e5, "usd"),
        ("USD 4 million", 4e6, 4e6, "usd"),
        ("EUR 4 million", 4e6, 4e6, "€"),
        ("EUR4 million", 4e6, 4e6, "€"),
        ("HKD 4 million", 4e6, 4e6, "hk"),
        ("$500 million Bitcoin", 5e8, 5e8, "usd"),
        ("$500 million BTC", 5e8, 5e8, "usd"),
        ("$40 million HKD", 4e7, 4e7, "hk"),
        ("¥40亿日元", 4e9, 4e9, "jpy"),
        ("$5MM", 5e6, 5e6, "usd"),
        ("$5 mil", 5e6, 5e6, "usd"),
        ("a quarter of a billion dollars", 2.5e8, 2.5e8, "usd"),
        ("three quarters of a billion dollars", 7.5e8, 7.5e8, "usd"),
        ("3½ percent", 3.5, 3.5, "%"),
        ("½ percent", 0.5, 0.5, "%"),
        ("a quarter point", 25, 25, "bp"),
        ("a half-point cut", 50, 50, "bp"),
        ("half a percentage point", 50, 50, "bp"),
        ("three-quarters of a point", 75, 75, "bp"),
        ("半个百分点", 50, 50, "bp"),
        ("三成五", 35, 35, "%"),
        ("四分之一个百分点", 25, 25, "bp"),
        ("裁员两成", 20, 20, "%"),
        ("$8.5 mln", 8.5e6, 8.5e6, "usd"),
        ("8.5 mio. USD", 8.5e6, 8.5e6, "usd"),
        ("$8.5 bln", 8.5e9, 8.5e9, "usd"),
        ("十亿美元", 1e9, 1e9, "usd"),
        ("十二亿美元", 1.2e9, 1.2e9, "usd"),
        ("千万美元级", 1e7, 9e7, "usd"),
        ("上亿美元", 1e8, 9e8, "usd"),
        ("数千万美元", 2e7, 9e7, "usd"),
        ("几十亿美元", 2e9, 9e9, "usd"),
        ("hundreds of millions of dollars", 2e8, 9e8, "usd"),
        ("tens of thousands of BTC", 2e4, 9e4, "btc"),
    ],
)
def test_a_figure_is_read_as_a_hostile_reader_would_write_it(text, low, high, unit):
    ((least, most, of),) = found(text)
    assert (least, most, of) == (pytest.approx(low), pytest.approx(high), unit)


@pytest.mark.parametrize(
    "text",
    [
        "in 2024 the", "千万不要", "第二成员", "两成功", "一成不变", "唯一成了", "third quarter points to strong growth",
        "one and a half percentage points", "600 million in all", "for 24 hours", "not $300M", "Section 12", "0 BTC",
        "3 banks",
    ],
)  # fmt: skip
def test_a_number_without_a_unit_or_a_rejected_one_is_no_figure(text):
    assert found(text) == []


def test_figures_of_one_unit_are_compared_and_one_that_agrees_is_enough():
    expected = {
        ("$40M", "$44M"): False,
        ("$42M", "$47M"): True,
        ("$100M", "$114M"): False,
        ("$100M", "$120M"): True,
        ("$300 million", "300万美元"): True,
        ("more than $40M", "$60M"): False,
        ("more than $40M", "$65M"): False,
        ("more than $40M", "$70M"): True,
        ("$61M", "more than $40M"): True,
        ("more than $40M", "$37M"): False,
        ("more than $40M", "more than $60M"): False,
        ("up to $60M", "$39M"): True,
        ("up to $60M", "$65M"): False,
        ("逾4000万美元", "7000万美元"): True,
        ("more than $40M", "$30M"): True,
        ("$35M", "3000万至4000万美元"): False,
        ("$55M", "3000万至4000万美元"): True,
        ("$40M", "12,000 ETH"): False,
        ("$40M", "12,000 ETH worth $41M"): False,
        ("130 BTC for $12M", "$12.1M of bitcoin"): False,
        ("raises $50M", "closed its round at a $2 billion valuation"): False,
        ("融资5000万美元", "本轮估值20亿美元"): False,
        ("valued at $50 billion", "valued at $5 billion"): True,
        ("$300M", "taken from Kraken, $3 million in all"): True,
        ("$300M", "up from $3 million"): False,
        ("$3M", "$3 million and not the reported $300 million"): False,
        ("130 BTC for $12M", "130 bitcoins for $90M"): False,
    }
    assert {
        (claimed, told): differing(figures(folded(claimed)), figures(folded(told))) is not None
        for claimed, told in expected
    } == expected


def test_a_few_coins_are_a_figure_where_the_claim_is_of_that_coin_and_a_date_or_a_price_counts_none():
    claimed, told = figures(folded("at least 500,000 SOL")), folded("only 500 SOL were taken")
    assert figures(told) == () and differing(claimed, figures(told, frozenset({"sol"}))) is not None
    tellings = [
        "on Nov 5 SOL rose",
        "in 2025 SOL treasuries",
        "the top 5 SOL ETFs",
        "2 SOL wallets",
        "1 SOL = 0.05 BNB",
    ]
    assert [told for told in tellings if figures(folded(told), frozenset({"sol"}))] == []


def test_the_stated_amount_is_the_main_one_though_the_text_does_not_hold_it():
    both = figures(folded("130 BTC for $12M"))
    assert [f.unit for f in main_figures(both, 12e6, "USD")] == ["usd"]
    assert main_figures(both, 5e6, "USD") == (Figure(5e6, 5e6, 5e6, "usd"),)
    assert main_figures(both, None, "") == both
    assert main_figures(both, 5e6, "") == ()


@pytest.mark.parametrize(
    "part", ["1 to ", "$1-", "one million ", "1/4 percent ", "一百", "超1多万", "9亿1,400万", "not 5 btc "]
)
def test_a_hostile_sentence_is_parsed_in_time_in_proportion_to_its_length(part):
    start = time.process_time()
    figures(folded(part * (20_000 // len(part))))
    assert time.process_time() - start < 2.0
