"""What the word rules alone take for a page that carries the claim; the default is unrelated."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from agents.evidence import Claim, assess
from agents.evidence.witnesses import check_pages, judge_evidence
from agents.tables import load_tables
from schemas.config import Snapshot
from schemas.evidence import SearchReference, SearchResult

SNAPSHOT = Snapshot(tables=load_tables(demo=False))
NOW = datetime(2024, 6, 3, 10, tzinfo=UTC)
PRESS = "https://www.coindesk.com/a"
MORE = " Reporters waited in the afternoon and markets barely moved."


def claim(text: str, event_type: str, asset: str = "UNKNOWN", **more: Any) -> Claim:
    return Claim(text=text, language="en", event_type=event_type, asset=asset, as_of=NOW, **more)


CUT = claim("Fed cuts rates by 50 basis points", "macro")
LISTS = claim("Kraken lists LUM for spot trading", "listing", "LUM")
WILL_LIST = claim("Kraken will list LUM next week", "listing", "LUM", modality="planned")
HACK = claim("Kraken loses $85 million in a hack", "hack")
DENIED = claim("Kraken denies that it was hacked", "hack", modality="denied")


def references(of: Claim, text: str, title: str, url: str) -> tuple[SearchReference, ...]:
    page = SearchResult(title=title, url=url, domain="", snippet=text + MORE, score=0.9, published_at=NOW)
    found = assess(of, [page], query="", snapshot=SNAPSHOT).references
    assert len(found) == 1
    return found


def stance(of: Claim, text: str, *, title: str = "", url: str = PRESS) -> str:
    return references(of, text, title, url)[0].stance


@pytest.mark.parametrize(
    ("of", "text"),
    [
        (CUT, "The Federal Reserve cut rates by 50 basis points on Wednesday."),
        (CUT, "美联储周三宣布降息 50 个基点。"),
        (CUT, "聯準會與美联储週三宣布降息 50 個基點。"),
        (CUT, "The Fed lowered its target range by 50 basis points."),
        (LISTS, "Kraken lists LUM today, and trading opens at noon."),
        (LISTS, "Kraken 今日上线 LUM, 现货交易已经开放。"),
        (HACK, "Kraken was exploited on Monday, and $85 million was taken."),
        (HACK, "Kraken 遭黑客攻击, 损失 8500 万美元。"),
    ],
)
def test_a_page_carries_the_claim_in_one_sentence_that_names_the_subject_and_says_the_verb_or_a_synonym(
    of: Claim, text: str
) -> None:
    assert stance(of, text) == "supports"


@pytest.mark.parametrize(
    ("of", "text"),
    [
        (CUT, "The Federal Reserve met on Wednesday and published its minutes."),
        (CUT, "Rates were cut by 50 basis points on Wednesday, to the surprise of many."),
        (LISTS, "LUM is the talk of the town at Kraken this week."),
        (HACK, "Kraken's volumes grew on Monday in Asia and in Europe."),
        (HACK, "Hackers took $85 million from an exchange on Monday."),
    ],
)
def test_a_page_that_does_not_say_it_is_unrelated(of: Claim, text: str) -> None:
    assert stance(of, text) == "unrelated"


def test_the_subject_may_stand_in_the_sentence_before_or_in_the_title_and_no_further_away() -> None:
    assert stance(CUT, "The Federal Reserve met on Wednesday. It cut rates by 50 basis points.") == "supports"
    assert stance(CUT, "It cut rates by 50 basis points.", title="The Federal Reserve met") == "supports"
    between = "Nobody was surprised by what came out of it."
    assert stance(CUT, f"The Federal Reserve met on Wednesday. {between} It cut rates in the end.") == "unrelated"


@pytest.mark.parametrize(
    "text",
    [
        "The Federal Reserve held rates steady on Wednesday.",
        "The Federal Reserve left its rate unchanged on Wednesday.",
        "美联储周三维持利率不变。",
    ],
)
def test_held_is_not_cut(text: str) -> None:
    assert stance(CUT, text) == "denies"


def test_raised_is_not_cut() -> None:
    assert stance(CUT, "The Federal Reserve raised rates on Wednesday.") == "unrelated"


@pytest.mark.parametrize(
    "text",
    [
        "The Federal Reserve did not cut rates on Wednesday.",
        "The Federal Reserve never said that it would cut rates.",
        "Did the Federal Reserve cut rates on Wednesday?",
        "美联储周三未降息。",
        "美联储没有降息 50 个基点。",
    ],
)
def test_a_negated_or_asked_sentence_carries_nothing(text: str) -> None:
    assert stance(CUT, text) in {"unrelated", "denies"}


@pytest.mark.parametrize(
    "text",
    [
        "Binance lost $85 million in a hack on Monday. Kraken was spared.",
        "Kraken and Binance lost $85 million in a hack on Monday.",
        "Kraken and OKX lost $85 million in a hack on Monday.",
        "Kraken lost $85 million in a hack on Monday and $PEPE fell.",
    ],
)
def test_a_sentence_with_another_listed_entity_or_ticker_carries_nothing(text: str) -> None:
    assert stance(HACK, text) == "unrelated"


def test_those_who_report_or_are_told_of_it_make_it_no_other_event() -> None:
    assert stance(HACK, "Kraken lost $85 million in a hack, CoinDesk reported on Monday.") == "supports"
    assert stance(HACK, "Kraken told the SEC that it lost $85 million in a hack.") == "supports"


def test_a_page_about_another_ticker_is_of_another_event() -> None:
    assert stance(LISTS, "Kraken lists the token today (PEPE), and LUM holders hope to be next.") == "unrelated"
    assert stance(LISTS, "Kraken lists the token today (LUM), and LUM trading opens.") == "supports"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Kraken lost $82 million in a hack on Monday.", "supports"),
        ("Kraken 遭黑客攻击, 损失 8500 万美元。", "supports"),
        ("Kraken was hacked on Monday.", "supports"),
        ("Kraken lost $76 million in a hack on Monday.", "hedges"),
        ("Kraken lost $1.4 billion in a hack on Monday.", "hedges"),
        ("Kraken 遭黑客攻击, 损失 850 万美元。", "hedges"),
    ],
)
def test_an_amount_that_differs_by_more_than_a_tenth_hedges(text: str, expected: str) -> None:
    assert stance(HACK, text) == expected


def test_a_tenth_is_one_of_the_claimed_amount() -> None:
    bought = claim("Tesla bought 3,000 bitcoin", "whale", "BTC")
    assert stance(bought, "Tesla bought 3,290 bitcoin on Monday.") == "supports"
    assert stance(bought, "Tesla bought 3,320 bitcoin on Monday.") == "hedges"


@pytest.mark.parametrize(
    "text",
    [
        "LUM was listed today, and trading opened at noon.",
        "Binance lists LUM today, and trading opens at noon.",
        "Kraken lists PEPE today, and trading opens at noon.",
    ],
)
def test_a_listing_is_carried_only_where_both_the_asset_and_the_venue_are_named(text: str) -> None:
    assert stance(LISTS, text) == "unrelated"


def test_on_its_own_page_the_venue_need_not_name_itself_but_the_asset() -> None:
    own = "https://www.kraken.com/x"
    assert stance(LISTS, "LUM is listed today, and trading opens at noon.", url=own) == "supports"
    assert stance(LISTS, "PEPE is listed today, and trading opens at noon.", url=own) == "unrelated"
    fed = "https://www.federalreserve.gov/x"
    assert stance(CUT, "The Committee decided to lower the target range.", url=fed) == "supports"


@pytest.mark.parametrize(
    ("of", "text", "expected"),
    [
        (LISTS, "Kraken will list LUM next week, and trading opens on Monday.", "hedges"),
        (LISTS, "Kraken plans to list LUM and has it on its roadmap.", "hedges"),
        (LISTS, "Kraken 计划上线 LUM。", "hedges"),
        (WILL_LIST, "Kraken will list LUM next week.", "supports"),
        (WILL_LIST, "Kraken lists LUM today, and trading opens at noon.", "supports"),
        (CUT, "The Federal Reserve is expected to cut rates by 50 basis points.", "hedges"),
        (CUT, "The Federal Reserve may cut rates by 50 basis points on Wednesday.", "hedges"),
        (CUT, "美联储可能降息 50 个基点。", "hedges"),
        (HACK, "Kraken was purportedly hacked on Monday.", "hedges"),
        (HACK, "网传 Kraken 遭黑客攻击, 损失 8500 万美元。", "hedges"),
    ],
)
def test_a_plan_or_a_hedge_is_not_the_fact(of: Claim, text: str, expected: str) -> None:
    assert stance(of, text) == expected


@pytest.mark.parametrize(
    ("news", "text", "expected"),
    [
        (
            "Celsius pauses all withdrawals, swaps and transfers",
            "Celsius plans faster swaps and transfers.",
            "unrelated",
        ),
        ("Celsius pauses all withdrawals, swaps and transfers", "Celsius is pausing all withdrawals.", "supports"),
        ("Celsius transfers 5,000 BTC to an exchange", "Celsius transferred 5,000 BTC on Monday.", "supports"),
        ("中国人民银行发布通知:相关业务属于非法金融活动", "中国人民银行发布通知,优化支付服务。", "unrelated"),
        ("中国人民银行发布通知:相关业务属于非法金融活动", "中国人民银行称相关业务属于非法金融活动。", "supports"),
        ("Circle 发布新版钱包", "Circle 今日发布新版钱包。", "supports"),
        ("Kraken completes the purchase of a bank", "Kraken completed the purchase on Monday.", "supports"),
        ("The Kraken law takes effect", "The law on Kraken came into force on Monday.", "supports"),
        ("Court sides with Kraken against a bank", "The court ruled in its case against Kraken.", "supports"),
        ("Kraken 储备存放于一家银行", "Kraken 的储备仍存于该银行。", "supports"),
        ("Kraken wins a case in court", "Kraken trades coins for the Korean won.", "unrelated"),
    ],
)
def test_the_verb_is_carried_and_no_noun_that_is_spelled_like_it(news: str, text: str, expected: str) -> None:
    assert stance(claim(news, "other"), text) == expected


def test_one_sentence_that_states_it_outweighs_one_that_hedges() -> None:
    text = "Kraken may have been hacked on Monday. Kraken was hacked, its chief confirmed later."
    assert stance(HACK, text) == "supports"


def test_a_page_that_the_grammar_reads_as_a_denial_denies() -> None:
    assert stance(LISTS, "Kraken denied that it will list LUM on its spot market this week.") == "denies"
    assert stance(HACK, "Kraken was not hacked on Monday, its chief said.") == "denies"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Kraken denied on Monday that it had been hacked.", "supports"),
        ("Kraken was hacked on Monday and lost much.", "unrelated"),
        ("Binance denied that it was hacked on Monday.", "unrelated"),
    ],
)
def test_news_that_denies_is_carried_by_the_same_denial_of_the_same_subject(text: str, expected: str) -> None:
    assert stance(DENIED, text) == expected


def test_words_confirm_by_an_official_page_that_carries_and_by_nothing_else() -> None:
    def verdict(*pages: tuple[str, str]) -> str:
        found = [
            SearchResult(title="", url=u, domain="", snippet=t + MORE, score=0.9, published_at=NOW) for u, t in pages
        ]
        kept = assess(LISTS, found, query="", snapshot=SNAPSHOT).references
        return judge_evidence(LISTS, check_pages(LISTS, kept, None, SNAPSHOT), snapshot=SNAPSHOT, by_words=True).verdict

    own = ("https://www.kraken.com/x", "LUM is listed today, and trading opens at noon.")
    other = ("https://www.kraken.com/x", "Our offices are closed today, and mail will be answered tomorrow.")
    reports = (
        (PRESS, "Kraken lists LUM today, and trading opens at noon."),
        ("https://www.reuters.com/b", "The token LUM was added by Kraken, which now has three hundred pairs."),
        ("https://decrypt.co/c", "LUM soars as Kraken lists it, with buyers in Europe and in Asia alike."),
    )
    assert verdict(own) == "confirmed"
    assert verdict(*reports) == "likely"
    assert verdict(other, *reports) == "likely"
    assert verdict(other) == "unconfirmed"


HIKE = claim("The Bank of England raises rates by 25 basis points", "macro")


@pytest.mark.parametrize(
    ("of", "text"),
    [
        (CUT, "The Federal Reserve left rates unchanged on Wednesday, as most had thought."),
        (CUT, "美联储周三宣布维持利率于 5.25%, 下一次会议在七月。"),
        (HIKE, "The Bank of England held rates at 4% on Thursday by seven votes to two."),
    ],
)
def test_a_rate_that_is_held_was_neither_cut_nor_raised(of: Claim, text: str) -> None:
    assert stance(of, text) == "denies"


def test_a_rate_held_before_the_cut_or_held_only_in_a_forecast_denies_nothing() -> None:
    assert stance(CUT, "The Fed cut rates on Wednesday. It had held rates at five meetings in a row.") == "supports"
    assert stance(CUT, "The Fed is expected to leave the rate unchanged, economists say.") != "denies"


BUYS = claim("Tesla buys another 4,000 bitcoin", "whale", "BTC")
DROP = claim("Jupiter opens a second JUP airdrop", "airdrop", "JUP")


@pytest.mark.parametrize(
    ("of", "text"),
    [
        (BUYS, "Tesla neither bought nor sold any bitcoin in the quarter, its report says."),
        (BUYS, "Tesla is not buying bitcoin this year, its treasurer told analysts."),
        (BUYS, "链上余额与上月一致, 特斯拉没有新的买入。"),
        (DROP, "Readers asked about a Jupiter airdrop. The account that announced it is not ours."),
        (DROP, "Jupiter said on Friday that reports of another JUP airdrop were false."),
    ],
)
def test_a_denial_in_the_sentence_of_the_verb_or_after_a_question_is_one(of: Claim, text: str) -> None:
    assert stance(of, text) == "denies"


VOTE = claim("Aave DAO: proposal passed to pay AAVE stakers", "governance", "AAVE")
STAYS = claim("Jesse Powell will step down as chairman of Kraken", "other")
PACT = claim("Kraken 与三菱银行签署合作协议", "partnership")
HALTS = claim("Kraken 暂停提币", "product")


@pytest.mark.parametrize(
    ("of", "text"),
    [
        (VOTE, "Voting is open for the Aave stakers until Sunday."),
        (VOTE, "The proposal of the Aave DAO was voted down on Sunday."),
        (STAYS, "Powell told the staff of Kraken that he is not going anywhere."),
        (PACT, "三菱银行一位高管表示, 与 Kraken 没有签约。"),
        (HALTS, "Kraken 昨日共处理提币 8 万笔, 平均用时三分钟。"),
    ],
)
def test_what_rules_the_claim_out_is_a_denial(of: Claim, text: str) -> None:
    assert stance(of, text) == "denies"


FROZEN = claim("Kraken freezes 40 accounts", "other")
CHARGED = claim("Kraken founder arrested, SEC sues", "regulation")


@pytest.mark.parametrize(
    ("of", "text"),
    [
        (HACK, "Kraken 遭黑客攻击, 此事并非乌龙。"),
        (FROZEN, "Kraken 冻结 40 个账户, 其主人利用虚假消息拉高价格。"),
        (CHARGED, "Kraken 创始人周一被捕, 其律师否认全部指控。"),
    ],
)
def test_a_denied_denial_a_forger_s_method_and_a_plea_deny_nothing(of: Claim, text: str) -> None:
    assert stance(of, text) == "supports"


def test_what_is_still_suspended_has_not_resumed() -> None:
    resumes = claim("Kraken has resumed LUM withdrawals", "product", "LUM")
    assert stance(resumes, "Withdrawals of LUM at Kraken remain suspended until the network is stable.") == "denies"
    assert stance(resumes, "Kraken 的 LUM 提币目前仍处于暂停状态。") == "denies"
    assert stance(resumes, "Kraken resumed LUM withdrawals at noon. Those of SOL remain suspended.") == "supports"


def test_there_is_no_such_thing_denies_only_what_is_claimed_of_the_party() -> None:
    urges = claim("Kraken urges users to install wallet patch 4.2", "other")
    assert stance(urges, "There is no Kraken wallet patch. Do not install what the mail links to.") == "denies"
    assert stance(urges, "There is no Kraken office in Wyoming, its spokesman told the paper.") != "denies"


def test_a_page_that_tells_the_claim_in_a_synonym_denies_only_the_other_matter() -> None:
    text = "The Fed cut rates by 50 basis points. Its chair denied speculation about an early retirement."
    assert stance(CUT, text) == "supports"


@pytest.mark.parametrize(
    ("text", "url", "wanted"),
    [
        ("Kraken will list LUM on Friday.", "https://blog.kraken.com/lum", "supports"),
        ("Kraken will list LUM on Friday.", PRESS, "hedges"),
        ("Kraken may list LUM on Friday.", "https://blog.kraken.com/lum", "hedges"),
    ],
    ids=["announced", "reported", "hedged"],
)
def test_a_party_that_will_list_something_announces_it(text: str, url: str, wanted: str) -> None:
    assert stance(LISTS, text, url=url) == wanted
