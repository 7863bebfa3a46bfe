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


EARLIER, DENIAL = page(9, "earlier", **OLD), {"denies_or_corrects": True}
CASES: list[tuple[tuple[Witness, ...], dict[str, Any], str]] = [
    # Of one party's own pages the newest word counts, where both are dated.
    ((official(1, hours=2), official(2, "denies", hours=1)), {}, "refuted"),
    ((official(1, hours=1), official(2, "denies", hours=2)), {}, "confirmed"),
    ((official(1, hours=1), official(2, "denies", hours=1)), {}, "disputed"),
    ((official(1, hours=None), official(2, "denies", hours=1)), {}, "disputed"),
    ((official(1, hours=1), official(2, "denies", hours=None)), {}, "disputed"),
    ((official(1, hours=None), official(2, "denies", hours=None)), {}, "disputed"),
    # A party's newest denial stands, whatever else was denied by it or by others.
    ((official(1, hours=3), official(2, "denies", hours=1), official(3, "denies", hours=None)), {}, "refuted"),
    ((official(1, hours=3), official(2, "denies", hours=1), official(3, "denies", speaker="SEC")), {}, "refuted"),
    # A party against an authority is disputed, however new either is.
    ((official(1, hours=1), official(2, "denies", speaker="SEC", hours=2)), {}, "disputed"),
    ((official(1, hours=2), official(2, "denies", speaker="SEC", hours=1)), {}, "disputed"),
    # A reported denial counts as the party's, and a newer word of its own outweighs it.
    ((page(1), press(2, "denies", speaker="Kraken", hours=2)), {}, "refuted"),
    ((official(1, hours=3), press(2, "denies", speaker="Kraken", hours=2)), {}, "refuted"),
    ((official(1, hours=1), press(2, "denies", speaker="Kraken", hours=2)), {}, "confirmed"),
    # A reported confirmation is a source like others, unless the news itself denies.
    ((press(1, speaker="Kraken"),), {}, "likely"),
    ((press(1, speaker="Kraken"),), DENIAL, "confirmed"),
    # An established denial that is nobody's word disputes an official page and refutes what nobody supports.
    ((official(1), press(2, "denies")), {}, "disputed"),
    ((press(2, "denies"),), {}, "refuted"),
    ((press(1), press(2, "denies")), {}, "disputed"),
    ((official(1), press(2, "denies")), {"critic": "refuted"}, "disputed"),
    # A denial that only the word rules read disputes at most, also where a critic should have read it.
    ((press(1, "denies", quoted=False),), {}, "disputed"),
    ((official(1, "denies", quoted=False),), {}, "disputed"),
    ((official(1), official(2, "denies", quoted=False, hours=0.5)), {}, "disputed"),
    ((official(1), press(2, "denies", quoted=False)), {}, "disputed"),
    ((press(1, "denies", quoted=False),), {"by_words": True}, "disputed"),
    ((official(1, "denies", quoted=False),), {"by_words": True}, "disputed"),
    ((official(1, "denies", quoted=False),), {"by_words": True, "unread": True}, "disputed"),
    ((official(1, quoted=False, **OLD),), {"by_words": True, "unread": True}, "stale"),
    # Old news is stale only where every supporting page is old.
    ((press(1, **OLD), press(2, **OLD), press(3, **OLD)), {}, "stale"),
    ((press(1, **OLD), press(2, **OLD), press(3)), {}, "confirmed"),
    ((press(1, **OLD), press(2, hours=None)), {}, "likely"),
    ((press(1, hours=30 * 24),), {}, "likely"),
    # The same story told earlier is stale unless something fresh supports.
    ((EARLIER,), {}, "stale"),
    ((official(1, hours=None), press(9, "earlier", **OLD)), {}, "stale"),
    ((press(1), EARLIER), {}, "likely"),
    # One stranger's page does not make old what an established page tells, however often it says so.
    ((press(1, hours=None), EARLIER), {}, "likely"),
    ((official(1, hours=None), EARLIER), {}, "likely"),
    ((press(1, hours=None), EARLIER, EARLIER), {}, "likely"),
    ((official(1, hours=None), EARLIER, EARLIER), {}, "likely"),
    ((press(1, hours=None), EARLIER, page(8, "earlier", **OLD)), {}, "stale"),
    ((official(1, hours=None), EARLIER, page(8, "earlier", **OLD)), {}, "stale"),
    # What the critic calls conflicting, or refutes without a page, is disputed at best.
    ((official(1), press(2), page(3)), {"critic": "conflicting"}, "disputed"),
    ((official(1), press(2), page(3)), {"critic": "refuted"}, "disputed"),
    ((official(4, "denies"),), {"critic": "conflicting"}, "refuted"),
    # A figure stands, whatever the press says.
    ((press(1, "denies"),), {"measured": "confirms"}, "confirmed"),
    ((press(1, **OLD),), {"measured": "confirms"}, "confirmed"),
    ((official(1), press(2), press(3)), {"measured": "contradicts"}, "refuted"),
    ((official(1),), {"by_words": True, "measured": "contradicts"}, "refuted"),
    # Sources confirm from the threshold on, and words alone never by counting.
    ((press(1), press(2), page(3)), {"threshold": 4}, "likely"),
    ((press(1, quoted=False), press(2, quoted=False), press(3, quoted=False)), {"by_words": True}, "likely"),
    # What was reported before a party denied it does not dispute its denial; only its own word settles that.
    ((official(1), press(2, "denies", hours=3)), DENIAL, "confirmed"),
    ((official(1), press(3, "denies", hours=0)), DENIAL, "disputed"),
    ((official(1), press(2, "denies", hours=3)), {}, "disputed"),
    ((press(1), press(2, "denies", hours=3)), DENIAL, "disputed"),
]


@pytest.mark.parametrize(("witnesses", "reading", "expected"), CASES)
def test_these_pages_under_this_reading_have_this_verdict(
    witnesses: tuple[Witness, ...], reading: dict[str, Any], expected: str
) -> None:
    assert verdict(*witnesses, **reading) == expected


def test_a_weak_denial_against_an_official_page_is_flagged_and_neither_disputes_nor_makes_it_fresh() -> None:
    found = judge_witnesses([official(1), page(2, "denies")], Reading())
    assert (found.verdict, found.flags, found.conflict) == ("confirmed", ("weak_denial",), True)
    assert judge_witnesses([press(1), page(2, "denies")], Reading()).flags == ()
    found = judge_witnesses([official(1, **OLD), page(2, "denies")], Reading())
    assert (found.verdict, found.stale) == ("stale", True)
    assert judge_witnesses([page(1, "denies"), page(9, "earlier", **OLD)], Reading()).stale is False


@pytest.mark.parametrize(
    ("witnesses", "expected", "flags"),
    [
        ((official(1, hours=None),), "likely", ("undated_evidence",)),
        ((press(1, hours=None), press(2, hours=None), page(3, hours=None)), "likely", ("undated_evidence",)),
        # A throwaway page's date vouches for nothing.
        ((press(1, hours=None), press(2, hours=None), page(3)), "likely", ("undated_evidence",)),
        ((press(1), press(2, hours=None), page(3, hours=None)), "confirmed", ("undated_evidence",)),
        ((official(1), page(2, "hedges", hours=None)), "confirmed", ()),
    ],
)
def test_what_is_undated_supports_but_does_not_alone_confirm(
    witnesses: tuple[Witness, ...], expected: str, flags: tuple[str, ...]
) -> None:
    found = judge_witnesses(witnesses, Reading())
    assert (found.verdict, found.flags) == (expected, flags)


@pytest.mark.parametrize(
    "bar", [{"critic": "not_enough_evidence"}, {"quotes_failed": True}, {"partly_refuted": True}, {"unread": True}]
)
def test_a_bar_leaves_likely_at_most(bar: dict[str, Any]) -> None:
    assert verdict(official(1), press(2), page(3), **bar) == "likely"
    assert verdict(press(1), press(2), page(3), **bar) == "likely"
    needs_no_quote = {"quotes_failed", "unread"} & bar.keys()
    assert verdict(measured="confirms", **bar) == ("confirmed" if needs_no_quote else "unconfirmed")
    assert verdict(official(1), page(2, "denies"), **bar) == "unconfirmed"


def test_words_alone_and_what_a_critic_should_have_read_and_did_not_raise_nothing() -> None:
    found = judge_witnesses([official(1, quoted=False), press(2, quoted=False)], Reading(by_words=True, unread=True))
    assert (found.verdict, found.low, found.high) == ("likely", 0.0, 0.0)
    three = [press(n, quoted=False) for n in (1, 2, 3)]
    found = judge_witnesses([official(9, quoted=False), *three], Reading(by_words=True))
    assert (found.verdict, found.low, found.high) == ("confirmed", 0.0, 0.0)


def test_failed_quotes_and_a_refuted_part_are_flagged() -> None:
    found = judge_witnesses([press(1)], Reading(quotes_failed=True, partly_refuted=True))
    assert found.flags == ("quotes_failed", "partly_refuted")


def test_sources_are_counted_and_not_pages() -> None:
    found = judge_witnesses([press(1), press(1), page(1), press(4, "hedges")], Reading())
    assert (found.verdict, found.low, found.supporting_sources, found.independent_sources) == ("likely", -0.10, 1, 2)


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


@settings(max_examples=200, deadline=None)
@given(st.lists(pages, max_size=6), readings)
def test_nothing_is_confirmed_that_nobody_supports_or_has_read(found: list[Witness], reading: Reading) -> None:
    judgement = judge_witnesses(found, reading)
    if judgement.verdict in ACTED_ON:
        assert judgement.supporting_sources or reading.measured == "confirms"
    assert judgement.verdict != "confirmed" or judgement.high > 0 or reading.by_words
    if reading.by_words and reading.measured is None:
        assert judgement.high <= 0
        assert judgement.verdict != "confirmed" or any(w.official for w in found)
    assert judgement.low <= judgement.high <= 0.20
    assert judgement == judge_witnesses(list(reversed(found)), reading)
    unread = judge_witnesses(found, replace(reading, unread=True))
    assert unread.verdict != "confirmed" or reading.measured == "confirms"
    assert unread.high <= 0 or reading.measured == "confirms"
    assert not is_raised(unread, judgement)
