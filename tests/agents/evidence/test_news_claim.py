"""From what triage states to the claim: the asset by the tables, closed words, and the modality where none was stated."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import get_args

import pytest
from msgspec.structs import replace

from agents.core.case import fold
from agents.evidence.claim import PREDICATES, Claim
from agents.evidence.compiled import compiled
from agents.evidence.measurements import Measurement, measured
from agents.evidence.news_claim import ParsedText, claim_of, in_closed_words, with_asset
from schemas.events import CaseTriaged
from schemas.signals import ClaimAmount, EventType, StatedClaim
from tests.specification import case_after, opened

NOW = datetime(2026, 1, 2, tzinfo=UTC)


@pytest.fixture
def case_of(deep, draft):
    def make(text, claim=None, **changes):
        triaged = CaseTriaged(
            draft=replace(draft, **changes), route="deep", gate_reason="", rollout_bucket=0.0, claim=claim
        )
        return fold(case_after(opened(text), config=deep), triaged, event_id="e", at=NOW)

    return make


def test_the_claim_holds_what_triage_stated_and_a_share_in_percent_is_no_amount(case_of):
    stated = StatedClaim(
        subject="币安", venue="币安", amount=ClaimAmount(value=5e8, unit="USD"), modality="rumoured", asset="PEPE"
    )
    claim = claim_of(case_of("币安将上线 PEPE", stated, entity=None, asset="PEPE", event_type="listing"))
    assert (claim.subject, claim.venue, claim.amount, claim.modality) == ("币安", "币安", 5e8, "rumoured")
    assert (claim.entity, claim.asset) == ("币安", "PEPE")
    stated = StatedClaim(amount=ClaimAmount(value=12, unit="%"))
    assert claim_of(case_of("Poly Network lost 12%", stated)).amount is None


@pytest.mark.parametrize(
    ("text", "modality"),
    [
        ("Poly Network exploited, more than $600M moved", "asserted"),
        ("Walmart denies a partnership with Litecoin", "denied"),
        ("Bybit 辟谣:热钱包被盗的消息不实", "denied"),
        ("The denial that Walmart published is itself fake", "denied"),
        ("Correction: the loss is $61M, not $610M", "corrected"),
        ("更正:被盗金额为 6,100 万美元,而非 6.1 亿美元", "corrected"),
    ],
)
def test_without_a_stated_claim_the_grammar_tells_how_the_text_puts_it(case_of, deep, text, modality):
    assert ParsedText(compiled(deep.tables), text).modality == modality
    claim = claim_of(case_of(text))
    assert (claim.modality, claim.subject, claim.amount) == (modality, "Poly Network", None)


@pytest.mark.parametrize(
    ("given", "stated", "asset"),
    [
        ({"event_type": "listing", "asset": "BNB"}, {"subject": "Binance", "asset": "PEPE", "venue": "Binance"}, "PEPE"),
        ({"event_type": "listing", "asset": "BNB"}, {"subject": "币安", "asset": "以太坊", "venue": "币安"}, "ETH"),
        ({"event_type": "listing", "asset": "UNKNOWN"}, {"subject": "OKX", "asset": "$NEWCOIN", "venue": "OKX"}, "NEWCOIN"),
        ({"event_type": "listing", "asset": "BNB"}, {"subject": "Binance", "asset": "BNB", "venue": "Binance"}, "BNB"),
        ({"event_type": "listing", "asset": "BTC"}, {"subject": "Binance", "asset": "", "venue": "Binance"}, "BTC"),
        ({"asset": "ETH"}, {"subject": "a bridge", "asset": "ETH", "amount": (5000, "ETH")}, "ETH"),
        ({"asset": "UNKNOWN"}, {"subject": "a bridge", "asset": "", "amount": (5000, "枚 ETH")}, "ETH"),
        ({"asset": "ETH"}, {"subject": "Ronin", "asset": "ETH", "amount": (173_600, "ETH")}, "RON"),
        ({"asset": "ETH"}, {"subject": "a lender", "asset": "AAVE", "amount": (5000, "以太坊")}, "AAVE"),
        ({"asset": "XRP"}, {"subject": "Ripple", "asset": "XRP", "amount": (213e6, "XRP")}, "XRP"),
        ({"event_type": "whale", "asset": "ETH"}, {"subject": "Binance", "asset": "ETH", "amount": (5000, "ETH")}, "ETH"),
        ({"asset": "UNKNOWN"}, {"subject": "a bank", "asset": "none", "amount": (5e6, "USD")}, "UNKNOWN"),
    ],
)  # fmt: skip
def test_the_tables_say_which_asset_the_claim_is_about(deep, draft, given, stated, asset):
    amount = ClaimAmount(value=stated["amount"][0], unit=stated["amount"][1]) if "amount" in stated else None
    found = with_asset(replace(draft, **given), StatedClaim(**{**stated, "amount": amount}), deep.tables)
    assert found.asset == asset
    assert found.asset == given["asset"] or found.asset_name in (
        asset,
        *compiled(deep.tables).asset_names.get(asset, ()),
    )


def test_subject_and_venue_are_found_in_the_table_by_any_of_their_names(deep):
    told = {"text": "업비트, ZRO 상장", "subject": "火币", "venue": "Upbit"}
    claim = Claim(language="other", event_type="listing", asset="ZRO", as_of=NOW, **told)
    assert {"HTX", "Upbit"} <= {e.name for e in compiled(deep.tables).entities.parties(claim)}


def test_a_predicate_of_another_list_is_other_and_the_amount_one_number():
    stated = StatedClaim(predicate="lists", amount=ClaimAmount(value=9.14, unit="亿 USDT"))
    assert in_closed_words(stated, "listing").predicate == "lists"
    found = in_closed_words(stated, "hack")
    assert (found.predicate, found.amount) == ("other", ClaimAmount(value=914_000_000, unit="USDT"))


def test_every_event_type_has_its_predicates():
    assert tuple(PREDICATES) and set(PREDICATES) == set(get_args(EventType))
    assert all(words and len(set(words)) == len(words) and "other" not in words for words in PREDICATES.values())


def test_a_liquidation_is_measured_against_the_stated_amount():
    text = "Over $500M liquidated as the market falls below $2T"
    claim = Claim(text=text, language="en", event_type="liquidation", asset="BTC", as_of=NOW, amount=5e8)
    total = Measurement(kind="liquidation", venue="tracker", at=NOW, total_usd=3e8)
    assert measured(claim, [total]) == "confirms"
    assert measured(replace(claim, amount=None), [total]) is None
