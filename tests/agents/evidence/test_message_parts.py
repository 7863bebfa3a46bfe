"""Which messages make several claims, and what each of them is about: on messages in both languages.

The second set was written before the rule, and was run once when the rule was done.
"""

from __future__ import annotations

import pytest

from agents.evidence.compiled import compiled
from agents.evidence.message_parts import narrow_to, parts_of
from agents.tables import load_tables
from schemas.config import Tables
from schemas.signals import StatedClaim
from tests import builders

SEVERAL = [
    ("Binance Will List ZK, PEPE, ARB, OP and STRK", "lists", "ZK", ("ZK", "PEPE", "ARB", "OP", "STRK")),
    ("Binance Will List ZKsync (ZK), Resolv (RESOLV), and Some New Coin (SNC)", "lists", "RESOLV", ("RESOLV", "ZK", "SNC")),
    ("Binance Will List Movement Labs (MOVE) and ZKsync (ZK)", "lists", "MOVE", ("MOVE", "ZK")),
    ("Coinbase will add support for Sui (SUI) and Bonk (BONK) on the Solana network", "lists", "SUI", ("SUI", "BONK")),
    ("Kraken opens trading for SUI, SEI & TIA\nDeposits are open.", "opens_trading", "SEI", ("SEI", "SUI", "TIA")),
    ("ZK, PEPE and ARB will be listed on Bybit tomorrow", "lists", "PEPE", ("PEPE", "ZK", "ARB")),
    ("币安将上线 ZK、PEPE、ARB", "lists", "ZK", ("ZK", "PEPE", "ARB")),
    ("公告：欧易将上架 Sui（SUI）、Sei（SEI）以及 Celestia（TIA）", "lists", "SUI", ("SUI", "SEI", "TIA")),
    ("ZK、PEPE 和 ARB 将于今日 18:00 在 Bybit 上线", "lists", "ARB", ("ARB", "ZK", "PEPE")),
    ("Binance will delist WAVES, NEO and FLOW on December 4", "delists", "NEO", ("NEO", "WAVES", "FLOW")),
    ("币安将于今日 18:00 上线 WIF、BONK、FLOKI、SHIB、PEPE 五个代币", "lists", "WIF", ("WIF", "BONK", "FLOKI", "SHIB", "PEPE")),
    ("Bybit 将上线以下五个代币：WIF、BONK、FLOKI、SHIB、PEPE", "lists", "SHIB", ("SHIB", "WIF", "BONK", "FLOKI", "PEPE")),
    ("火币下架 WAVES、NEO、FLOW 等 3 个币种", "delists", "WAVES", ("WAVES", "NEO", "FLOW")),
    ("SEC approves spot ETFs for SOL, XRP and ADA", "approves", "SOL", ("SOL", "XRP", "ADA")),
    ("Solana, XRP and Litecoin ETFs are approved, the SEC says", "approves", "XRP", ("XRP", "SOL", "LTC")),
    ("SEC 推迟对 SOL、XRP、DOGE 现货 ETF 的决定", "delays", "SOL", ("SOL", "XRP", "DOGE")),
    ("Binance Will List ZK, PEPE, ARB, OP, STRK, SUI and SEI", "lists", "ARB", ("ARB", "ZK", "PEPE", "OP", "STRK")),
]  # fmt: skip
ONE = [
    ("BTC falls as ETH rises", "lists", "BTC"),
    ("Binance lists ZK, BTC and ETH fall", "lists", "ZK"),
    ("币安上线 ZK，比特币、以太坊现货 ETF 获批", "lists", "ZK"),
    ("BTC, ETH and SOL fall after Binance lists ZK", "lists", "ZK"),
    ("Binance lists ZK with BTC, USDT and FDUSD pairs", "lists", "ZK"),
    ("Binance adds ZK/USDT and PEPE/USDT", "lists", "ZK"),
    ("Binance lists ZK, PEPE and ARB/USDT", "lists", "ZK"),
    ("Coinbase lists ZK and delists PEPE", "lists", "ZK"),
    ("Binance lists ZK after listing PEPE and ARB last month", "lists", "ZK"),
    ("Binance will list ZK, BNB and PEPE", "lists", "ZK"),
    ("Binance will list ZK, PEPE and WXYZQ", "lists", "ZK"),
    ("Binance and OKX list ZK and PEPE", "lists", "ZK"),
    ("Hackers drain ETH, USDC and UNI from a bridge", "hacked", "ETH"),
    ("Strategy buys BTC and ETH", "buys", "BTC"),
    ("SEC approves a rule on BTC and ETH", "approves", "BTC"),
    ("币安上线 ZK，比特币、以太坊走低", "lists", "ZK"),
    ("币安上线 ZK/USDT、PEPE/USDT 交易对", "lists", "ZK"),
    ("黑客盗走 ETH、USDC 和 UNI", "hacked", "ETH"),
]
HELD_OUT = [
    ("Bithumb to list Sui (SUI), Celestia (TIA) and Sei (SEI) in the KRW market", "lists", "SUI", ("SUI", "TIA", "SEI")),
    ("Coinbase adds support for AERO, JTO & PYTH", "lists", "AERO", ("AERO", "JTO", "PYTH")),
    ("OKX 将于 12 月 3 日下架 KSM、FLOW 和 ZEC 现货交易对", "delists", "KSM", ("KSM", "FLOW", "ZEC")),
    ("Upbit 上线 Bonk（BONK）、Jupiter（JUP）韩元交易对", "lists", "BONK", ("BONK", "JUP")),
    ("SEC delays decision on Solana, XRP and Cardano ETFs", "delays", "SOL", ("SOL", "XRP", "ADA")),
    ("美国 SEC 批准 SOL、XRP、LTC 现货 ETF", "approves", "XRP", ("XRP", "SOL", "LTC")),
    ("Bitcoin and Ethereum rally after Binance lists ARB", "lists", "ARB", ()),
    ("Kraken lists PEPE with BTC, ETH and USDT pairs", "lists", "PEPE", ()),
    ("Whale sells 200 BTC and 3,000 ETH on Binance", "sells", "BTC", ()),
    ("Binance denies it will delist LTC, BCH and ZEC", "delists", "LTC", ()),
    ("币安上线 ARB/USDT、OP/USDT 永续合约", "lists", "ARB", ()),
    # Three claims: but the tables lack OMG, so it is one. Right are the other eleven.
    ("Bybit removes support for WAVES, OMG and NEO next week", "delists", "WAVES", ()),
]  # fmt: skip


@pytest.fixture(scope="module")
def tables() -> Tables:
    return load_tables(demo=False)


def parts(text: str, predicate: str, asset: str, tables: Tables, **stated: str):
    kind = "regulation" if predicate in {"approves", "rejects", "delays"} else "listing"
    subject = next(
        (name for name in ("Binance", "Bybit", "SEC") if name in text or (name == "Binance" and "币安" in text)), ""
    )
    draft = builders.draft(asset=asset, event_type=kind, entity=subject, summary=text)
    claim = StatedClaim(**{"subject": subject, "predicate": predicate, "asset": asset, "object": text} | stated)
    return parts_of("first", draft, claim, text, tables, at_most=5)


@pytest.mark.parametrize(("text", "predicate", "asset", "expected"), SEVERAL)
def test_a_list_that_is_the_object_of_the_claim_is_several_claims(text, predicate, asset, expected, tables):
    made = parts(text, predicate, asset, tables)
    assert tuple(part.asset for part in made) == expected
    assert {part.assets for part in made} == {expected}
    named = compiled(tables).directory
    for part in made:
        words = (part.text.partition("\n")[0], part.claim.object, part.draft.summary)
        others = {a.ticker for w in words for a in named.assets_in(w)} & set(expected) - {part.asset}
        assert not others, f"{part.asset} is also about {others}: {words}"
        assert part.draft.asset == part.claim.asset == part.asset


@pytest.mark.parametrize(("text", "predicate", "asset"), ONE)
def test_in_doubt_a_message_makes_one_claim(text, predicate, asset, tables):
    assert parts(text, predicate, asset, tables) == ()


def test_what_is_beyond_the_limit_is_named(tables):
    first, *_ = parts("Binance Will List ZK, PEPE, ARB, OP, STRK, SUI and SEI", "lists", "ZK", tables)
    assert (len(first.assets), first.left_out) == (5, ("SUI", "SEI"))


@pytest.mark.parametrize("modality", ["denied", "corrected"])
def test_a_denial_and_a_correction_are_one_claim(modality, tables):
    assert parts("Binance will list ZK, PEPE and ARB", "lists", "ZK", tables, modality=modality) == ()


def test_each_text_is_the_message_with_its_own_asset_alone(tables):
    text = "Binance Will List ZKsync (ZK), Pepe (PEPE) and Arbitrum (ARB)\nTrading of ZK, PEPE and ARB opens at 10:00. BTC is calm."
    own = narrow_to(text, "PEPE", ("ZK", "PEPE", "ARB"), compiled(tables))
    assert own == "Binance Will List Pepe (PEPE)\nTrading of PEPE opens at 10:00. BTC is calm."


@pytest.mark.parametrize(("text", "predicate", "asset", "expected"), HELD_OUT)
def test_messages_that_were_kept_aside(text, predicate, asset, expected, tables):
    denied = {"modality": "denied"} if "denies" in text else {}
    assert tuple(part.asset for part in parts(text, predicate, asset, tables, **denied)) == expected
