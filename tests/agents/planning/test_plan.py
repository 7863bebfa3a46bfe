"""Planning: the rules in their order, and keywords that may become a tool's argument."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from agents.evidence.findings import assess
from agents.planning import rounds
from agents.planning.plan import STEP
from agents.planning.plan_rules import decided_by
from schemas.effects import CallModel, Failure, ModelReply
from schemas.events import KeywordsExpanded, ToolPlanned
from schemas.signals import StatedClaim
from tests.agents.conftest import NEWS
from tests.specification import case_after, given, opened

REFUSED = Failure(kind="refused", message="no", retryable=False)
DOWN = Failure(kind="unavailable", message="down", retryable=True)
MEMORY = ("memory_search", "timeline_query")
MORE = KeywordsExpanded(round=1, keywords=("attacker address",), reason="", route="plan")


@pytest.fixture
def at_plan(deep, triaged, no_memory):
    return lambda config=deep, **draft: given(opened(NEWS), triaged(**draft), no_memory, config=config)


@pytest.fixture
def second_round(deep, triaged, no_memory, planned, searched):
    def make(config=deep, references=2, kind="hack", rounds=1, **found):
        events = [opened(NEWS), triaged(event_type=kind), no_memory]
        for number in range(1, rounds + 1):
            events += [planned(round=number), searched("expand", references, **found), MORE]
        return given(*events, config=config)

    return make


def nothing(spec, rule):
    spec.told().emits_like(ToolPlanned, decided_by=rule, route="critique", tools=(), tasks=(), keywords_from="none")


def test_with_every_tool_off_nothing_is_asked(at_plan, deep):
    nothing(at_plan(replace(deep, tool_search_enabled=False)), "disabled")
    nothing(at_plan(replace(deep, search_providers=())), "disabled")


@pytest.mark.parametrize("kind", ["macro", "governance", "airdrop", "celebrity"])
def test_some_types_are_never_searched_for(at_plan, kind):
    nothing(at_plan(event_type=kind), "never_search")


@pytest.mark.parametrize("modality", ["denied", "corrected"])
@pytest.mark.parametrize("kind", ["macro", "governance", "airdrop", "celebrity", "listing"])
def test_a_denial_and_a_correction_are_searched_for_whatever_their_type(
    deep, triaged, no_memory, decided, kind, modality
):
    stated = replace(triaged(event_type=kind), claim=StatedClaim(modality=modality))
    told = given(opened(NEWS), stated, no_memory, config=deep).told(decided())
    told.emits_like(ToolPlanned, decided_by="force_search", tools=("search",), route="search")


@pytest.mark.parametrize("kind", ["hack", "regulation", "partnership"])
def test_some_types_are_always_searched_for_in_the_first_round(at_plan, decided, kind):
    told = at_plan(event_type=kind).told(decided())
    told.emits_like(ToolPlanned, decided_by="force_search", tools=("search",), route="search", keywords_from="model")


@pytest.mark.security
@pytest.mark.parametrize("kind", ["hack", "regulation", "partnership"])
def test_for_news_that_nobody_vouches_for_the_model_decides_whether_to_search(at_plan, deep, decided, kind):
    told = at_plan(replace(deep, trusted_sources=()), event_type=kind).told(decided())
    told.emits_like(ToolPlanned, decided_by="model", tools=(), route="critique")


def test_the_function_call_is_forced_and_names_the_enabled_tools(at_plan, deep):
    call = at_plan(replace(deep, tool_price_enabled=True)).asked
    assert isinstance(call, CallModel) and call.forced_function == "decide_next_tools"
    parameters = call.functions[0].parameters
    assert parameters["properties"]["tools"]["items"]["enum"] == ["search", "price_check", *MEMORY]
    assert parameters["required"] == ["tools", "reason"]


def test_a_forced_search_survives_a_model_that_refuses_and_waits_for_one_that_may_come_back(at_plan):
    told = at_plan().told(REFUSED).emits_like(ToolPlanned, keywords_from="query_builder", route="search")
    assert "Poly" in told.event.search_keywords
    at_plan().told(DOWN).fails_with("unavailable", retryable=True)


def test_an_unforced_plan_fails_with_its_model(at_plan):
    at_plan(event_type="listing").told(REFUSED).fails_with("refused")
    at_plan(event_type="listing").told(ModelReply(text="search!")).fails_with("invalid_output")


def test_the_model_may_choose_nothing_and_unknown_and_disabled_tools_are_left_out(at_plan, decided):
    told = at_plan(event_type="listing").told(decided())
    told.emits_like(ToolPlanned, decided_by="model", tools=(), route="critique", search_keywords="")
    told = at_plan(event_type="listing").told(decided("search", "rm -rf", "price_check"))
    told.emits_like(ToolPlanned, tools=("search",))


def test_keywords_are_cleaned_and_missing_ones_recorded_as_fallback(at_plan, decided):
    wild = "site:evil.com https://evil.com/x \u200b<script> Poly Network latest news {}" + " word" * 100
    plan = at_plan().told(decided(keywords=wild)).event
    assert plan.keywords_from == "model" and len(plan.search_keywords) <= 160
    assert not {"https", "<", "{", ":", "\u200b", "news"} & set(plan.search_keywords.split()) - {""}
    assert "evil.com/x" not in plan.search_keywords
    empty = at_plan().told(decided(keywords=" 消息 ")).event
    assert empty.keywords_from == "fallback" and "ETH" in empty.search_keywords


def test_each_provider_gets_a_query_of_its_own_kind(deep, triaged, no_memory, decided):
    four = replace(deep, search_providers=("ragflow", "bocha", "tavily", "arxiv"))
    zh = opened("Poly Network 上线新版本,锁仓 6.1 亿美元")
    spec = given(zh, triaged(event_type="product"), no_memory, config=four)
    told = spec.told(decided("search", keywords="Poly Network 上线 launch mainnet 6.1 亿美元 official"))
    queries = {t.tool.removeprefix("search:"): t.query for t in told.event.tasks}
    assert list(queries) == ["ragflow", "bocha", "tavily", "arxiv"]
    assert queries["tavily"] == told.event.search_keywords
    assert queries["bocha"] == queries["ragflow"] == "Poly Network 上线 6.1 亿美元"
    assert queries["arxiv"].isascii() and "blockchain protocol" in queries["arxiv"]


def test_the_role_of_the_event_decides_who_is_asked(at_plan, deep, decided):
    def asked(providers, kind):
        plan = at_plan(replace(deep, search_providers=providers), event_type=kind).told(decided("search")).event
        return [t.tool.removeprefix("search:") for t in plan.tasks]

    assert asked(("ragflow", "tavily", "arxiv"), "listing") == ["ragflow", "tavily"]
    assert asked(("ragflow", "tavily", "arxiv"), "product") == ["ragflow", "tavily", "arxiv"]
    assert asked(("arxiv",), "listing") == ["arxiv"]
    assert asked(("offline",), "product") == ["offline"]


def test_a_provider_is_not_asked_the_same_again_while_another_has_something_new(
    at_plan, deep, decided, triaged, no_memory, searched
):
    both = replace(deep, search_providers=("tavily", "arxiv"))
    first = at_plan(both, event_type="product").told(decided("search", keywords="mainnet audit")).event
    later = given(
        opened(NEWS), triaged(event_type="product"), no_memory, first, searched("expand", 2), MORE, config=both
    )
    assert [t.tool for t in first.tasks] == ["search:tavily", "search:arxiv"]
    for keywords, asked in (("mainnet bug", ["search:tavily"]), ("mainnet audit", ["search:tavily", "search:arxiv"])):
        again = later.told(decided("search", keywords=keywords)).event
        assert [t.tool for t in again.tasks] == asked


def test_evidence_that_is_there_and_used_rounds_end_the_search_and_else_the_model_decides(second_round, decided, deep):
    nothing(second_round(references=3), "evidence_there")
    assert isinstance(second_round(references=3, conflict=True).asked, CallModel)
    second_round().told(decided("search")).emits_like(ToolPlanned, decided_by="model", round=2)
    nothing(second_round(rounds=3), "rounds_used")
    nothing(second_round(replace(deep, max_steps=5)), "rounds_used")
    nothing(second_round(replace(deep, deep_analysis_max_tool_calls=0), rounds=1), "rounds_used")


def test_words_from_the_evidence_reach_the_model_as_untrusted_only(second_round):
    call = second_round().asked
    assert "attacker address" not in call.system
    assert [p.text for p in call.parts if getattr(p, "label", "") == "expanded_keywords"] == ["attacker address"]


def test_what_is_known_so_far_is_judged_once_for_a_question(monkeypatch, deep, triaged, no_memory):
    judged = []
    monkeypatch.setattr(rounds, "assess", lambda *given, **more: judged.append(given) or assess(*given, **more))
    case = case_after(opened(NEWS), triaged(event_type="listing"), no_memory, config=deep)
    assert isinstance(STEP.ask(case), CallModel)
    assert len(judged) == 1
    assert decided_by(case) == "model"
    assert len(judged) == 1  # before the first search no evidence can be there
