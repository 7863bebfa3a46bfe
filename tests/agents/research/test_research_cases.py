"""Questions that the pipeline's own cases answer: looked up, told with verdicts and quotes, and plainly none where there is none."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest
from msgspec.structs import replace

from agents.research.answers import NAMED_HOURS, NEWEST_HOURS, case_query
from schemas.effects import FindSignals, ModelReply, SignalsReply, Trusted, Untrusted
from schemas.events import StepFailed
from schemas.evidence import FoundPage
from schemas.research_events import (
    AgentResult,
    AgentsReported,
    CaseQuery,
    CasesFound,
    FinishRequested,
    QuestionRouted,
)
from tests.agents.research.conftest import REFUSED, TIMEOUT, found_signal, world
from tests.specification import START, given, question

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


# A question of two halves: figures, and facts


MACRO = AgentResult(
    agent_name="MacroAgent", signal="NEUTRAL", confidence=0.5, confidence_level="medium", reasoning="Mixed.",
    indicators={}, key_factors=(), risk_assessment="", prompt_sent="", llm_response="",
)  # fmt: skip


@pytest.fixture
def halves(chat, planned, collected):
    """A turn before its answer. Its data has these signals; its plan called one agent, which gave ``results``."""

    def make(*, signals=(), unavailable=(), results=(MACRO,), language="en"):
        asked = question("What is BTC's trend, and does Walmart take Litecoin?", language=language)
        data = collected(signals=signals, unavailable=unavailable)
        told = (replace(routed(), route="plan"), planned("MacroAgent"), data, AgentsReported(results=results))
        return given(asked, *told, config=chat)

    return make


def wrote(text):
    return ModelReply(data={"answer": text, "summary": "Both.", "key_insights": [], "confidence": 0.8})


def test_a_question_of_two_halves_is_planned_and_its_facts_are_looked_up_beside_the_data(chat, planned):
    cases = {"asset": "LTC", "names": [["Walmart", "沃尔玛"], ["Litecoin"]], "verdicts": [], "hours": 48}
    reply = {"decision": "ANALYSIS_AND_CASES", "reasoning": "", "confidence": 1, "direct_answer": "", "cases": cases}
    said = given(question("Both?"), config=chat).told(ModelReply(data=reply)).event
    assert (said.decision, said.route, said.cases) == ("COMPLEX_ANALYSIS", "plan", QUERY)

    step = given(question("Both?"), said, planned(), config=chat)
    lookups = [effect for effect in step.asked if isinstance(effect, FindSignals)]
    assert [(one.asset, one.names) for one in lookups] == [("BTC", ()), ("LTC", QUERY.names)]
    twice, own, case = found_signal(1), found_signal(2), found_signal(1, matched=("Walmart",), signal_id="other")
    replies = {
        lookups[0]: SignalsReply(signals=(twice, own)),
        lookups[1]: SignalsReply(signals=(case, replace(own, matched=("Litecoin",)))),
    }
    data = step.told(*(replies.get(effect) or world(effect) for effect in step.asked)).event
    told = [(s.number, s.signal_id, s.matched) for s in data.signals]
    assert told == [(1, "other", ("Walmart",)), (2, "signal-2", ("Litecoin",)), (3, "signal-1", ())]


def test_both_halves_are_written_and_a_cited_case_stands_below_as_it_was_recorded(halves):
    step = halves(signals=(HOAX, replace(OTHER, matched=())))
    labels = [p.label for p in step.asked.parts if isinstance(p, Untrusted)]
    assert {"case 1", "signal 2"} <= set(labels) and "case 2" not in labels
    answer = step.told(wrote("Neutral [4]. No: Walmart denies it [1].")).event
    assert answer.answer.startswith(
        "Neutral [4]. No: Walmart denies it [1].\n\n**What the cases of this pipeline say**\n\n- Walmart"
    )
    assert "> “The release is fake.” – walmart.example (denies it, official)" in answer.answer
    assert "not answered" not in answer.answer and {1, 4} == {s.number for s in answer.sources}


@pytest.mark.parametrize(
    ("language", "none", "failed", "unanalysed"),
    [
        ("en", "No case of this pipeline says anything on that (the last 2 days, looked for: Walmart, Litecoin).",
         "could not be looked up (cases: unavailable (away))", "The other half of the question is not answered"),
        ("zh", "本系统没有案例说到这一点（过去 2 天，查找：沃尔玛、Litecoin）。", "未能查到本系统的案例", "问题的另一半未能回答"),
    ],
)  # fmt: skip
def test_the_half_that_was_not_answered_is_named(halves, language, none, failed, unanalysed):
    answer = halves(language=language).told(wrote("Neutral.")).event
    assert none in answer.answer and unanalysed not in answer.answer
    away = halves(unavailable=("cases: unavailable (away)",), language=language).told(wrote("Neutral.")).event
    assert failed in away.answer and (answer.metadata.path, away.metadata.path) == ("complete", "partial")
    alone = halves(signals=(HOAX,), results=(), language=language).told(wrote("No [1].")).event
    assert unanalysed in alone.answer and none not in alone.answer


def test_without_a_writer_code_lists_both_halves(halves):
    answer = halves(signals=(HOAX,)).told(REFUSED).event
    assert "**What the agents concluded**" in answer.answer
    assert answer.answer.index("**Figures**") < answer.answer.index("- Walmart accepts Litecoin, see [1]")
    assert "Signals of the news pipeline" not in answer.answer
