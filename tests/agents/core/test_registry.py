"""The registry: a graph that does not close is refused, the next step depends on the head alone, the picture is the graph."""

from __future__ import annotations

import pytest

from agents.core.registry import Registry
from agents.core.step import On
from agents.graphs import NEWS, verification
from schemas.effects import Failure
from schemas.errors import ConfigError
from schemas.events import (
    CaseDegraded,
    CaseDropped,
    CaseFailed,
    CaseTriaged,
    ContextGathered,
    EventReceived,
    StepFailed,
    StepStarted,
)
from tests import builders
from tests.specification import START, case_after, opened

DRAFT = builders.draft()
DOWN = Failure(kind="timeout", message="slow", retryable=True)


def step(name, takes, emits):
    return type(name.title(), (), {"name": name, "takes": takes, "emits": emits})()


@pytest.fixture(scope="module")
def graph():
    return verification()


def without(graph, *names):
    return [s for s in graph.steps.values() if s.name not in names]


def test_the_pipeline_closes_and_holds_every_step(graph):
    assert set(graph.steps) == {
        "triage", "recall", "plan", "search", "scrape", "expand", "critique", "retract", "synthesize",
        "single_pass", "conclude", "degrade", "give_up", "find_story", "close_telling", "look_again",
    }  # fmt: skip


def test_a_graph_without_one_of_its_steps_is_refused(graph):
    others = {"conclude", "degrade", "give_up", "find_story", "close_telling", "look_again"}
    for name in graph.steps.keys() - others:
        with pytest.raises(ConfigError, match=r"leads? to no step"):
            Registry(without(graph, name), NEWS)


def test_two_steps_for_one_event_and_two_of_one_name_are_refused(graph):
    twin = step("twin", (On(CaseTriaged, route="deep"),), (ContextGathered,))
    with pytest.raises(ConfigError, match="leads to two steps"):
        Registry([*graph.steps.values(), twin], NEWS)
    with pytest.raises(ConfigError, match="two steps are called 'recall'"):
        Registry([*graph.steps.values(), graph.steps["recall"]], NEWS)


def test_a_route_that_no_event_has_and_a_field_that_is_no_literal_are_refused(graph):
    wild = step("wild", (On(CaseTriaged, route="sideways"),), (ContextGathered,))
    with pytest.raises(ConfigError, match="never 'sideways'"):
        Registry([*graph.steps.values(), wild], NEWS)
    wild = step("wild", (On(CaseDegraded, reason="auth"),), (CaseFailed,))
    with pytest.raises(ConfigError, match=r"only a Literal field can route|routes by"):
        Registry([wild, *without(graph, "single_pass")], NEWS)


@pytest.mark.parametrize(
    ("route", "name"),
    [("deep", "recall"), ("single_pass", "single_pass"), ("preliminary", "conclude"), ("story", "find_story")],
)
def test_the_route_of_the_head_decides_the_next_step(graph, route, name):
    triaged = CaseTriaged(draft=DRAFT, route=route, gate_reason="", rollout_bucket=0.0)
    case = case_after(opened("x"), triaged)
    assert graph.next_step(case) is graph.next_step(case) is graph.steps[name]


def test_a_retry_and_a_suspect_lead_back_other_failures_to_the_net_below_and_an_end_nowhere(graph):
    retry = StepFailed(step="search", failure=DOWN, attempt=1, outcome="retry", retry_at=START)
    assert graph.next_step(case_after(opened("x"), retry)).name == "search"
    assert graph.next_step(case_after(opened("x"), StepStarted(step="plan", crashes=3))).name == "plan"
    for outcome, name in (("degrade", "degrade"), ("give_up", "give_up")):
        failed = StepFailed(step="plan", failure=DOWN, attempt=3, outcome=outcome)
        assert graph.next_step(case_after(opened("x"), failed)).name == name
    assert graph.next_step(case_after(opened("x"), CaseDropped(reason="spam", detail=""))) is None


def test_steps_nearer_the_end_have_smaller_depth(graph):
    assert graph.depth["synthesize"] == graph.depth["conclude"] == 0
    assert graph.depth["critique"] < graph.depth["search"] < graph.depth["recall"] < graph.depth["triage"]


def test_the_picture_shows_every_edge_once(graph):
    picture = graph.mermaid().splitlines()
    assert picture[0] == "flowchart LR" and len(picture) == len(set(picture))
    assert '  triage -- "CaseTriaged · deep" --> recall' in picture
    assert '  synthesize -- "SignalSynthesized" --> publish' in picture
    assert len(picture) == len(graph.edges()) + 3


def test_every_step_is_documented_and_names_itself(graph):
    assert all((type(s).__doc__ or "").strip() and s.name.isidentifier() for s in graph.steps.values())
    assert EventReceived in {on.event for on in graph.steps["triage"].takes}
