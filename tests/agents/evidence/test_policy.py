"""What follows from a verdict: every amount with its order, who may be acted on, and what holds for any input."""

from __future__ import annotations

from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from agents.evidence.policy import Conclusion, conclude, is_thin, notes
from agents.evidence.verdict import CAPS, Judgement, Measured, Reading, Witness, judge_witnesses, unchecked
from agents.evidence.witnesses import CheckedPage
from schemas.evidence import MemoryEntry, ReadStance
from schemas.signals import ACTED_ON, Draft, Verdict
from tests import builders

RANGES: dict[Verdict, tuple[float, float]] = {
    "confirmed": (0.05, 0.10), "likely": (-0.10, -0.05), "unconfirmed": (-0.20, -0.10), "stale": (-0.20, -0.20),
    "disputed": (-0.20, -0.20), "refuted": (-0.20, -0.20), "unchecked": (0.0, 0.0),
}  # fmt: skip
verdicts = pytest.mark.parametrize("verdict", get_args(Verdict))


def draft(confidence: float = 0.8, action: Any = "buy", flags: tuple[str, ...] = (), asset: str = "BTC") -> Draft:
    return builders.draft(asset=asset, action=action, direction="long", confidence=confidence, risk_flags=flags)


def judgement(verdict: Verdict = "confirmed", change: tuple[float, float] | None = None, **marks: Any) -> Judgement:
    low, high = change or RANGES[verdict]
    return replace(unchecked(), verdict=verdict, low=low, high=high, cap=CAPS[verdict], **marks)


def remembered(similarity: float, confidence: float, case: str = "c1", verdict: str | None = "likely") -> MemoryEntry:
    return builders.memory_entry(case, asset="BTC", confidence=confidence, similarity=similarity, verdict=verdict)


def steps(of: Conclusion) -> list[tuple[str, float]]:
    return [(a.rule, a.amount) for a in of.adjustments]


@verdicts
def test_without_a_choice_the_middle_of_the_range_applies(verdict: Verdict) -> None:
    low, high = RANGES[verdict]
    found = conclude(draft(0.3), judgement(verdict))
    assert found.confidence == min(round(0.3 + (low + high) / 2, 4), CAPS[verdict])


def test_what_was_not_checked_has_no_amount_of_its_own() -> None:
    assert steps(conclude(draft(0.5), unchecked())) == []
    assert steps(conclude(draft(0.9), unchecked(), memory=(remembered(0.99, 0.1),), chosen=0.2)) == [("cap", -0.3)]


@verdicts
def test_the_cap_is_an_adjustment_of_its_own(verdict: Verdict) -> None:
    found = conclude(draft(1.0), judgement(verdict))
    rules = [rule for rule, _ in steps(found)]
    if verdict == "confirmed":
        assert (found.confidence, rules) == (1.0, ["confirmed", "cap"])
        return
    assert found.confidence == CAPS[verdict]
    assert ("cap" in rules) == (round(1.0 + sum(RANGES[verdict]) / 2, 4) > CAPS[verdict])
    assert rules[-1] == "cap"
    assert found.adjustments[-1].reason == f"{verdict} leaves at most {CAPS[verdict]:.2f}"


def test_the_amounts_are_those_of_the_verdict_then_memory_then_cap_then_bounds() -> None:
    memory = (remembered(0.9, 0.5),)
    assert steps(conclude(draft(0.9), judgement("disputed"), memory=memory)) == [
        ("disputed", -0.20), ("memory", -0.10), ("cap", -0.10)
    ]  # fmt: skip
    # Each starts from the draft as it is: the cap takes nothing from it before memory.
    assert steps(conclude(draft(1.0), judgement("unconfirmed"), memory=(remembered(0.9, 0.8),))) == [
        ("unconfirmed", -0.15), ("memory", -0.05), ("cap", -0.20)
    ]  # fmt: skip
    assert steps(conclude(draft(0.05), judgement("unconfirmed"))) == [("unconfirmed", -0.15), ("bounds", 0.10)]


def test_a_choice_inside_the_range_is_taken_and_one_outside_is_moved_to_its_end_and_listed() -> None:
    found = conclude(draft(0.5), judgement("confirmed"), chosen=0.9)
    assert (found.confidence, steps(found)) == (0.6, [("confirmed", 0.10), ("choice_clamped", 0.0)])
    assert "+0.90" in found.adjustments[1].reason
    assert steps(conclude(draft(0.5), judgement("unconfirmed"), chosen=-0.12)) == [("unconfirmed", -0.12)]


@pytest.mark.parametrize("verdict", ["stale", "disputed", "refuted", "unchecked"])
def test_where_the_range_has_no_width_a_choice_is_neither_taken_nor_named(verdict: Verdict) -> None:
    assert conclude(draft(0.5), judgement(verdict), chosen=0.2) == conclude(draft(0.5), judgement(verdict))


@pytest.mark.parametrize(("past", "expected"), [(0.95, 0.675), (0.60, 0.60), (0.10, 0.475), (0.575, 0.575)])
def test_memory_pulls_a_confirmed_case_towards_the_past_one_by_at_most_a_tenth(past: float, expected: float) -> None:
    memory = (remembered(0.95, past), remembered(0.81, 0.0, "other"))
    assert conclude(draft(0.5), judgement("confirmed"), memory=memory).confidence == expected


@verdicts
def test_memory_raises_only_what_is_confirmed_and_lowers_all_that_was_checked(verdict: Verdict) -> None:
    def by(past: float) -> float:
        return sum(
            amount
            for rule, amount in steps(conclude(draft(0.5), judgement(verdict), memory=(remembered(0.9, past),)))
            if rule == "memory"
        )

    assert by(1.0) == (0.10 if verdict == "confirmed" else 0.0)
    assert by(0.0) == (0.0 if verdict == "unchecked" else -0.10)


@pytest.mark.parametrize("past", [0.0, 1.0])
def test_a_past_case_that_is_unlike_or_withdrawn_or_of_the_old_rules_moves_nothing(past: float) -> None:
    alone, near = conclude(draft(0.5), judgement()), remembered(0.99, past)
    withdrawn = [replace(near, withdrawn=how) for how in ("retracted", "superseded")]
    for silent in (replace(near, similarity=0.80), replace(near, verdict=None), *withdrawn):
        assert conclude(draft(0.5), judgement(), memory=(silent,)) == alone
        standing = remembered(0.81, 0.60, "other")
        assert conclude(draft(0.5), judgement(), memory=(silent, standing)).confidence == 0.60


@verdicts
@pytest.mark.parametrize("action", ["buy", "sell", "observe"])
def test_an_order_is_left_only_by_confirmed_or_likely_and_about_a_known_asset(verdict: Verdict, action: Any) -> None:
    found = conclude(draft(0.99, action), judgement(verdict))
    assert found.action == (action if verdict in {"confirmed", "likely"} else "observe")
    assert conclude(draft(0.99, action, asset="UNKNOWN"), judgement(verdict)).action == "observe"


@verdicts
def test_each_verdict_sets_its_flags(verdict: Verdict) -> None:
    flags = {"stale": {"old_news"}, "refuted": {"refuted", "confidence_low"}}.get(verdict, set())
    assert set(conclude(draft(), judgement(verdict)).risk_flags) == flags
    assert set(conclude(draft(), judgement(verdict), thin=True).risk_flags) == flags | {"data_incomplete"}


def told_by(number: int, stance: ReadStance = "supports", snippet: str = "More than the title.") -> CheckedPage:
    return CheckedPage(reference=builders.reference(number, snippet, title="A title"), stance=stance)


@verdicts
def test_evidence_is_thin_by_the_pages_that_say_anything_of_the_claim(verdict: Verdict) -> None:
    of = judgement(verdict)
    doubtful, disputed = verdict in {"likely", "unconfirmed"}, verdict == "disputed"
    assert is_thin(of, [])
    assert is_thin(of, [told_by(1), told_by(2, "unrelated")]) is (doubtful or disputed)
    assert is_thin(of, [told_by(1, snippet="A title"), told_by(2, snippet="")]) is (doubtful or disputed)
    assert is_thin(of, [told_by(1), told_by(2, "hedges", snippet="")]) is disputed


def test_flags_of_draft_case_and_evidence_are_kept_once_and_a_lifted_doubt_does_not_stick() -> None:
    found = conclude(
        draft(flags=("offline", "weak_denial")),
        judgement(flags=("weak_denial", "undated_evidence")),
        extra_flags=("offline", "memory_unavailable"),
    )
    assert found.risk_flags == ("offline", "weak_denial", "memory_unavailable", "undated_evidence")
    start = draft(0.35, flags=("confidence_low", "offline"))
    assert conclude(start, judgement()).risk_flags == ("offline",)


pages = st.builds(
    Witness, stance=st.sampled_from(["supports", "denies", "hedges", "earlier", "unrelated"]),
    source=st.integers(1, 4), official=st.booleans(), established=st.booleans(), quoted=st.booleans(),
)  # fmt: skip
readings = st.builds(Reading, by_words=st.booleans(), measured=st.sampled_from([None, *get_args(Measured)]))
judgements = st.one_of(st.just(unchecked()), st.builds(judge_witnesses, st.lists(pages, max_size=5), readings))
memories = st.lists(
    st.builds(
        remembered, st.floats(-1, 1), st.floats(allow_nan=True), verdict=st.sampled_from([None, "likely", "refuted"])
    ),
    max_size=3,
).map(tuple)
choices = st.none() | st.floats(allow_nan=True, allow_infinity=True)


@given(st.floats(0, 1), judgements, memories, choices)
def test_for_any_input_the_result_stays_in_bounds_and_the_list_adds_up(
    confidence: float, found: Judgement, memory: Any, chosen: float | None
) -> None:
    start = draft(confidence)
    end = conclude(start, found, memory=memory, chosen=chosen)
    assert 0.0 <= end.confidence <= found.cap
    assert abs(confidence + sum(a.amount for a in end.adjustments) - end.confidence) < 2e-4
    own = [amount for rule, amount in steps(end) if rule == found.verdict]
    assert own == [] if found.verdict == "unchecked" else found.low <= own[0] <= found.high
    order = [r for r, _ in steps(end)]
    known = [found.verdict, "choice_clamped", "memory", "cap", "bounds"]
    assert order == [r for r in known if r in order]
    assert ("confidence_low" in end.risk_flags) == (end.confidence < 0.4)
    assert ("refuted" in end.risk_flags) == (found.verdict == "refuted")
    assert ("old_news" in end.risk_flags) == (found.verdict == "stale")
    assert end.action == "observe" or found.verdict in ACTED_ON
    assert found.verdict == "confirmed" or end.confidence <= confidence + 1e-4
    assert end == conclude(start, found, memory=memory, chosen=chosen)


def heard(number: int, stance: Any, *, official: bool = False) -> CheckedPage:
    return CheckedPage(reference=builders.reference(number, official=official), stance=stance)


def test_a_draft_without_a_usable_confidence_ends_within_bounds() -> None:
    for broken in (float("nan"), float("inf"), -1.0, 2.0):
        assert 0.0 <= conclude(draft(broken), judgement()).confidence <= 1.0, broken


def test_notes_begin_with_the_change_and_cite_references_in_the_language_of_the_news() -> None:
    found = judgement("disputed", supporting_sources=2)
    end = conclude(draft(0.85), found, memory=(remembered(0.9, 0.5),))
    read = [heard(1, "denies"), heard(2, "supports", official=True), heard(3, "hedges"), heard(4, "supports")]
    read += [heard(5, "earlier"), heard(6, "supports"), heard(7, "unrelated")]
    zh, en = (notes(language, 0.85, end, found, read, None) for language in ("zh", "en"))
    assert zh == (
        "初判 0.85 → 最终 0.50，依据：有争议：信源互相矛盾，或仅有非官方的否认；2 个信源支持；官方 [2]；支持 [4][6]；否认 [1]；"
        "未肯定 [3]；旧事 [5]；参考了相似的历史案例"
    )
    assert en == (
        "Preliminary 0.85 → final 0.50, because: sources contradict one another, or somebody without authority denies it; "
        "supporting sources: 2; official [2]; supporting [4][6]; denying [1]; hedging [3]; earlier [5]; "
        "a similar past case was taken into account"
    )


@verdicts
def test_notes_of_each_verdict_are_words_of_their_own_in_both_languages(verdict: Verdict) -> None:
    found = judgement(verdict)
    end = conclude(draft(0.5), found)
    told = {notes(language, 0.5, end, found, (), None) for language in ("zh", "en")}
    others = {
        notes(language, 0.5, end, judgement(v), (), None)
        for v in get_args(Verdict)
        if v != verdict
        for language in ("zh", "en")
    }
    assert len(told) == 2 and told.isdisjoint(others)
    assert notes("ko", 0.5, end, found, (), None) == notes("en", 0.5, end, found, (), None)


def test_notes_name_the_pages_that_are_dated_after_the_news_or_say_why_nothing_was_checked() -> None:
    found = judgement("unconfirmed")
    end = conclude(draft(0.5), found)
    zh, en = (notes(language, 0.5, end, found, (), None, dated_later=2) for language in ("zh", "en"))
    assert zh.endswith("0 个信源支持；2 个网页日期晚于新闻，未采用")
    assert en.endswith("supporting sources: 0; pages left out as dated after the news: 2")
    end = conclude(draft(0.5), unchecked())
    zh, en = (notes(language, 0.5, end, unchecked(), (), "search_failed:timeout") for language in ("zh", "en"))
    assert zh == "初判 0.50 → 最终 0.50，依据：未核查：search_failed:timeout"
    assert en == "Preliminary 0.50 → final 0.50, because: not checked: search_failed:timeout"


def test_memory_raises_nothing_that_words_alone_confirm() -> None:
    by_words = judgement("confirmed", (0.0, 0.0))
    assert steps(conclude(draft(0.5), by_words, memory=(remembered(0.99, 1.0),))) == [("confirmed", 0.0)]
    assert conclude(draft(0.5), by_words, memory=(remembered(0.99, 0.0),)).confidence == 0.4
