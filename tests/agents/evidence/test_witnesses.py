"""From references to a verdict: what raises, what lowers, what changes nothing, and which pages are one source."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from agents.evidence import Claim
from agents.evidence.compiled import compiled
from agents.evidence.verdict import Judgement
from agents.evidence.witnesses import hear, judge_evidence
from agents.tables import load_tables
from schemas.config import Snapshot
from schemas.evidence import PageStance, SearchReference

SNAPSHOT = Snapshot(tables=load_tables(demo=False), rules=2)
TABLES = compiled(SNAPSHOT.tables)
NOW = datetime(2024, 6, 3, 10, tzinfo=UTC)
HACK = Claim(
    text="Kraken loses $85 million of user funds in a hack", language="en", event_type="hack", asset="UNKNOWN", as_of=NOW,
    entity="Kraken", subject="Kraken", source_url="https://wire.example/kraken-hack",
)  # fmt: skip
TOLD = "Kraken lost $85 million of customer money on Monday, security firms said."


def reference(number: int, passage: str = TOLD, *, title: str = "Money gone", **marks: Any) -> SearchReference:
    domain = marks.pop("domain", f"site{number}.example")
    values = {"stance": "unrelated", "source_credibility": "unknown", "published_at": NOW - timedelta(hours=1)} | marks
    return SearchReference(
        reference_number=number, source_tool="tavily", title=title, url=f"https://{domain}/{number}", snippet=passage[:300],
        passage=passage, relevance_score=0.9, quality_score=80, content_complete=True, query="q",
        registrable_domain=domain, **({"owner": domain} | values),
    )  # fmt: skip


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
    said = [s for _, s in pairs if s is not None]
    return judge_evidence(claim, [r for r, _ in pairs], said, snapshot=SNAPSHOT, **more)


def heard(of: SearchReference, said: PageStance | None, claim: Claim = HACK) -> tuple[str, bool, tuple[str, ...]]:
    found = hear(claim, [of], [] if said is None else [said], TABLES)[0]
    return found.stance, found.quoted, found.flags


def supported(*references: SearchReference, cites: tuple[str | None, ...] = ()) -> int:
    of = cites or (None,) * len(references)
    return judge(*((r, says(r, cites=c)) for r, c in zip(references, of, strict=True))).supporting_sources


def test_a_page_supports_by_a_quote_that_it_holds() -> None:
    page = press(1)
    assert heard(page, says(page)) == ("supports", True, ())
    assert heard(page, says(page, quote="Kraken lost $95 million of customer money")) == ("unrelated", False, ())
    assert heard(page, says(page, quote=None)) == ("unrelated", False, ())
    assert heard(page, None) == ("unrelated", False, ())


def test_a_page_of_another_subject_or_another_event_does_not_support() -> None:
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
        ({"stance": "earlier"}, "earlier"),
        ({"stance": "hedges"}, "denies"),
        ({"stance": "hedges", "amount": "differs"}, "denies"),
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
    assert judge_evidence(HACK, [page], None, snapshot=SNAPSHOT).verdict == "refuted"


def test_a_denial_by_a_reported_spokesperson_is_the_partys_and_one_by_others_is_the_presss() -> None:
    page, other = press(1, "A Kraken spokeswoman said that no money was lost."), press(2)
    named = says(page, "denies", speaks_for="party", cites="a Kraken spokeswoman")
    assert judge((page, named), (other, says(other))).verdict == "refuted"
    assert judge((page, replace(named, speaks_for="other")), (other, says(other))).verdict == "disputed"
    weak = reference(1, page.passage)
    assert judge((weak, named), (other, says(other))).verdict == "disputed"


def test_a_listed_owner_that_the_critic_hears_speak_for_itself_is_official() -> None:
    told = "Kraken lost no customer money, and all of its funds are safe."
    page = reference(1, told, domain="circle.com")
    assert judge((page, says(page, speaks_for="party"))).official_confirmed
    assert not judge((page, says(page))).official_confirmed
    assert not judge((reference(1), says(reference(1), speaks_for="party"))).official_confirmed
    assert judge((page, says(page, "denies", speaks_for="party"))).verdict == "refuted"


def test_a_filing_is_no_word_of_the_commission() -> None:
    page = replace(reference(1, domain="sec.gov"), url="https://www.sec.gov/Archives/edgar/data/1679788/8k.htm")
    assert not judge((page, says(page, speaks_for="authority"))).official_confirmed
    notice = replace(page, url="https://www.sec.gov/newsroom/1")
    assert judge((notice, says(notice, speaks_for="authority"))).official_confirmed


def test_more_than_a_third_of_quotes_that_fail_bar_confirmed() -> None:
    pages = [official(1), *(reference(n) for n in (2, 3, 4))]
    good = [(p, says(p)) for p in pages]
    bad = [(p, says(p, quote="this stands nowhere on it")) for p in pages]
    one = judge(good[0], good[1], bad[2])
    assert (one.verdict, one.flags) == ("confirmed", ())
    two = judge(good[0], good[1], bad[2], bad[3])
    assert (two.verdict, two.flags) == ("likely", ("quotes_failed",))


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


def test_pages_of_one_owner_are_one_source() -> None:
    assert supported(reference(1, owner="x.com/a"), reference(2, owner="x.com/a"), reference(3, owner="x.com/b")) == 2


@pytest.mark.parametrize("cites", ["CoinDesk", "coindesk", "COINDESK"])
def test_pages_that_cite_one_outlet_are_one_source_with_it(cites: str) -> None:
    first = press(1, domain="coindesk.com")
    assert supported(first, press(2), reference(3), cites=(None, cites, cites)) == 1
    # In any order, and where two groups meet only later.
    assert supported(press(2), reference(3), press(4, domain="coindesk.com"), cites=(cites, None, None)) == 2
    assert supported(reference(3), press(4, domain="coindesk.com"), press(5), cites=("吴说", None, "吴说区块链")) == 2


def test_an_outlet_is_known_by_its_names_in_both_languages() -> None:
    assert supported(press(1), press(2), cites=("吴说", "Wu Blockchain")) == 1
    assert supported(press(1), press(2), cites=("彭博社", "Bloomberg News")) == 1


def test_pages_that_cite_one_account_are_one_source_with_it() -> None:
    post = reference(1, domain="x.com", owner="x.com/zachxbt")
    assert supported(post, press(2), reference(3), cites=(None, "@ZachXBT", "@zachxbt")) == 1


def test_established_pages_that_each_name_a_spokesperson_stay_apart_and_others_are_one() -> None:
    cites = ("a Kraken spokesperson", "a Kraken spokesperson")
    assert supported(press(1), press(2), cites=cites) == 2
    assert supported(reference(1), reference(2), cites=cites) == 1
    assert supported(reference(1), reference(2), cites=("an unnamed trader", "a friend")) == 2


def test_the_claimants_own_pages_are_one_source_wherever_they_lie() -> None:
    own = [reference(n, own_page=True, owner=f"medium.com/{n}") for n in (1, 2)]
    assert supported(*own) == 1
    assert supported(*own, reference(3)) == 2


NOWHERE = st.sampled_from(
    ["stands on no page whatsoever", "short", " … ", None, "Kraken lost", "Money gone Kraken lost $85"]
)
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


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(marks, answers), min_size=1, max_size=5))
def test_no_page_without_a_checked_quote_changes_anything(found: list[tuple[dict[str, Any], dict[str, Any]]]) -> None:
    references = [reference(n, **m) for n, (m, _) in enumerate(found, start=1)]
    said = [says(r, **a) for r, (_, a) in zip(references, found, strict=True)]
    judgement = judge_evidence(HACK, references, said, snapshot=SNAPSHOT)
    silent = judge_evidence(HACK, references, [], snapshot=SNAPSHOT)
    assert "quotes_failed" in judgement.flags
    assert replace(judgement, flags=tuple(f for f in judgement.flags if f != "quotes_failed")) == silent


@settings(max_examples=60, deadline=None)
@given(st.lists(marks, min_size=1, max_size=5))
def test_words_alone_raise_nothing_without_an_official_page(found: list[dict[str, Any]]) -> None:
    references = [reference(n, **m | {"official": False}) for n, m in enumerate(found, start=1)]
    judgement = judge_evidence(HACK, references, None, snapshot=SNAPSHOT)
    assert judgement.high <= 0
    assert judgement.verdict != "confirmed"


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(marks, st.booleans()), max_size=4), marks)
def test_one_more_page_that_denies_never_raises(
    found: list[tuple[dict[str, Any], bool]], denial: dict[str, Any]
) -> None:
    references = [reference(n, **m) for n, (m, _) in enumerate(found, start=1)]
    said = [says(r, "supports" if s else "hedges") for r, (_, s) in zip(references, found, strict=True)]
    last = reference(9, "Kraken denied that it had lost any customer money.", **denial)
    before = judge_evidence(HACK, references, said, snapshot=SNAPSHOT)
    after = judge_evidence(HACK, [*references, last], [*said, says(last, "denies")], snapshot=SNAPSHOT)
    assert (after.low <= before.low, after.high <= before.high, after.cap <= before.cap) == (True, True, True)
