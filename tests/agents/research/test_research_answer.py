"""The answer: written from anything between nothing and everything, and never surer than what it rests on."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from schemas.effects import CallModel, ModelReply, Trusted, Untrusted, request_hash
from schemas.events import EffectCompleted, StepFailed
from schemas.research_events import (
    AgentResult,
    AgentsReported,
    ChatMessage,
    DataCollected,
    FinishRequested,
    Indicator,
    QuestionRouted,
)
from tests.agents.research.conftest import REFUSED, TIMEOUT, found_signal, value
from tests.specification import START, call_of, given, question

FINISH = FinishRequested(requested_by="user")
HISTORY = tuple(
    ChatMessage(role="user" if n % 2 == 0 else "assistant", content=f"{n} " + "比" * 77 + "特" * 50) for n in range(6)
)
EMPTY = DataCollected(asset="BTC", unavailable=("price: timeout (no answer)",))
USED_UP = tuple(StepFailed(step="answer", failure=TIMEOUT, attempt=n, outcome="retry", retry_at=START) for n in (1, 2))


def result(agent="MacroAgent", **changes) -> AgentResult:
    made = AgentResult(
        agent_name=agent,
        signal="BEARISH",
        confidence=0.6,
        confidence_level="medium",
        reasoning="The policy rate stands at 4.33%.",
        indicators={"dxy": Indicator(value=121.4, impact="BEARISH", weight=0.5)},
        key_factors=("a strong dollar",),
        risk_assessment="a cut",
        prompt_sent="",
        llm_response="",
    )
    return replace(made, **changes)


ALL_RESULTS = (result(), result("TAAgent"), result("OnChainAgent"))


@pytest.fixture
def turn(chat, routed, planned, collected):
    def make(*more, results=ALL_RESULTS, failed=(), history=(), language="en", plan=None, **changes):
        first = question("Is BTC bullish?", *history, language=language)
        reported = AgentsReported(results=results, failed=failed)
        return given(first, routed, plan or planned(), collected(**changes), reported, *more, config=chat)

    return make


def parts_of(call: CallModel, label: str) -> list[str]:
    return [p.text for p in call.parts if isinstance(p, Untrusted) and p.label.startswith(label)]


def test_the_writer_sees_the_first_eighty_characters_of_the_last_three_messages(turn):
    asked = turn(history=HISTORY).asked
    assert parts_of(asked, "history") == [m.content[:80] for m in HISTORY[-3:]]
    assert {len(text) for text in parts_of(asked, "history")} == {80}
    assert "特" * 2 not in "".join(p.text for p in asked.parts) and "0 比" not in "".join(p.text for p in asked.parts)


def test_the_writer_sees_figures_reports_signals_and_what_it_may_cite(turn, chat):
    asked = turn(unavailable=("onchain: mvrv: unknown",)).asked
    facts = next(p.text for p in asked.parts if isinstance(p, Trusted) and p.text.startswith("Facts"))
    assert '"treasury_yield"' in facts and '"rsi_14"' in facts and '{"number": 3, "of": "kraken"}' in facts
    assert [text.partition("\n")[0] for text in parts_of(asked, "report of")] == ["BEARISH, confidence 0.60"] * 3
    assert len(parts_of(asked, "signal")) == 2 and parts_of(asked, "unavailable") == ["onchain: mvrv: unknown"]
    prompt = chat.prompts["research_answer"]
    assert (asked.prompt_name, asked.prompt_hash, asked.temperature) == (prompt.name, prompt.hash, 0.6)


def test_a_complete_answer_cites_sources_that_code_listed(turn, written):
    answer = turn().told(written()).event
    assert [(s.number, s.kind, s.title) for s in answer.sources] == [
        (1, "signal", "The SEC approved options on spot Bitcoin funds worth $1.2 billion"),
        (3, "market", "kraken"),
        (5, "market", "alternative.me"),
    ]
    assert answer.sources[0].case_id == "case-1" and "price 63,450.5 USDT" in answer.sources[1].preview
    assert (answer.metadata.path, answer.metadata.agents_missing) == ("complete", ())
    assert answer.metadata.agents == ("MacroAgent", "TAAgent", "OnChainAgent", "GeneralAnalysisAgent")
    assert (answer.metadata.as_of, answer.metadata.provider_mode, answer.confidence) == (START, "offline", 0.7)


def test_a_citation_that_points_nowhere_is_removed_and_counted(turn, written):
    reply = written(
        answer="Up [1], so they say [99]. Both [1, 2] and 【2】 agree [2,77].",
        summary="Up [42]",
        key_insights=["a [0]"],
    )
    answer = turn().told(reply).event
    assert answer.answer == "Up [1], so they say. Both [1][2] and [2] agree [2]."
    assert (answer.summary, answer.key_insights[0]) == ("Up", "a")
    assert answer.metadata.citations_removed == 4
    assert [s.number for s in answer.sources] == [1, 2]


def test_a_key_point_that_the_text_has_already_is_not_said_again(turn, written):
    text = "**Cautious.** The mood is one of fear, at 22 [5].\n\n恐惧指数为 22，市场情绪低迷 [5]。"
    points = ["The mood is one of fear at 22 [5]", "Options were approved [1]", "恐惧指数为 22，市场情绪低迷"]
    answer = turn().told(written(answer=text, key_insights=points)).event
    assert answer.key_insights == ("Options were approved [1]",)


def test_an_answer_that_cites_nothing_lists_all_that_it_was_given(turn, written):
    answer = turn().told(written(answer="Cautious.", key_insights=[])).event
    assert [s.number for s in answer.sources] == list(range(1, len(answer.sources) + 1))
    assert {s.kind for s in answer.sources} == {"signal", "market"}


def test_numbers_that_nothing_supports_are_named_and_cost_confidence_also_those_of_an_agent(turn, written):
    answer = turn().told(written(answer="It will reach $120,000 [1].", key_insights=[], confidence=1.0)).event
    assert answer.metadata.unsupported_numbers == ("$120,000",)
    assert answer.confidence == 0.8
    told = (
        result(reasoning="A low of 61,234 and a target of $88,000.", unsupported_numbers=("$88,000",)),
        *ALL_RESULTS[1:],
    )
    answer = turn(results=told).told(written(answer="From 61,234 to $88,000 [1].", key_insights=[])).event
    assert answer.metadata.unsupported_numbers == ("$88,000",)


def test_confidence_is_bounded_by_what_is_missing_and_a_writer_that_is_less_sure_stays_so(turn, written, planned):
    sure = written(confidence=1.0)
    assert turn().told(sure).event.confidence == 0.9
    assert turn(results=ALL_RESULTS[:2]).told(sure).event.confidence == 0.75  # an agent less
    no_figures = turn(results=ALL_RESULTS[:1], onchain=(), indicators=())  # two agents, two blocks less
    assert no_figures.told(written(confidence=1.0, answer="Down [1].", key_insights=[])).event.confidence == 0.5
    assert turn(results=()).told(sure).event.confidence == 0.3
    only_macro = planned("MacroAgent")  # what nobody planned to read is not missing
    assert turn(results=ALL_RESULTS[:1], plan=only_macro, onchain=()).told(sure).event.confidence == 0.9
    assert turn().told(written(confidence=0.33)).event.confidence == 0.33
    assert turn().told(written(confidence=-4)).event.confidence == 0.05
    assert turn().told(written(confidence=float("nan"))).event.confidence == 0.05


def test_an_answer_without_an_agent_or_a_block_is_partial_and_names_it(turn, written):
    answer = (
        turn(results=ALL_RESULTS[:1], failed=(("TAAgent", "timeout"), ("OnChainAgent", "auth"))).told(written()).event
    )
    assert answer.metadata.path == "partial"
    assert answer.metadata.agents_missing == ("TAAgent", "OnChainAgent")
    answer = turn(macro=(), unavailable=("macro: timeout (slow)",)).told(written()).event
    assert (answer.metadata.path, answer.metadata.unavailable) == ("partial", ("macro: timeout (slow)",))


@pytest.mark.parametrize("upto", [0, 1, 2, 3])
def test_finishing_early_answers_from_what_is_there(chat, routed, planned, collected, written, upto):
    events = (routed, planned(), collected())[:upto]
    stopped = given(question("Is BTC bullish?"), *events, FINISH, config=chat)
    assert any(isinstance(p, Trusted) and "asked for an answer now" in p.text for p in stopped.asked.parts)
    answer = stopped.told(written(answer="Not enough is known.", key_insights=[], confidence=1.0)).event
    assert answer.metadata.path == "partial"
    missing = {0: ("SuperAgent",), 1: ("PlanningAgent",)}.get(upto, ("MacroAgent", "TAAgent", "OnChainAgent"))
    assert answer.metadata.agents_missing == missing
    assert answer.confidence == (0.3 if upto == 3 else 0.2)
    assert ("data: none was collected" in answer.metadata.unavailable) == (upto < 3)


def test_finishing_amid_the_analysis_uses_the_agents_that_have_answered(
    chat, routed, planned, collected, judged, written
):
    opening = (question("Is BTC bullish?"), routed, planned(), collected())
    asked = given(*opening, config=chat).asked[1]
    done = EffectCompleted(step="analyze", request_hash=request_hash(asked), calls=(call_of(asked, judged()),))
    for cut in (FINISH, StepFailed(step="analyze", failure=REFUSED, attempt=1, outcome="degrade")):
        answer = given(*opening, done, cut, config=chat).told(written()).event
        assert answer.metadata.agents == ("TAAgent", "GeneralAnalysisAgent")
        assert answer.metadata.agents_missing == ("MacroAgent", "OnChainAgent")
        assert answer.metadata.path == "partial"


def test_a_routing_that_failed_is_answered_from_nothing_and_a_direct_answer_is_kept(chat, written):
    failed = StepFailed(step="route", failure=REFUSED, attempt=1, outcome="degrade")
    answer = given(question("What is BTC?"), failed, config=chat).told(written(answer="A coin.", key_insights=[])).event
    assert (answer.metadata.path, answer.metadata.agents_missing) == ("partial", ("SuperAgent",))
    assert answer.sources == () and answer.confidence == 0.2
    direct = QuestionRouted(
        decision="DIRECT_ANSWER", reasoning="", confidence=0.8, direct_answer="Momentum.", route="answer"
    )
    answer = given(question("RSI?"), direct, FINISH, config=chat).told().event
    assert (answer.answer, answer.metadata.path) == ("Momentum.", "direct")


def test_a_writer_that_may_still_answer_or_gave_nothing_is_asked_again(turn, written):
    turn().told(TIMEOUT).fails_with("timeout", retryable=True)
    turn().told(ModelReply(data={"answer": ""})).fails_with("invalid_output", retryable=True)
    turn().told(written(answer="![](https://evil.example/x)")).fails_with("invalid_output", retryable=True)


@pytest.mark.parametrize("language", ["en", "zh"])
def test_without_a_writer_code_tells_what_is_there(turn, language):
    summary = "Bridge lost funds [4]"
    for events, failure in ((USED_UP, TIMEOUT), ((), REFUSED)):
        answer = turn(*events, language=language, signals=(found_signal(1, summary=summary),)).told(failure).event
        assert answer.confidence == 0.25
        assert answer.metadata.agents_missing == ("GeneralAnalysisAgent",)
        assert (answer.metadata.path, answer.metadata.unsupported_numbers) == ("partial", ())
        assert (
            f"{'价格' if language == 'zh' else 'price'}: 63,450.5 USDT [2]" in answer.answer
            and "Bridge lost funds [1]" in answer.answer
        )
        assert (
            "宏观智能体: 看跌" if language == "zh" else "Macro agent: bearish"
        ) in answer.answer and failure.kind in answer.answer
        assert ("撰写回答的模型未能应答" in answer.answer) == (language == "zh")
        assert len(answer.sources) >= 4


def test_without_a_writer_and_without_anything_the_turn_fails(chat, routed, planned):
    nothing = given(question("BTC?"), routed, planned(), EMPTY, AgentsReported(results=()), config=chat)
    nothing.told(REFUSED).fails_with("auth", retryable=False)
    given(question("BTC?"), FINISH, config=chat).told(REFUSED).fails_with("auth")


def test_an_answer_keeps_its_lines_and_loses_its_links(turn, written):
    text = "# Outlook\n\n- one [1]\n- two, see [here](https://evil.example)\n\n\n\nEnd\u202e."
    answer = turn().told(written(answer=text)).event
    assert answer.answer == "# Outlook\n\n- one [1]\n- two, see here\n\nEnd."


def test_a_source_of_many_figures_previews_the_first_of_them(turn, written):
    many = tuple(value(f"figure_{n}", float(n), "", "somewhere") for n in range(20))
    answer = turn(macro=many).told(written(answer="x", key_insights=[])).event
    preview = next(s.preview for s in answer.sources if s.title == "somewhere")
    assert preview.endswith("figure 7 7.0; 12 more")
