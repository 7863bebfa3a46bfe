"""The claim that the offline model states: modality, attribution and parts by words, in zh and en."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from agents.core.answers import DraftAnswer, checked
from agents.evidence.claim import PREDICATES
from agents.evidence.news_claim import in_closed_words
from agents.verification.gate import gate
from infra.offline.claims import modality_of
from infra.offline.lexicon import PREDICATE_WORDS
from infra.offline.rules import draft_of
from schemas.config import Snapshot

DEEP = Snapshot(deep_analysis_tools_enabled=True, phase1_rollout_percentage=1.0)


def judged(text):
    """Return draft and claim as triage reads them."""
    reply = checked(draft_of(text), DraftAnswer)
    assert reply.claim is not None
    return reply.draft(), in_closed_words(reply.claim.stated(), reply.event_type)


@pytest.mark.parametrize(
    ("text", "modality", "attribution"),
    [
        ("Kraken lists Chainlink", "asserted", "none"),
        ("Kraken will list Chainlink in June", "planned", "none"),
        ("Kraken announces that it will list Chainlink", "planned", "named"),
        ("Kraken to list Chainlink, insiders say", "rumoured", "unnamed"),
        ("Kraken 拟上线 Chainlink", "planned", "none"),
        ("Kraken lists Chainlink tomorrow", "planned", "none"),
        ("Kraken 将上线 Chainlink", "planned", "none"),
        ("Kraken 将逐步下架 Chainlink", "planned", "none"),
        ("Kraken 将 200 枚 Chainlink 转至新钱包", "asserted", "none"),
        ("虚拟货币交易所上线 Chainlink", "asserted", "none"),
        ("据知情人士,Kraken 即将上线 Chainlink", "rumoured", "unnamed"),
        ("网传 Aave 遭攻击", "rumoured", "none"),
        ("Aave denies that it was hacked", "denied", "none"),
        ("Aave 辟谣:遭攻击的消息不实", "denied", "named"),
        ("Market rumour that Aave is insolvent", "rumoured", "none"),
        ("SEC sues Kraken, the exchange denies wrongdoing", "asserted", "none"),
        ("SEC denies the application for a spot fund", "asserted", "none"),
        ("更正:Aave 损失为 200 万美元", "corrected", "none"),
        ("Correction: Aave lost $2M, not $20M", "corrected", "none"),
        ("SEC approves a fund, trading will start on Monday", "asserted", "none"),
    ],
)
def test_the_words_tell_how_the_news_puts_it_and_whom_it_names(text, modality, attribution):
    claim = judged(text)[1]
    assert (claim.modality, claim.attribution) == (modality, attribution)


@pytest.mark.parametrize(
    ("text", "subject", "predicate", "amount", "venue"),
    [
        ("Binance lists PEPE", "Binance", "lists", None, "Binance"),
        ("币安将下架 XMR", "币安", "delists", None, "币安"),
        ("Aave drained of 5,000 ETH", "Aave", "hacked", (5_000, "ETH"), ""),
        ("Aave 被盗 9亿1,400万日元", "Aave", "hacked", (914_000_000, "日元"), ""),
        ("Aave exploited for $1.4 billion", "Aave", "hacked", (1_400_000_000, "USD"), ""),
        ("Aave 遭攻击,损失 3.2 亿美元", "Aave", "hacked", (320_000_000, "美元"), ""),
        (f"Aave exploited for ${'9' * 400}", "Aave", "hacked", None, ""),
        ("Binance lists PEPE, trading opens at 10:00 UTC", "Binance", "lists", None, "Binance"),
        ("Binance lists PEPE at 10 AM, from 7:00 SOL pairs follow", "Binance", "lists", None, "Binance"),
        ("Aave drained at 10:00 UTC of 5,000 ETH", "Aave", "hacked", (5_000, "ETH"), ""),
        ("Aave raises $25M in a funding round led by 3 funds", "Aave", "raises", (25_000_000, "USD"), ""),
    ],
)
def test_the_parts_of_a_claim(text, subject, predicate, amount, venue):
    claim = judged(text)[1]
    figure = None if claim.amount is None else (claim.amount.value, claim.amount.unit)
    assert (claim.subject, claim.predicate, figure, claim.venue) == (subject, predicate, amount, venue)


def test_a_listing_is_about_the_coin_that_is_listed():
    assert judged("Coinbase 即将上线 XYZ 代币")[0].asset == "XYZ"
    assert judged("Binance lists PEPE, paired with BTC")[0].asset == "PEPE"


def test_every_predicate_is_one_of_the_closed_list():
    assert {(k, p) for k, words in PREDICATE_WORDS.items() for p, _ in words if p not in PREDICATES[k]} == set()


@pytest.mark.parametrize(
    "text",
    [
        "Coinbase 即将上线 XYZ 代币,内部人士透露下周公布",
        "Coinbase is about to list the XYZ token, insiders say it will be announced next week",
        "Coinbase to list XYZ token soon, an insider reveals",
        "SEC 批准比特币现货 ETF,将于下周开始交易",
        "SEC approves spot Bitcoin ETF, trading starts next week",
        "XXX DeFi 协议遭受闪电贷攻击,损失超过 $100M USDC",
        "XXX DeFi protocol suffers a flash loan attack and loses more than $100M USDC",
    ],
)
def test_rumour_policy_and_hack_pass_the_gate(text):
    draft, claim = judged(text)
    assert gate(draft, claim, 0.0, DEEP)[0] == "deep"


def test_a_rumour_passes_only_as_a_doubtful_claim():
    draft, claim = judged("Coinbase 即将上线 XYZ 代币,内部人士透露下周公布")
    assert gate(draft, claim, 0.0, replace(DEEP, gate_doubtful=False))[0] == "preliminary"
    assert draft.strength != "low" and draft.confidence < 0.5


def test_a_denial_in_a_later_clause_counts_and_a_plan_there_does_not():
    assert modality_of("BlackRock 回应:该文件系伪造,从未提交申请") == "denied"
    assert modality_of("Aave halts withdrawals, will resume soon") == "asserted"
