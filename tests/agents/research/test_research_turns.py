"""Whole turns on the offline rules: from a question in two languages to an answer, whatever fails on the way."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from agents.prompts import load_prompts
from infra.offline.model import OfflineModel
from schemas.config import Snapshot
from schemas.effects import CallModel, request_hash
from schemas.events import CaseFailed, EffectCompleted
from schemas.research_events import AnswerGiven
from tests.agents.research.conftest import REFUSED, TIMEOUT, world
from tests.specification import question, run_case

MODEL = OfflineModel()


def ask(message: str, language: str = "en", *, down: frozenset[str] = frozenset(), blocks=(), failure=REFUSED):
    hashes: list[str] = []

    def perform(effect):
        hashes.append(request_hash(effect))
        if isinstance(effect, CallModel):
            return failure if effect.task in down else asyncio.run(MODEL.perform(effect)).reply
        return world(effect, **dict.fromkeys(blocks, failure))

    config = Snapshot(prompts=load_prompts("research"))
    return run_case(question(message, language=language), perform, config=config), hashes


def test_an_outlook_runs_through_every_agent_to_a_complete_answer():
    run, _ = ask("Is BTC bullish?")
    answer = run.case.head
    assert isinstance(answer, AnswerGiven) and answer.metadata.path == "complete"
    assert answer.metadata.agents == ("MacroAgent", "TAAgent", "OnChainAgent", "GeneralAnalysisAgent")
    assert (answer.metadata.unsupported_numbers, answer.metadata.citations_removed) == ((), 0)
    assert all(r.unsupported_numbers == () for r in run.case.reported.results)
    assert {s.kind for s in answer.sources} == {"signal", "market"}
    told = [type(e).__name__ for e in run.events if not isinstance(e, EffectCompleted)]
    assert told[1:] == ["QuestionRouted", "AnalysisPlanned", "DataCollected", "AgentsReported", "AnswerGiven"]


def test_a_question_in_chinese_is_answered_in_chinese():
    run, _ = ask("比特币接下来会涨吗?", "zh")
    answer = run.case.head
    assert answer.answer.startswith("离线规则") and "看" in answer.summary
    assert answer.metadata.unsupported_numbers == ()


@pytest.mark.parametrize(
    ("message", "language"), [("Is it true that the SEC approved options?", "en"), ("SEC 批准期权是真的吗?", "zh")]
)
def test_a_question_of_facts_is_answered_from_the_cases_without_a_chapter_on_the_market(message, language):
    run, hashes = ask(message, language)
    answer = run.case.head
    told = [type(e).__name__ for e in run.events if not isinstance(e, EffectCompleted)]
    assert told == ["QuestionAsked", "QuestionRouted", "CasesFound", "AnswerGiven"]
    assert len(hashes) == 3 and {s.kind for s in answer.sources} <= {"signal"}
    assert ("案例" if language == "zh" else "of this pipeline") in answer.answer
    assert answer.metadata.path == "complete"


def test_a_greeting_costs_one_call():
    run, hashes = ask("你好", "zh")
    assert run.case.head.metadata.path == "direct" and len(hashes) == 1


@pytest.mark.parametrize(
    "task", ["research_route", "research_plan", "research_macro", "research_ta", "research_answer"]
)
@pytest.mark.parametrize("failure", [REFUSED, TIMEOUT], ids=["for good", "for a while"])
def test_whichever_agent_is_down_the_turn_ends_in_an_answer_that_names_it(task, failure):
    run, _ = ask("Is BTC bullish?", down=frozenset({task}), failure=failure)
    answer = run.case.head
    named = {
        "research_route": "SuperAgent",
        "research_plan": "PlanningAgent",
        "research_macro": "MacroAgent",
        "research_ta": "TAAgent",
        "research_answer": "GeneralAnalysisAgent",
    }[task]
    assert isinstance(answer, AnswerGiven) and answer.metadata.path == "partial"
    assert named in answer.metadata.agents_missing and answer.confidence <= 0.75


def test_with_every_source_down_the_answer_says_that_there_are_no_figures():
    every = ("price", "macro", "fear_greed", "onchain", "candles", "signals")
    for failure in (REFUSED, TIMEOUT):
        run, _ = ask("Is BTC bullish?", blocks=every, failure=failure)
        answer = run.case.head
        assert isinstance(answer, AnswerGiven) and answer.confidence <= 0.2
        assert "No figures are there" in answer.answer and len(answer.metadata.unavailable) == 6


def test_with_every_model_down_the_turn_fails_and_says_why():
    everyone = frozenset(load_prompts("research"))
    run, _ = ask("Is BTC bullish?", down=everyone)
    assert isinstance(run.case.head, CaseFailed) and run.case.head.reason.startswith("auth: ")


def test_two_runs_of_a_turn_ask_and_say_the_same():
    (one, asked), (two, again) = ask("Is BTC bullish?"), ask("Is BTC bullish?")
    assert asked == again and len(asked) == len(set(asked)) == 12
    assert msgspec.json.encode(one.events) == msgspec.json.encode(two.events)
