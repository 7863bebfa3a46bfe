"""Whom a denial or a correction concerns: all that claim the same thing, none that merely share asset and entity."""

from __future__ import annotations

from datetime import timedelta
from typing import NamedTuple

import pytest
from msgspec.structs import replace

from agents.retraction import choose_concerned, earlier_claims_query, find_candidates
from agents.specification import START, case_after, opened
from agents.tables import load_tables
from schemas.config import Snapshot
from schemas.effects import EarlierClaim
from schemas.events import CaseTriaged
from tests import builders

CONFIG = Snapshot(tables=load_tables(demo=True))


class Text(NamedTuple):
    """One news item as triage reads it."""

    text: str
    entity: str | None
    asset: str


class Situation(NamedTuple):
    """A denial, the earlier claims that it concerns, and those that it does not."""

    name: str
    news: Text
    concerned: tuple[Text, ...]
    others: tuple[Text, ...] = ()
    kind: str = "retracted"


WALMART = Text(
    "Walmart announces major partnership with Litecoin, LTC payments from October 1, press release says",
    "Walmart",
    "LTC",
)
WALMART_DENIES = Text(
    "Walmart: the press release about a partnership with Litecoin is fake, the retailer has no relationship with LTC",
    "Walmart",
    "LTC",
)
SEC_POST = Text(
    "SEC account on X: the SEC grants approval for Bitcoin ETFs for listing on all registered national securities exchanges",
    "SEC",
    "BTC",
)
SEC_DENIES_ZH = Text("SEC 主席:官方 X 账号遭入侵,未批准现货比特币 ETF 上市交易", "SEC", "BTC")

SITUATIONS = (
    Situation("a fake press release, en by en", WALMART_DENIES, (WALMART,)),
    Situation("an English claim denied in Chinese", SEC_DENIES_ZH, (SEC_POST,)),
    Situation(
        "several outlets of one false claim, in both languages",
        WALMART_DENIES,
        (
            WALMART,
            Text("Litecoin jumps 25% as Walmart says it will accept LTC in a new partnership", "Walmart", "LTC"),
            Text("沃尔玛宣布与莱特币达成重大合作,10 月 1 日起接受 LTC 支付", "沃尔玛", "LTC"),
        ),
    ),
    Situation(
        "another claim of the same party about the same coin",
        WALMART_DENIES,
        (WALMART,),
        (
            Text("Walmart to sell Litecoin gift cards through Coinstar kiosks", "Walmart", "LTC"),
            Text("Walmart hit by exploit of its Litecoin kiosk wallets, 4,000 LTC stolen", "Walmart", "LTC"),
        ),
    ),
    Situation(
        "another party and the same coin",
        WALMART_DENIES,
        (WALMART,),
        (Text("Kroger announces partnership with Litecoin for payments at all stores", "Kroger", "LTC"),),
    ),
    Situation(
        "the same party and another coin",
        WALMART_DENIES,
        (WALMART,),
        (Text("Walmart announces partnership with Bitcoin miner for payments", "Walmart", "BTC"),),
    ),
    Situation(
        "what is denied is narrower than a true claim",
        Text("SEC denies approving options on spot Bitcoin ETFs", "SEC", "BTC"),
        (Text("SEC approves options on spot Bitcoin ETFs, sources say", "SEC", "BTC"),),
        (Text("SEC approves 11 spot Bitcoin exchange-traded products", "SEC", "BTC"),),
    ),
    Situation(
        "denied by the other party to the claim",
        Text(
            "BlackRock: the report that its spot Bitcoin ETF was approved is false, the application is under review",
            "BlackRock",
            "BTC",
        ),
        (Text("BREAKING: SEC approves iShares Bitcoin spot ETF", "SEC", "BTC"),),
        (Text("BlackRock files for a spot Bitcoin ETF", "BlackRock", "BTC"),),
    ),
    Situation(
        "a hack that did not happen",
        Text("Binance denies reports that its hot wallet was hacked", "Binance", "BNB"),
        (
            Text("Binance hacked, hot wallet drained of $200M, on-chain sleuth says", "Binance", "BNB"),
            Text("币安热钱包疑似被盗,约 2 亿美元被转出", "币安", "BNB"),
            Text("Binance exploited, BTC moved from exchange wallets", "Binance", "BNB"),
        ),
        (Text("SEC sues Binance and its founder on 13 charges", "SEC", "BNB"),),
    ),
    Situation(
        "a Chinese denial of Chinese claims",
        Text("币安:热钱包被盗的消息不实,系谣言", "币安", "BNB"),
        (Text("突发:币安热钱包被盗,损失约 2 亿美元", "币安", "BNB"),),
        (Text("币安与万事达卡达成合作,推出联名卡", "币安", "BNB"),),
    ),
    Situation(
        "a hacked account is no hacked vault",
        Text("Binance denies that its hot wallet was hacked", "Binance", "BNB"),
        (Text("Binance hot wallet hacked", "Binance", "BNB"),),
        (Text("Binance's X account was hacked and posted a phishing link", "Binance", "BNB"),),
    ),
    Situation(
        "the amount tells which claim is denied",
        Text("Tether denies minting $2 billion USDT on Friday, calls the report false", "Tether", "USDT"),
        (Text("Tether mints 2B USDT on Tron", "Tether", "USDT"),),
        (Text("Tether mints $1B USDT on Ethereum", "Tether", "USDT"),),
    ),
    Situation(
        "withdrawals that were not halted",
        Text("Celsius: claims that withdrawals are paused are untrue", "Celsius", "CEL"),
        (Text("Celsius pauses all withdrawals citing extreme market conditions", "Celsius", "CEL"),),
        (Text("Celsius files for Chapter 11 bankruptcy", "Celsius", "CEL"),),
    ),
    Situation(
        "a denial of a denial",
        Text("Walmart's denial of the Litecoin partnership is false, the retailer confirms", "Walmart", "LTC"),
        (WALMART_DENIES,),
        (WALMART,),
    ),
    Situation(
        "a denial does not concern another denial",
        WALMART_DENIES,
        (WALMART,),
        (Text("Walmart denies it has a partnership with Litecoin, calls release a hoax", "Walmart", "LTC"),),
    ),
    Situation(
        "an amount put right, named",
        Text("Correction: Bybit lost 401,000 ETH, not 500,000 ETH", "Bybit", "ETH"),
        (Text("Bybit hacked, 500,000 ETH moved out of a cold wallet", "Bybit", "ETH"),),
        (Text("Bybit hacked, about 400,000 ETH moved from a cold wallet", "Bybit", "ETH"),),
        kind="superseded",
    ),
    Situation(
        "an amount put right, across languages",
        Text("更正:Bybit 损失为 14.6 亿美元,而非此前报道的 20 亿美元", "Bybit", "ETH"),
        (Text("Bybit hacked, $2 billion in ETH stolen", "Bybit", "ETH"),),
        (
            Text("Bybit 冷钱包遭攻击,约 40 万枚 ETH 被转出,约 14.6 亿美元", "Bybit", "ETH"),
            Text("Bybit raises $50 million in new funding", "Bybit", "ETH"),
        ),
        kind="superseded",
    ),
    Situation(
        "a correction that denies it all retracts",
        Text("Correction: Kroger has no partnership with Bitcoin Cash, the press release was a hoax", "Kroger", "BCH"),
        (
            Text(
                "Kroger to accept Bitcoin Cash at all stores this holiday season, according to a press release",
                "Kroger",
                "BCH",
            ),
        ),
    ),
    Situation(
        "no plans to do what was claimed",
        Text("亚马逊否认将接受比特币支付", "亚马逊", "BTC"),
        (
            Text(
                "Amazon will accept Bitcoin payments by the end of the year, insider tells a London paper",
                "Amazon",
                "BTC",
            ),
        ),
        (Text("Tesla buys $1.5 billion in Bitcoin and expects to accept it as payment", "Tesla", "BTC"),),
    ),
    Situation(
        "a deal denied in Chinese, of two parties",
        Text("Visa 否认与 Solana 达成合作", "Visa", "SOL"),
        (Text("Visa partners with Solana on USDC settlement", "Visa", "SOL"),),
        (
            Text("Solana outage halts network for six hours", "Solana", "SOL"),
            Text("Shopify partners with Solana Pay", "Shopify", "SOL"),
        ),
    ),
    Situation(
        "a denial that was forged, in Chinese",
        Text("币安:所谓“否认热钱包被盗”的声明系伪造", "币安", "BNB"),
        (Text("Binance denies that its hot wallet was hacked", "Binance", "BNB"),),
        (Text("Binance hot wallet hacked", "Binance", "BNB"),),
    ),
    Situation(
        "a person who is not leaving",
        Text("Tether CTO denies resignation rumours, says he is not stepping down", "Tether", "USDT"),
        (Text("Tether's CTO steps down amid audit questions", "Tether", "USDT"),),
        (Text("Tether freezes $225M in USDT linked to a scam", "Tether", "USDT"),),
    ),
    Situation(
        "a halt that is none, in both languages",
        Text("OKX 澄清:暂停提币的传闻不实,提币一切正常", "OKX", "OKB"),
        (
            Text("OKX halts withdrawals amid liquidity concerns, users say", "OKX", "OKB"),
            Text("OKX 暂停提币,用户称无法提现", "OKX", "OKB"),
        ),
        (Text("OKX 上线新币 XYZ", "OKX", "OKB"),),
    ),
    Situation(
        "a peg that held",
        Text("Circle says reports that USDC lost its peg are false", "Circle", "USDC"),
        (Text("USDC depegs to $0.87 as Circle reveals exposure", "Circle", "USDC"),),
        (Text("Circle files for IPO in the US", "Circle", "USDC"),),
    ),
    Situation(
        "a coin that stays listed",
        Text("Coinbase denies it will delist XRP", "Coinbase", "XRP"),
        (Text("Coinbase to delist XRP next week, insider says", "Coinbase", "XRP"),),
        (Text("Coinbase lists XRP futures", "Coinbase", "XRP"),),
    ),
    Situation(
        "a purchase that was made up",
        Text("Ripple: we have not acquired Circle, the report is fabricated", "Ripple", "XRP"),
        (Text("Ripple acquires Circle for $5 billion", "Ripple", "XRP"),),
        (Text("Ripple acquires custody firm Metaco", "Ripple", "XRP"),),
    ),
    Situation(
        "a warrant that nobody issued",
        Text("币安创始人赵长鹏:国际刑警组织红色通缉令传闻不实", "币安", "BNB"),
        (Text("传闻:国际刑警组织对币安创始人赵长鹏发出红色通缉令", "国际刑警组织", "BNB"),),
        (Text("SEC sues Binance and its founder on 13 charges", "SEC", "BNB"),),
    ),
    Situation(
        "a person's accounts and not the company's",
        Text("Ripple was not hacked: CEO says only his personal XRP accounts were accessed", "Ripple", "XRP"),
        (Text("Ripple hacked for 213M XRP", "Ripple", "XRP"),),
        (Text("Ripple wins partial victory, judge rules XRP sales not securities", "Ripple", "XRP"),),
    ),
    Situation(
        "who has not sold has bought all the same",
        Text("Musk: Tesla has not sold any Bitcoin", "Tesla", "BTC"),
        (Text("Tesla dumped its Bitcoin, sources say", "Tesla", "BTC"),),
        (
            Text("Tesla buys $1.5 billion in Bitcoin", "Tesla", "BTC"),
            Text("Tesla suspends vehicle purchases using Bitcoin", "Tesla", "BTC"),
        ),
    ),
    Situation(
        "a product without the coin",
        Text("Apple denies Apple Pay will support Bitcoin", "Apple", "BTC"),
        (Text("Apple Pay to support Bitcoin payments this fall", "Apple", "BTC"),),
        (Text("Apple co-founder scam account doubles your BTC", "Apple", "BTC"),),
    ),
    Situation(
        "an amount misread tenfold",
        Text("勘误:DMM Bitcoin 被盗金额应为 482 亿日元,此前误报为 4820 亿日元", "DMM Bitcoin", "BTC"),
        (Text("DMM Bitcoin 被盗,损失约 4820 亿日元", "DMM Bitcoin", "BTC"),),
        (Text("DMM Bitcoin 约 4502.9 枚比特币被盗,约 482 亿日元", "DMM Bitcoin", "BTC"),),
        "superseded",
    ),
    Situation(
        "a rumour of insolvency",
        Text("Celsius: bankruptcy rumors are untrue, the company is solvent", "Celsius", "CEL"),
        (Text("Celsius is insolvent and preparing for Chapter 11, report says", "Celsius", "CEL"),),
        (Text("Celsius pauses all withdrawals", "Celsius", "CEL"),),
    ),
    Situation(
        "a party that no table knows",
        Text("Foobar Finance denies exploit, says funds are safe", "Foobar Finance", "FOO"),
        (Text("Foobar Finance exploited, $4M drained", "Foobar Finance", "FOO"),),
        (Text("Foobar Finance raises $10M", "Foobar Finance", "FOO"),),
    ),
)


def case_of(news: Text, **config):
    draft = builders.draft(
        summary=news.text, event_type="other", asset=news.asset, asset_name="", strength="medium", entity=news.entity
    )
    triaged = CaseTriaged(draft=draft, route="deep", gate_reason="", rollout_bucket=0.0)
    return case_after(opened(news.text), triaged, config=replace(CONFIG, **config))


def claim(text: Text, number: int = 0, **changes) -> EarlierClaim:
    plain = EarlierClaim(
        case_id=f"case-{number}",
        asset=text.asset,
        event_type="other",
        language="en",
        text=text.text if not number else f"{text.text} ({number})",
        as_of=START - timedelta(hours=number + 1),
        entity=text.entity,
    )
    return replace(plain, **changes)


@pytest.mark.parametrize("one", SITUATIONS, ids=lambda s: s.name)
def test_a_denial_concerns_what_claims_the_same_and_nothing_else(one: Situation) -> None:
    case = case_of(one.news)
    asked = earlier_claims_query(case)
    assert asked is not None
    texts = (*one.concerned, *one.others)
    known = dict(enumerate(texts))
    given = [claim(t, n) for n, t in known.items() if t.asset in asked.assets]
    found = find_candidates(case, given)
    meant = {known[int(c.claim.case_id.removeprefix("case-"))] for c in found if c.same_claim}
    assert meant == set(one.concerned)
    assert {c.kind for c in found if c.same_claim} == {one.kind}


@pytest.mark.parametrize(
    "news",
    [
        WALMART,
        SEC_POST,
        Text("SEC approves 11 spot Bitcoin exchange-traded products", "SEC", "BTC"),
        Text("Bybit 冷钱包遭攻击,约 40 万枚 ETH 被转出,约 14.6 亿美元", "Bybit", "ETH"),
        Text("Binance pleads guilty, to pay over $4.3B; CZ steps down", "Binance", "BNB"),
    ],
    ids=lambda t: t.text[:20],
)
def test_news_that_denies_and_corrects_nothing_asks_for_nothing(news: Text) -> None:
    assert earlier_claims_query(case_of(news)) is None


def test_only_claims_of_the_window_before_the_denial_are_candidates() -> None:
    case = case_of(WALMART_DENIES, retraction_window_days=3)
    late = claim(WALMART, 1, as_of=START + timedelta(seconds=1))
    old = claim(WALMART, 2, as_of=START - timedelta(days=3, seconds=1))
    own = claim(WALMART, 3, case_id=case.case_id)
    assert find_candidates(case, (late, old, own)) == ()
    assert len(find_candidates(case, (claim(WALMART, 1, as_of=START),))) == 1


def test_a_claim_of_another_asset_is_none_even_if_the_journal_gives_it() -> None:
    assert find_candidates(case_of(WALMART_DENIES), (claim(WALMART, asset="DOGE"),)) == ()


def test_of_many_candidates_those_of_the_same_claim_are_kept() -> None:
    many = [claim(WALMART, n) for n in range(30)]
    found = find_candidates(case_of(WALMART_DENIES), many)
    assert len(found) == 12 and all(c.same_claim for c in found)
    assert [c.claim.as_of for c in found] == sorted(c.claim.as_of for c in found)


STRATEGY = (
    Text("Strategy buys 8,178 BTC for $836 million", "Strategy", "BTC"),
    Text("Strategy 增持 487 枚比特币, 斥资 4,990 万美元", "Strategy", "BTC"),
)


@pytest.mark.security
@pytest.mark.parametrize(
    "text",
    [
        "Strategy bought 130 BTC for $11.7 million; it revised its yearly BTC yield target",
        "Strategy bought 130 BTC for $11.7 million and revised its yearly target to 30%",
        "Strategy 以 1,170 万美元买入 130 枚比特币; 公司修正了年度收益率目标",
        "Strategy bought 1,300 BTC for $117 million, up from 8,178 BTC a week before; it amended its charter",
    ],
)
def test_a_true_report_that_revises_something_else_retracts_no_earlier_purchase(text: str) -> None:
    found = find_candidates(case_of(Text(text, "Strategy", "BTC")), [claim(t, n) for n, t in enumerate(STRATEGY)])
    assert [c for c in found if c.same_claim] == []


HACKED = Text("Binance hot wallet hacked, $200M drained", "Binance", "BNB")
HALTED = Text("Binance halts withdrawals for all users", "Binance", "BNB")
BOTH_DENIED = Text(
    "Binance denies that its hot wallet was hacked; reports that it halted withdrawals are false", "Binance", "BNB"
)


@pytest.mark.security
def test_of_a_compound_denial_only_what_the_evidence_denies_is_retracted() -> None:
    case = case_of(BOTH_DENIED)
    found = find_candidates(case, [claim(HACKED, 1), claim(HALTED, 2)])
    assert [c.same_claim for c in found] == [True, True]
    said = "Binance: our hot wallet was not hacked and funds are safe."
    assert [c.of_case for c in choose_concerned(case, found, None, [said])] == ["case-1"]
    assert [c.of_case for c in choose_concerned(case, found, (1, 2), [said])] == ["case-1"]
    assert len(choose_concerned(case, found, None, [said, "Binance never halted withdrawals."])) == 2
    assert choose_concerned(case, found, None, []) == ()


@pytest.mark.security
@pytest.mark.parametrize("numbers", [None, (1,), (1, 2)])
@pytest.mark.parametrize(
    ("news", "true", "page"),
    [
        ("Binance denies insolvency after halting withdrawals", HALTED, "Binance halts withdrawals, denies insolvency"),
        ("Binance denies insolvency after halting withdrawals", HALTED, "Binance denies insolvency after halting withdrawals"),
        ("Binance denies private keys leaked after hot wallet was hacked", HACKED, "Binance: hot wallet hacked, keys were not leaked"),
        ("Binance denies private keys leaked after hot wallet was hacked", HACKED, "Binance denies private keys leaked after hot wallet was hacked"),
        ("Binance denies that user data was stolen in the hack", HACKED, "Binance confirms the hot wallet hack and denies that user data was stolen"),
        ("币安否认私钥泄露,热钱包被盗已控制", HACKED, "币安热钱包被盗,私钥未泄露"),
        ("币安否认私钥泄露,热钱包被盗已控制", HACKED, "币安热钱包被盗并否认私钥泄露"),
        ("Binance denies that it was hacked; reports that it halted withdrawals are false", HALTED, "Binance denies that it was hacked\nBinance halted withdrawals for two hours"),
    ],
)  # fmt: skip
def test_news_that_denies_something_else_retracts_no_event_that_it_or_its_pages_affirm(
    news: str, true: Text, page: str, numbers: tuple[int, ...] | None
) -> None:
    case = case_of(Text(news, "Binance", "BNB"))
    assert choose_concerned(case, find_candidates(case, [claim(true, 1)]), numbers, [page]) == ()


@pytest.mark.security
@pytest.mark.parametrize("numbers", [None, (1, 2)])
def test_of_a_compound_denial_what_the_evidence_affirms_is_not_retracted(numbers: tuple[int, ...] | None) -> None:
    case = case_of(BOTH_DENIED)
    found = find_candidates(case, [claim(HACKED, 1), claim(HALTED, 2)])
    said = "Binance: our hot wallet was not hacked. Binance halted withdrawals for maintenance at 10:00."
    assert [c.of_case for c in choose_concerned(case, found, numbers, [said])] == ["case-1"]


@pytest.mark.parametrize(
    "page",
    [
        "Binance denies that its hot wallet was hacked and says user funds are safe",
        "Reports that Binance's hot wallet was hacked are false.",
        "Binance Says Hot Wallet Was Not Hacked\nThe exchange said users' funds were not stolen",
        "币安:热钱包被盗的消息不实",
        "币安热钱包没有被盗",
    ],
)
def test_a_page_that_denies_the_event_takes_the_claim_of_it_back(page: str) -> None:
    case = case_of(Text("Binance denies that its hot wallet was hacked", "Binance", "BNB"))
    assert len(choose_concerned(case, find_candidates(case, [claim(HACKED, 1)]), None, [page])) == 1


@pytest.mark.security
@pytest.mark.parametrize("numbers", [None, (1,)])
@pytest.mark.parametrize(
    "news",
    [
        "Binance denies the hack was an inside job",
        "Binance denies that the hacker was an employee",
        "Binance denies negligence in $200M hack",
        "Binance denies covering up the hack",
        "Binance denies delay in disclosing hack",
        "Binance denies losing more than $200M in hack",
        "Binance denies user data leaked in hack that drained $200M",
        "币安否认黑客为内部人员",
        "币安否认被盗系内鬼所为",
        "币安否认隐瞒黑客攻击",
    ],
)
def test_who_denies_something_of_an_event_admits_the_event(news: str, numbers: tuple[int, ...] | None) -> None:
    """A denial that the hack was an inside job took the signal on the hack back."""
    case = case_of(Text(news, "Binance", "BNB"))
    found = find_candidates(case, [claim(HACKED, 1)])
    assert [c for c in found if c.same_claim] == [] and choose_concerned(case, found, numbers, [news]) == ()
    denied = case_of(Text("Binance denies that its hot wallet was hacked", "Binance", "BNB"))
    assert choose_concerned(denied, find_candidates(denied, [claim(HACKED, 1)]), numbers, [news]) == (), (
        "such a page bears nothing out"
    )
    insider = Text("Binance hot wallet hacked by an insider, an inside job", "Binance", "BNB")
    told = case_of(Text("Binance denies the hack was an inside job by an insider", "Binance", "BNB"))
    assert any(c.same_claim for c in find_candidates(told, [claim(insider, 1)])), "what is denied is what was claimed"


@pytest.mark.security
def test_a_denial_of_these_days_does_not_concern_an_event_of_last_week_by_the_rules_alone() -> None:
    denial = Text("Binance denies that its hot wallet was hacked", "Binance", "BNB")
    old = claim(HACKED, 1, as_of=START - timedelta(days=9))
    found = find_candidates(case_of(denial), [old, claim(HACKED, 2)])
    assert [c.same_claim for c in found] == [False, True]


@pytest.mark.security
@pytest.mark.parametrize("text", ["OKX denies that it has acquired", "OKX 否认收购", "OKX: not acquired, that is fake"])
def test_a_verb_alone_names_no_claim(text: str) -> None:
    bought = Text("OKX acquires a custodian for $40 million", "OKX", "OKB")
    found = find_candidates(case_of(Text(text, "OKX", "OKB")), [claim(bought, 1)])
    assert [c.same_claim for c in found] == [False]


@pytest.mark.security
def test_who_denies_a_delay_admits_the_event() -> None:
    case = case_of(Text("SEC denies it delayed approval of the spot Solana ETF", "SEC", "SOL"))
    approval = Text("SEC approves spot Solana ETF", "SEC", "SOL")
    assert [c for c in find_candidates(case, [claim(approval, 1)]) if c.same_claim] == []


@pytest.mark.parametrize(
    "text", ["Correction: Strategy bought 817 BTC, not 8,178 BTC", "更正:Strategy 购入 817 枚比特币,而非 8,178 枚"]
)
def test_a_correction_may_name_a_right_figure_below_a_thousand(text: str) -> None:
    case = case_of(Text(text, "Strategy", "BTC"))
    found = find_candidates(case, [claim(t, n) for n, t in enumerate((*STRATEGY, STRATEGY[1]), 1)])
    assert [(c.of_case, c.kind) for c in choose_concerned(case, found, None, [text])] == [("case-1", "superseded")]


def test_a_correction_is_borne_out_by_a_page_that_gives_the_right_figure() -> None:
    case = case_of(Text("Correction: Bybit lost 401,000 ETH, not 500,000 ETH", "Bybit", "ETH"))
    found = find_candidates(
        case, [claim(Text("Bybit hacked, 500,000 ETH moved out of a cold wallet", "Bybit", "ETH"), 1)]
    )
    assert [c.kind for c in choose_concerned(case, found, None, ["Bybit: 401,000 ETH were taken"])] == ["superseded"]
    assert choose_concerned(case, found, None, ["Bybit: withdrawals are open"]) == ()
