"""The part of a page that a critic is shown."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.evidence.passages import PASSAGE, corrects_itself, passage_of
from agents.text.matching import fold_han, units

CLAIM = "Kraken loses $85 million of user funds in a hack"
NEWS = "Kraken said that hackers took user funds worth $85 million in a hack of its wallets."
FILLER = "The market was quiet on this day and volumes stayed low across all of the larger venues."


def passage(text: str, claim: str = CLAIM) -> str:
    return passage_of(text, units(fold_han(claim)))


def test_a_short_page_is_kept_whole() -> None:
    text = f"{FILLER}\n\n{NEWS}"
    assert passage(f"  {text} \n") == text
    assert passage("a" * PASSAGE) == "a" * PASSAGE
    assert passage("") == ""


@pytest.mark.parametrize("before", [0, 1, 30, 600])
def test_a_long_page_keeps_whole_sentences_around_the_one_with_most_of_the_claims_words(before: int) -> None:
    text = " ".join([*[FILLER] * before, NEWS, *[FILLER] * 600])
    found = passage(text)
    assert NEWS in found and found in text
    assert PASSAGE - len(FILLER) <= len(found) <= PASSAGE
    assert all(s in f"{FILLER} {NEWS}" for s in found.replace(". ", ".\n").split("\n"))


def test_many_weak_sentences_do_not_outweigh_the_one_that_tells_it() -> None:
    long = f"Kraken said that hackers took user funds worth $85 million in a hack, {'and it went on at length ' * 45}."
    weak = "A hack of funds. " * 70
    assert NEWS[:40] in passage(f"{long} {FILLER * 20} {weak}")


def test_a_chinese_page_is_cut_at_its_own_ends_of_sentences() -> None:
    news, filler = "币安宣布下架三种代币并停止充值。", "当日市场整体较为平静,各大平台成交量均处于较低水平!"
    text = filler * 200 + news + filler * 200
    found = passage(text, "币安将下架三种代币")
    assert news in found and len(found) <= PASSAGE
    assert found.startswith(filler) and found.endswith(filler)


def test_a_traditional_page_is_found_by_a_simplified_claim() -> None:
    news = "幣安宣佈下架三種代幣。"
    assert news in passage("當日市場平靜。" * 400 + news + "當日市場平靜。" * 400, "币安宣布下架三种代币")


def test_a_decimal_point_ends_no_sentence() -> None:
    text = f"{FILLER} " * 40 + "Kraken lost 85.3 million of user funds in a hack" + f". {FILLER}" * 40
    assert "Kraken lost 85.3 million of user funds in a hack." in passage(text)


def test_a_page_without_ends_of_sentences_is_cut_in_pieces_and_the_one_with_the_claim_is_shown() -> None:
    text = "word " * 3000 + "Kraken loses 85 million of user funds in a hack " + "word " * 3000
    found = passage(text)
    assert "Kraken" in found and len(found) <= PASSAGE and found in text


@pytest.mark.parametrize(
    "correction",
    [
        "UPDATE: the report above was incorrect.",
        "Correction: the bank held its rate.",
        "CORRECTION (3 May): no funds were lost.",
        "Editor's note: this story rests on a forged release.",
        "This article has been corrected to say that nothing was lost.",
        "An earlier version of this story said that funds were lost.",
        "The report above was incorrect.",
        "更正:此前报道的被盗金额有误。",
        "编者注:本文所引公告系伪造。",
        "編者註:本文所引公告係偽造。",
        "勘误:数字应为三百万。",
        "訂正:流出額は3億円でした。",
    ],
)
@pytest.mark.parametrize(("before", "after"), [(0, 60), (60, 0), (60, 60)])
def test_a_correction_is_in_the_passage_wherever_it_is_on_the_page(correction: str, before: int, after: int) -> None:
    text = " ".join([NEWS, *[FILLER] * before, correction, *[FILLER] * after])
    found = passage(text)
    assert corrects_itself(text)
    assert correction in found and NEWS in found and len(found) <= PASSAGE


@pytest.mark.parametrize(
    "text",
    ["Bitcoin's correction: traders buy", "Update: Coinbase adds a comment.", "以更正式的方式公布", "已要求有关机构更正,并保持联系。",
     "The court corrected the lower court.", "Prices corrected for inflation rose."],
)  # fmt: skip
def test_a_page_that_speaks_of_a_correction_does_not_correct_itself(text: str) -> None:
    assert not corrects_itself(text)


def test_corrections_without_end_leave_room_for_the_news() -> None:
    found = passage(" ".join([*(f"Correction: note {n}." for n in range(2000)), NEWS]))
    assert NEWS in found and "note 0." in found and len(found) <= PASSAGE


@given(
    st.lists(
        st.sampled_from(
            [NEWS, FILLER, "A hack. ", "币安被盗。", "x" * 1300, "\n\n", " " * 1500, "funds! ", "1.5", ";"]
        ),
        max_size=40,
    )
)
def test_a_passage_is_a_part_of_the_page_of_at_most_1200_characters(parts: list[str]) -> None:
    text = " ".join(parts)
    found = passage(text)
    assert found in text and len(found) <= PASSAGE == 1200
    assert bool(found) == bool(text.strip())


@pytest.mark.parametrize(
    "part",
    [
        "a",
        " ",
        ".",
        ". ",
        "\n",
        "。",
        "a. ",
        "; ",
        ".;",
        "a\n \n",
        "hack ",
        "币安被盗",
        "Correction: ",
        "update ",
        "update: ",
        "edit: ",
        "[retracted ",
        "更正:",
    ],
)
def test_a_page_of_64_kib_takes_time_in_proportion_to_its_length(part: str) -> None:
    text = "Kraken " + part * (64 * 1024 // len(part)) + " hack"
    start = time.process_time()
    passage(text)
    assert time.process_time() - start < 2.0


@pytest.mark.security
@pytest.mark.parametrize(
    "told",
    [
        "Update: This story is not true.",
        "UPDATE: The above is fake news",
        "EDIT: this turned out to be false",
        "RETRACTED: Kraken hacked",
        "[Retracted] Kraken hacked",
        "We have retracted this story.",
        "We regret the error.",
        "*Correction*: no money was lost.",
        "[CORRECTION] No money was lost.",
        "Correction. No money was lost.",
        "本报道已撤回。",
        "我们就错误报道致歉。",
        "此消息不实,特此更正。",
        "[更正] 资金未丢失",
        "本文已更正。",
        "消息有误,撤回。",
    ],
)
def test_a_page_takes_itself_back_in_many_words(told: str) -> None:
    assert corrects_itself(told) and corrects_itself(f"Kraken lost $85 million.\n{told}")


@pytest.mark.parametrize(
    "told",
    [
        "Market correction: bitcoin falls",
        "A price correction is due.",
        "Update: Kraken adds SOL",
        "Traders regret this week",
        "Bitcoin correction – analysts see more",
        "修正版提案",
    ],
)
def test_a_correction_of_prices_corrects_no_page(told: str) -> None:
    assert not corrects_itself(told)
