"""The pages that tempt: each is found with its news, none confirms it, and no false news gains by them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from agents.evidence.claim import Claim
from agents.evidence.findings import assess
from agents.evidence.verdict import Judgement
from agents.evidence.witnesses import check_pages, judge_evidence
from agents.tables import load_tables
from infra.offline.rules import draft_of, keywords_of
from infra.offline.search import Document, OfflineSearch, _result
from schemas.config import Snapshot
from schemas.signals import ACTED_ON

OFFLINE = Path(__file__).resolve().parents[3] / "infra" / "offline"
TEMPTING = OFFLINE / "corpus" / "documents-tempting.jsonl"
SNAPSHOT = Snapshot(tables=load_tables(demo=True))
PAGES: dict[str, dict[str, Any]] = {
    page["url"]: page for page in map(json.loads, TEMPTING.read_text("utf-8").splitlines())
}
EVENTS = {e["id"]: e for e in map(json.loads, (OFFLINE / "sample" / "history.jsonl").read_text("utf-8").splitlines())}
# Which page tempts with which news, and how. The corpus must not say so, a test has to.
TEMPTS = {
    "treasurywatchers.example/posts/charges-are-coming": ("h03", "steers"),
    "wirecapital.example/2021/04/tesla-holds-its-bitcoin-over-the-quarter": ("h04", "held"),
    "hashreport.example/2021/05/8-6b-in-leveraged-positions-liquidated-in-a-day": ("h40", "old"),
    "globalmarketsnow.example/2021/06/fbi-ran-encrypted-phone-network-for-years": ("h05", "other victim"),
    "defidigest.example/2021/07/thorchain-exploited-again-8m-moved": ("h07", "other victim"),
    "blockroundup.example/2021/07/amazon-bitcoin-payments-report": ("h06", "cites"),
    "altcoinbrief.example/2021/07/insider-tells-london-paper-about-amazon-and-bitcoin": ("h06", "cites"),
    "kuaibao24.example/a/20210725/118203": ("h06", "cites"),
    "coinherald.example/2021/07/amazon-bitcoin-checkout-what-the-insider-tells": ("h06", "cites"),
    "corporate.walmart.example/newsroom/parcel-partnership": ("h09", "off topic"),
    "zenithnewswire.example/releases/litecoin-walmart-ltc-payments": ("h09", "wire"),
    "pbc.example/goutongjiaoliu/tongzhi-zhifu": ("h10", "off topic"),
    "blockpost.example/2022/01/qubit-bridge-drained-of-80m": ("h12", "other victim"),
    "bitanbao.example/a/20220404/410233": ("h14", "other victim"),
    "celsius.example/blog/product-roadmap-june-2022": ("h15", "off topic"),
    "bnbchain.example/blog/planned-upgrade-september": ("h17", "plan"),
    "szzczk.example/a/20220926/660121": ("h23", "other victim"),
    "hashreport.example/2022/12/binance-confirms-mazars-pause-denies-withdrawal-limits": ("h21", "other denial"),
    "circle.example/blog/usdc-reserve-report-february": ("h22", "off topic"),
    "wirecapital.example/2023/04/sec-sues-bittrex-and-its-founder": ("h24", "other victim"),
    "finbulletin.example/2023/06/asset-manager-weighs-filing-for-spot-bitcoin-etf": ("h25", "plan"),
    "hqlian.example/a/20231016/305518": ("h30", "cites"),
    "xrparmyblog.example/posts/ishares-xrp-trust-is-real": ("h31", "amount"),
    "marketdesk.example/2023/12/sec-puts-off-decision-on-spot-ether-products": ("h34", "held"),
    "lianxun.example/a/20240108/402118": ("h42", "other denial"),
    "finbulletin.example/2024/01/exchanges-ready-once-sec-grants-approval": ("h33", "plan"),
    "chainwire.example/2024/06/btcturk-hot-wallets-breached-54m-withdrawn": ("h37", "other victim"),
    "quantumdoom.example/posts/sell-before-willow": ("h38", "amount"),
    "hqlian.example/a/20250123/774120": ("h39", "other victim"),
    "announcements.bybit.example/article/eth-cold-wallet-rotation": ("h39", "off topic"),
    "rizhilian.example/zhuanti/dmm-bitcoin": ("h36", "undated"),
    "sec.example/answers/spot-bitcoin-etf-applications": ("h30", "undated"),
}
FIRST = 5
"""Results of one search (``SEARCH_MAX_RESULTS``)."""
TRUE_RAISED = 0.9
"""Share of the true news that the word rules alone call likely or confirmed. The verbs of four were added to the lists with
these pages in sight: on news that nobody has looked at the share is lower (docs/verification.md)."""


@pytest.fixture(scope="module")
def port() -> OfflineSearch:
    return OfflineSearch()


def queries(event: dict[str, Any]) -> tuple[str, str]:
    """Return the news itself, and the keywords that the offline plan searches for."""
    draft = draft_of(event["text"])
    return event["text"], keywords_of(event["text"], draft["event_type"], draft["entity"])


def test_every_page_is_found_with_the_news_that_it_tempts_with(port: OfflineSearch) -> None:
    assert {url.removeprefix("https://") for url in PAGES} == set(TEMPTS)
    for address, (item, _) in TEMPTS.items():
        for query in queries(EVENTS[item]):
            assert f"https://{address}" in [d.url for d, _ in port.rank(query)[:FIRST]]


def by_words(event: dict[str, Any], documents: Iterable[tuple[Document, float]]) -> Judgement:
    """Judge one news by some pages as the word rules alone read them."""
    draft = draft_of(event["text"])
    claim = Claim(
        text=event["text"],
        language=event["lang"],
        event_type=draft["event_type"],
        asset=draft["asset"],
        asset_name=draft["asset_name"],
        entity=draft["entity"] or None,
        as_of=_time(event),
    )
    found = assess(claim, tuple(_result(d, s, "offline") for d, s in documents), query="q", snapshot=SNAPSHOT)
    return judge_evidence(claim, check_pages(claim, found.references, None, SNAPSHOT), snapshot=SNAPSHOT, by_words=True)


@pytest.mark.parametrize(
    ("address", "item"),
    [(url, item) for url, (item, _) in TEMPTS.items()],
)
def test_no_page_that_tempts_confirms_its_news_by_itself(port: OfflineSearch, address: str, item: str) -> None:
    alone = [(d, 0.9) for d in port.documents if d.url == f"https://{address}"]
    assert by_words(EVENTS[item], alone).verdict not in ACTED_ON


def test_no_false_news_is_supported_and_most_true_news_is(port: OfflineSearch) -> None:
    verdicts = {item: [by_words(e, port.rank(q)[:FIRST]).verdict for q in queries(e)] for item, e in EVENTS.items()}
    raised = {item for item, found in verdicts.items() if any(v in ACTED_ON for v in found)}
    assert not raised & {item for item, e in EVENTS.items() if e["truth"] == "false"}, verdicts
    true = {item for item, e in EVENTS.items() if e["truth"] == "true"}
    assert len(raised & true) >= TRUE_RAISED * len(true), sorted(true - raised)


def _time(event: dict[str, Any]) -> datetime:
    return datetime.fromisoformat(event["published_at"])
