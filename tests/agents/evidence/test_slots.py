"""From a critic's slots to a stance: what supports, what denies this event, and what code corrects in a critic's answer."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import product
from typing import Any, get_args

import pytest
from msgspec.structs import replace

from agents.evidence import Claim, assess
from agents.evidence.passages import PASSAGE
from agents.evidence.verdict import Judgement
from agents.evidence.witnesses import check_pages, judge_evidence
from agents.planning.critic_reading import by_slots, stance_by_slots
from agents.signal import evidence_of
from schemas.evidence import PageSays, PageStance, SearchReference, Slot
from tests import builders
from tests.agents.evidence.test_witnesses import HACK, NOW, SNAPSHOT, heard, judge, official, press, says
from tests.specification import case_after, opened

SLOTS = ("subject", "act", "stage", "place", "amount", "date")
ANY = "agrees differs silent"
TABLE: list[tuple[str, str, str, str, str, str, str, str, str, str]] = [
    # says, subject, act, stage, place, amount, date, own page, before the story: the first row that fits
    ("nothing", ANY, ANY, ANY, ANY, ANY, ANY, "yes no", "yes no", "unrelated"),
    ("affirms denies hedges", "differs", ANY, ANY, ANY, ANY, ANY, "yes no", "yes no", "unrelated"),
    ("affirms denies hedges", "silent", ANY, ANY, ANY, ANY, ANY, "no", "yes no", "unrelated"),
    ("affirms denies hedges", ANY, "differs", ANY, ANY, ANY, ANY, "yes no", "yes no", "unrelated"),
    ("denies", ANY, "silent", ANY, ANY, ANY, ANY, "yes no", "yes no", "unrelated"),
    ("denies", ANY, ANY, ANY, ANY, ANY, "differs", "yes no", "yes no", "unrelated"),
    ("denies", ANY, ANY, ANY, "differs", ANY, ANY, "yes no", "yes no", "unrelated"),
    ("denies", ANY, ANY, ANY, ANY, ANY, "silent", "yes no", "yes", "unrelated"),
    ("denies", ANY, ANY, ANY, ANY, ANY, ANY, "yes no", "yes no", "denies"),
    ("hedges", ANY, ANY, ANY, ANY, ANY, "differs", "yes no", "yes no", "unrelated"),
    ("hedges", ANY, ANY, ANY, ANY, ANY, ANY, "yes no", "yes no", "hedges"),
    ("affirms", ANY, "silent", ANY, ANY, ANY, "differs", "yes no", "yes no", "unrelated"),
    ("affirms", ANY, ANY, "differs", ANY, ANY, "differs", "yes no", "yes no", "unrelated"),
    ("affirms", ANY, ANY, ANY, "differs", ANY, "differs", "yes no", "yes no", "unrelated"),
    ("affirms", ANY, ANY, ANY, ANY, ANY, "differs", "yes no", "yes no", "earlier"),
    ("affirms", ANY, "silent", ANY, ANY, ANY, ANY, "yes no", "yes no", "hedges"),
    ("affirms", ANY, ANY, "differs", ANY, ANY, ANY, "yes no", "yes no", "hedges"),
    ("affirms", ANY, ANY, ANY, "differs", ANY, ANY, "yes no", "yes no", "hedges"),
    ("affirms", ANY, ANY, ANY, ANY, "differs", ANY, "yes no", "yes no", "hedges"),
    ("affirms", ANY, ANY, ANY, ANY, ANY, ANY, "yes no", "yes no", "supports"),
]
PEPE = Claim(
    text="Binance will list PEPE on Friday", language="en", event_type="listing", asset="PEPE", as_of=NOW,
    entity="Binance", subject="Binance",
)  # fmt: skip


def slots(of: SearchReference, says_so: str = "affirms", quote: str | None = "", **other: Any) -> PageStance:
    """What a critic answers of a page slot by slot, with the stance that code derives; all agree but ``other``."""
    plain = PageStance(
        reference_number=of.reference_number, stance="unrelated", quote=of.passage if quote == "" else quote,
        says=says_so, **dict.fromkeys(SLOTS, "agrees") | other,
    )  # fmt: skip
    return by_slots(plain, of, NOW)


def judged(claim: Claim, *pairs: tuple[SearchReference, PageStance]) -> Judgement:
    found = check_pages(claim, [r for r, _ in pairs], [s for _, s in pairs], SNAPSHOT)
    return judge_evidence(claim, found, snapshot=SNAPSHOT, by_words=False)


def derived(values: Sequence[str], *, own_page: bool, before: bool) -> str:
    said = PageStance(reference_number=1, stance="unrelated", **dict(zip(("says", *SLOTS), values, strict=True)))  # type: ignore[arg-type]
    return stance_by_slots(said, own_page=own_page, before=before)


def test_every_combination_of_slots_has_the_stance_of_the_table() -> None:
    used = set[int]()
    for values in product(get_args(PageSays), *[get_args(Slot)] * len(SLOTS)):
        for own, before in product((True, False), repeat=2):
            row = (*values, "yes" if own else "no", "yes" if before else "no")
            at = next(n for n, t in enumerate(TABLE) if all(v in c.split() for v, c in zip(row, t[:-1], strict=True)))
            used.add(at)
            assert derived(values, own_page=own, before=before) == TABLE[at][-1], row
    assert used == set(range(len(TABLE))), "no row is idle"


@pytest.mark.security
@pytest.mark.parametrize(
    ("other", "stance"),
    [
        ({}, "supports"),
        ({"place": "differs"}, "hedges"),
        ({"stage": "differs"}, "hedges"),
        ({"act": "differs"}, "unrelated"),
        ({"act": "silent"}, "hedges"),
        ({"subject": "differs"}, "unrelated"),
        ({"amount": "differs"}, "hedges"),
        ({"date": "differs"}, "earlier"),
    ],
)
def test_a_party_that_affirms_something_else_confirms_nothing(other: dict[str, str], stance: str) -> None:
    page = official(1)
    assert heard(page, slots(page, **other))[0] == stance
    assert (judge((page, slots(page, **other))).verdict == "confirmed") is (stance == "supports")


def test_only_its_own_page_need_not_name_the_subject() -> None:
    own, other = official(1), press(2)
    assert heard(own, slots(own, subject="silent"))[0] == "supports"
    assert heard(other, slots(other, subject="silent"))[0] == "unrelated"


DENIAL_2023 = "Binance said that it will not list FERN and called the post about it false."


@pytest.mark.security
@pytest.mark.parametrize(
    ("other", "age", "denied"),
    [
        ({"act": "differs"}, timedelta(hours=1), False),
        ({"act": "silent"}, timedelta(hours=1), False),
        ({"place": "differs"}, timedelta(hours=1), False),
        ({"date": "differs"}, timedelta(hours=1), False),
        ({"date": "silent"}, timedelta(days=500), False),
        ({"date": "silent"}, timedelta(hours=49), False),
        ({"date": "silent"}, timedelta(hours=47), True),
        ({"date": "silent"}, None, True),
        ({}, timedelta(days=3), True),
        ({}, timedelta(hours=1), True),
    ],
)
def test_a_denial_of_something_else_or_from_before_the_story_does_not_dispute_the_partys_word(
    other: dict[str, str], age: timedelta | None, denied: bool
) -> None:
    own = official(1, "We will list PEPE on Friday.", domain="binance.com", speaker="Binance")
    old = press(2, DENIAL_2023, published_at=None if age is None else NOW - age, stance="denies")
    found = judged(PEPE, (own, slots(own)), (old, slots(old, "denies", **other)))
    assert (found.denied, found.verdict) == ((True, "disputed") if denied else (False, "confirmed"))


@pytest.mark.security
def test_a_denial_of_2023_that_the_critic_did_not_read_disputes_nothing_and_a_fresh_one_does() -> None:
    own = official(1, "We will list PEPE on Friday.", domain="binance.com", speaker="Binance")
    for age, verdict in ((timedelta(days=500), "confirmed"), (timedelta(hours=3), "disputed")):
        old = official(2, DENIAL_2023, domain="binance.com", speaker="Binance", published_at=NOW - age, stance="denies")
        found = check_pages(PEPE, [own, old], [slots(own)], SNAPSHOT)
        assert judge_evidence(PEPE, found, snapshot=SNAPSHOT, by_words=False).verdict == verdict


@pytest.mark.security
def test_an_approval_is_not_disputed_by_denials_of_the_hijacked_post_of_the_day_before() -> None:
    at = datetime(2024, 1, 10, 21, tzinfo=UTC)
    claim = Claim(
        text="SEC approves spot bitcoin ETFs", language="en", event_type="regulation", asset="BTC", as_of=at,
        entity="SEC", subject="SEC",
    )  # fmt: skip
    own = official(
        1, "The SEC approved the listing of spot bitcoin ETFs today.", domain="sec.gov", speaker="SEC", published_at=at
    )
    before = press(
        2, "The SEC said its account was compromised and it has not approved spot bitcoin ETFs.",
        published_at=at - timedelta(hours=23), stance="denies",
    )  # fmt: skip
    for date, verdict in (("differs", "confirmed"), ("agrees", "disputed")):
        denial = by_slots(slots(before, "denies", date=date), before, at)
        assert judged(claim, (own, slots(own)), (before, denial)).verdict == verdict


@pytest.mark.security
@pytest.mark.parametrize(
    ("told", "page", "stance", "figures"),
    [
        ("Kraken loses $300 million in a hack", "Kraken 遭攻击,损失约300万美元。", "hedges", (3e6, 3e8)),
        ("Kraken loses $300 million in a hack", "Kraken 遭攻击,损失约3亿美元。", "supports", None),
        ("Kraken 被盗3亿美元", "Kraken lost three million dollars to hackers on Monday.", "hedges", (3e6, 3e8)),
        ("Kraken loses more than $40M", "Kraken lost $59 million on Monday.", "supports", None),
        ("Kraken loses more than $40M", "Kraken lost $4 billion on Monday.", "hedges", (4e9, 4e7)),
        ("Kraken 被盗3000万至4000万美元", "Kraken lost about $35M on Monday.", "supports", None),
        ("Kraken loses $40M", "Kraken lost 12,000 ETH on Monday.", "supports", None),
        ("Kraken loses $40M", "Kraken said hackers had broken in on Monday.", "supports", None),
        ("Kraken loses $44M", "Kraken lost $51M on Monday, not $44M.", "hedges", (5.1e7, 4.4e7)),
    ],
)
def test_code_compares_the_amounts_of_claim_and_quote_whatever_the_critic_says(
    told: str, page: str, stance: str, figures: tuple[float, float] | None
) -> None:
    claim, own = replace(HACK, text=told, language="en"), official(1, page)
    for said in (slots(own, amount="agrees"), slots(own, amount="silent"), says(own, amount="agrees")):
        found = check_pages(claim, [own], [said], SNAPSHOT)[0]
        assert (found.stance, found.figures) == (stance, figures)
        assert ("amount_differs" in found.flags) is (stance == "hedges")


def test_a_stated_amount_is_the_one_that_counts() -> None:
    claim = replace(HACK, text="Kraken lost $85M, a tenth of its $850M", amount=8.5e7, amount_unit="USD")
    one, other = official(1, "We lost 85 million dollars."), official(2, "We hold 850 million dollars.")
    assert [check_pages(claim, [p], [slots(p)], SNAPSHOT)[0].stance for p in (one, other)] == ["supports", "hedges"]


FOOT = "UPDATE: the report above was incorrect, and no money of customers is missing."
BODY = "Kraken lost $85 million of customer money in a hack on Monday, the exchange said in a notice to its users. "
FILLER = "Trading went on as on other days, and volumes stayed low across the larger venues of the region. "


@pytest.mark.security
@pytest.mark.parametrize("foot", [FOOT, "Correction: no money was lost.", "更正:此前报道有误,Kraken 并未丢失资金。"])
def test_a_correction_at_the_foot_is_shown_to_the_critic_and_bars_support_by_words(foot: str) -> None:
    def page(text: str) -> SearchReference:
        at = NOW - timedelta(hours=1)
        result = builders.search_result("https://blog.kraken.com/1", text, title=HACK.text, published_at=at)
        return assess(HACK, [result], query="", snapshot=SNAPSHOT).references[0]

    plain, corrected = page(BODY + FILLER * 30), page(BODY + FILLER * 30 + foot)
    assert plain.stance == "supports" and corrected.stance != "supports"
    assert foot in corrected.passage and BODY.strip() in corrected.passage and len(corrected.passage) <= PASSAGE
    denial = slots(corrected, "denies", quote=foot)
    assert judged(HACK, (corrected, denial)).verdict == "refuted"


def test_a_page_with_a_correction_supports_where_a_critic_has_read_it() -> None:
    page = official(1, f"Correction: an earlier version misnamed a founder.\n…\n{BODY}")
    assert heard(page, slots(page, quote=BODY.strip()))[0] == "supports"


def test_a_signals_evidence_keeps_both_figures_where_they_differ(triaged: Any) -> None:
    claim, page = (
        replace(HACK, text="Kraken loses $300 million in a hack"),
        official(1, "We lost $3 million on Monday."),
    )
    case = case_after(opened(claim.text), triaged(entity="Kraken", event_type="hack"), config=SNAPSHOT)
    by_slot, old = (evidence_of(case, check_pages(claim, [page], [s], SNAPSHOT))[0] for s in (slots(page), says(page)))
    assert (by_slot.stance, by_slot.figure, by_slot.claimed) == ("hedges", 3e6, 3e8)
    assert (old.stance, old.figure, old.claimed) == ("hedges", None, None), "a log of before is decided as it was"
