"""Which numbers of an agent's words stand in no figure it was given."""

from __future__ import annotations

from agents.analysis.numbers import unsupported_numbers

FIGURES = (61_873.4, -3.21, 41.53, 1.234e9, 0.62, 4.33)


def test_a_figure_may_be_rounded_scaled_and_written_in_many_ways():
    texts = [
        "BTC trades at $61,873, or 61873.4",
        "about 62,000, roughly $61.9k",
        "down 3.2% over the day, 3% all in all",
        "RSI-14 is 41.5 and RSI(14) = 42",
        "a market of 1.23 billion, $1.2B, 12.3亿",
        "报 6.19 万美元,跌 3.2%,RSI(14)为 41.5",
        "a share of 62%",
        "4.33%, that is 433 bps",
    ]
    assert [text for text in texts if unsupported_numbers(text, FIGURES) != ()] == []


def test_dates_periods_names_citations_and_counts_are_no_figures():
    texts = [
        "over 24h, 7 days, the 200-day average, 10-year yields, 近7天, 24小时内, 未来3个月, 5–10 days",
        "on 2025-11-22 at 14:05 UTC, on Nov 22, 2025, 22 November, in 2024, 2025年11月22日, 3月5日, Q3, 24/7",
        "EMA20, EMA-50, MACD(12, 26, 9), RSI (14), M2, ERC-20, web3",
        "as [1] and [2][13] say",
        "1. first\n2. second\n12) twelfth",
        "3 of 5 indicators agree, 2 agents failed",
        "the 2nd test of it",
    ]
    assert [text for text in texts if unsupported_numbers(text, ()) != ()] == []


def test_what_no_figure_supports_is_named_as_it_is_written():
    expected = {
        "it may reach $75,000": ("$75,000",),
        "support at 60,000": ("60,000",),
        "inflation of 2.9%": ("2.9%",),
        "市值 2.1 万亿,目标价 8 万": ("2.1 万亿", "8 万"),
        "fear and greed stands at 9": ("9",),
        "an ETH price of 2000, again 2000": ("2000",),
        "rate at 5.50": ("5.50",),
    }
    assert {text: unsupported_numbers(text, FIGURES) for text in expected} == expected


def test_more_digits_than_the_figure_has_are_not_supported():
    assert unsupported_numbers("61,873.9", (61_873.4,)) == ("61,873.9",)
    assert unsupported_numbers("RSI at 41.49", (41.53,)) == ("41.49",)


def test_numbers_of_given_words_count_as_given_and_marks_of_a_scale_support_a_bare_number_alone():
    assert unsupported_numbers("will it see $100k?", (), texts=("Will BTC see 100,000 dollars?",)) == ()
    assert unsupported_numbers("above 70 is overbought", (), scales=(70,)) == ()
    assert unsupported_numbers("up 70%, $70", (), scales=(70,)) == ("70%", "$70")


def test_no_more_than_twelve_are_listed_and_long_texts_are_read_in_a_moment():
    assert len(unsupported_numbers(" ".join(f"{n}.5" for n in range(100, 200)), ())) == 12
    assert unsupported_numbers("a" * 40_000 + "-" * 40_000 + "1_" * 10_000, (1,)) == ()
