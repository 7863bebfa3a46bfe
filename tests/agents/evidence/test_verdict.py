"""The verdict table: every row with its range and its cap, the order of the rows, and what holds for any evidence."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from agents.evidence.verdict import CAPS, Judgement, Reading, Witness, judge_witnesses, unchecked
from schemas.signals import ACTED_ON

NOW = datetime(2024, 6, 3, 10, tzinfo=UTC)
HOUR = timedelta(hours=1)
BEFORE = ("refuted", "disputed", "stale", "confirmed", "likely", "unconfirmed")


def page(source: int, stance: Any = "supports", *, hours: float | None = 1, **marks: Any) -> Witness:
    age = None if hours is None else hours * HOUR
    values = {"source": source, "quoted": True} | marks
    return Witness(stance=stance, age=age, published=None if age is None else NOW - age, **values)


def official(number: int, stance: Any = "supports", *, speaker: str = "Kraken", **marks: Any) -> Witness:
    return page(number, stance, official=True, established=True, speaker=speaker, **marks)


def press(number: int, stance: Any = "supports", **marks: Any) -> Witness:
    return page(number, stance, established=True, **marks)


def verdict(*witnesses: Witness, **reading: Any) -> str:
    return judge_witnesses(witnesses, Reading(**reading)).verdict


OLD = {"hours": 31 * 24}
TABLE = [
    ((official(1), press(2), page(3)), {}, "confirmed", (0.15, 0.20)),
    ((press(1), press(2), page(3)), {}, "confirmed", (0.05, 0.10)),
    ((official(1),), {}, "confirmed", (0.0, 0.05)),
    ((official(1), page(2), page(3)), {}, "confirmed", (0.0, 0.05)),
    ((), {"measured": "confirms"}, "confirmed", (0.10, 0.15)),
    ((official(1), press(2), page(3)), {"measured": "confirms"}, "confirmed", (0.10, 0.15)),
    ((official(1), page(2, "denies")), {}, "confirmed", (0.0, 0.05)),
    ((press(1), press(2)), {}, "likely", (0.0, 0.0)),
    ((press(1),), {}, "likely", (-0.10, -0.05)),
    ((page(1), page(2)), {}, "likely", (-0.10, -0.05)),
    ((press(1), page(2), page(3)), {}, "likely", (-0.10, -0.05)),
    ((page(1), page(2), page(3), page(4)), {}, "likely", (-0.10, -0.05)),
    ((page(1),), {}, "unconfirmed", (-0.20, -0.10)),
    ((press(1, "hedges"), press(2, "unrelated")), {}, "unconfirmed", (-0.20, -0.10)),
    ((), {}, "unconfirmed", (-0.20, -0.10)),
    ((press(1, **OLD), official(2, **OLD)), {}, "stale", (-0.20, -0.20)),
    ((page(1, hours=None), page(2, "earlier", **OLD)), {}, "stale", (-0.20, -0.20)),
    ((page(1), page(2, "denies")), {}, "disputed", (-0.20, -0.20)),
    ((page(1, "denies"),), {}, "disputed", (-0.20, -0.20)),
    ((official(1), official(2, "denies", speaker="SEC")), {}, "disputed", (-0.20, -0.20)),
    ((official(1, "denies"),), {}, "refuted", (-0.20, -0.20)),
    ((press(1), press(2, "denies", speaker="Kraken")), {}, "refuted", (-0.20, -0.20)),
    ((official(1),), {"measured": "contradicts"}, "refuted", (-0.20, -0.20)),
    ((press(1), press(2, "denies")), {"critic": "refuted"}, "refuted", (-0.20, -0.20)),
]


@pytest.mark.parametrize(("witnesses", "reading", "expected", "change"), TABLE)
def test_each_row_of_the_table_has_its_range_and_its_cap(
    witnesses: tuple[Witness, ...], reading: dict[str, Any], expected: Any, change: tuple[float, float]
) -> None:
    found = judge_witnesses(witnesses, Reading(**reading))
    assert (found.verdict, (found.low, found.high), found.cap) == (expected, change, CAPS[expected])


def test_what_nothing_was_found_out_about_has_no_change_of_its_own_and_claims_nothing() -> None:
    found = unchecked(4)
    assert (found.verdict, found.low, found.high, found.cap) == ("unchecked", 0.0, 0.0, CAPS["unchecked"])
    assert (found.independent_sources, found.supporting_sources, found.flags) == (4, 0, ())
    assert not (found.official_confirmed or found.denied or found.conflict or found.stale)


def test_the_caps_and_the_verdicts_that_leave_an_order_are_those_of_the_table() -> None:
    assert CAPS == {
        "confirmed": 1.0, "likely": 0.85, "unconfirmed": 0.6, "stale": 0.5, "disputed": 0.5, "refuted": 0.2, "unchecked": 0.6
    }  # fmt: skip
    assert {"confirmed", "likely"} == ACTED_ON


def test_the_first_verdict_that_fits_applies_in_the_order_of_the_table() -> None:
    # Each list of pages fits the verdict of its place and all that come after it.
    fits = {
        "refuted": (official(1, "denies"), page(2, "denies"), press(3, **OLD)),
        "disputed": (page(2, "denies"), press(3, **OLD), press(4, **OLD)),
        "stale": (official(1, **OLD), press(3, **OLD), press(4, **OLD)),
        "confirmed": (official(1), press(3), press(4)),
        "likely": (press(3), press(4)),
        "unconfirmed": (page(3),),
    }
    assert [verdict(*pages) for pages in fits.values()] == list(BEFORE)


@pytest.mark.parametrize(
    ("said", "denied", "expected"),
    [
        (2.0, 1.0, "refuted"),
        (1.0, 2.0, "confirmed"),
        (1.0, 1.0, "disputed"),
        (None, 1.0, "disputed"),
        (1.0, None, "disputed"),
        (None, None, "disputed"),
    ],
)
def test_of_one_partys_own_pages_the_newest_word_counts(
    said: float | None, denied: float | None, expected: str
) -> None:
    assert verdict(official(1, hours=said), official(2, "denies", hours=denied)) == expected


def test_a_partys_newest_denial_stands_whatever_else_was_denied_by_it_or_others() -> None:
    pages = (official(1, hours=3), official(2, "denies", hours=1))
    assert verdict(*pages, official(3, "denies", hours=None)) == "refuted"
    assert verdict(*pages, official(3, "denies", speaker="SEC")) == "refuted"


def test_a_party_against_an_authority_is_disputed_however_new_either_is() -> None:
    assert verdict(official(1, hours=1), official(2, "denies", speaker="SEC", hours=2)) == "disputed"
    assert verdict(official(1, hours=2), official(2, "denies", speaker="SEC", hours=1)) == "disputed"


def test_a_reported_denial_counts_as_the_partys_and_a_newer_word_of_its_own_outweighs_it() -> None:
    reported = press(2, "denies", speaker="Kraken", hours=2)
    assert verdict(page(1), reported) == "refuted"
    assert verdict(official(1, hours=3), reported) == "refuted"
    assert verdict(official(1, hours=1), reported) == "confirmed"


def test_a_reported_confirmation_is_a_source_like_others() -> None:
    reported = press(1, speaker="Kraken")
    assert verdict(reported) == "likely"
    assert verdict(reported, denies_or_corrects=True) == "confirmed"


def test_a_weak_denial_against_an_official_page_is_flagged_and_does_not_dispute() -> None:
    found = judge_witnesses([official(1), page(2, "denies")], Reading())
    assert (found.verdict, found.flags, found.conflict) == ("confirmed", ("weak_denial",), True)
    assert judge_witnesses([press(1), page(2, "denies")], Reading()).flags == ()


def test_an_established_denial_that_is_nobodys_word_disputes_an_official_page_and_refutes_what_nobody_supports() -> (
    None
):
    found = judge_witnesses([official(1), press(2, "denies")], Reading())
    assert (found.verdict, found.flags) == ("disputed", ())
    assert verdict(press(2, "denies")) == "refuted"
    assert verdict(press(1), press(2, "denies")) == "disputed"
    assert verdict(official(1), press(2, "denies"), critic="refuted") == "disputed"


def test_a_denial_that_only_the_word_rules_read_disputes_at_most() -> None:
    assert verdict(press(1, "denies", quoted=False)) == "disputed"
    assert verdict(official(1, "denies", quoted=False)) == "disputed"
    assert verdict(official(1), official(2, "denies", quoted=False, hours=0.5)) == "disputed"
    assert verdict(official(1), press(2, "denies", quoted=False)) == "disputed"


def test_without_a_critic_no_page_refutes_and_none_raises() -> None:
    assert verdict(press(1, "denies", quoted=False), by_words=True) == "disputed"
    assert verdict(official(1, "denies", quoted=False), by_words=True) == "disputed"
    assert verdict(official(1), by_words=True, measured="contradicts") == "refuted"


def test_what_is_undated_supports_but_does_not_alone_confirm() -> None:
    undated = judge_witnesses([official(1, hours=None)], Reading())
    assert (undated.verdict, undated.flags) == ("likely", ("undated_evidence",))
    three = [press(1, hours=None), press(2, hours=None), page(3, hours=None)]
    assert judge_witnesses(three, Reading()).verdict == "likely"
    # A throwaway page's date vouches for nothing.
    assert judge_witnesses([*three[:2], page(3)], Reading()).verdict == "likely"
    dated = judge_witnesses([press(1), *three[1:]], Reading())
    assert (dated.verdict, dated.flags) == ("confirmed", ("undated_evidence",))
    assert judge_witnesses([official(1), page(2, "hedges", hours=None)], Reading()).flags == ()


def test_old_news_is_stale_only_where_every_supporting_page_is_old() -> None:
    assert verdict(press(1, **OLD), press(2, **OLD), press(3, **OLD)) == "stale"
    assert verdict(press(1, **OLD), press(2, **OLD), press(3)) == "confirmed"
    assert verdict(press(1, **OLD), press(2, hours=None)) == "likely"
    assert verdict(press(1, hours=30 * 24)) == "likely"


def test_the_same_story_told_earlier_is_stale_unless_something_fresh_supports() -> None:
    earlier = page(9, "earlier", **OLD)
    assert verdict(earlier) == "stale"
    assert verdict(official(1, hours=None), press(9, "earlier", **OLD)) == "stale"
    assert verdict(press(1), earlier) == "likely"
    assert judge_witnesses([page(1, "denies"), earlier], Reading()).stale is False


@pytest.mark.parametrize("support", [press(1, hours=None), official(1, hours=None)])
def test_one_strangers_page_does_not_make_old_what_an_established_page_tells(support: Witness) -> None:
    stranger = page(8, "earlier", **OLD)
    assert verdict(support, stranger) == "likely"
    assert verdict(support, stranger, stranger) == "likely"
    assert verdict(support, stranger, page(9, "earlier", **OLD)) == "stale"


def test_a_weak_denial_makes_no_stale_page_fresh() -> None:
    found = judge_witnesses([official(1, **OLD), page(2, "denies")], Reading())
    assert (found.verdict, found.stale) == ("stale", True)


@pytest.mark.parametrize(
    "bar", [{"critic": "not_enough_evidence"}, {"quotes_failed": True}, {"partly_refuted": True}, {"unread": True}]
)
def test_a_bar_leaves_likely_at_most(bar: dict[str, Any]) -> None:
    assert verdict(official(1), press(2), page(3), **bar) == "likely"
    assert verdict(press(1), press(2), page(3), **bar) == "likely"
    # A figure needs no quote.
    assert verdict(measured="confirms", **bar) == (
        "confirmed" if {"quotes_failed", "unread"} & bar.keys() else "unconfirmed"
    )
    assert verdict(official(1), page(2, "denies"), **bar) == "unconfirmed"


def test_what_a_critic_should_have_read_and_did_not_is_lowered_as_by_words_and_never_raised() -> None:
    assert verdict(official(1, "denies", quoted=False), by_words=True, unread=True) == "disputed"
    assert verdict(official(1, quoted=False, **OLD), by_words=True, unread=True) == "stale"
    found = judge_witnesses([official(1, quoted=False), press(2, quoted=False)], Reading(by_words=True, unread=True))
    assert (found.verdict, found.low, found.high) == ("likely", 0.0, 0.0)


def test_failed_quotes_and_a_refuted_part_are_flagged() -> None:
    found = judge_witnesses([press(1)], Reading(quotes_failed=True, partly_refuted=True))
    assert found.flags == ("quotes_failed", "partly_refuted")


def test_what_the_critic_calls_conflicting_or_refutes_without_a_page_is_disputed_at_best() -> None:
    pages = (official(1), press(2), page(3))
    assert verdict(*pages, critic="conflicting") == "disputed"
    assert verdict(*pages, critic="refuted") == "disputed"
    assert verdict(official(4, "denies"), critic="conflicting") == "refuted"


def test_a_figure_stands_whatever_the_press_says() -> None:
    assert verdict(press(1, "denies"), measured="confirms") == "confirmed"
    assert verdict(press(1, **OLD), measured="confirms") == "confirmed"
    assert verdict(official(1), press(2), press(3), measured="contradicts") == "refuted"


def test_sources_are_counted_and_not_pages() -> None:
    found = judge_witnesses([press(1), press(1), page(1), press(4, "hedges")], Reading())
    assert (found.verdict, found.low, found.supporting_sources, found.independent_sources) == ("likely", -0.10, 1, 2)
    assert verdict(press(1), press(2), page(3), threshold=4) == "likely"


def test_words_alone_confirm_by_an_official_page_and_never_by_counting() -> None:
    three = [press(n, quoted=False) for n in (1, 2, 3)]
    assert verdict(*three, by_words=True) == "likely"
    found = judge_witnesses([official(9, quoted=False), *three], Reading(by_words=True))
    assert (found.verdict, found.low, found.high) == ("confirmed", 0.0, 0.0)


hours = st.sampled_from([None, 1, 2, 31 * 24])
stances = st.sampled_from(["supports", "denies", "hedges", "earlier", "unrelated"])
pages = st.builds(
    page, st.integers(1, 4), stances, hours=hours, official=st.booleans(), established=st.booleans(),
    speaker=st.sampled_from([None, "Kraken", "SEC"]), quoted=st.booleans(),
)  # fmt: skip
readings = st.builds(
    Reading, critic=st.sampled_from([None, "supported", "refuted", "conflicting", "not_enough_evidence"]),
    by_words=st.booleans(), denies_or_corrects=st.booleans(), quotes_failed=st.booleans(), partly_refuted=st.booleans(),
    unread=st.booleans(), measured=st.sampled_from([None, "confirms", "contradicts"]),
)  # fmt: skip


def is_raised(found: Judgement, over: Judgement) -> bool:
    return found.high > over.high or found.low > over.low or found.cap > over.cap


@settings(max_examples=300, deadline=None)
@given(st.lists(pages, max_size=6), pages, readings)
def test_one_more_denial_never_raises(others: list[Witness], denial: Witness, reading: Reading) -> None:
    denies = replace(denial, stance="denies")
    assert not is_raised(judge_witnesses([*others, denies], reading), judge_witnesses(others, reading))


@given(st.lists(pages, max_size=6), readings)
def test_words_alone_raise_nothing_above_likely_without_an_official_page(
    found: list[Witness], reading: Reading
) -> None:
    alone = Reading(by_words=True, critic=reading.critic, quotes_failed=reading.quotes_failed)
    plain = [w for w in found if not w.official]
    assert judge_witnesses(plain, alone).high <= 0
    assert judge_witnesses(plain, alone).verdict != "confirmed"


@given(st.lists(pages, max_size=6), readings)
def test_what_a_critic_should_have_read_is_likely_at_most(found: list[Witness], reading: Reading) -> None:
    unread = judge_witnesses(found, replace(reading, unread=True))
    assert unread.verdict != "confirmed" or reading.measured == "confirms"
    assert unread.high <= 0 or reading.measured == "confirms"
    assert not is_raised(unread, judge_witnesses(found, reading))


@given(st.lists(pages, max_size=6), readings)
def test_nothing_is_confirmed_that_nobody_supports(found: list[Witness], reading: Reading) -> None:
    judgement = judge_witnesses(found, reading)
    if judgement.verdict in ACTED_ON:
        assert judgement.supporting_sources or reading.measured == "confirms"
    assert judgement.verdict != "confirmed" or judgement.high > 0 or reading.by_words
    if reading.by_words and reading.measured is None:
        assert judgement.high <= 0
    assert judgement.low <= judgement.high <= 0.20
    assert judgement == judge_witnesses(list(reversed(found)), reading)


def test_what_was_reported_before_a_party_denied_it_does_not_dispute_the_denial() -> None:
    denial = {"denies_or_corrects": True}
    before, after = press(2, "denies", hours=3), press(3, "denies", hours=0)
    assert verdict(official(1), before, **denial) == "confirmed"
    assert verdict(official(1), after, **denial) == "disputed", "and what is reported since then does"
    assert verdict(official(1), before) == "disputed", "any other news may be denied before the party speaks"
    assert verdict(press(1), before, **denial) == "disputed", "only the party's own word settles it"
