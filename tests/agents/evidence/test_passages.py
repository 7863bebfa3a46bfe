"""The passage that a critic is shown, and the check of its quotes."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.evidence import Claim
from agents.evidence.passages import PASSAGE, corrects_itself, folded, names_any, passage_of, sentences_of
from agents.evidence.witnesses import check_pages
from agents.tables import load_tables
from agents.text.matching import fold_han, units
from schemas.config import Snapshot
from schemas.evidence import PageStance
from tests import builders

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


def test_a_chinese_page_is_cut_at_its_own_ends_of_sentences_and_found_in_either_script() -> None:
    news, filler = "币安宣布下架三种代币并停止充值。", "当日市场整体较为平静,各大平台成交量均处于较低水平!"
    text = filler * 200 + news + filler * 200
    found = passage(text, "币安将下架三种代币")
    assert news in found and len(found) <= PASSAGE
    assert found.startswith(filler) and found.endswith(filler)
    news = "幣安宣佈下架三種代幣。"
    assert news in passage("當日市場平靜。" * 400 + news + "當日市場平靜。" * 400, "币安宣布下架三种代币")


def test_a_decimal_point_ends_no_sentence_and_a_page_without_ends_is_cut_in_pieces() -> None:
    text = f"{FILLER} " * 40 + "Kraken lost 85.3 million of user funds in a hack" + f". {FILLER}" * 40
    assert "Kraken lost 85.3 million of user funds in a hack." in passage(text)
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


def test_a_page_that_speaks_of_a_correction_does_not_correct_itself() -> None:
    texts = [
        "Bitcoin's correction: traders buy", "Update: Coinbase adds a comment.", "以更正式的方式公布", "已要求有关机构更正,并保持联系。",
             "The court corrected the lower court.", "Prices corrected for inflation rose.", "Market correction: bitcoin falls",
             "A price correction is due.", "Update: Kraken adds SOL", "Traders regret this week",
             "Bitcoin correction – analysts see more", "修正版提案"
    ]  # fmt: skip
    assert [text for text in texts if corrects_itself(text)] == []


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
    ("read", "parts"),
    [
        (passage, ["a", " ", ".", ". ", "\n", "。", "a. ", "; ", ".;", "a\n \n", "hack ", "币安被盗", "Correction: ",
                   "update ", "update: ", "edit: ", "[retracted ", "更正:"]),
        (lambda text: sentences_of(text, text, text),
         ["[", "[](", "](", "a[b](c", "*_", "“", "— ", "http://", "...", "[ ..", "。", "a b "]),
    ],
    ids=["its passage", "a quote of it"],
)  # fmt: skip
def test_a_page_of_64_kib_takes_time_in_proportion_to_its_length(
    read: Callable[[str], object], parts: list[str]
) -> None:
    for part in parts:
        start = time.process_time()
        read("Kraken " + part * (64 * 1024 // len(part)) + " hack")
        assert time.process_time() - start < 2.0, part


@pytest.mark.security
@pytest.mark.parametrize(
    "told",
    [
        "Update: This story is not true.", "UPDATE: The above is fake news", "EDIT: this turned out to be false",
        "RETRACTED: Kraken hacked", "[Retracted] Kraken hacked", "We have retracted this story.",
        "We regret the error.", "*Correction*: no money was lost.", "[CORRECTION] No money was lost.",
        "Correction. No money was lost.", "本报道已撤回。", "我们就错误报道致歉。", "此消息不实,特此更正。", "[更正] 资金未丢失", "本文已更正。", "消息有误,撤回。",
    ],
)  # fmt: skip
def test_a_page_takes_itself_back_in_many_words(told: str) -> None:
    assert corrects_itself(told) and corrects_itself(f"Kraken lost $85 million.\n{told}")


SNAPSHOT = Snapshot(tables=load_tables(demo=False))
NOW = datetime(2024, 6, 3, 10, tzinfo=UTC)
EN = "Kraken, the exchange, said on Monday that it had lost $85 million. It will refund all users."
ZH = "币安宣布下架三种代币。受此影响,其价格下跌一成。"


def stands(quote: str, passage: str, title: str = "") -> bool:
    return bool(sentences_of(quote, title, passage))


def test_a_quote_stands_however_it_is_typeset() -> None:
    rows = [
        ("it had lost $85 million", EN),
        ("IT HAD LOST $85 MILLION", EN),
        ("it  had\nlost\t$85\u00a0million", EN),
        ("it had lost $85 million", EN),
        ("ffi: the office was closed", "ffi: the office was closed"),
        ("币安宣布下架三种代币", ZH),
        ("幣安宣佈下架三種代幣", ZH),
        ("币安宣布下架三种代币", "幣安宣佈下架三種代幣。"),
        ("币安 宣布 下架 三种 代币", ZH),
        ("币安将上线 LUM 现货交易", "币安将上线LUM现货交易"),
        ("she said “we were hacked” today", 'she said "we were hacked" today'),
        ("she said 'we were hacked' today", "she said «we were hacked» today"),
        ("Kraken’s wallets were drained", "Kraken's wallets were drained"),
        ("他称「资金安全无虞」", "他称“资金安全无虞”"),
        ("the hot wallet — drained", "the hot wallet - drained"),
        ("a twenty\u2011four hour outage", "a twenty-four hour outage"),
        ("the hot wallet -- drained", "the hot wallet — drained"),
        ("资金——全部——被盗走", "资金—全部—被盗走"),
        ("Kraken, an exchange, was hacked", "**Kraken**, an _exchange_, was `hacked`"),
        ("Kraken was hacked on Monday", "> ## Kraken was **hacked** on Monday"),
        ("Kraken was hacked on Monday", "Kraken was [hacked](https://x.example/a) on Monday"),
        ("Kraken was hacked on Monday", "Kraken was [hacked](https://x.example/a_(b)) on Monday"),
        ("Kraken was [hacked](https://x.example) on Monday", "Kraken was hacked on Monday"),
        ("see it here for Kraken's note", "see it here https://x.example/a for Kraken's note"),
        ("it had lost $85 million.", "it had lost $85 million and more"),
    ]
    assert [(quote, passage) for quote, passage in rows if not stands(quote, passage)] == []


def test_other_words_another_language_or_too_few_words_do_not_stand() -> None:
    rows = [
        ("it had lost $95 million", EN),
        ("it had lost some $85 million", EN),
        ("it had not lost $85 million", EN),
        ("币安宣布上架三种代币", ZH),
        ("Binance announced the delisting of three tokens", ZH),
        ("", EN),
        ("  …  ", EN),
        ("lost $85 mi", EN),
        ("下架三种代", ZH),
    ]
    assert [(quote, passage) for quote, passage in rows if stands(quote, passage)] == []


@pytest.mark.parametrize(
    ("characters", "passage"), [(12, "abcdefghijklmnopqrstuvwxyz"), (6, "甲乙丙丁戊己庚辛壬癸子丑")]
)
def test_a_quote_has_twelve_characters_or_six_in_chinese(characters: int, passage: str) -> None:
    assert stands(passage[:characters], passage)
    assert not stands(passage[: characters - 1], passage)


@pytest.mark.parametrize("cut", ["…", "...", " [...] ", "[…]", "……"])
def test_the_parts_of_a_cut_quote_stand_in_their_order_and_are_each_long_enough(cut: str) -> None:
    assert stands(f"Kraken, the exchange{cut}it had lost $85 million", EN)
    assert stands(f"Kraken, the exchange{cut}", EN)
    assert not stands(f"it had lost $85 million{cut}Kraken, the exchange", EN)
    assert not stands(f"it had lost $85 million{cut}it had lost $85 million", EN)
    assert not stands(f"Kraken, the exchange{cut}million", EN)


def test_a_quote_stands_in_the_title_or_in_the_passage_and_never_across() -> None:
    title, passage = "Kraken was hacked on Monday", "The exchange lost $85 million."
    assert stands("was hacked on Monday", passage, title)
    assert not stands("was hacked on Monday The exchange lost", passage, title)
    assert not stands("was hacked on Monday … The exchange lost", passage, title)


def test_the_sentences_around_a_quote_are_found_whole() -> None:
    assert sentences_of("it had lost $85 million", "", EN)[0].startswith("kraken, the exchange, said")
    assert sentences_of("will refund all users", "", EN) == ["it will refund all users."]
    assert sentences_of("宣布下架三种代币", "", ZH) == ["币安宣布下架三种代币。"]
    both = sentences_of("it had lost $85 million … refund all users", "", EN)
    assert [s.split()[-1] for s in both] == ["million.", "users."]


def test_a_name_is_a_whole_word_in_latin_and_any_run_in_chinese() -> None:
    assert names_any("kraken was hacked", {"kraken"})
    assert not names_any("krakenfans were angry", {"kraken"})
    assert names_any("昨日币安宣布", {"币安"})
    assert names_any("it lost $85 million", (), frozenset({85e6}))
    assert not names_any("it lost $86.9 million", (), frozenset({85e6}))


LOSS = "Kraken loses $85 million of user funds in a hack"


def about(quote: str, passage: str, title: str = "", claim: str = LOSS, asset: str = "UNKNOWN", **marks: bool) -> bool:
    of = Claim(text=claim, language="en", event_type="hack", asset=asset, as_of=NOW)
    page = builders.reference(1, passage, title=title, source_credibility="high", **marks)
    said = PageStance(reference_number=1, stance="supports", quote=quote)
    return check_pages(of, [page], [said], SNAPSHOT)[0].stance == "supports"


@pytest.mark.parametrize(
    ("quote", "passage"),
    [
        ("Kraken was drained", "On Monday Kraken was drained."),
        ("the wallets were drained", "At Kraken the wallets were drained."),
        ("$85 million was moved away", "In one hour $85 million was moved away."),
        ("85,000,000 dollars were moved", "In one hour 85,000,000 dollars were moved."),
        ("Payward was breached on Monday", "Payward was breached on Monday."),
    ],
)
def test_the_quote_or_its_sentence_names_the_subject_or_the_amount(quote: str, passage: str) -> None:
    assert about(quote, passage)
    assert not about("a vault was emptied", f"{passage} Then a vault was emptied.")


def test_the_quote_may_name_the_asset_in_another_language() -> None:
    claim = {"claim": "某地址转出大量以太坊", "asset": "ETH"}
    assert about("Ethereum was moved away", "A lot of Ethereum was moved away.", **claim)
    assert about("大量以太币被转走", "大量以太币被转走。", **claim)
    assert not about("大量比特币被转走", "大量比特币被转走。", **claim)


def test_on_an_official_page_the_quote_need_not_name_the_subject() -> None:
    told = "We were attacked on Monday, and users will be made whole."
    assert about("We were attacked on Monday", told, official=True)
    assert not about("We were attacked on Monday", told)


@pytest.mark.parametrize("other", ["Binance", "OKX", "Circle", "币安"])
def test_a_page_whose_title_names_the_subject_goes_on_until_it_names_somebody_else(other: str) -> None:
    title = f"Kraken and {other} after the weekend"
    assert about("It was attacked on Monday", "It was attacked on Monday, officers said.", title)
    assert not about("was attacked on Monday", f"{other} was attacked on Monday, officers said.", title)
    assert not about("It was attacked on Monday", "It was attacked on Monday, officers said.", f"{other} today")


def test_a_common_word_that_is_also_a_name_is_nobody_else() -> None:
    assert about("It was drained near midnight", "It was drained near midnight in a sec.", "Kraken hacked")


@given(st.text(max_size=80), st.text(max_size=80))
def test_any_quote_and_page_are_compared_without_an_error(quote: str, page: str) -> None:
    assert folded(folded(page)) == folded(folded(folded(page)))
    assert isinstance(sentences_of(quote, page, page), list)


def test_a_percentage_is_an_amount_and_more_than_is_a_bound() -> None:
    expected = {
        ("Riksbank lowers its rate to 2.25%", "borrowing now costs 2.25 percent a year"): True,
        ("Riksbank lowers its rate to 2.25%", "borrowing now costs 2.5 percent a year"): False,
        ("Riksbank lowers its rate to 2.25%", "borrowing now costs 12.25 percent a year"): False,
        ("More than $300 million stolen", "the thieves moved $340 million at night"): True,
        ("More than $300 million stolen", "the thieves moved $290 million at night"): False,
        ("More than $300 million stolen", "the thieves moved $800 million at night"): False,
        ("$300 million stolen", "the thieves moved $340 million at night"): False,
    }
    assert {(claim, quote): about(quote, f"At last {quote}.", claim=claim) for claim, quote in expected} == expected
