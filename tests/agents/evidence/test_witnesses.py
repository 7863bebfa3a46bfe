"""From references to a verdict: what raises, what lowers, what changes nothing, and which pages are one source."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from agents.evidence import Claim, assess
from agents.evidence.passages import sentences_of
from agents.evidence.policy import conclude
from agents.evidence.verdict import Judgement
from agents.evidence.witnesses import (
    MAX_SHOWN,
    CheckedPage,
    check_pages,
    judge_evidence,
    shown_to_critic,
    too_many_unquoted,
)
from agents.tables import load_tables
from schemas.config import Snapshot
from schemas.evidence import PageStance, SearchReference
from tests import builders

SNAPSHOT = Snapshot(tables=load_tables(demo=False))
NOW = datetime(2024, 6, 3, 10, tzinfo=UTC)
HACK = Claim(
    text="Kraken loses $85 million of user funds in a hack", language="en", event_type="hack", asset="UNKNOWN", as_of=NOW,
    entity="Kraken", subject="Kraken", source_url="https://wire.example/kraken-hack",
)  # fmt: skip
DRAFT = builders.draft(asset="BTC", confidence=0.7)
TOLD = "Kraken lost $85 million of customer money on Monday, security firms said."


def reference(number: int, passage: str = TOLD, *, title: str = "Money gone", **marks: Any) -> SearchReference:
    values = {"stance": "unrelated", "source_credibility": "unknown", "published_at": NOW - timedelta(hours=1)} | marks
    return builders.reference(number, passage, title=title, **values)


def official(
    number: int, passage: str = "We lost $85 million of customer money on Monday.", **marks: Any
) -> SearchReference:
    values = {"domain": "kraken.com", "official": True, "speaker": "Kraken", "source_credibility": "high"}
    return reference(number, passage, **values | marks)


def press(number: int, passage: str = TOLD, **marks: Any) -> SearchReference:
    return reference(number, passage, source_credibility="high", **marks)


def says(of: SearchReference, stance: Any = "supports", quote: str | None = "", **marks: Any) -> PageStance:
    quote = of.passage if quote == "" else quote
    return PageStance(reference_number=of.reference_number, stance=stance, quote=quote, **marks)


def judge(*pairs: tuple[SearchReference, PageStance | None], claim: Claim = HACK, **more: Any) -> Judgement:
    return read([r for r, _ in pairs], [s for _, s in pairs if s is not None], claim=claim, **more)


def read(
    references: Sequence[SearchReference], said: Sequence[PageStance] | None, *, claim: Claim = HACK, **more: Any
) -> Judgement:
    heard = check_pages(claim, references, said, SNAPSHOT)
    return judge_evidence(claim, heard, snapshot=SNAPSHOT, by_words=said is None, **more)


def heard(of: SearchReference, said: PageStance | None, claim: Claim = HACK) -> tuple[str, bool, tuple[str, ...]]:
    found = check_pages(claim, [of], [] if said is None else [said], SNAPSHOT)[0]
    return found.stance, found.quoted, found.flags


def supported(*references: SearchReference, cites: tuple[str | None, ...] = ()) -> int:
    of = cites or (None,) * len(references)
    return judge(*((r, says(r, cites=c)) for r, c in zip(references, of, strict=True))).supporting_sources


def test_a_page_supports_by_a_quote_that_it_holds_and_is_of_this_subject_and_event() -> None:
    page = press(1)
    assert heard(page, says(page)) == ("supports", True, ())
    assert heard(page, says(page, quote="Kraken lost $95 million of customer money")) == ("unrelated", False, ())
    assert heard(page, says(page, quote=None)) == ("unrelated", False, ())
    assert heard(page, None) == ("unrelated", False, ())
    page = press(1)
    assert heard(page, says(page, same_subject=False))[0] == "unrelated"
    assert heard(page, says(page, same_event=False))[0] == "unrelated"
    assert heard(page, says(page, same_event=False, amount="differs")) == ("unrelated", True, ())


def test_an_amount_that_differs_makes_support_a_hedge_and_is_flagged() -> None:
    page = official(1)
    assert heard(page, says(page, amount="differs")) == ("hedges", True, ("amount_differs",))
    found = judge((page, says(page, amount="differs")))
    assert (found.verdict, found.flags) == ("unconfirmed", ("amount_differs",))


def test_what_the_word_rules_read_supports_nothing_beside_a_critic() -> None:
    page = official(1, stance="supports")
    assert heard(page, None)[0] == "unrelated"
    assert judge((page, None)).verdict == "unconfirmed"


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ({"stance": "unrelated", "quote": None}, "unrelated"),
        ({"stance": "denies", "same_subject": False}, "unrelated"),
        ({"stance": "denies", "same_event": False}, "unrelated"),
        ({"stance": "earlier"}, "earlier"),
        ({"stance": "hedges"}, "hedges"),
        ({"stance": "hedges", "amount": "differs"}, "hedges"),
        ({"stance": "supports", "quote": "not on the page at all"}, "denies"),
        ({"stance": "supports", "amount": "differs"}, "hedges"),
    ],
)
def test_a_denial_that_the_word_rules_read_stands_unless_the_critic_reads_another_story(
    answer: dict[str, Any], expected: str
) -> None:
    page = press(1, stance="denies")
    assert heard(page, says(page, **answer))[0] == expected


def test_support_by_a_checked_quote_voids_a_denial_of_the_word_rules_and_is_flagged() -> None:
    page = official(1, stance="denies")
    assert heard(page, says(page)) == ("supports", True, ("stance_disputed",))
    found = judge((page, says(page)))
    assert (found.verdict, found.flags) == ("confirmed", ("stance_disputed",))


def test_a_denial_that_only_the_word_rules_read_disputes_even_on_the_partys_own_page() -> None:
    page = official(1, "We lost nothing at all on Monday, and no customer money is gone.", stance="denies")
    assert judge((page, None)).verdict == "disputed"
    assert judge((page, says(page, "denies"))).verdict == "refuted"
    assert read([page], None).verdict == "disputed"


def test_a_denial_by_a_reported_spokesperson_is_the_partys_and_one_by_others_is_the_presss() -> None:
    page, other = press(1, "A Kraken spokeswoman said that no money was lost."), press(2)
    named = says(page, "denies", speaks_for="party", cites="a Kraken spokeswoman")
    assert judge((page, named), (other, says(other))).verdict == "refuted"
    assert judge((page, replace(named, speaks_for="other")), (other, says(other))).verdict == "disputed"
    weak = reference(1, page.passage)
    assert judge((weak, named), (other, says(other))).verdict == "disputed"


def test_a_party_that_the_critic_hears_speak_on_its_own_host_is_official_and_nobody_elses_host_is() -> None:
    told = "Kraken lost no customer money, and all of its funds are safe."
    page = reference(1, told, domain="kraken.com")
    assert judge((page, says(page, speaks_for="party"))).official_confirmed
    other = reference(1, told, domain="circle.com")
    assert not judge((other, says(other, speaks_for="party"))).official_confirmed
    assert not judge((page, says(page))).official_confirmed
    assert not judge((reference(1), says(reference(1), speaks_for="party"))).official_confirmed
    assert judge((page, says(page, "denies", speaks_for="party"))).verdict == "refuted"


def test_where_anybody_may_write_a_partys_host_denies_alone_and_supports_nothing() -> None:
    page, other = reference(1, domain="community.kraken.com"), press(2)
    assert not judge((page, says(page, speaks_for="party"))).official_confirmed
    denial = says(page, "denies", speaks_for="party")
    assert judge((page, denial)).verdict == "refuted"
    assert judge((page, denial), (other, says(other))).verdict == "disputed"
    own = official(3)
    assert judge((page, denial), (own, says(own))).verdict == "confirmed"


def test_a_release_of_a_wire_is_established_on_no_site_that_carries_it() -> None:
    pages = [
        reference(1, domain="prnewswire.co.uk"),
        press(2, domain="bigpaper.example"),
        press(3, domain="daily.example"),
    ]
    found = judge(*((p, says(p, cites="PR Newswire")) for p in pages))
    assert (found.verdict, found.supporting_sources) == ("unconfirmed", 1)
    assert judge((pages[1], says(pages[1]))).verdict == "likely"


def test_who_retells_the_news_with_its_own_origin_as_the_source_is_no_witness() -> None:
    claim = replace(HACK, source_url="https://www.coindesk.com/2024/kraken-hack")
    page, own = press(1), official(2)
    told = says(page, cites="CoinDesk")
    found = judge((page, told), claim=claim)
    assert (found.verdict, found.supporting_sources, found.independent_sources) == ("unconfirmed", 0, 1)
    assert judge((page, says(page, cites="Reuters")), claim=claim).verdict == "likely"
    assert judge((own, says(own, cites="CoinDesk")), claim=claim).verdict == "confirmed"
    assert judge((page, says(page, "denies", cites="CoinDesk")), claim=claim).denied


@pytest.mark.parametrize(
    ("title", "speaker"),
    [
        ("Form 8-K — Brindle Works, Inc.", "Brindle Works"),
        ("Form 8-K — Brindle Works", "Brindle Works"),
        ("Brindle Works Form 8-K", "Brindle Works"),
        ("Form 8-K — Brindle Foods, Inc.", None),
        ("Form 8-K — Brindle Works Foods, Inc.", None),
    ],
)
def test_a_filing_speaks_for_the_registrant_of_that_whole_name(title: str, speaker: str | None) -> None:
    claim = Claim(
        text="Brindle Works raises $500 million", language="en", event_type="funding", asset="UNKNOWN", as_of=NOW,
    )  # fmt: skip
    text = "The Company raised $500 million in a sale of its shares to a group of investors on Monday."
    result = builders.search_result("https://www.sec.gov/Archives/edgar/data/1/8k.htm", text, title=title)
    found = assess(claim, [result], query="", snapshot=SNAPSHOT).references[0]
    assert (found.official, found.speaker is not None) == (speaker is not None, speaker is not None)


def test_a_filing_is_no_word_of_the_commission() -> None:
    claim = replace(HACK, text="SEC fines Kraken for the loss of $85 million of user funds", event_type="regulation")
    page = replace(reference(1, domain="sec.gov"), url="https://www.sec.gov/Archives/edgar/data/1679788/8k.htm")
    assert not judge((page, says(page, speaks_for="authority")), claim=claim).official_confirmed
    notice = replace(page, url="https://www.sec.gov/newsroom/1")
    assert judge((notice, says(notice, speaks_for="authority")), claim=claim).official_confirmed
    assert not judge((notice, says(notice, speaks_for="authority"))).official_confirmed


def test_more_than_a_third_of_quotes_that_fail_bar_confirmed() -> None:
    pages = [official(1), *(press(n) for n in (2, 3, 4)), *(reference(n) for n in (5, 6, 7))]
    good = [(p, says(p)) for p in pages]
    bad = [(p, says(p, quote="this stands nowhere on it")) for p in pages]
    one = judge(good[0], good[1], bad[2])
    assert (one.verdict, one.flags) == ("confirmed", ())
    two = judge(good[0], good[1], bad[2], bad[3])
    assert (two.verdict, two.flags) == ("likely", ("quotes_failed",))
    # What strangers' pages do not hold bars nothing that they are not needed for, and saves nothing either.
    assert judge(good[0], *bad[4:]).verdict == judge(*good[1:3], good[4], *bad[5:]).verdict == "confirmed"
    assert judge(good[0], good[1], bad[2], bad[3], *good[4:]).flags == ("quotes_failed",)
    assert judge(good[4], bad[5]).flags == ("quotes_failed",)


@pytest.mark.parametrize(
    ("stances", "failed", "expected"),
    [("s", 0, False), ("sss", 1, False), ("ss", 1, True), ("ssssss", 2, False), ("sssss", 2, True), ("uuu", 3, False)],
)
def test_a_third_of_the_quotes_may_fail_and_pages_without_a_stance_need_none(
    stances: str, failed: int, expected: bool
) -> None:
    pages = [press(n) for n, _ in enumerate(stances, start=1)]
    said = [
        says(p, "supports" if s == "s" else "unrelated", quote="stands nowhere on it" if n < failed else p.passage)
        for n, (p, s) in enumerate(zip(pages, stances, strict=True))
    ]
    assert too_many_unquoted(check_pages(HACK, pages, said, SNAPSHOT)) is expected
    assert not too_many_unquoted(check_pages(HACK, pages, None, SNAPSHOT)), "nobody was asked"
    assert not too_many_unquoted(check_pages(HACK, pages, [], SNAPSHOT))


def test_what_a_critic_should_have_read_and_did_not_is_likely_at_most_and_raises_nothing() -> None:
    pages = [official(1, stance="supports"), press(2, stance="supports"), reference(3, stance="supports")]
    assert read(pages, None).verdict == "confirmed"
    found = read(pages, None, unread=True)
    assert (found.verdict, found.low, found.high) == ("likely", 0.0, 0.0)
    assert read([replace(p, stance="denies") for p in pages], None, unread=True).verdict == "disputed"
    assert read([], None, unread=True).verdict == "unconfirmed"


def shown(*references: SearchReference, most: int = MAX_SHOWN) -> list[int]:
    return [r.reference_number for r in shown_to_critic(references, most)]


def test_a_critic_is_shown_six_references_in_their_order() -> None:
    assert shown(*(reference(n) for n in range(1, 10))) == [1, 2, 3, 4, 5, 6]
    assert shown(reference(1), reference(2)) == [1, 2]
    better = [replace(reference(n), quality_score=80.0 + n) for n in range(1, 10)]
    assert shown(*better) == [4, 5, 6, 7, 8, 9]


def test_official_pages_are_shown_first_and_then_one_of_each_owner() -> None:
    pages = [*(replace(reference(n), quality_score=99.0) for n in range(1, 7)), official(7)]
    assert shown(*pages) == [1, 2, 3, 4, 5, 7]
    one_owner = [replace(reference(n, owner="a.example"), quality_score=99.0) for n in range(1, 7)]
    others = [replace(reference(n), quality_score=30.0) for n in (7, 8)]
    assert shown(*one_owner, *others, most=3) == [1, 7, 8]
    # A second page of an owner is shown where no other owner has one.
    assert shown(*one_owner, *others, most=4) == [1, 2, 7, 8]


@given(st.lists(st.tuples(st.booleans(), st.integers(30, 100), st.sampled_from("abcd")), max_size=9), st.integers(1, 6))
def test_what_a_critic_is_shown_leaves_out_no_owner_for_the_second_page_of_another(
    found: list[tuple[bool, int, str]], most: int
) -> None:
    pages = [
        replace(reference(n, owner=owner, official=official), quality_score=float(quality))
        for n, (official, quality, owner) in enumerate(found, start=1)
    ]
    kept = shown_to_critic(pages, most)
    assert len(kept) == min(most, len(pages))
    assert [r.reference_number for r in kept] == sorted(r.reference_number for r in kept)
    owners = [r.owner for r in kept]
    if len(set(owners)) < len(owners):
        assert set(owners) == {r.owner for r in pages}


def test_the_page_of_the_news_itself_is_no_witness() -> None:
    origin = replace(press(1), url="http://www.wire.example/kraken-hack/?utm_source=x")
    found = judge((origin, says(origin)))
    assert (found.verdict, found.supporting_sources, found.independent_sources) == ("unconfirmed", 0, 0)


def test_for_news_that_denies_a_reported_denial_is_official_support() -> None:
    claim = replace(HACK, text="Kraken denies that it was hacked", modality="denied")
    page = press(1, "A Kraken spokeswoman called the reports of a hack untrue.")
    told = says(page, speaks_for="party", cites="Kraken")
    assert judge((page, told), claim=claim).verdict == "confirmed"
    assert judge((page, told)).verdict == "likely"


def test_a_figure_and_the_critics_own_verdict_reach_the_judgement() -> None:
    page = official(1)
    assert judge((page, says(page)), measured="contradicts").verdict == "refuted"
    assert judge((page, says(page)), critic="not_enough_evidence").verdict == "likely"
    assert judge((page, says(page)), partly_refuted=True).flags == ("partly_refuted",)


def test_pages_of_one_owner_of_one_outlet_of_one_account_and_of_the_claimant_are_one_source() -> None:
    assert supported(reference(1, owner="x.com/a"), reference(2, owner="x.com/a"), reference(3, owner="x.com/b")) == 2
    assert supported(press(1), press(2), cites=("吴说", "Wu Blockchain")) == 1
    assert supported(press(1), press(2), cites=("彭博社", "Bloomberg News")) == 1
    post = reference(1, domain="x.com", owner="x.com/zachxbt")
    assert supported(post, press(2), reference(3), cites=(None, "@ZachXBT", "@zachxbt")) == 1
    own = [reference(n, own_page=True, owner=f"medium.com/{n}") for n in (1, 2)]
    assert supported(*own) == 1
    assert supported(*own, reference(3)) == 2


@pytest.mark.parametrize("cites", ["CoinDesk", "coindesk", "COINDESK"])
def test_pages_that_cite_one_outlet_are_one_source_with_it(cites: str) -> None:
    first = press(1, domain="coindesk.com")
    assert supported(first, press(2), reference(3), cites=(None, cites, cites)) == 1
    # In any order, and where two groups meet only later.
    assert supported(press(2), reference(3), press(4, domain="coindesk.com"), cites=(cites, None, None)) == 2
    assert supported(reference(3), press(4, domain="coindesk.com"), press(5), cites=("吴说", None, "吴说区块链")) == 2


def test_established_pages_that_each_name_a_spokesperson_stay_apart_and_others_are_one() -> None:
    cites = ("a Kraken spokesperson", "a Kraken spokesperson")
    assert supported(press(1), press(2), cites=cites) == 2
    assert supported(reference(1), reference(2), cites=cites) == 1
    assert supported(reference(1), reference(2), cites=("an unnamed trader", "a friend")) == 2


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (2, 3, 0, 1), (2, 0, 3, 1)])
def test_a_stranger_that_cites_two_outlets_joins_them_not_and_is_no_source_of_its_own(order: tuple[int, ...]) -> None:
    pages = [press(1, domain="reuters.com"), press(2, domain="coindesk.com")]
    pages += [reference(n, owner="garden.example") for n in (3, 4)]
    cites = (None, None, "Reuters", "CoinDesk")
    assert supported(*(pages[n] for n in order), cites=tuple(cites[n] for n in order)) == 2
    # Nor does it tie pages that cite those outlets themselves.
    citing = [*pages[2:], press(1), press(2)]
    assert supported(*citing, cites=("Reuters", "CoinDesk", "Reuters", "CoinDesk")) == 2


def test_a_page_without_a_quote_keeps_no_sources_apart() -> None:
    own, outlet = reference(1, own_page=True), press(2, domain="coindesk.com")
    silent = press(3, own_page=True)
    pages = [(own, says(own, cites="CoinDesk")), (outlet, says(outlet))]
    assert judge(*pages).supporting_sources == 1
    assert judge(*pages, (silent, says(silent, quote=None))).supporting_sources == 1


def test_pages_that_anybody_may_write_are_established_nowhere() -> None:
    pages = [press(1, domain="github.com", owner="github.com/x"), press(2, domain="forum.reuters.com"), reference(3)]
    assert judge(*((p, says(p)) for p in pages)).high == -0.05
    assert judge(*((p, says(p)) for p in (*pages, press(4)))).verdict == "likely"


NOWHERE = st.sampled_from(
    ["stands on no page whatsoever", "short", " … ", None, "Kraken lost", "Money gone Kraken lost $85"]
) | st.text(min_size=1, max_size=40).filter(lambda q: not sentences_of(q, "Money gone", TOLD))
answers = st.fixed_dictionaries(
    {
        "stance": st.sampled_from(["supports", "denies", "hedges", "earlier"]),
        "quote": NOWHERE,
        "same_event": st.booleans(),
        "amount": st.sampled_from(["agrees", "differs", "silent"]),
        "speaks_for": st.sampled_from(["party", "authority", "other"]),
        "cites": st.sampled_from([None, "CoinDesk", "@zachxbt", "a spokesperson"]),
    }
)
marks = st.fixed_dictionaries(
    {
        "stance": st.sampled_from(["supports", "denies", "hedges", "unrelated"]),
        "source_credibility": st.sampled_from(["high", "medium", "low", "unknown"]),
        "official": st.booleans(),
        "own_page": st.booleans(),
        "published_at": st.sampled_from([None, NOW - timedelta(hours=1), NOW - timedelta(days=40)]),
    }
)


critics = st.fixed_dictionaries(
    {
        "critic": st.sampled_from(["supported", "refuted", "conflicting", "not_enough_evidence"]),
        "partly_refuted": st.booleans(),
        "measured": st.sampled_from([None, None, "confirms", "contradicts"]),
    }
)
others = st.lists(st.tuples(marks, answers, st.booleans()), max_size=4)


def told(found: list[tuple[dict[str, Any], dict[str, Any], bool]]) -> tuple[list[SearchReference], list[PageStance]]:
    """Return pages with what a critic says of each; the last mark of a page: by a quote that it holds."""
    pages = [reference(n, **m) for n, (m, _, _) in enumerate(found, start=1)]
    said = [says(r, **(a | {"quote": TOLD} if good else a)) for r, (_, a, good) in zip(pages, found, strict=True)]
    return pages, said


def is_raised(found: Judgement, over: Judgement) -> bool:
    return found.low > over.low or found.high > over.high or found.cap > over.cap


@settings(max_examples=100, deadline=None)
@given(others, marks, answers, critics)
def test_a_stance_without_a_quote_on_its_page_is_as_good_as_unrelated(
    found: list[tuple[dict[str, Any], dict[str, Any], bool]],
    of: dict[str, Any],
    answer: dict[str, Any],
    critic: dict[str, Any],
) -> None:
    pages, said = told(found)
    page = reference(9, **of)
    stated = read([*pages, page], [*said, says(page, **answer)], **critic)
    silent = read([*pages, page], [*said, says(page, "unrelated", None)], **critic)
    assert not is_raised(stated, silent)
    if "quotes_failed" in stated.flags:
        return
    assert stated == read([*pages, page], said, **critic), "as if the critic had left it out"
    # A denial that the word rules read alone stands beside a critic whose own words are nowhere on the page.
    assert of["stance"] == "denies" or stated == silent


@settings(max_examples=100, deadline=None)
@given(others, marks, st.none() | answers, critics, st.floats(0, 1))
def test_one_more_page_that_no_quote_bears_never_raises_a_confidence(
    found: list[tuple[dict[str, Any], dict[str, Any], bool]],
    of: dict[str, Any],
    answer: dict[str, Any] | None,
    critic: dict[str, Any],
    confidence: float,
) -> None:
    pages, said = told(found)
    page = reference(9, **of)
    more = said if answer is None else [*said, says(page, **answer)]
    before, after = read(pages, said, **critic), read([*pages, page], more, **critic)
    assert not is_raised(after, before)
    assert conclude(DRAFT, after).confidence <= conclude(DRAFT, before).confidence
    start = replace(DRAFT, confidence=confidence)
    for chosen in (None, -1.0, 1.0):
        assert conclude(start, after, chosen=chosen).confidence <= conclude(start, before, chosen=chosen).confidence


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(marks, answers), min_size=1, max_size=5))
def test_no_page_without_a_checked_quote_changes_anything(found: list[tuple[dict[str, Any], dict[str, Any]]]) -> None:
    references = [reference(n, **m) for n, (m, _) in enumerate(found, start=1)]
    said = [says(r, **a) for r, (_, a) in zip(references, found, strict=True)]
    judgement = read(references, said)
    silent = read(references, [])
    assert "quotes_failed" in judgement.flags
    assert replace(judgement, flags=tuple(f for f in judgement.flags if f != "quotes_failed")) == silent


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(marks, st.booleans()), max_size=4), marks)
def test_one_more_page_that_denies_never_raises(
    found: list[tuple[dict[str, Any], bool]], denial: dict[str, Any]
) -> None:
    references = [reference(n, **m) for n, (m, _) in enumerate(found, start=1)]
    said = [says(r, "supports" if s else "hedges") for r, (_, s) in zip(references, found, strict=True)]
    last = reference(9, "Kraken denied that it had lost any customer money.", **denial)
    before = read(references, said)
    after = read([*references, last], [*said, says(last, "denies")])
    assert not is_raised(after, before)


@pytest.mark.security
def test_the_pages_that_a_watch_made_its_news_of_do_not_bear_it_out_nor_do_their_owners() -> None:
    claim = replace(HACK, source_url=None, origins=("https://site1.example/1", "https://kraken.com/blog?utm_source=x"))
    own, another, third = press(1), press(2, domain="site1.example"), press(3)
    assert supported(own, another, third) == 2
    assert judge(*((p, says(p)) for p in (own, another, third)), claim=claim).supporting_sources == 1
    theirs = official(4)
    assert judge((theirs, says(theirs))).verdict == "confirmed"
    assert judge((theirs, says(theirs)), claim=claim).verdict == "unconfirmed"
    # What they deny still counts, and who repeats them with their name is no witness either.
    denial = official(5, "We have not been hacked and lost no customer money.")
    assert judge((denial, says(denial, "denies")), claim=claim).verdict == "refuted"


ARC_PAGES = {
    "circle.com": "Circle today launches Arc, an open blockchain for stablecoins. USDC is its gas.",
    "coindesk.com": "Circle launches Arc, a blockchain with USDC as gas, the company said on Tuesday.",
    "reuters.com": "Circle launched Arc, a blockchain of its own for stablecoin payments, on Tuesday.",
}


@pytest.mark.security
@pytest.mark.parametrize("by_words", [True, False])
@pytest.mark.parametrize("kind", ["product", "whale", "celebrity", "other", "macro", "hack"])
@pytest.mark.parametrize(
    ("text", "asset", "verdict"),
    [
        ("Circle launches Arc, with DOGE as gas", "DOGE", "unconfirmed"),
        ("Dogecoin: Circle launches Arc, with DOGE as gas", "DOGE", "unconfirmed"),
        ("Circle launches Arc, powered by FLOKI", "FLOKI", "unconfirmed"),
        ("Circle launches Arc, a blockchain with USDC as gas", "USDC", "confirmed"),
    ],
)
def test_nobody_borrows_an_announcement_for_a_coin_that_it_does_not_name(
    text: str, asset: str, verdict: str, kind: str, by_words: bool
) -> None:
    of = Claim(text=text, language="en", event_type=kind, asset=asset, subject="Circle", entity="Circle", as_of=NOW)
    pages = [
        builders.search_result(
            f"https://www.{h}/arc", t, title=t[:40], score=1.0, published_at=NOW - timedelta(hours=1)
        )
        for h, t in ARC_PAGES.items()
    ]
    references = assess(of, pages, query="", snapshot=SNAPSHOT).references
    stances = [
        PageStance(reference_number=r.reference_number, stance="supports", quote=r.snippet[:24]) for r in references
    ]
    heard = check_pages(of, references, None if by_words else stances, SNAPSHOT)
    assert judge_evidence(of, heard, snapshot=SNAPSHOT, by_words=by_words).verdict == verdict


def test_a_coin_is_named_in_the_plural_and_by_its_own_bridge() -> None:
    pages = {
        "Bitcoins were paid out by Bithumb by mistake": ("Bithumb pays out 620,000 BTC by mistake", "BTC", "Bithumb"),
        "The bridge of the chain was exploited and paused": ("KURU bridge exploited", "KURU", "Kuru bridge"),
    }
    for told, (text, asset, subject) in pages.items():
        of = Claim(text=text, language="en", event_type="other", asset=asset, subject=subject, as_of=NOW)
        page = press(1, told)
        heard = [CheckedPage(reference=page, stance="supports", quoted=True)]
        assert judge_evidence(of, heard, snapshot=SNAPSHOT, by_words=False).supporting_sources == 1


@pytest.mark.parametrize(
    ("text", "kind", "subject", "told", "supporting"),
    [
        ("Bybit hacked, ETH worth $1.5B stolen", "hack", "Bybit", "Bybit was hacked and lost $1.5 billion", 1),
        ("Fed sees higher inflation, bitcoin and ETH fall", "macro", "Fed", "The Fed sees higher inflation", 1),
        ("Fed warns of risks of ETH", "other", "Federal Reserve", "The Federal Reserve warns of risks", 1),
        ("Fed buys ETH", "other", "Federal Reserve", "The Federal Reserve buys bonds", 0),
        ("Strategy bought 130 BTC and 5,000,000 ETH", "whale", "Strategy", "Strategy bought 130 BTC", 0),
    ],
)
def test_a_page_need_not_name_the_coin_of_a_loss_or_of_an_authority(
    text: str, kind: str, subject: str, told: str, supporting: int
) -> None:
    of = Claim(text=text, language="en", event_type=kind, asset="ETH", subject=subject, as_of=NOW)
    heard = [CheckedPage(reference=press(1, told), stance="supports", quoted=True)]
    assert judge_evidence(of, heard, snapshot=SNAPSHOT, by_words=False).supporting_sources == supporting
