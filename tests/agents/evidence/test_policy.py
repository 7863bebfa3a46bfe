"""The quantified rules: every number of the table, and what holds for any input."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from agents.evidence.policy import RANGES, bounds, conclude, notes
from schemas.evidence import Findings, MemoryEntry, SearchReference, Sentiment
from schemas.signals import Draft

WHEN = datetime(2024, 6, 3, tzinfo=UTC)
MOOD = Sentiment(panic=0.33, neutral=0.34, optimistic=0.33)


def draft(confidence: float = 0.8, action: Any = "buy", flags: tuple[str, ...] = ()) -> Draft:
    return Draft(
        summary="", event_type="hack", asset="BTC", asset_name="Bitcoin", action=action, direction="long",
        confidence=confidence, strength="high", timeframe="short", risk_flags=flags,
    )  # fmt: skip


def reference(number: int, **marks: Any) -> SearchReference:
    return SearchReference(
        reference_number=number, source_tool="tavily", title="t", url=f"https://s{number}.example/", snippet="",
        relevance_score=0.9, quality_score=80, content_complete=True, source_credibility="medium", query="q", **marks,
    )  # fmt: skip


def found(references: int = 1, flags: tuple[str, ...] = (), **marks: bool) -> Findings:
    values = dict.fromkeys(("multi_source", "official_confirmed", "denied", "conflict", "stale"), False) | marks
    return Findings(
        keyword="q", references=tuple(reference(n + 1) for n in range(references)), dropped=(),
        independent_sources=references, sentiment=MOOD, source_count=references, confidence=0.9,
        triggered=False, risk_flags=flags, **values,
    )  # fmt: skip


def remembered(similarity: float, confidence: float, case: str = "c1") -> MemoryEntry:
    return MemoryEntry(
        case_id=case, summary="", event_type="hack", asset="BTC", confidence=confidence, similarity=similarity, decided_at=WHEN
    )  # fmt: skip


TABLE = [
    (found(denied=True, multi_source=True, official_confirmed=True), None, "denied_or_conflict", -0.20),
    (found(conflict=True, stale=True), None, "denied_or_conflict", -0.20),
    (found(multi_source=True, official_confirmed=True), "conflicting", "denied_or_conflict", -0.20),
    (found(multi_source=True, official_confirmed=True), "refuted", "denied_or_conflict", -0.20),
    (found(stale=True, multi_source=True, official_confirmed=True), None, "stale", -0.20),
    (found(multi_source=True, official_confirmed=True), "supported", "multi_source_official", 0.175),
    (found(multi_source=True), None, "multi_source", 0.075),
    (found(official_confirmed=True), None, "official_alone", -0.10),
    (found(), None, "few_sources", -0.15),
    (found(0), None, "no_evidence", -0.15),
    (None, None, "no_evidence", -0.15),
]


@pytest.mark.parametrize(("findings", "verdict", "rule", "amount"), TABLE)
def test_the_first_rule_that_matches_applies_with_its_middle(
    findings: Findings | None, verdict: Any, rule: str, amount: float
) -> None:
    conclusion = conclude(draft(0.5), findings, verdict=verdict, memory=(), chosen=None)
    assert (conclusion.base_rule, conclusion.confidence) == (rule, round(0.5 + amount, 4))
    assert bounds(findings, verdict)[0] == rule


@pytest.mark.parametrize(
    ("findings", "verdict", "flags"),
    [
        (found(denied=True), None, {"data_incomplete"}),
        (found(denied=True), "refuted", {"data_incomplete", "refuted"}),
        (found(stale=True), None, {"old_news"}),
        (found(0, flags=("spoofed_source",)), None, {"spoofed_source", "data_incomplete"}),
        (found(multi_source=True), None, set()),
        (found(), None, set()),
        (None, None, {"data_incomplete"}),
    ],
)
def test_each_rule_sets_its_flags(findings: Findings | None, verdict: Any, flags: set[str]) -> None:
    assert set(conclude(draft(), findings, verdict=verdict, memory=(), chosen=None).risk_flags) == flags


def test_a_refuted_claim_is_only_observed() -> None:
    conclusion = conclude(draft(1.0), found(denied=True), verdict="refuted", memory=(), chosen=None)
    assert (conclusion.action, conclusion.direction) == ("observe", "neutral")


@pytest.mark.parametrize(("action", "direction"), [("buy", "long"), ("sell", "short"), ("observe", "neutral")])
def test_the_direction_follows_the_action(action: str, direction: str) -> None:
    assert conclude(draft(0.8, action), found(), verdict=None, memory=(), chosen=None).direction == direction


def test_a_choice_outside_the_range_is_moved_to_its_end_and_listed() -> None:
    conclusion = conclude(draft(0.5), found(multi_source=True), verdict=None, memory=(), chosen=0.9)
    assert conclusion.confidence == 0.6
    assert [(a.rule, a.amount) for a in conclusion.adjustments] == [("multi_source", 0.10), ("choice_clamped", 0.0)]
    assert "+0.90" in conclusion.adjustments[1].reason


def test_a_choice_inside_the_range_is_taken_as_it_is() -> None:
    conclusion = conclude(draft(0.5), found(), verdict=None, memory=(), chosen=-0.12)
    assert [(a.rule, a.amount) for a in conclusion.adjustments] == [("few_sources", -0.12)]


@pytest.mark.parametrize(("past", "expected"), [(0.95, 0.45), (0.10, 0.25), (0.33, 0.33), (0.35, 0.35)])
def test_memory_pulls_towards_the_past_case_by_at_most_a_tenth(past: float, expected: float) -> None:
    memory = (remembered(0.95, past), remembered(0.81, 0.0, "other"))
    assert conclude(draft(0.5), found(), verdict=None, memory=memory, chosen=None).confidence == expected


def test_memory_of_similarity_080_does_not_count() -> None:
    memory = (remembered(0.80, 1.0),)
    assert conclude(draft(0.5), found(), verdict=None, memory=memory, chosen=None).confidence == 0.35


@pytest.mark.parametrize("status", ["retracted", "superseded"])
def test_a_past_judgement_that_was_withdrawn_pulls_neither_up_nor_down(status: Any) -> None:
    withdrawn = replace(remembered(0.99, 0.0), withdrawn=status)
    standing = remembered(0.90, 0.95, "other")
    alone = conclude(draft(0.5), found(), verdict=None, memory=(withdrawn,), chosen=None)
    beside = conclude(draft(0.5), found(), verdict=None, memory=(withdrawn, standing), chosen=None)
    assert (alone.confidence, beside.confidence) == (0.35, 0.45)


def test_a_doubt_that_verification_has_lifted_does_not_stick() -> None:
    raised = found(3, multi_source=True, official_confirmed=True)
    start = draft(0.35, flags=("confidence_low", "offline"))
    assert conclude(start, raised, verdict=None, memory=(), chosen=None).risk_flags == ("offline",)


any_findings = st.one_of(
    st.none(),
    st.builds(
        found, st.integers(0, 5), multi_source=st.booleans(), official_confirmed=st.booleans(), denied=st.booleans(),
        conflict=st.booleans(), stale=st.booleans(),
    ),
)  # fmt: skip
any_verdict = st.sampled_from([None, "supported", "refuted", "conflicting", "not_enough_evidence"])
any_memory = st.lists(st.builds(remembered, st.floats(-1, 1), st.floats(0, 1)), max_size=3).map(tuple)


@given(
    st.floats(0, 1), any_findings, any_verdict, any_memory, st.none() | st.floats(allow_nan=True, allow_infinity=True)
)
def test_for_any_input_the_result_stays_in_bounds_and_the_list_adds_up(
    confidence: float, findings: Findings | None, verdict: Any, memory: Any, chosen: float | None
) -> None:
    start = draft(confidence)
    conclusion = conclude(start, findings, verdict=verdict, memory=memory, chosen=chosen)
    assert 0.0 <= conclusion.confidence <= 1.0
    assert abs(confidence + sum(a.amount for a in conclusion.adjustments) - conclusion.confidence) < 2e-4
    low, high = RANGES[conclusion.base_rule]
    assert low <= conclusion.adjustments[0].amount <= high
    assert ("confidence_low" in conclusion.risk_flags) == (conclusion.confidence < 0.4)
    assert ("refuted" in conclusion.risk_flags) == (verdict == "refuted")
    assert ("old_news" in conclusion.risk_flags) == (conclusion.base_rule == "stale")
    assert conclusion == conclude(start, findings, verdict=verdict, memory=memory, chosen=chosen)


@given(st.floats(0, 1), any_verdict)
def test_nothing_found_is_never_an_upgrade(confidence: float, verdict: Any) -> None:
    conclusion = conclude(draft(confidence), found(0), verdict=verdict, memory=(), chosen=1.0)
    assert conclusion.confidence <= confidence + 1e-4
    assert "data_incomplete" in conclusion.risk_flags


def test_notes_begin_with_the_change_and_cite_references_in_the_language_of_the_news() -> None:
    findings = found(0, denied=True)
    findings = Findings(**{
        **{f: getattr(findings, f) for f in findings.__struct_fields__},
        "references": (reference(1, stance="denies"), reference(2, official=True), reference(3, stance="hedges")),
    })  # fmt: skip
    conclusion = conclude(draft(0.85), findings, verdict=None, memory=(remembered(0.9, 0.7),), chosen=None)
    zh = notes("zh", 0.85, 0.65, conclusion, findings)
    en = notes("en", 0.85, 0.65, conclusion, findings)
    assert zh.startswith("初判 0.85 → 最终 0.65, 依据: ")
    assert en.startswith("Preliminary 0.85 → final 0.65, because: ")
    assert "否认 [1]" in zh and "官方 [2]" in zh and "未证实 [3]" in zh
    assert "denying [1]" in en and "official [2]" in en and "unconfirmed [3]" in en


def test_notes_without_evidence_say_so() -> None:
    conclusion = conclude(draft(), None, verdict=None, memory=(), chosen=None)
    assert "没有可用证据" in notes("zh", 0.8, 0.65, conclusion, None)
    assert "no usable evidence" in notes("other", 0.8, 0.65, conclusion, None)


def official(*stances: str) -> Findings:
    findings = found(0, denied="denies" in stances)
    references = tuple(reference(n, stance=s, official=True) for n, s in enumerate(stances, start=1))  # type: ignore[arg-type]
    return Findings(**{**{f: getattr(findings, f) for f in findings.__struct_fields__}, "references": references})


@pytest.mark.parametrize("verdict", [None, "supported", "not_enough_evidence"])
def test_what_its_own_party_denies_is_never_traded_even_without_a_model_or_against_one(verdict: Any) -> None:
    conclusion = conclude(draft(0.99), official("denies"), verdict=verdict, memory=(), chosen=0.2)
    assert (conclusion.action, conclusion.direction) == ("observe", "neutral")
    assert {"refuted", "data_incomplete"} <= set(conclusion.risk_flags)
    assert conclusion.confidence == pytest.approx(0.79)


def test_two_official_voices_that_disagree_are_a_conflict_and_no_refutation() -> None:
    conclusion = conclude(draft(0.9), official("denies", "supports"), verdict=None, memory=(), chosen=None)
    assert conclusion.base_rule == "denied_or_conflict"
    assert "refuted" not in conclusion.risk_flags
