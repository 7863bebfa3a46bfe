"""What the word rules alone take for a page that carries the claim; the default is unrelated."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from agents.evidence import Claim, assess
from agents.evidence.witnesses import check_pages, judge_evidence
from agents.tables import load_tables
from schemas.config import Snapshot
from schemas.evidence import SearchReference
from tests import builders

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
HIKE = claim("The Bank of England raises rates by 25 basis points", "macro")
BUYS = claim("Tesla buys another 4,000 bitcoin", "whale", "BTC")
DROP = claim("Jupiter opens a second JUP airdrop", "airdrop", "JUP")
VOTE = claim("Aave DAO: proposal passed to pay AAVE stakers", "governance", "AAVE")
STAYS = claim("Jesse Powell will step down as chairman of Kraken", "other")
PACT = claim("Kraken 与三菱银行签署合作协议", "partnership")
HALTS = claim("Kraken 暂停提币", "product")
FROZEN = claim("Kraken freezes 40 accounts", "other")
PAUSES = claim("Celsius pauses all withdrawals, swaps and transfers", "other")
ILLEGAL = claim("中国人民银行发布通知:相关业务属于非法金融活动", "other")
BOUGHT = claim("Tesla bought 3,000 bitcoin", "whale", "BTC")
RESUMES = claim("Kraken has resumed LUM withdrawals", "product", "LUM")
CHARGED = claim("Kraken founder arrested, SEC sues", "regulation")


def references(of: Claim, text: str, title: str, url: str) -> tuple[SearchReference, ...]:
    page = builders.search_result(url, text + MORE, title=title, published_at=NOW)
    found = assess(of, [page], query="", snapshot=SNAPSHOT).references
    assert len(found) == 1
    return found


def stance(of: Claim, text: str, *, title: str = "", url: str = PRESS) -> str:
    return references(of, text, title, url)[0].stance


STANCES: list[tuple[Claim, str, str]] = [
    # A page carries the claim in one sentence that names the subject and says the verb or a synonym.
    (CUT, "The Federal Reserve cut rates by 50 basis points on Wednesday.", "supports"),
    (CUT, "美联储周三宣布降息 50 个基点。", "supports"),
    (CUT, "聯準會與美联储週三宣布降息 50 個基點。", "supports"),
    (CUT, "The Fed lowered its target range by 50 basis points.", "supports"),
    (LISTS, "Kraken lists LUM today, and trading opens at noon.", "supports"),
    (LISTS, "Kraken 今日上线 LUM, 现货交易已经开放。", "supports"),
    (HACK, "Kraken was exploited on Monday, and $85 million was taken.", "supports"),
    (HACK, "Kraken 遭黑客攻击, 损失 8500 万美元。", "supports"),
    # A page that does not say it is unrelated.
    (CUT, "The Federal Reserve met on Wednesday and published its minutes.", "unrelated"),
    (CUT, "Rates were cut by 50 basis points on Wednesday, to the surprise of many.", "unrelated"),
    (LISTS, "LUM is the talk of the town at Kraken this week.", "unrelated"),
    (HACK, "Kraken's volumes grew on Monday in Asia and in Europe.", "unrelated"),
    (HACK, "Hackers took $85 million from an exchange on Monday.", "unrelated"),
    # Held is not cut.
    (CUT, "The Federal Reserve held rates steady on Wednesday.", "denies"),
    (CUT, "The Federal Reserve left its rate unchanged on Wednesday.", "denies"),
    (CUT, "美联储周三维持利率不变。", "denies"),
    # Raised is not cut, either.
    (CUT, "The Federal Reserve raised rates on Wednesday.", "unrelated"),
    # A sentence with another listed entity or ticker carries nothing.
    (HACK, "Binance lost $85 million in a hack on Monday. Kraken was spared.", "unrelated"),
    (HACK, "Kraken and Binance lost $85 million in a hack on Monday.", "unrelated"),
    (HACK, "Kraken and OKX lost $85 million in a hack on Monday.", "unrelated"),
    (HACK, "Kraken lost $85 million in a hack on Monday and $PEPE fell.", "unrelated"),
    # Those who report or are told of it make it no other event.
    (HACK, "Kraken lost $85 million in a hack, CoinDesk reported on Monday.", "supports"),
    (HACK, "Kraken told the SEC that it lost $85 million in a hack.", "supports"),
    # A page about another ticker is of another event.
    (LISTS, "Kraken lists the token today (PEPE), and LUM holders hope to be next.", "unrelated"),
    (LISTS, "Kraken lists the token today (LUM), and LUM trading opens.", "supports"),
    # An amount that differs by more than a tenth hedges.
    (HACK, "Kraken lost $82 million in a hack on Monday.", "supports"),
    (HACK, "Kraken 遭黑客攻击, 损失 8500 万美元。", "supports"),
    (HACK, "Kraken was hacked on Monday.", "supports"),
    (HACK, "Kraken lost $76 million in a hack on Monday.", "hedges"),
    (HACK, "Kraken lost $1.4 billion in a hack on Monday.", "hedges"),
    (HACK, "Kraken 遭黑客攻击, 损失 850 万美元。", "hedges"),
    # A listing is carried only where both the asset and the venue are named.
    (LISTS, "LUM was listed today, and trading opened at noon.", "unrelated"),
    (LISTS, "Binance lists LUM today, and trading opens at noon.", "unrelated"),
    (LISTS, "Kraken lists PEPE today, and trading opens at noon.", "unrelated"),
    # A plan or a hedge is not the fact.
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
    # The verb is carried and no noun that is spelled like it.
    (PAUSES, "Celsius plans faster swaps and transfers.", "unrelated"),
    (PAUSES, "Celsius is pausing all withdrawals.", "supports"),
    (
        claim("Celsius transfers 5,000 BTC to an exchange", "other"),
        "Celsius transferred 5,000 BTC on Monday.",
        "supports",
    ),
    (ILLEGAL, "中国人民银行发布通知,优化支付服务。", "unrelated"),
    (ILLEGAL, "中国人民银行称相关业务属于非法金融活动。", "supports"),
    (claim("Circle 发布新版钱包", "other"), "Circle 今日发布新版钱包。", "supports"),
    (claim("Kraken completes the purchase of a bank", "other"), "Kraken completed the purchase on Monday.", "supports"),
    (claim("The Kraken law takes effect", "other"), "The law on Kraken came into force on Monday.", "supports"),
    (
        claim("Court sides with Kraken against a bank", "other"),
        "The court ruled in its case against Kraken.",
        "supports",
    ),
    (claim("Kraken 储备存放于一家银行", "other"), "Kraken 的储备仍存于该银行。", "supports"),
    (claim("Kraken wins a case in court", "other"), "Kraken trades coins for the Korean won.", "unrelated"),
    # A page that the grammar reads as a denial denies.
    (LISTS, "Kraken denied that it will list LUM on its spot market this week.", "denies"),
    (HACK, "Kraken was not hacked on Monday, its chief said.", "denies"),
    # News that denies is carried by the same denial of the same subject.
    (DENIED, "Kraken denied on Monday that it had been hacked.", "supports"),
    (DENIED, "Kraken was hacked on Monday and lost much.", "unrelated"),
    (DENIED, "Binance denied that it was hacked on Monday.", "unrelated"),
    # A rate that is held was neither cut nor raised.
    (CUT, "The Federal Reserve left rates unchanged on Wednesday, as most had thought.", "denies"),
    (CUT, "美联储周三宣布维持利率于 5.25%, 下一次会议在七月。", "denies"),
    (HIKE, "The Bank of England held rates at 4% on Thursday by seven votes to two.", "denies"),
    # A denial in the sentence of the verb or after a question is one.
    (BUYS, "Tesla neither bought nor sold any bitcoin in the quarter, its report says.", "denies"),
    (BUYS, "Tesla is not buying bitcoin this year, its treasurer told analysts.", "denies"),
    (BUYS, "链上余额与上月一致, 特斯拉没有新的买入。", "denies"),
    (DROP, "Readers asked about a Jupiter airdrop. The account that announced it is not ours.", "denies"),
    (DROP, "Jupiter said on Friday that reports of another JUP airdrop were false.", "denies"),
    # What rules the claim out is a denial.
    (VOTE, "Voting is open for the Aave stakers until Sunday.", "denies"),
    (VOTE, "The proposal of the Aave DAO was voted down on Sunday.", "denies"),
    (STAYS, "Powell told the staff of Kraken that he is not going anywhere.", "denies"),
    (PACT, "三菱银行一位高管表示, 与 Kraken 没有签约。", "denies"),
    (HALTS, "Kraken 昨日共处理提币 8 万笔, 平均用时三分钟。", "denies"),
    # A denied denial, a forger's method and a plea deny nothing.
    (HACK, "Kraken 遭黑客攻击, 此事并非乌龙。", "supports"),
    (FROZEN, "Kraken 冻结 40 个账户, 其主人利用虚假消息拉高价格。", "supports"),
    (CHARGED, "Kraken 创始人周一被捕, 其律师否认全部指控。", "supports"),
    # One sentence that states it outweighs one that hedges, and a synonym beside the denial of another matter counts.
    (HACK, "Kraken may have been hacked on Monday. Kraken was hacked, its chief confirmed later.", "supports"),
    (CUT, "The Fed cut rates by 50 basis points. Its chair denied speculation about an early retirement.", "supports"),
    # A tenth is one of the claimed amount.
    (BOUGHT, "Tesla bought 3,290 bitcoin on Monday.", "supports"),
    (BOUGHT, "Tesla bought 3,320 bitcoin on Monday.", "hedges"),
    # What is still suspended has not resumed.
    (RESUMES, "Withdrawals of LUM at Kraken remain suspended until the network is stable.", "denies"),
    (RESUMES, "Kraken 的 LUM 提币目前仍处于暂停状态。", "denies"),
    (RESUMES, "Kraken resumed LUM withdrawals at noon. Those of SOL remain suspended.", "supports"),
]
"""Claim, text of a page of the press without a title, and its stance by words alone."""


def test_words_alone_give_a_page_this_stance() -> None:
    assert [(text, expected, said) for of, text, expected in STANCES if (said := stance(of, text)) != expected] == []


def test_the_subject_may_stand_in_the_sentence_before_or_in_the_title_and_no_further_away() -> None:
    assert stance(CUT, "The Federal Reserve met on Wednesday. It cut rates by 50 basis points.") == "supports"
    assert stance(CUT, "It cut rates by 50 basis points.", title="The Federal Reserve met") == "supports"
    between = "Nobody was surprised by what came out of it."
    assert stance(CUT, f"The Federal Reserve met on Wednesday. {between} It cut rates in the end.") == "unrelated"


def test_a_negated_or_asked_sentence_carries_nothing() -> None:
    texts = [
        "The Federal Reserve did not cut rates on Wednesday.",
        "The Federal Reserve never said that it would cut rates.",
        "Did the Federal Reserve cut rates on Wednesday?",
        "美联储周三未降息。",
        "美联储没有降息 50 个基点。",
    ]
    assert {stance(CUT, text) for text in texts} <= {"unrelated", "denies"}


def test_on_its_own_page_the_venue_need_not_name_itself_but_the_asset() -> None:
    own = "https://www.kraken.com/x"
    assert stance(LISTS, "LUM is listed today, and trading opens at noon.", url=own) == "supports"
    assert stance(LISTS, "PEPE is listed today, and trading opens at noon.", url=own) == "unrelated"
    fed = "https://www.federalreserve.gov/x"
    assert stance(CUT, "The Committee decided to lower the target range.", url=fed) == "supports"


def test_words_confirm_by_an_official_page_that_carries_and_by_nothing_else() -> None:
    def verdict(*pages: tuple[str, str]) -> str:
        found = [builders.search_result(u, t + MORE, published_at=NOW) for u, t in pages]
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


def test_a_rate_held_before_the_cut_or_held_only_in_a_forecast_denies_nothing() -> None:
    assert stance(CUT, "The Fed cut rates on Wednesday. It had held rates at five meetings in a row.") == "supports"
    assert stance(CUT, "The Fed is expected to leave the rate unchanged, economists say.") != "denies"


def test_there_is_no_such_thing_denies_only_what_is_claimed_of_the_party() -> None:
    urges = claim("Kraken urges users to install wallet patch 4.2", "other")
    assert stance(urges, "There is no Kraken wallet patch. Do not install what the mail links to.") == "denies"
    assert stance(urges, "There is no Kraken office in Wyoming, its spokesman told the paper.") != "denies"


def test_a_party_that_will_list_something_announces_it() -> None:
    expected = {
        ("Kraken will list LUM on Friday.", "https://blog.kraken.com/lum"): "supports",
        ("Kraken will list LUM on Friday.", PRESS): "hedges",
        ("Kraken may list LUM on Friday.", "https://blog.kraken.com/lum"): "hedges",
    }
    assert {(text, url): stance(LISTS, text, url=url) for text, url in expected} == expected
