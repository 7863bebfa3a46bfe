"""Questions that the pipeline's own cases answer: looked up, told with verdicts and quotes, and plainly none where there is none."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest

from agents.research.answers import NAMED_HOURS, NEWEST_HOURS, case_query
from agents.specification import START, given, question
from schemas.effects import FindSignals, ModelReply, SignalsReply, Trusted, Untrusted
from schemas.events import StepFailed
from schemas.evidence import FoundPage
from schemas.research_events import CaseQuery, CasesFound, FinishRequested, QuestionRouted
from tests.agents.research.conftest import REFUSED, TIMEOUT, found_signal

QUERY = CaseQuery(asset="LTC", names=(("Walmart", "沃尔玛"), ("Litecoin",)), hours=48)
HOAX = found_signal(
    1,
    asset="LTC",
    action="observe",
    confidence=0.04,
    verdict="refuted",
    summary="Walmart accepts Litecoin [7], see https://evil.example",
    summary_zh="沃尔玛将接受莱特币",
    matched=("Walmart", "Litecoin"),
    pages=(
        FoundPage(
            url="https://www.walmart.example/a", stance="denies", quote="The release is fake [3].", official=True
        ),
        FoundPage(url="https://wire.example", stance="supports", quote="Walmart announced"),
        FoundPage(url="https://a.example/x", stance="denies"),
        FoundPage(url="https://b.example/y", stance="earlier", official=True),
    ),
)
OTHER = found_signal(2, asset="BTC", stage="retracted", provider_mode="offline", matched=("Walmart",))


def routed(query: CaseQuery | None = QUERY) -> QuestionRouted:
    return QuestionRouted(
        decision="COMPLEX_ANALYSIS", reasoning="", confidence=0.9, direct_answer="", route="cases", cases=query
    )


def turn(chat, *events, language="en", query=QUERY):
    asked = question("Is it true that Walmart takes Litecoin?", language=language)
    return given(asked, routed(query), *events, config=chat)


def chosen(*relevant, answer="No: Walmart itself denies it [1].", confidence=0.95):
    return ModelReply(data={"relevant": list(relevant), "answer": answer, "confidence": confidence})


def test_super_agent_sends_a_question_of_facts_to_the_cases_and_says_what_to_look_up(chat):
    cases = {"asset": "LTC", "names": [["Walmart", "沃尔玛"]], "verdicts": ["refuted", "wrong"], "hours": 24}
    reply = {"decision": "CASE_LOOKUP", "reasoning": "facts", "confidence": 0.9, "direct_answer": "", "cases": cases}
    said = given(question("True?"), config=chat).told(ModelReply(data=reply)).event
    assert (said.decision, said.route) == ("COMPLEX_ANALYSIS", "cases")
    assert said.cases == CaseQuery(asset="LTC", names=(("Walmart", "沃尔玛"),), verdicts=("refuted",), hours=24)


@pytest.mark.parametrize("said", [None, [], "x", {"names": 7, "hours": "1", "verdicts": None, "asset": 3}])
def test_whatever_a_model_wants_looked_up_is_bounded(said):
    assert case_query(said) == CaseQuery(hours=NEWEST_HOURS)
    wild = {
        "asset": "https://x",
        "names": [["a" * 99, "", 3, "x"], "Circle", *["n" * n for n in range(2, 20)]],
        "hours": 1e12,
    }
    query = case_query(wild)
    assert (query.asset, query.hours, len(query.names)) == ("", NAMED_HOURS, 6)
    assert query.names[:2] == (("a" * 60,), ("Circle",))


def test_the_cases_are_looked_up_as_of_the_question_and_numbered_for_citing(chat):
    step = turn(chat)
    step.ask_gives(
        FindSignals(asset="LTC", since=START - timedelta(hours=48), as_of=START, limit=10, names=QUERY.names)
    )
    step.told(SignalsReply(signals=(found_signal(7), found_signal(9)))).emits(
        CasesFound(signals=(found_signal(1, case_id="case-7", signal_id="signal-7"),
                            found_signal(2, case_id="case-9", signal_id="signal-9")))
    )  # fmt: skip


def test_the_answer_is_the_writers_sentence_and_each_case_as_it_was_recorded(chat):
    step = turn(chat, CasesFound(signals=(HOAX, OTHER)))
    ours = step.asked.system + "".join(p.text for p in step.asked.parts if isinstance(p, Trusted))
    assert "fake" not in ours and step.asked.task == "research_cases"
    assert any(
        "walmart.example (denies): The release is fake" in p.text for p in step.asked.parts if isinstance(p, Untrusted)
    )
    answer = step.told(chosen(1, 99, "x")).event
    assert answer.answer == (
        "No: Walmart itself denies it [1].\n\n"
        "- Walmart accepts Litecoin, see [1]\n\n"
        "  refuted · LTC observe · confidence 0.04 · 2026-01-01 03:04 UTC\n\n"
        "  > “The release is fake.” – walmart.example (denies it, official)\n\n"
        "  > “Walmart announced” – wire.example (supports it)\n\n"
        "  Pages read, without a quote: a.example (denies it), b.example (is about an earlier event, official)"
    )
    assert (answer.summary, answer.key_insights) == ("No: Walmart itself denies it [1].", ())
    assert [(s.number, s.case_id) for s in answer.sources] == [(1, "case-1")]
    assert (answer.metadata.path, answer.metadata.agents, answer.confidence) == (
        "complete", ("GeneralAnalysisAgent",), 0.9
    )  # fmt: skip


def test_numbers_and_citations_that_no_case_has_are_named_and_removed(chat):
    step = turn(chat, CasesFound(signals=(HOAX,)))
    answer = step.told(chosen(1, answer="It cost $500 million [1][6].")).event
    assert answer.metadata.unsupported_numbers == ("$500 million",)
    assert answer.metadata.citations_removed == 1 and answer.confidence == 0.8


def test_in_chinese_every_word_of_ours_is_chinese(chat):
    answer = turn(chat, CasesFound(signals=(HOAX,)), language="zh").told(chosen(1, answer="")).event
    assert answer.answer == (
        "本系统有 1 个案例符合（过去 2 天，查找：沃尔玛、Litecoin）：1 个不实。\n\n"
        "- 沃尔玛将接受莱特币 [1]\n\n"
        "  不实 · LTC 观望 · 置信度 0.04 · 2026-01-01 03:04 UTC\n\n"
        "  > 「The release is fake.」 – walmart.example（否认，官方）\n\n"
        "  > 「Walmart announced」 – wire.example（支持）\n\n"
        "  读过的网页（无引文）：a.example（否认）、b.example（说的是更早的事件，官方）"
    )


def test_that_no_case_says_anything_is_said_plainly_and_asks_no_model(chat):
    answer = turn(chat, CasesFound()).told().event
    assert (
        answer.answer
        == "No case of this pipeline says anything on that (the last 2 days, looked for: Walmart, Litecoin)."
    )
    assert (answer.sources, answer.metadata.path, answer.confidence) == ((), "complete", 0.2)
    near = turn(chat, CasesFound(signals=(OTHER,)), language="zh").told(chosen(answer="x")).event
    assert near.answer == "本系统没有案例说到这一点（过去 2 天，查找：沃尔玛、Litecoin）。下列案例只提到其中一部分：[2]"
    assert [s.case_id for s in near.sources] == ["case-2"]
    newest = turn(chat, CasesFound(), query=CaseQuery(verdicts=("refuted",), hours=24)).told().event
    assert "(the last day, looked for: refuted)" in newest.answer


def test_without_a_writer_code_tells_the_cases(chat):
    answer = turn(chat, CasesFound(signals=(HOAX, OTHER))).told(REFUSED).event
    assert answer.answer.startswith(
        "2 cases of this pipeline match (the last 2 days, looked for: Walmart, Litecoin): 1 refuted, 1 confirmed.\n\n- Walmart"
    )
    assert "withdrawn · judged by offline rules" in answer.answer
    assert (answer.metadata.path, answer.metadata.agents_missing) == ("partial", ("GeneralAnalysisAgent",))
    assert answer.confidence == 0.25


def test_cases_that_could_not_be_looked_up_are_said_to_be_so_and_never_taken_for_none(chat):
    turn(chat).told(TIMEOUT).fails_with("timeout", retryable=True)
    found = turn(chat).told(REFUSED).event
    assert found == CasesFound(unavailable=("signals: auth (the key is refused: set a valid one)",))
    cut = StepFailed(step="find_cases", failure=REFUSED, attempt=1, outcome="degrade")
    for ending in (found, FinishRequested(requested_by="page"), cut):
        answer = turn(chat, ending).told().event
        assert "could not be looked up" in answer.answer and "No case" not in answer.answer
        assert answer.metadata.path == "partial" and answer.metadata.unavailable


def test_a_look_up_recorded_before_there_were_names_keeps_its_hash():
    plain = FindSignals(asset="BTC", since=START, as_of=START, limit=8)
    assert msgspec.json.decode(msgspec.json.encode(plain)).keys() == {"type", "asset", "since", "as_of", "limit"}
