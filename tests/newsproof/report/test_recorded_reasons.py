"""What the rules write into the log is told in the reader's language, and what others write stands as they wrote it."""

from __future__ import annotations

import re
from itertools import product
from typing import get_args

import pytest
from msgspec.structs import replace

from agents.analysis.names import SIGNAL_WORDS
from agents.core.case import ALWAYS_DEEP
from agents.evidence.claim import PREDICATES
from agents.evidence.policy import VERDICT_EN, conclude, notes
from agents.evidence.verdict import unchecked
from agents.graphs import verification
from agents.planning.plan_rules import WHY_NOTHING
from agents.planning.tools import TOOLS
from agents.text.wording import Text, fill
from agents.text.wording import term as term_of
from agents.verification.gate import gate
from newsproof.report.recorded_reasons import translate_reason
from newsproof.web.pages import STATIC
from schemas.config import Snapshot
from schemas.errors import FailureKind
from schemas.signals import Action, Attribution, Draft, EventType, Modality, Stage, StatedClaim, Verdict

DRAFT = Draft(
    summary="s", event_type="hack", asset="ETH", asset_name="Ethereum", action="sell", direction="short", confidence=0.5,
    strength="high", timeframe="short",
)  # fmt: skip
ENGLISH = re.compile(r"[A-Za-z]{2,}")


def test_every_reason_of_the_gate_is_told_in_chinese() -> None:
    configs: list[Snapshot] = [Snapshot(), Snapshot(deep_analysis_tools_enabled=True, phase1_rollout_percentage=0.5)]
    kinds, how, by = get_args(EventType), get_args(Modality), get_args(Attribution)
    for kind, modality, attribution, action, bucket, config, listed in product(
        kinds, how, by, ("buy", "observe"), (0.0, 0.9999), configs, (True, False)
    ):
        draft = replace(DRAFT, event_type=kind, action=action)
        claim = StatedClaim(modality=modality, attribution=attribution)
        _, why = gate(draft, claim, bucket, config, listed=listed)
        said = translate_reason(why)
        assert said.en == why
        assert ENGLISH.search(said.zh) is None, why
    assert set(kinds) > ALWAYS_DEEP


@pytest.mark.parametrize(
    ("written", "en", "zh"),
    [
        ("初判 0.72 → 最终 0.50, 依据: 未核查: search_failed:timeout", "Preliminary 0.72 → final 0.50, because: not checked: search_failed:timeout", "初判 0.72 → 最终 0.50，依据：未核查：search_failed:timeout"),
        ("denied by case ab-12 (2021-09-13 15:15 UTC)", None, "案例 ab-12（2021-09-13 15:15 UTC）否认了该信号"),
        ("案例 ab-12(2021-09-13 15:15 UTC)更正了该信号", "corrected by case ab-12 (2021-09-13 15:15 UTC)", "案例 ab-12（2021-09-13 15:15 UTC）更正了该信号"),
        (
            "denied by case ab (2021-09-13 15:15 UTC). Preliminary 0.79 → final 0.72, because: supported, but by too little to "
            "call it confirmed; supporting sources: 2; supporting [2][3]. The bank. It said so.",
            None,
            "案例 ab（2021-09-13 15:15 UTC）否认了该信号。初判 0.79 → 最终 0.72，依据：可能属实：有来源支持，但不足以证实；2 个来源支持；"
            "支持 [2][3]。原文：“The bank. It said so.”",
        ),
        ("whale is no forced type; duplicates were not checked (timeout)", None, "“巨鲸”不在必查类型之列；未能查重（超时）"),
        ("the bank says so", None, "原文：“the bank says so”"),
        ("confidence is held by the bank", None, "原文：“confidence is held by the bank”"),
        ("银行这样说", None, None),
        ("", None, ""),
    ],
)  # fmt: skip
def test_a_text_is_told_in_both_languages_as_far_as_rules_made_it(written: str, en: str | None, zh: str | None) -> None:
    assert translate_reason(written) == Text(written if en is None else en, written if zh is None else zh)


def test_what_the_plan_and_the_policy_say_is_known_in_both_languages() -> None:
    end = conclude(replace(DRAFT, confidence=0.9), unchecked())
    written = [*WHY_NOTHING.values(), *VERDICT_EN.values(), *(a.reason for a in end.adjustments)]
    written.append(notes("en", 0.9, end, unchecked(), (), "search_failed:timeout"))
    written.append(notes("en", 0.9, end, unchecked(), (), None, dated_later=2))
    assert len(written) == len(WHY_NOTHING) + len(get_args(Verdict)) + 3
    for text in written:
        assert ENGLISH.search(translate_reason(text).zh) is None, text


def test_every_word_of_the_code_that_is_told_has_its_chinese() -> None:
    words = {*TOOLS, *verification().steps, *(p for of in PREDICATES.values() for p in of), *get_args(FailureKind)}
    words |= {*get_args(EventType), *get_args(Modality), *get_args(Verdict)}
    assert [word for word in sorted(words) if ENGLISH.search(term_of(word).zh)] == []


def test_a_count_chooses_its_plural() -> None:
    of = "{n:page|pages}"
    assert [fill(of, "{n} 页", n=n).en for n in (0, 1, 2)] == ["0 pages", "1 page", "2 pages"]


def test_chat_report_and_page_have_one_chinese_word_for_a_verdict_a_stage_and_an_action() -> None:
    page = dict(re.findall(r'"term\.(\w+)": "([^"]*)"', (STATIC / "js" / "texts" / "zh.js").read_text("utf-8")))
    for word in (*get_args(Verdict), *get_args(Stage), *get_args(Action)):
        if word != "final":
            assert SIGNAL_WORDS[word][1] == term_of(word).zh == page[word], word
