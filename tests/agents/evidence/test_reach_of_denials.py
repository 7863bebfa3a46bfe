"""What a denial may reach by words alone: this event, in these days, and never more than a dispute."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from agents.evidence import Claim, assess
from agents.evidence.witnesses import check_pages, judge_evidence
from agents.tables import load_tables
from schemas.config import Snapshot
from schemas.evidence import PageStance
from schemas.signals import Verdict
from tests import builders

pytestmark = pytest.mark.security

NOW = datetime(2026, 3, 4, 12, 0, tzinfo=UTC)
SNAPSHOT = Snapshot(tables=load_tables(demo=False))
BINANCE, COINDESK = "https://www.binance.com/en/blog/1", "https://www.coindesk.com/1"


def claim(text: str, kind: str, asset: str, entity: str, language: str = "en") -> Claim:
    return Claim(text=text, language=language, event_type=kind, asset=asset, entity=entity, as_of=NOW)


def verdict(of: Claim, *pages: tuple[str, str, timedelta]) -> tuple[Verdict, bool]:
    """Return the verdict by words alone and whether it denies; a page is its address, text and age."""
    found = [builders.search_result(url, text, title=text[:60], published_at=NOW - age) for url, text, age in pages]
    findings = assess(of, found, query="", snapshot=SNAPSHOT)
    judged = judge_evidence(of, check_pages(of, findings.references, None, SNAPSHOT), snapshot=SNAPSHOT, by_words=True)
    return judged.verdict, judged.denied


LISTS = claim("Binance will list ZETA for spot trading on Friday", "listing", "ZETA", "Binance")
HOUR = timedelta(hours=1)


@pytest.mark.parametrize(
    "denial",
    [
        "Binance denies the report that it mixed customer funds with company revenue, and calls the story conspiratorial.",
        "Binance denied rumours of an insolvency on Tuesday. A spokesperson said that all withdrawals are processed as usual.",
    ],
)
def test_a_denial_of_something_else_disputes_no_listing(denial: str) -> None:
    assert verdict(LISTS, (BINANCE, denial, HOUR)) == ("unconfirmed", False)


@pytest.mark.parametrize(
    ("told", "page", "language"),
    [
        ("Kraken hacked, $90M drained", "Kraken denies the hack was an inside job. The exchange lost $90M on Monday.", "en"),
        ("Kraken hacked, $90M drained", "Kraken denies covering up the hack that drained $90M from its hot wallets.", "en"),
        ("Kraken hacked, $90M drained", "Kraken denied that the hacker was an employee after $90M was stolen.", "en"),
        ("Kraken hacked, $90M drained", "Kraken denies it paid a ransom to hackers who stole $90M from it.", "en"),
        ("Kraken 被黑客攻击,损失9000万美元", "Kraken 否认此次黑客攻击为内部人员所为,损失约9000万美元。", "zh"),
    ],
)  # fmt: skip
def test_who_denies_something_of_an_event_admits_the_event(told: str, page: str, language: str) -> None:
    assert verdict(claim(told, "hack", "BTC", "Kraken", language), (COINDESK, page, HOUR))[1] is False


def test_what_is_said_of_an_event_is_denied_where_it_is_the_claim() -> None:
    told = claim("Kraken hack was an inside job by an employee, $90M drained", "hack", "BTC", "Kraken")
    page = "Kraken denies the hack was an inside job and says that no employee was involved in it."
    assert verdict(told, (COINDESK, page, HOUR)) == ("disputed", True)


def test_a_denial_of_years_ago_disputes_nothing_and_one_of_today_does() -> None:
    denial = "Binance denies that it will list ZETA: the screenshot of the ZETA listing is fake, the exchange said."
    assert verdict(LISTS, (BINANCE, denial, timedelta(days=900))) == ("unconfirmed", False)
    assert verdict(LISTS, (BINANCE, denial, HOUR)) == ("disputed", True)


def test_an_approval_is_not_disputed_by_the_denial_of_the_day_before() -> None:
    approves = claim("SEC approves 11 spot Bitcoin ETFs for listing", "regulation", "BTC", "SEC")
    url = "https://www.sec.gov/news/statement/1"
    disowned = "The SEC account on X was compromised. The SEC has not approved the listing of spot Bitcoin ETFs."
    approved = "The SEC today approved the listing and trading of 11 spot Bitcoin ETFs."
    day_before = (url, disowned, timedelta(hours=24))
    assert verdict(approves, day_before)[1] is False
    assert verdict(approves, day_before, (f"{url}2", approved, HOUR))[0] == "confirmed"
    assert verdict(approves, (url, disowned, HOUR)) == ("disputed", True)


@pytest.mark.parametrize(
    ("text", "page", "language"),
    [
        ("SEC will not appeal the ruling on Grayscale's spot Bitcoin ETF", "The SEC will not appeal the court ruling on the Grayscale spot Bitcoin ETF, it said today.", "en"),
        ("SEC 不会就灰度比特币 ETF 裁决上诉", "SEC 今日表示, 不会就法院关于灰度比特币现货 ETF 的裁决提出上诉, 该裁决即日生效。", "zh"),
    ],
)  # fmt: skip
def test_a_claim_that_says_not_is_never_refuted_by_the_page_that_says_the_same(
    text: str, page: str, language: str
) -> None:
    of = claim(text, "regulation", "BTC", "SEC", language)
    assert verdict(of, ("https://www.sec.gov/news/statement/2", page, HOUR)) == ("unconfirmed", False)


def test_words_alone_never_refute_and_never_raise() -> None:
    hacked = claim("Binance hot wallet hacked, $200 million stolen", "hack", "BNB", "Binance")
    denial = "Binance was not hacked. The claim that its hot wallet lost $200 million is false, and all funds are safe."
    assert verdict(hacked, (BINANCE, denial, HOUR), (COINDESK, denial, HOUR))[0] == "disputed"


def test_who_repeats_a_report_that_its_own_source_took_back_supports_nothing() -> None:
    """The medium that broke a story withdraws it: copies that name it as their source are not on the other side."""
    deal = claim("Stripe has agreed to buy BitGo for $2.1 billion", "partnership", "UNKNOWN", "Stripe")
    withdrawn = "Correction: an earlier version said that Stripe had agreed to buy BitGo. No such agreement exists."
    copied = "Stripe is buying BitGo for $2.1 billion, Fortune reports, in one of the biggest custody deals ever made."
    pages = [
        builders.search_result(u, t, title=t[:50], published_at=NOW - age)
        for u, t, age in (
            ("https://fortune.com/crypto/1", withdrawn, HOUR),
            ("https://coinbuzzwire.example/1", copied, 2 * HOUR),
        )
    ]
    references = assess(deal, pages, query="", snapshot=SNAPSHOT).references
    said = [
        PageStance(reference_number=r.reference_number, stance="denies", quote="No such agreement exists")
        if "fortune" in r.url
        else PageStance(
            reference_number=r.reference_number, stance="supports", quote="Stripe is buying BitGo", cites="Fortune"
        )
        for r in references
    ]
    heard = check_pages(deal, references, said, SNAPSHOT)
    found = judge_evidence(deal, heard, snapshot=SNAPSHOT, by_words=False)
    assert (found.verdict, found.supporting_sources) == ("refuted", 1)
