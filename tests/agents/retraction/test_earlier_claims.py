"""Whom a denial or a correction concerns: all that claim the same thing, none that merely share asset and entity."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from msgspec.structs import replace

from agents.retraction import choose_concerned, earlier_claims_query, find_candidates
from agents.tables import load_tables
from schemas.config import Snapshot
from schemas.effects import EarlierClaim
from schemas.events import CaseTriaged
from tests import builders
from tests.specification import START, case_after, opened

CONFIG = Snapshot(tables=load_tables(demo=True))


class Text(NamedTuple):
    """One news item as triage reads it."""

    text: str
    entity: str | None
    asset: str


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
SITUATIONS = [
    json.loads(line) for line in (Path(__file__).parents[2] / "data" / "denials.jsonl").read_text("utf-8").splitlines()
]
"""A denial or correction, the earlier claims that it concerns, and those that it does not."""


def case_of(news: Text, **config):
    draft = builders.draft(
        summary=news.text, event_type="other", asset=news.asset, asset_name="", strength="medium", entity=news.entity
    )
    triaged = CaseTriaged(draft=draft, route="deep", gate_reason="", rollout_bucket=0.0)
    return case_after(opened(news.text), triaged, config=replace(CONFIG, **config))


def claim(text: Text, number: int = 0, **changes) -> EarlierClaim:
    plain = EarlierClaim(
        case_id=f"case-{number}", asset=text.asset, event_type="other", language="en", entity=text.entity,
        text=f"{text.text} ({number})" if number else text.text, as_of=START - timedelta(hours=number + 1),
    )  # fmt: skip
    return replace(plain, **changes)


@pytest.mark.parametrize("one", SITUATIONS, ids=lambda one: one["name"])
def test_a_denial_concerns_what_claims_the_same_and_nothing_else(one: dict[str, Any]) -> None:
    case = case_of(Text(**one["news"]))
    asked = earlier_claims_query(case)
    assert asked is not None
    concerned = [Text(**text) for text in one["concerned"]]
    texts = [*concerned, *(Text(**text) for text in one["others"])]
    found = find_candidates(case, [claim(t, n) for n, t in enumerate(texts) if t.asset in asked.assets])
    meant = [texts[int(c.claim.case_id.removeprefix("case-"))] for c in found if c.same_claim]
    assert set(meant) == set(concerned)
    assert {c.kind for c in found if c.same_claim} == {one["kind"]}


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


def test_only_claims_of_the_window_before_the_denial_and_of_its_assets_are_candidates() -> None:
    case = case_of(WALMART_DENIES, retraction_window_days=3)
    late = claim(WALMART, 1, as_of=START + timedelta(seconds=1))
    old = claim(WALMART, 2, as_of=START - timedelta(days=3, seconds=1))
    own = claim(WALMART, 3, case_id=case.case_id)
    assert find_candidates(case, (late, old, own)) == ()
    assert len(find_candidates(case, (claim(WALMART, 1, as_of=START),))) == 1
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
