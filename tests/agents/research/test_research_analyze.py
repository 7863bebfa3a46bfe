"""Analyze: three agents side by side or in order, each judged by what it was given, none stopped by another's failure."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from agents.research.results import agent_result, level
from schemas.effects import CallModel, Failure, ModelReply, Trusted, Untrusted, request_hash
from schemas.events import EffectCompleted, StepFailed
from schemas.research_events import AgentResult, AgentsReported, ChatMessage
from tests.agents.research.conftest import REFUSED, TIMEOUT, value
from tests.specification import START, call_of, given, question

HISTORY = (ChatMessage(role="user", content="an earlier question"), ChatMessage(role="assistant", content="an answer"))


@pytest.fixture
def turn(chat, routed, planned, collected):
    def make(*agents, after=(), data=(), language="en", more=(), **changes):
        plan = planned(*agents, after=after, data=data)
        first = question("Is BTC bullish?", *HISTORY, language=language)
        return given(first, routed, plan, collected(**changes), *more, config=chat)

    return make


def facts_of(call: CallModel) -> str:
    return next(p.text for p in call.parts if isinstance(p, Trusted) and p.text.startswith("Facts"))


def untrusted(call: CallModel) -> dict[str, str]:
    return {p.label: p.text for p in call.parts if isinstance(p, Untrusted)}


def test_three_agents_are_asked_at_once_each_by_its_own_prompt_and_see_none_of_the_history(turn, chat):
    asked = turn().asked
    assert [c.task for c in asked] == ["research_macro", "research_ta", "research_onchain"]
    assert [(c.temperature, c.max_output_tokens) for c in asked] == [(1.0, 50000), (0.6, 8192), (0.7, 8192)]
    for call in asked:
        prompt = chat.prompts[call.task]
        assert (call.prompt_name, call.prompt_version, call.prompt_hash) == (prompt.name, prompt.version, prompt.hash)
    for call in turn().asked:
        assert not [label for label in untrusted(call) if label.startswith("history")]
        assert "an earlier question" not in call.system + "".join(p.text for p in call.parts)


def test_each_sees_its_own_figures_and_the_price(turn):
    macro, ta, onchain = map(facts_of, turn().asked)
    assert '"treasury_yield": {"observed_at"' in macro and "rsi_14" not in macro and "mvrv" not in macro
    assert '"rsi_14": {"observed_at"' in ta and "last_bars" in ta and "m2_growth" not in ta
    assert '"network_activity": {"observed_at"' in onchain and '"missing": ["exchange_inflow"' in onchain
    assert all('"price": {"observed_at"' in one for one in (macro, ta, onchain))


def test_signals_that_the_plan_asks_for_and_what_is_unavailable_are_outside_text(turn):
    without, with_them = turn("TAAgent").asked[0], turn("TAAgent", data=("signals",)).asked[0]
    assert not [label for label in untrusted(without) if label.startswith("signal")]
    assert "options on spot Bitcoin" in untrusted(with_them)["signal 1"]
    call = turn("MacroAgent", unavailable=("macro: m2_growth: none published",)).asked[0]
    assert untrusted(call)["unavailable data"] == "macro: m2_growth: none published"


def test_a_result_has_the_sources_values_and_bounded_judgements(turn, judged):
    event = turn("MacroAgent").told(judged(confidence=0.75)).event
    (result,) = event.results
    rate, mood = result.indicators["fed_funds_rate"], result.indicators["fear_greed"]
    assert (rate.value, rate.impact, rate.weight, rate.source) == (4.33, "BEARISH", 0.8, "fred")
    assert (mood.value, mood.impact, mood.weight) == (22.0, "NEUTRAL", 0.0)
    assert set(result.indicators) == {"fed_funds_rate", "m2_growth", "dxy", "fear_greed", "treasury_yield"}
    assert (result.signal, result.confidence, result.confidence_level) == ("BEARISH", 0.75, "high")
    assert (result.missing, result.unsupported_numbers, event.failed) == ((), (), ())
    assert result.prompt_sent.startswith("You are MacroAgent") and "Is BTC bullish?" in result.prompt_sent
    assert '"BEARISH"' in result.llm_response


def test_a_value_that_a_model_writes_and_a_name_that_no_source_gave_reach_nothing(turn, judged):
    reply = judged(
        indicators=[
            {"name": "dxy", "impact": "BULLISH", "weight": 9, "value": 1.0},
            {"name": "dxy", "impact": "BEARISH", "weight": 0.1},
            {"name": "moon_phase", "impact": "BULLISH", "weight": 1.0},
        ]
    )
    (result,) = turn("MacroAgent").told(reply).event.results
    assert "moon_phase" not in result.indicators
    dxy = result.indicators["dxy"]
    assert (dxy.value, dxy.impact, dxy.weight) == (121.4, "BULLISH", 1.0)
    extra = turn("OnChainAgent", onchain=(value("hash_rate", 1.1e9, "TH/s", "blockchain.info"),))
    (result,) = extra.told(judged(indicators=[{"name": "hash_rate", "impact": "BULLISH", "weight": 0.4}])).event.results
    assert result.indicators["hash_rate"].value == 1.1e9 and result.indicators["hash_rate"].weight == 0.4


def test_an_indicator_that_no_source_gave_has_no_weight_and_bounds_how_sure_an_agent_may_be(turn, judged):
    reply = judged(indicators=[{"name": "exchange_inflow", "impact": "BEARISH", "weight": 1.0}])
    (result,) = turn("OnChainAgent").told(reply).event.results
    inflow = result.indicators["exchange_inflow"]
    assert (inflow.value, inflow.impact, inflow.weight) == (None, "NEUTRAL", 0.0)
    assert result.missing == ("exchange_inflow", "exchange_outflow")
    (whole,) = turn("MacroAgent").told(judged(confidence=1.0)).event.results
    (half,) = turn("OnChainAgent").told(judged(confidence=1.0)).event.results  # three of five
    mood_only = turn("MacroAgent", macro=())  # one of five
    (least,) = mood_only.told(judged(confidence=1.0)).event.results
    assert (whole.confidence, half.confidence, least.confidence) == (0.9, 0.66, 0.42)


def test_the_level_is_of_the_bounded_confidence():
    expected = {0.39: "low", 0.4: "medium", 0.69: "medium", 0.7: "high"}
    assert {confidence: level(confidence) for confidence in expected} == expected


def test_numbers_that_no_figure_supports_are_listed(turn, judged):
    reply = judged(reasoning="Rate 4.33%, mood 22, target $99,000.", key_factors=["inflation of 2.9%"])
    (result,) = turn("MacroAgent").told(reply).event.results
    assert result.unsupported_numbers == ("$99,000", "2.9%")


def test_words_are_shown_without_links_and_within_bounds(turn, judged):
    reply = judged(
        reasoning="![x](https://evil.example/p) see www.evil.example\n" + "word " * 5_000,
        key_factors=["a"] * 30 + ["b"],
    )
    (result,) = turn("MacroAgent").told(reply).event.results
    assert "evil.example" not in result.reasoning and len(result.reasoning) <= 6_000
    assert result.key_factors == ("a", "b")


def test_one_that_fails_for_good_leaves_the_others_and_all_may_fail(turn, judged):
    event = turn().told(judged(), REFUSED, judged(signal="BULLISH")).event
    assert [r.agent_name for r in event.results] == ["MacroAgent", "OnChainAgent"]
    assert event.failed == (("TAAgent", "auth: the key is refused: set a valid one"),)
    event = turn().told(REFUSED, REFUSED, REFUSED).event
    assert event.results == () and len(event.failed) == 3


def test_one_that_fails_for_a_while_is_asked_again_alone(turn, chat, routed, planned, collected, judged):
    turn().told(judged(), TIMEOUT, judged()).fails_with("timeout", retryable=True)
    asked = turn().asked
    events = [question("Is BTC bullish?", *HISTORY), routed, planned(), collected()]
    events += [
        EffectCompleted(step="analyze", request_hash=request_hash(e), calls=(call_of(e, r),))
        for e, r in zip(asked, (judged(), TIMEOUT, judged()), strict=True)
    ]
    events += [StepFailed(step="analyze", failure=TIMEOUT, attempt=1, outcome="retry", retry_at=START)]
    again = given(*events, config=chat)
    assert [c.task for c in again.asked if again.case.replies.of(c) is None] == ["research_ta"]
    event = again.told(judged(signal="NEUTRAL")).event
    assert [(r.agent_name, r.signal) for r in event.results] == [
        ("MacroAgent", "BEARISH"),
        ("TAAgent", "NEUTRAL"),
        ("OnChainAgent", "BEARISH"),
    ]


def test_when_the_attempts_are_used_up_it_is_reported_as_failed(turn, judged):
    before = tuple(
        StepFailed(step="analyze", failure=TIMEOUT, attempt=n, outcome="retry", retry_at=START) for n in (1, 2)
    )
    event = turn(more=before).told(judged(), TIMEOUT, judged()).event
    assert event.failed == (("TAAgent", "timeout: no answer within 30 s"),)
    assert len(event.results) == 2


def test_a_reply_that_fits_no_schema_is_asked_for_once_more_then_it_failed(turn, judged):
    bad = ModelReply(text="I think it goes up", data=None)
    (result,) = turn("MacroAgent").told(bad, judged()).event.results
    assert "did not fit the schema" in result.prompt_sent
    event = turn("MacroAgent").told(bad, bad).event
    assert event.failed == (("MacroAgent", "invalid_output: its replies did not fit the schema"),)


def test_an_agent_without_any_figure_of_its_own_is_not_asked_and_without_any_data_nobody_is(turn, judged):
    given_turn = turn(candles=(), indicators=(), unavailable=("candles: timeout (no answer)",))
    assert [c.task for c in given_turn.asked] == ["research_macro", "research_onchain"]
    event = given_turn.told(judged(), judged()).event
    assert event.failed == (("TAAgent", "not asked: no source gave any figure of candles"),)
    empty = dict.fromkeys(("price", "macro", "fear_greed", "onchain", "indicators", "candles", "signals"), ())
    event = turn(**empty).told().event
    assert isinstance(event, AgentsReported) and event.results == () and len(event.failed) == 3


def test_agents_that_come_after_see_the_results_of_the_others_and_wait_for_those_that_may_still_come(turn, judged):
    ordered = turn("TAAgent", after=("MacroAgent",))
    assert [c.task for c in ordered.asked] == ["research_ta"]
    event = ordered.told(judged(signal="BULLISH", reasoning="Above the average."), judged()).event
    first, second = event.results
    assert (first.agent_name, second.agent_name) == ("TAAgent", "MacroAgent")
    assert "report of" not in first.prompt_sent
    assert "<report of TAAgent>\nBULLISH" in second.prompt_sent and "Above the average." in second.prompt_sent
    turn("TAAgent", after=("MacroAgent",)).told(TIMEOUT).fails_with("timeout", retryable=True)
    event = turn("TAAgent", after=("MacroAgent",)).told(REFUSED, judged()).event
    assert [r.agent_name for r in event.results] == ["MacroAgent"] and event.failed[0][0] == "TAAgent"


def test_a_single_call_gives_its_result_to_whoever_watches(turn, judged):
    case = turn().case
    call = call_of(turn().asked[1], judged())
    result = agent_result(case, call)
    assert isinstance(result, AgentResult) and result.agent_name == "TAAgent"
    assert agent_result(case, replace(call, reply=TIMEOUT)) == TIMEOUT
    bad = agent_result(case, replace(call, reply=ModelReply(data=None)))
    assert isinstance(bad, Failure) and bad.kind == "invalid_output"
    assert isinstance(agent_result(case, replace(call, prompt_name="triage")), Failure)


def test_an_agent_whose_reply_was_cut_is_asked_once_more_before_those_that_see_its_result(turn, judged):
    cut = Failure(kind="cut", message="the answer was cut", retryable=False)
    event = turn("TAAgent", after=("MacroAgent",)).told(cut, judged(reasoning="whole"), judged()).event
    assert ([r.agent_name for r in event.results], event.failed) == (["TAAgent", "MacroAgent"], ())
    assert "whole" in event.results[1].prompt_sent and event.results[0].prompt_sent.startswith("You are TAAgent")
    twice = turn("MacroAgent").told(cut, cut).event
    assert (twice.results, twice.failed) == ((), (("MacroAgent", "cut: the answer was cut"),))
